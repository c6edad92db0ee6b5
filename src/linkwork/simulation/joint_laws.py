"""Steps in which limits of joints and dry friction act without contacts, by every integrator.

Semi-implicit Euler takes impulses that satisfy the laws at the step's end (`algorithms/joint_step.py`). Other
integrators keep their order while no law changes its branch: friction of joints that slide is a force with
the sign that velocities have at the step's start. A step that would leave the limits, or in which a joint
with dry friction starts, stops or turns back, is taken by semi-implicit Euler instead, so that the laws hold
at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.contact import rows as contact_rows
from linkwork.algorithms.contact.joint_rows import (
    Friction,
    JointFriction,
    TendonFriction,
    limited,
    values_of,
    with_friction,
)
from linkwork.algorithms.contact.rows import NONE_GIVEN
from linkwork.algorithms.joint_step import JointStep, with_joint_impulses
from linkwork.compiler.ir.functions import where
from linkwork.constraints import BodyKinematics
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
from linkwork.sko.prepare.trees import hinge_tree

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
        full = force if slides is None else lambda q, v, part: force(q, v, part) + slides(q)
        q_smooth, v_smooth, _ = smooth(model, q, v, dt, full)
        same = same_branch(model, laws, (q, v), (q_smooth, v_smooth))
        result = where(same, np.array([*q_smooth, *v_smooth, 0.0, 0.0, 1.0], dtype=object), result)
    nq = model.nq
    nv = model.nv
    return result[:nq], result[nq : nq + nv], *result[nq + nv :]


def sliding_force(model: Model, laws: JointLaws, q: Any, v: Any) -> Callable[[Any], Any] | None:
    """Return the forces of dry friction, (nv,), as a function of the configuration; None without any.

    Friction has the sign that it has against the velocities v at q.
    """
    rows = with_friction(model) if laws.joint_friction else []
    if not rows:
        return None
    in_joints = [each for each in rows if isinstance(each, JointFriction)]
    tendons = [each for each in rows if isinstance(each, TendonFriction)]
    forces = np.zeros(model.nv_spanning, dtype=object)
    w = spanning_velocity(model, q, v) if in_joints else ()
    for each in in_joints:
        k = each.joint.v_start + each.i
        forces[k] = _against(w[k], each.force)
    rates = jacobian_of(model, tendons, q) @ v if tendons else ()
    tensions = np.array([_against(rate, each.force) for rate, each in zip(rates, tendons)], dtype=object)

    def at(q: Any) -> Any:
        total = independent_force(model, q, forces) if in_joints else 0.0
        return total + jacobian_of(model, tendons, q).T @ tensions if tendons else total

    return at


def jacobian_of(model: Model, rows: Sequence[Friction], q: Any) -> np.ndarray:
    """Return the map from velocities, (nv,), to those against which friction acts, (rows, nv)."""
    nodes = hinge_tree(model, q, all_bodies=True)
    kinematics = BodyKinematics(nodes)
    return ConstraintRows.of(nodes, [row.at(kinematics) for row in rows]).jacobian()


def _against(velocity: Any, friction: Any) -> Any:
    """Return the force of dry friction against a velocity, 0 at rest."""
    return where(velocity > 0.0, -friction, where(velocity < 0.0, friction, 0.0))


def _rates(model: Model, rows: Sequence[Friction], q: Any, v: Any) -> list[Any]:
    """Return the velocities against which dry friction acts."""
    w = spanning_velocity(model, q, v)
    tendons = [each for each in rows if isinstance(each, TendonFriction)]
    in_joints = [w[each.joint.v_start + each.i] for each in rows if isinstance(each, JointFriction)]
    return [*in_joints, *(jacobian_of(model, tendons, q) @ v if tendons else ())]


def same_branch(model: Model, laws: JointLaws, start: tuple[Any, Any], end: tuple[Any, Any]) -> Any:
    """Return whether a step ends within all limits and keeps the sliding direction of dry friction."""
    fine = 0.0 * end[1][0] <= 0.0
    limits = limited(model) if laws.limits else []
    for limit, x in zip(limits, values_of(limits, end[0], partial(hinge_tree, model, all_bodies=True))):
        lower, upper = limit.bounds
        fine = fine & (x >= lower) & (x <= upper)
    if laws.joint_friction and (rows := with_friction(model)):
        for before, after in zip(_rates(model, rows, *start), _rates(model, rows, *end)):
            fine = fine & (before * after > 0.0)
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
    return np.zeros(model.nv) if slides is None else slides(q)


def check_integrator(who: str, model: Model, laws: Any, integrator: str) -> None:
    """Raise where an integrator cannot take the laws of joints."""
    if not isinstance(laws, JointLaws) or not laws.joint_friction or integrator in EULER:
        return
    if Charts(model).moving:
        names = join_names(
            [
                printable(name)
                for name in dict.fromkeys(
                    each.joint.name if isinstance(each, JointFriction) else each.tendon.name
                    for each in with_friction(model.nominal)
                )
            ]
        )
        raise ModelError(
            f"{who}: integrator={integrator!r} cannot take dry friction ({names}) in a mechanism with loops; "
            "expected integrator='semi_implicit_euler', or friction=False"
        )
