"""A model as MJCF: its spanning tree, with loops and couplings as equalities.

A joint of several coordinates becomes several joints of one body, and so do joints of links without mass, which MuJoCo has not.
"""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.export_mjcf_joints import check_acting, parts_of, position, quaternion, state_of
from linkwork.formats.export_text import Tag
from linkwork.formats.folders import Folders, find_mesh
from linkwork.formats.mjcf_equalities import polynomial
from linkwork.joints import Fixed, Free, Gimbal, Helical, Revolute, Spherical
from linkwork.model import GROUND, Model, PlacedJoint
from linkwork.parts import Actuator, Coupling, End, Geometry, ImplicitConstraint, Loop, LoopConstraint
from linkwork.spatial import Pose

READ = (".stl", ".obj", ".msh")  # files of meshes that MuJoCo reads


def mjcf_text(model: Model, meshes: str | None = None, written_to: str | None = None) -> str:
    """The MJCF of a model, for a file in the folder `written_to`; meshes are named where the folder `meshes` has them.

    ModelError names what cannot be written.
    """
    return _Writer(model, meshes, written_to).write()


class _Writer:
    def __init__(self, model: Model, meshes: str | None, written_to: str | None) -> None:
        self.model = model
        self.folders = None if meshes is None else Folders(None, [meshes])
        self.root = Tag("mujoco", model=model.name)
        compiler: dict[str, Any] = {
            "angle": "radian",
            "autolimits": False,
            "balanceinertia": False,
            "boundmass": 0,
            "boundinertia": 0,
        }
        if meshes is not None:
            compiler["meshdir"] = os.path.relpath(meshes, written_to) if written_to is not None else os.path.abspath(meshes)
        self.root.add("compiler", **compiler, inertiafromgeom="auto")
        self.root.add("option", gravity=model.gravity)
        self.asset = self.root.add("asset")
        self.world = self.root.add("worldbody")
        self.joints: dict[int, list[tuple[PlacedJoint, Pose]]] = {}  # of each <body>, with their places in it
        self.meshes: dict[tuple[str, tuple[float, ...]], str] = {}
        self.bodies: dict[int, Tag] = {GROUND: self.world}
        self.frames: dict[int, Pose] = {GROUND: Pose.identity()}  # of the body here in the MuJoCo body that it is part of
        self.sites = 0
        self.equality = Tag("equality")
        self.tendon = Tag("tendon")

    def write(self) -> str:
        model = self.model
        merged = self._merged()
        for joint in model.joints:
            if joint.child not in merged:
                self._body(joint, merged)
        for frame in model.frames:
            if frame.body == GROUND or frame.name != model.bodies[frame.body].name:
                self._site(End(frame.body, frame.place), frame.name)
        for shape in model.geometries:
            self._geometry(shape)
        for constraint in model.loops:
            self._constraint(constraint)
        actuators = Tag("actuator")
        for actuator in model.actuators:
            self._actuator(actuators, actuator)
        keyframes = Tag("keyframe")
        self._keyframes(keyframes)
        self.root.children += [tag for tag in (self.tendon, self.equality, actuators, keyframes) if tag.children]
        if not self.asset.children:
            self.root.children.remove(self.asset)
        return self.root.text()

    # bodies

    def _merged(self) -> dict[int, int]:
        """Bodies without mass that move one other, which takes their joint over; their only child."""
        model = self.model
        children: dict[int, list[int]] = {}
        for joint in model.joints:
            children.setdefault(joint.parent, []).append(joint.child)
        used = {end.body for loop in model.loops for end in loop.ends} | {shape.body for shape in model.geometries}
        used |= {frame.body for frame in model.frames if frame.body != GROUND and frame.name != model.bodies[frame.body].name}
        found = {}
        for body in model.bodies:
            if body.mass > 0.0:
                continue
            below = children.get(body.index, [])
            if len(below) != 1 or body.index in used or np.any(body.moment) or isinstance(model.joints[body.index].kind, Free):
                raise ModelError(f"body {body.name!r} moves and has no mass, which MuJoCo does not allow")
            found[body.index] = below[0]
        return found

    def _body(self, last: PlacedJoint, merged: dict[int, int]) -> None:
        """A body with its own joint and those of the bodies without mass before it."""
        model = self.model
        chain = [last]
        while chain[0].parent in merged:
            chain.insert(0, model.joints[chain[0].parent])
        parent = chain[0].parent
        places = []  # of each joint in the parent, where all are neutral
        at = Pose.identity()
        for joint in chain:
            at = at.then(joint.place)
            places.append(at)
        body = model.bodies[last.child]
        if isinstance(last.kind, Free) and (len(chain) > 1 or parent != GROUND):
            raise ModelError(f"joint {last.name!r} is free, but not on the world: MuJoCo has no such joint")
        tag = self.bodies[parent].add("body", name=body.name, pos=position(at), quat=quaternion(at))
        self.bodies[body.index] = tag
        back = at.inverse()
        self.joints[id(tag)] = [(joint, back.then(place)) for joint, place in zip(chain, places)]
        for joint, place in self.joints[id(tag)]:
            self._joints(tag, joint, place)
        I = body.moment
        full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        tag.add("inertial", pos=body.center, mass=body.mass, fullinertia=full)

    def _joints(self, tag: Tag, joint: PlacedJoint, place: Pose) -> None:
        """The joints of MuJoCo that make one here, placed in their body's frame."""
        check_acting(joint)
        for part in parts_of(joint.kind, joint.name):
            words: dict[str, Any] = {"name": joint.name + part.suffix, "type": part.type}
            if part.type != "free":
                words["pos"] = position(place)
            if part.axis is not None:
                words["axis"] = np.asarray(place.R, dtype=float) @ part.axis
            for word, called in (("damping", "damping"), ("armature", "armature"), ("friction", "frictionloss")):
                values = {getattr(joint, word)[k] for k in part.velocities}
                if len(values) > 1:
                    raise ModelError(f"joint {joint.name!r}: MuJoCo has one {word} for a {part.type} joint, and not several")
                if any(values):
                    words[called] = values.pop()
            stiffness = joint.stiffness[part.velocities[0]] if part.velocities else 0.0
            if stiffness:
                words |= {"stiffness": stiffness}
            if stiffness and len(part.velocities) == 1:
                words |= {"springref": joint.rest[part.velocities[0]]}
            if len(part.velocities) == 1 and joint.nq == joint.nv:
                low, high = joint.lower[part.velocities[0]], joint.upper[part.velocities[0]]
                if math.isfinite(low) or math.isfinite(high):
                    words |= {"limited": True, "range": (max(low, -1e10), min(high, 1e10))}
            tag.add("joint", **words)
        if isinstance(joint.kind, Helical):
            one, two = f"{joint.name}_slide", f"{joint.name}"
            self.equality.add("joint", joint1=one, joint2=two, polycoef=(0, joint.kind.pitch, 0, 0, 0))

    # what is attached

    def _site(self, end: End, name: str | None = None) -> str:
        if name is None:
            self.sites += 1
            name = f"end {self.sites}"
        self.bodies[end.body].add("site", name=name, pos=position(end.place), quat=quaternion(end.place))
        return name

    def _geometry(self, shape: Geometry) -> None:
        size = {
            "box": [x / 2 for x in shape.size],
            "cylinder": [*shape.size[:1], *(x / 2 for x in shape.size[1:])],
            "capsule": [*shape.size[:1], *(x / 2 for x in shape.size[1:])],
            "plane": [*shape.size[:2], 1.0],
        }.get(shape.shape, list(shape.size))
        mesh = self._mesh(shape) if shape.shape == "mesh" else None
        if mesh is None and shape.shape not in ("box", "sphere", "cylinder", "capsule", "ellipsoid", "plane"):
            return
        touching = shape.collision
        self.bodies[shape.body].add(
            "geom",
            name=shape.name,
            type=shape.shape,
            size=size if mesh is None else None,
            mesh=mesh,
            pos=position(shape.place),
            quat=quaternion(shape.place),
            rgba=shape.rgba,
            friction=shape.friction if len(shape.friction) == 3 else None,
            contype=shape.contype if touching else 0,
            conaffinity=shape.conaffinity if touching else 0,
            condim=shape.condim,
            margin=shape.margin,
        )

    def _mesh(self, shape: Geometry) -> str | None:
        """The name of a mesh, which is written once; None where meshes are left out, or MuJoCo does not read its file."""
        if self.folders is None or not shape.mesh.lower().endswith(READ):
            return None
        file = self.folders.inside(str(find_mesh(shape.mesh, self.folders)))
        if (file, shape.scale) not in self.meshes:
            name = f"mesh {len(self.meshes) + 1}"
            self.meshes[file, shape.scale] = name
            self.asset.add("mesh", name=name, file=file, scale=shape.scale if set(shape.scale) != {1.0} else None)
        return self.meshes[file, shape.scale]

    def _keyframes(self, into: Tag) -> None:
        """States by name, in the order of MuJoCo's joints: bodies depth first, as they are written."""
        order: list[tuple[PlacedJoint, Pose]] = []
        waiting = [self.world]
        while waiting:
            tag = waiting.pop()
            order += self.joints.get(id(tag), [])
            waiting += [child for child in reversed(tag.children) if child.tag == "body"]
        for name, (q, v) in self.model.keyframes.items():
            states = [state_of(joint, place, q[joint.q_slice], v[joint.v_slice]) for joint, place in order]
            qpos, qvel = ([x for state in states for x in state[k]] for k in (0, 1))
            into.add("key", name=name, qpos=qpos or None, qvel=qvel if any(qvel) else None)

    def _actuator(self, into: Tag, actuator: Actuator) -> None:
        if len(actuator.joints) != 1 or actuator.transmission != "joint" or actuator.gain[0] not in ("fixed", "affine"):
            return
        ((joint, ratio),) = actuator.joints
        limited = math.isfinite(actuator.control_range[1])
        forced = math.isfinite(actuator.force_range[1])
        into.add(
            "general",
            name=actuator.name,
            joint=joint,
            gear=ratio,
            gaintype=actuator.gain[0],
            gainprm=actuator.gain[1],
            biastype=actuator.bias[0],
            biasprm=actuator.bias[1] or None,
            ctrllimited=limited,
            ctrlrange=actuator.control_range if limited else None,
            forcelimited=forced,
            forcerange=actuator.force_range if forced else None,
        )

    # equalities

    def _constraint(self, constraint: LoopConstraint) -> None:
        if isinstance(constraint, Loop):
            self._loop(constraint)
        elif isinstance(constraint, Coupling):
            self._coupling(constraint)
        else:
            self._polynomial(constraint)

    def _loop(self, loop: Loop) -> None:
        ends = loop.predecessor, loop.successor
        if isinstance(loop.kind, Fixed):
            one, two = map(self._site, ends)
            self.equality.add("weld", name=loop.name, site1=one, site2=two)
        elif isinstance(loop.kind, (Spherical, Gimbal)):
            one, two = map(self._site, ends)
            self.equality.add("connect", name=loop.name, site1=one, site2=two)
        elif isinstance(loop.kind, Revolute):  # two points of the axis: one of the six equations is redundant
            length = 0.1
            for point, suffix in ((0.0, ""), (length, " (axis)")):
                along = Pose.translation(point * loop.kind.unit)
                one, two = (self._site(End(end.body, end.place.then(along))) for end in ends)
                self.equality.add("connect", name=loop.name + suffix, site1=one, site2=two)
        else:
            kind = type(loop.kind).__name__
            told = f"MuJoCo has no equality for a {kind}, only for Fixed, Spherical and Revolute"
            raise ModelError(f"loop {loop.name!r}: {told}")

    def _coupling(self, coupling: Coupling) -> None:
        names = [(self._one(k), c) for k, _, c in coupling.terms]
        if len(names) <= 2:
            (one, a), *others = names
            first = coupling.offset / a
            more = {"joint2": others[0][0]} if others else {}
            ratio = -others[0][1] / a if others else 0.0
            self.equality.add("joint", name=coupling.name, joint1=one, **more, polycoef=(first, ratio, 0, 0, 0))
            return
        fixed = self.tendon.add("fixed", name=coupling.name)
        for joint, c in names:
            fixed.add("joint", joint=joint, coef=c)
        self.equality.add("tendon", name=coupling.name, tendon1=coupling.name, polycoef=(coupling.offset, 0, 0, 0, 0))

    def _one(self, k: int) -> str:
        return self.model.joints[k].name

    def _polynomial(self, constraint: LoopConstraint) -> None:
        """A polynomial of one joint in another, as MJCF gave it."""
        assert isinstance(constraint, ImplicitConstraint)
        function = constraint.function
        if isinstance(function, functools.partial) and function.func is polynomial:
            a, weights = function.args
            ys = [k for k, (y, x) in zip(constraint.joints, weights) if (y, x) == (1.0, 0.0)]
            xs = [k for k, (y, x) in zip(constraint.joints, weights) if (y, x) == (0.0, 1.0)]
            if len(ys) == 1 and len(ys) + len(xs) == len(weights) and len(xs) <= 1:
                more = {"joint2": self._one(xs[0])} if xs else {}
                whole = (*a, *(0.0,) * (5 - len(a)))
                self.equality.add("joint", name=constraint.name, joint1=self._one(ys[0]), **more, polycoef=whole)
                return
        raise ModelError(f"{constraint.name!r} is an implicit constraint, which MJCF cannot express")
