"""The public functions of states: integration, difference, closed loops, velocities and forces of the spanning tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms import closing
from linkwork.algorithms.closing_force_held import close_all
from linkwork.functions.model_function import model_function
from linkwork.model import Model
from linkwork.simplify.trees import tree
from linkwork.sko import Tree


@model_function(q="nq", v="nv", by_hand=True, configurations=("out",))
def integrate(model: Model, q: Any, v: Any) -> Any:
    """The retraction of v at q: integration of a constant v for one unit of time, (..., nq); loops stay closed."""
    if isinstance(model, Tree):
        return model.integrate(q, v)
    moved = closing.integrate_tree(model, q, v)
    return close_all(model, moved, q)[0] if model.embedded or model.force_held else moved


@model_function(q0="nq", q1="nq", by_hand=True)
def difference(model: Model, q0: Any, q1: Any) -> Any:
    """The constant v that takes q0 to q1 in one unit of time, (..., nv)."""
    if isinstance(model, Tree):
        return model.integrate(q1, -q0)
    moved = [j.kind.difference(q0[j.q_slice], q1[j.q_slice]) for j in model.joints]
    chosen = [np.concatenate([moved[k] for k in c.bodies])[list(c.independent)] for c in model.clusters]
    return np.concatenate([np.zeros(0), *chosen])


@model_function(q="nq", configurations=("out0",))
def close_loops(model: Model, q: Any) -> tuple[Any, Any]:
    """q with all loops closed by Newton's method, holding the independent coordinates, and the residual that is left.

    Force-held loops leave all coordinates independent: there q changes as little as it can.

    The first has shape (..., nq), the second (...): the largest violation of any loop's equations [m or rad], which tells
    whether this row could be closed.
    """
    return close_all(model, q)


@model_function(q="nq", v="nv")
def spanning_velocity(model: Model, q: Any, v: Any) -> Any:
    """The velocities of all joints of the tree, dependent ones too, (..., nv_spanning)."""
    return closing.spanning_velocity(tree(model, q, v))


@model_function(q="nq", v="nv", a="nv")
def spanning_acceleration(model: Model, q: Any, v: Any, a: Any) -> Any:
    """The accelerations of all joints of the tree, dependent ones too, (..., nv_spanning)."""
    return closing.spanning_acceleration(tree(model, q, v), a)


@model_function(q="nq", tau_spanning="nv_spanning")
def independent_force(model: Model, q: Any, tau_spanning: Any) -> Any:
    """The generalised forces Gᵀ tau_spanning of the independent velocities, (..., nv), of forces in all joints of the tree."""
    return closing.independent_force(tree(model, q), tau_spanning)
