"""constrainedABA: the dynamics of constrained mechanisms in linear time (Constrained Alg. 1 to 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal import Result, Settings, iterate, moving_part
from linkwork.algorithms.constrained.proximal_tree import EliminateAt, ProximalTree
from linkwork.algorithms.constrained.refinement import refine
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState


def caba(rows: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """Return θ̈ under T, (nv,), and constraint forces, starting from λ⁰, (m,).

    Multipliers are eliminated as early as possible.
    """
    return by_sweeps(rows, T, lam0, settings, eliminate_locally)


def eliminate_locally(nodes: TreeState[HingeNode], k: HingeNode) -> bool:
    """Return True: multipliers are eliminated at the constrained node (Constrained Eq. 29).

    Those of a loop are eliminated where its two paths meet.
    """
    return True


def by_sweeps(
    rows: ConstraintRows,
    T: np.ndarray,
    lam0: np.ndarray,
    settings: Settings,
    at: EliminateAt,
    *,
    early: bool = False,
) -> Result:
    """Return the result of three sweeps (Constrained Alg. 1), then two for each change of λ (Alg. 2).

    The latter pass active nodes only; all others follow once at the end (Alg. 3, lines 9 to 11). `at` decides
    where multipliers are eliminated. Where Alg. 2 carries Δf = -Kᵀ Δλ inward, the rows' residual R Δλ enters
    as l here, and iterations end as in `iterate` instead of Alg. 3, line 6.
    """
    nodes = rows.nodes
    R = settings.R
    tree = ProximalTree(rows, R, at, early=early)
    inner = [k for k in nodes.base_to_tips() if k in tree.active]
    outer = [k for k in nodes.base_to_tips() if k not in tree.active]
    dofs = [i for k in inner for i in range(k.dofs.start, k.dofs.stop)]
    interface_nodes = [
        k for k in inner if any(j not in tree.active for j in nodes.children(k))
    ]  # their α is needed at the end
    sizes = np.cumsum([len(dofs), *(k.rows for k in interface_nodes)])

    m = rows.m
    lam: Any = np.zeros(m + len(tree.unknowns), dtype=object)
    ddtheta: Any = np.empty(nodes.nv, dtype=object)
    alpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}

    def reduced(change: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the next change of λ and the state after it, from the last change (Alg. 2)."""
        dlam: Any = np.zeros(m + len(tree.unknowns), dtype=object)
        d_ddtheta: Any = np.zeros(nodes.nv, dtype=object)
        dalpha: dict[HingeNode, np.ndarray] = {nodes.ground: np.zeros(nodes.ground.rows)}
        tree.outward(inner, tree.inward(reversed(inner), R * change), dalpha, dlam, d_ddtheta)
        d_interfaces = [dalpha[k] for k in interface_nodes]
        return dlam[:m], state + np.concatenate([d_ddtheta[dofs], *d_interfaces, dlam[m:]])

    def respond(x: np.ndarray) -> np.ndarray:
        x = np.array(x, dtype=object)
        tree.reflect(reversed(outer), x)
        x = reduced(x, np.zeros(int(sizes[-1]) + len(tree.unknowns)))[0]
        tree.reflect(outer, x)
        return x

    lam0 = moving_part(settings, np.array(lam0, dtype=object), respond)
    swept = tree.inward(nodes.tips_to_base(), R * lam0 + rows.at_rest(), T)
    tree.outward(inner, swept, alpha, lam, ddtheta)

    state = np.concatenate([ddtheta[dofs], *(alpha[k] for k in interface_nodes), lam[m:]])
    tree.reflect(reversed(outer), lam0)  # λ⁰ in the reflected rows, as λ
    iterated = iterate(settings, lam[:m], lam[:m] - lam0, state, reduced)
    ddtheta[dofs], *alphas, massless = np.split(iterated.state, sizes)
    lam = np.concatenate([iterated.lam, massless])
    tree.finish(outer, swept, alpha | dict(zip(interface_nodes, alphas)), lam, ddtheta)
    ddtheta, iterated = refine(rows, settings, ddtheta, iterated._replace(lam=lam[:m]), tree.respond)
    return Result(ddtheta, rows.of_acting(-iterated.lam), iterated.converged, iterated.count)
