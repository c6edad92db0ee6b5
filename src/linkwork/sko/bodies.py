"""Bodies of a model in one state: motion, inertia and forces, over numbers or symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import atan2, sincos
from linkwork.lazy import cached_property
from linkwork.loops.kinematics import BodyMotion, Ground, JointFrame, JointState, Share
from linkwork.spatial import Inertia, Pose, is_zero, skew
from linkwork.spatial.constants import length, product
from linkwork.spatial.modal import ModalIntegrals


class Rotor(NamedTuple):
    """Rotor properties of a body whose remaining inertia is lumped into its carrier.

    `asymmetry` [kg m²], (3, 3), is the part of its transverse inertia that turns with it, in its own axes;
    zero if axisymmetric. If `geared`, its axial inertia is lumped, too, and becomes an `armature` [kg m²] of
    its joint (reflected inertia).
    """

    asymmetry: np.ndarray
    geared: bool
    armature: float

    def times(self, factor: float) -> Rotor:
        """Return the rotor in another unit of mass."""
        return Rotor(factor * self.asymmetry, self.geared, factor * self.armature)


class BodyDescription(NamedTuple):
    """A body in a description frame with pose `C` in the body frame, and its joint (see `JointFrame`).

    `inertia` is constant in this frame; `reduced` is the one after base parameters were regrouped, or None;
    `rotor` holds rotor properties. `point_like`: the moment of inertia about the centre is nearly singular,
    so that accuracy is preferred to fewer operations. `deformation` is the inertia of the modes of a flexible
    body.
    """

    frame: JointFrame
    inertia: Inertia
    reduced: Inertia | None = None
    rotor: Rotor | None = None
    point_like: bool = False
    deformation: ModalIntegrals | None = None

    @property
    def C(self) -> Pose:
        return self.frame.C

    def times(self, factor: float) -> BodyDescription:
        """Return the description in another unit of mass."""
        reduced = None if self.reduced is None else self.reduced.times(factor)
        rotor = self.rotor and self.rotor.times(factor)
        deformation = self.deformation and self.deformation.times(factor)
        return self._replace(
            inertia=self.inertia.times(factor), reduced=reduced, rotor=rotor, deformation=deformation
        )


class RigidBody(BodyMotion):
    """A rigid body in motion: its inertia with that of rotors on it, and the forces of its motion.

    `external` returns the force on it [m, f] in the axes of the body frame, (6,), or None. `carries` returns
    the rotors on it. Both are called only for forces and inertias.
    """

    def __init__(
        self,
        on: Ground | BodyMotion,
        state: JointState,
        v: np.ndarray,
        share: Callable[[], Share],
        dy: np.ndarray | None,
        description: BodyDescription,
        external: Callable[[], np.ndarray | None] | None,
        carries: Callable[[], Sequence[RigidBody]],
    ) -> None:
        super().__init__(on, state, v, share, dy)
        self._external = external
        self._carries = carries
        self.rigid = description.inertia
        self.rotor = description.rotor
        self.integrals: Any = description.deformation
        self._reduced = self.rigid if description.reduced is None else description.reduced
        self.armature = np.array(self.joint.armature)
        if self.rotor:
            self.armature = self.armature + self.rotor.armature

    @cached_property
    def asymmetric(self) -> AsymmetricRotor | None:
        """The rotating part of its inertia, where it is a rotor that is not axisymmetric."""
        if self.rotor is None or not np.any(self.rotor.asymmetry):
            return None
        R = self.state.at_rest.R
        return AsymmetricRotor(self, product(product(R.T, self.rotor.asymmetry), R))

    @cached_property
    def _rotors(self) -> list[AsymmetricRotor]:
        return [rotor.asymmetric for rotor in self._carries() if rotor.asymmetric]

    @cached_property
    def external_force(self) -> np.ndarray | None:
        """The external force on this body without rotors, in the axes of its description, (6,)."""
        force = None if self._external is None else self._external()
        return None if force is None else self.C.inverse().gather(force)

    @cached_property
    def load(self) -> np.ndarray | None:
        """The external force on the body and on geared rotors that it carries, which have no rows."""
        total: Any = self.external_force
        for rotor in self._carries() if self._external is not None else ():
            if rotor.rotor and rotor.rotor.geared and rotor.external_force is not None:
                force = rotor.X.gather(rotor.external_force)
                total = force if total is None else total + force
        return total

    @cached_property
    def M(self) -> Inertia:
        """Its inertia, with that of its rotors at their present angles."""
        M = self.rigid
        for rotor in self._rotors:
            M = M + rotor.inertia
        return M

    def force(self, alpha: np.ndarray) -> np.ndarray:
        """Return the force of its acceleration minus the external one, (6,)."""
        return self._force(self.rigid, alpha)

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        """Return the force by base parameters, equal as a generalised force at this hinge and below, (6,)."""
        return self._force(self._reduced, alpha)

    @property
    def hinge_inertia(self) -> Inertia:
        """The inertia for base parameters."""
        M = self._reduced
        for rotor in self._rotors:
            M = M + rotor.inertia
        return M

    def _force(self, inertia: Inertia, alpha: np.ndarray) -> np.ndarray:
        if inertia.is_massless:
            f = inertia.turning_force(alpha[:3], self.w)
        else:
            f = inertia.point_force(alpha[3:], skew(alpha[:3]) + self.spin)
        for rotor in self._rotors:
            f = np.concatenate([f[:3] + rotor.moment(alpha[:3]), f[3:]])
        return f if self.load is None or (self.rotor and self.rotor.geared) else f - self.load

    def passive_force(self, share: np.ndarray, *, with_armature: bool = True) -> np.ndarray:
        """Return the passive force of its joint for velocities with `share`, (joint.nv, m): [N m or N], (m,).

        Springs, dampers, the moment of an asymmetric rotor about its axis and, `with_armature`, that of
        armature.
        """
        if not self.joint.nv:  # a frame that follows a flexible body
            return np.zeros(share.shape[1])
        force: Any = np.array(self.joint.damping) * self.v + np.array(self.joint.stiffness) * self._stretch
        if self.rotor and self.rotor.geared and self.external_force is not None:
            force = force - self.joint_map.T @ self.external_force
        total = product(share.T, force + self.armature * self.g if with_armature else force)
        return (
            total if self.asymmetric is None else total + self.asymmetric.d * share[0] * self.asymmetric.twist
        )

    @property
    def spring_energy(self) -> Any:
        """The potential energy of the joint's springs [J]."""
        return 0.5 * product(self._stretch, np.array(self.joint.stiffness) * self._stretch)

    @cached_property
    def _stretch(self) -> np.ndarray:
        """The deflection of the joint's springs from rest, (joint.nv,)."""
        if all(is_zero(x) for x in self.joint.stiffness):
            return np.zeros(self.joint.nv)
        kind = self.joint.kind
        return kind.difference(kind.neutral(), self.q) - np.array(self.joint.rest)


