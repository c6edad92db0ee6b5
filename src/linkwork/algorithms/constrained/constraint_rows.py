"""Constraints on the nodes of a mechanism: Σ K(k) α(k) + Σ c(k) θ̈(k) = k (Constrained Eq. 20c and 22)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.truncation import Family, NullRows, null_rows, rows_to_truncate
from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.compiler.ir.context import untraced
from linkwork.compiler.ir.functions import absolute, is_set, maximum, where
from linkwork.compiler.ir.precision import by_precision
from linkwork.constraints import Constraint, Rows, rows_of, with_nominal_numbers
from linkwork.errors import LinkworkError
from linkwork.model import Model
from linkwork.sko.contracts import HingeNode
from linkwork.sko.custom import Tree
from linkwork.sko.inertias import BlockInertia, DenseInertia
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.sko.tree import TreeState
from linkwork.spatial import Inertia, any_nonzero, is_zero, mirrored

TRIAL_STATES = 3
ROUNDING_TOL = 1e-10  # of the motion of its bodies, up to which a row moves by rounding errors only
SINGLE_ROUNDING_TOL = 1e-5  # the same in single precision
PLACEMENTS = ("placement", "frame_placement", "loop_placement", "ratio")  # parameters that decide J


class ConstraintRows:
    """Rows of several constraints, m in all, by the nodes that they constrain.

    `K[k]`, (m, rows of k), and `c[k]`, (m, velocities of k), exist where they are not zero; `k`, (m,), is the
    right-hand side. `groups` are the rows of each constraint. `active`, (n,), selects which of the first n
    constraints act: rows of others become zero by value and not by structure, so that one program serves all
    selections. `velocities`, (nv,), are those before an impact, from which `k` was computed.
    """

    velocities: np.ndarray | None = None

    def __init__(
        self,
        nodes: TreeState[HingeNode],
        constraints: Sequence[Constraint],
        targets: Any = None,
        active: Any = None,
        *,
        rounded: bool = False,
    ) -> None:
        """Collect the rows, and project out redundant combinations of loop equations.

        With `rounded`, only those of loops with rounded numbers are projected out, as needed for closing
        loops.
        """
        self._take(nodes, rows_of(nodes, constraints), targets, active)
        model = getattr(nodes, "model", None)
        if isinstance(model, Model):
            self._clear(rounding_rows(model, constraints), model)
        for rows, family in rows_to_truncate(model, tuple(constraints), self.groups, rounded=rounded):
            self._truncate(rows, family)

    @classmethod
    def of(cls, nodes: TreeState[HingeNode], rows: Sequence[Rows]) -> ConstraintRows:
        """Return constraint rows from given rows."""
        constraint_rows = cls.__new__(cls)
        constraint_rows._take(nodes, rows)
        return constraint_rows

    def _take(
        self, nodes: TreeState[HingeNode], parts: Sequence[Rows], targets: Any = None, active: Any = None
    ) -> None:
        starts = np.cumsum([0, *(len(rows.k) for rows in parts)])
        self.nodes = nodes
        self.m = int(starts[-1])
        self.groups = [range(a, b) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist())]
        self.K: dict[HingeNode, np.ndarray] = {}
        self.c: dict[HingeNode, np.ndarray] = {}
        self.k: Any = np.zeros(self.m, dtype=object)
        self._truncated: list[tuple[list[int], NullRows]] = []
        for group, rows in zip(self.groups, parts):
            self._place(list(group), rows)
        if targets is not None:
            self.k = self.k + targets
        self._acting: np.ndarray | None = None  # a condition for each row; None where all act
        if active is not None:
            self._deactivate(active)

    def cleared(self, largest: dict[int, float], model: Model) -> ConstraintRows:
        """Return the rows with zeros in those of `rounding_rows`."""
        result = copy(self)
        result.K = dict(self.K)
        result.c = dict(self.c)
        result._clear(largest, model)
        return result

    def _clear(self, largest: dict[int, float], model: Model) -> None:
        """Set rows of rounding errors to zero: by structure, or by value where parameters decide J."""
        if not largest:
            return
        factors = np.zeros(self.m, dtype=object)
        if any(name.partition("@")[0] in PLACEMENTS for name in model.parameter_inputs):
            J = self.jacobian()
            for r, scale in largest.items():
                size: Any = 0.0
                for x in J[r]:
                    size = maximum(size, absolute(x))
                tolerance = by_precision(size, ROUNDING_TOL, SINGLE_ROUNDING_TOL)
                factors[r] = where(size > scale * tolerance, 1.0, 0.0)
        for of in (self.K, self.c):
            for k, X in of.items():
                of[k] = X.copy()
                for r in largest:
                    of[k][r] = X[r] * factors[r]

    def _truncate(self, rows: list[int], family: Family) -> None:
        """Remove redundant combinations of a family's rows; see `truncation`."""
        null = null_rows(self.jacobian()[rows], family)
        for of in (self.K, self.c):
            for k, X in of.items():
                of[k] = X.copy()
                of[k][rows] = null.removed(X[rows])
        self.k = np.array(self.k, dtype=object)
        self.k[rows] = null.removed(self.k[rows])
        together = sorted({*rows} | {r for group in self.groups for r in group if {*group} & {*rows}})
        separate = [group for group in self.groups if not {*group} & {*rows}]
        self.groups = [*separate, together]  # type: ignore[list-item]
        self._truncated.append((rows, null))

    def truncated(self, x: np.ndarray) -> np.ndarray:
        """Return values of rows, (m,), without redundant combinations."""
        x = np.array(x, dtype=object)
        for rows, null in self._truncated:
            x[rows] = null.removed(x[rows])
        return x

    @property
    def is_truncated(self) -> bool:
        """True if combinations of rows were taken out."""
        return bool(self._truncated)

    def undetermined(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return W N Nᵀ W x of numbers of rows, (m,) or (m, columns), with the combinations N that were taken
        out.

        Zero for the forces with the least sum of `weights` W, (m,), times squares. Nᵀ W N = 1, so that sizes
        of entries follow from those of W, whatever the units of the rows.
        """
        total = np.zeros(np.shape(x), dtype=object)
        for rows, null in self._truncated:
            weighted = null.weighted(weights[rows])
            total[rows] = weighted @ (weighted.T @ x[rows])
        return total

    def _deactivate(self, active: Any) -> None:
        self._acting = np.full(self.m, True, dtype=object)
        for group, flag in zip(self.groups, active):
            self._acting[list(group)] = is_set(flag)
        masked = self.scaled(where(self._acting, 1.0, 0.0))
        self.K, self.c, self.k = masked.K, masked.c, self.of_acting(self.k)

    def of_acting(self, x: np.ndarray) -> np.ndarray:
        """Return values of rows, (m,), with zeros for inactive rows."""
        if self._acting is None:
            return x
        return np.array(
            [y if is_zero(y) else where(acts, y, 0.0) for acts, y in zip(self._acting, x)], dtype=object
        )

    def _place(self, group: list[int], rows: Rows) -> None:
        self.k[group] = rows.k
        for k, block, K in rows.nodes:
            target = self.K.setdefault(k, np.zeros((self.m, k.rows), dtype=object))
            target[group, block] = target[group, block] + K
        for k, c in rows.hinges:
            target = self.c.setdefault(k, np.zeros((self.m, k.dofs.stop - k.dofs.start), dtype=object))
            target[group] = target[group] + c

    def scaled(self, factors: np.ndarray) -> ConstraintRows:
        """Return the rows, each multiplied by a factor."""
        result = copy(self)
        result.k = self.k * factors
        result.K, result.c = ({k: (X.T * factors).T for k, X in of.items()} for of in (self.K, self.c))
        return result

    def jacobian(self) -> np.ndarray:
        """Return J, (m, nv), where J θ̈ is the part of the rows caused by θ̈ (Constrained Eq. 22)."""
        J = np.zeros((self.m, self.nodes.nv), dtype=object)
        for k, c in self.c.items():
            J[:, k.dofs] = c
        for group in map(list, self.groups):
            ends = [k for k, K in self.K.items() if any_nonzero(K[group])]
            # what moves both ends of a loop as one rigid body is not inertia_of_rows: all below a node that
            # hangs on one body
            shared = (
                set.intersection(*(set(self.nodes.path_to_ground(k)) for k in ends))
                if len(ends) > 1
                else set()
            )
            F: dict[HingeNode, Any] = {k: self.K[k][group].T for k in ends}  # Kᵀ of everything beyond a node
            for k in self.nodes.tips_to_base():
                if k not in F or (k in shared and k.rows == 6):
                    continue
                J[group, k.dofs] = J[group, k.dofs] + (k.H @ F[k]).T
                if k.parent is not self.nodes.ground and (k not in shared or k.supports > 1):
                    F[k.parent] = F.get(k.parent, 0.0) + k.A.gather(F[k])
        return J

    def at_rest(self) -> np.ndarray:
        """Return the residual of the rows at θ̈ = 0, (m,)."""
        total = -self.k
        beta = accelerations(self.nodes, np.zeros(self.nodes.nv))
        for k in self.nodes.base_to_tips():  # in an order independent of other constraints
            if k in self.K:
                total = total + self.K[k] @ beta[k]
        return total

    def residual(self, ddtheta: np.ndarray) -> np.ndarray:
        """Return J θ̈ + `at_rest`, (m,), by one sweep and without J."""
        total = -self.k
        alpha = accelerations(self.nodes, ddtheta)
        for k in self.nodes.base_to_tips():
            if k in self.K:
                total = total + self.K[k] @ alpha[k]
            if k in self.c:
                total = total + self.c[k] @ ddtheta[k.dofs]
        return total

    def moved(self, ddtheta: np.ndarray) -> np.ndarray:
        """Return J θ̈, (m,), by one sweep and without J."""
        total: Any = np.zeros(self.m, dtype=object)
        alpha: dict[HingeNode, np.ndarray] = {self.nodes.ground: np.zeros(self.nodes.ground.rows)}
        for k in self.nodes.base_to_tips():
            alpha[k] = k.A.scatter(alpha[k.parent]) + k.H.T @ ddtheta[k.dofs]
            if k in self.K:
                total = total + self.K[k] @ alpha[k]
            if k in self.c:
                total = total + self.c[k] @ ddtheta[k.dofs]
        return total

    def joint_forces(self, forces: np.ndarray) -> np.ndarray:
        """Return Jᵀ times the rows' forces, (nv,), by one sweep and without J."""
        T: Any = np.zeros(self.nodes.nv, dtype=object)
        F: dict[HingeNode, Any] = {k: K.T @ forces for k, K in self.K.items()}
        for k in self.nodes.tips_to_base():
            if k in self.c:
                T[k.dofs] = self.c[k].T @ forces
            if k in F:
                T[k.dofs] = T[k.dofs] + k.H @ F[k]
                if k.parent is not self.nodes.ground:
                    F[k.parent] = F.get(k.parent, 0.0) + k.A.gather(F[k])
        return T

    def stiffened(self, mu: np.ndarray) -> tuple[set[int], dict[HingeNode, list[Any]]]:
        """Return the rows that constrain a single body, and Kᵀ μ K of these for each node."""
        shared_rows = {
            r
            for r in range(self.m)
            if sum(any_nonzero(K[r]) for K in (*self.K.values(), *self.c.values())) > 1
        }
        local_rows: set[int] = set()
        added: dict[HingeNode, list[Any]] = {}
        for k, K in self.K.items():
            for block in k.blocks.values():
                rows = [
                    r
                    for r in range(self.m)
                    if r not in shared_rows and any_nonzero(K[r, block]) and is_zero_outside(K[r], block)
                ]
                if rows:
                    added.setdefault(k, []).append(
                        stiffness(k, block, K[rows, block], (K[rows, block].T * mu[rows]).T)
                    )
                    local_rows |= set(rows)
        return local_rows, added


def rounding_rows(
    model: Model, constraints: Sequence[Constraint], free: np.ndarray | None = None
) -> dict[int, float]:
    """Return the rows of J that consist of rounding errors in any configuration, by nominal numbers.

    The rounded normal of the plane in which a body moves gives such a row. The values are the largest entries
    that rows of this size have along the motion of their bodies. `free`: velocities that the rows act on,
    (nv,); default all.
    """
    nominal = model.nominal
    constraints = with_nominal_numbers(model, constraints)
    free = np.ones(nominal.nv, dtype=bool) if free is None else np.asarray(free, dtype=bool)
    key = (rounding_rows, constraints, tuple(free.tolist()))
    try:
        if key in nominal.cache:
            return nominal.cache[key]
    except TypeError:  # constraints of others
        return _rounding_rows(nominal, constraints, free)
    nominal.cache[key] = _rounding_rows(nominal, constraints, free)
    return nominal.cache[key]


def _rounding_rows(model: Model, constraints: Sequence[Constraint], free: np.ndarray) -> dict[int, float]:
    rng = np.random.default_rng(0)
    scales: np.ndarray | None = None
    rounding = None
    with untraced():
        for _ in range(TRIAL_STATES):
            try:
                nodes = nodes_for(model, constraints, model.tree_random(rng))
                rows = ConstraintRows.of(nodes, rows_of(nodes, constraints))
                J, largest = _with_largest_entries(rows, free)
            except (LinkworkError, ZeroDivisionError):
                return {}
            small = (np.abs(J) <= ROUNDING_TOL * largest).all(axis=1) & J.any(axis=1)
            rounding = small if rounding is None else rounding & small
            if not rounding.any():
                return {}
            sizes = largest.max(axis=1, initial=0.0)
            scales = sizes if scales is None else np.maximum(scales, sizes)
    assert rounding is not None and scales is not None
    return {int(r): float(scales[r]) for r in np.flatnonzero(rounding)}


def _with_largest_entries(rows: ConstraintRows, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return J, (m, free), of plain numbers, and the largest entries that rows of this size could have."""
    J = np.asarray(rows.jacobian(), dtype=float)
    largest = np.zeros_like(J)
    motions: dict[HingeNode, np.ndarray] = {}
    for k in rows.nodes.base_to_tips():
        motion = np.zeros((k.rows, rows.nodes.nv))
        if k.parent is not rows.nodes.ground:
            motion += np.asarray(k.A.gather(np.eye(k.rows)), dtype=float).T @ motions[k.parent]
        motion[:, k.dofs] += np.asarray(k.H, dtype=float).T
        motions[k] = motion
        if k in rows.K:
            K = np.asarray(rows.K[k], dtype=float)
            for part in _vectors(k):
                size = np.linalg.norm(K[:, part], axis=1)
                largest += np.outer(size, np.linalg.norm(motion[part], axis=0))
        if k in rows.c:
            largest[:, k.dofs] += np.abs(np.asarray(rows.c[k], dtype=float))
    J = J[:, free]
    largest = largest[:, free]
    largest[J == 0.0] = 0.0  # by structure, such as common motions of both bodies
    inertia = np.sqrt(np.maximum(np.diag(np.asarray(mass_matrix(rows.nodes), dtype=float))[free], 0.0))
    per_inertia = np.divide(largest, inertia, out=np.zeros_like(largest), where=inertia > 0.0)
    return J, np.maximum(largest, inertia * per_inertia.max(axis=1, initial=0.0)[:, None])


def _vectors(k: HingeNode) -> list[slice]:
    """Return the rows of a node that are a vector or a single number."""
    blocks = [block for block in k.blocks.values() if block.stop - block.start == 6]
    vectors = [slice(i, i + 3) for block in blocks for i in (block.start, block.start + 3)]
    covered = {i for part in vectors for i in range(part.start, part.stop)}
    return vectors + [slice(i, i + 1) for i in range(k.rows) if i not in covered]


def is_zero_outside(row: np.ndarray, columns: slice) -> bool:
    """Return whether a row is zero outside these columns."""
    return not any_nonzero(row[: columns.start]) and not any_nonzero(row[columns.stop :])


def stiffness(
    k: HingeNode, block: slice, K: np.ndarray, WK: np.ndarray
) -> Inertia | BlockInertia | DenseInertia:
    """Return Kᵀ W K as an inertia of a block of node k, in a form that can be added to its own."""
    if isinstance(k.M, DenseInertia):
        matrix = np.zeros((k.rows, k.rows), dtype=object)
        matrix[block, block] = mirrored(K.T @ WK)
        return DenseInertia(matrix)
    inertia_of_rows = Inertia(*np.zeros((3, 3, 3))).projected(-WK.T, K.T)
    return inertia_of_rows if isinstance(k.M, Inertia) else BlockInertia(block, inertia_of_rows, k.rows)


def nodes_for(
    model: Model | Tree,
    constraints: Sequence[Constraint],
    q: Any,
    v: Any = None,
    f_ext: Any = None,
    *,
    partition: bool = False,
) -> TreeState[Any]:
    """Return the nodes of a model in one state; constrained rotors are bodies there, not single rows."""
    if isinstance(model, Tree):
        return model.state(q, v, f_ext)
    rotors = {k for k, each in enumerate(lumped(model)) if each.rotor}
    joined = any(k in rotors for constraint in constraints for k in constraint.bodies(model))
    return hinge_tree(model, q, v, f_ext, all_bodies=joined, partition=partition)
