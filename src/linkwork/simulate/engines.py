"""What takes the steps of a simulation: one kernel for trees, integrators in charts for mechanisms with loops."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from linkwork.contact import Contacts
from linkwork.model import Model
from linkwork.simulate.adaptive import Adaptive
from linkwork.simulate.charts import Charts
from linkwork.simulate.driving import Drive
from linkwork.simulate.in_chart import STEPS, chart_kernel, reach
from linkwork.simulate.integrators import in_parts, integrator_of
from linkwork.simulate.one_kernel import kernel_for, last_states
from linkwork.simulate.status import Status
from linkwork.simulate.stepping import Stepping
from linkwork.simulate.stopped import why_stopped
from linkwork.simulate.traced import COEFFICIENTS, carried_size

OK = int(Status.OK)


class Engine(Protocol):
    """Rows of states q, (rows, nq), and v, (rows, nv), that took `steps`, (rows,); their `status`, (rows,), tells who stopped.

    `hidden` is what else decides the next steps, arrays of rows by name: with it an engine goes on with the same bits.
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

    def advance(self, over: int, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        """Take so many steps after those that are over."""


class OneKernel:
    """Trees, and everything with contact: steps and what controls them are one kernel."""

    def __init__(
        self, model: Model, drive: Drive, states: tuple[np.ndarray, np.ndarray], dt: float, integrator: str | Adaptive,
        parameters: dict[str, np.ndarray], hidden: Mapping[str, np.ndarray], *, contacts: Contacts | None,
    ) -> None:  # fmt: skip
        self.q, self.v = (np.array(x) for x in states)
        self.hidden: dict[str, np.ndarray] = {}
        if contacts is not None:
            self.hidden["carried"] = hidden.get("carried", np.zeros((len(self.q), carried_size(model, contacts))))
        fine = np.isfinite(self.q).all(axis=1) & np.isfinite(self.v).all(axis=1)
        self.status, self.steps = np.where(fine, OK, int(Status.NOT_FINITE)), np.zeros(len(self.q), dtype=int)
        self._model, self._dt, self._parameters = model, dt, parameters
        how: dict[str, Any] = {"target": "cpu", "dtype": "float64", "contacts": contacts}
        self._kernel = kernel_for(model, drive.control, integrator, tuple(parameters), **how)

    def advance(self, over: int, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        given = {**inputs, **self._parameters}
        before = (self.q, self.v, np.zeros(len(self.q)), *self.hidden.values())
        how = np.array([self._dt, count, 0.0, over])
        self.q, self.v, done, *carried = self._kernel(*before, how, *given.values())
        self.hidden = dict(zip(self.hidden, carried))
        going = self.status == OK
        self.steps = self.steps + np.where(going, done, 0.0).astype(int)
        ended = np.flatnonzero(going & (done < count))
        if len(ended):
            self.status = self.status.copy()
            last = last_states(self._kernel, before, done, ended, given, self._dt, over)
            self.status[ended] = self._why(*last, ended)

    def _why(self, q: np.ndarray, v: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The status of rows that stopped, by their last states."""
        numbers = {name: x[rows] for name, x in self._parameters.items() if name not in COEFFICIENTS}
        solved = np.full(len(rows), bool(self.hidden))
        for x in self.hidden.values():
            solved &= np.isfinite(x[rows]).all(axis=1)
        return why_stopped(self._model, q, v, self._dt, numbers, solved)


class InCharts:
    """Mechanisms with loops: each row in a chart that is good where it is; see `stepping`."""

    def __init__(
        self, model: Model, drive: Drive, states: tuple[np.ndarray, np.ndarray], dt: float, integrator: str | Adaptive,
        parameters: dict[str, np.ndarray], hidden: Mapping[str, np.ndarray],
    ) -> None:  # fmt: skip
        self._step, largest, self._agree = integrator_of(integrator)
        self._dt, self._drive, self._parameters, charts = dt, drive, parameters, Charts(model)
        went_on = None
        if hidden:
            went_on = hidden["w"], [charts.from_numbers(row) for row in hidden["chart"]]
        self._rows = Stepping(model, *states, parameters, largest, went_on)
        if hidden:
            self._rows.far = hidden["far"].copy()
        inside = integrator in STEPS
        self._kernel = chart_kernel(model, drive.control, str(integrator), tuple(parameters)) if inside else None
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
    def hidden(self) -> dict[str, np.ndarray]:
        charts = self._rows.charts
        chart = np.array([charts.as_numbers(choice) for choice in self._rows.choices], dtype=int)
        size = len(charts.as_numbers(charts.own))
        return {"w": self._rows.w, "far": self._rows.far, "chart": chart.reshape(len(self.q), size)}

    def advance(self, over: int, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        rows, dt = self._rows, self._dt
        rows.before, force = over - self._end, _InState(self._drive, inputs, rows, dt)
        for some in (count,) if self._kernel is not None else (1,) * count:
            self._end += some
            with np.errstate(invalid="ignore", over="ignore"):  # a status tells of what is not finite
                reach(self._end, rows, self._kernel, {**inputs, **self._parameters}, partial(self._take, force), dt)

    def _take(self, force: _InState) -> None:
        self._rows.take(in_parts(self._step, force, self._dt), self._dt, self._agree)


class _InState:
    """Forces of what drives a simulation, for an integrator."""

    def __init__(self, drive: Drive, inputs: Mapping[str, np.ndarray], rows: Stepping, dt: float) -> None:
        self.asks_states = drive.asks_velocities
        self._drive, self._inputs, self._rows, self._dt = drive, inputs, rows, dt

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        return self._drive.all_forces(q, v, (self._rows.before + self._rows.steps + part) * self._dt, self._inputs)
