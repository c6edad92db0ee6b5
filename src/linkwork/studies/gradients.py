"""Gradients of each sample's cost by reverse mode: their mean is the gradient of the mean cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from linkwork.errors import StudyError
from linkwork.functions.derivatives import integrate_derivatives
from linkwork.functions.differentiation import vjp
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import parameters
from linkwork.studies.outputs import Batch

STATE = ("q", "v", "tau")
STEP_TOL = 1e-9  # relative difference between a recorded step and the one that is differentiated


@final
@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of a cost of the last state of a rollout, as an output; its `Mean` is the gradient of the
    mean.

    Parameters
    ----------
    cost : ModelFunction
        A scalar function of q, or of q and v: `lw.kinetic_energy`, or one made by `lw.model_function`.
    wrt : str or sequence of str
        Arguments of the rollout: "q" (on the tangent space) and "v" at the start, "tau", constant over the
        rollout, and parameters of the model. Gradients are concatenated.
    options : dict, optional
        Options of the cost.

    Notes
    -----
    Discrete adjoints of semi-implicit Euler: the vector-Jacobian product of forward dynamics in every step,
    from the last to the first. The task must record every step, and joint forces must be constant. A row in
    which something else acted (limits, friction, contact) is NaN, and excluded from reductions.
    """

    cost: Any
    wrt: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.cost, ModelFunction) or self.cost.required not in (("q",), ("q", "v")):
            raise StudyError(
                f"Gradient: cost: expected a function of a model and of q, or q and v, got {self.cost!r}"
            )
        if not self.names or not all(isinstance(name, str) for name in self.names):
            raise StudyError(f"Gradient: wrt: expected names, got {self.wrt!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays and parameters with respect to which the gradient is taken."""
        return (self.wrt,) if isinstance(self.wrt, str) else tuple(self.wrt)

    def __call__(self, batch: Batch) -> np.ndarray:
        task = batch.task
        model = batch.model
        self._check(batch)
        assert batch.q is not None and batch.v is not None
        rows = len(batch.index)
        steps = task.steps
        dt = task.dt
        tau = np.broadcast_to(batch.arrays.get("tau", np.zeros(model.nv)), (rows, model.nv))
        parameters = dict(batch.parameters)
        expected = [name for name in self.names if name not in STATE]
        numbers = {
            name: np.broadcast_to(_nominal(model, name), _shape(rows, model, name)) for name in expected
        } | parameters
        result = self._of_cost(batch, expected, numbers)
        by_q = result["q"]
        by_v = result["v"]
        names = tuple(numbers)
        step = vjp(
            forward_dynamics,
            model,
            wrt=("q", "v", "tau", *expected),
            parameters=[x for x in names if x not in expected],
        )
        by_tau = np.zeros((rows, model.nv))
        good = np.ones(rows, dtype=bool)
        for k in reversed(range(steps)):
            q = batch.q[:, k]
            v = batch.v[:, k]
            after = batch.v[:, k + 1]
            moved_q, moved_v = integrate_derivatives(model, q, dt * after, **_named(numbers))
            by_v = by_v + dt * np.einsum("rij,ri->rj", moved_v, by_q)
            a, bar_q, bar_v, bar_tau, *bars = step(q, v, tau, dt * by_v, **_named(numbers))
            with np.errstate(invalid="ignore"):
                good &= (np.abs(v + dt * a - after) <= STEP_TOL * (1.0 + np.abs(after))).all(axis=1)
            by_q = np.einsum("rij,ri->rj", moved_q, by_q) + bar_q
            by_v = by_v + bar_v
            by_tau = by_tau + bar_tau
            for name, bar in zip(expected, bars, strict=True):
                result[name] = result[name] + bar
        result |= {"q": by_q, "v": by_v, "tau": by_tau}
        full = np.concatenate([result[name].reshape(rows, -1) for name in self.names], axis=1)
        full[~good] = np.nan
        return full

    def _of_cost(
        self, batch: Batch, wrt: list[str], numbers: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the cost's own gradients by q, v and parameters."""
        assert batch.q is not None and batch.v is not None
        states = self.cost.required
        remaining = [name for name in numbers if name not in wrt]
        backward = vjp(self.cost, batch.model, wrt=(*states, *wrt), parameters=remaining, **self.options)
        shapes = [array.shape for array in backward.inputs if array.name.startswith("bar_")]
        if len(shapes) != 1 or int(np.prod(shapes[0], dtype=int)) != 1:
            raise StudyError(f"Gradient: cost: expected a scalar function, got outputs of shapes {shapes}")
        arrays = (batch.q[:, -1], batch.v[:, -1])[: len(states)]
        weight = np.ones((len(batch.index), *shapes[0]))
        bars = backward(*arrays, weight, **_named(numbers))[1:]
        result = {"v": np.zeros((len(batch.index), batch.model.nv))}
        return result | dict(zip((*states, *wrt), bars, strict=True))

    def _check(self, batch: Batch) -> None:
        """Raise StudyError if the task is not one that has these gradients."""
        task = batch.task
        if batch.q is None or batch.q.shape[1] != task.steps + 1:
            raise StudyError(
                "Gradient: expected a rollout that records every step: RolloutTask(..., record_every=1)"
            )
        if task.integrator != "semi_implicit_euler" or task.contacts is not None or task.policy is not None:
            raise StudyError(
                "Gradient: expected steps by semi_implicit_euler with given joint forces, without contacts"
            )
        if task.tau is not None and np.ndim(task.tau) != 1:
            raise StudyError("Gradient: expected joint forces that are constant, (nv,)")
        if batch.arrays.get("tau", np.zeros((1, 1))).ndim != 2:
            raise StudyError("Gradient: expected joint forces that are constant, (nv,)")


def _named(numbers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {"parameters": dict(numbers)} if numbers else {}


def _nominal(model: Any, name: str) -> np.ndarray:
    return parameters.value_of(model, name).astype(float)


def _shape(rows: int, model: Any, name: str) -> tuple[int, ...]:
    return (rows, *parameters.shape_of(model, name))
