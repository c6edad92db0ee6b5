"""Rollouts by one kernel that contains the loop over steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.functions.contact import COEFFICIENTS
from linkwork.simulation.actuation import control_feedback
from linkwork.simulation.causes import contact_causes, first_causes, last_finite_states
from linkwork.simulation.closedness import open_rows
from linkwork.simulation.failure import (
    CONTINUING,
    classify_open,
    classify_runaway,
    finite_rows,
    merge_status,
    stopped_status,
)
from linkwork.simulation.one_kernel import kernel_for, roll_out
from linkwork.simulation.rollout_forces import GivenForces
from linkwork.simulation.rollout_problem import RolloutProblem
from linkwork.simulation.rollout_result import Rollout, with_contact
from linkwork.simulation.status import Status, has_status
from linkwork.simulation.traced import CARRIED, Laws


@np.errstate(over="ignore", invalid="ignore")  # the status reports values that are not finite
def rollout_in_kernel(
    problem: RolloutProblem, names: tuple[str, ...], contacts: Laws | None, dtype: str
) -> Rollout:
    """Return the rollout by a kernel that contains the loop over steps; see `one_kernel`."""
    model = problem.model
    control = problem.control
    assert control is not None
    q, v = problem.start
    rows = problem.rows
    batch = problem.batch
    earlier = problem.earlier
    dt = problem.schedule.dt
    steps = problem.schedule.steps
    integrator = problem.schedule.integrator
    inputs = {name: rows[name] for name in (*control.inputs, *names) if name in rows}
    forces = forces_per_step = None
    if "tau" in control.inputs:
        forces = GivenForces(model, problem.tau, batch, steps, dt)
        forces_per_step = forces.values if forces.per_step else None
        inputs = {"tau": forces.values[:, 0] if forces.per_step and steps else forces.values, **inputs}
    kernel = kernel_for(model, control, integrator, names, target="cpu", dtype=dtype, contacts=contacts)
    carried = None
    if contacts is not None:
        carried = np.pad(rows.get("warm_start", np.zeros((len(q), 0))), ((0, 0), (0, len(CARRIED))))
    parameters = {name: rows[name] for name in names if name not in COEFFICIENTS}
    unclosed = open_rows(model, q, parameters, dtype=dtype)
    continuing = has_status(earlier, CONTINUING)
    idle = unclosed | ~continuing
    q_first = np.where(idle[:, None], np.nan, q) if idle.any() else q  # NaN: the row takes no step
    q_all, v_all, taken, carried_end, last = roll_out(
        kernel, (q_first, v), inputs, forces_per_step, dt=dt, steps=steps,
        record_every=problem.schedule.record_every,
        carried=carried,
    )  # fmt: skip
    q_all[:, 0] = q
    end = (q_all[:, -1], v_all[:, -1])
    status = np.full(len(q), int(Status.OK))
    finite: Any = np.isfinite(q).all() and np.isfinite(v).all()
    if not finite:
        finite = np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
    stopped = np.flatnonzero(((taken != steps) | unclosed | ~finite) & continuing)
    solved = stopped < 0 if carried_end is None else np.isfinite(carried_end[stopped]).all(axis=1)
    if len(stopped):
        used = inputs if forces is None else inputs | forces.at_steps(taken)
        solved &= finite_rows([x[stopped] for x in used.values()], len(stopped))
        status[stopped] = stopped_status(
            model,
            (q[stopped].astype(float), v[stopped].astype(float)),
            (last[0][stopped].astype(float), last[1][stopped].astype(float)),
            unclosed[stopped],
            solved,
            dt,
            integrator,
            {name: x[stopped] for name, x in parameters.items()},
            control_feedback(
                model,
                control,
                {name: x[stopped] for name, x in inputs.items()},
                {name: x[stopped] for name, x in parameters.items()},
            ),
        )
    if carried_end is not None:
        unsolved = (carried_end[:, -1] > 0.0) & (status == int(Status.OK))
        status[unsolved] = int(Status.CONTACT_NOT_CONVERGED)
    feedback = control_feedback(model, control, inputs, parameters)
    status = classify_runaway(model, status, q, end, parameters, dt, integrator, feedback)
    status = merge_status(earlier, classify_open(model, status, end[0], parameters, dtype))
    result = Rollout(*(x.reshape((*batch, *x.shape[1:])) for x in (q_all, v_all, status)))
    result.steps = taken.reshape(batch)
    causes = np.full(len(q), "", dtype=object)
    if (status != int(Status.OK)).any():
        q_last, v_last = last_finite_states((q, v), end, last, taken)
        used = inputs if forces is None else inputs | forces.at_steps(taken)
        ended = np.where(continuing, status, 0)
        causes = first_causes(model, ended, (q_last, v_last), taken, dt, parameters, used)
        if carried_end is not None:
            causes = causes + contact_causes(model, contacts, status, q_last, carried_end, parameters)
    result.causes = causes.reshape(batch)
    return with_contact(result, None if carried_end is None else carried_end.reshape((*batch, -1)), contacts)
