"""Articulated-body inertias (SKO Eq. 33)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.mass_matrix import mirrored
from linkwork.errors import ModelError
from linkwork.model.nodes import Node, Nodes
from linkwork.spatial import Factor, is_zero

EVERY = slice(None)


class Hinge(NamedTuple):
    """What a node's inertia does at its joint: D = H P H*, G = P H* D⁻¹, and P⁺ = P - G H P, what the parent feels."""

    H: np.ndarray  # rows of the joint map that move freely
    D: Factor
    G: np.ndarray
    P_plus: Any


def articulated_inertias(nodes: Nodes, free: Any = None) -> tuple[dict[Node, Any], dict[Node, Hinge]]:
    """P(k), and the hinges on the way to it, tips to base. `free[k]` selects the velocities of k that are free (all)."""
    P: dict[Node, Any] = {}
    hinges: dict[Node, Hinge] = {}
    for k in nodes.tips_to_base():
        P[k] = k.M
        for j in k.children:
            P[k] = P[k] + j.A.congruence(hinges[j].P_plus)
        chosen = EVERY if free is None else free[k]
        try:
            hinges[k] = hinge(P[k], k.H[chosen], k.armature[chosen])
        except ZeroDivisionError:
            raise ModelError(
                f"joint {k.name!r} moves no mass: forward dynamics has no answer (give it mass or armature)"
            ) from None
    return P, hinges


def hinge(P: Any, H: np.ndarray, armature: np.ndarray) -> Hinge:
    """The hinge of an inertia P at a joint with map H, (m, rows), and armature, (m,)."""
    m, rows = H.shape
    if m == 0:
        return Hinge(H, Factor(np.zeros((0, 0))), np.zeros((rows, 0)), P)
    U = P @ H.T
    D = Factor(mirrored(H @ U) + np.diag(armature))
    moved = [i for i in range(rows) if not all(is_zero(x) for x in H[:, i])]
    if len(moved) > m or np.any(armature):
        G = D.solve(U.T).T
        return Hinge(H, D, G, P.without(G, U))
    # The joint moves whole coordinates: nothing is felt along them, and G is constant there where H is.
    G = np.empty((rows, m), dtype=object)
    if all(isinstance(x, float) for x in H.ravel()):
        kept = [i for i in range(rows) if i not in moved]
        G[moved] = np.linalg.inv(H[:, moved].astype(float))
        G[kept] = D.solve(U[kept].T).T
    else:
        G[:] = D.solve(U.T).T
    return Hinge(H, D, G, P.without(G, U, gone=moved))
