"""SDF's scopes and frames (sdformat.org, "pose semantics"): where links, joints and frames are with all joints at zero."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.formats.urdf_parts import LARGEST, LONGEST, unknown
from linkwork.formats.xml import Element
from linkwork.parts import WORLD
from linkwork.parts.names import shown
from linkwork.spatial import Pose
from linkwork.spatial.constants import product
from linkwork.spatial.pose import snapped
from linkwork.spatial.rotation import numeric_matrix

MODEL = "__model__"
NAMED = ("link", "joint", "frame", "model")
RESERVED = (MODEL, WORLD)


@dataclass
class Scope:
    """A model or a world: what it names, and where that is in its own frame where all joints are at zero."""

    element: Element
    parts: dict[str, Element] = field(default_factory=dict)  # links, joints, frames and nested models, in the order of the file
    inner: dict[str, Scope] = field(default_factory=dict)  # nested models
    poses: dict[str, Pose] = field(default_factory=dict)  # of all of them, also of those in nested models: "inner::link"
    links: dict[str, str] = field(default_factory=dict)  # the link that each of them is fixed to, or "world"

    @property
    def is_world(self) -> bool:
        return self.element.tag == WORLD

    def all_links(self) -> list[tuple[str, Element, Scope]]:
        """All links with their names in this scope, and the models that they are in."""
        found = [(name, part, self) for name, part in self.parts.items() if part.tag == "link"]
        for prefix, scope in self.inner.items():
            found += [(f"{prefix}::{name}", part, own) for name, part, own in scope.all_links()]
        return found

    def all_joints(self, prefix: str = "") -> list[tuple[str, Element, Scope, str]]:
        """All joints with their names here, the models that they are in, and how names of that model begin here."""
        found = [(prefix + name, part, self, prefix) for name, part in self.parts.items() if part.tag == "joint"]
        for inner, scope in self.inner.items():
            found += scope.all_joints(f"{prefix}{inner}::")
        return found


def scope_of(element: Element) -> Scope:
    """The scope of a model or a world, with all poses resolved."""
    scope = Scope(element)
    for child in element.children:
        if child.tag not in NAMED:
            continue
        name = child.word("name")
        if len(name) > LONGEST:
            raise child.error(f"its name is longer than {LONGEST} characters")
        if name in scope.parts:
            first = scope.parts[name]
            raise child.error(f"there is already a <{first.tag}> of this name in line {first.line}: names must differ")
        if name in RESERVED or "::" in name or (name.startswith("__") and name.endswith("__")):
            raise child.error("this name is reserved: take another")
        scope.parts[name] = child
        if child.tag == "model":
            scope.inner[name] = scope_of(child)
    _resolve_poses(scope)
    _resolve_links(scope)
    return scope


def child_of(joint: Element) -> str:
    """The name of a joint's child: a link or a frame."""
    name = joint.needed("child").content()
    if name == WORLD:
        raise joint.error("the world cannot be the child of a joint: make it the parent")
    return name


def pose_of(element: Element | None) -> Pose:
    """The numbers of a <pose>."""
    if element is None or not element.text.strip():
        return Pose.identity()
    quaternion = element.attributes.get("rotation_format", "euler_rpy")
    if quaternion not in ("euler_rpy", "quat_xyzw"):
        raise element.error(f"there is no rotation_format {shown(quaternion)!r}; there are euler_rpy and quat_xyzw")
    if quaternion == "quat_xyzw":
        values = element.numbers("", 7, largest=LARGEST)
        if not any(values[3:]):
            raise element.error("a quaternion must not be zero")
        return Pose(snapped(numeric_matrix(np.array(values[3:])), 4e-16), np.array(values[:3]))
    values = element.numbers("", 6, largest=LARGEST)
    turned = element.attributes.get("degrees", "false") in ("true", "1")
    angles = [math.radians(x) for x in values[3:]] if turned else list(values[3:])
    return Pose.placed(values[:3], angles) if any(angles) else Pose.translation(np.array(values[:3]))


def relative_to(element: Element | None) -> str:
    """The frame that a <pose> names, or ""."""
    if element is None:
        return ""
    return element.attributes.get("relative_to") or element.attributes.get("frame") or ""


# poses


def _resolve_poses(scope: Scope) -> None:
    """Where all parts are, in the frame of the scope."""
    found: dict[str, Pose] = {WORLD if scope.is_world else MODEL: Pose.identity()}
    for start in scope.parts:
        path: dict[str, None] = {}  # names that wait for others, in order
        name = start
        while name not in found:
            if name in path:
                raise scope.parts[name].error("its pose is relative to itself, by way of others")
            path[name] = None
            name = _owner(scope, name, _reference(scope, scope.parts[name]))
        for waiting in reversed(path):
            part = scope.parts[waiting]
            _place(scope, waiting, found, found[_reference(scope, part)])
    scope.poses = found


