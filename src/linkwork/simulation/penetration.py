"""Warnings at the start of a motion with contact: shapes that overlap, and shapes that cannot be tested."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from linkwork.contact import Candidate, Contacts
from linkwork.contact.pair_filter import left_out
from linkwork.errors import InitialPenetrationWarning, UntestedShapesWarning
from linkwork.functions.caller import caller_stacklevel
from linkwork.functions.contact_points import contact_points
from linkwork.mechanism.names import printable
from linkwork.model import GROUND, Model

MAX_OVERLAP = 5e-3  # [m] rigid contacts undo less within a short time, without much ado


def warn_penetration(
    who: str, model: Model, contacts: Contacts, q: np.ndarray, parameters: Mapping[str, np.ndarray]
) -> None:
    """Warn where states q, (rows, nq), begin with shapes deep in each other; compliant ones may be as deep as
    they are soft.
    """
    candidates = contacts.candidates(model)
    if not candidates or np.isfinite(contacts.stiffness):
        return
    fine = np.flatnonzero(np.isfinite(q).all(axis=1))
    options = {"parameters": {name: x[fine] for name, x in parameters.items()}} if parameters else {}
    gaps = contact_points(model, q[fine], contacts=contacts, **options)[0]
    deep = gaps < -MAX_OVERLAP
    if not deep.any():
        return
    row, k = np.unravel_index(np.argmin(np.where(np.isfinite(gaps), gaps, 0.0)), gaps.shape)
    rows = (
        f" in {int(deep.any(axis=1).sum())} of {len(q)} rows, most in row {fine[row]}" if len(q) > 1 else ""
    )
    others = int(deep[row].sum()) - 1
    more = f", and {others} more {'contacts' if others > 1 else 'contact'}" if others else ""
    warnings.warn(
        f"{who}: {describe_pair(model, candidates[k])} overlap by {-gaps[row, k]:.3g} m at the "
        f"start{rows}{more}: this adds energy; start with non-negative gaps (lw.contact_points)",
        InitialPenetrationWarning,
        stacklevel=caller_stacklevel(),
    )


def warn_untested(who: str, model: Model, contacts: Any) -> None:
    """Warn where shapes that take part cannot be tested, by names.

    `contacts` are those that the user gave.
    """
    if isinstance(contacts, Contacts) and contacts.resolved is None:
        for sentence in _untested(model, contacts):
            warnings.warn(f"{who}: {sentence}", UntestedShapesWarning, stacklevel=caller_stacklevel())


@lru_cache(maxsize=64)
def _untested(model: Model, contacts: Contacts) -> tuple[str, ...]:
    """Return the sentences of `left_out`; without shapes that cannot be read where others are named."""
    sentences = left_out(model, contacts)
    return tuple(x for x in sentences if contacts.shapes is None or "can touch nothing" not in x)


def describe_pair(model: Model, candidate: Candidate) -> str:
    """Return the two bodies of a candidate, and its shapes."""
    names = [
        printable(model.bodies[k].name) if k != GROUND else "the ground"
        for k in (candidate.body, candidate.other)
    ]
    return f"{' and '.join(names)} ({printable(candidate.name)}, {candidate.kind})"
