"""Derivatives of forward dynamics, ∂θ̈ = -M⁻¹ ∂T at the solution (Carpentier and Mansard 2018).

T is inverse dynamics. M = Lᵀ D L has branch-induced sparsity, and so has L⁻¹: row i has entries at i and at
the velocities of its ancestors. An entry of M⁻¹ B = L⁻¹ D⁻¹ L⁻ᵀ B for joints on different limbs is therefore
a sum over their common ancestors only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.inverse_dynamics_derivatives import (
    Changes,
    Derivatives,
    Differentiate,
    Sensitivity,
    falls_freely,
    pairs,
)
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, mirrored


def forward_dynamics_derivatives(
    nodes: ModelTree[Any], T: np.ndarray, differentiate: Differentiate
) -> Derivatives:
    """Return ∂θ̈/∂q, ∂θ̈/∂v and ∂θ̈/∂T = M⁻¹, each (nv, nv); `differentiate` returns Jacobians of functions."""
    M = factorised(nodes)
    ddtheta = M.solve(T - inverse_dynamics(nodes, np.zeros(nodes.nv)))
    at = Sensitivity(nodes, ddtheta, differentiate)
    free = free_parts(at, [k for k in nodes.children(nodes.ground) if falls_freely(k)])
    return with_solution(M, pairs(at), {k.dofs.start: part for k, part in free.items()})


def free_parts(at: Sensitivity, bodies: Sequence[Any]) -> dict[Any, Changes]:
    """Remove the changes of free bodies on the ground from `at` and return them.

    Their part of ∂T is M dA, whose solution is -dA for these bodies and zero for all others.
    """
    free = {k: at.moved[k] for k in bodies}
    for k, moved in free.items():
        at.moved[k] = moved._replace(dA=np.zeros((6, 6)), dA_v=np.zeros((6, 6)))
    return free


def hybrid_dynamics_derivatives(dT: Derivatives, prescribed: np.ndarray) -> Derivatives:
    """Return derivatives of hybrid dynamics with respect to q, v and the given values.

    `dT` are the derivatives of T at the solution. Results are the forces of velocities that are `prescribed`,
    (nv,), and the accelerations of the others.
    """
    p = np.flatnonzero(prescribed)
    u = np.flatnonzero(~prescribed)
    M = dT.by_a
    results = [np.zeros(M.shape, dtype=object) for _ in range(3)]
    L = Factor(M[np.ix_(u, u)])
    for out, T in zip(results, dT[:2]):
        out[u] = -L.solve(T[u])
        out[p] = T[p] + M[np.ix_(p, u)] @ out[u]
    response = L.solve(M[np.ix_(u, p)])
    results[2][np.ix_(u, u)] = L.inverted()
    results[2][np.ix_(u, p)] = -response
    results[2][np.ix_(p, u)] = response.T
    results[2][np.ix_(p, p)] = mirrored(M[np.ix_(p, p)] - M[np.ix_(p, u)] @ response)
    return Derivatives(*results)


def with_solution(M: Factor, dT: Derivatives, free: Mapping[int, Changes]) -> Derivatives:
    """Return ∂θ̈ = -M⁻¹ ∂T and M⁻¹ from derivatives of T; `free` holds `free_parts` by first velocity."""
    n = len(dT.by_q)
    solved = M.solve_sparse(np.concatenate([dT.by_q, dT.by_v], axis=1), negative=True)
    result = Derivatives(solved[:, :n], solved[:, n:], M.inverted())
    for start, part in free.items():
        rows = slice(start, start + 6)
        result.by_q[rows, rows] = result.by_q[rows, rows] - part.dA
        result.by_v[rows, rows] = result.by_v[rows, rows] - part.dA_v
    return result
