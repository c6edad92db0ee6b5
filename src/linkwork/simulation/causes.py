"""Causes of stopped rows in words: the joint or loop that failed first, and the time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from linkwork.algorithms.loops.conditioning import constrained_families
from linkwork.contact import Contacts
from linkwork.functions.conditioning import closure_error, loop_conditioning
from linkwork.functions.contact import COEFFICIENTS
from linkwork.functions.contact_points import contact_points
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.closed_states import LOOP_PARAMETERS
from linkwork.functions.states import spanning_velocity
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.simulation.failure import CONTINUING_STATUSES, States
from linkwork.simulation.penetration import describe_pair
from linkwork.simulation.status import Status, has_status
from linkwork.simulation.traced import Laws
from linkwork.sko import Tree

OVERLAP_GAP = -1e-6  # [m] smaller gaps are reported as overlaps
MAX_ROWS = 100  # of a batch that are described
FAST = 1e3  # [rad, m, rad/s or m/s] larger numbers may explain why the next state is not finite


def first_causes(
    model: Model,
    status: np.ndarray,
    last: States,
    steps: np.ndarray,
    dt: float,
    parameters: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> np.ndarray:
    """Return a sentence for each row that did not go on, (rows,) of str; empty for others, and from the
    hundredth such row on.

    `last` are the states after the `steps` that rows took; `inputs` are all arrays of the next step, (rows,
    ...).
    """
    result = np.full(len(status), "", dtype=object)
    for k in np.flatnonzero(~has_status(status, (*CONTINUING_STATUSES, Status.STOPPED)))[:MAX_ROWS]:
        q = last[0][k].astype(float)
        v = last[1][k].astype(float)
        row_parameters = {name: x[k] for name, x in parameters.items()}
        with np.errstate(all="ignore"):
            cause = _lost_input(q, v, row_parameters, {name: x[k] for name, x in inputs.items()})
            cause = cause or _cause(model, Status(int(status[k])), q, v, row_parameters)
        result[k] = f"{cause} at t = {steps[k] * dt:.6g} s"
    return result


def _lost_input(
    q: np.ndarray, v: np.ndarray, parameters: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> str:
    """Return which of the inputs of a step from a finite state is not finite; empty if none."""
    if not (np.isfinite(q).all() and np.isfinite(v).all()):
        return ""
    lost = [name for name, x in inputs.items() if not np.isfinite(x).all()]
    label = "parameter" if lost and (lost[0] in parameters or lost[0] in COEFFICIENTS) else "input"
    return f"{label} {printable(lost[0])!r} is not finite" if lost else ""


def last_finite_states(start: States, end: States, last: States, steps: np.ndarray) -> States:
    """Return the states at the end, or, of rows that stopped,
    the `last` ones after the `steps` that they took.
    """
    no_step = (steps == 0)[:, None]
    q, v = (np.where(no_step, first, np.where(np.isfinite(x), x, y)) for first, x, y in zip(start, end, last))
    return q, v


def contact_causes(
    model: Model,
    contacts: Laws | None,
    status: np.ndarray,
    q: np.ndarray,
    carried: np.ndarray,
    parameters: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return a sentence for each row in which laws were not solved: by how much, and where shapes overlap
    most at the end.

    `carried`, (rows, ...), ends with the largest residual, iterations and the number of such steps.
    """
    result = np.full(len(status), "", dtype=object)
    rows = np.flatnonzero((status == Status.CONTACT_NOT_CONVERGED) & np.isfinite(q).all(axis=1))[:MAX_ROWS]
    candidates = contacts.candidates(model) if isinstance(contacts, Contacts) else ()
    for k in rows:
        residual, _, failed = carried[k, -3:]
        result[k] = f"{int(failed)} steps with a residual of up to {residual:.2g} m/s or rad/s"
        if candidates:
            options = {"parameters": {name: x[k] for name, x in parameters.items()}} if parameters else {}
            gaps, points, _ = contact_points(model, q[k].astype(float), contacts=contacts, **options)
            worst = int(np.argmin(gaps))
            x, y, z = points[worst]
            how = (
                f"overlap by {-gaps[worst]:.2g} m"
                if gaps[worst] < OVERLAP_GAP
                else f"are {gaps[worst]:.2g} m apart"
            )
            result[k] += (
                f"; at the end {describe_pair(model, candidates[worst])} {how} at ({x:.4g}, {y:.4g}, {z:.4g})"
            )
    return result


def _cause(
    model: Any, status: Status, q: np.ndarray, v: np.ndarray, parameters: Mapping[str, np.ndarray]
) -> str:
    if isinstance(model, Tree):
        k = int(np.argmax(np.where(np.isfinite(v), np.abs(v), np.inf)))
        return f"velocity {k} is {v[k]:.3g}"
    options = {"parameters": dict(parameters)} if parameters else {}
    if status == Status.NOT_CLOSED and model.loops and np.isfinite(q).all():
        loops = {name: x for name, x in parameters.items() if name.partition("@")[0] in LOOP_PARAMETERS}
        gaps = closure_error(model, q, **({"parameters": loops} if loops else {}))
        ratios = (gaps / model.closure_tolerance).max(axis=1)
        worst = int(np.argmax(ratios))
        if not ratios[worst] <= 1.0:  # otherwise the next step could not close it
            name = printable(model.loops[worst].name)
            return f"loop {name!r} is open by {gaps[worst, 0]:.2g} m and {gaps[worst, 1]:.2g} rad"
    if status in (Status.DEAD_POINT, Status.SINGULAR_COORDINATES) and model.loops and np.isfinite(q).all():
        of = "mechanism" if status == Status.DEAD_POINT else "coordinates"
        clusters = [
            *(cluster for cluster in model.clusters if cluster.constraints),
            *constrained_families(model.nominal),
        ]
        worst = int(np.argmin(loop_conditioning(model, q, of=of, **options)))
        names = ", ".join(repr(printable(constraint.name)) for constraint in clusters[worst].constraints[:3])
        return f"loops {names}: {of} near singular"
    if status == Status.NOT_FINITE and (np.abs(q) < FAST).all() and (np.abs(v) < FAST).all():
        a = forward_dynamics(model, q, v, np.zeros(model.nv), **options)
        if np.isfinite(a).all():
            return "acceleration finite without joint and external forces: one is infinite or dt too large"
    return _fastest(model, q, v, options)


def _fastest(model: Model, q: np.ndarray, v: np.ndarray, options: Mapping[str, Any]) -> str:
    """Return the joint whose coordinate or velocity is not finite, or that moves fastest."""
    for joint in model.joints:
        if not np.isfinite(q[joint.q_slice]).all():
            return f"joint {printable(joint.name)!r}: q is not finite"
    w = spanning_velocity(model, q, v, **options) if np.isfinite(v).all() and model.embedded else v
    names = (
        [name for joint in model.joints for name in joint.v_names]
        if len(w) == model.nv_spanning
        else list(model.v_names)
    )
    k = int(np.argmax(np.where(np.isfinite(w), np.abs(w), np.inf)))
    return f"joint {printable(names[k])!r} moves at {w[k]:.3g}"
