"""How a rollout ended."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """How a row of a rollout ended."""

    OK = 0
    """All steps were taken."""
    DEAD_POINT = 1
    """The mechanism itself is singular: at a dead point, or where branches meet."""
    NOT_CLOSED = 2
    """Its loops could not be closed on the same branch."""
    NOT_FINITE = 3
    """An acceleration or a state is infinite, or no number."""
    SINGULAR_COORDINATES = 4
    """v does not determine how the mechanism moves, at the start or, where all steps are taken in the model's own coordinates
    (with contacts, on a GPU, in exported C), near to where the row stopped: `Model.independent_at` names joints that do."""
    STIFF = 5
    """The step is too long for the springs and dampers of its joints: take a smaller dt, or "linearly_implicit_euler"."""
    CONTACT_NOT_CONVERGED = 6
    """All steps were taken, but in some the laws of contact hold less well than the tolerance says."""
    STOPPED = 32
    """An event of a simulation stopped it."""
