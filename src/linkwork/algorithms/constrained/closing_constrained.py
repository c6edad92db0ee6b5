"""Closing constrained loops: the nearest closed configuration, by Gauss-Newton steps of least norm.

Residuals are in radians or relative to the size of their loop, and steps in radians or relative to the
largest of these sizes, so that results do not depend on the size of the mechanism.
"""

from __future__ import annotations

import math
from functools import partial
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

# Factor by which gaps may be larger in single precision, relative to the ratio of rounding errors.
SINGLE_PRECISION_GAP_FACTOR = 1e-5
DAMPING = 1e-9  # for redundant rows (Levenberg-Marquardt), relative to the size of J


class Units(NamedTuple):
    """Units of the rows of constrained loops, (m,), and of velocities, (nv,)."""

    rows: np.ndarray
    velocities: np.ndarray


@cached_on_model
def closing_units(model: Model) -> Units:
    """Return units that are powers of two near the sizes of the loops, so that scaling is exact."""
    sizes: dict[str, float] = {}
    for bodies, loops in find_families(model.joints, model.loops):
        size = 2.0 ** round(math.log2(length_of(model, bodies, loops)))
        sizes |= {loop.name: size for loop in loops}
    acting = [loop for loop in model.constrained_loops if not isinstance(loop, Loop) or rows_of(loop)]
    rows = [row_units_of_loop(model, loop, sizes[loop.name]) for loop in acting]
    largest = max((sizes[loop.name] for loop in acting), default=1.0)
    return Units(np.concatenate([np.zeros(0), *rows]), units_of_velocities(model, largest))


def close_all(
    model: Model, q: np.ndarray, previous: np.ndarray | None = None, motion: np.ndarray | None = None
) -> Closed:
    """Return q with all loops closed, embedded and constrained ones; see `close_loops`."""
    constraints = loop_constraints(model)
    if not constraints:
        return close_loops(model, q, previous, motion)
    units = closing_units(model.nominal)
    start = close_loops(model, q, previous).q
    direction = partial(_direction, model, constraints, units)
    q, _ = newton(direction, partial(_moved, model), start, units.velocities, tolerance(CLOSURE_TOL, q))
    q, residual, openness = close_loops(model, q)
    nodes = nodes_for(model, constraints, q)
    residuals = violation(nodes, constraints)
    rows = ConstraintRows(nodes, constraints, rounded=True) if rounded_families(model.nominal) else None
    residuals = residuals if rows is None else rows.truncated(residuals)
    error = residual_norm(residuals)
    openness = maximum(residual_norm(residuals / units.rows) / OPEN, openness)
    redundant = [n for n, loop in enumerate(model.loops) if _has_redundant(model, loop)]
    if redundant:  # check all equations, also those that are not used
        limits = model.closure_tolerance[redundant]
        gaps = closure_gaps(model, q)[redundant]
        unit = tolerance(1.0, q)
        gap_factor = maximum(unit * SINGLE_PRECISION_GAP_FACTOR, 1.0)  # above 1 in single precision only
        error = maximum(error, residual_norm(gaps.ravel()))
        openness = maximum(openness, residual_norm(gaps.ravel() / limits.ravel()) * unit / gap_factor)
    return Closed(q, maximum(residual, error), openness)


def corrected(model: Model, q: np.ndarray) -> np.ndarray:
    """Return q after one Gauss-Newton step, which leaves closed configurations as they are.

    The derivative of this step at a closed q is that of the nearest closed configuration, by q and by
    parameters of the model.
    """
    _, step = _direction(model, loop_constraints(model), closing_units(model.nominal), q)
    return _moved(model, q, step)


def _direction(
    model: Model, constraints: tuple[Constraint, ...], units: Units, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the residuals, and the Gauss-Newton step of least norm, (nv,)."""
    nodes = nodes_for(model, constraints, q)
    rows = ConstraintRows(nodes, constraints, rounded=True)
    phi = rows.truncated(violation(nodes, constraints)) / units.rows
    J = rows.jacobian() * (units.velocities / units.rows[:, None])
    size = product(J.ravel(), J.ravel())  # not Python's own `sum`: since 3.12 it rounds floats otherwise
    normal = Factor(mirrored(J @ J.T) + DAMPING * size * np.eye(len(J)))
    return phi, -(J.T @ normal.solve(phi)) * units.velocities


def _moved(model: Model, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return q after a step of the independent velocities, with embedded loops closed."""
    return close_loops(model, integrate_tree(model, q, tree_motion(model, q, step)), q).q


def _has_redundant(model: Model, loop: LoopConstraint) -> bool:
    """Return whether a constrained loop has unused equations, or equations with slack."""
    constrained_loop = next((one for one in model.constrained_loops if one.name == loop.name), None)
    independent_rows = getattr(constrained_loop, "independent_rows", None)
    return constrained_loop is not None and (
        (independent_rows is not None and len(independent_rows) < constrained_loop.count(model.joints))
        or bool(getattr(constrained_loop, "slack", ()))
    )


def violation(nodes: Any, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """Return the violations of all rows, (m,)."""
    kinematics = BodyKinematics(nodes)
    return np.concatenate([constraint.violation(nodes.model, kinematics) for constraint in constraints])
