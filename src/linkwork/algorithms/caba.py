"""constrainedABA: the dynamics of constrained mechanisms in linear time (Constrained Alg. 1 to 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.proximal import Result, Settings, iterate, residual_norm
from linkwork.algorithms.proximal_tree import EliminateAt, ProximalTree
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState


def caba(held: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """θ̈ under T, (nv,), and forces; starting from λ⁰, (m,). Multipliers are eliminated as early as possible."""
    return by_sweeps(held, T, lam0, settings, eliminate_locally)


def eliminate_locally(nodes: TreeState[HingeNode], k: HingeNode) -> bool:
    """Multipliers are eliminated at the constrained node (Constrained Eq. 29), or where the two paths of a loop meet."""
    return True


def by_sweeps(
    held: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings, at: EliminateAt, *, early: bool = False
) -> Result:
    """Three sweeps (Constrained Alg. 1), then two for each change of λ (Alg. 2), over active nodes only."""
    nodes, R = held.nodes, settings.R
    tree = ProximalTree(held, R, at, early=early)
    inner = [k for k in nodes.base_to_tips() if k in tree.active]
    outer = [k for k in nodes.base_to_tips() if k not in tree.active]
    dofs = [i for k in inner for i in range(k.dofs.start, k.dofs.stop)]
    bearing = [k for k in inner if any(j not in tree.active for j in nodes.children(k))]  # their α is needed at the end
    sizes = np.cumsum([len(dofs), *(k.rows for k in bearing)])

    m = held.m
    lam: Any = np.zeros(m + len(tree.unknowns), dtype=object)
    ddtheta: Any = np.empty(nodes.nv, dtype=object)
    alpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}
    lam0 = np.array(lam0, dtype=object)
    swept = tree.inward(nodes.tips_to_base(), R * lam0 + held.at_rest(), T)
    tree.outward(inner, swept, alpha, lam, ddtheta)

    def reduced(change: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dlam: Any = np.zeros(m + len(tree.unknowns), dtype=object)
        ddd: Any = np.zeros(nodes.nv, dtype=object)
        dalpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}
        tree.outward(inner, tree.inward(reversed(inner), R * change), dalpha, dlam, ddd)
        return dlam[:m], state + np.concatenate([ddd[dofs], *(dalpha[k] for k in bearing), dlam[m:]])

    state = np.concatenate([ddtheta[dofs], *(alpha[k] for k in bearing), lam[m:]])
    tree.reflect(reversed(outer), lam0)  # λ⁰ in the reflected rows, as λ
    lam, state, change, count = iterate(settings, lam[:m], lam[:m] - lam0, state, reduced)
    ddtheta[dofs], *alphas, massless = np.split(state, sizes)
    lam = np.concatenate([lam, massless])
    tree.finish(outer, swept, alpha | dict(zip(bearing, alphas)), lam, ddtheta)
    tree.reflect(outer, change)  # the residual in its own rows again, as `finish` has done with λ
    return Result(ddtheta, held.of_acting(-lam[:m]), residual_norm(held.of_acting(R * change)), count)
