"""Classification of rows that stopped, from their first and last states."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.functions.conditioning import KINDS, loop_conditioning
from linkwork.functions.engine.call_arguments import on_host
from linkwork.functions.states import integrate, spanning_velocity
from linkwork.model import Model, cached_on_model
from linkwork.simulation.adaptive import Adaptive
from linkwork.simulation.charts import SINGULAR_TOL, Charts
from linkwork.simulation.closedness import open_rows
from linkwork.simulation.monitor import between, coordinate_scales, families
from linkwork.simulation.rank_between_states import rank_between_states
from linkwork.simulation.status import Status, has_status
from linkwork.simulation.stiffness import Feedback, stiff_at
from linkwork.simulation.turning_point import near_turning_point
from linkwork.sko import Tree

POOR_CONDITIONING = 0.1  # of loops near a singular state
LOOKAHEAD_STEPS = 3.0  # steps at constant velocity within which a singular state explains a stop
# conditioning of the mechanism, relative to that of coordinates: below, no other coordinates would help
MIN_DROP_FACTOR = 3.0
DEAD_POINT_CONDITIONING = 1e-2  # of constrained loops, below which they explain a stop
MAX_REGULAR_SPEED = 1e4  # [rad, m, rad/s or m/s] beyond which the stability of steps is checked
MAX_RANGE_FRACTION = 0.5  # of the range of a limited joint, moved in one step, with the same consequence
EULER = "semi_implicit_euler"
MAX_NUMBER = 1e100  # larger numbers count as infinite
# fraction of the conditioning of a mechanism that remains if only coordinates become singular
REGULAR_FRACTION = 0.25
DIFFERENCE_STEP = 1e-5  # of finite differences [rad or m]
CONTINUING_STATUSES = (Status.OK, Status.CONTACT_NOT_CONVERGED)  # of rows that did not stop


States = tuple[np.ndarray, np.ndarray]  # q, (rows, nq), and v, (rows, nv)


def finite_rows(arrays: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Return in which of `count` rows all numbers of these arrays are finite."""
    fine = np.full(count, True)
    for x in arrays:
        fine &= np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
    return fine


def stopped_status(
    model: Model,
    start: States,
    last: States,
    unclosed: np.ndarray,
    solved: np.ndarray,
    dt: float,
    integrator: str | Adaptive,
    parameters: Mapping[str, np.ndarray],
    feedback: Feedback | None = None,
) -> np.ndarray:
    """Return the `Status` of rows that stopped in one kernel, (rows,), by their first states and the last
    that they reached.

    `unclosed`, (rows,): their loops were open at the start. `solved`, (rows,): see `classify_stopped`.
    """
    bad = ~(np.isfinite(start[0]).all(axis=1) & np.isfinite(start[1]).all(axis=1))
    result = np.where(unclosed & ~bad, int(Status.NOT_CLOSED), int(Status.NOT_FINITE))
    if isinstance(model, Tree):  # without loops, and without joints whose springs could be stiff
        return result
    ended = np.flatnonzero(~bad & ~unclosed)
    ended_parameters = {name: x[ended] for name, x in parameters.items()}
    result[ended] = classify_stopped(
        model, last[0][ended], last[1][ended], dt, ended_parameters, solved[ended]
    )
    return classify_stiff(
        model, result, ~(bad | unclosed), (start[0], last[0]), parameters, dt, integrator, feedback
    )


def classify_stiff(
    model: Model,
    status: np.ndarray,
    began: np.ndarray,
    postures: tuple[np.ndarray, ...],
    parameters: Mapping[str, np.ndarray],
    dt: float,
    integrator: str | Adaptive,
    feedback: Feedback | None = None,
) -> np.ndarray:
    """Return the status of rows, STIFF for those that began and stopped where a step is unstable, in one of
    these postures.

    `feedback` are the forces of a row of all these that depend on its state.
    """
    result = status.copy()
    ended = (Status.DEAD_POINT, Status.NOT_CLOSED, Status.NOT_FINITE, Status.STEP_TOO_COARSE)
    for q in postures:
        rows = np.flatnonzero(has_status(result, ended) & began & np.isfinite(q).all(axis=1))
        if len(rows):
            row_feedback = (
                None if feedback is None else lambda k, q, v, rows=rows: feedback(int(rows[k]), q, v)
            )
            stiff = stiff_at(
                model,
                q[rows],
                dt,
                integrator,
                {name: x[rows] for name, x in parameters.items()},
                row_feedback,
            )
            result[rows[stiff]] = int(Status.STIFF)
    return result


