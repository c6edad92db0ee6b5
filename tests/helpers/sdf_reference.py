"""Poses of links, axes of joints and inertias in the world, by the rules of SDFormat 1.7 and later, at zero.

This shares nothing with the reader: each pose is looked up anew along its chain of frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np


class Axis(NamedTuple):
    """The axis of a joint in the world: direction, a point on it, and the joint's type."""

    direction: np.ndarray
    point: np.ndarray
    type: str


class Inertial(NamedTuple):
    """Mass, centre of mass, and moment of inertia about it, in the world."""

    mass: float
    center: np.ndarray
    moment: np.ndarray


def _turned(angles: np.ndarray) -> np.ndarray:
    (a, b, c), (x, y, z) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, a, -x], [0, x, a]])
    about_y = np.array([[b, 0, y], [0, 1, 0], [-y, 0, b]])
    return np.array([[c, -z, 0], [z, c, 0], [0, 0, 1]]) @ about_y @ about_x


def _by_quaternion(q: np.ndarray) -> np.ndarray:
    x, y, z, w = q / np.linalg.norm(q)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2.0 * (w * cross + cross @ cross)


def pose_of(element: Element | None) -> np.ndarray:
    """Return the transform of a <pose>, the identity if there is none."""
    T = np.eye(4)
    if element is None or not (element.text or "").strip():
        return T
    values = np.array([float(word) for word in (element.text or "").split()])
    T[:3, 3] = values[:3]
    if element.get("rotation_format") == "quat_xyzw":
        T[:3, :3] = _by_quaternion(values[3:])
    else:
        in_degrees = element.get("degrees") in ("true", "1")
        T[:3, :3] = _turned(np.radians(values[3:]) if in_degrees else values[3:])
    return T


class Scope:
    """A model or the world: its named elements and models."""

    def __init__(self, element: Element, parent: Scope | None, files: Mapping[str, str]) -> None:
        self.element = element
        self.parent = parent
        self.items = {x.get("name", ""): x for x in element if x.tag in ("link", "frame", "joint")}
        models = [_included(x, files) if x.tag == "include" else x for x in element]
        self.models = {x.get("name", ""): Scope(x, self, files) for x in models if x.tag == "model"}

    def pose(self, name: str) -> np.ndarray:
        """Return the pose of a named frame in the frame of this model or the world."""
        if name in ("", "__model__") or (name == "world" and self.parent is None):
            return np.eye(4)
        first, _, rest = name.partition("::")
        if first in self.models:
            return self._place(first) @ self.models[first].pose(rest)
        item = self.items[name]
        pose = item.find("pose")
        default = {"link": "", "frame": item.get("attached_to", "")}.get(item.tag)
        if default is None:
            default = item.findtext("child", "").strip()
        relative_to = default if pose is None else pose.get("relative_to") or default
        return self.pose(relative_to) @ pose_of(pose)

    def _place(self, name: str) -> np.ndarray:
        model = self.models[name]
        pose = model.element.find("pose")
        T = self.pose("" if pose is None else pose.get("relative_to", "")) @ pose_of(pose)
        frame = model.element.get("placement_frame")
        return T @ np.linalg.inv(model.pose(frame)) if frame else T

    def in_world(self) -> np.ndarray:
        """Return the pose of this model in the world."""
        if self.parent is None:
            return np.eye(4)
        return self.parent.in_world() @ self.parent._place(self.element.get("name", ""))

    def every(self, tag: str, prefix: str = "") -> Iterator[tuple[str, Element, np.ndarray, Scope]]:
        """Yield full name, element, pose in the world, and scope of all elements of a kind."""
        for name, item in self.items.items():
            if item.tag == tag:
                yield prefix + name, item, self.in_world() @ self.pose(name), self
        for name, model in self.models.items():
            yield from model.every(tag, f"{prefix}{name}::")


def _included(include: Element, files: Mapping[str, str]) -> Element:
    model = ElementTree.fromstring(files[include.findtext("uri", "").strip()]).find("model")
    assert model is not None
    pose = include.find("pose")
    if pose is not None:
        for old in model.findall("pose"):
            model.remove(old)
        model.append(pose)
    for word, key in (("name", "name"), ("placement_frame", "placement_frame")):
        if include.find(word) is not None:
            model.set(key, include.findtext(word, ""))
    return model


def reference(
    text: str, files: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], dict[str, Axis], dict[str, Inertial]]:
    """Return poses of links, axes of joints, and inertias of links, by full name."""
    root = ElementTree.fromstring(text)
    world = root.find("world")
    scope = Scope(root if world is None else world, None, files)
    links, axes, inertias = {}, {}, {}
    for name, link, T, _ in scope.every("link"):
        links[name] = T
        inertial = Element("inertial") if link.find("inertial") is None else link.find("inertial")
        assert inertial is not None
        at = T @ pose_of(inertial.find("pose"))
        xx, yy, zz = (float(inertial.findtext(f"inertia/i{word}", "1")) for word in ("xx", "yy", "zz"))
        xy, xz, yz = (float(inertial.findtext(f"inertia/i{word}", "0")) for word in ("xy", "xz", "yz"))
        moment = at[:3, :3] @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ at[:3, :3].T
        inertias[name] = Inertial(float(inertial.findtext("mass", "1")), at[:3, 3], moment)
    for name, joint, T, owner in scope.every("joint"):
        axis = joint.find("axis")
        if axis is None:
            continue
        xyz = axis.find("xyz")
        expressed_in = "" if xyz is None else xyz.get("expressed_in", "")
        R = (owner.in_world() @ owner.pose(expressed_in) if expressed_in else T)[:3, :3]
        u = np.array([float(x) for x in (axis.findtext("xyz") or "0 0 1").split()])
        axes[name] = Axis(R @ u / np.linalg.norm(u), T[:3, 3], joint.get("type", ""))
    return links, axes, inertias
