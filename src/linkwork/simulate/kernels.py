"""What one step asks of a model besides its dynamics: rates of coordinates and closed states, each as one compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms import closing
from linkwork.algorithms.closing_force_held import close_all
from linkwork.functions.model_function import model_function
from linkwork.ir.functions import absolute, maximum, where
from linkwork.model import Model
from linkwork.simplify.trees import tree

FORCE_HELD_CLOSED = 1e-9  # [m or rad]


def _spanning(model: Model, q: Any, v: Any) -> Any:
    """The velocities of all joints of the tree, (nv_spanning,)."""
    return closing.spanning_velocity(tree(model, q, v)) if model.embedded else v


def _each(model: Model, found: Any) -> Any:
    """What there is of each joint, one after the other, (nq,)."""
    return np.concatenate([np.zeros(0), *(found(joint) for joint in model.joints)])


@model_function(q="nq", v="nv")
def rates(model: Model, q: Any, v: Any) -> Any:
    """q̇, (..., nq)."""
    w = _spanning(model, q, v)
    return _each(model, lambda joint: joint.kind.rate(q[joint.q_slice], w[joint.v_slice]))


@model_function(q="nq", previous="nq", v="nv")
def settled(model: Model, q: Any, previous: Any, v: Any) -> tuple[Any, Any, Any]:
    """Coordinates near q that are closed, with independent ones as in q and quaternions of length 1; see `_arrived`."""
    unit = _each(model, lambda joint: joint.kind.integrate(q[joint.q_slice], np.zeros(joint.nv)))
    return _arrived(model, unit, previous, v)


@model_function(q="nq", move="nv", v="nv")
def advanced(model: Model, q: Any, move: Any, v: Any) -> tuple[Any, Any, Any]:
    """The retraction of `move` at q, as in `integrate`; see `_arrived`."""
    w = _spanning(model, q, move)
    return _arrived(model, _each(model, lambda joint: joint.kind.integrate(q[joint.q_slice], w[joint.v_slice])), q, v)


def _arrived(model: Model, q: Any, previous: Any, v: Any) -> tuple[Any, Any, Any]:
    """Closed coordinates, the velocities v as those of all joints of the tree, and how far closing moved q, (...)."""
    moved: Any = np.array(0.0)
    if not model.loops:
        return q, v, moved
    closed, left = close_all(model, q, previous)[:2]
    for x in closed - q:
        moved = maximum(moved, absolute(x))
    if model.force_held:
        moved = where(left < FORCE_HELD_CLOSED, moved, np.inf)
    return closed, _spanning(model, closed, v), moved
