"""Redundant equations of constrained loops: null combinations of rows are projected out.

If all equations of a loop are used, some combinations n of their rows vanish in closed states, nᵀ J = 0, or
would do so for exact numbers. If the loop is open, as in the stages of Runge-Kutta methods, or its numbers
are rounded, such a combination is a small row, which has no meaning but would require large accelerations.
These combinations span the eigenvectors of J Jᵀ with the smallest eigenvalues, in unit-free rows; their
number is known from the rank of the loops. They are computed by inverse iteration and removed by the
projection P = 1 - E Nᵀ of the rows, orthogonal in unit-free rows. Accelerations are then those of the
truncated singular value decomposition, which are smooth functions of the state, closed or not, and do not
depend on the unit of length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import sqrt
from linkwork.constraints import Constraint
from linkwork.constraints.loops import ConstrainedLoop
from linkwork.loops.clusters import find_families
from linkwork.loops.scales import length_of, row_units, velocity_units
from linkwork.model import Model, cached_on_model
from linkwork.model.states import closable_cluster
from linkwork.spatial import Factor, mirrored

DAMPING = 1e-6  # of J Jᵀ, relative to its trace: between what rounded numbers leave and regular eigenvalues
ITERATIONS = 3


class Family(NamedTuple):
    """Constrained loops that share bodies: their names, the number of null combinations, and units."""

    names: tuple[str, ...]
    nullity: int
    rows: np.ndarray  # units of the residuals of each loop's used equations, one after the other
    velocities: np.ndarray  # units of the model's velocities, (nv,)


@cached_on_model
def rounded_families(model: Model) -> list[Family]:
    """Return the families of `redundant_families` with rounded numbers, whose equations are inconsistent."""
    rounded = {loop.name for loop in model.constrained_loops if getattr(loop, "slack", ())}
    return [family for family in redundant_families(model) if rounded & {*family.names}]


@cached_on_model
def redundant_families(model: Model) -> list[Family]:
    """Return the constrained loops that use more rows than their nominal rank."""
    families = []
    constrained_loops = {loop.name: loop for loop in model.constrained_loops}
    for bodies, loops in find_families(model.joints, model.loops):
        rows_of_family = [constrained_loops[loop.name] for loop in loops if loop.name in constrained_loops]
        if not rows_of_family or all(loop.linear for loop in loops):
            continue
        cluster = closable_cluster(model, bodies, loops)
        if cluster is None:  # no closed state says which equations are redundant
            continue
        embedded = sum(len(c.rows) for c in model.clusters if c.constraints and set(c.bodies) <= set(bodies))
        size = length_of(model, bodies, loops)
        units = [row_units_of_loop(model, loop, size) for loop in rows_of_family]
        nullity = sum(map(len, units)) - (len(cluster.rows) - embedded)
        if cluster.overdetermined and nullity > 0:
            velocities = units_of_velocities(model, size)
            families.append(
                Family(
                    tuple(loop.name for loop in rows_of_family), nullity, np.concatenate(units), velocities
                )
            )
    return families


def row_units_of_loop(model: Model, loop: Any, size: float) -> np.ndarray:
    """Return the units of the residuals of a constrained loop's used equations, (rows,), for its size [m]."""
    independent_rows = getattr(loop, "independent_rows", None)
    used = list(range(loop.count(model.joints)) if independent_rows is None else independent_rows)
    return row_units(model, [loop], size)[used]


def units_of_velocities(model: Model, size: float) -> np.ndarray:
    """Return a radian or a length for each of the model's velocities, (nv,)."""
    every = velocity_units(model, [*range(len(model.joints))], size)
    names = [name for joint in model.joints for name in joint.v_names]
    known = dict(zip(names, every))
    return np.array([known[name] for name in model.v_names])


def rows_to_truncate(
    model: Any, constraints: tuple[Constraint, ...], groups: list[range], *, rounded: bool = False
) -> list[tuple[list[int], Family]]:
    """Return the rows of each redundant (with `rounded`: rounded) family of loops among some constraints."""
    if not (isinstance(model, Model) and model.constrained_loops):
        return []
    families = (rounded_families if rounded else redundant_families)(model.nominal)
    at = {c.loop.name: list(group) for c, group in zip(constraints, groups) if isinstance(c, ConstrainedLoop)}
    return [
        ([row for name in family.names for row in at[name]], family)
        for family in families
        if set(family.names) <= {*at}
    ]


class NullRows(NamedTuple):
    """Null combinations N of rows, (rows, nullity), and the residuals E that they span, with Nᵀ E = 1.

    Both are the same orthonormal vectors in unit-free rows: in the units of the rows N are forces and E are
    residuals.
    """

    N: np.ndarray
    E: np.ndarray

    def removed(self, x: np.ndarray) -> np.ndarray:
        """Return rows, (rows,) or (rows, columns), without their redundant combinations, (1 - E Nᵀ) x."""
        return x - self.E @ (self.N.T @ x)

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """Return W N, (rows, nullity), for the diagonal W of `weights` and the basis N with Nᵀ W N = 1."""
        root = np.array([sqrt(weight) for weight in weights], dtype=object)[:, None]
        return root * _orthonormal(root * self.N)


def null_rows(J: np.ndarray, family: Family) -> NullRows:
    """Return the null combinations of the family's rows J, (rows, nv)."""
    A = (J * family.velocities) * (1.0 / family.rows)[:, None]
    directions = null_directions(mirrored(A @ A.T), family.nullity)
    return NullRows(directions * (1.0 / family.rows)[:, None], directions * family.rows[:, None])


def null_directions(S: np.ndarray, nullity: int) -> np.ndarray:
    """Orthonormal eigenvectors, (n, nullity), of a semidefinite S, (n, n), with its smallest eigenvalues."""
    trace: Any = 0.0
    for k in range(len(S)):
        trace = trace + S[k, k]
    factor = Factor(S + DAMPING * trace * np.eye(len(S)))
    N: Any = np.cos(1.0 + 3.0 * np.arange(len(S) * nullity)).reshape(len(S), nullity)
    for _ in range(ITERATIONS):
        N = _orthonormal(factor.solve(N))
    return np.asarray(N)


def _orthonormal(X: np.ndarray) -> np.ndarray:
    """Return the columns of X made orthonormal, one after the other (modified Gram-Schmidt)."""
    done: list[np.ndarray] = []
    for x in X.T:
        for y in done:
            x = x - y * (x @ y)
        done.append(x * (1.0 / sqrt(x @ x)))
    return np.array(done, dtype=object).T
