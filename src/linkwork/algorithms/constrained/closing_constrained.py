"""Closing constrained loops: the nearest closed configuration, by Gauss-Newton steps of least norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.proximal import residual_norm
from linkwork.algorithms.constrained.truncation import rounded_families
from linkwork.algorithms.loops.closing import OPEN, Closed, close_loops, integrate_tree, tree_motion
from linkwork.algorithms.loops.closure import closure_gaps
from linkwork.algorithms.newton import CLOSURE_TOL, newton, tolerance
from linkwork.compiler.ir.functions import maximum
from linkwork.constraints import BodyKinematics, Constraint, loop_constraints
from linkwork.mechanism import LoopConstraint
from linkwork.model import Model
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.constants import product

# of the factor between rounding errors of single and double precision: by which gaps may be larger there
SINGLE = 1e-5
DAMPING = 1e-9  # for redundant rows (Levenberg-Marquardt), relative to the size of J


def close_all(
    model: Model, q: np.ndarray, previous: np.ndarray | None = None, motion: np.ndarray | None = None
) -> Closed:
    """Return q with all loops closed, embedded and constrained ones; see `close_loops`."""
    constraints = loop_constraints(model)
    if not constraints:
        return close_loops(model, q, previous, motion)
    units = np.ones(model.nv)  # a step of least norm mixes metres and radians anyway

    def direction(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nodes = nodes_for(model, constraints, q)
        rows = ConstraintRows(nodes, constraints, rounded=True)
        phi = rows.truncated(violation(nodes, constraints))
        J = rows.jacobian()
        size = product(J.ravel(), J.ravel())  # not Python's own `sum`: since 3.12 it rounds floats otherwise
        normal = Factor(mirrored(J @ J.T) + DAMPING * size * np.eye(len(J)))
        return phi, -(J.T @ normal.solve(phi))

    def retract(q: np.ndarray, dy: np.ndarray) -> np.ndarray:
        return close_loops(model, integrate_tree(model, q, tree_motion(model, q, dy)), q).q

    q, _ = newton(direction, retract, close_loops(model, q, previous).q, units, tolerance(CLOSURE_TOL, q))
    q, residual, openness = close_loops(model, q)
    nodes = nodes_for(model, constraints, q)
    missed = violation(nodes, constraints)
    rows = ConstraintRows(nodes, constraints, rounded=True) if rounded_families(model.nominal) else None
    error = residual_norm(missed if rows is None else rows.truncated(missed))
    openness = maximum(error / OPEN, openness)
    redundant = [n for n, loop in enumerate(model.loops) if _has_redundant(model, loop)]
    if redundant:  # all equations count, also those that are not used
        limits = model.closure_tolerance[redundant]
        gaps = closure_gaps(model, q)[redundant]
        unit = tolerance(1.0, q)
        within = maximum(unit * SINGLE, 1.0)  # gaps in single precision are those of its rounding errors
        missed = gaps.ravel()
        error = maximum(error, residual_norm(gaps.ravel()))
        openness = maximum(openness, residual_norm(missed / limits.ravel()) * unit / within)
    return Closed(q, maximum(residual, error), openness)


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
