"""Steps with contact that are divided where they end too deep.

Shapes may meet at another place than that where they are nearest at the beginning of a step, so that impulses
there cannot part them. Then the step is divided in halves until each part ends as it should.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.rows import NONE_GIVEN, Coefficients
from linkwork.algorithms.contact.solver import Solution
from linkwork.algorithms.contact.step import Arrive, Stepped, stepped
from linkwork.compiler.ir.functions import loop, maximum, minimum, where
from linkwork.contact import Contacts
from linkwork.model import Model

PARTS = 64  # into which a step is divided at most
MIN_PART_DEPTH_RATIO = 0.5  # the part of the depth of a whole step that the shortest part of it may have


class _Progress(NamedTuple):
    """The state within a step: q, v, impulses to start with and in all, the step's last velocity u.

    `counts` are the parts that are left and those that are tried at once, and the length of these [s];
    `report` the residual, iterations, 1 if converged, and the part of restitution that acts. `whole_...` is
    the end of the undivided step, with its residual, 1 if converged, part of restitution, and depth.
    """

    q: Any
    v: Any
    start: Any
    impulses: Any
    u: Any
    counts: Any
    report: Any
    whole_q: Any
    whole_v: Any
    whole_impulses: Any
    whole_u: Any
    whole_report: Any

    def flat(self) -> np.ndarray:
        """Return all numbers, (n,)."""
        return np.array([x for each in self for x in each], dtype=object)

    def unflat(self, state: np.ndarray) -> _Progress:
        """Return numbers `state`, (n,), in the shapes of this progress."""
        ends = np.cumsum([len(each) for each in self])
        return _Progress(*(state[end - len(each) : end] for end, each in zip(ends, self)))


def divided(
    model: Model,
    contacts: Contacts,
    q: Any,
    v: Any,
    tau: Any,
    dt: Any,
    f_ext: Any,
    start: Any,
    method: str,
    arrive: Arrive,
    coefficients: Coefficients = NONE_GIVEN,
    *,
    differentiable: bool = False,
) -> Stepped:
    """Return the state after a step of dt as by `stepped`, or after up to `PARTS` parts of it where that ends
    too deep.

    Impulses of a divided step are sums over its parts; u is the velocity of the last one, and `curved` zero.
    Where the shortest part is not much better than the whole step, that one counts: bodies that are found
    deep in others, such as behind a ridge of the ground, are then lifted slowly. Steps that are
    `differentiable`, and those with compliant contacts, are not divided.
    """
    if differentiable or np.isfinite(contacts.stiffness) or not contacts.candidates(model):
        return stepped(
            model,
            contacts,
            q,
            v,
            tau,
            dt,
            f_ext,
            start,
            method,
            arrive,
            coefficients,
            differentiable=differentiable,
        )
    none = np.zeros(len(start))
    counts = np.array([PARTS, PARTS, dt], dtype=object)
    first = _Progress(
        q, v, start, none, v, counts, np.array([0.0, 0.0, 1.0, 1.0]), q, v, none, v, np.zeros(4)
    )

    def further(state: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return one more part; where it ends too deep, the state before it, and half of its length."""
        at = first.unflat(state)
        _, parts, h = at.counts
        share = parts * (1.0 / PARTS)
        end = stepped(
            model, contacts, at.q, at.v, tau, h, f_ext, at.start, method, arrive, coefficients, share=share
        )
        after = _after(at, end)
        return after.flat(), after.counts[0] > 0.5

    last = first.unflat(loop(further, first.flat(), limit=2 * PARTS))
    return Stepped(
        last.q,
        last.v,
        last.u,
        Solution(last.impulses, *last.report),
        np.zeros(len(contacts.candidates(model))),
    )


def _after(at: _Progress, end: Stepped) -> _Progress:
    """Return the progress after the end of one more part."""
    (remaining_parts, parts, h), x = at.counts, end.solution
    residual, count, converged, bounce = at.report
    count = count + x.iterations
    first = parts > PARTS - 0.5
    this = (end.q, end.v, x.impulses, end.u, np.array([x.residual, x.converged, x.part, end.sunk]))
    merged = [where(first, a, b) for a, b in zip(this, at[7:])]
    report = merged[-1]
    shortest = parts < 1.5
    told_more = [maximum(residual, x.residual), count, minimum(converged, x.converged), x.part]
    accepted = (
        *(end.q, end.v, x.impulses, at.impulses + x.impulses, end.u),
        np.array([remaining_parts - parts, parts, h], dtype=object),
        np.array(told_more, dtype=object),
    )
    halved = (
        *at[:5],
        np.array([remaining_parts, 0.5 * parts, 0.5 * h], dtype=object),
        np.array([residual, count, converged, bounce], dtype=object),
    )
    undivided = (
        *(merged[0], merged[1], at.start, merged[2], merged[3]),
        np.array([0.0, parts, h], dtype=object),
        np.array([report[0], count, report[1], report[2]], dtype=object),
    )
    goes_on = (end.sunk <= 0.0) | shortest
    vain = shortest & (end.sunk > MIN_PART_DEPTH_RATIO * report[3])
    result = [where(vain, c, where(goes_on, a, b)) for a, b, c in zip(accepted, halved, undivided)]
    return _Progress(*result, *merged)
