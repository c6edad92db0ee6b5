"""Why rows stopped that one kernel stepped, with loops closed in the model's own coordinates: told from their last states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.functions.conditioning import KINDS, loop_conditioning, loop_equations
from linkwork.functions.states import integrate, spanning_velocity
from linkwork.model import Model
from linkwork.simulate.adaptive import Adaptive
from linkwork.simulate.charts import SINGULAR, Charts
from linkwork.simulate.own_chart import turns_back
from linkwork.simulate.status import Status
from linkwork.simulate.stepping import CLOSED_AT_START
from linkwork.simulate.stiffness import stiff_at

POOR = 0.1  # conditioning of loops from which on a singular state may be near
AHEAD = 3.0  # steps: so near, by the speeds of joints, it is why a row stopped
WORSE = 3.0  # conditioning of the mechanism, relative to that of coordinates: below, no other coordinates would help
REGULAR = 0.25  # part of its conditioning that a mechanism keeps where only coordinates become singular
DIFFERENCE = 1e-5  # [rad or m] of states around one
WENT_ON = (Status.OK, Status.CONTACT_NOT_CONVERGED)  # rows that did not stop
CLOSED_IN_SINGLE = 1e-4  # how far loops of a state may be open that was rounded to single precision


def open_at_start(
    model: Model, q: np.ndarray, parameters: Mapping[str, np.ndarray], within: float = CLOSED_AT_START
) -> np.ndarray:
    """Rows whose loops are not closed, (rows,) of bool."""
    if not Charts(model).moving:
        return np.zeros(len(q), dtype=bool)
    gap = loop_equations(model, q, **_given(parameters))[1]
    return np.isfinite(q).all(axis=1) & ~(gap <= within)


States = tuple[np.ndarray, np.ndarray]  # q, (rows, nq), and v, (rows, nv)


def status_of_stopped(
    model: Model, start: States, last: States, unclosed: np.ndarray, solved: np.ndarray, dt: float,
    integrator: str | Adaptive, parameters: Mapping[str, np.ndarray],
) -> np.ndarray:  # fmt: skip
    """The `Status` of rows that stopped in one kernel, (rows,), by their first states and the last that they reached.

    `unclosed`, (rows,): their loops were open at the start. `solved`, (rows,): see `why_stopped`.
    """
    bad = ~(np.isfinite(start[0]).all(axis=1) & np.isfinite(start[1]).all(axis=1))
    found = np.where(unclosed & ~bad, int(Status.NOT_CLOSED), int(Status.NOT_FINITE))
    ended = np.flatnonzero(~bad & ~unclosed)
    here = {name: x[ended] for name, x in parameters.items()}
    found[ended] = why_stopped(model, last[0][ended], last[1][ended], dt, here, solved[ended])
    return told_stiff(model, found, ~(bad | unclosed), (start[0], last[0]), parameters, dt, integrator)


def told_stiff(
    model: Model, status: np.ndarray, began: np.ndarray, postures: tuple[np.ndarray, ...],
    parameters: Mapping[str, np.ndarray], dt: float, integrator: str | Adaptive,
) -> np.ndarray:  # fmt: skip
    """The status of rows, STIFF for those that began and stopped where a step is unstable, in one of these postures."""
    found, ended = status.copy(), (Status.DEAD_POINT, Status.NOT_CLOSED, Status.NOT_FINITE)
    for q in postures:
        rows = np.flatnonzero(np.isin(found, ended) & began & np.isfinite(q).all(axis=1))
        if len(rows):
            stiff = stiff_at(model, q[rows], dt, integrator, {name: x[rows] for name, x in parameters.items()})
            found[rows[stiff]] = int(Status.STIFF)
    return found


def went_on(earlier: np.ndarray, status: np.ndarray) -> np.ndarray:
    """The status of rows that had an `earlier` one: those that had stopped keep it."""
    return np.where(np.isin(earlier, WENT_ON) & (status != int(Status.OK)), status, earlier)


def earlier_status(status: Any, batch: tuple[int, ...]) -> np.ndarray:
    """The status of an earlier rollout as whole numbers for each row of a batch, (rows,); OK where None is given."""
    if status is None:
        return np.zeros(math.prod(batch), dtype=int)
    host = status.get() if type(status).__module__.startswith("cupy") else status.cpu() if hasattr(status, "cpu") else status
    numbers = np.asarray(host)
    if not np.isin(numbers, [int(each) for each in Status]).all():
        raise ModelError("rollout: status must be that of an earlier rollout, numbers of lw.Status")
    try:
        return np.broadcast_to(numbers.astype(int), batch).reshape(-1)
    except ValueError:
        raise ShapeError(f"rollout: status has shape {numbers.shape}, not {batch}") from None


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
    dead = np.flatnonzero(near & (whole <= WORSE * np.maximum(own, SINGULAR)))
    here = {name: x[dead] for name, x in parameters.items()}
    found[dead[~_stays_regular(model, q[dead], worst[dead], (own[dead], whole[dead]), here)]] = int(Status.DEAD_POINT)
    return found


def _stays_regular(
    model: Model, q: np.ndarray, worst: np.ndarray, now: tuple[np.ndarray, np.ndarray], parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Whether the mechanism is regular where coordinates next become singular, to first order in q, (rows,) of bool.

    `worst`, (rows, 1), are the loops looked at, and `now` the conditioning of coordinates and of the mechanism there. Where
    loops cannot be closed in all states around q, nothing is known, and the answer is no.
    """
    count, moves = 2 * model.nv, DIFFERENCE * np.concatenate([np.eye(model.nv), -np.eye(model.nv)])
    if not len(q):
        return np.zeros(0, dtype=bool)
    given = _given({name: np.repeat(x, count, axis=0) for name, x in parameters.items()})
    around = integrate(model, np.repeat(q, count, axis=0), np.tile(moves, (len(q), 1)), **given)
    slopes = []
    for kind in KINDS:
        near = loop_conditioning(model, around, of=kind, **given)
        near = np.take_along_axis(near, np.repeat(worst, count, axis=0), axis=1).reshape(len(q), 2, model.nv)
        slopes.append((near[:, 0] - near[:, 1]) / (2.0 * DIFFERENCE))
    own, whole = now
    steep = (slopes[0] * slopes[0]).sum(axis=1)
    there = whole - own * (slopes[0] * slopes[1]).sum(axis=1) / np.where(steep > 0.0, steep, np.nan)
    regular: np.ndarray = there > REGULAR * whole  # no where it is NaN
    return regular


def _given(parameters: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {"parameters": dict(parameters)} if parameters else {}
