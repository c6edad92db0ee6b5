"""Forward dynamics: the acceleration under given joint forces, by articulated bodies or by the mass matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.articulated import Hinges
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.mass_matrix import mass_matrix
from linkwork.errors import ModelError
from linkwork.model.nodes import Node, Nodes
from linkwork.spatial import Factor


def articulated_body(nodes: Nodes, T: np.ndarray) -> np.ndarray:
    """θ̈ under T, both (nv,) (SKO Alg. 6.1, with a(k) inside of the hinge as in Loops Alg. 1: P⁺ has more zeros than P)."""
    hinges = Hinges()
    nu: dict[Node, np.ndarray] = {}
    z_plus: dict[Node, np.ndarray] = {}
    alpha: dict[Node, np.ndarray] = {nodes.ground: nodes.ground.alpha}
    ddtheta: Any = np.empty(nodes.nv, dtype=object)
    for k in nodes.tips_to_base():
        _, H, D, G, P_plus = hinges[k]
        z = k.b
        for j in k.children:
            z = z + j.A.gather(z_plus[j])
        eps = T[k.dofs] - k.resistance - H @ z
        nu[k] = D.solve(eps)
        z_plus[k] = z + P_plus @ k.a + G @ eps
    for k in nodes.base_to_tips():
        _, H, _, G, _ = hinges[k]
        alpha_plus = k.A.scatter(alpha[k.parent]) + k.a
        ddtheta[k.dofs] = nu[k] - G.T @ alpha_plus
        alpha[k] = alpha_plus + H.T @ ddtheta[k.dofs]
    return ddtheta


def by_mass_matrix(nodes: Nodes, T: np.ndarray) -> np.ndarray:
    """θ̈ under T, both (nv,), from M θ̈ = T - C by sparse factorisation; sooner than sweeps where the tree is not deep."""
    C = inverse_dynamics(nodes, np.zeros(nodes.nv))
    return factorised(nodes).solve(T - C)


def factorised(nodes: Nodes) -> Factor:
    """The mass matrix as Lᵀ D L."""
    try:
        return Factor(mass_matrix(nodes))
    except ZeroDivisionError as error:
        raise ModelError(f"a joint of {nodes.model.name} moves no mass: its mass matrix has no inverse ({error})") from None
