"""Base parameters: what hinges notice of a body's ten inertial parameters.

A hinge does not notice what lies on its axis: a slender rod there, with a body's mass and its first and second moment along the
axis, may just as well be fixed to the body below. What is left is flat, has seven numbers instead of ten, and takes the same
generalised forces (Mayeda, Yoshida and Osuka; Gautier and Khalil: regrouping of inertial parameters).
"""

from __future__ import annotations

import numpy as np

from linkwork.joints import Revolute
from linkwork.model import Model, derived
from linkwork.parts import GROUND
from linkwork.simplify.frames import in_node_frames
from linkwork.sko.bodies import BodyDescription
from linkwork.spatial import Inertia, skew
from linkwork.spatial.constants import product


@derived
def regrouped(model: Model) -> tuple[BodyDescription, ...]:
    """All bodies of a model in node frames, with inertial parameters that hinges do not notice moved to the body below.

    For generalised forces and mass matrices: `inertia` stays what it is, since articulated inertias would lose digits. Bodies
    whose inertias are inputs stay as they are.
    """
    bodies = [body._replace(reduced=body.inertia) for body in in_node_frames(model)]
    fixed = set(model.inertia_inputs)
    for k, joint in reversed(list(enumerate(model.joints))):
        kind, own = bodies[k].frame.kind, bodies[k].reduced
        assert own is not None
        moved_place = joint.place is not model.structure.joints[k].place
        if (
            k in fixed
            or joint.parent in fixed
            or moved_place
            or not isinstance(kind, Revolute)
            or bodies[k].rotor
            or not own.mass
        ):
            continue
        e = np.eye(3)[kind.coordinate]
        spread = 0.5 * np.trace(own.A) - product(product(e, own.A), e)  # of the mass along the axis [kg m²]
        unnoticed = Inertia(spread * (np.eye(3) - np.outer(e, e)), skew(product(e, own.h) * e), own.mass * np.eye(3), own.mass)
        left = Inertia(own.A - unnoticed.A, skew(np.where(e, 0.0, own.h)), np.zeros((3, 3)), 0.0)
        bodies[k] = bodies[k]._replace(reduced=_flat(left.constant(), kind.coordinate))
        if joint.parent != GROUND:
            below = bodies[joint.parent]
            assert below.reduced is not None
            moved = below.reduced + bodies[k].frame.place.congruence(unnoticed)
            bodies[joint.parent] = below._replace(reduced=moved.constant().frozen())
    return tuple(bodies)


def _flat(inertia: Inertia, axis: int) -> Inertia:
    """An inertia without mass along an axis: that the moment about it is the sum of the others holds to the last bit."""
    A = np.array(inertia.A)
    A[axis, axis] = A[axis - 1, axis - 1] + A[axis - 2, axis - 2]
    return Inertia(A, inertia.B, inertia.D, inertia.mass).frozen()
