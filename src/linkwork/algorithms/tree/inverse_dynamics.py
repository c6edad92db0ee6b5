"""Inverse dynamics: the joint forces of a given acceleration (SKO Alg. 3.1, Lie Table 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState


def accelerations(nodes: TreeState[HingeNode], ddtheta: np.ndarray) -> dict[HingeNode, np.ndarray]:
    """Return α of all nodes for θ̈, (nv,), base to tips; that of the ground is against gravity."""
    alpha: dict[HingeNode, np.ndarray] = {nodes.ground: nodes.ground.alpha}
    for k in nodes.base_to_tips():
        alpha[k] = k.accelerate(alpha[k.parent], ddtheta[k.dofs])  # A* α(℘) + H* θ̈ + a
    return alpha


def inverse_dynamics(
    nodes: TreeState[HingeNode], ddtheta: np.ndarray, *, passive: bool = True, maps: bool = False
) -> np.ndarray:
    """Return T for θ̈, both (nv,), by recursive Newton-Euler sweeps.

    `passive`: with springs and dampers of joints. `maps`: joint maps are needed elsewhere in the program
    anyway.
    """
    alpha: dict[HingeNode, np.ndarray] = {nodes.ground: nodes.ground.alpha}
    f: dict[HingeNode, np.ndarray] = {}
    T: Any = np.empty(nodes.nv, dtype=object)
    for k in nodes.base_to_tips():
        alpha[k] = k.accelerate(alpha[k.parent], ddtheta[k.dofs])  # A* α(℘) + H* θ̈ + a
        f[k] = k.hinge_force(alpha[k])  # M α + b
    for k in nodes.tips_to_base():
        for j in nodes.children(k):
            f[k] = f[k] + j.A.gather(f[j])
        passive_force = k.passive_force if passive else 0.0
        T[k.dofs] = k.generalised(f[k], maps) + k.armature @ ddtheta[k.dofs] + passive_force
    return T
