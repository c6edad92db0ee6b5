"""Nodes with prescribed accelerations of some velocities; their hinges have the other velocities.

With H = [H_u; H_v] and θ̈_u prescribed, α = A* α(℘) + H_v* θ̈_v + (a + H_u* θ̈_u): prescribed accelerations are
part of the Coriolis term. Any algorithm for the dynamics of the other velocities then computes hybrid
dynamics of the node (Lie Eq. 77).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from linkwork.sko.contracts import HingeNode, NodeInertia, Weight
from linkwork.sko.tree import TreeState


class PrescribedNode(HingeNode):
    """A node with the velocities of `full` that are not prescribed.

    `ddtheta`, (m,), holds the accelerations of the prescribed ones.
    """

    def __init__(
        self, full: HingeNode, parent: HingeNode, dofs: slice, prescribed: np.ndarray, ddtheta: np.ndarray
    ) -> None:
        self.name = full.name
        self.parent = parent
        self.rows = full.rows
        self.dofs = dofs
        self.supports = full.supports
        self.blocks = full.blocks
        self._full = full
        self._free = np.flatnonzero(~prescribed)
        self._known = np.flatnonzero(prescribed)
        self._ddtheta = ddtheta[self._known]

    @property
    def A(self) -> Weight:
        return self._full.A

    @property
    def H(self) -> np.ndarray:
        return self._full.H[self._free]

    @property
    def M(self) -> NodeInertia:
        return self._full.M

    @property
    def armature(self) -> np.ndarray:
        return self._full.armature[np.ix_(self._free, self._free)]

    @property
    def passive_force(self) -> np.ndarray:
        """Passive forces, with the armature coupling to prescribed accelerations."""
        return (
            self._full.passive_force[self._free]
            + self._full.armature[np.ix_(self._free, self._known)] @ self._ddtheta
        )

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        raise NotImplementedError("velocities of prescribed joints are known")

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        full_ddtheta: Any = np.zeros(len(self._free) + len(self._known), dtype=object)
        full_ddtheta[self._free] = ddtheta
        full_ddtheta[self._known] = self._ddtheta
        return self._full.accelerate(alpha, full_ddtheta)

    def carried(self, block: Hashable, place: Any) -> tuple[Hashable, Any] | None:
        return self._full.carried(block, place)

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self._full.hinge_force(alpha)

    @property
    def hinge_inertia(self) -> NodeInertia:
        return self._full.hinge_inertia


def with_prescribed(
    nodes: TreeState[Any], prescribed: np.ndarray, ddtheta: np.ndarray
) -> tuple[TreeState[PrescribedNode], dict[HingeNode, PrescribedNode]]:
    """Return the tree of velocities that are not `prescribed`, (nv,), and its nodes by their originals."""
    free_nodes: dict[Any, Any] = {nodes.ground: nodes.ground}
    for k in nodes.base_to_tips():
        start = int(np.count_nonzero(~prescribed[: k.dofs.start]))
        dofs = slice(start, start + int(np.count_nonzero(~prescribed[k.dofs])))
        parent = free_nodes[k.parent]
        free_nodes[k] = PrescribedNode(k, parent, dofs, prescribed[k.dofs], ddtheta[k.dofs])
    del free_nodes[nodes.ground]
    nv = int(np.count_nonzero(~prescribed))
    return TreeState(nodes.name, list(free_nodes.values()), nodes.ground, nv), free_nodes
