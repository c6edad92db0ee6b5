"""Base parameters: the inertial parameters that generalised forces depend on (minimal inertial parameters).

Of the ten inertial parameters of a body behind a revolute joint three can be regrouped into those of its parent: its mass and
its first and second moment along the joint's axis, those of a slender rod on the axis, which may just as well be fixed to the
parent. Seven are left, and generalised forces are the same (Mayeda, Yoshida and Osuka; Gautier and Khalil: regrouping of
inertial parameters).
"""

from __future__ import annotations

import numpy as np

from linkwork.joints import Revolute
from linkwork.model import Model, derived
from linkwork.parts import GROUND
from linkwork.simplify.frames import in_node_frames
from linkwork.sko.bodies import BodyDescription
from linkwork.spatial import Inertia, is_zero, skew
from linkwork.spatial.constants import product


@derived
def regrouped(model: Model) -> tuple[BodyDescription, ...]:
    """All bodies of a model in node frames, with regrouped inertial parameters: base parameters, as far as single joints tell.

    For generalised forces and mass matrices: `inertia` stays as it is, since articulated inertias would lose digits. Bodies
    behind joints whose placements are inputs stay as they are.
    """
    bodies = [body._replace(reduced=body.inertia) for body in in_node_frames(model)]
    for k, joint in reversed(list(enumerate(model.joints))):
        frame, own = bodies[k].frame, bodies[k].reduced
        assert own is not None
        if not isinstance(frame.kind, Revolute) or bodies[k].rotor or is_zero(own.mass) or frame.place.is_symbolic:
            continue
        left, rod = _split(own, frame.kind.coordinate)
        bodies[k] = bodies[k]._replace(reduced=left)
        if joint.parent != GROUND:
            below = bodies[joint.parent]
            assert below.reduced is not None
            moved = below.reduced + frame.place.congruence(rod)
            bodies[joint.parent] = below._replace(reduced=moved.settled())
    return tuple(bodies)


def _split(own: Inertia, axis: int) -> tuple[Inertia, Inertia]:
    """What is left of a rigid inertia behind a hinge about a coordinate axis, and the rod on the axis: for the parent."""
    e = np.eye(3)[axis]
    if own.J is not None:
        along, across = np.where(np.outer(e, e), own.J, 0.0), np.where(np.outer(e, e), 0.0, own.J)
        left = Inertia.of_moments(0.0, np.where(e, 0.0, own.h), across)
        return left, Inertia.of_moments(own.mass, np.where(e, own.h, 0.0), along)
    assert own.mass is not None
    spread = 0.5 * np.trace(own.A) - product(product(e, own.A), e)  # of the mass along the axis [kg m²]
    rod = Inertia(spread * (np.eye(3) - np.outer(e, e)), skew(product(e, own.h) * e), own.mass * np.eye(3), own.mass)
    left = Inertia(own.A - rod.A, skew(np.where(e, 0.0, own.h)), np.zeros((3, 3)), 0.0)
    return _flat(left.constant(), axis), rod


def _flat(inertia: Inertia, axis: int) -> Inertia:
    """A massless inertia that is flat along an axis: the moment about it is the sum of the others, to the last bit."""
    A = np.array(inertia.A)
    A[axis, axis] = A[axis - 1, axis - 1] + A[axis - 2, axis - 2]
    return Inertia(A, inertia.B, inertia.D, inertia.mass).frozen()
