"""A running simulation: its engine, and what it records."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.algorithms.contact.rows import count
from linkwork.compiler.runtime.progress import Progress
from linkwork.contact import Contacts
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.joint_limits import joint_laws, switched
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.simulation.actuation import Drive, control_feedback
from linkwork.simulation.contact_forces import contact_forces
from linkwork.simulation.engines import OK, Engine, InCharts, OneKernel
from linkwork.simulation.events import EventMonitor
from linkwork.simulation.failure import classify_runaway, classify_stiff
from linkwork.simulation.joint_laws import check_integrator
from linkwork.simulation.log import EventRecord, Log, State
from linkwork.simulation.penetration import warn_penetration, warn_untested
from linkwork.simulation.rollout_arguments import (
    IMPLICIT,
    broadcast_arrays,
    integration_method,
    normal_contacts,
)
from linkwork.simulation.sensors import SensorContext, SensorSet, initial_acceleration
from linkwork.simulation.status import Status
from linkwork.simulation.stiffness import implicit_parameters
from linkwork.simulation.traced import CARRIED, Laws, taken_coefficients

STOPPED = int(Status.STOPPED)


def _masked(valid: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return arrays of rows with NaN in invalid rows."""
    return np.where(valid.reshape(-1, *(1,) * (x.ndim - 1)), x, np.nan)


@dataclass(frozen=True)
class SimulationOptions:
    """Options of a simulation; see `simulate`."""

    dt: float
    integrator: str
    rtol: float | None
    atol: float | None
    contacts: Any
    limits: bool
    friction: bool
    sensors: Mapping[str, Any] | None
    events: Mapping[str, Any] | None
    parameters: dict[str, Any]


