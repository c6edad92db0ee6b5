"""Forward dynamics of mechanisms with loops without embedding, the reference for constraint embedding.

M v̇ + C = τ + Kᵀ λ and K v̇ = k on the spanning tree, by sparse factors of the mass matrix and of K M⁻¹ Kᵀ: the
operations of the proximal and sparse method (Loops Sec. VI, its reference [30]) with one iteration, without
those of its regularization.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.functions.engine.model_function import model_function
from linkwork.loops.embedding import tree_equations
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from linkwork.spatial import Factor


def constraints(model: Model, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return K, (equations, nv_spanning), and k, (equations,), of the independent equations of all loops."""
    size = model.nv_spanning
    K = [np.zeros((0, size))]
    k = [np.zeros(0)]
    for cluster in model.clusters:
        if cluster.constraints:
            left, right = tree_equations(model, cluster, q, v)
            K.append(left[list(cluster.rows)])
            k.append(right[list(cluster.rows)])
    return np.concatenate(K), np.concatenate(k)


@model_function(q="nq", v="nv_spanning", tau="nv_spanning")
def forward_dynamics_kkt(model: Model, q: Any, v: Any, tau: Any) -> Any:
    """Return the accelerations of all joints of the tree, (..., nv_spanning), from their velocities and
    forces.
    """
    nodes = tree(model.spanning_tree(), q, v)
    M = Factor(mass_matrix(nodes))
    K, k = constraints(model, q, v)
    z = _half(M, tau - inverse_dynamics(nodes, np.zeros(nodes.nv)))
    Y = _half(M, K.T)  # M⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ, and this is L⁻ᵀ Kᵀ
    scaled = M.inverse[:, None] * Y
    n = len(K)
    A = np.zeros((n, n), dtype=object)
    for i in range(n):
        for j in range(i + 1):
            A[i, j] = A[j, i] = Y[:, i] @ scaled[:, j]
    force = Factor(A).solve(k - scaled.T @ z)
    x = M.inverse * (z + Y @ force)
    for row, entries in enumerate(M.rows):
        for i, factor in entries:
            x[row] = x[row] - factor * x[i]
    return x


def _half(M: Factor, b: np.ndarray) -> np.ndarray:
    """Return L⁻ᵀ b, for b of shape (n,) or (n, m)."""
    x = np.array(b, dtype=object)
    for k in reversed(range(len(x))):
        for i, factor in M.rows[k]:
            x[i] = x[i] - factor * x[k]
    return x
