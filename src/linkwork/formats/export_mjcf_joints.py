"""Joints of a model as MuJoCo joints (free, ball, slide, hinge), one or several each, and their states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.export_checks import Losses
from linkwork.joints import (
    Cylindrical,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from linkwork.model import PlacedJoint
from linkwork.spatial import Pose
from linkwork.spatial.rotation import numeric_matrix, of_matrix

X, Y, Z = np.eye(3)


class Part(NamedTuple):
    """A MuJoCo joint: type, axis in the joint's frame, suffix of the name, and indices of its velocities."""

    type: str
    axis: np.ndarray | None
    suffix: str
    velocities: tuple[int, ...]


def parts_of(kind: Joint, name: str) -> list[Part]:
    """Return the MuJoCo joints that make a kind, in order."""
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
        x, y, z = np.asarray(kind.axis_aligned()[1].R, dtype=float).T
        return [Part("slide", x, "_x", (0,)), Part("slide", y, "_y", (1,)), Part("hinge", z, "_turn", (2,))]
    raise ModelError(f"joint {name!r}: MuJoCo does not support {type(kind).__name__} joints")


def check_acting(joint: PlacedJoint, losses: Losses) -> dict[str, tuple[float, ...]]:
    """Return damping, friction and armature of a joint for MuJoCo, with zeros for what is lost.

    Where axes rotate with the child, MuJoCo's are fixed. Damping must then be equal along all of them;
    armature acts on rates along rotating axes here, which differ from MuJoCo's accelerations by ω × v.
    """
    values_by_name = {name: getattr(joint, name) for name in ("damping", "friction", "armature")}
    rotating = {Free: slice(3, 6), Planar: slice(0, 2)}.get(type(joint.kind))
    for name, values in values_by_name.items():
        problem = ""
        if isinstance(joint.kind, (Free, Spherical)) and len({*values}) > 1:
            type_name = "free" if isinstance(joint.kind, Free) else "ball"
            problem = f"MuJoCo supports only one {name} value for a {type_name} joint"
        elif rotating is not None and name == "damping" and len({*values[rotating]}) > 1:
            problem = "expected equal damping in the plane, since the axes rotate with the child"
        elif rotating is not None and name != "damping" and any(values[rotating]):
            problem = f"{name} acts along axes that rotate with the child; in MuJoCo they are fixed"
        if problem:
            losses.lose(name, f"joint {joint.name!r}: {problem}")
            values_by_name[name] = (0.0,) * joint.nv
    return values_by_name


def state_of(
    joint: PlacedJoint, place: Pose, q: np.ndarray, v: np.ndarray
) -> tuple[list[float], list[float]]:
    """Return qpos and qvel of the MuJoCo joints of a joint; `place` is that of its frame in the body."""
    kind = joint.kind
    if isinstance(kind, Free):  # MuJoCo: linear velocity first, along the axes of the world
        world_pose = joint.place.then(Pose(numeric_matrix(q[3:]), q[:3]))
        return [*position(world_pose), *quaternion(world_pose)], [
            *_turned(world_pose, v[3:]),
            *v[:3].tolist(),
        ]
    if isinstance(kind, Spherical):  # MuJoCo: in the axes of the body
        turn = of_matrix(numeric_matrix(q))
        return [float(turn[3]), *_turned(place, turn[:3])], _turned(place, v)
    speed = np.array([float(x) for x in kind.rate(q, v)])
    if isinstance(kind, Helical):
        return [float(q[0]), kind.pitch * float(q[0])], [float(speed[0]), kind.pitch * float(speed[0])]
    return q.tolist(), speed.tolist()


def position(pose: Pose) -> list[float]:
    """Return x y z of a constant pose."""
    return [float(x) for x in pose.p]


def quaternion(pose: Pose) -> list[float]:
    """Return w x y z of a constant pose."""
    x, y, z, w = (float(part) for part in of_matrix(np.asarray(pose.R, dtype=float)))
    return [w, x, y, z]


def _turned(pose: Pose, vector: np.ndarray) -> list[float]:
    return (np.asarray(pose.R, dtype=float) @ np.asarray(vector, dtype=float)).tolist()
