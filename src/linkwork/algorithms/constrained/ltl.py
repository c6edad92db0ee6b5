"""proxLTL: the dual problem with Featherstone's sparse factor of the mass matrix (Constrained Sec. II-D.1).

A joint that moves no mass but is determined by constraints makes M singular, but not M + ρ Jᵀ J, which gives
the same motion: where J θ̈ = k, it has the further forces ρ Jᵀ k (the augmented Lagrangian, Constrained Eq.
15).
"""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal import Result, Settings, iterate, moving_part
from linkwork.algorithms.constrained.refinement import refine
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, is_zero, mirrored


def ltl(rows: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """Return θ̈ under T, (nv,), and constraint forces, starting from λ⁰, (m,)."""
    nodes = rows.nodes
    R = settings.R
    J = rows.jacobian()
    inertia = mass_matrix(nodes)
    k_at_rest = rows.at_rest()
    force = T - inverse_dynamics(nodes, np.zeros(nodes.nv))
    if any(is_zero(x) for x in np.diag(inertia)):
        rho = nodes.model.nominal.mass if isinstance(nodes, ModelTree) else 1.0  # of about the size of M
        inertia = inertia + rho * mirrored(J.T @ J)
        force = force - rho * (J.T @ k_at_rest)
    M = factorised(nodes, inertia)  # Lᵀ D L
    y = M.half(force)  # L⁻ᵀ of what accelerates freely (Eq. 3)
    Y = M.half(J.T)
    damped = Factor(mirrored(Y.T @ M.scaled(Y)) + np.diag(R))  # Λ⁻¹ + R, with Λ⁻¹ = J M⁻¹ Jᵀ
    lam0 = moving_part(settings, lam0, lambda x: damped.solve(R * x))
    lam = damped.solve(Y.T @ M.scaled(y) + k_at_rest + R * lam0)  # Eq. 13b

    def step(change: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return damped.solve(R * change), state

    def respond(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = damped.solve(r)
        return z, -M.other_half(M.scaled(Y @ z))

    iterated = iterate(settings, lam, lam - lam0, np.zeros(0), step)
    ddtheta = M.other_half(M.scaled(y - Y @ iterated.lam))  # Eq. 8
    ddtheta, iterated = refine(rows, settings, ddtheta, iterated, respond)
    return Result(ddtheta, -iterated.lam, iterated.converged, iterated.count)
