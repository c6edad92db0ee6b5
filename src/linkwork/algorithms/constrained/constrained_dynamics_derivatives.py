"""Derivatives of constrained dynamics at its solution (Carpentier, Budhiraja and Mansard 2021, Sec. IV).

Accelerations and forces solve r = [T(θ̈) - τ - Jᵀ f, J θ̈ - k] = 0, where T is inverse dynamics. Their
derivatives solve

    [M  -Jᵀ] [∂θ̈]
    [J   0 ] [∂f]  = -∂r    at fixed θ̈ and f,

with the same matrix as the dynamics, and so the same two factorizations: of M and of the Delassus matrix
J M⁻¹ Jᵀ. ∂T is analytic; only the terms of the constraints, Jᵀ f and J θ̈ - k, are differentiated
automatically, by sweeps without J.

If rows are redundant, nᵀ J = 0, then f minimizes fᵀ R f: nᵀ R f = 0, so R f = J x for some x, and nᵀ R ∂f =
-∂nᵀ R f = -∂nᵀ J x = nᵀ ∂J x. Inconsistent changes of J θ̈ - k are replaced by the nearest consistent ones:
the sum of squared differences divided by R is minimal.

If redundant rows contradict each other, they miss their targets by J θ̈ - k = R g with the smallest gᵀ R g, so
Jᵀ g = 0. Where J changes, Jᵀ ∂g = -∂Jᵀ g, so ∂g = n - p with any p for which Jᵀ p = ∂Jᵀ g, and some n with
Jᵀ n = 0: J ∂θ̈ = R ∂g - ∂(J θ̈ - k), where R n is what the nearest consistent changes leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.row_mobility import typical_mobilities
from linkwork.algorithms.loops.embedded_derivatives import (
    Along,
    of_inverse_dynamics_apart,
    position_rates,
    velocity_map,
)
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.inverse_dynamics_derivatives import Differentiate
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.compiler.ir.functions import map_rows, where
from linkwork.compiler.ir.precision import by_precision
from linkwork.compiler.ir.symbol import Symbol
from linkwork.constraints import Constraint
from linkwork.lazy import cached_property
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, any_nonzero, is_zero, mirrored
from linkwork.spatial.factor import count_nonzero_entries

MAX_UNROLLED_PRODUCTS = 10_000  # larger matrix products are maps over rows, which skip fewer zeros
# a row's own part of its entry in the Delassus matrix, below which it depends on those before it, and its
# entry relative to the typical one, below which it moves nothing, in double and in single precision
DEPENDENT_ROW_TOLS = (1e-10, 2e-5)


class ConstrainedDerivatives(NamedTuple):
    """Of θ̈, each (nv, nv), and of the constraint forces, each (m, nv)."""

    a_by_q: np.ndarray
    a_by_v: np.ndarray
    a_by_tau: np.ndarray
    f_by_q: np.ndarray
    f_by_v: np.ndarray
    f_by_tau: np.ndarray


def _total(x: np.ndarray) -> Any:
    """Return the sum of numbers, added one after the other."""
    total: Any = 0.0
    for y in x:
        total = total + y
    return total


class KKT:
    """Factorized system M x - Jᵀ y = b and J x = c for any b and c.

    `redundant` are rows that may depend on previous rows. Then y is the solution with the smallest yᵀ W y,
    with W the `weights`, and c is replaced by the nearest attainable one in the metric W⁻¹. Where other rows
    depend on previous ones or, compared with their typical `mobility`, (m,), move hardly at all, as in
    singular states, results are NaN.

    If redundant combinations N of loop equations were projected out, forces minimize the same norm: J x + W N
    Nᵀ W y = c, scaled by a typical mobility. Since Nᵀ J = 0 and Nᵀ c = 0, Nᵀ W y = 0.

    If a joint moves no mass, M + ρ Jᵀ J replaces M, as in `ltl`, and ρ Jᵀ c is added to b.
    """

    def __init__(
        self,
        constraint_rows: ConstraintRows,
        weights: np.ndarray | None = None,
        *,
        redundant: Sequence[int] = (),
        mobility: np.ndarray | None = None,
    ) -> None:
        nodes = constraint_rows.nodes
        inertia = mass_matrix(constraint_rows.nodes)
        self.J = constraint_rows.jacobian()
        self.rho = 0.0
        if any(is_zero(x) for x in np.diag(inertia)):
            self.rho = nodes.model.nominal.mass if isinstance(nodes, ModelTree) else 1.0
            inertia = inertia + self.rho * mirrored(self.J.T @ self.J)
        self.M = factorised(nodes, inertia)
        self.Y = self.M.half(self.J.T)
        delassus = mirrored(self.Y.T @ self.M.scaled(self.Y))
        m = constraint_rows.m
        self._weights = np.ones(m) if weights is None else weights * (m / _total(weights))
        self._mobility = _total(np.diag(delassus)) / max(constraint_rows.m, 1)
        if constraint_rows.is_truncated:
            delassus = mirrored(delassus + self.undetermined(constraint_rows, np.eye(constraint_rows.m)))
        any_symbol = next((x for x in delassus.ravel() if isinstance(x, Symbol)), 0.0)
        dependent = by_precision(any_symbol, *DEPENDENT_ROW_TOLS)
        # factors go from the last row to the first
        self.delassus = Factor(delassus[::-1, ::-1], dependent=dependent)
        comparable = mobility is not None and not redundant and isinstance(self.rho, float) and not self.rho
        self._reject_singular(delassus, redundant, dependent * mobility if comparable else None)
        self._null_forces: tuple[np.ndarray, Factor] | None = None  # forces N that move nothing, and Nᵀ W N
        if redundant:
            rows = list(redundant)
            is_dependent = np.array(
                [where(x == 0.0, 1.0, 0.0) for x in self.delassus.inverse[::-1][rows]], object
            )
            N = (np.eye(constraint_rows.m)[:, rows] - self.inverse @ delassus[:, rows]) * is_dependent
            weighted = mirrored((N.T * self._weights) @ N) + np.diag(1.0 - is_dependent)
            self._null_forces = N, Factor(weighted)

    def _reject_singular(self, delassus: np.ndarray, redundant: Sequence[int], least: Any) -> None:
        """Make results NaN where rows that are not in `redundant` depend on others: rank drops there.

        So it does where entries are not above `least`, (m,), if given. Rows of zeros are not active.
        """
        inverse = self.delassus.inverse[::-1]
        for row in {*range(len(delassus))} - {*redundant}:
            singular = inverse[row] == 0.0
            if least is not None:
                singular = singular | (delassus[row, row] <= least[row])
            inverse[row] = where(singular & (delassus[row, row] > 0.0), np.nan, inverse[row])

    def null_part(self, y: np.ndarray) -> np.ndarray:
        """Return N (Nᵀ W N)⁻¹ Nᵀ y, where N are forces that cause no motion; (0,) if there are none.

        For the adjoint y of `with_least_norm`, (m,), this is the adjoint of `null_change`.
        """
        if self._null_forces is None:
            return np.zeros(0)
        N, factor = self._null_forces
        return N @ factor.solve(N.T @ y)

    def with_least_norm(self, y: np.ndarray, null_change: Any = 0.0) -> np.ndarray:
        """Return the forces of smallest norm equivalent to y, (m,) or (m, columns).

        For derivatives of forces, `null_change` is the derivative of `row_motion` at fixed x.
        """
        return y if self._null_forces is None else y + self.null_part(null_change - (y.T * self._weights).T)

    def nearest_attainable(self, c: np.ndarray) -> np.ndarray:
        """Return the attainable J x nearest to c, (m,) or (m, columns)."""
        return c if self._null_forces is None else c - (self.null_part(c).T * self._weights).T

    def contradiction(self, c: np.ndarray) -> np.ndarray:
        """Return g, (m,), with J x - c = W g and Jᵀ g = 0 at the nearest attainable J x."""
        return -self.null_part(c)

    def change_of_miss(self, moved: np.ndarray, F: np.ndarray | None = None) -> np.ndarray:
        """Return W p, (m, ...), where Jᵀ p = `moved`, (nv, ...), the change of Jᵀ at fixed `contradiction`.

        `F`, (m, nv), are the basic forces of unit forces, where these are known.
        """
        p = self.basic(-moved, np.zeros((len(self.J), *moved.shape[1:])))[1] if F is None else -(F @ moved)
        return (p.T * self._weights).T

    def motion_of(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x and z with J x + `undetermined` z = W y, for forces y of smallest norm."""
        return self.basic(np.zeros(len(self.J.T)), self._weights * y)

    def row_motion(
        self, constraint_rows: ConstraintRows, motion: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Return J x + `undetermined` z of `motion_of`, (m,), in this or another state."""
        motion_of_rows = constraint_rows.jacobian() @ motion[0]
        return (
            motion_of_rows + self.undetermined(constraint_rows, motion[1])
            if constraint_rows.is_truncated
            else motion_of_rows
        )

    def undetermined(self, constraint_rows: ConstraintRows, y: np.ndarray) -> np.ndarray:
        """Return the term of forces y in the residual that vanishes for forces of smallest norm.

        `constraint_rows` are those of this or another state.
        """
        return constraint_rows.undetermined(y, self._weights) * self._mobility

    def solve_change(self, change: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the changes of x and y for changes of the residual, with one column each: of M x - Jᵀ y - b,
        (n,), and J x - c, (m,); where rows are redundant also of `row_motion`, (m,), and Jᵀ g, (n,).
        """
        m = len(self.J)
        forces, rows, motion, moved = np.split(change, [n, n + m, n + 2 * m])
        if not len(motion):
            return self.solve(-forces, -rows)
        return self.solve(-forces, -rows - self.change_of_miss(moved), motion)

    def solve(self, b: np.ndarray, c: np.ndarray, null_change: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y for b, (nv,) or (nv, columns), and c with as many columns.

        `null_change` is that of `with_least_norm`.
        """
        x, y = self.basic(b, self.nearest_attainable(c))
        return x, self.with_least_norm(y, null_change)

    def basic(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y, with zero components of y for rows that depend on previous rows."""
        if self.rho:
            b = b + self.rho * (self.J.T @ c)
        z = self.M.half(b)
        y = self.delassus.solve((c - self.Y.T @ self.M.scaled(z))[::-1])[::-1]
        return self.M.other_half(self.M.scaled(z + self.Y @ y)), y

    def unit_forces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return x, which is symmetric, and basic y for unit forces b, (nv, nv) and (m, nv)."""
        W = self.M.solve_sparse(self.Y, half=True)  # M⁻¹ Jᵀ
        if W.shape[0] ** 2 * W.shape[1] < MAX_UNROLLED_PRODUCTS:
            F = -(self.inverse @ W.T)
            return mirrored(self.M.inverted() + W @ F), F
        F = map_rows(lambda w: -(self.inverse @ w), W).T
        P = np.zeros((len(W), len(W)), dtype=object)
        inverse = self.M.inverse_rows
        scaled = self.M.scaled_rows
        for columns, filled_rows in self.M.segments():  # of M⁻¹ + W F, from the diagonal on

            def column(
                row: np.ndarray, first: int = columns.start, filled_rows: Any = filled_rows
            ) -> np.ndarray:
                y = dict(zip(filled_rows, row))
                f = row[len(filled_rows) :]
                below = range(first, len(W))
                return np.array(
                    [sum((x * y[s] for s, x in scaled[i].items() if s in y), W[i] @ f) for i in below]
                )

            filled_columns = [[*(inverse[j].get(s, 0.0) for s in filled_rows), *F[:, j]] for j in columns]
            P[columns.start :, columns] = map_rows(column, np.array(filled_columns, dtype=object)).T
        return mirrored(P.T), F

    @cached_property
    def inverse(self) -> np.ndarray:
        """Of the Delassus matrix, (m, m)."""
        return self.delassus.inverted()[::-1, ::-1]

    def solve_columns(
        self,
        unit: tuple[np.ndarray, np.ndarray],
        columns: Sequence[tuple[np.ndarray, np.ndarray, Mapping[int, np.ndarray]]],
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return x and basic y of matrices b and c, each column by the cheaper of two methods.

        A column is computed by the factors or from the responses `unit` to unit forces. The third entry of
        each triple holds dA of free bodies, whose part -M dA is missing in b (see `free_parts`). Columns with
        equal sparsity are solved by one map.
        """
        n = len(self.J.T)
        m = len(self.J)
        filled_columns = []
        for b, c, free in columns:
            c = np.array(c, dtype=object)
            for start, dA in free.items():
                block = slice(start, start + 6)
                c[:, block] = c[:, block] + self.J[:, block] @ dA
            filled_columns.append(np.concatenate([b + self.rho * (self.J.T @ c) if self.rho else b, c]))
        both = np.concatenate(filled_columns, axis=1)
        solution = np.zeros((n + m, both.shape[1]), dtype=object)
        for filled_rows, same_rows in self._columns_by_sparsity(both).items():
            solved = (
                self._by_factors
                if self._factors_are_cheaper(filled_rows)
                else partial(self._by_unit_forces, unit)
            )
            solution[:, same_rows] = map_rows(
                partial(solved, filled_rows), both[np.ix_(filled_rows, same_rows)].T
            ).T
        solutions = [(x[:n], x[n:]) for x in np.split(solution, len(columns), axis=1)]
        for (x, _), (_, _, free) in zip(solutions, columns):
            for start, dA in free.items():
                block = slice(start, start + 6)
                x[block, block] = x[block, block] - dA
        return solutions

    def _columns_by_sparsity(self, both: np.ndarray) -> dict[tuple[int, ...], list[int]]:
        """Return the columns of [b; c] by the nonzero rows of L⁻ᵀ b and c."""
        n = len(self.J.T)
        groups: dict[tuple[int, ...], list[int]] = {}
        for j, column in enumerate(both.T):
            groups.setdefault(self.M.reached([i for i in range(n) if not is_zero(column[i])]), []).append(j)
        columns_by_rows = {}
        for rows, columns in groups.items():
            constraint_indices = [i for i in range(n, len(both)) if any_nonzero(both[i, columns])]
            if rows or constraint_indices:
                columns_by_rows[*rows, *constraint_indices] = columns
        return columns_by_rows

    def _factors_are_cheaper(self, filled_rows: tuple[int, ...]) -> bool:
        """Return whether the factors take fewer products for a column, estimated."""
        n = len(self.J.T)
        m = len(self.J)
        entries = sum(map(len, self.M.rows))
        factor_products = sum(
            len(self.M.rows[i]) + count_nonzero_entries(self.Y[i]) for i in filled_rows if i < n
        )
        return factor_products + m * m + count_nonzero_entries(self.Y) + entries < (n + m) * len(filled_rows)

    def _by_factors(self, filled_rows: tuple[int, ...], column: np.ndarray) -> np.ndarray:
        n = len(self.J.T)
        both = np.zeros(n + len(self.J), dtype=object)
        both[list(filled_rows)] = column
        z = self.M.half(both[:n])
        y = self.inverse @ (both[n:] - self.Y.T @ self.M.scaled(z))
        return np.concatenate([self.M.other_half(self.M.scaled(z + self.Y @ y)), y])

    def _by_unit_forces(
        self, unit: tuple[np.ndarray, np.ndarray], filled_rows: tuple[int, ...], column: np.ndarray
    ) -> np.ndarray:
        (P, F), n = unit, len(self.J.T)
        b = [i for i in filled_rows if i < n]
        c = [i - n for i in filled_rows if i >= n]
        forces = column[: len(b)]
        rates = column[len(b) :]
        return np.concatenate(
            [P[:, b] @ forces - F[c].T @ rates, F[:, b] @ forces + self.inverse[:, c] @ rates]
        )


def constrained_dynamics_derivatives(
    model: Model,
    constraints: Sequence[Constraint],
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any,
    targets: Any,
    differentiate: Differentiate,
    along: Along,
    active: Any = None,
    weights: np.ndarray | None = None,
    redundant: Sequence[int] = (),
) -> ConstrainedDerivatives:
    """Return derivatives with respect to q (on the tangent space), v and tau.

    `differentiate` and `along` are those of `of_inverse_dynamics`, `weights` and `redundant` those of `KKT`.
    """

    def rows(q: Any, v: Any) -> ConstraintRows:
        return ConstraintRows(nodes_for(model, constraints, q, v, f_ext), constraints, targets, active)

    solution_rows = rows(q, v)
    kkt = KKT(solution_rows, weights, redundant=redundant, mobility=typical_mobilities(model, constraints))
    c = -solution_rows.at_rest()
    a, f = kkt.solve(tau - inverse_dynamics(solution_rows.nodes, np.zeros(model.nv)), c)
    motion = kkt.motion_of(f) if redundant else None
    missed = kkt.contradiction(c) if redundant else None

    def terms(q: Any) -> np.ndarray:
        """Return Jᵀ f and J θ̈ - k, and where rows are redundant J x and Jᵀ g."""
        moved_rows = rows(q, v)
        residual = moved_rows.residual(a)
        if moved_rows.is_truncated:
            residual = residual + kkt.undetermined(moved_rows, f)
        more = []
        if motion is not None and missed is not None:
            more = [kkt.row_motion(moved_rows, motion), moved_rows.joint_forces(missed)]
        return np.concatenate([moved_rows.joint_forces(f), residual, *more])

    nv = model.nv
    m = solution_rows.m
    T, free = of_inverse_dynamics_apart(model, q, v, a, f_ext, differentiate, along)
    moved = along(terms, q, position_rates(model, q) @ velocity_map(tree(model, q)))[1]
    null_change = differentiate(lambda v: rows(q, v).at_rest(), v)[1]
    unit = kkt.unit_forces()
    rows_by_q = moved[nv : nv + m]
    if redundant:
        rows_by_q = rows_by_q + kkt.change_of_miss(moved[nv + 2 * m :], unit[1])
    by_q, by_v = kkt.solve_columns(
        unit,
        [
            (
                moved[:nv] - T.by_q,
                -kkt.nearest_attainable(rows_by_q),
                {k: part.dA for k, part in free.items()},
            ),
            (-T.by_v, -kkt.nearest_attainable(null_change), {k: part.dA_v for k, part in free.items()}),
        ],
    )
    f_by_q = kkt.with_least_norm(by_q[1], moved[nv + m : nv + 2 * m])
    return ConstrainedDerivatives(
        by_q[0], by_v[0], unit[0], f_by_q, kkt.with_least_norm(by_v[1]), kkt.with_least_norm(unit[1])
    )
