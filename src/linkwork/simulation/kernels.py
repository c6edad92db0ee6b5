"""Kernels of integrators besides the dynamics: rates of coordinates and closed states."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constrained.closing_constrained import close_all
from linkwork.algorithms.loops import closing
from linkwork.algorithms.loops.closing import OPEN
from linkwork.compiler.ir.functions import absolute, maximum, where
from linkwork.functions.constrained import projected
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model
from linkwork.simulation.midpoint import midpoint
from linkwork.sko import Tree

CONSTRAINED_CLOSED = 1e-9  # [rad, or sizes of the loop]


@model_function(q="nq", v="nv", custom_trees=True)
def rates(model: Model, q: Any, v: Any) -> Any:
    """Return q̇, (..., nq)."""
    if isinstance(model, Tree):
        model.integrate(q, v)  # an error where q has other coordinates
        return v
    w = closing.tree_motion(model, q, v)
    return np.concatenate(
        [np.zeros(0), *(joint.kind.rate(q[joint.q_slice], w[joint.v_slice]) for joint in model.joints)]
    )


@model_function(q="nq", previous="nq", v="nv")
def settled(model: Model, q: Any, previous: Any, v: Any) -> tuple[Any, Any, Any]:
    """Return coordinates near q that are closed, with independent ones as in q and quaternions of length 1;
    see `_arrived`.
    """
    return _arrived(model, closing.integrate_tree(model, q, np.zeros(model.nv_spanning)), previous, v)


@model_function(q="nq", move="nv", v="nv")
def advanced(model: Model, q: Any, move: Any, v: Any) -> tuple[Any, Any, Any]:
    """Return the retraction of `move` at q, as in `integrate`; see `_arrived`."""
    motion = closing.tree_motion(model, q, move)
    return _arrived(model, closing.integrate_tree(model, q, motion), q, v, motion)


@model_function(q="nq", v="nv", tau="nv", dt="")
def midpoint_step(model: Model, q: Any, v: Any, tau: Any, dt: Any) -> tuple[Any, ...]:
    """Return a step by the midpoint rule under constant forces: what `_arrived` gives, and q and v in its
    middle.
    """
    result = midpoint(model, q, v, dt, lambda q, v, part: tau)
    moved = closing.integrate_tree(model, q, closing.tree_motion(model, q, dt * result.v_middle))
    q_end, w, far = _arrived(model, moved, q, result.v)
    return q_end, w, far, result.q_middle, result.v_middle


def _arrived(model: Model, q: Any, previous: Any, v: Any, motion: Any = None) -> tuple[Any, Any, Any]:
    """Return closed coordinates, the velocities v as those of all joints of the tree, and how far closing
    moved q, (...).

    Velocities are those that keep constrained loops closed; see `projected`. Where q was predicted by a
    `motion`, closing must be shorter, as in `integrate`; this also lets sums round as they do there.
    """
    moved: Any = np.array(0.0)
    if not model.loops:
        return q, v, moved
    closed, _, openness = close_all(model, q, previous, motion)
    for x in closed - q:
        moved = maximum(moved, absolute(x))
    if motion is not None:
        moved = where(openness < np.inf, moved, np.inf)
    if model.constrained_loops:
        is_closed = openness < CONSTRAINED_CLOSED / OPEN
        moved = where(is_closed, moved, np.inf)
    return closed, closing.tree_motion(model, closed, projected(model, closed, v)), moved
