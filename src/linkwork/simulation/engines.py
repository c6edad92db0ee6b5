"""Engines of simulations: one kernel for trees and contact, charts for mechanisms with loops."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from linkwork.contact import JointLaws
from linkwork.functions.contact import COEFFICIENTS
from linkwork.model import Model
from linkwork.simulation.actuation import Drive
from linkwork.simulation.adaptive import Adaptive
from linkwork.simulation.chart_kernel import STEPS, chart_kernel, reach
from linkwork.simulation.charts import Charts
from linkwork.simulation.closedness import immobile_rows, open_rows
from linkwork.simulation.failure import classify_stopped, finite_rows
from linkwork.simulation.integrators import find_integrator, in_parts
from linkwork.simulation.one_kernel import kernel_for, last_states
from linkwork.simulation.status import Status
from linkwork.simulation.stepping import Stepping
from linkwork.simulation.traced import Laws, carried_size

OK = int(Status.OK)


class Engine(Protocol):
    """Rows of states q, (rows, nq), and v, (rows, nv), that took `steps`, (rows,); their `status`, (rows,),
    tells who stopped.

    `hidden` is what else decides the next steps, arrays of rows by name: with it an engine goes on with the
    same bits.
    """

    @property
    def q(self) -> np.ndarray: ...

    @property
    def v(self) -> np.ndarray: ...

    @property
    def status(self) -> np.ndarray: ...

    @property
    def steps(self) -> np.ndarray: ...

    @property
    def hidden(self) -> dict[str, np.ndarray]: ...

    @property
    def unsolved(self) -> np.ndarray: ...

    @property
    def divided(self) -> np.ndarray | None:
        """Rows in which a step was too coarse to be taken at once, (rows,) of bool; None where steps are
        never divided.
        """
        ...

    def advance(self, over: float, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        """Take `count` steps; `over` steps of dt precede them, which gives the time."""


class OneKernel:
    """Engine for trees and for contact: one kernel with the steps and the control."""

    divided = None

    def __init__(
        self,
        model: Model,
        drive: Drive,
        states: tuple[np.ndarray, np.ndarray],
        dt: float,
        integrator: str | Adaptive,
        parameters: dict[str, np.ndarray],
        hidden: Mapping[str, np.ndarray],
        *,
        contacts: Laws | None,
    ) -> None:
        self.q, self.v = (np.array(x) for x in states)
        self.hidden: dict[str, np.ndarray] = {}
        if contacts is not None:
            self.hidden["carried"] = hidden.get(
                "carried", np.zeros((len(self.q), carried_size(model, contacts)))
            )
        fine = np.isfinite(self.q).all(axis=1) & np.isfinite(self.v).all(axis=1)
        numbers = {name: x for name, x in parameters.items() if name not in COEFFICIENTS}
        unclosed = fine & (open_rows(model, self.q, numbers) | immobile_rows(model, self.q, numbers))
        self.status = np.where(fine, np.where(unclosed, int(Status.NOT_CLOSED), OK), int(Status.NOT_FINITE))
        self.steps = np.zeros(len(self.q), dtype=int)
        self._model = model
        self._dt = dt
        self._parameters = parameters
        how: dict[str, Any] = {"target": "cpu", "dtype": "float64", "contacts": contacts}
        self._kernel = kernel_for(model, drive.control, integrator, tuple(parameters), **how)

    def advance(self, over: float, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        arguments = {**inputs, **self._parameters}
        before = (self.q, self.v, np.zeros(len(self.q)), *self.hidden.values())
        how = np.array([self._dt, count, 0.0, over])
        self.q, self.v, done, *carried = self._kernel(*before, how, *arguments.values())
        self.hidden = dict(zip(self.hidden, carried))
        going = self.status == OK
        self.steps = self.steps + np.where(going, done, 0.0).astype(int)
        ended = np.flatnonzero(going & (done < count))
        if len(ended):
            self.status = self.status.copy()
            last = last_states(self._kernel, before, done, ended, arguments, self._dt, over)
            self.status[ended] = self._why(*last, ended, arguments)

    @property
    def unsolved(self) -> np.ndarray:
        """Rows in which laws of contact or of joints were not solved in some step, (rows,)."""
        carried = self.hidden.get("carried")
        return np.zeros(len(self.q), dtype=bool) if carried is None else carried[:, -1] > 0.0

    def _why(
        self, q: np.ndarray, v: np.ndarray, rows: np.ndarray, inputs: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the status of rows that stopped, from their last states and the inputs of all rows."""
        numbers = {name: x[rows] for name, x in self._parameters.items() if name not in COEFFICIENTS}
        solved = np.full(len(rows), bool(self.hidden))
        for x in self.hidden.values():
            solved &= np.isfinite(x[rows]).all(axis=1)
        solved &= finite_rows([x[rows] for x in inputs.values()], len(rows))
        return classify_stopped(self._model, q, v, self._dt, numbers, solved)


