"""Simulations: a model, what controls it and what measures it, step after step, into a log."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from linkwork.algorithms.contact_rows import count
from linkwork.contact import Contacts, chosen_contacts
from linkwork.errors import ModelError, ShapeError
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.parts.names import shown
from linkwork.runtime.progress import Progress
from linkwork.simulate.control import Policy
from linkwork.simulate.driving import Drive
from linkwork.simulate.engines import OK, Engine, InCharts, OneKernel
from linkwork.simulate.events import Watch
from linkwork.simulate.integrators import INTEGRATORS
from linkwork.simulate.log import Log, Occurrence, State
from linkwork.simulate.rollout import IMPLICIT, _method, _rows
from linkwork.simulate.sensors import Moment, Suite
from linkwork.simulate.status import Status
from linkwork.simulate.stiffness import implicit_parameters
from linkwork.simulate.stopped import told_stiff
from linkwork.simulate.touching import contact_forces
from linkwork.simulate.traced import CARRIED, check_moves, taken_coefficients

MOST = 10_000_000  # steps of one call
STOPPED = int(Status.STOPPED)


def simulate(
    model: Model,
    q: Any = None,
    v: Any = None,
    duration: float | None = None,
    controller: Any = None,
    *,
    dt: float = 1e-3,
    every: int = 1,
    integrator: str = "semi_implicit_euler",
    rtol: float | None = None,
    atol: float | None = None,
    policy: Policy | None = None,
    inputs: Mapping[str, Any] | None = None,
    memory: Any = None,
    f_ext: Any = None,
    contacts: Any = None,
    sensors: Mapping[str, Any] | None = None,
    events: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    start: State | None = None,
    progress: bool = True,
) -> Log:
    """The motion from states q, (..., nq), and v, (..., nv), over a `duration` [s], in steps of `dt` [s], as a `Log`.

    The log has the start, every so many steps (`every`) a state, and the end. The same call gives the same bits, and so does
    one that goes on from any logged state: `simulate(model, start=log.state(k), duration=...)` with the same other arguments.

    `controller` gives joint forces at the model's independent joints: None for zero; an array (..., nv); `lw.PD`, which acts
    all the time; or a function controller(q, v, t) -> (..., nv) of all states, which is called once at the begin of each step,
    as a digital controller is. If it has an argument `sensors`, it gets what sensors say by name; if it has one that is called
    `memory`, it gets what it returned last, beginning with `memory=`, and returns (tau, memory): that becomes part of logged
    states. `policy` and `inputs` are as in `lw.rollout`: a function that is traced, and acts all the time.

    `f_ext` are forces from outside: (..., bodies, 6) as in `lw.forward_dynamics`, or by the names of frames, moment [N m] and
    force [N] at the frame's origin in the world's axes, (..., 6). Each may be a function of the time, asked at each step.

    `sensors` by name are those of `lw.simulate` (`IMU`, `FramePose`, `JointTorque`, ...) or functions (q, v, t). `events` by
    name are conditions (q, v, t) -> bool, looked at after every step: where one comes true the row stops, or, with
    `lw.simulate.Event(condition, stop=False)`, it is only noted in `Log.events`.

    `contacts` are as in `lw.rollout`; so are `parameters`, `integrator`, and `rtol` and `atol` of adaptive steps. Rows are
    independent: one that cannot go on stops alone, and `Log.status` says why. What takes longer than two seconds shows its
    `progress` on a terminal.
    """
    steps = _steps(model, duration, dt, every, integrator)
    if start is not None and (q is not None or v is not None):
        raise ModelError("simulate: give either q and v, or start=")
    if start is None and (q is None or v is None):
        raise ModelError("simulate: q and v are missing, or start=, a state of a log")
    drive = Drive(model, controller, policy, inputs, f_ext, memory)
    run = _Run(
        model, drive, (q, v), start, dt, integrator, (rtol, atol), contacts, sensors, events, dict(parameters or {}), memory
    )
    with Progress(f"simulating {shown(model.name)}") if progress else nullcontext() as told:
        run.go(steps, every, told)
    return run.log()


def _steps(model: Any, duration: Any, dt: Any, every: Any, integrator: Any) -> int:
    if not isinstance(model, Model):
        raise ModelError(f"simulate takes a model, not {type(model).__name__}")
    check_moves(model, "simulate")
    names = (*INTEGRATORS, "rk45", IMPLICIT)
    if integrator not in names:
        raise ModelError(f"simulate: integrator must be one of {', '.join(names)}, not {integrator!r}")
    if not isinstance(every, (int, np.integer)) or isinstance(every, bool) or every < 1:
        raise ModelError(f"simulate: every must be a whole number of steps, at least 1, not {every!r}")
    for name, value in (("dt", dt), ("duration", duration)):
        if not isinstance(value, (int, float, np.floating, np.integer)) or isinstance(value, bool) or not np.isfinite(value):
            raise ModelError(f"simulate: {name} must be a number of seconds, not {value!r}")
    if not dt > 0.0 or duration < 0.0:
        raise ModelError(f"simulate: dt must be positive and duration not negative, not {dt!r} and {duration!r}")
    steps = round(duration / dt)
    if abs(duration / dt - steps) > 1e-6 * max(1, steps):
        raise ModelError(f"simulate: {duration!r} s are {duration / dt:.6g} steps of {dt!r} s, which is no whole number")
    if steps > MOST:
        raise ModelError(f"simulate: {duration!r} s are {steps} steps of {dt!r} s, more than {MOST}: take a longer dt")
    return steps


def _normal_form(model: Model, contacts: Any, integrator: str) -> Contacts:
    if integrator != "semi_implicit_euler":
        raise ModelError(f"simulate: with contacts= the integrator is semi_implicit_euler, not {integrator!r}")
    chosen: Contacts = chosen_contacts(model, contacts)["contacts"]
    return chosen


def _masked(fine: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Arrays of rows, NaN in those that are not fine."""
    return np.where(fine.reshape(-1, *(1,) * (x.ndim - 1)), x, np.nan)


