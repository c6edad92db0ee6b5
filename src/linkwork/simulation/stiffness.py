"""Stiff springs, dampers and control: implicit treatment, and detection of unstable steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from linkwork.errors import ShapeError
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.states import integrate
from linkwork.model import Model
from linkwork.model.parameters import entries_of, known, parse, shape_of
from linkwork.simulation.adaptive import Adaptive

WORDS = ("armature", "damping", "stiffness")
DIFFERENCE_STEP = 1e-6  # of a coordinate, for differences of spring forces
MAX_GROWTH_FACTOR = 1.0 + 1e-6
Feedback = Callable[
    [int, np.ndarray, np.ndarray], np.ndarray
]  # a row, and states of it, (n, nq) and (n, nv): forces, (n, nv)


def implicit_parameters(model: Model, parameters: Mapping[str, Any], dt: float) -> dict[str, Any]:
    """Return parameters with which semi-implicit Euler takes springs and dampers of joints at a step's end.

    (M + dt D + dt² K) a = tau - c - D v - K (q + dt v - rest): dt D + dt² K is armature, and dt K damping. Of
    all joints of the tree, those that loops determine too.
    """
    known(model, parameters)
    armature, damping, stiffness = (_table(model, parameters, word) for word in WORDS)
    others = {
        name: value for name, value in parameters.items() if parse(name)[0] not in ("armature", "damping")
    }
    return {
        **others,
        "armature": armature + dt * (damping + dt * stiffness),
        "damping": damping + dt * stiffness,
    }


def _table(model: Model, parameters: Mapping[str, Any], word: str) -> np.ndarray:
    """Return a parameter of all velocities of the tree, (..., nv_spanning),
    where all or some may be given.
    """
    result: np.ndarray = model.parameters()[word]
    for name in (name for name in parameters if parse(name)[0] == word):
        value = np.asarray(parameters[name], dtype=float)
        row_shape = shape_of(model, name)
        if value.shape[-1:] != row_shape:
            raise ShapeError(f"rollout: {name}: expected shape (..., {row_shape[0]}), got {value.shape}")
        result = np.broadcast_to(
            result, (*np.broadcast_shapes(result.shape[:-1], value.shape[:-1]), result.shape[-1])
        ).copy()
        result[..., entries_of(model, name)] = value
    return result


def stiff_at(
    model: Model,
    q: np.ndarray,
    dt: float,
    integrator: Any,
    parameters: Mapping[str, np.ndarray],
    feedback: Feedback | None = None,
) -> np.ndarray:
    """Return rows of postures q, (rows, nq), in which springs, dampers and `feedback` make steps of dt
    unstable, (rows,) of bool.

    The accelerations' derivatives by position and velocity, at rest, give the matrix that errors are
    multiplied by in a step.
    """
    tables = [parameters.get(word, model.parameters()[word]) for word in WORDS[1:]]
    passive = any(np.any(table) for table in tables) or any("@" in name for name in parameters)
    if not model.nv or not (passive or feedback):
        return np.zeros(len(q), dtype=bool)
    result = np.zeros(len(q), dtype=bool)
    for k in range(len(q)):
        row_feedback = None if feedback is None else partial(feedback, k)
        with np.errstate(all="ignore"):  # what is not finite is no answer
            result[k] = _unstable(
                model, q[k], dt, integrator, {n: x[k] for n, x in parameters.items()}, row_feedback
            )
    return result


def _unstable(
    model: Model,
    q: np.ndarray,
    dt: float,
    integrator: Any,
    parameters: Mapping[str, np.ndarray],
    feedback: Any,
) -> bool:
    by_q, by_v = _derivatives(model, q, parameters, feedback)
    if not (np.isfinite(by_q).all() and np.isfinite(by_v).all()):
        return False
    one = np.eye(model.nv)
    if isinstance(integrator, Adaptive):
        return False
    if integrator == "implicit_midpoint":  # stable itself; its iterations must converge
        return bool((np.abs(np.linalg.eigvals(0.5 * dt * (by_v + 0.5 * dt * by_q))) > 1.0).any())
    if integrator == "rk4":
        rates = dt * np.linalg.eigvals(np.block([[np.zeros_like(one), one], [by_q, by_v]]))
        grown = np.abs(1.0 + rates * (1.0 + rates / 2.0 * (1.0 + rates / 3.0 * (1.0 + rates / 4.0))))
        return bool(((rates.real <= 1e-3 * np.abs(rates)) & (grown > MAX_GROWTH_FACTOR)).any())
    retained = one + dt * by_v
    step = np.block([[one + dt * dt * by_q, dt * retained], [dt * by_q, retained]])
    if not np.isfinite(step).all():
        return True
    return bool(
        (np.linalg.eigvals(step).real < -MAX_GROWTH_FACTOR).any()
    )  # a mode that changes its sign and grows: none does so itself


def _derivatives(
    model: Model, q: np.ndarray, parameters: Mapping[str, np.ndarray], feedback: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return ∂a/∂q and ∂a/∂v at rest in a posture, without other joint forces than those of feedback, (nv,
    nv) each.
    """
    how: dict[str, Any] = {
        "parameters": {n: np.tile(x, (2 * model.nv, *(1,) * x.ndim)) for n, x in parameters.items()}
    }
    how = how if parameters else {}
    both = np.concatenate([np.eye(model.nv), -np.eye(model.nv)])
    still = np.zeros((2 * model.nv, model.nv))
    states = np.tile(q, (2 * model.nv, 1))
    around = integrate(model, states, DIFFERENCE_STEP * both, **how)
    pulls, brakes = (still, still) if feedback is None else (feedback(around, still), feedback(states, both))
    a = forward_dynamics(model, around, still, pulls, **how)
    b = forward_dynamics(model, states, both, brakes, **how)  # exact: what is quadratic in v cancels
    by_q, by_v = (0.5 * (x[: model.nv] - x[model.nv :]).T for x in (a / DIFFERENCE_STEP, b))
    return by_q, by_v
