"""Public functions of states: integration, differences, closing of loops, and maps to all tree joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.closing_constrained import close_all
from linkwork.algorithms.loops import closing
from linkwork.algorithms.newton import tolerance
from linkwork.compiler.ir.functions import where
from linkwork.errors import ClosureError
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model
from linkwork.sko import Tree
from linkwork.sko.prepare.trees import tree


def raise_if_open(model: Any, q: np.ndarray, arrays: Sequence[Any]) -> None:
    """Raise ClosureError if a single finite state could not be closed; of a batch, such rows are NaN."""
    if q.ndim == 1 and q[0] != q[0] and all(np.isfinite(np.asarray(x, dtype=float)).all() for x in arrays):
        names = join_names([repr(loop.name) for loop in model.loops])
        raise ClosureError(
            f"{printable(model.name)}: {names} cannot be closed after this motion: q is not closed before "
            "it, or v leads too far, to a dead point or to another assembly mode; close q with "
            "lw.close_loops, or take smaller steps; if q itself is singular (lw.loop_conditioning near 0), "
            "set the independent joints in q and close it with lw.close_loops"
        )


@model_function(q="nq", v="nv", custom_trees=True, configurations=("out",), check=raise_if_open)
def integrate(model: Model, q: Any, v: Any) -> Any:
    """Return the configuration after moving with constant velocity v for one unit of time, (..., nq).

    This is the retraction of v at q. Loops stay closed and on their assembly mode: closing them must need
    less than the motion itself. Where that fails, such as beyond a dead point or from a q that is far from
    closed, a single state raises ClosureError and a row of a batch is NaN, also in compiled and exported
    functions.
    """
    if isinstance(model, Tree):
        return model.integrate(q, v)
    step = closing.tree_motion(model, q, v)
    moved = closing.integrate_tree(model, q, step)
    if not (model.embedded or model.constrained_loops):
        return moved
    closed = close_all(model, moved, q, step)
    if not model.constrained_loops and all(loop.linear for loop in model.embedded):
        return closed.q  # one Newton step closes linear equations exactly
    is_closed = closed.openness < tolerance(1.0, moved)
    return np.array([where(is_closed, x, np.nan) for x in closed.q])


@model_function(q0="nq", q1="nq", custom_trees=True)
def difference(model: Model, q0: Any, q1: Any) -> Any:
    """Return the constant velocity that takes q0 to q1 in one unit of time, (..., nv).

    Constrained loops are open: they need not stay closed on the way.
    """
    if isinstance(model, Tree):
        return model.integrate(q1, -q0)
    velocities = [j.kind.difference(q0[j.q_slice], q1[j.q_slice]) for j in model.joints]
    independent = [
        np.concatenate([velocities[k] for k in c.bodies])[list(c.independent)] for c in model.clusters
    ]
    return np.concatenate([np.zeros(0), *independent])


@model_function(q="nq", configurations=("out0",), open_states=True)
def close_loops(model: Model, q: Any) -> tuple[Any, Any]:
    """Return q with all loops closed, (..., nq), and the remaining residual, (...).

    Newton's method keeps the independent coordinates. Constrained loops leave all coordinates independent: q
    then changes as little as possible.

    The residual is the largest violation of any loop equation [m or rad] and shows whether a row could be
    closed. States that are already closed are returned unchanged, bit for bit, also at singularities. Where
    no closed state is found, the best one found is returned, which is finite if q is.
    """
    closed = close_all(model, q)
    return closed.q, closed.residual


@model_function(q="nq", v="nv")
def spanning_velocity(model: Model, q: Any, v: Any) -> Any:
    """Return the velocities of all joints of the tree, including dependent ones, (..., nv_spanning)."""
    return closing.spanning_velocity(tree(model, q, v))


@model_function(q="nq", v="nv", a="nv")
def spanning_acceleration(model: Model, q: Any, v: Any, a: Any) -> Any:
    """Return the accelerations of all joints of the tree, including dependent ones, (..., nv_spanning)."""
    return closing.spanning_acceleration(tree(model, q, v), a)


@model_function(q="nq", tau_spanning="nv_spanning")
def independent_force(model: Model, q: Any, tau_spanning: Any) -> Any:
    """Return the generalized forces Gᵀ tau_spanning of the independent velocities, (..., nv) [N m, N].

    `tau_spanning` (..., nv_spanning) are forces in all joints of the tree.
    """
    return closing.independent_force(tree(model, q), tau_spanning)
