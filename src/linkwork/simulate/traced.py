"""Rollouts as one kernel: a loop over steps with the state in registers.

Each row stops on its own, where a step leaves the finite numbers. The loop's body is one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms import contact_rows
from linkwork.contact import Contacts
from linkwork.errors import ModelError
from linkwork.functions.constrained import projected
from linkwork.functions.contact import COEFFICIENTS, check_coefficient
from linkwork.functions.contact import step as contact_step
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.states import integrate
from linkwork.ir.functions import absolute, fma, loop, maximum, where
from linkwork.ir.program import Program
from linkwork.ir.symbol import Symbol
from linkwork.ir.trace import trace
from linkwork.model import Model
from linkwork.model.parameters import input_names, shape_of
from linkwork.parts.names import shown
from linkwork.passes.soon import move_up
from linkwork.simulate import kernels
from linkwork.simulate.adaptive import Adaptive, adaptive_step
from linkwork.simulate.control import Control
from linkwork.simulate.midpoint import midpoint
from linkwork.simulate.own_chart import turns_back

HOW = 4  # dt, the number of steps, zero, and how many steps are over
ZERO = 2  # its place; where it is NaN, a row takes no step
MOST = 2**31  # steps of one call
Step = Callable[[Model, Any, Any, Any, Callable[[Any, Any, Any], Any]], tuple[Any, Any, Any]]
Integrator = str | Adaptive


def _semi_implicit_euler(
    model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, float], Any]
) -> tuple[Any, Any, Any]:
    a = forward_dynamics(model, q, v, force(q, v, 0.0))
    v = v + dt * a
    q = integrate(model, q, dt * v)
    return q, projected(model, q, v), a


def _rk4(model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, float], Any]) -> tuple[Any, Any, Any]:
    def rates(q: Any, v: Any, part: float) -> tuple[Any, Any]:
        return kernels.rates(model, q, v), forward_dynamics(model, q, v, force(q, v, part))

    half, sixth = 0.5 * dt, dt / 6.0
    k1, l1 = rates(q, v, 0.0)
    k2, l2 = rates(q + half * k1, v + half * l1, 0.5)
    k3, l3 = rates(q + half * k2, v + half * l2, 0.5)
    k4, l4 = rates(q + dt * k3, v + dt * l3, 1.0)
    q = q + sixth * (k1 + 2.0 * (k2 + k3) + k4)
    v = v + sixth * (l1 + 2.0 * (l2 + l3) + l4)
    q = integrate(model, q, np.zeros(model.nv))
    return q, projected(model, q, v), l4


def _implicit_midpoint(model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any, Any]:
    found = midpoint(model, q, v, dt, force)
    return found.q, found.v, found.v


STEPS: dict[str, Step] = {
    "semi_implicit_euler": _semi_implicit_euler,
    "rk4": _rk4,
    "implicit_midpoint": _implicit_midpoint,
}


def step_of(integrator: Integrator) -> Step:
    """One step by an integrator, given by name or, for adaptive steps, by their tolerances: q, v, and what they follow from."""
    if not isinstance(integrator, Adaptive):
        return STEPS[integrator]

    def step(model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any, Any]:
        nq = model.nq

        def rates(y: Any, part: Any) -> Any:
            q, v = y[:nq], y[nq:]
            return np.concatenate([kernels.rates(model, q, v), forward_dynamics(model, q, v, force(q, v, part))])

        def settle(y: Any) -> Any:
            return np.concatenate([integrate(model, y[:nq], np.zeros(model.nv)), y[nq:]])

        end = adaptive_step(rates, settle, np.concatenate([q, v]), dt, integrator)
        return end[:nq], end[nq:], end

    return step


def _with_contact(
    model: Model,
    contacts: Contacts,
    carried: Any,
    q: Any,
    v: Any,
    dt: Any,
    force: Callable[[Any, Any, float], Any],
    coefficients: dict[str, Any],
) -> tuple[Any, Any, Any]:
    """q, v and what is carried from step to step: impulses, then the numbers of `CARRIED`."""
    impulses, (worst, most, failed) = carried[: -len(CARRIED)], carried[-len(CARRIED) :]
    q, v, impulses, residual, count, converged = contact_step(
        model, q, v, force(q, v, 0.0), dt, None, impulses, contacts=contacts, details=True, **coefficients
    )
    worst, most = maximum(worst, residual), maximum(most, count)
    return q, v, np.array([*impulses, worst, most, failed + (1.0 - converged)], dtype=object)


CARRIED = ("residual", "iterations", "failed")  # the largest of both, and the number of steps that did not converge


def carried_size(model: Model, contacts: Contacts) -> int:
    """How many numbers a rollout with contact carries from step to step, besides q and v."""
    return contact_rows.count(model, contacts) + len(CARRIED)


def rollout_program(
    model: Model,
    control: Control,
    integrator: Integrator = "semi_implicit_euler",
    parameters: tuple[str, ...] = (),
    *,
    contacts: Contacts | None = None,
    early: bool = False,
) -> Program:
    """The program of a rollout: from q, v, done, how = (dt, count, 0, over) and what controls it to q, v and done.

    With contact, `carried` stands behind done, on both sides: impulses and what `CARRIED` names.

    So many steps are taken, at least one, at times from `over` · dt on. `done` counts those that a
    row took. Where one would leave the finite numbers, or cannot be taken in the model's own coordinates (`own_chart`), the row
    stops: its q and v are NaN from then on.

    `early`: the end of a step stands as soon as it is known, and not behind its dynamics (see `move_up`).
    """
    known: list[Any] = []
    shapes, body = rollout_body(model, control, integrator, parameters, contacts=contacts, known=known)
    program = trace(body, shapes, name=f"rollout_{integrator}")
    values = [x.value for x in known if isinstance(x, Symbol)]
    if not early or not values or model.loops:
        return program
    return program.map_bodies(lambda step: move_up(step, values))


def taken_coefficients(parameters: dict[str, Any], contacts: Contacts | None, who: str) -> dict[str, Any]:
    """Those of `COEFFICIENTS` among parameters, which are taken out of them; numbers that no contact can have are errors."""
    own = {name: parameters[name] for name in COEFFICIENTS if name in parameters}
    if own and contacts is None:
        raise ModelError(f"{who}: parameters={{{next(iter(own))!r}: ...}} is for contacts=, which is not given")
    for name in own:
        check_coefficient(who, name, parameters.pop(name))
    return own


def telling(q: Any, v: Any) -> list[Any]:
    """Those of the numbers of a state that are not finite if any is: q, and v of joints whose q is no sum of q + dt v."""
    told: set[int] = set()
    for x in (x for x in q if isinstance(x, Symbol)):
        op, args, _ = x.builder.code[x.value]
        for product in (x.builder.code[a] for a in args if op == "add"):
            told.update(product.args if product.op == "mul" else ())
    return [*q, *(x for x in v if not (isinstance(x, Symbol) and x.value in told))]


def check_moves(model: Model, who: str) -> None:
    """An error where a model has no freedom."""
    if model.nv == 0:
        raise ModelError(f"{who}: {shown(model.name)} cannot move: it has no joint that does")


def rollout_body(
    model: Model,
    control: Control,
    integrator: Integrator,
    parameters: tuple[str, ...],
    *,
    contacts: Contacts | None = None,
    known: list[Any] | None = None,
    most: int = MOST,
) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """The shapes of a rollout's inputs by name, and the function from them to results that is traced.

    That puts the accelerations that a step ends with into the list `known`, and takes at most so many steps.
    """
    check_moves(model, "rollout")
    more = {} if contacts is None else {"carried": (carried_size(model, contacts),)}
    shapes: dict[str, Any] = {"q": (model.nq,), "v": (model.nv,), "done": (), **more, "how": (HOW,), **control.inputs}
    coefficients = [name for name in parameters if name in COEFFICIENTS]
    if contacts is not None:
        shapes |= dict.fromkeys(coefficients, (len(contacts.candidates(model)),))
        parameters = tuple(name for name in parameters if name not in coefficients)
    words = input_names(parameters, taken=tuple(shapes)) if parameters else ()
    shapes |= {word: shape_of(model, name) for word, name in zip(words, parameters)}
    nq, nv = model.nq, model.nv

    def body(*arrays: Any) -> dict[str, Any]:
        given = dict(zip(shapes, arrays))
        moving = model.traced_with({n: given[w] for n, w in zip(parameters, words)}) if parameters else model
        dt, count, zero, before = given["how"]
        one_step = step_of(integrator)

        def step(state: Any) -> tuple[Any, Any]:
            q, v, k = state[:nq], state[nq : nq + nv], state[-1]

            def force(q: Any, v: Any, part: Any) -> Any:
                return control.force(moving, q, v, (before + k + part) * dt, given)

            carried = state[nq + nv : -1]
            if contacts is None:
                q1, v1, last_known = one_step(moving, q, v, dt, force)
                if known is not None:
                    known.extend(last_known)
            else:
                own = {name: given[name] for name in coefficients}
                q1, v1, carried = _with_contact(moving, contacts, carried, q, v, dt, force, own)
            bad = zero
            for x in telling(q1, v1):
                bad = fma(x, zero, bad)  # NaN where a number is not finite
            fine = (bad == zero) & (turns_back(moving, q, v, dt) <= 1.0)
            after = np.array([*q1, *v1, *carried, where(fine, k + 1.0, k)], dtype=object)
            return after, fine & (k + 1.0 < count)

        first = np.array([*given["q"], *given["v"], *given.get("carried", ()), 0.0], dtype=object)
        last = loop(step, first, limit=most)
        whole = last[-1] == count
        ends = [where(whole, x, np.nan) for x in last[: nq + nv]]
        found = {"q_end": np.array(ends[:nq]), "v_end": np.array(ends[nq:]), "done_end": given["done"] + last[-1]}
        if contacts is None:
            return found
        went = absolute(given["q"][0]) < np.inf  # a row that stopped in an earlier call keeps what it carried then
        return {**found, "carried_end": where(went, last[nq + nv : -1], given["carried"])}

    return shapes, body
