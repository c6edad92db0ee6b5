"""Scopes and frames of SDF (sdformat.org, "pose semantics"), with all joints at zero."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.formats.sdf_includes import version_of
from linkwork.formats.urdf_parts import MAX_NAME, MAX_VALUE, unknown
from linkwork.formats.xml import Element
from linkwork.mechanism import WORLD
from linkwork.mechanism.names import printable
from linkwork.spatial import Pose
from linkwork.spatial.constants import product
from linkwork.spatial.pose import snapped
from linkwork.spatial.rotation import numeric_matrix

MODEL = "__model__"
NAMED = ("link", "joint", "frame", "model")
RESERVED = (MODEL, WORLD)


@dataclass
class Scope:
    """A model or world with its named parts and their poses in its frame, with all joints at zero."""

    element: Element
    # Links, joints, frames and nested models in file order.
    parts: dict[str, Element] = field(default_factory=dict)
    # Nested models.
    inner: dict[str, Scope] = field(default_factory=dict)
    # Poses of all parts, including those of nested models ("inner::link").
    poses: dict[str, Pose] = field(default_factory=dict)
    # The link that each part is fixed to, or "world".
    links: dict[str, str] = field(default_factory=dict)

    @property
    def is_world(self) -> bool:
        return self.element.tag == WORLD

    def all_links(self) -> list[tuple[str, Element, Scope]]:
        """Return all links with their names in this scope and the scope that declares them."""
        links = [(name, part, self) for name, part in self.parts.items() if part.tag == "link"]
        for prefix, scope in self.inner.items():
            links += [(f"{prefix}::{name}", part, declaring) for name, part, declaring in scope.all_links()]
        return links

    def all_joints(self, prefix: str = "") -> list[tuple[str, Element, Scope, str]]:
        """Return all joints with names in this scope, the declaring scope, and the prefix of its names."""
        joints = [
            (prefix + name, part, self, prefix) for name, part in self.parts.items() if part.tag == "joint"
        ]
        for inner, scope in self.inner.items():
            joints += scope.all_joints(f"{prefix}{inner}::")
        return joints


def scope_of(element: Element) -> Scope:
    """Return the scope of a model or world with all poses resolved."""
    scope = Scope(element)
    for child in element.children:
        if child.tag not in NAMED:
            continue
        name = child.word("name")
        if len(name) > MAX_NAME:
            raise child.error(f"name: longer than {MAX_NAME} characters")
        if name in scope.parts:
            first = scope.parts[name]
            raise child.error(f"duplicate name; the first is a <{first.tag}> in line {first.line}")
        if name in RESERVED or "::" in name or (name.startswith("__") and name.endswith("__")):
            raise child.error("reserved name")
        scope.parts[name] = child
        if child.tag == "model":
            scope.inner[name] = scope_of(child)
    _resolve_poses(scope)
    _resolve_links(scope)
    return scope


def child_of(joint: Element) -> str:
    """Return the name of a joint's child: a link or a frame."""
    name = joint.needed("child").content()
    if name == WORLD:
        raise joint.error("child: the world can only be the parent of a joint")
    return name


def pose_of(element: Element | None) -> Pose:
    """Return the pose of a <pose>."""
    if element is None or not element.text.strip():
        return Pose.identity()
    rotation_format = element.attributes.get("rotation_format", "euler_rpy")
    if rotation_format not in ("euler_rpy", "quat_xyzw"):
        raise element.error(
            f"rotation_format: expected euler_rpy or quat_xyzw, got {printable(rotation_format)!r}"
        )
    if rotation_format == "quat_xyzw":
        values = element.numbers("", 7, largest=MAX_VALUE)
        if not any(values[3:]):
            raise element.error("quaternion: expected a nonzero one")
        return Pose(snapped(numeric_matrix(np.array(values[3:])), 4e-16), np.array(values[:3]))
    values = element.numbers("", 6, largest=MAX_VALUE)
    degrees = element.attributes.get("degrees", "false") in ("true", "1")
    angles = [math.radians(x) for x in values[3:]] if degrees else list(values[3:])
    return Pose.from_xyz_rpy(values[:3], angles) if any(angles) else Pose.translation(np.array(values[:3]))


def relative_to(element: Element | None) -> str:
    """Return the frame that a <pose> names, or ""."""
    if element is None:
        return ""
    older = element.attributes.get("frame", "")
    return element.attributes.get("relative_to") or (older if older and version_of(element) < (1, 7) else "")


# poses


def _resolve_poses(scope: Scope) -> None:
    """Compute the poses of all parts in the frame of the scope."""
    poses: dict[str, Pose] = {WORLD if scope.is_world else MODEL: Pose.identity()}
    for start in scope.parts:
        path: dict[str, None] = {}  # names that wait for others, in order
        name = start
        while name not in poses:
            if name in path:
                raise scope.parts[name].error("cyclic pose: relative to itself through others")
            path[name] = None
            name = _owner(scope, name, _reference(scope, scope.parts[name]))
        for pending in reversed(path):
            part = scope.parts[pending]
            _place(scope, pending, poses, poses[_reference(scope, part)])
    scope.poses = poses