class SimulationRun:
    """State of a running simulation: its engine, and what has been recorded.

    It begins with configurations and velocities, `states`, or continues from `start`.
    """

    def __init__(
        self,
        model: Model,
        drive: Drive,
        options: SimulationOptions,
        *,
        states: tuple[Any, Any],
        start: State | None,
        memory: Any,
    ) -> None:
        contacts = options.contacts
        parameters = options.parameters
        integrator = options.integrator
        acting = (options.limits, options.friction)
        warn_untested("simulate", model, contacts)
        self._contacts = (
            None
            if contacts is None
            else switched(normal_contacts("simulate", model, contacts, integrator), *acting)
        )
        self._laws: Laws | None = joint_laws(model, *acting) if contacts is None else self._contacts
        check_integrator("simulate", model, self._laws, integrator)
        self._method = integration_method(model, integrator, options.rtol, options.atol, "simulate")
        if integrator == IMPLICIT:
            parameters = implicit_parameters(model, parameters, options.dt)
        q, v = states if start is None else (start.q, start.v)
        arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"q": (q, (model.nq,)), "v": (v, (model.nv,))}
        self._candidates = () if self._contacts is None else self._contacts.candidates(model)
        coefficients = taken_coefficients(model, parameters, self._laws, "simulate", bool(options.friction))
        arrays |= {name: (x, (len(self._candidates),)) for name, x in coefficients.items()}
        arrays |= {name: (parameters[name], shape_of(model, name)) for name in known(model, parameters)}
        self.batch, rows = broadcast_arrays(arrays | drive.arrays, "simulate")
        self._coefficients = {name: rows[name] for name in coefficients}
        self.model = model
        self.drive = drive
        self._dt = options.dt
        self._parameters = {name: rows[name] for name in parameters}
        drive.settle(self.batch, rows, self._parameters)
        self._start = (rows["q"], rows["v"])
        self._event_monitor = EventMonitor(options.events, self.batch)
        self._stepwise = drive.sampled or bool(self._event_monitor)
        hidden: dict[str, np.ndarray] = {}
        self.over = 0
        self._memory = copy.deepcopy(memory)
        self._origin = 0.0  # the time before step 0, in steps of dt
        self._a: np.ndarray = initial_acceleration(model, rows["q"], rows["v"], self._parameters)
        self._tau: np.ndarray = np.zeros(self._a.shape)
        self._contact_result: tuple[np.ndarray, np.ndarray] | None = None
        if start is not None:
            hidden = self._restore(start, memory)
        elif self._contacts is not None:
            warn_penetration("simulate", model, self._contacts, rows["q"], self._parameters)
        self._engine = self._create_engine(hidden)
        self._before = self._engine.q  # where the last step began
        self._sensor_set = SensorSet(model, options.sensors, contacts=contacts is not None)
        self._stopped = np.full(len(self._a), -1)  # after which step an event stopped rows
        self._records: list[dict[str, Any]] = []
        self._events: list[EventRecord] = []

    def _restore(self, start: State, memory: Any) -> dict[str, np.ndarray]:
        """Continue from a state of a log; return the hidden arrays of its engine, as rows."""
        if memory is not None:
            raise ModelError("simulate: the controller's memory is that of start=: omit memory=")
        if start.a.shape != (*self.batch, self.model.nv):
            raise ShapeError(
                f"simulate: the batch of start= is {start.a.shape[:-1]}, that of other arrays {self.batch}"
            )
        self.over = start.step
        self._memory = copy.deepcopy(start.memory)
        self._origin = start.origin_in_steps_of(self._dt)
        self._a, self._tau = (x.reshape(-1, self.model.nv) for x in (start.a, start.tau))
        dims = len(self.batch)
        hidden = {
            name: np.reshape(x, (len(self._a), *np.shape(x)[dims:])) for name, x in start.hidden.items()
        }
        if self._contacts is not None and "carried" in hidden:
            given_count = hidden["carried"].shape[1] - len(CARRIED)
            expected_count = count(self.model, self._contacts)
            if given_count != expected_count:
                raise ModelError(
                    f"simulate: start= is a state with {given_count} impulses of contacts, and contacts= has "
                    f"{expected_count}"
                )
        if self._candidates and {"points", "forces"} <= set(hidden):
            self._contact_result = hidden["points"], hidden["forces"]
        return hidden

    def _create_engine(self, hidden: dict[str, np.ndarray]) -> Engine:
        parameters = {**self._coefficients, **self._parameters}  # as the kernel takes them
        arguments = (self.model, self.drive, self._start, self._dt, self._method, parameters, hidden)
        if self.model.loops and not isinstance(self._laws, Contacts):
            return InCharts(*arguments, laws=self._laws)
        return OneKernel(*arguments, contacts=self._laws)

    @property
    def _over_by_time(self) -> float:
        """Time in steps of dt.

        It differs from the number of steps taken if earlier ones had another dt.
        """
        return self.over + self._origin

    @property
    def time(self) -> float:
        """The time [s]."""
        return self._over_by_time * self._dt

    def _contact_points_and_forces(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return contact points and forces of the last step, (rows, candidates, 3) each.

        None without candidates.
        """
        if self._candidates and self._contact_result is None:
            carried = self._engine.hidden["carried"]
            options = {"parameters": self._parameters} if self._parameters else {}
            forces = carried[:, : carried.shape[1] - len(CARRIED)] / self._dt
            self._contact_result = contact_forces(
                self.model, self._before, forces, contacts=self._contacts, **options
            )
        return self._contact_result

    # steps

    def run(self, steps: int, record_every: int, reporter: Progress | None) -> None:
        """Take the steps and record states."""
        first = self.over
        last = self.over + steps
        if self._event_monitor:
            self._event_monitor.begin(self._engine.q, self._engine.v, self.time)
        self._record()
        while self.over < last and self._going.any():
            goal = min(last, self.over + record_every - (self.over - first) % record_every)
            if self._stepwise:
                self._step()
            else:
                self._steps_to(goal)
            if self.over == goal or ((self._stopped == self.over).any() and not self._going.any()):
                self._record()
            if reporter is not None:
                reporter.stage(f"{(self.over - first) / steps:.0%}")

    @property
    def _going(self) -> np.ndarray:
        """Rows that have not stopped, (rows,) of bool."""
        going: np.ndarray = (self._engine.status == OK) & (self._stopped < 0)
        return going

    def _steps_to(self, goal: int) -> None:
        """Advance to a step: all but the last in one call, and the last alone,
        since its forces are logged.
        """
        count = goal - self.over - 1
        if count:
            inputs, _ = self.drive.inputs(self._engine.q, self._engine.v, self.time, dict, None)
            self._engine.advance(self._over_by_time, count, inputs)
            self.over += count
        self._step()

    def _step(self) -> None:
        q = self._engine.q
        v = self._engine.v
        t = self.time
        inputs, self._memory = self.drive.inputs(q, v, t, self._sensor_readings, self._memory)
        self._tau = self.drive.forces(q, v, t, inputs)
        self._engine.advance(self._over_by_time, 1, inputs)
        self.over += 1
        with np.errstate(invalid="ignore", over="ignore"):
            self._a = (self._engine.v - v) / self._dt
        self._contact_result = None
        self._before = q
        if self._event_monitor:
            self._check_events()

    def _check_events(self) -> None:
        """Record the events of running rows, and stop these rows."""
        t = self.time
        going = self._going
        for name, stop, came in self._event_monitor.look(self._engine.q, self._engine.v, t):
            for row in np.flatnonzero(came & going):
                state = self._engine.q[row].copy(), self._engine.v[row].copy()
                self._events.append(EventRecord(name, t, self.over, int(row), *state))
            if stop:
                self._stopped[came & going] = self.over

    # records

    def _sensor_context(self) -> SensorContext:
        engine = self._engine
        t = self.time
        contact_result = self._contact_points_and_forces() if self._sensor_set.touches else None
        forces = None if contact_result is None else contact_result[1]
        return SensorContext(
            t, engine.q, engine.v, self._a, self._tau, self.batch, self._parameters, self._candidates, forces
        )

    def _sensor_readings(self) -> dict[str, np.ndarray]:
        """Return the readings of all sensors, as a controller gets them."""
        return {
            name: x.reshape(*self.batch, x.shape[1])
            for name, x in self._sensor_set.read(self._sensor_context()).items()
        }

    def _record(self) -> None:
        valid = self._going | (self._stopped == self.over)
        engine = self._engine
        arrays = {"a": self._a, "tau": self._tau}
        arrays |= {"q": engine.q, "v": engine.v}
        contact_result = self._contact_points_and_forces()
        if contact_result is not None:
            arrays |= dict(zip(("points", "forces"), contact_result))
        states = {name: _masked(valid, x) for name, x in arrays.items()}
        readings = {
            name: _masked(valid, x) for name, x in self._sensor_set.read(self._sensor_context()).items()
        }
        hidden = {name: x.copy() for name, x in engine.hidden.items()}
        self._records.append(
            {
                **states,
                "sensors": readings,
                "hidden": hidden,
                "step": self.over,
                "memory": copy.deepcopy(self._memory),
            }
        )

    def log(self) -> Log:
        """Return the log of the recorded states."""
        records = self._records
        engine = self._engine
        steps = np.array([record["step"] for record in records])
        began = np.isfinite(self._start[0]).all(axis=1) & np.isfinite(self._start[1]).all(axis=1)
        configurations = (self._start[0], engine.q)
        feedback = control_feedback(
            self.model, self.drive.feedback_control, self.drive.settled, self._parameters
        )
        stiffness_options = (self._parameters, self._dt, self._method, feedback)
        status = classify_stiff(self.model, engine.status, began, configurations, *stiffness_options)
        status = classify_runaway(
            self.model,
            status,
            self._start[0],
            (engine.q, engine.v),
            *stiffness_options,
            divided=engine.divided,
            laws=self._laws,
        )
        status = np.where(engine.unsolved & (status == OK), int(Status.CONTACT_NOT_CONVERGED), status)
        status = np.where(self._stopped >= 0, STOPPED, status)
        taken = np.where(self._stopped >= 0, self._stopped - steps[0], engine.steps)
        names = ("q", "v", "a", "tau", *(("points", "forces") if self._candidates else ()))
        arrays: dict[str, Any] = {name: self._stacked([record[name] for record in records]) for name in names}
        for group in ("sensors", "hidden"):
            arrays[group] = {
                name: self._stacked([record[group][name] for record in records]) for name in records[0][group]
            }
        memory = (
            tuple(record["memory"] for record in records)
            if any(r["memory"] is not None for r in records)
            else ()
        )
        return Log(
            t=(steps + self._origin) * self._dt,
            origin=self._origin,
            **arrays,
            sensor_columns=self._sensor_set.columns(),
            contacts=tuple(candidate.name for candidate in self._candidates),
            events=tuple(self._events),
            status=status.reshape(self.batch),
            steps=taken.reshape(self.batch),
            name=self.model.name,
            q_names=self.model.q_names,
            v_names=self.model.v_names,
            step=steps,
            memory=memory,
        )

    def _stacked(self, arrays: list[np.ndarray]) -> np.ndarray:
        """Return arrays of rows, one for each record, as (..., n, ...)."""
        stacked = np.stack(arrays, axis=1)
        return stacked.reshape(*self.batch, *stacked.shape[1:])
