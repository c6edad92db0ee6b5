"""The derivatives of steps with contact, at their solution: what `lw.jacobian`, `lw.jvp` and `lw.vjp` of
`step` use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.contact import rows as contact_rows
from linkwork.algorithms.contact.free_flight import moved_straight
from linkwork.algorithms.contact.step_derivatives import StepSolution
from linkwork.compiler.autodiff.in_trace import jacobian_of, jvp_of
from linkwork.functions.contact import step
from linkwork.functions.engine.tangent import rates, velocities
from linkwork.functions.engine.wrt import by_columns, changes_along, changes_by
from linkwork.functions.states import integrate
from linkwork.model import Model

NAMES = (
    "q",
    "v",
    "tau",
    "dt",
    "f_ext",
    "contact_friction",
    "contact_restitution",
    "warm_start",
)  # the last changes nothing


def _holds(model: Any, settings: Mapping[str, Any]) -> bool:
    return settings["contacts"] is not None and isinstance(model, Model) and not settings["details"]


def _solution(model: Model, arrays: Mapping[str, Any], more: Mapping[str, Any]) -> StepSolution:
    contacts = more["contacts"]
    start = more.get("warm_start")
    start = np.zeros(contact_rows.count(model, contacts)) if start is None else start
    return StepSolution(model, contacts, start, jacobian_of, arrays, more["method"], partial(_arrived, model))


def _arrived(model: Model, q: Any, u: Any, dt: Any) -> tuple[np.ndarray, np.ndarray]:
    motion, v = moved_straight(model, dt * u, u)
    return integrate(model, q, motion), v


def _ends(model: Model, at: StepSolution, arrays: Mapping[str, Any], u: Any) -> np.ndarray:
    """Return q and v after a step by the velocity u, (nq + nv,)."""
    q, v = _arrived(model, arrays["q"], u, arrays["dt"])
    return np.concatenate([q, at.guarded(model, arrays, q, v, u)])


def _given(model: Model, q: Any, v: Any, tau: Any, dt: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    coefficients = contact_rows.Coefficients(more.get("contact_friction"), more.get("contact_restitution"))
    dt = contact_rows.where_valid(model, more["contacts"], coefficients, dt)
    return {"q": q, "v": v, "tau": tau, "dt": dt} | {
        name: more[name] for name in NAMES[4:] if more.get(name) is not None
    }


def _outputs(model: Model, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return ends[: model.nq], ends[model.nq :]


def _pullback(
    bars: tuple[Any, ...], names: Sequence[str], model: Model, q: Any, v: Any, tau: Any, dt: Any, **more: Any
) -> Any:
    """Return the pullback of weights of q (on the tangent space) and v, by the transposed system and reverse
    mode through its residual.
    """
    arrays = _given(model, q, v, tau, dt, more)
    at = _solution(model, arrays, more)
    ends = _ends(model, at, arrays, at.u)
    back = np.concatenate([bars[0] @ velocities(model, ends[: model.nq]), bars[1]])
    weights = at.weights(jacobian_of(lambda u: back @ _ends(model, at, arrays, u), at.u)[1])
    gradients = []
    for name in names:
        total = changes_by(model, name, arrays)(
            lambda model, **x: back @ _ends(model, at, x, at.u) + weights @ at.residual(model, **x)
        )
        gradients.append(total @ rates(model, q) if name == "q" else total)
    return _outputs(model, ends), gradients


def _pushforward(
    directions: tuple[Any, ...],
    names: Sequence[str],
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    dt: Any,
    **more: Any,
) -> Any:
    """Return the changes of q, on the tangent space, and of v along directions: by the same system, and
    forward mode.
    """
    arrays = _given(model, q, v, tau, dt, more)
    at = _solution(model, arrays, more)
    ends = _ends(model, at, arrays, at.u)
    moved = {name: rates(model, q) @ d if name == "q" else d for name, d in zip(names, directions)}
    along = changes_along(model, moved, arrays)
    u = at.change(along(at.residual)[:, None])[:, 0]
    total = (
        along(lambda model, **x: _ends(model, at, x, at.u))
        + jvp_of(lambda u: _ends(model, at, arrays, u), at.u, u)[1]
    )
    return _outputs(model, ends), (velocities(model, ends[: model.nq]) @ total[: model.nq], total[model.nq :])


@step.derivative(*NAMES, when=_holds, pullback=_pullback, pushforward=_pushforward)
def _at_the_solution(
    model: Model, q: Any, v: Any, tau: Any, dt: Any, wanted: Sequence[str] = NAMES, **more: Any
) -> list[Any]:
    arrays = _given(model, q, v, tau, dt, more)
    at = _solution(model, arrays, more)
    end = _ends(model, at, arrays, at.u)[: model.nq]
    into = velocities(model, end)
    by_u = jacobian_of(lambda u: _ends(model, at, arrays, u), at.u)[1]
    derivatives: list[Any] = []
    for name in NAMES:
        if name not in arrays or name not in wanted:
            derivatives.append((None, None))
            continue
        by = changes_by(model, name, arrays)
        residual = by(at.residual)
        ends = by(lambda model, **x: _ends(model, at, x, at.u))
        if name == "q":
            residual, ends = (np.asarray(x, dtype=object) @ rates(model, q) for x in (residual, ends))
        change = by_columns(at.change, residual)
        total = ends + np.tensordot(by_u, change, 1)
        derivatives.append((np.tensordot(into, total[: model.nq], 1), total[model.nq :]))
    return derivatives
