"""The derivatives of forward dynamics: ∂θ̈ = -M⁻¹ ∂T, where T is inverse dynamics at the solution (Carpentier and Mansard 2018).

M = Lᵀ D L keeps the zeros of the tree, and so does L⁻¹: row i has entries at i and at the velocities below it. So an entry of
M⁻¹ B = L⁻¹ D⁻¹ L⁻ᵀ B for joints on different limbs takes a sum over the velocities that both hang on, and over no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.forward_dynamics import factorised
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.inverse_dynamics_derivatives import (
    Changes,
    Derivatives,
    Differentiate,
    Sensitivity,
    falls_freely,
    pairs,
)
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, mirrored


def forward_dynamics_derivatives(nodes: ModelTree[Any], T: np.ndarray, by: Differentiate) -> Derivatives:
    """∂θ̈/∂q, ∂θ̈/∂v and ∂θ̈/∂T = M⁻¹, each (nv, nv), under forces T, (nv,); `by` differentiates functions."""
    M = factorised(nodes)
    ddtheta = M.solve(T - inverse_dynamics(nodes, np.zeros(nodes.nv)))
    at = Sensitivity(nodes, ddtheta, by)
    free = free_parts(at, [k for k in nodes.children(nodes.ground) if falls_freely(k)])
    return with_solution(M, pairs(at), {k.dofs.start: part for k, part in free.items()})


def free_parts(at: Sensitivity, bodies: Sequence[Any]) -> dict[Any, Changes]:
    """What free bodies on the ground change, taken out of `at`: that part of ∂T is M dA, which only they answer, by -dA."""
    free = {k: at.moved[k] for k in bodies}
    for k, moved in free.items():
        at.moved[k] = moved._replace(dA=np.zeros((6, 6)), dA_v=np.zeros((6, 6)))
    return free


def hybrid_dynamics_derivatives(found: Derivatives, prescribed: np.ndarray) -> Derivatives:
    """Of what hybrid dynamics finds, by q, by v and by what it is given, from the derivatives of T at the solution.

    Found are the forces of velocities that are `prescribed`, (nv,), and the accelerations of others.
    """
    p, u = np.flatnonzero(prescribed), np.flatnonzero(~prescribed)
    M = found.by_a
    made = [np.zeros(M.shape, dtype=object) for _ in range(3)]
    L = Factor(M[np.ix_(u, u)])
    for out, T in zip(made, found[:2]):
        out[u] = -L.solve(T[u])
        out[p] = T[p] + M[np.ix_(p, u)] @ out[u]
    answer = L.solve(M[np.ix_(u, p)])
    made[2][np.ix_(u, u)] = L.inverted()
    made[2][np.ix_(u, p)], made[2][np.ix_(p, u)] = -answer, answer.T
    made[2][np.ix_(p, p)] = mirrored(M[np.ix_(p, p)] - M[np.ix_(p, u)] @ answer)
    return Derivatives(*made)


def with_solution(M: Factor, found: Derivatives, free: Mapping[int, Changes]) -> Derivatives:
    """∂θ̈ = -M⁻¹ ∂T and M⁻¹, from the derivatives of T at the solution, and `free_parts` by their first velocity's place."""
    n = len(found.by_q)
    solved = M.solve_sparse(np.concatenate([found.by_q, found.by_v], axis=1), negative=True)
    made = Derivatives(solved[:, :n], solved[:, n:], M.inverted())
    for start, part in free.items():
        own = slice(start, start + 6)
        made.by_q[own, own] = made.by_q[own, own] - part.dA
        made.by_v[own, own] = made.by_v[own, own] - part.dA_v
    return made
