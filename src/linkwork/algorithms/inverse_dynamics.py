"""Inverse dynamics: the joint forces of a given acceleration (SKO Alg. 3.1, Lie Table 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.model.nodes import Node, Nodes


def accelerations(nodes: Nodes, ddtheta: np.ndarray) -> dict[Node, np.ndarray]:
    """α of all nodes for θ̈, (nv,), base to tips, and that of the ground, which is against gravity."""
    alpha: dict[Node, np.ndarray] = {nodes.ground: nodes.ground.alpha}
    for k in nodes.base_to_tips():
        alpha[k] = k.accelerate(alpha[k.parent], ddtheta[k.dofs])  # A* α(℘) + H* θ̈ + a
    return alpha


def inverse_dynamics(nodes: Nodes, ddtheta: np.ndarray, *, resisting: bool = True) -> np.ndarray:
    """T of θ̈, both (nv,), by recursive Newton-Euler sweeps; `resisting`: with the joints' springs and dampers."""
    alpha: dict[Node, np.ndarray] = {nodes.ground: nodes.ground.alpha}
    f: dict[Node, np.ndarray] = {}
    T: Any = np.empty(nodes.nv, dtype=object)
    for k in nodes.base_to_tips():
        alpha[k] = k.accelerate(alpha[k.parent], ddtheta[k.dofs])  # A* α(℘) + H* θ̈ + a
        f[k] = k.force(alpha[k])  # M α + b
    for k in nodes.tips_to_base():
        for j in k.children:
            f[k] = f[k] + j.A.gather(f[j])
        T[k.dofs] = k.H @ f[k] + k.armature @ ddtheta[k.dofs] + (k.resistance if resisting else 0.0)
    return T
