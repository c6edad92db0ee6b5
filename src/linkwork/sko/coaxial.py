"""Rotors as single rows relative to a coaxial body of their cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.joints import Revolute
from linkwork.loops.rotors import parallel
from linkwork.sko.bodies import RigidBody
from linkwork.spatial.constants import product


class CoaxialBody(NamedTuple):
    """A body on a rotor's carrier with a parallel hinge axis: the rotor is a single row relative to it.

    `k` is that axis in the body frame; `sign` and `hinge` tell whether it and the hinge axis point along the
    rotor's; `J` [kg m²] is the rotor's inertia about it.
    """

    body: RigidBody
    k: int
    sign: float
    hinge: float
    J: float

    def relative_spin(self, rotor: RigidBody, of: Callable[[RigidBody], Any]) -> Any:
        """Return the rotor's spin relative to the body about their axis, from the rates `of` joints."""
        return self.sign * (of(rotor) - self.hinge * of(self.body))


def coaxial_body(rotor: RigidBody, members: Sequence[RigidBody]) -> CoaxialBody | None:
    """Return the first body of a cluster that is coaxial with a rotor on the same carrier, or None."""
    hinge_axis = rotor.joint_map[:3, 0].astype(float)
    axis = product(rotor.X.R.astype(float), hinge_axis)  # in the carrier's frame, where it is constant
    J = float(product(product(hinge_axis, rotor.rigid.A), hinge_axis))
    for body in members:
        if (
            body is rotor
            or body.rotor
            or body.on is not rotor.on
            or not isinstance(body.joint.kind, Revolute)
        ):
            continue
        turn = body.X.turn
        hinge_axis = np.asarray(body.joint_map[:3, 0], dtype=float)
        if turn is None or np.count_nonzero(hinge_axis) != 1:
            continue
        axis_on_carrier = product(
            turn.before, hinge_axis
        )  # the hinge's axis in the carrier's frame: turning about it changes nothing
        k = int(np.argmax(np.abs(hinge_axis)))
        if parallel(axis_on_carrier, axis):
            sign = float(np.sign(product(axis_on_carrier, axis)))
            return CoaxialBody(body, k, sign * float(np.sign(hinge_axis[k])), sign, J)
    return None
