"""Rotors: bodies that are symmetric about the axis they spin on.

Turning changes nothing about where a rotor's mass is. So its mass, and its inertia across the axis, are lumped into the body
that carries it, where they are constant; what remains of it is its inertia about the axis. Its frame need not turn with it
either. Exact, and nearly free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linkwork.joints import Revolute
from linkwork.model.bodies import MovingBody
from linkwork.model.loops import Loop
from linkwork.model.parts import GROUND, PlacedJoint
from linkwork.spatial import Inertia

if TYPE_CHECKING:
    from linkwork.model.model import Model

SAME = 1e-12  # relative


def lumped(model: Model) -> tuple[tuple[Inertia, bool], ...]:
    """Every body's inertia with its rotors' lumped in, and whether it is a rotor itself."""
    carrying = {joint.parent for joint in model.joints}
    for constraint in (*model.constraints, *model.held):
        if isinstance(constraint, Loop):
            carrying |= {constraint.predecessor.body, constraint.successor.body}
    inertias = [body.inertia for body in model.bodies]
    rotors = [k for k, joint in enumerate(model.joints) if k not in carrying and is_rotor(joint, inertias[k])]
    for k in rotors:
        joint = model.joints[k]
        u = np.array(joint.kind.axis)  # type: ignore[attr-defined]
        about = Inertia((u @ inertias[k].A @ u) * np.outer(u, u), np.zeros((3, 3)), np.zeros((3, 3)), 0.0)
        across = Inertia(inertias[k].A - about.A, inertias[k].B, inertias[k].D, inertias[k].mass)
        inertias[joint.parent] = inertias[joint.parent] + joint.place.congruence(across)
        inertias[k] = about
    return tuple((inertia.constant(), k in rotors) for k, inertia in enumerate(inertias))


def is_rotor(joint: PlacedJoint, inertia: Inertia) -> bool:
    """Whether a body is symmetric about the axis of the hinge that holds it on another body."""
    if not isinstance(joint.kind, Revolute) or joint.parent == GROUND or not np.any(inertia.A):
        return False
    u, A, h = np.array(joint.kind.axis), inertia.A, inertia.h
    across = A - (u @ A @ u) * np.outer(u, u)
    round_ = 0.5 * np.trace(across) * (np.eye(3) - np.outer(u, u))
    return bool(
        np.abs(across - round_).max() <= SAME * np.abs(A).max()
        and np.abs(np.cross(u, h)).max() <= SAME * max(np.abs(h).max(), 1e-300)
    )


class Host(NamedTuple):
    """Where a rotor is at home: a body on the same carrier whose hinge has the rotor's axis.

    `k` is that axis in the body's frame, `sign` whether it points along the rotor's, `hinge` whether the hinge's does, and
    `J` [kg m²] the rotor's inertia about it.
    """

    body: MovingBody
    k: int
    sign: float
    hinge: float
    J: float

    def excess(self, rotor: MovingBody, of: Callable[[MovingBody], Any]) -> Any:
        """What the rotor has more than its host about the host's axis, of something that every joint has."""
        return self.sign * (of(rotor) - self.hinge * of(self.body))


def host_of(rotor: MovingBody, members: Sequence[MovingBody]) -> Host | None:
    """The first body of a cluster that can be a rotor's host; None where there is none."""
    axis = rotor.X.R.astype(float) @ rotor.joint_map[:3, 0].astype(float)  # in the carrier's frame, where it is constant
    J = float(rotor.joint_map[:3, 0] @ rotor.M.A @ rotor.joint_map[:3, 0])
    for body in members:
        if body is rotor or body.spins or body.on is not rotor.on or not isinstance(body.joint.kind, Revolute):
            continue
        turn = body.X.turn
        own = np.asarray(body.joint_map[:3, 0], dtype=float)
        if turn is None or np.count_nonzero(own) != 1:
            continue
        there = turn.before @ own  # the hinge's axis in the carrier's frame: turning about it changes nothing
        k = int(np.argmax(np.abs(own)))
        if abs(abs(there @ axis) - 1.0) < SAME:
            sign = float(np.sign(there @ axis))
            return Host(body, k, sign * float(np.sign(own[k])), sign, J)
    return None
