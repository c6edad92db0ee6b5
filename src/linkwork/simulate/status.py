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

    @property
    def advice(self) -> str:
        """What happened, and what to do, in a few words; empty where all went well."""
        return ADVICE.get(self, "")


ADVICE = {
    Status.DEAD_POINT: "the mechanism is singular there: begin elsewhere, or take smaller steps",
    Status.NOT_CLOSED: "loops could not be closed: begin at a closed state, or take smaller steps",
    Status.NOT_FINITE: "a state is infinite or no number: take smaller steps, or look at forces and inertias",
    Status.SINGULAR_COORDINATES: "v does not determine the motion: model.with_independent(*model.independent_at(q))",
    Status.STIFF: 'the step is too long for springs and dampers: a smaller dt, or integrator="linearly_implicit_euler"',
    Status.CONTACT_NOT_CONVERGED: "laws of contact hold less well than the tolerance in some steps: smaller steps",
    Status.STOPPED: "an event stopped it",
}