def classify_runaway(
    model: Model,
    status: np.ndarray,
    start: np.ndarray,
    end: States,
    parameters: Mapping[str, np.ndarray],
    dt: float,
    integrator: str | Adaptive,
    feedback: Feedback | None = None,
    *,
    divided: np.ndarray | None = None,
    laws: Any = None,
) -> np.ndarray:
    """Return the status of rows that took all steps: STIFF where these are unstable and numbers grew,
    NOT_FINITE where they are lost.

    `start` are first postures, (rows, nq), `end` the last states. Rows in which a step was `divided`,
    (rows,), are evaluated, too. With `laws` of joints or contacts, some steps are semi-implicit Euler steps.
    """
    limits = MAX_REGULAR_SPEED if isinstance(model, Tree) else _regular_speeds(model, dt)
    with np.errstate(invalid="ignore"):
        if divided is None and all(
            (np.abs(x) <= limit).all() for x, limit in zip(end, (MAX_REGULAR_SPEED, limits))
        ):
            return status  # no row is fast, and none is NaN
        size = np.fmax(np.abs(end[0]).max(axis=1, initial=0.0), np.abs(end[1]).max(axis=1, initial=0.0))
        bounced = (np.abs(end[1]) > limits).any(axis=1)
    fast = has_status(status, CONTINUING_STATUSES) & (
        (size > MAX_REGULAR_SPEED) | bounced | (False if divided is None else divided)
    )
    if not fast.any():
        return status
    blown = np.where(fast, int(Status.NOT_FINITE), status)
    if not isinstance(model, Tree):
        for method in dict.fromkeys((integrator,) if laws is None else (integrator, EULER)):
            blown = classify_stiff(model, blown, fast, (start,), parameters, dt, method, feedback)
    return np.where(fast & (blown != int(Status.STIFF)) & ~(size > MAX_NUMBER), status, blown)


def _regular_speeds(model: Model, dt: float) -> np.ndarray:
    """Return the speeds beyond which the stability of steps is checked, (nv,).

    Limits stop unstable steps from growing: the joint then moves from one limit to the other in each step.
    """
    return np.minimum(MAX_REGULAR_SPEED, MAX_RANGE_FRACTION / dt * _ranges(model))


@cached_on_model
def _ranges(model: Model) -> np.ndarray:
    """Return the range of each independent velocity's coordinate between its limits, (nv,)."""
    ranges = {
        name: high - low
        for joint in model.joints
        if joint.nq == joint.nv
        for name, low, high in zip(joint.v_names, joint.lower, joint.upper)
        if high > low
    }
    return np.array([ranges.get(name, np.inf) for name in model.v_names])


def classify_open(
    model: Model, status: np.ndarray, q: np.ndarray, parameters: Mapping[str, np.ndarray], dtype: str
) -> np.ndarray:
    """Return the status of rows, NOT_CLOSED where all steps were taken and loops are open in the last states
    q, (rows, nq).
    """
    left_open = has_status(status, CONTINUING_STATUSES) & open_rows(model, q, parameters, dtype=dtype)
    return np.where(left_open, int(Status.NOT_CLOSED), status)


def merge_status(earlier: np.ndarray, status: np.ndarray) -> np.ndarray:
    """Return the status of rows after an `earlier` rollout: rows that had stopped keep theirs."""
    if not earlier.any():  # all are OK
        return status
    return np.where(has_status(earlier, CONTINUING_STATUSES) & (status != int(Status.OK)), status, earlier)


def earlier_status(status: Any, batch: tuple[int, ...]) -> np.ndarray:
    """Return the status of an earlier rollout as whole numbers for each row of a batch, (rows,); OK where
    None is given.
    """
    if status is None:
        return np.broadcast_to(np.array(int(Status.OK)), (math.prod(batch),))
    numbers = np.asarray(on_host(status))
    if not np.isin(numbers, [int(each) for each in Status]).all():
        raise ModelError("rollout: status: expected the status of an earlier rollout (numbers of lw.Status)")
    try:
        return np.broadcast_to(numbers.astype(int), batch).reshape(-1)
    except ValueError:
        raise ShapeError(f"rollout: status: expected shape {batch}, got {numbers.shape}") from None


