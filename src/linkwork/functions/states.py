"""The public functions of states: integration, difference, closed loops, velocities and forces of the spanning tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import closing
from linkwork.algorithms.closing_force_held import close_all
from linkwork.algorithms.newton import tolerance
from linkwork.errors import ClosureError
from linkwork.functions.model_function import model_function
from linkwork.ir.functions import where
from linkwork.model import Model
from linkwork.parts.names import shown, some
from linkwork.simplify.trees import tree
from linkwork.sko import Tree


def refuse_open(model: Any, q: np.ndarray, given: Sequence[Any]) -> None:
    """ClosureError where one state that was finite could not be closed, and all of it is NaN; of a batch, rows are."""
    if q.ndim == 1 and q[0] != q[0] and all(np.isfinite(np.asarray(x, dtype=float)).all() for x in given):
        names = some([repr(loop.name) for loop in model.loops])
        raise ClosureError(
            f"{shown(model.name)}: {names} cannot be closed after this motion: q is not closed before it, or v leads too far, "
            "to a dead point or to another assembly mode; close q with lw.close_loops, or go by smaller steps; where q itself "
            "is singular (lw.loop_conditioning near 0), set the independent joints in q and close it with lw.close_loops"
        )


@model_function(q="nq", v="nv", by_hand=True, configurations=("out",), check=refuse_open)
def integrate(model: Model, q: Any, v: Any) -> Any:
    """The retraction of v at q: integration of a constant v for one unit of time, (..., nq); loops stay closed.

    They also stay on their assembly mode: what closes them must be less than the motion. Where that fails, as beyond a dead
    point or from a q that is far from closed, one state is a `ClosureError`, and a row of a batch is NaN; so it is in
    compiled and exported functions.
    """
    if isinstance(model, Tree):
        return model.integrate(q, v)
    motion = closing.tree_motion(model, q, v)
    moved = closing.integrate_tree(model, q, motion)
    if not (model.embedded or model.force_held):
        return moved
    closed = close_all(model, moved, q, motion)
    if not model.force_held and all(loop.linear for loop in model.embedded):  # then one step closes them exactly
        return closed.q
    kept = closed.openness < tolerance(1.0, moved)
    return np.array([where(kept, x, np.nan) for x in closed.q])


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
    whether this row could be closed: look at it. A state that is closed already is returned as it is, bit for bit, also at a
    singularity. One that cannot be closed is the best that was found, and finite where q is.
    """
    closed = close_all(model, q)
    return closed.q, closed.residual


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
