"""A model's bodies in one state: where they are, how they move, and what force that takes, over numbers or symbols.

Accelerations are those of body points as seen from outside, not the rates of V's components: a body's points at r accelerate
by α_v + W r with W = [α_w] + [w][w]. With these, a and b need no linear velocities, and programs are shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.ir.functions import atan2, sincos
from linkwork.lazy import cached_property
from linkwork.model.described import Described
from linkwork.model.parts import PlacedJoint
from linkwork.spatial import Inertia, Pose, cross, skew
from linkwork.spatial.constants import frozen, length, product


class Ground:
    """What all bodies hang on. It does not move."""

    w = frozen(np.zeros(3))
    spin = frozen(np.zeros((3, 3)))
    C = Pose.identity().frozen()
    seat = 0


class Rotor(NamedTuple):
    """What a body is as a rotor: the rest of it is lumped into the body that carries it (see `rotors`).

    `uneven` [kg m²], (3, 3), is what turns with it of its inertia across the axis, in its own axes; zero where it is round. If
    `geared`, its inertia about the axis is elsewhere too, and an `armature` [kg m²] of its joint.
    """

    uneven: np.ndarray
    geared: bool
    armature: float

    def times(self, factor: float) -> Rotor:
        """The same in another unit of mass."""
        return Rotor(factor * self.uneven, self.geared, factor * self.armature)


class MovingBody:
    """A rigid body behind a joint, in a frame of its own that may differ from the body's (`C`: its pose there).

    `on` is the body that it hangs on, `X` the pose of this frame in that body's, and `joint_map` the motion subspace of its
    own joint, (6, joint.nv). Once it belongs to a node, `S` (6, m) is its motion for the m velocities that move its joint,
    relative to `on`; `dofs` is their place in v, and `seat` its own place among the bodies of the node.
    """

    w: np.ndarray

    def __init__(
        self,
        on: Ground | MovingBody,
        joint: PlacedJoint,
        described: Described,
        q: np.ndarray,
        f_ext: np.ndarray | None = None,
    ) -> None:
        """The frame of a rotor need not turn with it."""
        self.on, self.joint, self.q = on, joint, q
        kind, self.X, phase, self.C, self.rigid, self._noticed, rotor, thin = described
        self._kind, self.rotor = kind, rotor
        self.joint_map = kind.subspace(q).astype(object)  # as all that nodes tell of: NumPy adds objects in a defined order
        self.rotors: list[Uneven] = []  # those that it carries
        self.uneven: Uneven | None = None  # what it is itself
        self.armature = np.array(joint.armature)
        if rotor:
            assert isinstance(on, MovingBody)
            self.armature = self.armature + rotor.armature
            if np.any(rotor.uneven):
                self.uneven = Uneven(self, product(product(self.C.R.T, rotor.uneven), self.C.R))
                on.rotors.append(self.uneven)
            self.C = self.C.then(kind.transform(q).inverse())
        else:
            self.X = self.X.then(kind.transform(np.array([q[0] + phase, *q[1:]]) if phase else q))
            if thin and self.X.turn:
                self.X = Pose(self.X.R, self.X.p, self.X.turn._replace(short=False))
        self.f_ext: Any = None
        if f_ext is not None:
            self.f_ext = self.C.inverse().gather(f_ext)
            if rotor and rotor.geared:  # its own node does not feel it, but its carrier and its joint do
                on.f_ext = on.f_ext + self.X.gather(self.f_ext)  # type: ignore[union-attr]
        self.X = Pose(self.X.R.astype(object), self.X.p.astype(object), self.X.turn)
        self.seat = 0

    def belong(self, share: Callable[[], Any]) -> None:
        """Say, when it is asked, which velocities of the mechanism move the joint, and how: v = G ẏ and v̇ = G ÿ + g."""
        self._share = share

    @cached_property
    def _shared(self) -> tuple[Any, np.ndarray, np.ndarray]:
        return self._share()

    @property
    def dofs(self) -> Any:
        """Where the velocities that move the joint are in v: a slice, or their places."""
        return self._shared[0]

    @property
    def G(self) -> np.ndarray:
        """What they do to the joint's own, (joint.nv, m)."""
        return self._shared[1]

    @property
    def g(self) -> np.ndarray:
        """The joint's acceleration where none of them changes, (joint.nv,)."""
        return self._shared[2]

    @cached_property
    def S(self) -> np.ndarray:
        return self.joint_map @ self.G

    def share(self, dofs: slice) -> np.ndarray:
        """What some velocities of the mechanism do to the joint, of those that move it, (joint.nv, dofs)."""
        return self.G if isinstance(self.dofs, slice) else self.G[:, (self.dofs >= dofs.start) & (self.dofs < dofs.stop)]

    def move(self, v: np.ndarray, dy: np.ndarray | None = None) -> None:
        """Give the joint its velocity, G ẏ where ẏ is given; the body below has one already."""
        J = self.joint_map @ v
        self.v, self._dy = v, dy
        self._came = self.X.R.T @ self.on.w
        self._wJ, self._vJ, self._rate = J[:3], J[3:], self.joint_bias(v)
        self.w = self._came + self._wJ

    def joint_bias(self, v: np.ndarray) -> np.ndarray:
        """Ṡ v of its own joint, (6,)."""
        return self._kind.bias(self.q, v)

    @cached_property
    def spin(self) -> np.ndarray:
        """[w][w]; made when it is needed, since what is made early waits in memory."""
        return product(skew(self.w), skew(self.w))

    @cached_property
    def _c(self) -> np.ndarray:
        """What the joint's velocity adds to the acceleration, seen from outside."""
        turning, moving = cross(self._came, self._wJ), cross(2.0 * self._came + self._wJ, self._vJ)
        return np.concatenate([turning, moving]) + self._rate

    @cached_property
    def M(self) -> Inertia:
        """Its inertia, with that of its rotors as they stand."""
        M = self.rigid
        for uneven in self.rotors:
            M = M + uneven.inertia
        return M

    def accelerate(self, alpha: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        """Its acceleration, from that of the body below and its own joint's, (6,)."""
        W = skew(alpha[:3]) + self.on.spin
        carried = np.concatenate([self.X.R.T @ alpha[:3], self.X.R.T @ (alpha[3:] + W @ self.X.p)])
        return carried + self._c + self.joint_map @ ddq

    def force(self, alpha: np.ndarray) -> np.ndarray:
        """The force that its acceleration takes, less the one from outside, (6,)."""
        if self._noticed.mass == 0.0 and not np.any(self._noticed.B):
            f = self._noticed.turning_force(alpha[:3], self.w)
        else:
            f = self._noticed.point_force(alpha[3:], skew(alpha[:3]) + self.spin)
        for uneven in self.rotors:
            f = np.concatenate([f[:3] + uneven.moment(alpha[:3]), f[3:]])
        return f if self.f_ext is None or (self.rotor and self.rotor.geared) else f - self.f_ext

    def faster(self, factor: float) -> Any:
        """The joint's first velocity, times a factor."""
        return factor * self.v[0] if self._dy is None else product(factor * self.G[0], self._dy)

    def resists(self, share: np.ndarray, *, armed: bool = True) -> np.ndarray:
        """What its joint alone takes of velocities that move it by a `share`, (joint.nv, m), [N m or N], (m,).

        Springs, dampers, what turns an uneven rotor and, where it is `armed`, armature.
        """
        taken: Any = np.array(self.joint.damping) * self.v + np.array(self.joint.stiffness) * self._stretch
        if self.rotor and self.rotor.geared and self.f_ext is not None:
            taken = taken - self.joint_map.T @ self.f_ext
        total = product(share.T, taken + self.armature * self.g if armed else taken)
        return total if self.uneven is None else total + self.uneven.d * share[0] * self.uneven.twist

    @property
    def spring_energy(self) -> Any:
        """What springs in the joint hold [J]."""
        return 0.5 * product(self._stretch, np.array(self.joint.stiffness) * self._stretch)

    @cached_property
    def _stretch(self) -> np.ndarray:
        """How far the joint's springs are from rest, (joint.nv,)."""
        if not any(self.joint.stiffness):
            return np.zeros(self.joint.nv)
        kind = self.joint.kind
        return kind.difference(kind.neutral(), self.q) - np.array(self.joint.rest)


class Uneven:
    """What turns with a rotor of its inertia, in its carrier's axes: Δ = d (cos ψ (a aᵀ - b bᵀ) + sin ψ (a bᵀ + b aᵀ)).

    a, b and the rotor's axis u are at right angles, and ψ is twice the rotor's angle θ and a phase. So Δ u = 0, and seen from
    the carrier Δ̇ = 2 θ̇ [u] Δ. With the carrier's w the moment is Δ ẇ + w × Δ w + Δ̇ w = Δ ẇ + (w + 2 θ̇ u) × Δ w.
    """

    def __init__(self, rotor: MovingBody, moment: np.ndarray) -> None:
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
