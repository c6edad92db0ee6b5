"""Export of a model as MJCF: its spanning tree, equalities for loops and couplings, and a description.

A joint with several DoF becomes several joints of one body, and so do joints of massless links, which MuJoCo
does not support.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats import export_mjcf_shapes as shapes
from linkwork.formats.description import describe
from linkwork.formats.export_checks import Losses
from linkwork.formats.export_mjcf_actuators import add_actuators
from linkwork.formats.export_mjcf_equalities import Equalities
from linkwork.formats.export_mjcf_inertia import inertial
from linkwork.formats.export_mjcf_joints import check_acting, parts_of, position, quaternion, state_of
from linkwork.formats.export_mjcf_tendons import add_spatial_tendons, add_tendons, tendons_of
from linkwork.formats.export_text import Names, Tag
from linkwork.formats.export_urdf import urdf_compact
from linkwork.formats.folders import Folders, find_mesh
from linkwork.formats.xml import MAX_DEPTH_BY_ROOT
from linkwork.joints import Free
from linkwork.mechanism import Around, End, Geometry
from linkwork.mechanism.actuator_laws import has_dynamics
from linkwork.model import GROUND, Model, PlacedJoint
from linkwork.spatial import Pose

PRIMITIVES = ("box", "sphere", "cylinder", "capsule", "ellipsoid", "plane")
MESH_SUFFIXES = (".stl", ".obj", ".msh")  # that MuJoCo can read
NO_LIMIT = 1e10  # an infinite limit whose counterpart is finite


def mjcf_text(model: Model, losses: Losses, meshes: str | None = None, written_to: str | None = None) -> str:
    """Return the MJCF of a model for a file in the folder `written_to`, with meshes of the folder `meshes`.

    Raises ModelError for losses that are not allowed.
    """
    root = _Writer(model, losses, meshes, written_to).write()
    describe(root, urdf_compact(model, losses))
    return root.text()


class _Writer:
    def __init__(self, model: Model, losses: Losses, meshes: str | None, written_to: str | None) -> None:
        self.model = model
        self.losses = losses
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
            compiler["meshdir"] = (
                os.path.relpath(meshes, written_to) if written_to is not None else os.path.abspath(meshes)
            )
        self.root.add("compiler", **compiler, inertiafromgeom="auto")
        self.root.add("option", gravity=model.gravity)
        self.asset = self.root.add("asset")
        self.world = self.root.add("worldbody")
        self.names = Names()
        self.names.taken["joint"] = {joint.name for joint in model.joints}  # those of their parts give way
        self.joints: dict[int, list[tuple[PlacedJoint, Pose]]] = {}  # of each <body>, with their places in it
        self.meshes: dict[tuple[str, tuple[float, ...]], str] = {}
        self.bodies: dict[int, Tag] = {GROUND: self.world}
        self.depths: dict[int, int] = {GROUND: 2}
        self.parts: dict[str, list[str]] = {}  # the names of MuJoCo's joints that make each joint
        self.written: dict[str, str] = {}  # names of shapes -> their names there
        self.tendon = Tag("tendon")
        self.tendons = tendons_of(model)
        self.standing = {id(coupling) for coupling in self.tendons.values()}
        self.equalities = Equalities(model, losses, self.names, self._site, self.tendon)

    def write(self) -> Tag:
        model = self.model
        merged = self._merged()
        for joint in model.joints:
            if joint.child not in merged and joint.child not in self.tendons:
                self._body(joint, merged)
        sites = {}
        for frame in model.frames:
            if frame.body == GROUND or frame.name != model.bodies[frame.body].name:
                sites[frame.name] = self._site(End(frame.body, frame.place), frame.name)
        for shape in model.geometries:
            self._geometry(shape)
        add_tendons(self.tendon, model, self.tendons, self.names, self.losses)
        for constraint in model.loops:
            if id(constraint) not in self.standing:
                self.equalities.add(constraint)
        contact = shapes.contact(model, self.written)
        actuators = Tag("actuator")
        spatial = add_spatial_tendons(self.tendon, model, self.names, self._site, self._wrapped)
        driving = add_actuators(actuators, self.tendon, model, self.losses, self.names, sites, spatial)
        self._weights()
        keyframes = Tag("keyframe")
        self._keyframes(keyframes, driving)
        every = (contact, self.tendon, self.equalities.tag, actuators, keyframes)
        self.root.children += [tag for tag in every if tag.children]
        if not self.asset.children:
            self.root.children.remove(self.asset)
        return self.root

    # bodies

    def _merged(self) -> dict[int, int]:
        """Return massless bodies whose only child takes over their joint, with that child."""
        model = self.model
        children: dict[int, list[int]] = {}
        for joint in model.joints:
            children.setdefault(joint.parent, []).append(joint.child)
        used = {end.body for loop in model.loops for end in loop.ends} | {
            shape.body for shape in model.geometries
        }
        used |= {
            frame.body
            for frame in model.frames
            if frame.body != GROUND and frame.name != model.bodies[frame.body].name
        }
        only_child = {}
        for body in model.bodies:
            if body.mass > 0.0 or body.index in self.tendons:
                continue
            below = children.get(body.index, [])
            if (
                len(below) != 1
                or body.index in used
                or np.any(body.moment)
                or isinstance(model.joints[body.index].kind, Free)
            ):
                raise ModelError(
                    f"body {body.name!r}: MuJoCo supports massless moving bodies only as part of one other "
                    "body"
                )
            only_child[body.index] = below[0]
        return only_child

    def _body(self, last: PlacedJoint, merged: dict[int, int]) -> None:
        """Add a body with its joint and those of the massless bodies before it."""
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
            raise ModelError(f"joint {last.name!r}: MuJoCo supports free joints only on the world")
        tag = self.bodies[parent].add("body", name=body.name, pos=position(at), quat=quaternion(at))
        self.bodies[body.index] = tag
        self.depths[body.index] = depth = self.depths[parent] + 1
        if depth >= MAX_DEPTH_BY_ROOT["mujoco"] - 2:
            raise ModelError(
                f"body {body.name!r}: nested deeper than {depth - 3} bodies, the limit for reading MJCF"
            )
        back = at.inverse()
        carried = [(joint, back.then(place)) for joint, place in zip(chain[:-1], places)]
        self.joints[id(tag)] = [*carried, (last, Pose.identity())]
        for joint, place in self.joints[id(tag)]:
            self._joints(tag, joint, place)
        inertial(tag, body)

    def _joints(self, tag: Tag, joint: PlacedJoint, place: Pose) -> None:
        """Add the MuJoCo joints of a joint, placed in their body's frame."""
        acting = check_acting(joint, self.losses)
        self.parts[joint.name] = []
        for part in parts_of(joint.kind, joint.name):
            name = self.names.new("joint", joint.name + part.suffix) if part.suffix else joint.name
            self.parts[joint.name].append(name)
            words: dict[str, Any] = {"name": name, "type": part.type}
            if part.type != "free":
                words["pos"] = position(place)
            if part.axis is not None:
                words["axis"] = np.asarray(place.R, dtype=float) @ part.axis
            for word, called in (
                ("damping", "damping"),
                ("armature", "armature"),
                ("friction", "frictionloss"),
            ):
                value = acting[word][part.velocities[0]] if part.velocities else 0.0
                words[called] = value or None
            stiffness = joint.stiffness[part.velocities[0]] if part.velocities else 0.0
            if stiffness:
                words |= {"stiffness": stiffness}
            if stiffness and len(part.velocities) == 1:
                words |= {"springref": joint.rest[part.velocities[0]]}
            if len(part.velocities) == 1 and joint.nq == joint.nv:
                words |= _limits(joint, part.velocities[0])
            if joint.max_angle < math.inf:
                words |= {"limited": True, "range": (0.0, joint.max_angle)}
            tag.add("joint", **words)
            if len(part.velocities) == 1 and joint.nq == joint.nv:
                self._hold(joint, part.velocities[0], name)
        self.equalities.couple_parts(joint, self.parts[joint.name])

    def _hold(self, joint: PlacedJoint, k: int, name: str) -> None:
        """Add an equality for a coordinate with equal limits, since MuJoCo's limits are wider than zero."""
        low = joint.lower[k]
        if low == joint.upper[k] and math.isfinite(low):
            called = self.names.new("equality", f"{name} is held")
            self.equalities.tag.add("joint", name=called, joint1=name, polycoef=(low, 0, 0, 0, 0))

    def _weights(self) -> None:
        """Add the compensated weights of bodies."""
        compensations = self.model.weight_compensations
        any_positive = any(each.fraction > 0.0 and each.mass is None for each in compensations)
        for each in compensations:
            if each.mass is not None or not any_positive:
                name = self.model.bodies[each.body].name
                message = "MuJoCo compensates weights of whole bodies, some of them by a positive part"
                self.losses.lose("gravity_scale", f"body {name!r}: {message}")
            else:
                self.bodies[each.body].attributes["gravcomp"] = repr(float(each.fraction))

    # what is attached

    def _site(self, end: End, name: str | None = None) -> str:
        name = self.names.new("site", name if name is not None else "end")
        self.bodies[end.body].add("site", name=name, pos=position(end.place), quat=quaternion(end.place))
        return name

    def _wrapped(self, shape: Around, name: str) -> str:
        """Add a shape that touches nothing, for a tendon around it; return its name."""
        name = self.names.new("geom", name)
        place = Pose.translation(np.array(shape.center))
        if shape.axis:
            z = np.array(shape.axis)
            x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
            x /= np.linalg.norm(x)
            place = Pose(np.column_stack([x, np.cross(z, x), z]), place.p)
        self.bodies[shape.body].add(
            "geom",
            name=name,
            type="cylinder" if shape.axis else "sphere",
            size=(shape.radius, shape.radius) if shape.axis else (shape.radius,),
            pos=position(place),
            quat=quaternion(place),
            contype=0,
            conaffinity=0,
            mass=0.0,
        )
        return name

    def _geometry(self, shape: Geometry) -> None:
        kind = shape.shape
        mesh = None
        field = None
        place = shape.place
        if shape.shape == "mesh":
            mesh = self._mesh(shape)
        elif shape.shape == "hull" and shape.vertices:
            kind = "mesh"
            mesh = shapes.hull(self.asset, shape)
        elif shape.shape == "heightfield" and shape.heights:
            kind, (field, place) = "hfield", shapes.height_field(self.asset, shape)
        collides = shape.collision
        moving_plane = shape.shape == "plane" and shape.body != GROUND  # MuJoCo has none
        if moving_plane or (mesh is None and field is None and shape.shape not in PRIMITIVES):
            if collides and (shape.contype or shape.conaffinity):
                hint = (
                    "; pass the folder of its file with meshes="
                    if shape.shape == "mesh" and self.folders is None
                    else ""
                )
                message = f"collision shape {shape.name!r}: a {shape.shape} cannot be exported{hint}"
                self.losses.lose("collision shapes", message)
            return
        name = self.names.new("geom", shape.name)
        self.written.setdefault(shape.name, name)
        self.bodies[shape.body].add(
            "geom",
            name=name,
            type=kind,
            size=shapes.sizes(shape),
            mesh=mesh,
            hfield=field,
            pos=position(place),
            quat=quaternion(place),
            rgba=shape.rgba,
            friction=shape.friction or None,
            contype=shape.contype if collides else 0,
            conaffinity=shape.conaffinity if collides else 0,
            condim=shape.condim,
            margin=shape.margin,
        )

    def _mesh(self, shape: Geometry) -> str | None:
        """Return the name of a mesh, written once.

        None if meshes are omitted or its format is unsupported.
        """
        if self.folders is None or not shape.mesh.lower().endswith(MESH_SUFFIXES):
            return None
        file = self.folders.inside(str(find_mesh(shape.mesh, self.folders)))
        if (file, shape.scale) not in self.meshes:
            name = f"mesh {len(self.meshes) + 1}"
            self.meshes[file, shape.scale] = name
            self.asset.add(
                "mesh", name=name, file=file, scale=shape.scale if set(shape.scale) != {1.0} else None
            )
        return self.meshes[file, shape.scale]

    def _keyframes(self, into: Tag, driving: list[int]) -> None:
        """Add keyframes in the order of MuJoCo's joints: bodies depth first, as written.

        `driving` are the indices of the actuators in the file.
        """
        order: list[tuple[PlacedJoint, Pose]] = []
        waiting = [self.world]
        while waiting:
            tag = waiting.pop()
            order += self.joints.get(id(tag), [])
            waiting += [child for child in reversed(tag.children) if child.tag == "body"]
        slow = [k for k in driving if has_dynamics(self.model.actuators[k])]
        for name, keyframe in self.model.keyframes.items():
            q, v = keyframe
            u = [keyframe.controls[k] for k in driving if len(keyframe.controls)]
            x = [keyframe.activations[k] for k in slow if len(keyframe.activations)]
            states = [state_of(joint, place, q[joint.q_slice], v[joint.v_slice]) for joint, place in order]
            qpos, qvel = ([x for state in states for x in state[k]] for k in (0, 1))
            words = {"qvel": qvel, "ctrl": u, "act": x}
            given = {word: values for word, values in words.items() if any(values)}
            into.add("key", name=name, qpos=qpos or None, **given)


def _limits(joint: PlacedJoint, k: int) -> dict[str, Any]:
    """Return the limits of a coordinate and its force; limits of zero width are equalities."""
    words: dict[str, Any] = {}
    low = joint.lower[k]
    high = joint.upper[k]
    if low < high and (math.isfinite(low) or math.isfinite(high)):
        words |= {"limited": True, "range": (max(low, -NO_LIMIT), min(high, NO_LIMIT))}
    effort = joint.max_effort[k]
    if 0.0 < effort < math.inf:
        words |= {"actuatorfrclimited": True, "actuatorfrcrange": (-effort, effort)}
    return words
