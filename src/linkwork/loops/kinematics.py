"""Kinematics of bodies behind their joints in one state, over numbers or symbols.

Accelerations are those of body points as an observer at rest sees them, not the rates of V's components: a
body's points at r accelerate by α_v + W r with W = [α_w] + [w][w]. With these, a and b need no linear
velocities, and programs are shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.joints import Joint
from linkwork.lazy import cached_property
from linkwork.mechanism.tree import PlacedJoint
from linkwork.spatial import Pose, cross, skew
from linkwork.spatial.constants import frozen, product


class Ground:
    """The ground, which does not move."""

    w = frozen(np.zeros(3))
    spin = frozen(np.zeros((3, 3)))
    C = Pose.identity().frozen()


class JointFrame(NamedTuple):
    """The frames in which a joint and the body behind it are described.

    The pose of the body's description frame in that of the body below is place · kind.transform(q), with
    `phase` added to q[0]; `C` is its pose in the body's own frame.
    """

    kind: Joint
    place: Pose
    phase: float
    C: Pose


def own_frame(joint: PlacedJoint, below: Pose) -> JointFrame:
    """Return the body's frame, up to a rotation that straightens its joint axis.

    `below` is `C` of its parent.
    """
    kind, C = joint.kind.axis_aligned()
    return JointFrame(kind, below.inverse().then(joint.place).then(C), 0.0, C)


class JointState:
    """A joint at coordinates q: the pose `X` of the body behind it, and its motion subspace.

    `C` is the pose of the description frame in the body's own; that of a body that `spins` (a rotor) does not
    turn with it. `precise`: matrices are not rotated by the double angle, which would lose digits by
    cancellation.
    """

    __slots__ = ("C", "X", "at_rest", "joint", "joint_map", "kind", "q")

    def __init__(
        self,
        joint: PlacedJoint,
        frame: JointFrame,
        q: np.ndarray,
        *,
        spins: bool = False,
        precise: bool = False,
    ) -> None:
        kind, X, phase, C = frame
        # where q = 0
        self.joint = joint
        self.kind = kind
        self.q = q
        self.at_rest = C
        self.joint_map = kind.subspace(q).astype(
            object
        )  # objects, as all that nodes give: NumPy adds those in a defined order
        if spins:
            C = C.then(kind.transform(q).inverse())
        else:
            X = X.then(kind.transform(np.array([q[0] + phase, *q[1:]]) if phase else q))
        turn = X.turn._replace(double_angles=False) if precise and X.turn else X.turn
        self.X = Pose(X.R.astype(object), X.p.astype(object), turn)
        self.C = C

    def bias(self, v: np.ndarray) -> np.ndarray:
        """Return Ṡ v of the joint, (6,)."""
        return self.kind.bias(self.q, v)


class Share(NamedTuple):
    """The dependence of a joint on independent velocities: v = G ẏ and v̇ = G ÿ + g.

    `dofs` is the place of ẏ in v, a slice or an array; `G` is (joint.nv, m), and `g`, (joint.nv,), the bias
    acceleration of the joint.
    """

    dofs: Any
    G: np.ndarray
    g: np.ndarray

    @classmethod
    def own(cls, dofs: slice) -> Share:
        """Return the share of a joint whose velocities are independent."""
        m = dofs.stop - dofs.start
        return cls(dofs, np.eye(m).astype(object), np.zeros(m))


class BodyMotion:
    """A body in motion behind its joint: `state`, the motion of its parent `on`, and the joint velocity v.

    `share` is evaluated when needed: the dependence of the joint on independent velocities. v = G dy if `dy`
    is given.
    """

    def __init__(
        self,
        on: Ground | BodyMotion,
        state: JointState,
        v: np.ndarray,
        share: Callable[[], Share],
        dy: np.ndarray | None = None,
    ) -> None:
        self.on = on
        self.state = state
        self.v = v
        self._share = share
        self._dy = dy
        self.joint = state.joint
        self.q = state.q
        self.X = state.X
        self.C = state.C
        self.joint_map = state.joint_map
        J = self.joint_map @ v
        self._w_parent = self.X.R.T @ on.w
        self._wJ, self._vJ, self._rate = J[:3], J[3:], state.bias(v)
        self.w: np.ndarray = self._w_parent + self._wJ

    @cached_property
    def shared(self) -> Share:
        """The dependence of the joint on independent velocities."""
        return self._share()

    @property
    def dofs(self) -> Any:
        return self.shared.dofs

    @property
    def G(self) -> np.ndarray:
        return self.shared.G

    @property
    def g(self) -> np.ndarray:
        return self.shared.g

    @cached_property
    def S(self) -> np.ndarray:
        """Its motion relative to the body below for the velocities that move the joint, (6, m)."""
        return self.joint_map @ self.G

    def share(self, dofs: slice) -> np.ndarray:
        """Return the columns of G for some independent velocities, (joint.nv, dofs)."""
        return (
            self.G
            if isinstance(self.dofs, slice)
            else self.G[:, (self.dofs >= dofs.start) & (self.dofs < dofs.stop)]
        )

    @cached_property
    def spin(self) -> np.ndarray:
        """[w][w]; made when it is needed, since what is made early is live for long."""
        return product(skew(self.w), skew(self.w))

    @cached_property
    def _c(self) -> np.ndarray:
        """The velocity-product acceleration (Coriolis and centrifugal) across the joint, seen from rest."""
        turning = cross(self._w_parent, self._wJ)
        moving = cross(2.0 * self._w_parent + self._wJ, self._vJ)
        return np.concatenate([turning, moving]) + self._rate

    def velocity(self, V: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the velocity from those of the parent and the joint, (6,)."""
        return self.X.scatter(V) + self.joint_map @ v

    def accelerate(self, alpha: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        """Return the acceleration from those of the parent and the joint, (6,)."""
        W = skew(alpha[:3]) + self.on.spin
        carried = np.concatenate([self.X.R.T @ alpha[:3], self.X.R.T @ (alpha[3:] + W @ self.X.p)])
        return carried + self._c + self.joint_map @ ddq

    def scaled_velocity(self, factor: float) -> Any:
        """Return the first joint velocity times a factor."""
        return factor * self.v[0] if self._dy is None else product(factor * self.G[0], self._dy)
