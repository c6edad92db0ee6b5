"""Rollouts of mechanisms with loops: each row in a chart that is regular there."""

from __future__ import annotations

import numpy as np

from linkwork.contact import JointLaws
from linkwork.simulation.actuation import control_feedback
from linkwork.simulation.causes import first_causes
from linkwork.simulation.chart_kernel import STEPS, chart_kernel, roll_out_loops
from linkwork.simulation.failure import (
    CONTINUING_STATUSES,
    classify_open,
    classify_runaway,
    classify_stiff,
    merge_status,
)
from linkwork.simulation.integrators import find_integrator, in_parts
from linkwork.simulation.rollout_forces import ControlForces, GivenForces
from linkwork.simulation.rollout_problem import RolloutProblem
from linkwork.simulation.rollout_result import Rollout
from linkwork.simulation.status import has_status
from linkwork.simulation.stepping import Stepping


def rollout_in_charts(
    problem: RolloutProblem, control_inputs: dict[str, np.ndarray] | None, laws: JointLaws | None
) -> Rollout:
    """Return the rollout of a mechanism with loops, each row in a chart that is regular there.

    `control_inputs` are the arrays of PD control or of a policy; None for given forces.
    """
    model = problem.model
    control = problem.control
    start = problem.start
    rows = problem.rows
    schedule = problem.schedule
    dt = schedule.dt
    integrator = schedule.integrator
    step, max_entry, agreement = find_integrator(integrator, laws)
    continuing = has_status(problem.earlier, CONTINUING_STATUSES)
    stepping = Stepping(
        model, np.where(continuing[:, None], start[0], np.nan), start[1], rows, max_entry, laws=laws
    )
    forces: ControlForces | GivenForces
    if control is None or control_inputs is None:
        forces = GivenForces(model, problem.tau, problem.batch, schedule.steps, dt)
    else:
        forces = ControlForces(control, control_inputs, rows, stepping, dt)
    began = stepping.active

    def take() -> None:
        with np.errstate(invalid="ignore", over="ignore"):  # the status reports values that are not finite
            stepping.take(in_parts(step, forces, dt), dt, agreement)

    kernel = None
    if control is not None and integrator in STEPS:
        kernel = chart_kernel(model, control, str(integrator), tuple(rows), laws)
    single_steps = kernel is None or forces.differ
    trajectories = roll_out_loops(
        stepping,
        kernel,
        forces,
        take,
        rows,
        dt=dt,
        steps=schedule.steps,
        record_every=schedule.record_every,
        each=single_steps,
    )
    trajectories[0][:, 0], trajectories[1][:, 0] = start
    feedback = control_feedback(model, control, control_inputs or {}, rows)
    options = (rows, dt, integrator, feedback)
    end = (stepping.q, stepping.v)
    status = classify_stiff(model, stepping.final_status(), began, (start[0], stepping.q), *options)
    status = classify_runaway(model, status, start[0], end, *options, divided=stepping.divided, laws=laws)
    status = classify_open(model, status, stepping.q, rows, "float64")
    arrays = (*trajectories, merge_status(problem.earlier, status))
    result = Rollout(*(x.reshape((*problem.batch, *x.shape[1:])) for x in arrays))
    result.steps = stepping.steps.reshape(problem.batch)
    q_last, v_last = (
        np.where(began[:, None], x, initial) for x, initial in zip((stepping.q, stepping.v), start)
    )
    inputs = rows | forces.at_steps(stepping.steps)
    result.causes = first_causes(model, status, (q_last, v_last), stepping.steps, dt, rows, inputs).reshape(
        problem.batch
    )
    return result
