"""Articulated-body inertias (SKO Eq. 33)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import Factor, any_nonzero, is_zero, mirrored
from linkwork.spatial.solve import solve


class Hinge(NamedTuple):
    """Articulated inertia P of a node at its hinge: D = H P H*, G = P H* D⁻¹, P⁺ = P - G H P."""

    P: Any
    H: np.ndarray  # rows of the joint map that move freely
    D: Factor
    G: np.ndarray
    P_plus: Any


class Hinges(dict[HingeNode, Hinge]):
    """Articulated inertias P(k) and their factors at every hinge of a tree (SKO Eq. 33), tips to base.

    `free[k]` selects the free velocities of k; by default all are free.
    """

    def __init__(
        self, tree: TreeState[HingeNode], free: Mapping[HingeNode, np.ndarray] | None = None
    ) -> None:
        super().__init__()
        self.tree = tree
        self.free = free

    def __missing__(self, k: HingeNode) -> Hinge:
        P: Any = k.M
        for j in self.tree.children(k):
            P = P + j.A.congruence(self[j].P_plus)
        free = slice(None) if self.free is None else self.free[k]
        self[k] = hinge(P, k.H[free], k.armature[free][:, free], k.name)
        return self[k]


def massless(name: str) -> ModelError:
    """Return the error of a massless degree of freedom."""
    return ModelError(
        f"joint {name!r} moves no mass, so its acceleration is not defined: give its links an inertia"
    )


def hinge(P: Any, H: np.ndarray, armature: np.ndarray, name: str) -> Hinge:
    """Return the hinge of an inertia P with joint map H, (m, rows), and armature, (m, m).

    `name` is for errors.
    """
    m, rows = H.shape
    if m == 0:
        return Hinge(P, H, Factor(np.zeros((0, 0))), np.zeros((rows, 0)), P)
    U = P @ H.T
    try:
        D = Factor(mirrored(H @ U) + armature)
    except ZeroDivisionError:
        raise massless(name) from None
    moved = [i for i in range(rows) if not all(is_zero(x) for x in H[:, i])]
    if len(moved) > m or any_nonzero(armature):
        G = D.solve(U.T).T
        return Hinge(P, H, D, G, P.projected(G, U, D))
    # The joint moves complete coordinates: P⁺ vanishes along them, and G is constant there if H is.
    G = np.empty((rows, m), dtype=object)
    if all(isinstance(x, float) for x in H.ravel()):
        others = [i for i in range(rows) if i not in moved]
        G[moved] = solve(H[:, moved], np.eye(m))
        G[others] = D.solve(U[others].T).T
    else:
        G[:] = D.solve(U.T).T
    return Hinge(P, H, D, G, P.projected(G, U, D, zero_rows=moved))
