"""Hybrid dynamics of constrained systems: some accelerations are prescribed, forces of all others given (Lie
Sec. 3.3).

    M θ̈ + b = τ + Jᵀ f,    J θ̈ = k,    with θ̈_u and τ_v given
    (Lie Eq. 70, 71)

On nodes whose prescribed accelerations are a Coriolis term (`sko.prescribed`), it is constrained dynamics of
θ̈_v: any of its solvers finds θ̈_v and f, where rows are redundant or contradict each other too. θ̈_u is kept
independent of the rows. Then τ_u = T_u - (Jᵀ f)_u, T being inverse dynamics (Lie Eq. 79).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constrained_dynamics_derivatives import KKT
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for, rounding_rows
from linkwork.algorithms.constrained.proximal import Result, Settings
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.constraints import Constraint
from linkwork.model import Model
from linkwork.sko.prescribed import with_prescribed

Solver = Callable[[ConstraintRows, np.ndarray, np.ndarray, Settings], Result]


class HybridResult(NamedTuple):
    """θ̈ and T of all velocities, each (nv,), the forces of the rows, (m,), whether iterations ended, and
    their number.
    """

    ddtheta: Any
    T: Any
    forces: Any
    converged: Any
    iterations: Any


def constrained_hybrid_dynamics(
    constraint_rows: ConstraintRows,
    solver: Solver,
    ddtheta: np.ndarray,
    T: np.ndarray,
    prescribed: np.ndarray,
    settings: Settings,
) -> HybridResult:
    """Return θ̈ and T, (nv,), and forces, where θ̈ is given at velocities that are `prescribed`, (nv,), and T
    at the others.
    """
    solution = solver(
        reduced(constraint_rows, prescribed, ddtheta), T[~prescribed], np.zeros(constraint_rows.m), settings
    )
    acc = np.array(ddtheta, dtype=object)
    tau = np.array(T, dtype=object)
    acc[~prescribed] = solution.ddtheta
    needed = inverse_dynamics(constraint_rows.nodes, acc) - constraint_rows.joint_forces(solution.forces)
    tau[prescribed] = needed[prescribed]
    return HybridResult(acc, tau, solution.forces, solution.converged, solution.iterations)


def reduced(constraint_rows: ConstraintRows, prescribed: np.ndarray, ddtheta: np.ndarray) -> ConstraintRows:
    """Return the rows restricted to velocities that are not prescribed."""
    ddtheta = np.array(ddtheta, dtype=object)
    nodes, made = with_prescribed(constraint_rows.nodes, prescribed, ddtheta)
    other = copy(constraint_rows)
    other.nodes = nodes
    other.K = {made[k]: K for k, K in constraint_rows.K.items()}
    other.c = {}
    for k, c in constraint_rows.c.items():
        known = prescribed[k.dofs]
        other.k = other.k - c[:, known] @ ddtheta[k.dofs][known]
        other.c[made[k]] = c[:, ~known]
    return other


class HybridArrays(NamedTuple):
    """Arrays of constrained hybrid dynamics, as in `linkwork.hybrid_dynamics`."""

    q: Any
    v: Any
    a: Any
    tau: Any
    f_ext: Any
    targets: Any
    active: Any


class HybridSolution:
    """θ̈ and T, (nv,), and the forces f, (m,), of constraints, with the system that they solve and how they
    change with it.
    """

    def __init__(
        self,
        model: Model,
        constraints: Sequence[Constraint],
        prescribed: np.ndarray,
        arrays: HybridArrays,
        weights: np.ndarray | None = None,
        redundant: Sequence[int] = (),
    ) -> None:
        self.constraints = constraints
        self.active = arrays.active
        self.prescribed = prescribed
        constraint_rows = self._rows(model, arrays.q, arrays.v, arrays.f_ext, arrays.targets)
        reduced_rows = reduced(constraint_rows, prescribed, arrays.a)
        rounding = rounding_rows(model, constraints, ~prescribed) if isinstance(model, Model) else {}
        self.kkt = KKT(reduced_rows.cleared(rounding, model), weights, redundant=redundant)
        self.J = constraint_rows.jacobian()
        self.M = mass_matrix(constraint_rows.nodes)
        bias = inverse_dynamics(reduced_rows.nodes, np.zeros(reduced_rows.nodes.nv))
        c = -reduced_rows.at_rest()
        free, self.f = self.kkt.solve(arrays.tau[~prescribed] - bias, c)
        self.a = np.array(arrays.a, dtype=object)
        self.tau = np.array(arrays.tau, dtype=object)
        self.a[~prescribed] = free
        needed = inverse_dynamics(constraint_rows.nodes, self.a) - constraint_rows.joint_forces(self.f)
        self.tau[prescribed] = needed[prescribed]
        self.motion: tuple[np.ndarray, np.ndarray] | None = None
        self.missed: np.ndarray | None = None
        if redundant:
            self.missed = self.kkt.contradiction(c)
            x, z = self.kkt.motion_of(self.f)
            still = np.zeros(len(self.a), dtype=object)
            still[~prescribed] = x
            self.motion = still, z

    def _rows(self, model: Model, q: Any, v: Any, f_ext: Any, targets: Any) -> ConstraintRows:
        return ConstraintRows(
            nodes_for(model, self.constraints, q, v, f_ext), self.constraints, targets, self.active
        )

    def residual(
        self, model: Model, q: Any, v: Any, f_ext: Any = None, targets: Any = None, **_: Any
    ) -> np.ndarray:
        """Return T - Jᵀ f and J a - k at this a and f in another state or of another model, (nv + m,).

        Where rows are redundant, `KKT.row_motion`, (m,), and Jᵀ times `KKT.contradiction`, of velocities that
        are not prescribed, follow.
        """
        constraint_rows = self._rows(model, q, v, f_ext, targets)
        rows = constraint_rows.residual(self.a)
        if constraint_rows.is_truncated:
            rows = rows + self.kkt.undetermined(constraint_rows, self.f)
        more = []
        if self.motion is not None and self.missed is not None:
            moved = constraint_rows.joint_forces(self.missed)[~self.prescribed]
            more = [self.kkt.row_motion(constraint_rows, self.motion), moved]
        return np.concatenate(
            [
                inverse_dynamics(constraint_rows.nodes, self.a) - constraint_rows.joint_forces(self.f),
                rows,
                *more,
            ]
        )

    def change(self, change: np.ndarray) -> np.ndarray:
        """Return the changes of what is found (T where prescribed, else θ̈; then f), (nv + m, columns), for
        changes of the residual.
        """
        p = self.prescribed
        v = ~self.prescribed
        nv = len(self.a)
        end = nv + len(self.f)
        out: Any = np.zeros((end, *change.shape[1:]), dtype=object)
        own = np.concatenate([change[:nv][v], change[nv:]])
        out[:nv][v], out[nv:] = self.kkt.solve_change(own, int(np.count_nonzero(v)))
        out[:nv][p] = change[:nv][p] + self.M[np.ix_(p, v)] @ out[:nv][v] - self.J[:, p].T @ out[nv:]
        return out

    def change_by_given(self) -> np.ndarray:
        """Return the changes of what is found by what is given (θ̈ where prescribed, else T), (nv + m,
        nv).
        """
        nv = len(self.a)
        by_given = [np.where(self.prescribed, self.M, -np.eye(nv)), np.where(self.prescribed, self.J, 0.0)]
        if self.motion is not None:
            by_given.append(np.zeros((len(self.J) + np.count_nonzero(~self.prescribed), nv)))
        return self.change(np.concatenate(by_given))