class AsymmetricRotor:
    """The inertia of a rotor that is not axisymmetric, less its mean about the axis, in its carrier's axes:

    Δ = d (cos ψ (a aᵀ - b bᵀ) + sin ψ (a bᵀ + b aᵀ)).

    a, b and the rotor's axis u are orthonormal, and ψ is twice the rotor's angle θ and a phase. So Δ u = 0,
    and seen from the carrier Δ̇ = 2 θ̇ [u] Δ. With the carrier's w the moment is Δ ẇ + w × Δ w + Δ̇ w = Δ ẇ +
    (w + 2 θ̇ u) × Δ w.
    """

    def __init__(self, rotor: RigidBody, moment: np.ndarray) -> None:
        """Prepare the rotor; `moment` is Δ at θ = 0 in the axes of its frame, (3, 3)."""
        self._rotor = rotor
        axis = rotor.joint_map[:3, 0].astype(float)
        k = int(np.argmax(np.abs(axis)))  # one of the frame's axes
        i = (k + 1) % 3
        j = (k + 2) % 3
        R = rotor.X.R.astype(float)
        self._a = R[:, i]
        self._b = axis[k] * R[:, j]
        self._u = axis[k] * R[:, k]
        d = moment[i, i]
        off_diagonal = axis[k] * moment[i, j]
        if d < 0.0 and not off_diagonal:  # a quarter of a turn needs no phase
            d, self._a, self._b = -d, self._b, -self._a
        self._phase = atan2(float(off_diagonal), float(d)) if off_diagonal else 0.0
        d = float(length(np.array([off_diagonal, d], dtype=float)))
        self.d = 1.0 if abs(d - 1.0) < 1e-14 else d  # one in its own unit of mass, whatever rounding says

    @cached_property
    def _turn(self) -> tuple[Any, Any]:
        return sincos(2.0 * self._rotor.q[0] + self._phase)

    @cached_property
    def inertia(self) -> Inertia:
        """Δ at the present angle."""
        (s, c), a, b = self._turn, self._a, self._b
        aa_bb = np.outer(a, a) - np.outer(b, b)
        ab_ba = np.outer(a, b) + np.outer(b, a)
        return Inertia.massless(c * (self.d * aa_bb) + s * (self.d * ab_ba))

    def _along(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return Δ x / d along a and b."""
        (s, c), y, z = self._turn, product(self._a, x), product(self._b, x)
        return c * y + s * z, s * y - c * z

    @cached_property
    def twist(self) -> Any:
        """(w × Δ w) · u / d: the gyroscopic moment about the rotor's axis."""
        w = self._rotor.on.w
        y, z = self._along(w)
        return (self._a @ w) * z - (self._b @ w) * y

    def moment(self, dw: np.ndarray) -> np.ndarray:
        """Return the moment on the carrier for its angular acceleration dw [N m], (3,)."""
        w = self._rotor.on.w
        rotor = self._rotor
        a = self._a
        b = self._b
        u = self._u
        d = self.d
        fast = (d * u) @ w + rotor.scaled_velocity(2.0 * d)
        (y, z), (dy, dz) = self._along(w), self._along(dw)
        return (d * dy - fast * z) * a + (d * dz + fast * y) * b + (d * u) * self.twist
