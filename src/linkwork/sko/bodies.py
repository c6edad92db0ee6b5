"""A model's bodies in one state: how they move, and what force that takes, over numbers or symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.ir.functions import atan2, sincos
from linkwork.lazy import cached_property
from linkwork.spatial import Inertia, Pose, is_zero, skew
from linkwork.spatial.constants import length, product
from linkwork.topology.kinematics import BodyMotion, Ground, JointFrame, JointState, Share


class Rotor(NamedTuple):
    """What a body is as a rotor: the rest of it is lumped into the body that carries it (see `simplify.rotors`).

    `uneven` [kg m²], (3, 3), is what turns with it of its inertia across the axis, in its own axes; zero where it is round. If
    `geared`, its inertia about the axis is elsewhere too, and an `armature` [kg m²] of its joint.
    """

    uneven: np.ndarray
    geared: bool
    armature: float

    def times(self, factor: float) -> Rotor:
        """The same in another unit of mass."""
        return Rotor(factor * self.uneven, self.geared, factor * self.armature)


class BodyDescription(NamedTuple):
    """A body in a frame of its own, whose pose in the body's frame is `C`, and its joint there (see `JointFrame`).

    `inertia` is constant and in this frame; `reduced` is the one after base parameters were regrouped, None where they were
    not; `rotor` says what the body is as a rotor. `thin`: it is a point, or nearly, and digits are dearer than operations.
    """

    frame: JointFrame
    inertia: Inertia
    reduced: Inertia | None = None
    rotor: Rotor | None = None
    thin: bool = False

    @property
    def C(self) -> Pose:
        return self.frame.C

    def times(self, factor: float) -> BodyDescription:
        """The same in another unit of mass."""
        reduced = None if self.reduced is None else self.reduced.times(factor)
        return self._replace(inertia=self.inertia.times(factor), reduced=reduced, rotor=self.rotor and self.rotor.times(factor))


class RigidBody(BodyMotion):
    """A rigid body in motion: its inertia, with that of the rotors on it, and the forces that its motion takes.

    `f_ext` is the force [m, f] from outside in the axes of the body's own frame, (6,), or None. `carries` gives the rotors on
    it; it is asked only when forces and inertias are.
    """

    def __init__(
        self,
        on: Ground | BodyMotion,
        state: JointState,
        v: np.ndarray,
        share: Callable[[], Share],
        dy: np.ndarray | None,
        description: BodyDescription,
        f_ext: np.ndarray | None,
        carries: Callable[[], Sequence[RigidBody]],
    ) -> None:
        super().__init__(on, state, v, share, dy)
        self._push, self._carries, self.rigid, self.rotor = f_ext, carries, description.inertia, description.rotor
        self._reduced = self.rigid if description.reduced is None else description.reduced
        self.armature = np.array(self.joint.armature)
        if self.rotor:
            self.armature = self.armature + self.rotor.armature

    @cached_property
    def uneven(self) -> Uneven | None:
        """What turns with it of its inertia, where it is a rotor that is not round."""
        if self.rotor is None or not np.any(self.rotor.uneven):
            return None
        R = self.state.at_rest.R
        return Uneven(self, product(product(R.T, self.rotor.uneven), R))

    @cached_property
    def _rotors(self) -> list[Uneven]:
        return [rotor.uneven for rotor in self._carries() if rotor.uneven]

    @cached_property
    def own_load(self) -> np.ndarray | None:
        """The force from outside on the body alone, in the axes of its description, (6,)."""
        return None if self._push is None else self.C.inverse().gather(self._push)

    @cached_property
    def load(self) -> np.ndarray | None:
        """The same with the loads of geared rotors on it, whose own nodes do not feel them."""
        total: Any = self.own_load
        for rotor in self._carries() if total is not None else ():
            if rotor.rotor and rotor.rotor.geared and rotor.own_load is not None:
                total = total + rotor.X.gather(rotor.own_load)
        return total

    @cached_property
    def M(self) -> Inertia:
        """Its inertia, with that of its rotors as they stand."""
        M = self.rigid
        for uneven in self._rotors:
            M = M + uneven.inertia
        return M

    def force(self, alpha: np.ndarray) -> np.ndarray:
        """The force that its acceleration takes, less the one from outside, (6,)."""
        return self._force(self.rigid, alpha)

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        """The same for base parameters: equal as a generalised force at this hinge and at all below, (6,)."""
        return self._force(self._reduced, alpha)

    @property
    def hinge_inertia(self) -> Inertia:
        """The inertia for base parameters."""
        M = self._reduced
        for uneven in self._rotors:
            M = M + uneven.inertia
        return M

    def _force(self, inertia: Inertia, alpha: np.ndarray) -> np.ndarray:
        if inertia.is_massless:
            f = inertia.turning_force(alpha[:3], self.w)
        else:
            f = inertia.point_force(alpha[3:], skew(alpha[:3]) + self.spin)
        for uneven in self._rotors:
            f = np.concatenate([f[:3] + uneven.moment(alpha[:3]), f[3:]])
        return f if self.load is None or (self.rotor and self.rotor.geared) else f - self.load

    def passive_force(self, share: np.ndarray, *, armed: bool = True) -> np.ndarray:
        """What its joint alone takes of velocities that move it by a `share`, (joint.nv, m), [N m or N], (m,).

        Springs, dampers, what turns an uneven rotor and, where it is `armed`, armature.
        """
        taken: Any = np.array(self.joint.damping) * self.v + np.array(self.joint.stiffness) * self._stretch
        if self.rotor and self.rotor.geared and self.own_load is not None:
            taken = taken - self.joint_map.T @ self.own_load
        total = product(share.T, taken + self.armature * self.g if armed else taken)
        return total if self.uneven is None else total + self.uneven.d * share[0] * self.uneven.twist

    @property
    def spring_energy(self) -> Any:
        """What springs in the joint hold [J]."""
        return 0.5 * product(self._stretch, np.array(self.joint.stiffness) * self._stretch)

    @cached_property
    def _stretch(self) -> np.ndarray:
        """How far the joint's springs are from rest, (joint.nv,)."""
        if all(is_zero(x) for x in self.joint.stiffness):
            return np.zeros(self.joint.nv)
        kind = self.joint.kind
        return kind.difference(kind.neutral(), self.q) - np.array(self.joint.rest)


