"""Status of the rows of rollouts and simulations."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np


class Status(IntEnum):
    """Reason why a row of a rollout ended."""

    OK = 0
    """All steps were taken."""
    DEAD_POINT = 1
    """The mechanism is singular: a dead point, or a bifurcation of its configurations."""
    NOT_CLOSED = 2
    """Loops are open by more than `Model.closure_tolerance`: at the start, the end, with contacts after a
    step, or after any small motion from the last state, as where rounded equations contradict each other.
    """
    NOT_FINITE = 3
    """An acceleration or a state is infinite or NaN."""
    SINGULAR_COORDINATES = 4
    """The independent velocities are singular: at the start or, where coordinates cannot be changed (with
    contacts, on a GPU, in exported C), near the last state. `Model.independent_at` names joints that
    determine the motion there.
    """
    STIFF = 5
    """The step is unstable with springs and dampers of joints (use a smaller dt or
    "linearly_implicit_euler"), or with gains of PD control or a policy (use a smaller dt). All steps may have
    been taken: then the state is far off.
    """
    CONTACT_NOT_CONVERGED = 6
    """All steps were taken, but the contact solver did not converge within its tolerance in some."""
    STEP_TOO_COARSE = 7
    """The mechanism is regular, but loops cannot be closed on the same branch after a step,
    nor after 64 parts of it.
    """
    STOPPED = 32
    """An event of a simulation stopped the row."""

    @property
    def advice(self) -> str:
        """Cause and remedy in a few words; empty for OK."""
        return ADVICE.get(self, "")


ADVICE = {
    Status.DEAD_POINT: "the mechanism is singular there: start elsewhere, or use a smaller dt",
    Status.NOT_CLOSED: "loops cannot be closed: use close=True, a smaller dt, or a larger tolerance= of the "
    "model",
    Status.NOT_FINITE: "a state is infinite or NaN: use a smaller dt, or check forces and inertias",
    Status.SINGULAR_COORDINATES: "the independent velocities are singular: "
    "model.with_independent(*model.independent_at(q))",
    Status.STIFF: "unstable springs, dampers or gains: use a smaller dt, or "
    'integrator="linearly_implicit_euler"',
    Status.CONTACT_NOT_CONVERGED: "the contact solver did not converge in some steps: use a smaller dt",
    Status.STEP_TOO_COARSE: "loops cannot be closed after a step: use a smaller dt",
    Status.STOPPED: "stopped by an event",
}


_STATUSES = max(Status) + 1


def has_status(status: np.ndarray, kinds: Iterable[Status]) -> np.ndarray:
    """Return which rows of whole numbers `status` are one of `kinds`: `np.isin`, in a tenth of its time."""
    known = np.zeros(_STATUSES, dtype=bool)
    known[list(kinds)] = True
    result: np.ndarray = known[status]
    return result
