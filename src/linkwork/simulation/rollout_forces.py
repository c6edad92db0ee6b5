"""Joint forces of a rollout, step by step: given ones, and those of PD control or a policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.model import Model
from linkwork.simulation.actuation import evaluate_control
from linkwork.simulation.control import Control
from linkwork.simulation.numbers import real_numbers
from linkwork.simulation.rollout_arguments import broadcast_forces
from linkwork.simulation.stepping import Stepping


class ControlForces:
    """Joint forces of PD control or of a policy, with its input `arrays`, (rows, ...) each."""

    depends_on_state = True
    differ = False
    step = 0

    def __init__(
        self,
        control: Control,
        arrays: dict[str, np.ndarray],
        parameters: dict[str, np.ndarray],
        rows: Stepping,
        dt: float,
    ) -> None:
        self._control = control
        self._arrays = arrays
        self._parameters = parameters
        self._rows = rows
        self._dt = dt

    def inputs(self) -> dict[str, np.ndarray]:
        """Return the inputs of the kernel."""
        return self._arrays

    def at_steps(self, steps: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of each row."""
        return self._arrays

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        t = (self._rows.steps + part) * self._dt
        model = self._rows.model
        return evaluate_control(model, self._control, q, v, t, self._arrays, self._parameters)


class GivenForces:
    """Joint forces given as `tau`: constant, constant in each step, or a Python function of the state.

    `step` is the current step. `differ`: forces change from step to step; `per_step`: they are an array with
    one entry for each step.
    """

    def __init__(self, model: Model, tau: Any, batch: tuple[int, ...], steps: int, dt: float) -> None:
        self.depends_on_state = callable(tau)
        self.step = 0
        self.differ = callable(tau)
        self.per_step = False
        self._function = tau
        self._batch = batch
        self._nv = model.nv
        self._dt = dt
        self._warnings = np.geterr()
        if self.depends_on_state:
            return
        forces = np.zeros(model.nv) if tau is None else real_numbers("rollout", "tau", tau)
        self.per_step = self.differ = forces.ndim == len(batch) + 2
        shape = (steps, model.nv) if self.per_step else (model.nv,)
        self.values = broadcast_forces(forces, batch, shape, "tau")

    def inputs(self) -> dict[str, np.ndarray]:
        """Return the inputs of the kernel in the current step."""
        return {"tau": self.values[:, self.step] if self.per_step else self.values}

    def at_steps(self, steps: np.ndarray) -> dict[str, np.ndarray]:
        """Return the forces of each row after `steps`, (rows,), steps; none if they are a function."""
        if self.depends_on_state:
            return {}
        if not self.per_step or not self.values.shape[1]:
            return {"tau": self.values}
        return {"tau": self.values[np.arange(len(steps)), np.minimum(steps, self.values.shape[1] - 1)]}

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        if not self.depends_on_state:
            return self.inputs()["tau"]
        states = q.reshape(*self._batch, q.shape[-1]).copy(), v.reshape(*self._batch, self._nv).copy()
        t = (self.step + part) * self._dt
        with np.errstate(**self._warnings):  # as the caller has set them
            forces = self._function(*states, t.reshape(self._batch) if isinstance(t, np.ndarray) else t)
        forces = real_numbers("rollout", "tau(q, v, t)", forces)
        return broadcast_forces(forces, self._batch, (self._nv,), "tau(q, v, t)")
