"""A model's bodies in one state: where they are, how they move, and what force that takes, over numbers or symbols.

Accelerations are those of body points as seen from outside, not the rates of V's components: a body's points at r accelerate
by α_v + W r with W = [α_w] + [w][w]. With these, a and b need no linear velocities, and programs are shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from linkwork.model.parts import PlacedJoint
from linkwork.spatial import Inertia, Pose, cross, skew


class Ground:
    """What all bodies hang on. It does not move."""

    w = np.zeros(3)
    spin = np.zeros((3, 3))
    C = Pose.identity()
    seat = 0


class MovingBody:
    """A rigid body behind a joint, in a frame of its own that may be turned against the body's (`C`: its pose there).

    `on` is the body that it hangs on, `X` the pose of this frame in that body's, and `joint_map` the motion subspace of its
    own joint, (6, joint.nv). Once it belongs to a node, `S` (6, m) is its motion for the m velocities that move its joint,
    relative to `on`; `dofs` is their place in v, and `seat` its own place among the bodies of the node.
    """

    w: np.ndarray

    def __init__(
        self, on: Ground | MovingBody, joint: PlacedJoint, inertia: Inertia, q: np.ndarray, f_ext: Any, spins: bool = False
    ) -> None:
        """`spins`: it is symmetric about its axis and carries nothing, so that its frame need not turn with it."""
        self.on, self.joint, self.q, self.spins = on, joint, q, spins
        kind, self.C = joint.kind.straightened()
        self._kind = kind
        self.joint_map = kind.subspace(q)
        self.X = on.C.inverse().then(joint.place).then(self.C)
        self.M = self.C.inverse().congruence(inertia)
        if spins:
            self.C = self.C.then(kind.transform(q).inverse())
        else:
            self.X = self.X.then(kind.transform(q))
        self._f_ext = None if f_ext is None else self.C.inverse().gather(f_ext)
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

    def move(self, v: np.ndarray) -> None:
        """Give the joint its velocity; the body below has one already."""
        J = self.joint_map @ v
        self.v = v
        self._came = self.X.R.T @ self.on.w
        self._wJ, self._vJ, self._rate = J[:3], J[3:], self.joint_bias(v)
        self.w = self._came + self._wJ

    def joint_bias(self, v: np.ndarray) -> np.ndarray:
        """Ṡ v of its own joint, (6,)."""
        return self._kind.bias(self.q, v)

    @cached_property
    def spin(self) -> np.ndarray:
        """[w][w]; made when it is needed, since what is made early waits in memory."""
        return skew(self.w) @ skew(self.w)

    @cached_property
    def _c(self) -> np.ndarray:
        """What the joint's velocity adds to the acceleration, seen from outside."""
        turning, moving = cross(self._came, self._wJ), cross(2.0 * self._came + self._wJ, self._vJ)
        return np.concatenate([turning, moving]) + self._rate

    @cached_property
    def a(self) -> np.ndarray:
        """The part of the acceleration that velocities cause across the joint, (6,)."""
        carried = self.X.R.T @ (self.on.spin @ self.X.p)
        return np.concatenate([self._c[:3], carried + self._c[3:]])

    @cached_property
    def b(self) -> np.ndarray:
        """The force that velocities take, less the one from outside, (6,)."""
        return self.force(np.zeros(6))

    def accelerate(self, alpha: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        """Its acceleration, from that of the body below and its own joint's, (6,)."""
        W = skew(alpha[:3]) + self.on.spin
        carried = np.concatenate([self.X.R.T @ alpha[:3], self.X.R.T @ (alpha[3:] + W @ self.X.p)])
        return carried + self._c + self.joint_map @ ddq

    def force(self, alpha: np.ndarray) -> np.ndarray:
        """The force that its acceleration takes, less the one from outside, (6,)."""
        if self.M.mass == 0.0:
            return self._with_ext(self.M.turning_force(alpha[:3], self.w))
        return self._with_ext(self.M.point_force(alpha[3:], skew(alpha[:3]) + self.spin))

    @cached_property
    def resistance(self) -> np.ndarray:
        """What springs and dampers in the joint take [N m or N], (joint.nv,)."""
        return np.array(self.joint.damping) * self.v + np.array(self.joint.stiffness) * self._stretch

    @property
    def spring_energy(self) -> Any:
        """What springs in the joint hold [J]."""
        return 0.5 * (self._stretch @ (np.array(self.joint.stiffness) * self._stretch))

    @cached_property
    def _stretch(self) -> np.ndarray:
        """How far the joint's springs are from rest, (joint.nv,)."""
        if not any(self.joint.stiffness):
            return np.zeros(self.joint.nv)
        kind = self.joint.kind
        return kind.difference(kind.neutral(), self.q) - np.array(self.joint.rest)

    def _with_ext(self, f: np.ndarray) -> np.ndarray:
        return f if self._f_ext is None else f - self._f_ext
