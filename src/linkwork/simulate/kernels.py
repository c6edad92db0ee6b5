"""What one step asks of a model: rates, closed states and how far they are from closed, each as one compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms import closing
from linkwork.algorithms.closing_force_held import close_all
from linkwork.algorithms.conditioning import unit_free_residual
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.model_function import model_function
from linkwork.functions.states import independent_force
from linkwork.ir.functions import absolute, maximum
from linkwork.model import Model
from linkwork.simplify.trees import tree


@model_function(q="nq", v="nv", tau_spanning="nv_spanning")
def rates(model: Model, q: Any, v: Any, tau_spanning: Any) -> tuple[Any, Any, Any]:
    """q̇, (..., nq), the accelerations a, (..., nv), and the velocities of all joints of the tree, (..., nv_spanning)."""
    w = closing.spanning_velocity(tree(model, q, v)) if model.embedded else v
    tau = independent_force(model, q, tau_spanning) if model.embedded else tau_spanning
    dq = np.concatenate([np.zeros(0), *(j.kind.rate(q[j.q_slice], w[j.v_slice]) for j in model.joints)])
    return dq, forward_dynamics(model, q, v, tau), w


@model_function(q="nq", previous="nq", v="nv")
def settled(model: Model, q: Any, previous: Any, v: Any) -> tuple[Any, Any, Any, Any]:
    """Coordinates near q that are closed, with independent ones as in q and quaternions of length 1; see `_arrived`."""
    still = [np.zeros(joint.nv) for joint in model.joints]
    unit = [joint.kind.integrate(q[joint.q_slice], none) for joint, none in zip(model.joints, still)]
    return _arrived(model, np.concatenate([np.zeros(0), *unit]), previous, v)


@model_function(q="nq", move="nv", v="nv")
def advanced(model: Model, q: Any, move: Any, v: Any) -> tuple[Any, Any, Any, Any]:
    """The retraction of `move` at q, as in `integrate`; see `_arrived`."""
    return _arrived(model, closing.integrate_tree(model, q, closing.tree_motion(model, q, move)), q, v)


def _arrived(model: Model, q: Any, previous: Any, v: Any) -> tuple[Any, Any, Any, Any]:
    """Closed coordinates, velocities v as those of all joints of the tree, the gap that is left, and how far q was moved."""
    if not model.embedded and not model.force_held:
        return q, v, np.array(0.0), np.array(0.0)
    closed, left, _ = close_all(model, q, previous)
    moved: Any = 0.0
    for x in closed - q:
        moved = maximum(moved, absolute(x))
    gap = unit_free_residual(model, closed)
    w = closing.spanning_velocity(tree(model, closed, v)) if model.embedded else v
    return closed, w, maximum(gap, left) if model.force_held else gap, moved


@model_function(q="nq", v="nv")
def start(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """The velocities of all joints of the tree, (..., nv_spanning), and how far loops are from closed, (...)."""
    return closing.spanning_velocity(tree(model, q, v)) if model.embedded else v, unit_free_residual(model, q)
