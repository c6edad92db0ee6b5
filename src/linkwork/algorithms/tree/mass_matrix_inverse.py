"""Inverse of the mass matrix by sweeps, M⁻¹ = (1 - Hψ𝒦)* D⁻¹ (1 - Hψ𝒦) (SKO Eq. 51)."""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.tree.articulated import Hinges
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import mirrored


def by_sweeps(nodes: TreeState[HingeNode]) -> np.ndarray:
    """Return M⁻¹, (nv, nv), from the accelerations that unit forces in each joint cause.

    For each joint these are computed at it and at all nodes before it; the rest follows by symmetry.
    """
    hinges = Hinges(nodes)
    for k in nodes.tips_to_base():
        hinges[k]
    inverse = np.zeros((nodes.nv, nodes.nv), dtype=object)
    for k in nodes.base_to_tips():
        eps = np.eye(k.dofs.stop - k.dofs.start)
        nu: dict[HingeNode, np.ndarray] = {k: hinges[k].D.solve(eps)}
        z_plus = hinges[k].G @ eps
        j: HingeNode = k
        while j.parent is not nodes.ground:  # only ancestors feel the force
            z = j.A.gather(z_plus)
            j = j.parent
            eps = -(hinges[j].H @ z)
            nu[j] = hinges[j].D.solve(eps)
            z_plus = z + hinges[j].G @ eps
        alpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros((nodes.ground.rows, len(nu[k])))}
        for i in nodes.base_to_tips():
            alpha_plus = i.A.scatter(alpha[i.parent])
            ddtheta = nu.get(i, 0.0) - hinges[i].G.T @ alpha_plus
            alpha[i] = alpha_plus + hinges[i].H.T @ ddtheta
            inverse[i.dofs, k.dofs] = ddtheta
            inverse[k.dofs, i.dofs] = ddtheta.T
            if i is k:
                inverse[k.dofs, k.dofs] = mirrored(ddtheta)
                break
    return inverse


def by_factorisation(nodes: TreeState[HingeNode]) -> np.ndarray:
    """Return M⁻¹, (nv, nv), from the mass matrix; cheaper than sweeps where the tree is not deep."""
    return factorised(nodes).inverted()
