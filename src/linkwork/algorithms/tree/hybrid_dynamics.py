"""Hybrid dynamics: some accelerations are prescribed, the forces of all others are given (Lie Table 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.tree.articulated import Hinges
from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState


def hybrid_dynamics(
    nodes: TreeState[HingeNode], ddtheta: np.ndarray, T: np.ndarray, prescribed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return all θ̈ and T, each (nv,), where θ̈ is given at `prescribed` velocities and T at the others.

    With no velocity prescribed this is forward dynamics, with all prescribed inverse dynamics. Velocities of
    one joint may be of both kinds: only those not prescribed are eliminated at the hinge. α is relative to β,
    caused by the prescribed accelerations.
    """
    u = {k: np.flatnonzero(prescribed[k.dofs]) for k in nodes.base_to_tips()}
    v: dict[HingeNode, np.ndarray] = {k: np.flatnonzero(~prescribed[k.dofs]) for k in nodes.base_to_tips()}
    hinges = Hinges(nodes, v)
    z: dict[HingeNode, np.ndarray] = {}
    z_plus: dict[HingeNode, np.ndarray] = {}
    nu: dict[HingeNode, np.ndarray] = {}
    alpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}
    acc: Any = np.where(prescribed, np.array(ddtheta, dtype=object), 0.0)
    tau: Any = np.array(T, dtype=object)
    beta = accelerations(nodes, acc)
    for k in nodes.tips_to_base():
        _, H, D, G, _ = hinges[k]
        z[k] = k.hinge_force(beta[k])
        for j in nodes.children(k):
            z[k] = z[k] + j.A.gather(z_plus[j])
        eps = (tau[k.dofs] - k.passive_force)[v[k]] - H @ z[k] - k.armature[v[k]][:, u[k]] @ acc[k.dofs][u[k]]
        nu[k] = D.solve(eps)
        z_plus[k] = z[k] + G @ eps
    for k in nodes.base_to_tips():
        P, H, _, G, _ = hinges[k]
        alpha_plus = k.A.scatter(alpha[k.parent])
        ddtheta_v = nu[k] - G.T @ alpha_plus
        acc[k.dofs][v[k]] = ddtheta_v
        alpha[k] = alpha_plus + H.T @ ddtheta_v
        if len(u[k]):
            f = P @ alpha[k] + z[k]
            tau[k.dofs][u[k]] = (k.H @ f + k.armature @ acc[k.dofs] + k.passive_force)[u[k]]
    return acc, tau