def _place(scope: Scope, name: str, poses: dict[str, Pose], reference: Pose) -> None:
    part = scope.parts[name]
    pose = reference.then(pose_of(part.one("pose")))
    if part.tag != "model":
        poses[name] = pose
        return
    inner = scope.inner[name]
    placed = part.attributes.get("placement_frame", "")
    if placed:
        if placed not in inner.poses:
            raise unknown(part, "frame", placed, inner.poses)
        pose = pose.then(inner.poses[placed].inverse())
    poses[name] = pose
    for inner_name, inner_pose in inner.poses.items():
        poses[f"{name}::{inner_name}"] = pose.then(inner_pose)


def _reference(scope: Scope, part: Element) -> str:
    """Return the frame in which a part's pose is given."""
    named = relative_to(part.one("pose"))
    if part.tag == "frame" and not named:
        named = part.attributes.get("attached_to", "")
    if part.tag == "joint" and not named:
        named = child_of(part)
    default = WORLD if scope.is_world else MODEL
    return default if named in ("", default) else named


def _owner(scope: Scope, name: str, reference: str) -> str:
    """Return the part of this scope that must be placed first: the frame, or the nested model that has it."""
    if reference in (WORLD if scope.is_world else MODEL,):
        return reference
    first, _, inner_name = reference.partition("::")
    if first not in scope.parts or (
        inner_name and (first not in scope.inner or inner_name not in scope.inner[first].poses)
    ):
        raise unknown(scope.parts[name], "link or frame", reference, [*scope.parts, MODEL])
    return first


# links


def _resolve_links(scope: Scope) -> None:
    """Determine the link that each frame is fixed to, by name in this scope."""
    links: dict[str, str] = {}
    for name, part in scope.parts.items():
        if part.tag == "link":
            links[name] = name
        if part.tag == "model":
            inner = scope.inner[name]
            links |= {
                f"{name}::{frame}": f"{name}::{link}" for frame, link in inner.links.items() if link != WORLD
            }
            if MODEL in inner.links:
                links[name] = f"{name}::{inner.links[MODEL]}"
    if scope.is_world:
        links[WORLD] = WORLD
    else:
        _canonical(scope, links)
    for start, part in scope.parts.items():
        path: dict[str, None] = {}
        name = start
        while name not in links and part.tag in ("frame", "joint"):
            if name in path:
                raise scope.parts[name].error("cyclic frame: attached to itself through others")
            path[name] = None
            frame = scope.parts[name]
            if frame.tag not in ("frame", "joint"):
                raise frame.error("no link to attach a frame to")
            default = WORLD if scope.is_world else MODEL
            name = child_of(frame) if frame.tag == "joint" else frame.attributes.get("attached_to") or default
            if name not in links and name not in scope.parts:
                raise unknown(frame, "link or frame", name, [*scope.parts, MODEL])
        for pending in path:
            links[pending] = links[name]
    scope.links = links


def _canonical(scope: Scope, fixed_to: dict[str, str]) -> None:
    """Add the canonical link of a model: by default its first one."""
    canonical = scope.element.attributes.get("canonical_link", "")
    links = [name for name, _, _ in scope.all_links()]
    if canonical and canonical not in links:
        raise unknown(scope.element, "link", canonical, links)
    if canonical or links:
        fixed_to[MODEL] = canonical or links[0]


def checked(scope: Scope, element: Element, name: str) -> str:
    """Return the link behind a name that an element uses for a link or frame."""
    if name == WORLD:
        return WORLD
    if name not in scope.links:
        raise unknown(element, "link or frame", name, [x for x in scope.links if x != MODEL])
    return scope.links[name]


def direction(scope: Scope, axis: Element, J: Pose, *, in_model: bool) -> np.ndarray:
    """Return the unit direction of an axis in the frame of the scope; J is the joint's pose there."""
    from_joint = axis.one("xyz")
    values: Any = (
        (0.0, 0.0, 1.0)
        if from_joint is None
        else from_joint.numbers("", 3, (0.0, 0.0, 1.0), largest=MAX_VALUE)
    )
    vector = np.array(values)
    size = math.sqrt(float(vector @ vector))
    if size == 0.0 or not math.isfinite(size):
        raise (from_joint or axis).error("axis: expected a nonzero vector such as 0 0 1")
    named = "" if from_joint is None else from_joint.attributes.get("expressed_in", "")
    if named:
        if in_model:
            raise (from_joint or axis).error("expressed_in: the axis is in the frame of the model already")
        if named not in scope.poses:
            raise unknown(from_joint or axis, "link or frame", named, scope.poses)
        R = scope.poses[named].R
    else:
        R = np.eye(3) if in_model else J.R
    return np.asarray(product(np.asarray(R, dtype=float), vector / size), dtype=float)
