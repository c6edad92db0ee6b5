"""The public functions of contact: one step of time with contact, friction and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import contact_rows
from linkwork.algorithms.contact_rows import Coefficients
from linkwork.algorithms.contact_step import moved_straight, stepped
from linkwork.algorithms.massless import check_motions
from linkwork.contact import Contacts, chosen_contacts
from linkwork.errors import ModelError
from linkwork.functions.call_arguments import as_numbers
from linkwork.functions.constrained import projected, shallow
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.model_function import model_function
from linkwork.functions.states import integrate, refuse_open
from linkwork.model import Model


def _options(model: Model, contacts: Any, details: bool, **_: Any) -> dict[str, Any]:
    if contacts is not None:
        return chosen_contacts(model, contacts)
    if details:
        raise ModelError("step: details are those of contact: give contacts=lw.Contacts()")
    return {"contacts": None, "differentiable": False}  # as it is


COEFFICIENTS = {"contact_friction": np.inf, "contact_restitution": 1.0}  # with the largest that there can be


def check_coefficient(who: str, name: str, x: Any) -> None:
    """An error where one of `COEFFICIENTS` is no number that a contact can have."""
    numbers, most = as_numbers(x), COEFFICIENTS[name]
    wrong = ~((numbers >= 0.0) & (numbers <= most) & np.isfinite(numbers))
    if wrong.any():
        span = "not negative" if most == np.inf else f"from 0 to {most:g}"
        raise ModelError(f"{who}: {name} must be finite numbers, {span}, not {numbers[wrong][0]:g}")


def _only_contacts(arrays: Mapping[str, Any]) -> None:
    for name in ("warm_start", *COEFFICIENTS):
        if arrays.get(name) is not None:
            raise ModelError(f"step: {name} is for contacts=, which is not given")


def _refuse_open(model: Any, result: tuple[Any, ...], given: Sequence[Any]) -> None:
    """ClosureError where loops of one state could not be closed after the step."""
    if np.isfinite(result[1]).all():
        refuse_open(model, result[0], given)


def _check_given(arrays: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    if options.get("contacts") is None:
        _only_contacts(arrays)
        return
    dt = arrays["dt"]
    if not (type(dt) is float and 0.0 < dt < np.inf):
        numbers = as_numbers(dt)
        if not ((numbers > 0.0) & np.isfinite(numbers)).all():
            raise ModelError(f"step: with contacts= dt must be positive numbers of seconds, not {dt!r}")
    for name in COEFFICIENTS:
        if name in arrays:
            check_coefficient("step", name, arrays[name])


def impulse_names(model: Model, *, contacts: Contacts | None = None) -> tuple[str, ...]:
    """A name for each impulse of `step`: rows of contacts, then limits of joints, then dry friction in them."""
    if not isinstance(model, Model):
        raise ModelError(f"impulse_names: the first argument must be a model, not {type(model).__name__}")
    return contact_rows.names(model, chosen_contacts(model, contacts)["contacts"])


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    dt="",
    f_ext="bodies 6",
    warm_start="impulses",
    contact_friction="candidates",
    contact_restitution="candidates",
    options=_options,
    methods={"sweeps": lambda model: not shallow(model), "mass_matrix": shallow},
    configurations=("out0",),
    check_given=_check_given,
    check=_refuse_open,
)
def step(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    dt: Any,
    f_ext: Any = None,
    warm_start: Any = None,
    contact_friction: Any = None,
    contact_restitution: Any = None,
    *,
    contacts: Contacts | None = None,
    method: str = "auto",
    details: bool = False,
    differentiable: bool = False,
) -> tuple[Any, ...]:
    """The state after one step of time dt [s]: q (..., nq) and v (..., nv).

    Without `contacts` v' = v + dt a and q' = integrate(q, dt v'), semi-implicit Euler, as `rollout` steps; velocities of
    force-held loops are projected onto those that keep them closed at q'. With contacts v' = v + dt a + M⁻¹ Jᵀ λ and q' =
    integrate(q, dt v'), where impulses λ satisfy the laws of contact, friction and limits at v' (docs/algorithms/contact.md).
    Free and planar joints step in axes at rest, so that a free body keeps its momentum. Where joints turn so far in a step that
    it would gain energy by itself, the velocity that is returned is scaled down.

    `contacts`, such as `lw.Contacts()`, say what may touch what. `warm_start` (..., impulses) are impulses to begin with, such
    as those of the last step; they change how long it takes, and where several solutions exist which one is found.
    `contact_friction` and `contact_restitution`, (..., candidates), are coefficients of sliding friction and of restitution in
    place of those that `contacts` says; they may also be given among `parameters`.

    `details` gives four more results: the impulses [N s or N m s], (..., impulses), named by `lw.impulse_names`; the largest
    violation of any law [m/s or rad/s], (...); the number of iterations, (...); and whether that violation is within the
    tolerance, (...), 1 or 0.

    `lw.jvp`, `lw.vjp` and `lw.jacobian` give the derivatives where no contact begins, ends, sticks or slips anew, by the
    implicit function theorem (docs/how_to/contact.md). For derivatives of functions that call it, let it be `differentiable`.
    """
    if contacts is None:
        _only_contacts(
            {"warm_start": warm_start, "contact_friction": contact_friction, "contact_restitution": contact_restitution}
        )
        v = v + dt * forward_dynamics(model, q, v, tau, f_ext)
        q = integrate(model, q, dt * v)
        return q, projected(model, q, v)
    chosen = chosen_contacts(model, contacts)["contacts"]
    check_motions(model)
    start = np.zeros(contact_rows.count(model, chosen)) if warm_start is None else warm_start
    given = Coefficients(contact_friction, contact_restitution)

    def arrive(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        motion, after = moved_straight(model, dt * u, u)
        return integrate(model, q, motion), after

    found = stepped(model, chosen, q, v, tau, dt, f_ext, start, method, arrive, given, differentiable=differentiable)
    return (found.q, found.v, *found.solution[:4]) if details else (found.q, found.v)
