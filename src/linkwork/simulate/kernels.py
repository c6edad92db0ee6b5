"""What one step asks of a model besides its dynamics: rates of coordinates and closed states, each as one compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms import closing
from linkwork.algorithms.closing_force_held import close_all
from linkwork.functions.constrained import projected
from linkwork.functions.model_function import model_function
from linkwork.ir.functions import absolute, maximum, where
from linkwork.model import Model
from linkwork.simulate.midpoint import midpoint

FORCE_HELD_CLOSED = 1e-9  # [m or rad]


@model_function(q="nq", v="nv")
def rates(model: Model, q: Any, v: Any) -> Any:
    """q̇, (..., nq)."""
    w = closing.tree_motion(model, q, v)
    return np.concatenate([np.zeros(0), *(joint.kind.rate(q[joint.q_slice], w[joint.v_slice]) for joint in model.joints)])


@model_function(q="nq", previous="nq", v="nv")
def settled(model: Model, q: Any, previous: Any, v: Any) -> tuple[Any, Any, Any]:
    """Coordinates near q that are closed, with independent ones as in q and quaternions of length 1; see `_arrived`."""
    return _arrived(model, closing.integrate_tree(model, q, np.zeros(model.nv_spanning)), previous, v)


@model_function(q="nq", move="nv", v="nv")
def advanced(model: Model, q: Any, move: Any, v: Any) -> tuple[Any, Any, Any]:
    """The retraction of `move` at q, as in `integrate`; see `_arrived`."""
    motion = closing.tree_motion(model, q, move)
    return _arrived(model, closing.integrate_tree(model, q, motion), q, v, motion)


@model_function(q="nq", v="nv", tau="nv", dt="")
def midpoint_step(model: Model, q: Any, v: Any, tau: Any, dt: Any) -> tuple[Any, ...]:
    """A step by the midpoint rule under constant forces: what `_arrived` gives, and q and v in its middle."""
    found = midpoint(model, q, v, dt, lambda q, v, part: tau)
    moved = closing.integrate_tree(model, q, closing.tree_motion(model, q, dt * found.v_middle))
    q_end, w, far = _arrived(model, moved, q, found.v)
    return q_end, w, far, found.q_middle, found.v_middle


def _arrived(model: Model, q: Any, previous: Any, v: Any, motion: Any = None) -> tuple[Any, Any, Any]:
    """Closed coordinates, the velocities v as those of all joints of the tree, and how far closing moved q, (...).

    Velocities are those that keep force-held loops closed; see `projected`. Where q was predicted by a `motion`, closing must
    be shorter, as in `integrate`; this also lets sums round as they do there.
    """
    moved: Any = np.array(0.0)
    if not model.loops:
        return q, v, moved
    closed, left, openness = close_all(model, q, previous, motion)
    for x in closed - q:
        moved = maximum(moved, absolute(x))
    if motion is not None:
        moved = where(openness < np.inf, moved, np.inf)
    if model.force_held:
        moved = where(left < FORCE_HELD_CLOSED, moved, np.inf)
    return closed, closing.tree_motion(model, closed, projected(model, closed, v)), moved
