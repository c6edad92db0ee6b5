"""Joints as MuJoCo has them, free, ball, slide and hinge, several for one of several coordinates; and their states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Cylindrical, Free, Gimbal, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Universal
from linkwork.model import PlacedJoint
from linkwork.spatial import Pose
from linkwork.spatial.rotation import numeric_matrix, of_matrix

X, Y, Z = np.eye(3)


class Part(NamedTuple):
    """A MuJoCo joint: its type, its axis in the joint's frame, the suffix of its name, and its velocities in the joint's."""

    type: str
    axis: np.ndarray | None
    suffix: str
    velocities: tuple[int, ...]


def parts_of(kind: Joint, name: str) -> list[Part]:
    """The joints of MuJoCo that make a kind, in order."""
    if isinstance(kind, Free):
        return [Part("free", None, "", (0, 1, 2, 3, 4, 5))]
    if isinstance(kind, Spherical):
        return [Part("ball", None, "", (0, 1, 2))]
    if isinstance(kind, (Revolute, Prismatic)):
        return [Part("hinge" if isinstance(kind, Revolute) else "slide", kind.unit, "", (0,))]
    if isinstance(kind, Universal):
        return [Part("hinge", X, "_x", (0,)), Part("hinge", Y, "_y", (1,))]
    if isinstance(kind, Gimbal):
        return [Part("hinge", Z, "_z", (0,)), Part("hinge", Y, "_y", (1,)), Part("hinge", X, "_x", (2,))]
    if isinstance(kind, Cylindrical):
        return [Part("hinge", kind.unit, "_turn", (0,)), Part("slide", kind.unit, "_slide", (1,))]
    if isinstance(kind, Helical):
        return [Part("hinge", kind.unit, "", (0,)), Part("slide", kind.unit, "_slide", ())]
    if isinstance(kind, Planar):
        x, y, z = np.asarray(kind.straightened()[1].R, dtype=float).T
        return [Part("slide", x, "_x", (0,)), Part("slide", y, "_y", (1,)), Part("hinge", z, "_turn", (2,))]
    raise ModelError(f"joint {name!r}: MuJoCo has no {type(kind).__name__} joint")


def check_acting(joint: PlacedJoint) -> None:
    """That what acts in a planar joint, along axes that turn with the child, is the same along axes at rest."""
    if not isinstance(joint.kind, Planar):
        return
    for word in ("armature", "friction"):
        if any(getattr(joint, word)[:2]):
            told = f"its {word} acts along axes that turn with its child, and would act along axes at rest in MuJoCo"
            raise ModelError(f"joint {joint.name!r}: {told}")
    if joint.damping[0] != joint.damping[1]:
        raise ModelError(
            f"joint {joint.name!r}: its two dampings in the plane must be equal, since its axes turn with its child"
        )


def state_of(joint: PlacedJoint, place: Pose, q: np.ndarray, v: np.ndarray) -> tuple[list[float], list[float]]:
    """MuJoCo's qpos and qvel of the joints that make one here, at its own q and v; `place` is that of its frame in the body."""
    kind = joint.kind
    if isinstance(kind, Free):  # there: in the world, linear velocity first and along its axes
        there = joint.place.then(Pose(numeric_matrix(q[3:]), q[:3]))
        return [*position(there), *quaternion(there)], [*_turned(there, v[3:]), *v[:3].tolist()]
    if isinstance(kind, Spherical):  # there: in the axes of the body
        turn = of_matrix(numeric_matrix(q))
        return [float(turn[3]), *_turned(place, turn[:3])], _turned(place, v)
    speed = np.array([float(x) for x in kind.rate(q, v)])
    if isinstance(kind, Helical):
        return [float(q[0]), kind.pitch * float(q[0])], [float(speed[0]), kind.pitch * float(speed[0])]
    return q.tolist(), speed.tolist()


def position(pose: Pose) -> list[float]:
    """x y z of a constant pose."""
    return [float(x) for x in pose.p]


def quaternion(pose: Pose) -> list[float]:
    """w x y z of a constant pose."""
    x, y, z, w = (float(part) for part in of_matrix(np.asarray(pose.R, dtype=float)))
    return [w, x, y, z]


def _turned(pose: Pose, vector: np.ndarray) -> list[float]:
    return (np.asarray(pose.R, dtype=float) @ np.asarray(vector, dtype=float)).tolist()
