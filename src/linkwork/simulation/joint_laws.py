"""Steps in which limits of joints and dry friction act without contacts, by every integrator.

Semi-implicit Euler takes impulses that satisfy the laws at the step's end (`algorithms/joint_step.py`). Other
integrators keep their order while no law changes its branch: friction of joints that slide is a force with
the sign that velocities have at the step's start. A step that would leave the limits, or in which a joint
with dry friction starts, stops or turns back, is taken by semi-implicit Euler instead, so that the laws hold
at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms.contact import rows as contact_rows
from linkwork.algorithms.contact.rows import NONE_GIVEN, limited, with_friction
from linkwork.algorithms.joint_step import JointStep, with_joint_impulses
from linkwork.compiler.ir.functions import where
from linkwork.contact import JointLaws
from linkwork.errors import ModelError
from linkwork.functions.constrained import projected
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.joint_limits import impulse_method
from linkwork.functions.states import independent_force, integrate, spanning_velocity
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model
from linkwork.simulation.charts import Charts

EULER = ("semi_implicit_euler", "linearly_implicit_euler")
Force = Callable[[Any, Any, Any], Any]
Smooth = Callable[[Model, Any, Any, Any, Force], tuple[Any, Any, Any]]


def held(model: Model, laws: JointLaws, q: Any, v: Any, free: Any, dt: Any) -> JointStep:
    """Return the velocity after a step, where `free` is that without the laws; see `with_joint_impulses`."""
    dt = contact_rows.where_valid(model, laws, NONE_GIVEN, dt)
    return with_joint_impulses(model, laws, q, v, free, dt, impulse_method(model))


def stepped(
    model: Model, laws: JointLaws, smooth: Smooth | None, q: Any, v: Any, dt: Any, force: Force
) -> tuple[Any, ...]:
    """Return q and v after a step, the residual of the laws, iterations, and convergence (1 or 0).

    `smooth` is the integrator while no law changes its branch; None for semi-implicit Euler.
    """
    free = v + dt * forward_dynamics(model, q, v, force(q, v, 0.0))
    end = held(model, laws, q, v, free, dt)
    q_end = integrate(model, q, dt * end.v)
    result = np.array([*q_end, *projected(model, q_end, end.v), *end[1:]], dtype=object)
    if smooth is not None:
        slides = sliding_force(model, laws, q, v)
        full = (
            force
            if slides is None
            else lambda q, v, part: force(q, v, part) + independent_force(model, q, slides)
        )
        q_smooth, v_smooth, _ = smooth(model, q, v, dt, full)
        same = same_branch(model, laws, (q, v), (q_smooth, v_smooth))
        result = where(same, np.array([*q_smooth, *v_smooth, 0.0, 0.0, 1.0], dtype=object), result)
    nq = model.nq
    nv = model.nv
    return result[:nq], result[nq : nq + nv], *result[nq + nv :]


def sliding_force(model: Model, laws: JointLaws, q: Any, v: Any) -> np.ndarray | None:
    """Return dry friction against the velocities of a state, as forces in all joints of the tree,
    (nv_spanning,); None without any.
    """
    rows = with_friction(model) if laws.joint_friction else []
    if not rows:
        return None
    w = spanning_velocity(model, q, v)
    result = np.zeros(model.nv_spanning, dtype=object)
    for joint, i in rows:
        k = joint.v_start + i
        result[k] = where(w[k] > 0.0, -joint.friction[i], where(w[k] < 0.0, joint.friction[i], 0.0))
    return result


def same_branch(model: Model, laws: JointLaws, start: tuple[Any, Any], end: tuple[Any, Any]) -> Any:
    """Return whether a step ends within all limits and keeps the sliding direction of dry friction."""
    fine = 0.0 * end[1][0] <= 0.0
    for joint, i in limited(model) if laws.limits else ():
        x = end[0][joint.q_start + i]
        fine = fine & (x >= joint.lower[i]) & (x <= joint.upper[i])
    if laws.joint_friction and (rows := with_friction(model)):
        before, after = (spanning_velocity(model, *state) for state in (start, end))
        for joint, i in rows:
            fine = fine & (before[joint.v_start + i] * after[joint.v_start + i] > 0.0)
    return fine


@model_function(q="nq", v="nv", free="nv", dt="")
def velocity_with_laws(
    model: Model, q: Any, v: Any, free: Any, dt: Any, *, laws: JointLaws
) -> tuple[Any, Any]:
    """Return the velocity after a step, (..., nv), where `free` is that without the laws, and whether they
    converged, (...).
    """
    end = held(model, laws, q, v, free, dt)
    return end.v, end.converged


@model_function(q="nq", v="nv", q_end="nq", v_end="nv")
def remains_on_branch(model: Model, q: Any, v: Any, q_end: Any, v_end: Any, *, laws: JointLaws) -> Any:
    """Return 1 where `same_branch` holds, 0 elsewhere, (...)."""
    return where(same_branch(model, laws, (q, v), (q_end, v_end)), 1.0, 0.0)


@model_function(q="nq", v="nv")
def friction_at(model: Model, q: Any, v: Any, *, laws: JointLaws) -> Any:
    """Return dry friction against these velocities, as forces of the independent joints, (..., nv)."""
    slides = sliding_force(model, laws, q, v)
    return np.zeros(model.nv) if slides is None else independent_force(model, q, slides)


def check_integrator(who: str, model: Model, laws: Any, integrator: str) -> None:
    """Raise where an integrator cannot take the laws of joints."""
    if not isinstance(laws, JointLaws) or not laws.joint_friction or integrator in EULER:
        return
    if Charts(model).moving:
        names = join_names(
            [
                printable(name)
                for name in dict.fromkeys(joint.name for joint, _ in with_friction(model.nominal))
            ]
        )
        raise ModelError(
            f"{who}: integrator={integrator!r} cannot take dry friction ({names}) in a mechanism with loops; "
            "expected integrator='semi_implicit_euler', or friction=False"
        )