def _place(scope: Scope, name: str, found: dict[str, Pose], reference: Pose) -> None:
    part = scope.parts[name]
    pose = reference.then(pose_of(part.one("pose")))
    if part.tag != "model":
        found[name] = pose
        return
    inner = scope.inner[name]
    placed = part.attributes.get("placement_frame", "")
    if placed:
        if placed not in inner.poses:
            raise unknown(part, "frame", placed, inner.poses)
        pose = pose.then(inner.poses[placed].inverse())
    found[name] = pose
    for own, there in inner.poses.items():
        found[f"{name}::{own}"] = pose.then(there)


def _reference(scope: Scope, part: Element) -> str:
    """The frame that a part's pose is given in."""
    named = relative_to(part.one("pose"))
    if part.tag == "frame" and not named:
        named = part.attributes.get("attached_to", "")
    if part.tag == "joint" and not named:
        named = child_of(part)
    default = WORLD if scope.is_world else MODEL
    return default if named in ("", default) else named


def _owner(scope: Scope, name: str, reference: str) -> str:
    """The part of this scope that must be placed first: the frame itself, or the nested model that it is in."""
    if reference in (WORLD if scope.is_world else MODEL,):
        return reference
    first, _, rest = reference.partition("::")
    if first not in scope.parts or (rest and (first not in scope.inner or rest not in scope.inner[first].poses)):
        raise unknown(scope.parts[name], "link or frame", reference, [*scope.parts, MODEL])
    return first


# links


def _resolve_links(scope: Scope) -> None:
    """The link that each frame is fixed to, by name in this scope."""
    found: dict[str, str] = {}
    for name, part in scope.parts.items():
        if part.tag == "link":
            found[name] = name
        if part.tag == "model":
            inner = scope.inner[name]
            found |= {f"{name}::{own}": f"{name}::{link}" for own, link in inner.links.items() if link != WORLD}
            if MODEL in inner.links:
                found[name] = f"{name}::{inner.links[MODEL]}"
    if scope.is_world:
        found[WORLD] = WORLD
    else:
        _canonical(scope, found)
    for start, part in scope.parts.items():
        path: dict[str, None] = {}
        name = start
        while name not in found and part.tag in ("frame", "joint"):
            if name in path:
                raise scope.parts[name].error("it is attached to itself, by way of others")
            path[name] = None
            own = scope.parts[name]
            if own.tag not in ("frame", "joint"):
                raise own.error("there is no link in it to attach a frame to")
            default = WORLD if scope.is_world else MODEL
            name = child_of(own) if own.tag == "joint" else own.attributes.get("attached_to") or default
            if name not in found and name not in scope.parts:
                raise unknown(own, "link or frame", name, [*scope.parts, MODEL])
        for waiting in path:
            found[waiting] = found[name]
    scope.links = found


def _canonical(scope: Scope, found: dict[str, str]) -> None:
    """The link that a model's own frame is fixed to: the first one, unless another is named."""
    named = scope.element.attributes.get("canonical_link", "")
    links = [name for name, _, _ in scope.all_links()]
    if named and named not in links:
        raise unknown(scope.element, "link", named, links)
    if named or links:
        found[MODEL] = named or links[0]


def checked(scope: Scope, element: Element, name: str) -> str:
    """The link behind a name that an element uses for a link or a frame."""
    if name == WORLD:
        return WORLD
    if name not in scope.links:
        raise unknown(element, "link or frame", name, [x for x in scope.links if x != MODEL])
    return scope.links[name]


def direction(scope: Scope, axis: Element, J: Pose, *, in_model: bool) -> np.ndarray:
    """The unit direction of an axis in the frame of the scope; J is the joint's pose there."""
    from_joint = axis.one("xyz")
    values: Any = (0.0, 0.0, 1.0) if from_joint is None else from_joint.numbers("", 3, (0.0, 0.0, 1.0), largest=LARGEST)
    vector = np.array(values)
    size = math.sqrt(float(vector @ vector))
    if size == 0.0 or not math.isfinite(size):
        raise (from_joint or axis).error("the axis has no length: it must be a direction, such as 0 0 1")
    named = "" if from_joint is None else from_joint.attributes.get("expressed_in", "")
    if named:
        if named not in scope.poses:
            raise unknown(from_joint or axis, "link or frame", named, scope.poses)
        R = scope.poses[named].R
    else:
        R = np.eye(3) if in_model else J.R
    return np.asarray(product(np.asarray(R, dtype=float), vector / size), dtype=float)