def classify_stopped(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    dt: float,
    parameters: Mapping[str, np.ndarray],
    solved: np.ndarray,
) -> np.ndarray:
    """Return the `Status` of rows whose next step failed, by their last states q, (rows, nq), and v, (rows,
    nv); (rows,).

    `solved`, (rows,): that step's velocity was found, so that loops could not be closed in it.
    """
    result = np.full(len(q), int(Status.NOT_FINITE))
    batched_parameters = _given(parameters)
    if len(q) and families(model):
        ahead = integrate(model, q, dt * v, **batched_parameters)
        for there in (q, np.where(np.isfinite(ahead), ahead, q)):
            regular = loop_conditioning(model, there, of="mechanism", **batched_parameters).min(axis=1)
            result[regular < DEAD_POINT_CONDITIONING] = int(Status.DEAD_POINT)
    if not len(q) or not Charts(model).moving:
        return result
    by_coordinates, of_mechanism = (
        loop_conditioning(model, q, of=kind, **batched_parameters) for kind in KINDS
    )
    worst = by_coordinates.argmin(axis=1)[:, None]
    chart_value, full = (np.take_along_axis(x, worst, axis=1)[:, 0] for x in (by_coordinates, of_mechanism))
    speed = np.abs(spanning_velocity(model, q, v, **batched_parameters)).max(axis=1)
    near = chart_value < np.minimum(
        np.fmax(LOOKAHEAD_STEPS * dt * speed, SINGULAR_TOL), POOR_CONDITIONING
    )  # a speed may be NaN
    near |= (
        near_turning_point(model, q, v, np.full(len(q), dt), **batched_parameters) > 0.999
    )  # the kernel's may differ in the last bits
    opens = ~np.isfinite(integrate(model, q, dt * v, **batched_parameters)).all(axis=1)
    result[opens | solved] = int(Status.NOT_CLOSED)
    result[near] = int(Status.SINGULAR_COORDINATES)
    dead = np.flatnonzero(near & (full <= MIN_DROP_FACTOR * np.maximum(chart_value, SINGULAR_TOL)))
    dead_parameters = {name: x[dead] for name, x in parameters.items()}
    drops = np.flatnonzero(
        np.isin(result, (Status.NOT_FINITE, Status.NOT_CLOSED, Status.SINGULAR_COORDINATES)) & ~opens
    )
    result[
        drops[
            _rank_drops_ahead(
                model, q[drops], v[drops], dt, {name: x[drops] for name, x in parameters.items()}
            )
        ]
    ] = int(Status.DEAD_POINT)
    result[
        dead[~_stays_regular(model, q[dead], worst[dead], (chart_value[dead], full[dead]), dead_parameters)]
    ] = int(Status.DEAD_POINT)
    return result


def _rank_drops_ahead(
    model: Model, q: np.ndarray, v: np.ndarray, dt: float, parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return whether the rank of all loop equations drops within `LOOKAHEAD_STEPS` steps, (rows,) of bool.

    Velocities are taken as constant.
    """
    result = np.zeros(len(q), dtype=bool)
    charts = Charts(model)
    scales = coordinate_scales(charts)
    for k in range(len(q)):
        row_parameters = {name: x[k] for name, x in parameters.items()}
        end = integrate(
            model,
            q[k : k + 1],
            dt * v[k : k + 1],
            **_given({name: x[None] for name, x in row_parameters.items()}),
        )[0]
        end = between(model, q[k], end, np.array([LOOKAHEAD_STEPS]))[0]
        moved = float(np.abs((end - q[k]) * scales).max())
        if np.isfinite(end).all() and moved > 0.0:
            result[k] = rank_between_states(charts, model, q[k], end, moved, row_parameters).drops
    return result


def _stays_regular(
    model: Model,
    q: np.ndarray,
    worst: np.ndarray,
    now: tuple[np.ndarray, np.ndarray],
    parameters: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return whether the mechanism is regular where coordinates next become singular, to first order in q,
    (rows,) of bool.

    `worst`, (rows, 1), are the evaluated loops, and `now` the conditioning of coordinates and of the
    mechanism there. Where loops cannot be closed in all states around q, nothing is known, and the answer is
    no.
    """
    count = 2 * model.nv
    moves = DIFFERENCE_STEP * np.concatenate([np.eye(model.nv), -np.eye(model.nv)])
    if not len(q):
        return np.zeros(0, dtype=bool)
    repeated_parameters = _given({name: np.repeat(x, count, axis=0) for name, x in parameters.items()})
    around = integrate(model, np.repeat(q, count, axis=0), np.tile(moves, (len(q), 1)), **repeated_parameters)
    slopes = []
    for kind in KINDS:
        near = loop_conditioning(model, around, of=kind, **repeated_parameters)
        near = np.take_along_axis(near, np.repeat(worst, count, axis=0), axis=1).reshape(len(q), 2, model.nv)
        slopes.append((near[:, 0] - near[:, 1]) / (2.0 * DIFFERENCE_STEP))
    chart_value, full = now
    steep = (slopes[0] * slopes[0]).sum(axis=1)
    extrapolated = full - chart_value * (slopes[0] * slopes[1]).sum(axis=1) / np.where(
        steep > 0.0, steep, np.nan
    )
    regular: np.ndarray = extrapolated > REGULAR_FRACTION * full  # no where it is NaN
    return regular


def _given(parameters: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {"parameters": dict(parameters)} if parameters else {}
