"""Closing constrained loops: the nearest closed configuration, by Gauss-Newton steps of least norm.

Residuals are measured in radians or sizes of their loop, and steps in radians or the largest of these sizes,
so that mechanisms of any size are closed alike.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.proximal import residual_norm
from linkwork.algorithms.constrained.truncation import (
    rounded_families,
    row_units_of_loop,
    units_of_velocities,
)
from linkwork.algorithms.loops.closing import OPEN, Closed, close_loops, integrate_tree, tree_motion
from linkwork.algorithms.loops.closure import closure_gaps
from linkwork.algorithms.newton import CLOSURE_TOL, newton, tolerance
from linkwork.compiler.ir.functions import maximum
from linkwork.constraints import BodyKinematics, Constraint, loop_constraints
from linkwork.loops.clusters import find_families
from linkwork.loops.scales import length_of
from linkwork.mechanism import Loop, LoopConstraint
from linkwork.mechanism.loops import rows_of
from linkwork.model import Model, cached_on_model
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.constants import product

# of the factor between rounding errors of single and double precision: by which gaps may be larger there
SINGLE = 1e-5
DAMPING = 1e-9  # for redundant rows (Levenberg-Marquardt), relative to the size of J


class Units(NamedTuple):
    """Units of the rows of constrained loops, (m,), of velocities, (nv,), and sizes of loops by name [m]."""

    rows: np.ndarray
    velocities: np.ndarray
    sizes: dict[str, float]


@cached_on_model
def closing_units(model: Model) -> Units:
    """Return powers of two near the sizes of the loops, so that scaling rounds nothing."""
    sizes: dict[str, float] = {}
    for bodies, loops in find_families(model.joints, model.loops):
        size = 2.0 ** round(math.log2(length_of(model, bodies, loops)))
        sizes |= {loop.name: size for loop in loops}
    acting = [loop for loop in model.constrained_loops if not isinstance(loop, Loop) or rows_of(loop)]
    rows = [row_units_of_loop(model, loop, sizes[loop.name]) for loop in acting]
    largest = max((sizes[loop.name] for loop in acting), default=1.0)
    return Units(np.concatenate([np.zeros(0), *rows]), units_of_velocities(model, largest), sizes)


def close_all(
    model: Model, q: np.ndarray, previous: np.ndarray | None = None, motion: np.ndarray | None = None
) -> Closed:
    """Return q with all loops closed, embedded and constrained ones; see `close_loops`."""
    return close_all_unit_free(model, q, previous, motion)[0]


def close_all_unit_free(
    model: Model, q: np.ndarray, previous: np.ndarray | None = None, motion: np.ndarray | None = None
) -> tuple[Closed, Any]:
    """Return what `close_all` does, and the largest residual in radians or sizes of the loop."""
    constraints = loop_constraints(model)
    if not constraints:
        closed = close_loops(model, q, previous, motion)
        return closed, closed.openness * OPEN
    units = closing_units(model.nominal)

    def direction(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nodes = nodes_for(model, constraints, q)
        rows = ConstraintRows(nodes, constraints, rounded=True)
        phi = rows.truncated(violation(nodes, constraints)) / units.rows
        J = rows.jacobian() * (units.velocities / units.rows[:, None])
        size = product(J.ravel(), J.ravel())  # not Python's own `sum`: since 3.12 it rounds floats otherwise
        normal = Factor(mirrored(J @ J.T) + DAMPING * size * np.eye(len(J)))
        return phi, -(J.T @ normal.solve(phi)) * units.velocities

    def retract(q: np.ndarray, dy: np.ndarray) -> np.ndarray:
        return close_loops(model, integrate_tree(model, q, tree_motion(model, q, dy)), q).q

    start = close_loops(model, q, previous).q
    q, _ = newton(direction, retract, start, units.velocities, tolerance(CLOSURE_TOL, q))
    q, residual, openness = close_loops(model, q)
    nodes = nodes_for(model, constraints, q)
    missed = violation(nodes, constraints)
    rows = ConstraintRows(nodes, constraints, rounded=True) if rounded_families(model.nominal) else None
    missed = missed if rows is None else rows.truncated(missed)
    error = residual_norm(missed)
    unit_free = maximum(residual_norm(missed / units.rows), openness * OPEN)
    openness = maximum(residual_norm(missed / units.rows) / OPEN, openness)
    redundant = [n for n, loop in enumerate(model.loops) if _has_redundant(model, loop)]
    if redundant:  # all equations count, also those that are not used
        limits = model.closure_tolerance[redundant]
        gaps = closure_gaps(model, q)[redundant]
        sizes = np.array([[units.sizes[model.loops[n].name], 1.0] for n in redundant])
        unit = tolerance(1.0, q)
        within = maximum(unit * SINGLE, 1.0)  # gaps in single precision are those of its rounding errors
        error = maximum(error, residual_norm(gaps.ravel()))
        unit_free = maximum(unit_free, residual_norm((gaps / sizes).ravel()))
        openness = maximum(openness, residual_norm(gaps.ravel() / limits.ravel()) * unit / within)
    return Closed(q, maximum(residual, error), openness), unit_free


def _has_redundant(model: Model, loop: LoopConstraint) -> bool:
    """Return whether a constrained loop has equations that are not used, or that rounded numbers do not
    satisfy.
    """
    held = next((one for one in model.constrained_loops if one.name == loop.name), None)
    independent_rows = getattr(held, "independent_rows", None)
    return held is not None and (
        (independent_rows is not None and len(independent_rows) < held.count(model.joints))
        or bool(getattr(held, "slack", ()))
    )


def violation(nodes: Any, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """Return the violations of all rows, (m,)."""
    kinematics = BodyKinematics(nodes)
    return np.concatenate([constraint.violation(nodes.model, kinematics) for constraint in constraints])
