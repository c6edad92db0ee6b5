"""The rows of contacts: relative velocities of two bodies at a contact, on the nodes of a mechanism."""

from __future__ import annotations

import numpy as np

from linkwork.constraints import BodyKinematics, Rows
from linkwork.constraints.relative_motion import moment
from linkwork.contact.candidates import Candidate, ContactPoint
from linkwork.mechanism import GROUND

NAMES = ("normal", "tangent 1", "tangent 2", "torsion", "rolling 1", "rolling 2")


def contact_rows(kinematics: BodyKinematics, candidate: Candidate, touch: ContactPoint) -> Rows:
    """Return the rows of a candidate, as many as its `dimension`, with K on nodes as constraints have them,
    and k = 0.

    K times the velocities of the nodes is the velocity of the first body against the other at the contact
    point: along n, t1 and t2 [m/s], then of rotation about n, t1 and t2 [rad/s].
    """
    result = []
    for body, at, axes, sign in (
        (candidate.body, touch.point, touch.axes, 1.0),
        (candidate.other, touch.other_point, touch.other_axes, -1.0),
    ):
        if body == GROUND:
            continue
        node = kinematics.nodes.node_of(body)
        result.append((node, node.blocks[body], sign * rows_at(at, axes, candidate.dimension)))
    return Rows(result, (), np.zeros(candidate.dimension, dtype=object))


def rows_at(at: np.ndarray, axes: np.ndarray, dimension: int) -> np.ndarray:
    """Return the rows of a point of a body by the body's angular velocity and the velocity of its origin,
    (dimension, 6).
    """
    linear = np.concatenate([moment(at, axes), axes], axis=1)
    angular = np.concatenate([axes, np.zeros((3, 3))], axis=1)
    return np.concatenate([linear, angular])[:dimension]


def row_names(candidate: Candidate) -> tuple[str, ...]:
    """Return a name for each row of a candidate."""
    return tuple(f"{candidate.name}.{name}" for name in NAMES[: candidate.dimension])
