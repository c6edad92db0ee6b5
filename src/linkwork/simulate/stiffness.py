"""Stiff springs and dampers of joints: implicit in a step, and found where they make a step of a rollout unstable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.errors import ShapeError
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.states import integrate
from linkwork.model import Model
from linkwork.model.parameters import entries_of, known, parse, shape_of
from linkwork.simulate.adaptive import Adaptive

WORDS = ("armature", "damping", "stiffness")
MOVED = 1e-6  # of a coordinate, for differences of spring forces
UNSTABLE = 1.0 + 1e-6


def implicit_parameters(model: Model, given: Mapping[str, Any], dt: float) -> dict[str, Any]:
    """Parameters with which semi-implicit Euler takes springs and dampers of joints at a step's end.

    (M + dt D + dt² K) a = tau - c - D v - K (q + dt v - rest): dt D + dt² K is armature, and dt K damping. Of all joints of the
    tree, those that loops determine too.
    """
    known(model, given)
    armature, damping, stiffness = (_table(model, given, word) for word in WORDS)
    others = {name: value for name, value in given.items() if parse(name)[0] not in ("armature", "damping")}
    return {**others, "armature": armature + dt * (damping + dt * stiffness), "damping": damping + dt * stiffness}


def _table(model: Model, given: Mapping[str, Any], word: str) -> np.ndarray:
    """A parameter of all velocities of the tree, (..., nv_spanning), where all or some may be given."""
    found: np.ndarray = model.parameters()[word]
    for name in (name for name in given if parse(name)[0] == word):
        value, own = np.asarray(given[name], dtype=float), shape_of(model, name)
        if value.shape[-1:] != own:
            raise ShapeError(f"rollout: {name} has shape {value.shape}, not (..., {own[0]})")
        found = np.broadcast_to(found, (*np.broadcast_shapes(found.shape[:-1], value.shape[:-1]), found.shape[-1])).copy()
        found[..., entries_of(model, name)] = value
    return found


def stiff_at(model: Model, q: np.ndarray, dt: float, integrator: Any, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rows of postures q, (rows, nq), in which springs and dampers of joints make steps of dt unstable, (rows,) of bool.

    The accelerations' derivatives by position and velocity, at rest, give the matrix that errors are multiplied by in a step.
    """
    tables = [parameters.get(word, model.parameters()[word]) for word in WORDS[1:]]
    if not model.nv or (not any(np.any(table) for table in tables) and not any("@" in name for name in parameters)):
        return np.zeros(len(q), dtype=bool)
    return np.array([_unstable(model, q[k], dt, integrator, {n: x[k] for n, x in parameters.items()}) for k in range(len(q))])


def _unstable(model: Model, q: np.ndarray, dt: float, integrator: Any, parameters: Mapping[str, np.ndarray]) -> bool:
    by_q, by_v = _derivatives(model, q, parameters)
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
        return bool(((rates.real <= 1e-3 * np.abs(rates)) & (grown > UNSTABLE)).any())
    kept = one + dt * by_v
    step = np.block([[one + dt * dt * by_q, dt * kept], [dt * by_q, kept]])
    return bool((np.linalg.eigvals(step).real < -UNSTABLE).any())  # a mode that changes its sign and grows: none does so itself


def _derivatives(model: Model, q: np.ndarray, parameters: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """∂a/∂q and ∂a/∂v at rest in a posture, without joint forces, (nv, nv) each."""
    how: dict[str, Any] = {"parameters": {n: np.tile(x, (2 * model.nv, *(1,) * x.ndim)) for n, x in parameters.items()}}
    how = how if parameters else {}
    both, still = np.concatenate([np.eye(model.nv), -np.eye(model.nv)]), np.zeros((2 * model.nv, model.nv))
    here = np.tile(q, (2 * model.nv, 1))
    a = forward_dynamics(model, integrate(model, here, MOVED * both, **how), still, still, **how)
    b = forward_dynamics(model, here, both, still, **how)  # exact: what is quadratic in v cancels
    by_q, by_v = (0.5 * (x[: model.nv] - x[model.nv :]).T for x in (a / MOVED, b))
    return by_q, by_v
