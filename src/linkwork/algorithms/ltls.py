"""proxLTLs: the augmented Lagrangian in joint space, with a sparse factor of M + Jᵀ μ J (Constrained Sec. II-D.2 and II-F)."""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.forward_dynamics import factorised
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.mass_matrix import mass_matrix
from linkwork.algorithms.proximal import Result, Settings, iterate, residual_norm
from linkwork.spatial import mirrored


def ltls(held: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """θ̈ under T, (nv,), and forces; starting from λ⁰, (m,)."""
    nodes, R = held.nodes, settings.R
    J = held.jacobian()
    mu = np.reshape(1.0 / R, (-1, 1))
    # Constraints on one node add to its inertia (Eq. 24), those on several to the matrix itself.
    alone, added = held.stiffened(1.0 / R)
    rest = [r for r in range(held.m) if r not in alone]
    M_mu = factorised(nodes, mass_matrix(nodes, added) + mirrored(J[rest].T @ (mu[rest] * J[rest])))
    k = -held.at_rest()
    free = T - inverse_dynamics(nodes, np.zeros(nodes.nv))  # M times the free acceleration
    ddtheta = M_mu.solve(free - J.T @ (lam0 - k / R))  # Eq. 16a
    lam = lam0 + (J @ ddtheta - k) / R  # Eq. 16b

    def step(change: np.ndarray, ddtheta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = -M_mu.solve(J.T @ change)
        return change + (J @ moved) / R, ddtheta + moved

    lam, ddtheta, change, count = iterate(settings, lam, lam - lam0, ddtheta, step)
    return Result(ddtheta, -lam, residual_norm(R * change), count)
