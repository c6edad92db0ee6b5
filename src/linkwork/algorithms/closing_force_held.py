"""Closing force-held loops: the nearest closed configuration, by Gauss-Newton steps of least norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.closing import OPEN, Closed, close_loops, integrate_tree, tree_motion
from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.newton import CLOSED, newton, tolerance
from linkwork.algorithms.proximal import residual_norm
from linkwork.constraints import BodyKinematics, Constraint, force_held_loops
from linkwork.ir.functions import maximum
from linkwork.model import Model
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.constants import product

DAMPING = 1e-9  # for redundant rows (Levenberg-Marquardt), relative to the size of J


def close_all(model: Model, q: np.ndarray, previous: np.ndarray | None = None, motion: np.ndarray | None = None) -> Closed:
    """q with all loops closed, embedded and force-held ones; see `close_loops`."""
    if not model.force_held:
        return close_loops(model, q, previous, motion)
    constraints = force_held_loops(model)
    units = np.ones(model.nv)  # a step of least norm mixes metres and radians anyway

    def direction(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nodes = nodes_for(model, constraints, q)
        phi, J = violation(nodes, constraints), ConstraintRows(nodes, constraints).jacobian()
        size = product(J.ravel(), J.ravel())  # not Python's own `sum`: since 3.12 it rounds floats otherwise
        normal = Factor(mirrored(J @ J.T) + DAMPING * size * np.eye(len(J)))
        return phi, -(J.T @ normal.solve(phi))

    def retract(q: np.ndarray, dy: np.ndarray) -> np.ndarray:
        return close_loops(model, integrate_tree(model, q, tree_motion(model, q, dy)), q).q

    q, _ = newton(direction, retract, close_loops(model, q, previous).q, units, tolerance(CLOSED, q))
    q, left, openness = close_loops(model, q)
    error = residual_norm(violation(nodes_for(model, constraints, q), constraints))
    return Closed(q, maximum(left, error), maximum(error / OPEN, openness))


def violation(nodes: Any, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """The violations of all rows, (m,)."""
    kinematics = BodyKinematics(nodes)
    return np.concatenate([constraint.violation(nodes.model, kinematics) for constraint in constraints])
