"""Why rows stopped that one kernel stepped, with loops closed in the model's own coordinates: told from their last states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.functions.conditioning import KINDS, loop_conditioning, loop_equations
from linkwork.functions.states import integrate, spanning_velocity
from linkwork.model import Model
from linkwork.simulate.charts import SINGULAR, Charts
from linkwork.simulate.own_chart import turns_back
from linkwork.simulate.status import Status
from linkwork.simulate.stepping import CLOSED_AT_START

POOR = 0.1  # conditioning of loops from which on a singular state may be near
AHEAD = 3.0  # steps: so near, by the speeds of joints, it is why a row stopped
WORSE = 3.0  # conditioning of the mechanism, relative to that of coordinates: below, no other coordinates would help


def open_at_start(model: Model, q: np.ndarray, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rows whose loops are not closed, (rows,) of bool."""
    if not Charts(model).moving:
        return np.zeros(len(q), dtype=bool)
    gap = loop_equations(model, q, **_given(parameters))[1]
    return np.isfinite(q).all(axis=1) & ~(gap <= CLOSED_AT_START)


def why_stopped(
    model: Model, q: np.ndarray, v: np.ndarray, dt: float, parameters: Mapping[str, np.ndarray], solved: np.ndarray
) -> np.ndarray:
    """The `Status` of rows whose next step failed, by their last states q, (rows, nq), and v, (rows, nv); (rows,).

    `solved`, (rows,): that step's velocity was found, so that loops could not be closed in it.
    """
    found, given = np.full(len(q), int(Status.NOT_FINITE)), _given(parameters)
    if not len(q) or not Charts(model).moving:
        return found
    by_coordinates, of_mechanism = (loop_conditioning(model, q, of=kind, **given) for kind in KINDS)
    worst = by_coordinates.argmin(axis=1)[:, None]
    own, whole = (np.take_along_axis(x, worst, axis=1)[:, 0] for x in (by_coordinates, of_mechanism))
    speed = np.abs(spanning_velocity(model, q, v, **given)).max(axis=1)
    near = own < np.minimum(np.fmax(AHEAD * dt * speed, SINGULAR), POOR)  # a speed may be NaN
    near |= turns_back(model, q, v, np.full(len(q), dt), **given) > 0.999  # the kernel's may differ in the last bits
    opens = ~np.isfinite(integrate(model, q, dt * v, **given)).all(axis=1)
    found[opens | solved] = int(Status.NOT_CLOSED)
    found[near] = int(Status.SINGULAR_COORDINATES)
    found[near & (whole <= WORSE * np.maximum(own, SINGULAR))] = int(Status.DEAD_POINT)
    return found


def _given(parameters: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {"parameters": dict(parameters)} if parameters else {}
