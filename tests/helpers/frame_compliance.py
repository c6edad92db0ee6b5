"""An algorithm made by the recipe of docs/extending.md: the operational-space compliance of a frame."""

from __future__ import annotations

from typing import Any

import numpy as np

import linkwork as lw
from linkwork.algorithms.tree.articulated import Hinges
from linkwork.model import Frame
from linkwork.sko.contracts import HingeNode
from linkwork.sko.prepare.trees import tree
from linkwork.sko.tree import TreeState
from linkwork.spatial import mirrored


def frame_compliance(nodes: TreeState[Any], frame: Frame) -> np.ndarray:
    """J M⁻¹ J* of a frame, (6, 6), without J and without M (SKO Eq. 60, by the recursion of Lemma 5)."""
    hinges = Hinges(nodes)
    for k in nodes.tips_to_base():
        hinges[k]  # P, D and G of all nodes (SKO Eq. 33)

    def psi_star(k: HingeNode, X: Any) -> Any:
        """ψ*(℘(k), k) X = (1 - H* G*) A* X: what k does when its parent moves and its joint is free."""
        X = k.A.scatter(X)
        return X - hinges[k].H.T @ (hinges[k].G.T @ X)

    Omega: Any = np.zeros((6, 6))
    pick = nodes.pick_off(frame)
    for k in reversed(nodes.path_to_ground(pick.node)):  # Ω(k) = ψ* Ω(℘) ψ + H* D⁻¹ H
        Omega = mirrored(psi_star(k, psi_star(k, Omega).T) + hinges[k].H.T @ hinges[k].D.solve(hinges[k].H))
    return mirrored(pick.motion(pick.motion(Omega).T))  # B Ω B*


@lw.model_function(q="nq")
def compliance(model: lw.Model, q: Any, *, frame: str) -> Any:
    """The acceleration of a frame for each unit of force on it, in its own axes, (..., 6, 6)."""
    return frame_compliance(tree(model, q, all_bodies=True), model.frame(frame))