class _Run:
    """A simulation that goes on: its engine, and what has been recorded."""

    def __init__(
        self, model: Model, drive: Drive, states: tuple[Any, Any], start: State | None, dt: float, integrator: str,
        tolerances: tuple[Any, Any], contacts: Any, sensors: Any, events: Any, parameters: dict[str, Any], memory: Any,
    ) -> None:  # fmt: skip
        self._contacts = None if contacts is None else _normal_form(model, contacts, integrator)
        self._method = _method(model, integrator, *tolerances, "simulate")
        if integrator == IMPLICIT:
            parameters = implicit_parameters(model, parameters, dt)
        q, v = states if start is None else (start.q, start.v)
        arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"q": (q, (model.nq,)), "v": (v, (model.nv,))}
        self._candidates = () if self._contacts is None else self._contacts.candidates(model)
        own = taken_coefficients(parameters, contacts, "simulate")
        arrays |= {name: (x, (len(self._candidates),)) for name, x in own.items()}
        arrays |= {name: (parameters[name], shape_of(model, name)) for name in known(model, parameters)}
        self.batch, rows = _rows(arrays | drive.arrays, "simulate")
        self._coefficients = {name: rows[name] for name in own}
        self.model, self.drive, self._dt = model, drive, dt
        self._parameters = {name: rows[name] for name in parameters}
        drive.settle(self.batch, rows)
        self._start, self._watch = (rows["q"], rows["v"]), Watch(events, self.batch)
        self._stepwise = drive.sampled or bool(self._watch)
        hidden: dict[str, np.ndarray] = {}
        self.over, self._memory = 0, copy.deepcopy(memory)
        self._a = self._tau = np.zeros((len(rows["q"]), model.nv))
        self._felt: tuple[np.ndarray, np.ndarray] | None = None
        if start is not None:
            hidden = self._taken_over(start, memory)
        self._engine = self._made(hidden)
        self._before = self._engine.q  # where the last step began
        self._suite = Suite(model, sensors, contacts=contacts is not None)
        self._stopped = np.full(len(self._a), -1)  # after which step an event stopped rows
        self._records: list[dict[str, Any]] = []
        self._events: list[Occurrence] = []

    def _taken_over(self, start: State, memory: Any) -> dict[str, np.ndarray]:
        """Go on from a state of a log; what its steps hand on, as rows."""
        if memory is not None:
            raise ModelError("simulate: the controller's memory is that of start=: leave memory= out")
        if start.a.shape != (*self.batch, self.model.nv):
            raise ShapeError(f"simulate: the batch of start= is {start.a.shape[:-1]}, that of other arrays {self.batch}")
        self.over, self._memory = start.step, copy.deepcopy(start.memory)
        self._a, self._tau = (x.reshape(-1, self.model.nv) for x in (start.a, start.tau))
        dims = len(self.batch)
        hidden = {name: np.reshape(x, (len(self._a), *np.shape(x)[dims:])) for name, x in start.hidden.items()}
        if self._contacts is not None and "carried" in hidden:
            has, needs = hidden["carried"].shape[1] - len(CARRIED), count(self.model, self._contacts)
            if has != needs:
                raise ModelError(f"simulate: start= is a state with {has} impulses of contacts, and contacts= has {needs}")
        if self._candidates and {"points", "forces"} <= set(hidden):
            self._felt = hidden["points"], hidden["forces"]
        return hidden

    def _made(self, hidden: dict[str, np.ndarray]) -> Engine:
        numbers = {**self._coefficients, **self._parameters}  # as the kernel takes them
        first = (self.model, self.drive, self._start, self._dt, self._method, numbers, hidden)
        if self.model.loops and self._contacts is None:
            return InCharts(*first)
        return OneKernel(*first, contacts=self._contacts)

    def _touched(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Points of contact and forces there, (rows, candidates, 3), of the last step; None where nothing may touch."""
        if self._candidates and self._felt is None:
            carried = self._engine.hidden["carried"]
            more = {"parameters": self._parameters} if self._parameters else {}
            forces = carried[:, : carried.shape[1] - len(CARRIED)] / self._dt
            self._felt = contact_forces(self.model, self._before, forces, contacts=self._contacts, **more)
        return self._felt

    # steps

    def go(self, steps: int, every: int, told: Progress | None) -> None:
        """Take the steps, and record states."""
        first, last = self.over, self.over + steps
        if self._watch:
            self._watch.begin(self._engine.q, self._engine.v, self.over * self._dt)
        self._record()
        while self.over < last and self._going.any():
            goal = min(last, self.over + every - (self.over - first) % every)
            if self._stepwise:
                self._step()
            else:
                self._steps_to(goal)
            if self.over == goal or ((self._stopped == self.over).any() and not self._going.any()):
                self._record()
            if told is not None:
                told.stage(f"{(self.over - first) / steps:.0%}")

    @property
    def _going(self) -> np.ndarray:
        """Which rows have not stopped, (rows,)."""
        going: np.ndarray = (self._engine.status == OK) & (self._stopped < 0)
        return going

    def _steps_to(self, goal: int) -> None:
        """Many steps in one go, and the last one by itself, since a state tells of it."""
        count = goal - self.over - 1
        if count:
            inputs, _ = self.drive.inputs(self._engine.q, self._engine.v, self.over * self._dt, dict, None)
            self._engine.advance(self.over, count, inputs)
            self.over += count
        self._step()

    def _step(self) -> None:
        q, v, t = self._engine.q, self._engine.v, self.over * self._dt
        inputs, self._memory = self.drive.inputs(q, v, t, self._read, self._memory)
        self._tau = self.drive.forces(q, v, t, inputs)
        self._engine.advance(self.over, 1, inputs)
        self.over += 1
        with np.errstate(invalid="ignore", over="ignore"):
            self._a = (self._engine.v - v) / self._dt
        self._felt, self._before = None, q
        if self._watch:
            self._look()

    def _look(self) -> None:
        """Note the events of rows that are going, and stop them."""
        t, going = self.over * self._dt, self._going
        for name, stop, came in self._watch.look(self._engine.q, self._engine.v, t):
            for row in np.flatnonzero(came & going):
                state = self._engine.q[row].copy(), self._engine.v[row].copy()
                self._events.append(Occurrence(name, t, self.over, int(row), *state))
            if stop:
                self._stopped[came & going] = self.over

    # records

    def _moment(self) -> Moment:
        engine = self._engine
        t = self.over * self._dt
        felt = self._touched() if self._suite.touches else None
        forces = None if felt is None else felt[1]
        return Moment(t, engine.q, engine.v, self._a, self._tau, self.batch, self._parameters, self._candidates, forces)

    def _read(self) -> dict[str, np.ndarray]:
        """What sensors say, as a controller gets it."""
        return {name: x.reshape(*self.batch, x.shape[1]) for name, x in self._suite.read(self._moment()).items()}

    def _record(self) -> None:
        fine = self._going | (self._stopped == self.over)
        engine, numbers = self._engine, {"a": self._a, "tau": self._tau}
        numbers |= {"q": engine.q, "v": engine.v}
        felt = self._touched()
        if felt is not None:
            numbers |= dict(zip(("points", "forces"), felt))
        kept = {name: _masked(fine, x) for name, x in numbers.items()}
        said = {name: _masked(fine, x) for name, x in self._suite.read(self._moment()).items()}
        hidden = {name: x.copy() for name, x in engine.hidden.items()}
        self._records.append(
            {**kept, "sensors": said, "hidden": hidden, "step": self.over, "memory": copy.deepcopy(self._memory)}
        )

    def log(self) -> Log:
        """What was recorded."""
        records, engine = self._records, self._engine
        steps = np.array([record["step"] for record in records])
        began = np.isfinite(self._start[0]).all(axis=1) & np.isfinite(self._start[1]).all(axis=1)
        postures = (self._start[0], engine.q)
        status = told_stiff(self.model, engine.status, began, postures, self._parameters, self._dt, self._method)
        if self._contacts is not None:
            failed = (engine.hidden["carried"][:, -1] > 0.0) & (status == OK)
            status = np.where(failed, int(Status.CONTACT_NOT_CONVERGED), status)
        status = np.where(self._stopped >= 0, STOPPED, status)
        taken = np.where(self._stopped >= 0, self._stopped - steps[0], engine.steps)
        kept = ("q", "v", "a", "tau", *(("points", "forces") if self._candidates else ()))
        words: dict[str, Any] = {word: self._stacked([record[word] for record in records]) for word in kept}
        for word in ("sensors", "hidden"):
            words[word] = {name: self._stacked([record[word][name] for record in records]) for name in records[0][word]}
        memory = tuple(record["memory"] for record in records) if any(r["memory"] is not None for r in records) else ()
        return Log(
            t=steps * self._dt,
            **words,
            sensor_columns=self._suite.columns(),
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
        """Arrays of rows, one for each record, as (..., n, ...)."""
        found = np.stack(arrays, axis=1)
        return found.reshape(*self.batch, *found.shape[1:])
