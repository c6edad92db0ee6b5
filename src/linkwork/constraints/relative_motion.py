"""Relative kinematics of frames: pose, velocity and acceleration, over numbers or symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.constraints.rows import Rows
from linkwork.lazy import cached_property
from linkwork.mechanism import Frame
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import BodyOrGround, ModelTree
from linkwork.spatial import Pose, cross, rotation
from linkwork.spatial.constants import product


class BodyKinematics:
    """Poses, velocities and accelerations of bodies relative to each other in one state, cached."""

    def __init__(self, nodes: ModelTree[HingeNode]) -> None:
        self.nodes = nodes
        self._ground_acceleration: dict[BodyOrGround, np.ndarray] = {nodes.below: nodes.ground.alpha}
        self._velocity: dict[BodyOrGround, np.ndarray] = {nodes.below: np.zeros(6)}
        self._poses: dict[tuple[BodyOrGround, BodyOrGround], Pose] = {}
        self.shared: dict[Any, Any] = {}  # results shared by constraints in this state, by key
        # [s] contacts of shapes that cannot meet in this time need not be computed; None: all are
        self.horizon: Any = None

    def on_joints(self, terms: Sequence[tuple[int, np.ndarray]], k: Any) -> Rows:
        """Return rows Σ c θ̈ = k on joint accelerations, from (joint index, c), c of shape (m, joint.nv)."""
        hinges = []
        for joint, c in terms:
            body = self.nodes.bodies[joint]
            own_node = self.nodes.node_of(joint)
            for node in [own_node] if isinstance(body.dofs, slice) else self.nodes.path_to_ground(own_node):
                if (share := body.share(node.dofs)).shape[1]:
                    hinges.append((node, c @ share))
            k = k - c @ body.g
        return Rows((), hinges, k)

    def path_to_ground(self, body: BodyOrGround) -> list[BodyOrGround]:
        """Return the body and its ancestors up to the ground."""
        path = [body]
        while isinstance(body, RigidBody):
            body = body.on
            path.append(body)
        return path

    def ground_acceleration(self, body: BodyOrGround) -> np.ndarray:
        """Return the acceleration of the ground (minus gravity) in this body's frame, (6,)."""
        if body not in self._ground_acceleration:
            assert isinstance(body, RigidBody)
            self._ground_acceleration[body] = body.X.scatter(self.ground_acceleration(body.on))
        return self._ground_acceleration[body]

    def velocity(self, body: BodyOrGround) -> np.ndarray:
        """Return the twist [w, v] of a body's frame, (6,)."""
        if body not in self._velocity:
            assert isinstance(body, RigidBody)
            self._velocity[body] = body.X.scatter(self.velocity(body.on)) + product(body.joint_map, body.v)
        return self._velocity[body]

    def pose(self, body: BodyOrGround, seen_from: BodyOrGround) -> Pose:
        """Return the pose of one body's frame in another's."""
        meeting = next(b for b in self.path_to_ground(body) if b in self.path_to_ground(seen_from))
        outward = self._pose_in_ancestor(body, meeting)
        return (
            outward
            if seen_from is meeting
            else self._pose_in_ancestor(seen_from, meeting).inverse().then(outward)
        )

    def _pose_in_ancestor(self, body: BodyOrGround, below: BodyOrGround) -> Pose:
        """Return the pose of a body's frame in that of an ancestor."""
        if body is below:
            return Pose.identity()
        if (body, below) not in self._poses:
            assert isinstance(body, RigidBody)
            self._poses[body, below] = self._pose_in_ancestor(body.on, below).then(body.X)
        return self._poses[body, below]


