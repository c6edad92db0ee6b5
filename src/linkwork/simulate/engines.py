"""What takes the steps of a simulation: one kernel for trees, integrators in charts for mechanisms with loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from linkwork.contact import Contacts
from linkwork.model import Model
from linkwork.simulate.adaptive import Adaptive
from linkwork.simulate.charts import Charts
from linkwork.simulate.driving import Drive
from linkwork.simulate.integrators import integrator_of
from linkwork.simulate.one_kernel import kernel_for
from linkwork.simulate.status import Status
from linkwork.simulate.stepping import Stepping
from linkwork.simulate.traced import carried_size

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
        parameters: dict[str, np.ndarray], hidden: Mapping[str, np.ndarray], *, single: bool, contacts: Contacts | None,
    ) -> None:  # fmt: skip
        self.q, self.v = (np.array(x) for x in states)
        self.hidden: dict[str, np.ndarray] = {}
        if contacts is not None:
            self.hidden["carried"] = hidden.get("carried", np.zeros((len(self.q), carried_size(model, contacts))))
        fine = np.isfinite(self.q).all(axis=1) & np.isfinite(self.v).all(axis=1)
        self.status, self.steps = np.where(fine, OK, int(Status.NOT_FINITE)), np.zeros(len(self.q), dtype=int)
        self._dt, self._parameters = dt, parameters
        how: dict[str, Any] = {"target": "cpu", "dtype": "float64", "each": single, "contacts": contacts}
        self._kernel, self._looped = kernel_for(model, drive.control, integrator, tuple(parameters), **how)

    def advance(self, over: int, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        done = np.zeros(len(self.q))
        given = (*inputs.values(), *self._parameters.values())
        for k in range(1 if self._looped else count):
            how = np.array([self._dt, count if self._looped else 1.0, 0.0, over + k])
            self.q, self.v, done, *carried = self._kernel(self.q, self.v, done, *self.hidden.values(), how, *given)
            self.hidden = dict(zip(self.hidden, carried))
        self.steps = self.steps + np.where(self.status == OK, done, 0.0).astype(int)
        self.status = np.where((self.status == OK) & (done < count), int(Status.NOT_FINITE), self.status)


class InCharts:
    """Mechanisms with loops: each row in a chart that is good where it is; see `stepping`."""

    def __init__(
        self, model: Model, drive: Drive, states: tuple[np.ndarray, np.ndarray], dt: float, integrator: str | Adaptive,
        parameters: dict[str, np.ndarray], hidden: Mapping[str, np.ndarray],
    ) -> None:  # fmt: skip
        self._step, largest = integrator_of(integrator)
        self._dt, self._drive, charts = dt, drive, Charts(model)
        went_on = None
        if hidden:
            went_on = hidden["w"], [charts.from_numbers(row) for row in hidden["chart"]]
        self._rows = Stepping(model, *states, parameters, largest, went_on)

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
        return {"w": self._rows.w, "chart": chart.reshape(len(self.q), -1)}

    def advance(self, over: int, count: int, inputs: Mapping[str, np.ndarray]) -> None:
        for k in range(count):
            force = _InState(self._drive, inputs, over + k, self._dt)
            with np.errstate(invalid="ignore", over="ignore"):  # a status tells of what is not finite
                self._rows.take(lambda rows: self._step(rows, force, self._dt), self._dt)  # noqa: B023


class _InState:
    """Forces of what drives a simulation, for an integrator."""

    def __init__(self, drive: Drive, inputs: Mapping[str, np.ndarray], over: int, dt: float) -> None:
        self.asks_states = drive.asks_velocities
        self._drive, self._inputs, self._over, self._dt = drive, inputs, over, dt

    def __call__(self, q: np.ndarray, v: np.ndarray, part: float) -> np.ndarray:
        return self._drive.all_forces(q, v, (self._over + part) * self._dt, self._inputs)
