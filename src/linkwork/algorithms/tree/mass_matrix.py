"""Composite inertias and the mass matrix (SKO Alg. 4.1 and 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import mirrored


class CompositeInertias(dict[HingeNode, Any]):
    """Composite inertias R(k): inertia of k and of all that it carries, frozen (SKO Alg. 4.1); tips to base.

    `added` may hold further inertia for some nodes.
    """

    def __init__(
        self, tree: TreeState[HingeNode], added: Mapping[HingeNode, Sequence[Any]] | None = None
    ) -> None:
        super().__init__()
        self.tree = tree
        self.added = added or {}

    def __missing__(self, k: HingeNode) -> Any:
        R: Any = k.hinge_inertia
        for more in self.added.get(k, ()):
            R = R + more
        for i in self.tree.children(k):
            R = R + i.A.congruence(self[i])
        self[k] = R
        return R


def mass_matrix(
    nodes: TreeState[HingeNode], added: Mapping[HingeNode, Sequence[Any]] | None = None
) -> np.ndarray:
    """Return the mass matrix, (nv, nv) (SKO Alg. 4.2), optionally with inertias `added` to some nodes."""
    M = np.zeros((nodes.nv, nodes.nv), dtype=object)
    R = CompositeInertias(nodes, added)
    for k in nodes.tips_to_base():
        X = R[k] @ k.H.T
        M[k.dofs, k.dofs] = mirrored(k.H @ X) + k.armature
        j = k
        while j.parent is not nodes.ground:
            X = j.A.gather(X)
            j = j.parent
            M[j.dofs, k.dofs] = j.H @ X
            M[k.dofs, j.dofs] = M[j.dofs, k.dofs].T
    return M


def mass_matrix_product(nodes: TreeState[HingeNode], x: np.ndarray) -> np.ndarray:
    """Return H A M A* H* x, (nv,), without the mass matrix (SKO Eq. 3): one scatter and one gather."""
    V: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}
    f: dict[HingeNode, np.ndarray] = {}
    T: Any = np.empty(nodes.nv, dtype=object)
    for k in nodes.base_to_tips():
        V[k] = k.velocity(V[k.parent], x[k.dofs])
        f[k] = k.hinge_inertia @ V[k]
    for k in nodes.tips_to_base():
        for j in nodes.children(k):
            f[k] = f[k] + j.A.gather(f[j])
        T[k.dofs] = k.generalised(f[k]) + k.armature @ x[k.dofs]
    return T
