"""Derivatives of solutions of dynamics with respect to any input, by the implicit function theorem.

Accelerations, or forces where accelerations are prescribed, solve T(θ̈, p) = τ, T being inverse dynamics.
With ∂T/∂p at fixed θ̈, for any p (an inertia, a placement, an external force), their changes solve the
same equations: M ∂θ̈ = -∂T.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constrained_dynamics_derivatives import KKT
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.row_mobility import typical_mobilities
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.constraints import Constraint
from linkwork.model import Model
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.spatial import Factor


class Solution(NamedTuple):
    """Accelerations, (nv,), and the factor of the mass matrix that gave them."""

    a: np.ndarray
    M: Factor


def forward_solution(model: Model, q: Any, v: Any, tau: Any, f_ext: Any) -> Solution:
    """Return the solution of forward dynamics."""
    nodes = hinge_tree(model, q, v, f_ext)
    M = factorised(nodes)
    return Solution(M.solve(tau - inverse_dynamics(nodes, np.zeros(nodes.nv))), M)


def hybrid_change(model: Model, q: Any, prescribed: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return the change of what hybrid dynamics finds, (nv, columns), for changes of T at its solution, (nv,
    columns).
    """
    p = np.flatnonzero(prescribed)
    u = np.flatnonzero(~prescribed)
    M = mass_matrix(hinge_tree(model, q))
    out: Any = np.zeros(change.shape, dtype=object)
    out[u] = -Factor(M[np.ix_(u, u)]).solve(change[u])
    out[p] = change[p] + M[np.ix_(p, u)] @ out[u]
    return out


class ConstrainedSolution:
    """Accelerations a, (nv,), and the forces f, (m,), of constraints, with the system that they solve."""

    def __init__(
        self,
        model: Model,
        constraints: Sequence[Constraint],
        q: Any,
        v: Any,
        tau: Any,
        f_ext: Any,
        targets: Any,
        active: Any = None,
        weights: np.ndarray | None = None,
        redundant: Sequence[int] = (),
    ) -> None:
        self.constraints = constraints
        self.active = active
        constraint_rows = self._rows(model, q, v, f_ext, targets)
        mobility = typical_mobilities(model, constraints)
        self.kkt = KKT(constraint_rows, weights, redundant=redundant, mobility=mobility)
        self.m = constraint_rows.m
        c = -constraint_rows.at_rest()
        self.a, self.f = self.kkt.solve(tau - inverse_dynamics(constraint_rows.nodes, np.zeros(model.nv)), c)
        self.motion = self.kkt.motion_of(self.f) if redundant else None
        self.missed = self.kkt.contradiction(c) if redundant else None

    def _rows(self, model: Model, q: Any, v: Any, f_ext: Any, targets: Any) -> ConstraintRows:
        return ConstraintRows(
            nodes_for(model, self.constraints, q, v, f_ext), self.constraints, targets, self.active
        )

    def residual(
        self, model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, targets: Any = None
    ) -> np.ndarray:
        """Return T - τ - Jᵀ f and J a - k at this a and f in another state or of another model, (nv + m,).

        Where rows are redundant, `KKT.row_motion`, (m,), and Jᵀ times `KKT.contradiction`, (nv,), follow.
        """
        constraint_rows = self._rows(model, q, v, f_ext, targets)
        rows = constraint_rows.residual(self.a)
        if constraint_rows.is_truncated:
            rows = rows + self.kkt.undetermined(constraint_rows, self.f)
        forces = inverse_dynamics(constraint_rows.nodes, self.a) - tau - constraint_rows.joint_forces(self.f)
        more = []
        if self.motion is not None and self.missed is not None:
            motion = self.kkt.row_motion(constraint_rows, self.motion)
            more = [motion, constraint_rows.joint_forces(self.missed)]
        return np.concatenate([forces, rows, *more])

    def change(self, change: np.ndarray) -> np.ndarray:
        """Return the changes of a and f, (nv + m, columns), for changes of the residual."""
        return np.concatenate(self.kkt.solve_change(change, len(self.a)))

    def weights(self, a: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return the weights of the residual whose gradient is minus that of given weights of a and f."""
        x, y = self.kkt.solve(a, -f)
        more = [] if self.motion is None else [-self.kkt.null_part(f), -self.kkt.motion_of(y)[0]]
        return np.concatenate([x, -y, *more])
