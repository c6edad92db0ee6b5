"""Forward dynamics: accelerations under joint forces, by articulated bodies or by the mass matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.tree.articulated import Hinges, massless
from linkwork.algorithms.tree.inverse_dynamics import accelerations, inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import Factor
from linkwork.spatial.factor import VanishingRow


def articulated_body(nodes: TreeState[HingeNode], T: np.ndarray) -> np.ndarray:
    """Return θ̈ under T, both (nv,) (SKO Alg. 6.1; with the nodes of `sko/cluster.py`, Loops Alg. 1).

    α is relative to β, its value where θ̈ = 0: then a(k) = 0 and b(k) = M β + b.
    """
    hinges = Hinges(nodes)
    beta = accelerations(nodes, np.zeros(nodes.nv))
    nu: dict[HingeNode, np.ndarray] = {}
    z_plus: dict[HingeNode, np.ndarray] = {}
    alpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}
    ddtheta: Any = np.empty(nodes.nv, dtype=object)
    for k in nodes.tips_to_base():
        _, H, D, G, _ = hinges[k]
        z = k.hinge_force(beta[k])
        for j in nodes.children(k):
            z = z + j.A.gather(z_plus[j])
        eps = T[k.dofs] - k.passive_force - k.generalised(z, maps=True)
        nu[k] = D.solve(eps)
        z_plus[k] = z + G @ eps
    for k in nodes.base_to_tips():
        _, H, _, G, _ = hinges[k]
        alpha_plus = k.A.scatter(alpha[k.parent])
        ddtheta[k.dofs] = nu[k] - G.T @ alpha_plus
        alpha[k] = alpha_plus + H.T @ ddtheta[k.dofs]
    return ddtheta


def by_mass_matrix(nodes: TreeState[HingeNode], T: np.ndarray) -> np.ndarray:
    """Return θ̈ under T, both (nv,), from M θ̈ = T - C by sparse factorization; cheaper for shallow trees."""
    C = inverse_dynamics(nodes, np.zeros(nodes.nv), maps=True)
    return factorised(nodes).solve(T - C)


def factorised(nodes: TreeState[HingeNode], M: np.ndarray | None = None) -> Factor:
    """Return the mass matrix, or another M, as Lᵀ D L."""
    try:
        return Factor(mass_matrix(nodes) if M is None else M)
    except VanishingRow as error:
        name = next(k.name for k in nodes.base_to_tips() if error.row in range(nodes.nv)[k.dofs])
        raise massless(name) from None
