"""Steps with contact that are divided where they end too deep.

Shapes may meet at another place than that where they are nearest at the beginning of a step, so that impulses
there cannot part them. Then the step is divided in halves until each part ends as it should.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.passes import Stepped, stepped
from linkwork.algorithms.contact.solver import Solution
from linkwork.algorithms.contact.step import StepInput
from linkwork.compiler.ir.functions import loop, maximum, minimum, where

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


def divided(step: StepInput) -> Stepped:
    """Return the state after a step as by `stepped`, or after up to `PARTS` parts of it where that ends too
    deep.

    Impulses of a divided step are sums over its parts; u is the velocity of the last one, and `curved` zero.
    Where the shortest part is not much better than the whole step, that one counts: bodies that are found
    deep in others, such as behind a ridge of the ground, are then lifted slowly. Steps that are
    `differentiable`, and those with compliant contacts, are not divided.
    """
    candidates = step.contacts.candidates(step.model)
    if step.differentiable or np.isfinite(step.contacts.stiffness) or not candidates:
        return stepped(step)
    none = np.zeros(len(step.start))
    counts = np.array([PARTS, PARTS, step.dt], dtype=object)
    report = np.array([0.0, 0.0, 1.0, 1.0])
    whole = (step.q, step.v, none, step.v, np.zeros(4))
    first = _Progress(step.q, step.v, step.start, none, step.v, counts, report, *whole)

    def further(state: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return one more part; where it ends too deep, the state before it, and half of its length."""
        at = first.unflat(state)
        _, parts, h = at.counts
        share = parts * (1.0 / PARTS)
        end = stepped(step._replace(q=at.q, v=at.v, dt=h, start=at.start), share=share)
        after = _after(at, end)
        return after.flat(), after.counts[0] > 0.5

    last = first.unflat(loop(further, first.flat(), limit=2 * PARTS))
    solution = Solution(last.impulses, *last.report)
    return Stepped(last.q, last.v, last.u, solution, np.zeros(len(candidates)))


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
