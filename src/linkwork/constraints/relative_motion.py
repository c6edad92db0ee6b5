"""Relative kinematics of two frames: pose, velocity and acceleration of one as seen from another, over numbers or symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.constraints.rows import Rows
from linkwork.lazy import cached_property
from linkwork.parts import Frame
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import BodyOrGround, ModelTree
from linkwork.spatial import Pose, cross, rotation
from linkwork.spatial.constants import product


class BodyKinematics:
    """Poses, velocities and accelerations of a mechanism's bodies relative to each other, in one state; each computed once."""

    def __init__(self, nodes: ModelTree[HingeNode]) -> None:
        self.nodes = nodes
        self._ground_acceleration: dict[BodyOrGround, np.ndarray] = {nodes.below: nodes.ground.alpha}
        self._velocity: dict[BodyOrGround, np.ndarray] = {nodes.below: np.zeros(6)}
        self._poses: dict[tuple[BodyOrGround, BodyOrGround], Pose] = {}

    def on_joints(self, terms: Sequence[tuple[int, np.ndarray]], k: Any) -> Rows:
        """Rows Σ c θ̈ = k on accelerations of joints of the spanning tree: (index of the joint, c), c being (m, joint.nv)."""
        hinges = []
        for joint, c in terms:
            body, own_node = self.nodes.bodies[joint], self.nodes.node_of(joint)
            for node in [own_node] if isinstance(body.dofs, slice) else self.nodes.path_to_ground(own_node):
                if (own := body.share(node.dofs)).shape[1]:
                    hinges.append((node, c @ own))
            k = k - c @ body.g
        return Rows((), hinges, k)

    def path_to_ground(self, body: BodyOrGround) -> list[BodyOrGround]:
        """The body and those below it, down to the ground."""
        found = [body]
        while isinstance(body, RigidBody):
            body = body.on
            found.append(body)
        return found

    def ground_acceleration(self, body: BodyOrGround) -> np.ndarray:
        """The acceleration of the ground (which is that against gravity) as one of this body's frame, (6,)."""
        if body not in self._ground_acceleration:
            assert isinstance(body, RigidBody)
            self._ground_acceleration[body] = body.X.scatter(self.ground_acceleration(body.on))
        return self._ground_acceleration[body]

    def velocity(self, body: BodyOrGround) -> np.ndarray:
        """[w, v] of a body's frame, (6,)."""
        if body not in self._velocity:
            assert isinstance(body, RigidBody)
            self._velocity[body] = body.X.scatter(self.velocity(body.on)) + product(body.joint_map, body.v)
        return self._velocity[body]

    def pose(self, body: BodyOrGround, seen_from: BodyOrGround) -> Pose:
        """The pose of one body's frame in another's."""
        meeting = next(b for b in self.path_to_ground(body) if b in self.path_to_ground(seen_from))
        outward = self._pose_in_ancestor(body, meeting)
        return outward if seen_from is meeting else self._pose_in_ancestor(seen_from, meeting).inverse().then(outward)

    def _pose_in_ancestor(self, body: BodyOrGround, below: BodyOrGround) -> Pose:
        """The pose of a body's frame in that of an ancestor."""
        if body is below:
            return Pose.identity()
        if (body, below) not in self._poses:
            assert isinstance(body, RigidBody)
            self._poses[body, below] = self._pose_in_ancestor(body.on, below).then(body.X)
        return self._poses[body, below]


class RelativeMotion:
    """A frame F on body S as seen from a frame T on body P, all in T's axes unless a name says otherwise.

    `R`, `p` is F's pose in T; `W` and `U` are the angular velocity of F against T, and the velocity of F's origin against
    T's point that is there.
    """

    def __init__(self, kinematics: BodyKinematics, frame: Frame, to: Frame) -> None:
        self.kinematics = kinematics
        self._bodies = frame.body, to.body
        self.S, self.P = kinematics.nodes[frame.body], kinematics.nodes[to.body]
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
        moving, below = self.kinematics.velocity(self.S), self.kinematics.velocity(self.P)
        own = moving[3:] + cross(moving[:3], self.F.p)
        at = self.T.p + product(self.T.R, self.p)  # F's origin, in P
        return product(self.R, product(self.F.R.T, own)) - product(self.T.R.T, below[3:] + cross(below[:3], at))

    @cached_property
    def rotation_vector(self) -> np.ndarray:
        """The rotation vector that takes T's axes to F's [rad]."""
        return rotation.log(rotation.of_matrix(self.R))

    @property
    def own_rotation_vector(self) -> np.ndarray:
        """The same in F's axes: a rotation leaves its own vector as it is."""
        return self.rotation_vector

    def acceleration_rows(
        self, c_w: np.ndarray, c_v: np.ndarray, *, in_frame: bool
    ) -> tuple[list[tuple[HingeNode, slice, np.ndarray]], Any]:
        """The rows c_w · (relative angular acceleration) + c_v · (that of F's origin against T's point there).

        Both (m, 3), in F's axes where `in_frame`, else in T's. The first result has (node, block, K) with Σ K α(block) being
        the part with α in it, the second the bias: from velocities, and from the ground's α.
        """
        S, P = self.S, self.P
        found: list[tuple[HingeNode, slice, np.ndarray]] = []
        rest: Any = 0.0
        if isinstance(S, RigidBody):
            w, v, at = self._on_S(c_w, in_frame), self._on_S(c_v, in_frame), self.F.p
            found.append(self._on(self._bodies[0], np.concatenate([w + moment(at, v), v], axis=1)))
            rest = rest + product(v, product(S.spin, at))
            if not isinstance(P, RigidBody):
                rest = rest - product(v, self.kinematics.ground_acceleration(S)[3:])
        if isinstance(P, RigidBody):
            w, v, at = self._on_P(c_w, in_frame), self._on_P(c_v, in_frame), self.S_in_P.point(self.F.p)
            found.append(self._on(self._bodies[1], -np.concatenate([w + moment(at, v), v], axis=1)))
            rest = rest - product(v, product(P.spin, at))
            if not isinstance(S, RigidBody):
                rest = rest + product(v, self.kinematics.ground_acceleration(P)[3:])
        return found, rest

    def _on(self, body: int, K: np.ndarray) -> tuple[HingeNode, slice, np.ndarray]:
        node = self.kinematics.nodes.node_of(body)
        return node, node.blocks[body], K

    def _on_S(self, c: np.ndarray, in_frame: bool) -> np.ndarray:
        return product(c, self.F.R.T) if in_frame else product(product(c, self.T.R.T), self.S_in_P.R)

    def _on_P(self, c: np.ndarray, in_frame: bool) -> np.ndarray:
        return product(product(c, self.F.R.T), self.S_in_P.R.T) if in_frame else product(c, self.T.R.T)


def moment(at: np.ndarray, forces: np.ndarray) -> np.ndarray:
    """at × f for each row f."""
    return np.array([cross(at, f) for f in forces]).reshape(-1, 3)