class Uneven:
    """What turns with a rotor of its inertia, in its carrier's axes: Δ = d (cos ψ (a aᵀ - b bᵀ) + sin ψ (a bᵀ + b aᵀ)).

    a, b and the rotor's axis u are at right angles, and ψ is twice the rotor's angle θ and a phase. So Δ u = 0, and seen from
    the carrier Δ̇ = 2 θ̇ [u] Δ. With the carrier's w the moment is Δ ẇ + w × Δ w + Δ̇ w = Δ ẇ + (w + 2 θ̇ u) × Δ w.
    """

    def __init__(self, rotor: RigidBody, moment: np.ndarray) -> None:
        """`moment`: Δ at θ = 0 in the axes of the rotor's frame, (3, 3)."""
        self._rotor = rotor
        axis = rotor.joint_map[:3, 0].astype(float)
        k = int(np.argmax(np.abs(axis)))  # one of the frame's axes
        i, j = (k + 1) % 3, (k + 2) % 3
        R = rotor.X.R.astype(float)
        self._a, self._b, self._u = R[:, i], axis[k] * R[:, j], axis[k] * R[:, k]
        d, off = moment[i, i], axis[k] * moment[i, j]
        if d < 0.0 and not off:  # a quarter of a turn needs no phase
            d, self._a, self._b = -d, self._b, -self._a
        self._phase = atan2(float(off), float(d)) if off else 0.0
        d = float(length(np.array([off, d], dtype=float)))
        self.d = 1.0 if abs(d - 1.0) < 1e-14 else d  # one in its own unit of mass, whatever rounding says

    @cached_property
    def _turn(self) -> tuple[Any, Any]:
        return sincos(2.0 * self._rotor.q[0] + self._phase)

    @cached_property
    def inertia(self) -> Inertia:
        """Δ."""
        (s, c), a, b = self._turn, self._a, self._b
        aa_bb, ab_ba = np.outer(a, a) - np.outer(b, b), np.outer(a, b) + np.outer(b, a)
        return Inertia.massless(c * (self.d * aa_bb) + s * (self.d * ab_ba))

    def _along(self, x: np.ndarray) -> tuple[Any, Any]:
        """Δ x / d along a and b."""
        (s, c), y, z = self._turn, product(self._a, x), product(self._b, x)
        return c * y + s * z, s * y - c * z

    @cached_property
    def twist(self) -> Any:
        """(w × Δ w) · u / d, which the rotor feels about its axis."""
        w = self._rotor.on.w
        y, z = self._along(w)
        return (self._a @ w) * z - (self._b @ w) * y

    def moment(self, dw: np.ndarray) -> np.ndarray:
        """What the carrier feels for its angular acceleration dw [N m], (3,)."""
        w, rotor, a, b, u, d = self._rotor.on.w, self._rotor, self._a, self._b, self._u, self.d
        fast = (d * u) @ w + rotor.faster(2.0 * d)
        (y, z), (dy, dz) = self._along(w), self._along(dw)
        return (d * dy - fast * z) * a + (d * dz + fast * y) * b + (d * u) * self.twist
