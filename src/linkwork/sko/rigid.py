"""Nodes of one rigid body behind a joint."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode, NodeInertia, NodeState, Weight
from linkwork.sko.weights import BlockWeight
from linkwork.spatial import Pose


class BodyNode(HingeNode):
    """A node of one body behind a hinge, given its A, H and armature."""

    body: RigidBody
    _A: Weight
    _H: np.ndarray
    _armature: np.ndarray

    @property
    def A(self) -> Weight:
        return self._A

    @property
    def H(self) -> np.ndarray:
        return self._H

    @property
    def M(self) -> NodeInertia:
        return self.body.M

    @property
    def armature(self) -> np.ndarray:
        return self._armature

    @property
    def passive_force(self) -> np.ndarray:
        return self.body.passive_force(self.body.G)

    def carried(self, block: Hashable, place: Pose) -> tuple[Hashable, Pose]:
        return self.body.joint.parent, self.body.X.then(place)


class _RigidNode(BodyNode):
    """A rigid body behind a joint."""

    rows = 6

    def __init__(self, parent: HingeNode, body: RigidBody) -> None:
        self.name = body.joint.name
        self.parent = parent
        self.body = body
        self.dofs = body.dofs
        self.blocks = {body.joint.child: slice(0, 6)}
        self._on = slice(0, 6) if parent.rows == 6 else parent.blocks[body.joint.parent]
        self._A = body.X if parent.rows == 6 else BlockWeight(body.X, self._on, parent.rows)
        self._H = body.S.T
        self._armature = np.diag(body.armature)

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return self.body.velocity(V[self._on], dtheta)

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self.body.accelerate(alpha[self._on], ddtheta)


class HingeRigidNode(_RigidNode):
    """A rigid body behind a joint, for generalised forces only: base parameters were regrouped."""

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.hinge_force(alpha)

    @property
    def hinge_inertia(self) -> NodeInertia:
        return self.body.hinge_inertia


class RigidNode(_RigidNode, NodeState):
    """A rigid body behind a joint."""

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.force(alpha)
