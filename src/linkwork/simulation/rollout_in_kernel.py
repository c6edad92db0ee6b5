"""Rollouts by one kernel that contains the loop over steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.functions.contact import COEFFICIENTS
from linkwork.simulation.actuation import control_feedback
from linkwork.simulation.causes import contact_causes, first_causes, last_finite_states
from linkwork.simulation.closedness import immobile_rows, open_rows
from linkwork.simulation.control import Control
from linkwork.simulation.failure import (
    CONTINUING_STATUSES,
    classify_open,
    classify_runaway,
    finite_rows,
    merge_status,
    stopped_status,
)
from linkwork.simulation.one_kernel import KernelRun, kernel_for, roll_out
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
    control = problem.control
    assert control is not None
    schedule = problem.schedule
    inputs = _inputs(problem, control, names)
    kernel = kernel_for(
        problem.model, control, schedule.integrator, names, target="cpu", dtype=dtype, contacts=contacts
    )
    q, v = problem.start
    carried = None
    if contacts is not None:
        carried = np.pad(problem.rows.get("warm_start", np.zeros((len(q), 0))), ((0, 0), (0, len(CARRIED))))
    unclosed = open_rows(problem.model, q, inputs.parameters, dtype=dtype)
    unclosed = unclosed | immobile_rows(problem.model, q, inputs.parameters)
    continuing = has_status(problem.earlier, CONTINUING_STATUSES)
    idle = unclosed | ~continuing
    q_first = np.where(idle[:, None], np.nan, q) if idle.any() else q  # NaN: the row takes no step
    forces = inputs.forces
    run = roll_out(
        kernel,
        (q_first, v),
        inputs.arrays,
        forces.values if forces is not None and forces.per_step else None,
        dt=schedule.dt,
        steps=schedule.steps,
        record_every=schedule.record_every,
        carried=carried,
    )
    run.q[:, 0] = q
    end = run.end if problem.schedule.steps else problem.start
    feedback = control_feedback(problem.model, control, inputs.arrays, inputs.parameters)
    status = _stopped_rows(problem, control, inputs, run, unclosed, continuing)
    status = classify_runaway(
        problem.model,
        status,
        q,
        end,
        inputs.parameters,
        schedule.dt,
        schedule.integrator,
        feedback,
        laws=contacts,
    )
    status = classify_open(problem.model, status, end[0], inputs.parameters, dtype)
    status = merge_status(problem.earlier, status)
    causes = np.full(len(q), "", dtype=object)
    if (status != int(Status.OK)).any():
        causes = _causes(problem, inputs, run, status, continuing, contacts)
    batch = problem.batch
    result = Rollout(*(x.reshape((*batch, *x.shape[1:])) for x in (run.q, run.v, status)))
    result.steps = run.taken.reshape(batch)
    result.causes = causes.reshape(batch)
    carried_end = None if run.carried is None else run.carried.reshape((*batch, run.carried.shape[1]))
    return with_contact(result, carried_end, contacts)


@dataclass(frozen=True)
class _Inputs:
    """Inputs of a kernel as rows, by name: `parameters` of the model among them, and given `forces`."""

    arrays: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    forces: GivenForces | None

    def at_steps(self, taken: np.ndarray) -> dict[str, np.ndarray]:
        """Return the inputs of the steps after those that rows have taken."""
        return self.arrays if self.forces is None else self.arrays | self.forces.at_steps(taken)


def _inputs(problem: RolloutProblem, control: Control, names: tuple[str, ...]) -> _Inputs:
    rows = problem.rows
    arrays = {name: rows[name] for name in (*control.inputs, *names) if name in rows}
    forces = None
    if "tau" in control.inputs:
        steps = problem.schedule.steps
        forces = GivenForces(problem.model, problem.tau, problem.batch, steps, problem.schedule.dt)
        first = forces.values[:, 0] if forces.per_step and steps else forces.values
        arrays = {"tau": first, **arrays}
    return _Inputs(arrays, {name: rows[name] for name in names if name not in COEFFICIENTS}, forces)


def _stopped_rows(
    problem: RolloutProblem,
    control: Control,
    inputs: _Inputs,
    run: KernelRun,
    unclosed: np.ndarray,
    continuing: np.ndarray,
) -> np.ndarray:
    """Return the status of rows that stopped or whose contacts were not solved, OK for others, (rows,)."""
    q, v = problem.start
    schedule = problem.schedule
    status = np.full(len(q), int(Status.OK))
    finite: Any = np.isfinite(q).all() and np.isfinite(v).all()
    if not finite:
        finite = np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
    stopped = np.flatnonzero(((run.taken != schedule.steps) | unclosed | ~finite) & continuing)
    if len(stopped):
        solved = stopped < 0 if run.carried is None else np.isfinite(run.carried[stopped]).all(axis=1)
        used = inputs.at_steps(run.taken)
        solved &= finite_rows([x[stopped] for x in used.values()], len(stopped))
        parameters = {name: x[stopped] for name, x in inputs.parameters.items()}
        arrays = {name: x[stopped] for name, x in inputs.arrays.items()}
        status[stopped] = stopped_status(
            problem.model,
            (q[stopped].astype(float), v[stopped].astype(float)),
            (run.last[0][stopped].astype(float), run.last[1][stopped].astype(float)),
            unclosed[stopped],
            solved,
            schedule.dt,
            schedule.integrator,
            parameters,
            control_feedback(problem.model, control, arrays, parameters),
        )
    if run.carried is not None:
        unsolved = (run.carried[:, -1] > 0.0) & (status == int(Status.OK))
        status[unsolved] = int(Status.CONTACT_NOT_CONVERGED)
    return status


def _causes(
    problem: RolloutProblem,
    inputs: _Inputs,
    run: KernelRun,
    status: np.ndarray,
    continuing: np.ndarray,
    contacts: Laws | None,
) -> np.ndarray:
    """Return sentences on why rows stopped, (rows,)."""
    model = problem.model
    end = run.end if problem.schedule.steps else problem.start
    q_last, v_last = last_finite_states(problem.start, end, run.last, run.taken)
    ended = np.where(continuing, status, 0)
    used = inputs.at_steps(run.taken)
    dt = problem.schedule.dt
    causes = first_causes(model, ended, (q_last, v_last), run.taken, dt, inputs.parameters, used)
    if run.carried is None:
        return causes
    return causes + contact_causes(model, contacts, status, q_last, run.carried, inputs.parameters)