class InCharts:
    """Engine for mechanisms with loops: each row in a chart that is regular there; see `stepping`."""

    def __init__(
        self,
        model: Model,
        drive: Drive,
        states: tuple[np.ndarray, np.ndarray],
        dt: float,
        integrator: str | Adaptive,
        parameters: dict[str, np.ndarray],
        hidden: Mapping[str, np.ndarray],
        *,
        laws: JointLaws | None,
    ) -> None:
        self._step, largest, self._agree = find_integrator(integrator, laws)
        self._dt = dt
        self._drive = drive
        self._parameters = parameters
        charts = Charts(model)
        resume_from = None
        if hidden:
            resume_from = hidden["w"], [charts.from_numbers(row) for row in hidden["chart"]]
        self._rows = Stepping(model, *states, parameters, largest, resume_from, laws)
        if hidden:
            self._rows.far = hidden["far"].copy()
        inside = integrator in STEPS
        self._kernel = (
            chart_kernel(model, drive.control, str(integrator), tuple(parameters), laws) if inside else None
        )
        self._end = 0  # steps that rows took if they did not stop

    @property
    def q(self) -> np.ndarray:
        return self._rows.q

    @property
    def v(self) -> np.ndarray:
        return self._rows.v

    @property
    def status(self) -> np.ndarray:
        return self._rows.status

    @property
    def steps(self) -> np.ndarray:
        return self._rows.steps

    @property
    def unsolved(self) -> np.ndarray:
        """Rows in which laws of joints were not solved in some step, (rows,)."""
        return self._rows.unsolved

    @property
    def divided(self) -> np.ndarray:
        return self._rows.divided

    @property
    def hidden(self) -> dict[str, np.ndarray]:
        charts = self._rows.charts
        chart = np.array([charts.as_numbers(choice) for choice in self._rows.choices], dtype=int)
        size = len(charts.as_numbers(charts.own))
        return {"w": self._rows.w, "far": self._rows.far, "chart": chart.reshape(len(self.q), size)}

    def advance(self, over: float, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        rows = self._rows
        dt = self._dt
        rows.before, force = over - self._end, _InState(self._drive, inputs, rows, dt)
        for subset in (count,) if self._kernel is not None else (1,) * count:
            self._end += subset
            with np.errstate(invalid="ignore", over="ignore"):  # a status tells of what is not finite
                reach(
                    self._end,
                    rows,
                    self._kernel,
                    {**inputs, **self._parameters},
                    partial(self._take, force),
                    dt,
                )

    def _take(self, force: _InState) -> None:
        self._rows.take(in_parts(self._step, force, self._dt), self._dt, self._agree)


class _InState:
    """Forces of a simulation for an integrator."""

    def __init__(self, drive: Drive, inputs: Mapping[str, np.ndarray], rows: Stepping, dt: float) -> None:
        self.depends_on_state = drive.asks_velocities
        self._drive = drive
        self._inputs = inputs
        self._rows = rows
        self._dt = dt

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        return self._drive.all_forces(
            q, v, (self._rows.before + self._rows.steps + part) * self._dt, self._inputs
        )
