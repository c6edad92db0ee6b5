"""Closing loops that are held by forces: the nearest closed state, by Newton's method with steps of least length."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.closing import CLOSED, LARGEST_STEP, STEPS, close_loops, moved
from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.proximal import largest, missed
from linkwork.constraints import Constraint, Scene, force_held_loops
from linkwork.ir.functions import loop, maximum, minimum
from linkwork.model import Model
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.constants import product

DAMPING = 1e-9  # of rows that follow from others, relative to those that do not


def close_all(model: Model, q: np.ndarray, came: np.ndarray | None = None) -> tuple[np.ndarray, Any]:
    """q with all loops closed, embedded ones and others, and the largest error that is left; see `close_loops`."""
    if not model.force_held:
        return close_loops(model, q, came)
    constraints = force_held_loops(model)

    def step(q: np.ndarray) -> tuple[np.ndarray, Any]:
        nodes = nodes_for(model, constraints, q)
        phi, J = violation(nodes, constraints), ConstraintRows(nodes, constraints).jacobian()
        size = product(J.ravel(), J.ravel())  # not Python's own `sum`: since 3.12 it rounds floats otherwise
        normal = Factor(mirrored(J @ J.T) + DAMPING * size * np.eye(len(J)))
        dy = -(J.T @ normal.solve(phi))
        dy = dy * minimum(LARGEST_STEP / maximum(largest(dy), 1e-300), 1.0)
        return close_loops(model, moved(model, q, dy), q)[0], maximum(largest(phi), largest(dy)) > CLOSED

    q = loop(step, close_loops(model, q, came)[0], limit=STEPS)
    q, left = close_loops(model, q)
    nodes = nodes_for(model, constraints, q)
    return q, maximum(left, missed(violation(nodes, constraints)))


def violation(nodes: Any, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """The errors of all rows, (m,)."""
    scene = Scene(nodes)
    return np.concatenate([constraint.violation(nodes.model, scene) for constraint in constraints])
