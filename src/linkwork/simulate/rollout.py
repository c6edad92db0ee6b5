"""Rollouts: many states of one model stepped through time, each in coordinates that are good where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.simulate.integrators import INTEGRATORS
from linkwork.simulate.stepping import Stepping


class _Arrays(NamedTuple):
    q: np.ndarray
    v: np.ndarray
    status: np.ndarray


class Rollout(_Arrays):
    """The arrays q, (..., n, nq), v, (..., n, nv), and status, (...), whose numbers are those of `Status`.

    `steps`, (...), is how many steps each row took: all of them, or those before it had to stop.
    """

    steps: np.ndarray


def rollout(
    model: Model,
    q: Any,
    v: Any,
    tau: Any = None,
    *,
    dt: float,
    steps: int,
    integrator: str = "semi_implicit_euler",
    every: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Rollout:
    """The motion from states q, (..., nq), and v, (..., nv), in so many `steps` of `dt` [s]: q, v and a status for each row.

    q has shape (..., n, nq) and v (..., n, nv), with n = steps // every + 1: row k is the state after k * every steps, row 0
    the start. `tau` are joint forces at the model's independent joints: None for zero, (..., nv), constant over each step as
    (..., steps, nv), which has one dimension more than the states, or a function tau(q, v, t) that takes all states, is called
    at every stage of a step and returns (..., nv).

    "semi_implicit_euler" is v' = v + dt a(q, v, tau), q' = integrate(q, dt v'), of order 1. "rk4" is the classical method of
    Runge and Kutta, of order 4, on q̇ and v̇, in the coordinates q (quaternions are scaled to length 1 after each step); its
    stages need not be closed, each step's end is.

    Where the model's independent velocities turn bad coordinates in a row, as at a turning point of their joint, others are
    chosen for that row, from its state alone; v is always that of the model's own, and tau acts at their joints. Where the
    mechanism itself is singular, or a row cannot go on, its `Status` says why, the result's attribute `steps` when, and later
    rows of its trajectory are NaN. A singular state between two steps is passed, on the same branch. Force-held loops are
    closed after every step.
    """
    _check(model, dt, steps, every, integrator)
    arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"q": (q, (model.nq,)), "v": (v, (model.nv,))}
    numbers = dict(parameters or {})
    arrays |= {name: (numbers[name], shape_of(model, name)) for name in known(model, numbers)}
    batch, rows = _rows(arrays)
    q0, v0 = rows.pop("q"), rows.pop("v")
    forces = _Forces(model, tau, batch, steps, dt)
    step, largest = INTEGRATORS[integrator]
    stepping = Stepping(model, q0, v0, rows, largest)
    n = steps // every + 1
    found_q, found_v = (np.full((len(q0), n, size), np.nan) for size in (model.nq, model.nv))
    found_q[:, 0], found_v[:, 0] = q0, v0
    for k in range(1, steps + 1):
        forces.step = k - 1
        with np.errstate(invalid="ignore", over="ignore"):  # a status tells of what is not finite
            stepping.take(lambda rows: step(rows, forces, dt), dt)
        if k % every == 0:
            going = stepping.active
            found_q[going, k // every], found_v[going, k // every] = stepping.q[going], stepping.v[going]
    result = Rollout(*(x.reshape((*batch, *x.shape[1:])) for x in (found_q, found_v, stepping.status)))
    result.steps = stepping.steps.reshape(batch)
    return result


def _check(model: Any, dt: Any, steps: Any, every: Any, integrator: Any) -> None:
    if not isinstance(model, Model):
        raise ModelError(f"rollout takes a model, not {type(model).__name__}")
    if integrator not in INTEGRATORS:
        raise ModelError(f"rollout: integrator must be one of {', '.join(INTEGRATORS)}, not {integrator!r}")
    for name, value, least in (("steps", steps, 0), ("every", every, 1)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise ModelError(f"rollout: {name} must be a whole number, at least {least}, not {value!r}")
    if not isinstance(dt, (int, float, np.floating)) or isinstance(dt, bool) or not (np.isfinite(dt) and dt > 0.0):
        raise ModelError(f"rollout: dt must be a positive number of seconds, not {dt!r}")


class _Forces:
    """Joint forces in one `step` after another, of whatever was given as tau."""

    def __init__(self, model: Model, tau: Any, batch: tuple[int, ...], steps: int, dt: float) -> None:
        self.asks_states, self.step = callable(tau), 0
        self._tau, self._batch, self._nv, self._dt, self._warnings = tau, batch, model.nv, dt, np.geterr()
        if self.asks_states:
            return
        given = np.zeros(model.nv) if tau is None else np.array(tau, dtype=float)
        self._each = given.ndim == len(batch) + 2
        own = (steps, model.nv) if self._each else (model.nv,)
        self._given = _as_rows(given, batch, own, "tau has shape")

    def __call__(self, q: np.ndarray, v: np.ndarray, part: float) -> np.ndarray:
        if not self.asks_states:
            return self._given[:, self.step] if self._each else self._given
        states = q.reshape(*self._batch, -1).copy(), v.reshape(*self._batch, self._nv).copy()
        with np.errstate(**self._warnings):
            said = np.asarray(self._tau(*states, (self.step + part) * self._dt), dtype=float)
        return _as_rows(said, self._batch, (self._nv,), "what tau(q, v, t) returns has shape")


def _as_rows(tau: np.ndarray, batch: tuple[int, ...], own: tuple[int, ...], told: str) -> np.ndarray:
    try:
        if tau.shape[-len(own) :] != own:
            raise ValueError
        return np.broadcast_to(tau, (*batch, *own)).reshape(-1, *own)
    except ValueError:
        raise ShapeError(f"rollout: {told} {tau.shape}, which does not go with {(*batch, *own)}") from None


def _rows(arrays: Mapping[str, tuple[Any, tuple[int, ...]]]) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """The common leading dimensions of arrays that have certain last ones, and the arrays as (rows, ...)."""
    given: dict[str, np.ndarray] = {}
    batch: tuple[int, ...] = ()
    for name, (value, own) in arrays.items():
        x = given[name] = np.array(value, dtype=float)
        leading = x.shape[: max(x.ndim - len(own), 0)]
        if x.shape[len(leading) :] != own:
            raise ShapeError(f"rollout: {name} has shape {x.shape}, not (..., {', '.join(map(str, own))})")
        try:
            batch = np.broadcast_shapes(batch, leading)
        except ValueError:
            before = ", ".join(given)
            raise ShapeError(f"rollout: the leading dimensions of {before} do not go together: {leading} and {batch}") from None
    return batch, {
        name: np.broadcast_to(x, (*batch, *arrays[name][1])).reshape(-1, *arrays[name][1]) for name, x in given.items()
    }
