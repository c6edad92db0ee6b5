"""A model as URDF, with its loops as <loop> and its couplings as <mimic> or <coupling>.

Where URDF has no word, those of docs/loops apply: joints of further types, and springs and armature in <dynamics>.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.export_text import Tag, rpy
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    PointOnLine,
    Prismatic,
    Revolute,
    Rod,
    Spherical,
    Universal,
)
from linkwork.model import GROUND, WORLD, Model, PlacedJoint
from linkwork.parts import Coupling, End, Geometry, Loop
from linkwork.spatial import Pose

TYPES: dict[type[Joint], str] = {
    Revolute: "continuous",
    Prismatic: "prismatic",
    Fixed: "fixed",
    Free: "floating",
    Planar: "planar",
    Spherical: "spherical",
    Universal: "universal",
    Gimbal: "gimbal",
    Cylindrical: "cylindrical",
    Helical: "helical",
    PointOnLine: "point_on_line",
    Rod: "rod",
}
WIDE = 1e16  # for a limit that is none, where the other one is


def urdf_text(model: Model) -> str:
    """The URDF of a model; ModelError names what cannot be written. Gravity is not in it, since URDF has no word for it."""
    robot = Tag("robot", name=model.name)
    robot.add("link", name=WORLD)
    names = [body.name for body in model.bodies]
    shapes: dict[int, list[Geometry]] = {}
    for shape in model.geometries:
        shapes.setdefault(shape.body, []).append(shape)
    _shapes(robot.children[0], shapes.get(GROUND, []))
    for body in model.bodies:
        link = robot.add("link", name=body.name)
        if body.mass or np.any(body.moment):
            inertial = link.add("inertial")
            inertial.add("origin", xyz=body.center)
            inertial.add("mass", value=body.mass)
            I = body.moment
            inertial.add("inertia", ixx=I[0, 0], ixy=I[0, 1], ixz=I[0, 2], iyy=I[1, 1], iyz=I[1, 2], izz=I[2, 2])
        _shapes(link, shapes.get(body.index, []))
    followers = _mimics(model)
    for joint in model.joints:
        parent = WORLD if joint.parent == GROUND else names[joint.parent]
        _joint(robot, joint, parent, names[joint.child], followers.get(joint.child))
    _frames(robot, model, names)
    for constraint in model.loops:
        if isinstance(constraint, Loop):
            _loop(robot, constraint, names)
        elif isinstance(constraint, Coupling):
            if not any(constraint is mimic for mimic, _ in followers.values()):
                _coupling(robot, constraint, model)
        else:
            raise ModelError(f"{constraint.name!r} is an implicit constraint, which URDF cannot express")
    return '<?xml version="1.0"?>\n' + robot.text()


def _type(kind: Joint, name: str) -> str:
    found = TYPES.get(type(kind))
    if found is None:
        raise ModelError(f"joint {name!r}: URDF cannot express a {type(kind).__name__}")
    return found


def _kind(tag: Tag, kind: Joint) -> None:
    """The axis, pitch or length of a joint."""
    axis = getattr(kind, "axis", None)
    if axis is not None:
        tag.add("axis", xyz=axis)
    if isinstance(kind, Helical):
        tag.attributes["pitch"] = repr(kind.pitch)
    if isinstance(kind, Rod):
        tag.attributes["length"] = repr(float(kind.length))


def _origin(tag: Tag, pose: Pose) -> None:
    tag.add("origin", xyz=np.asarray(pose.p, dtype=float), rpy=rpy(pose))


def _joint(robot: Tag, joint: PlacedJoint, parent: str, child: str, mimic: tuple[Coupling, dict[str, Any]] | None) -> None:
    type_ = _type(joint.kind, joint.name)
    limited = joint.nv == 1 and any(math.isfinite(x) for x in (*joint.lower, *joint.upper))
    if type_ == "continuous" and limited:
        type_ = "revolute"
    choice: Any = joint.independent
    if isinstance(choice, tuple):
        choice = " ".join("false" if x is False else "true" for x in choice)
    tag = robot.add("joint", name=joint.name, type=type_, independent=choice)
    tag.add("parent", link=parent)
    tag.add("child", link=child)
    _origin(tag, joint.place)
    _kind(tag, joint.kind)
    if joint.nv == 1:
        bounds: dict[str, Any] = {}
        if limited:
            bounds |= {"lower": max(joint.lower[0], -WIDE), "upper": min(joint.upper[0], WIDE)}
        bounds |= {"effort": joint.max_effort[0]} if math.isfinite(joint.max_effort[0]) else {}
        bounds |= {"velocity": joint.max_velocity[0]} if math.isfinite(joint.max_velocity[0]) else {}
        if bounds:
            tag.add("limit", **bounds)
    acting = {word: getattr(joint, word) for word in ("damping", "friction", "stiffness", "rest", "armature")}
    acting = {word: values for word, values in acting.items() if any(values)}
    if acting:
        tag.add("dynamics", **acting)
    if mimic:
        tag.add("mimic", **mimic[1])


def _mimics(model: Model) -> dict[int, tuple[Coupling, dict[str, Any]]]:
    """Couplings that say that one joint follows one other, by the follower; each joint follows once, and no follower leads."""
    found: dict[int, tuple[Coupling, dict[str, Any]]] = {}
    for constraint in model.loops:
        if not isinstance(constraint, Coupling) or len(constraint.terms) != 2:
            continue
        (a, _, x), (b, _, y) = constraint.terms
        one = model.joints[a].name, model.joints[b].name
        if constraint.name != f"{one[0]} follows {one[1]}" or a in found:
            continue
        found[a] = constraint, {"joint": one[1], "multiplier": -y / x, "offset": constraint.offset / x}
    return found


def _frames(robot: Tag, model: Model, names: list[str]) -> None:
    """Frames and merged links are links without mass, held fast."""
    taken = {joint.name for joint in model.joints} | {frame.joint for frame in model.frames if frame.joint}
    for frame in model.frames:
        if frame.body != GROUND and frame.name == names[frame.body]:
            continue
        robot.add("link", name=frame.name)
        name = frame.joint or f"{frame.name}_fixed"
        while not frame.joint and name in taken:
            name += "_"
        taken.add(name)
        tag = robot.add("joint", name=name, type="fixed")
        tag.add("parent", link=WORLD if frame.body == GROUND else names[frame.body])
        tag.add("child", link=frame.name)
        _origin(tag, frame.place)


def _loop(robot: Tag, loop: Loop, names: list[str]) -> None:
    tag = robot.add("loop", name=loop.name, type=_type(loop.kind, loop.name))

    def end(role: str, at: End) -> None:
        place = tag.add(role, link=WORLD if at.body == GROUND else names[at.body])
        _origin(place, at.place)

    end("predecessor", loop.predecessor)
    end("successor", loop.successor)
    _kind(tag, loop.kind)


def _coupling(robot: Tag, coupling: Coupling, model: Model) -> None:
    tag = robot.add("coupling", name=coupling.name)
    for k, _, coefficient in coupling.terms:
        tag.add("term", joint=model.joints[k].name, coefficient=coefficient)
    if coupling.offset:
        tag.add("offset", value=coupling.offset)


def _shapes(link: Tag, shapes: list[Geometry]) -> None:
    """Boxes, spheres, cylinders and meshes; URDF has no others."""
    for shape in shapes:
        words: dict[str, Any]
        if shape.shape == "box":
            words = {"size": shape.size}
        elif shape.shape == "sphere":
            words = {"radius": shape.size[0]}
        elif shape.shape == "cylinder":
            words = {"radius": shape.size[0], "length": shape.size[1]}
        elif shape.shape == "mesh" and shape.mesh:
            words = {"filename": shape.mesh, "scale": shape.scale}
        else:
            continue
        for wanted, tag in ((shape.visual, "visual"), (shape.collision, "collision")):
            if wanted:
                element = link.add(tag, name=shape.name)
                _origin(element, shape.place)
                element.add("geometry").add(shape.shape, **words)
