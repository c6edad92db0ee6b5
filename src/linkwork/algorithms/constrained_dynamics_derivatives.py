"""The derivatives of constrained dynamics, at its solution (Carpentier, Budhiraja and Mansard 2021, Sec. IV).

Accelerations and forces solve r = [T(θ̈) - τ - Jᵀ f, J θ̈ - k] = 0, T being inverse dynamics. So their changes solve

    [M  -Jᵀ] [∂θ̈]
    [J   0 ] [∂f]  = -∂r    at fixed θ̈ and f,

the system that they solve themselves, by the same two factors: of M, and of the Delassus matrix J M⁻¹ Jᵀ. ∂T is analytic; only
the constraints' own terms, Jᵀ f and J θ̈ - k, are differentiated as they are computed, by sweeps without J.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.embedded_derivatives import Along, of_inverse_dynamics_apart, position_rates, velocity_map
from linkwork.algorithms.forward_dynamics import factorised
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.inverse_dynamics_derivatives import Differentiate
from linkwork.algorithms.mass_matrix import mass_matrix
from linkwork.constraints import Constraint
from linkwork.model import Model
from linkwork.simplify.trees import tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, is_zero, mirrored

DEPENDENT = 1e-10  # a row's own part of its entry in the Delassus matrix, below which it depends on those before it


class ConstrainedDerivatives(NamedTuple):
    """Of θ̈, each (nv, nv), and of the constraint forces, each (m, nv)."""

    a_by_q: np.ndarray
    a_by_v: np.ndarray
    a_by_tau: np.ndarray
    f_by_q: np.ndarray
    f_by_v: np.ndarray
    f_by_tau: np.ndarray


class KKT:
    """M x - Jᵀ y = b and J x = c, solved for any b and c. Rows that depend on those before them have y = 0.

    Where a joint moves no mass, M + ρ Jᵀ J takes the place of M, as in `ltl`: b then has ρ Jᵀ c besides.
    """

    def __init__(self, held: ConstraintRows) -> None:
        nodes, inertia = held.nodes, mass_matrix(held.nodes)
        self.J, self.rho = held.jacobian(), 0.0
        if any(is_zero(x) for x in np.diag(inertia)):
            self.rho = nodes.model.structure.mass if isinstance(nodes, ModelTree) else 1.0
            inertia = inertia + self.rho * mirrored(self.J.T @ self.J)
        self.M = factorised(nodes, inertia)
        self.Y = self.M.half(self.J.T)
        delassus = mirrored(self.Y.T @ self.M.scaled(self.Y))
        self.delassus = Factor(delassus[::-1, ::-1], dependent=DEPENDENT)  # factors go from the last row to the first

    def solve(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x and y for b of shape (nv,) or (nv, columns), and c with as many columns."""
        if self.rho:
            b = b + self.rho * (self.J.T @ c)
        return self._solved(b, c)

    def _solved(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = self.M.half(b)
        y = self.delassus.solve((c - self.Y.T @ self.M.scaled(z))[::-1])[::-1]
        return self.M.other_half(self.M.scaled(z + self.Y @ y)), y

    def unit_forces(self) -> tuple[np.ndarray, np.ndarray]:
        """x, which is symmetric, and y for unit forces b, (nv, nv) and (m, nv)."""
        n, m = len(self.J.T), len(self.J)
        x, y = self.solve(np.eye(n), np.zeros((m, n)))
        return mirrored(x), y

    def solve_columns(
        self, unit: tuple[np.ndarray, np.ndarray], b: np.ndarray, c: np.ndarray, free: Mapping[int, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """x and y of columns, each by the factors or from those of `unit` forces, whichever takes fewer products, about.

        `free`: b of six velocities lacks a part -M dA, of bodies that are free but for the constraints (see `free_parts`).
        """
        P, F = unit
        b, c = np.array(b, dtype=object), np.array(c, dtype=object)
        for start, dA in free.items():
            own = slice(start, start + 6)
            c[:, own] = c[:, own] + self.J[:, own] @ dA
        if self.rho:
            b = b + self.rho * (self.J.T @ c)
        by_factors = 2 * sum(map(len, self.M.rows)) + 2 * _entries(self.Y) + len(c) ** 2
        saved = by_factors - (len(P) + len(F)) * np.array([_entries(x) for x in np.concatenate([b, c]).T], dtype=int)
        few = (saved > 0) & (saved < by_factors)  # not columns of zeros
        x, y = self._solved(b, c)
        if sum(saved[few]) > len(c) ** 3 // 2:  # what the inverse takes
            inverse = self.delassus.inverted()[::-1, ::-1]
            x[:, few], y[:, few] = P @ b[:, few] - F.T @ c[:, few], F @ b[:, few] + inverse @ c[:, few]
        for start, dA in free.items():
            own = slice(start, start + 6)
            x[own, own] = x[own, own] - dA
        return x, y


def _entries(x: np.ndarray) -> int:
    """How many entries are not zero by structure."""
    return sum(not is_zero(y) for y in x.ravel())


def constrained_dynamics_derivatives(
    model: Model,
    constraints: Sequence[Constraint],
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any,
    targets: Any,
    by: Differentiate,
    along: Along,
    active: Any = None,
) -> ConstrainedDerivatives:
    """By q on the tangent space, v and tau; `by` and `along` differentiate functions, as in `of_inverse_dynamics`."""

    def rows(q: Any, v: Any) -> ConstraintRows:
        return ConstraintRows(nodes_for(model, constraints, q, v, f_ext), constraints, targets, active)

    held = rows(q, v)
    kkt = KKT(held)
    a, f = kkt.solve(tau - inverse_dynamics(held.nodes, np.zeros(model.nv)), -held.at_rest())

    def terms(q: Any) -> np.ndarray:
        """Jᵀ f and J θ̈ - k."""
        there = rows(q, v)
        return np.concatenate([there.joint_forces(f), there.residual(a)])

    T, free = of_inverse_dynamics_apart(model, q, v, a, f_ext, by, along)
    moved = along(terms, q, position_rates(model, q) @ velocity_map(tree(model, q)))[1]
    turned = by(lambda v: rows(q, v).at_rest(), v)[1]
    unit = kkt.unit_forces()
    by_q = kkt.solve_columns(unit, moved[: model.nv] - T.by_q, -moved[model.nv :], {k: part.dA for k, part in free.items()})
    by_v = kkt.solve_columns(unit, -T.by_v, -turned, {k: part.dA_v for k, part in free.items()})
    return ConstrainedDerivatives(by_q[0], by_v[0], unit[0], by_q[1], by_v[1], unit[1])
