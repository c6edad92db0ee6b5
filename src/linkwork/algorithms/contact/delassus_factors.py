"""Delassus matrix and free velocity of contact rows, by the mass matrix or by sweeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.delassus import compliance
from linkwork.algorithms.tree.forward_dynamics import articulated_body, factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.factor import sparse_product

DEPENDENT_ROW_TOL = 1e-10  # pivot of loops' rows that depend on others, relative to their diagonal


class DelassusByMassMatrix:
    """M = Lᵀ D L; `gained` (m,) are velocities of rows by forces in dt, and `G` (m, m)."""

    def __init__(self, nodes: Any, held: ConstraintRows, J: np.ndarray, tau: Any, dt: Any) -> None:
        self.M = factorised(nodes)
        self.Y = self.M.half(J.T)
        self.y = self.M.half(dt * (tau - inverse_dynamics(nodes, np.zeros(nodes.nv), maps=True)))
        scaled = self.M.scaled(self.Y)
        self.gained = sparse_product(scaled.T, self.y)
        self.G = mirrored(sparse_product(self.Y.T, scaled))

    def moved(self, impulses: np.ndarray) -> np.ndarray:
        """Return the change of v in a step, (nv,)."""
        return self.M.other_half(self.M.scaled(self.y + sparse_product(self.Y, impulses)))


class DelassusBySweeps:
    """Response of the bodies by articulated-body sweeps."""

    def __init__(self, nodes: Any, held: ConstraintRows, J: np.ndarray, tau: Any, dt: Any) -> None:
        self.nodes = nodes
        self.held = held
        self.tau = tau
        self.dt = dt
        self.gained = J @ (dt * articulated_body(nodes, tau))
        self.G = compliance(held)[0]

    def moved(self, impulses: np.ndarray) -> np.ndarray:
        forces = self.tau + self.held.joint_forces(impulses) * (1.0 / self.dt)
        return self.dt * articulated_body(self.nodes, forces)


def without_loops(G: np.ndarray, free: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return G and velocities of the first m rows while the others, those of loops, do not move; and all
    impulses from those of m.
    """
    if len(free) == m:
        return G, free, lambda impulses: impulses
    contact_rows = slice(0, m)
    loops = slice(m, None)
    S = Factor(G[loops, loops], dependent=DEPENDENT_ROW_TOL)
    Z = S.solve(G[loops, contact_rows])
    z = S.solve(free[loops])
    reduced = (
        G[contact_rows, contact_rows] - mirrored(G[contact_rows, loops] @ Z)
        if m
        else G[contact_rows, contact_rows]
    )
    return (
        reduced,
        free[contact_rows] - G[contact_rows, loops] @ z,
        lambda impulses: np.concatenate([impulses, -(z + Z @ impulses)]),
    )
