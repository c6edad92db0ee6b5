"""proxLTLs: augmented Lagrangian with a sparse factor of M + Jᵀ μ J (Constrained Sec. II-D.2 and II-F)."""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal import Result, Settings, iterate, moving_part
from linkwork.algorithms.constrained.refinement import refine
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.spatial import mirrored


def ltls(rows: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """Return θ̈ under T, (nv,), and constraint forces, starting from λ⁰, (m,)."""
    nodes = rows.nodes
    R = settings.R
    J = rows.jacobian()
    mu = np.reshape(1.0 / R, (-1, 1))
    # Constraints on one node add to its inertia (Eq. 24), those on several to the matrix itself.
    local_rows, added = rows.stiffened(1.0 / R)
    shared_rows = [r for r in range(rows.m) if r not in local_rows]
    M_mu = factorised(
        nodes, mass_matrix(nodes, added) + mirrored(J[shared_rows].T @ (mu[shared_rows] * J[shared_rows]))
    )
    k = -rows.at_rest()
    free = T - inverse_dynamics(nodes, np.zeros(nodes.nv))  # M times the free acceleration
    lam0 = moving_part(settings, lam0, lambda x: x - (J @ M_mu.solve(J.T @ x)) / R)
    ddtheta = M_mu.solve(free - J.T @ (lam0 - k / R))  # Eq. 16a
    lam = lam0 + (J @ ddtheta - k) / R  # Eq. 16b

    def step(change: np.ndarray, ddtheta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = -M_mu.solve(J.T @ change)
        return change + (J @ moved) / R, ddtheta + moved

    def respond(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = -M_mu.solve(J.T @ (r / R))
        return (r + J @ moved) / R, moved

    iterated = iterate(settings, lam, lam - lam0, ddtheta, step)
    ddtheta, iterated = refine(rows, settings, iterated.state, iterated, respond)
    return Result(ddtheta, -iterated.lam, iterated.converged, iterated.count)
