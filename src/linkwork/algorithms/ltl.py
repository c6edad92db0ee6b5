"""proxLTL: the dual problem in joint space, with Featherstone's sparse factor of the mass matrix (Constrained Sec. II-D.1)."""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.forward_dynamics import factorised
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.proximal import Result, Settings, iterate, residual_norm
from linkwork.spatial import Factor, mirrored


def ltl(held: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """θ̈ under T, (nv,), and forces; starting from λ⁰, (m,)."""
    nodes, R = held.nodes, settings.R
    J, M = held.jacobian(), factorised(nodes)  # M = Lᵀ D L
    y = M.half(T - inverse_dynamics(nodes, np.zeros(nodes.nv)))  # L⁻ᵀ of what accelerates freely (Eq. 3)
    Y = M.half(J.T)
    damped = Factor(mirrored(Y.T @ M.scaled(Y)) + np.diag(R))  # Λ⁻¹ + R, with Λ⁻¹ = J M⁻¹ Jᵀ
    lam = damped.solve(Y.T @ M.scaled(y) + held.at_rest() + R * lam0)  # Eq. 13b

    def step(change: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return damped.solve(R * change), state

    lam, _, change, count = iterate(settings, lam, lam - lam0, np.zeros(0), step)
    return Result(M.other_half(M.scaled(y - Y @ lam)), -lam, residual_norm(R * change), count)  # Eq. 8
