"""Rotors as single rows: the body of a cluster whose hinge is coaxial with a rotor, relative to which it spins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.joints import Revolute
from linkwork.sko.bodies import RigidBody
from linkwork.spatial.constants import product
from linkwork.topology.rotors import parallel


class CoaxialBody(NamedTuple):
    """A body on a rotor's carrier whose hinge axis is parallel to the rotor's: the rotor is a single row on it.

    `k` is that axis in the body's frame, `sign` whether it points along the rotor's, `hinge` whether the hinge's does, and
    `J` [kg m²] the rotor's inertia about it.
    """

    body: RigidBody
    k: int
    sign: float
    hinge: float
    J: float

    def relative_spin(self, rotor: RigidBody, of: Callable[[RigidBody], Any]) -> Any:
        """The rotor's rate relative to the body about their common axis, from the rates `of` joints."""
        return self.sign * (of(rotor) - self.hinge * of(self.body))


def coaxial_body(rotor: RigidBody, members: Sequence[RigidBody]) -> CoaxialBody | None:
    """The first body of a cluster that is coaxial with a rotor on the same carrier; None where there is none."""
    own = rotor.joint_map[:3, 0].astype(float)
    axis = product(rotor.X.R.astype(float), own)  # in the carrier's frame, where it is constant
    J = float(product(product(own, rotor.rigid.A), own))
    for body in members:
        if body is rotor or body.rotor or body.on is not rotor.on or not isinstance(body.joint.kind, Revolute):
            continue
        turn = body.X.turn
        own = np.asarray(body.joint_map[:3, 0], dtype=float)
        if turn is None or np.count_nonzero(own) != 1:
            continue
        there = product(turn.before, own)  # the hinge's axis in the carrier's frame: turning about it changes nothing
        k = int(np.argmax(np.abs(own)))
        if parallel(there, axis):
            sign = float(np.sign(product(there, axis)))
            return CoaxialBody(body, k, sign * float(np.sign(own[k])), sign, J)
    return None
