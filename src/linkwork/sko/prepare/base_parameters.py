"""Regrouping of inertial parameters into base parameters, as far as single joints determine them."""

from __future__ import annotations

import numpy as np

from linkwork.joints import Revolute
from linkwork.mechanism import GROUND
from linkwork.model import Model, cached_on_model
from linkwork.sko.bodies import BodyDescription
from linkwork.sko.prepare.frames import in_node_frames
from linkwork.spatial import Inertia, is_zero, skew
from linkwork.spatial.constants import product


@cached_on_model
def regrouped(model: Model) -> tuple[BodyDescription, ...]:
    """Return the bodies in node frames with regrouped inertial parameters (base parameters).

    For generalised forces and mass matrices; `inertia` stays unchanged, since articulated inertias would lose
    digits. Bodies behind joints whose placements are inputs are unchanged.
    """
    bodies = [body._replace(reduced=body.inertia) for body in in_node_frames(model)]
    for k, joint in reversed(list(enumerate(model.joints))):
        frame = bodies[k].frame
        reduced = bodies[k].reduced
        assert reduced is not None
        if (
            not isinstance(frame.kind, Revolute)
            or bodies[k].rotor
            or is_zero(reduced.mass)
            or frame.place.is_symbolic
        ):
            continue
        remainder, rod = _split(reduced, frame.kind.coordinate)
        bodies[k] = bodies[k]._replace(reduced=remainder)
        if joint.parent != GROUND:
            below = bodies[joint.parent]
            assert below.reduced is not None
            moved = below.reduced + frame.place.congruence(rod)
            bodies[joint.parent] = below._replace(reduced=moved.frozen_constant())
    return tuple(bodies)


def _split(inertia: Inertia, axis: int) -> tuple[Inertia, Inertia]:
    """Return a rigid inertia behind a hinge as a remainder and the part moved to the parent."""
    e = np.eye(3)[axis]
    if inertia.J is not None:
        along = np.where(np.outer(e, e), inertia.J, 0.0)
        across = np.where(np.outer(e, e), 0.0, inertia.J)
        remainder = Inertia.from_moments(0.0, np.where(e, 0.0, inertia.h), across)
        return remainder, Inertia.from_moments(inertia.mass, np.where(e, inertia.h, 0.0), along)
    assert inertia.mass is not None
    spread = 0.5 * np.trace(inertia.A) - product(
        product(e, inertia.A), e
    )  # of the mass along the axis [kg m²]
    rod = Inertia(
        spread * (np.eye(3) - np.outer(e, e)),
        skew(product(e, inertia.h) * e),
        inertia.mass * np.eye(3),
        inertia.mass,
    )
    remainder = Inertia(inertia.A - rod.A, skew(np.where(e, 0.0, inertia.h)), np.zeros((3, 3)), 0.0)
    return _flat(remainder.constant(), axis), rod


def _flat(inertia: Inertia, axis: int) -> Inertia:
    """Return a massless inertia flat along an axis: its moment about it is the exact sum of the others."""
    A = np.array(inertia.A)
    A[axis, axis] = A[axis - 1, axis - 1] + A[axis - 2, axis - 2]
    return Inertia(A, inertia.B, inertia.D, inertia.mass).frozen()