class RelativeMotion:
    """A frame F on body S as seen from a frame T on body P, all in T's axes unless a name says otherwise.

    `R`, `p` is F's pose in T; `W` and `U` are the angular velocity of F against T, and the velocity of F's
    origin against T's point that is there.
    """

    def __init__(self, kinematics: BodyKinematics, frame: Frame, to: Frame) -> None:
        self.kinematics = kinematics
        self._bodies = frame.body, to.body
        self.S = kinematics.nodes[frame.body]
        self.P = kinematics.nodes[to.body]
        self.F, self.T = self.S.C.inverse().then(frame.place), self.P.C.inverse().then(to.place)

    @cached_property
    def S_in_P(self) -> Pose:
        """The pose of body S's frame in body P's."""
        return self.kinematics.pose(self.S, self.P)

    @cached_property
    def _pose(self) -> Pose:
        return self.T.inverse().then(self.S_in_P).then(self.F)

    @property
    def R(self) -> np.ndarray:
        return self._pose.R

    @property
    def p(self) -> np.ndarray:
        return self._pose.p

    @cached_property
    def wT(self) -> np.ndarray:
        """The angular velocity of T."""
        return product(self.T.R.T, self.P.w)

    @cached_property
    def W(self) -> np.ndarray:
        return product(self.R, product(self.F.R.T, self.S.w)) - self.wT

    @cached_property
    def U(self) -> np.ndarray:
        moving = self.kinematics.velocity(self.S)
        below = self.kinematics.velocity(self.P)
        velocity_of_F = moving[3:] + cross(moving[:3], self.F.p)
        at = self.T.p + product(self.T.R, self.p)  # F's origin, in P
        return product(self.R, product(self.F.R.T, velocity_of_F)) - product(
            self.T.R.T, below[3:] + cross(below[:3], at)
        )

    @cached_property
    def rotation_vector(self) -> np.ndarray:
        """The rotation vector that takes T's axes to F's [rad]."""
        return rotation.log(rotation.of_matrix(self.R))

    @property
    def own_rotation_vector(self) -> np.ndarray:
        """The rotation vector in the axes of F, the same as in T since a rotation keeps its own axis."""
        return self.rotation_vector

    def acceleration_rows(
        self, c_w: np.ndarray, c_v: np.ndarray, *, in_frame: bool
    ) -> tuple[list[tuple[HingeNode, slice, np.ndarray]], Any]:
        """Return rows c_w · (relative angular acceleration) + c_v · (acceleration of F's origin).

        c_w and c_v, (m, 3), are in F's axes if `in_frame`, else in T's. The first result has (node, block,
        K), such that Σ K α(block) is the part with α; the second is the bias from velocities and from the
        ground's α.
        """
        S = self.S
        P = self.P
        blocks: list[tuple[HingeNode, slice, np.ndarray]] = []
        bias: Any = 0.0
        if isinstance(S, RigidBody):
            w = self._on_S(c_w, in_frame)
            v = self._on_S(c_v, in_frame)
            at = self.F.p
            blocks.append(self._on(self._bodies[0], np.concatenate([w + moment(at, v), v], axis=1)))
            bias = bias + product(v, product(S.spin, at))
            if not isinstance(P, RigidBody):
                bias = bias - product(v, self.kinematics.ground_acceleration(S)[3:])
        if isinstance(P, RigidBody):
            w = self._on_P(c_w, in_frame)
            v = self._on_P(c_v, in_frame)
            at = self.S_in_P.point(self.F.p)
            blocks.append(self._on(self._bodies[1], -np.concatenate([w + moment(at, v), v], axis=1)))
            bias = bias - product(v, product(P.spin, at))
            if not isinstance(S, RigidBody):
                bias = bias + product(v, self.kinematics.ground_acceleration(P)[3:])
        return blocks, bias

    def _on(self, body: int, K: np.ndarray) -> tuple[HingeNode, slice, np.ndarray]:
        node = self.kinematics.nodes.node_of(body)
        return node, node.blocks[body], K

    def _on_S(self, c: np.ndarray, in_frame: bool) -> np.ndarray:
        return product(c, self.F.R.T) if in_frame else product(product(c, self.T.R.T), self.S_in_P.R)

    def _on_P(self, c: np.ndarray, in_frame: bool) -> np.ndarray:
        return product(product(c, self.F.R.T), self.S_in_P.R.T) if in_frame else product(c, self.T.R.T)


def moment(at: np.ndarray, forces: np.ndarray) -> np.ndarray:
    """Return at × f for each row f."""
    return np.array([cross(at, f) for f in forces]).reshape(-1, 3)
