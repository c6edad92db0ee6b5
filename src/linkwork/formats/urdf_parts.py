"""The parts of URDF files: what links and joints say, and what was strange about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.xml import Element
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
from linkwork.parts.names import did_you_mean, shown, some
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

AXIAL: dict[str, Callable[[Any], Joint]] = {
    "revolute": Revolute,
    "continuous": Revolute,
    "prismatic": Prismatic,
    "planar": Planar,
    "cylindrical": Cylindrical,
    "helical": Helical,  # with an attribute pitch
    "point_on_line": PointOnLine,
}
AXISLESS: dict[str, Callable[[], Joint]] = {
    "fixed": Fixed,
    "floating": Free,
    "spherical": Spherical,
    "universal": Universal,
    "gimbal": Gimbal,
}
NUMBERED = {"helical": "pitch", "rod": "length"}  # kinds that have a number as well, in an attribute
ONE = ("revolute", "continuous", "prismatic", "helical")  # of one coordinate
LIMITED = ("revolute", "prismatic", "helical")  # those whose coordinate has limits
LARGEST = 1e30  # of a length, mass or moment: products of some of them stay finite
LONGEST = 1000  # characters of a name
MOST_NOTES = 200  # a note for each part of a very odd file helps nobody

# What may stand in an element; what else does is noted.
CHILDREN = {
    "robot": {"link", "joint", "material", "transmission", "gazebo", "sensor", "ros2_control", "loop", "coupling"}
    | {"loop_joint", "drake:ball_constraint"},
    "link": {"inertial", "visual", "collision", "contact"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "safety_controller", "calibration"},
    "inertial": {"origin", "mass", "inertia"},
    "loop": {"predecessor", "successor", "axis"},
    "coupling": {"predecessor", "successor", "ratio", "term", "offset"},
    "loop_joint": {"link1", "link2", "axis"},
    "drake:ball_constraint": {f"drake:ball_constraint_{x}" for x in ("body_A", "body_B", "p_AP", "p_BQ")},
    "predecessor": {"origin"},
    "successor": {"origin"},
}
ATTRIBUTES = {
    "link": {"name", "type"},
    "joint": {"name", "type", "independent", "pitch"},
    "origin": {"xyz", "rpy"},
    "mass": {"value"},
    "inertia": {"ixx", "ixy", "ixz", "iyy", "iyz", "izz"},
    "axis": {"xyz"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "dynamics": {"damping", "friction", "stiffness", "rest", "armature"},
    "parent": {"link"},
    "child": {"link"},
    "loop": {"name", "type", "pitch", "length"},
    "coupling": {"name"},
    "term": {"joint", "coefficient"},
    "offset": {"value"},
    "loop_joint": {"name", "type"},
    "link1": {"link", "xyz", "rpy"},
    "link2": {"link", "xyz", "rpy"},
    "predecessor": {"link"},
    "successor": {"link"},
    "ratio": {"value"},
    "mimic": {"joint", "multiplier", "offset"},
}


def unknown(element: Element, what: str, name: str, known: Iterable[str], hint: str = "") -> ModelError:
    """That an element names a link or joint that is none."""
    return element.error(f"there is no {what} named {shown(name)!r}{hint or did_you_mean(name, known)}")


def inertial(link: Element, notes: Notes) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass [kg], centre [m], and moment of inertia about that centre in the link's axes [kg m²]."""
    inertial = link.one("inertial")
    if inertial is None:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    note_strange(inertial, notes)
    place = origin(inertial, notes)
    value, inertia = inertial.needed("mass"), inertial.needed("inertia")
    note_strange(value, notes)
    note_strange(inertia, notes)
    mass = value.number("value", largest=LARGEST)
    if mass < 0:
        raise value.error(f"the mass {mass:g} kg is negative")
    xx, xy, xz, yy, yz, zz = (inertia.number(f"i{ab}", largest=LARGEST) for ab in ("xx", "xy", "xz", "yy", "yz", "zz"))
    moment = product(product(place.R, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])), place.R.T)
    return mass, place.p, 0.5 * (moment + moment.T)


def origin(element: Element, notes: Notes) -> Pose:
    """The pose that an element's <origin> gives."""
    xyz, rpy = place(element, notes)
    return Pose.placed(xyz, rpy) if any(rpy) else Pose.translation(np.array(xyz))


def place(element: Element, notes: Notes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """xyz [m], and roll, pitch and yaw [rad], of an element's <origin>; zeros where there is none."""
    origin, none = element.one("origin"), (0.0, 0.0, 0.0)
    if origin is None:
        return none, none
    if "quat_xyzw" in origin.attributes:
        raise origin.error("quaternions are not read: give roll, pitch and yaw as rpy")
    note_strange(origin, notes)
    return origin.numbers("xyz", 3, none, largest=LARGEST), origin.numbers("rpy", 3, none, largest=LARGEST)


def joint_kind(joint: Element, type_: str, notes: Notes) -> Joint:
    """The kind of joint that a type names, with its axis."""
    if type_ in AXISLESS:
        return AXISLESS[type_]()
    if type_ == "rod":
        length = joint.number("length", largest=LARGEST)
        if length <= 0.0:
            raise joint.error(f"its length {length:g} must be positive")
        return Rod(length)
    if type_ not in AXIAL:
        raise joint.error(f"there is no joint type {shown(type_)!r}; there are {', '.join([*AXIAL, *AXISLESS, 'rod'])}")
    axis = joint.one("axis")
    if type_ == "helical":
        along = (1.0, 0.0, 0.0) if axis is None else axis.numbers("xyz", 3, largest=LARGEST)
        if not any(along):
            raise (axis or joint).error("the axis has no length: it must be a direction, such as 0 0 1")
        return Helical(joint.number("pitch", largest=LARGEST), (along[0], along[1], along[2]))
    if axis is None:
        return _axial(type_, (1.0, 0.0, 0.0))
    note_strange(axis, notes)
    try:
        return _axial(type_, axis.numbers("xyz", 3, largest=LARGEST))
    except ModelError:
        raise
    except ValueError:
        raise axis.error("the axis has no length: it must be a direction, such as 0 0 1") from None


@lru_cache(maxsize=64)
def _axial(type_: str, axis: tuple[float, ...]) -> Joint:
    """A joint about or along an axis; most of a file have one of a few."""
    return AXIAL[type_](axis)


def limits(joint: Element, type_: str, notes: Notes) -> dict[str, Any]:
    limit = joint.one("limit")
    if limit is None:
        if type_ in LIMITED:
            notes.add("no <limit>, so none is known", at(joint))
        return {}
    note_strange(limit, notes)
    found = {}
    for key, word in (("effort", "max_effort"), ("velocity", "max_velocity")):
        if key in limit.attributes:
            found[word] = _not_negative(limit, key)
        else:
            notes.add(f"no {key} in <limit>, so none is known", at(joint))
    if type_ in LIMITED:
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if lower > upper:
            raise limit.error(f"its lower limit {lower:g} is above its upper limit {upper:g}")
        if lower == upper == 0.0:  # as many exporters write: by the letter it could not move
            notes.add("lower and upper limit are both absent or 0: taken as unlimited", at(joint))
        else:
            found |= {"lower": lower, "upper": upper}
    return found


def dynamics(joint: Element, notes: Notes, count: int = 1) -> dict[str, Any]:
    """Damping and friction; and stiffness, rest and armature, which URDF has no words for. One number for each velocity."""
    dynamics = joint.one("dynamics")
    if dynamics is None:
        return {}
    note_strange(dynamics, notes)
    found: dict[str, Any] = {}
    for key in ("damping", "friction", "stiffness", "armature"):
        if count == 1 or key in dynamics.attributes:
            values = dynamics.numbers(key, count, (0.0,), largest=LARGEST)
            for value in values:
                if value < 0:
                    raise dynamics.error(f"its {key} {value:g} is negative")
            if key in ("damping", "friction") or any(values):
                found[key] = values
    if "rest" in dynamics.attributes:
        found["rest"] = dynamics.numbers("rest", count, largest=LARGEST)
    return found


def _not_negative(element: Element, key: str, default: float | None = None, largest: float = np.inf) -> float:
    value = element.number(key, default, largest=largest)
    if value < 0:
        raise element.error(f"its {key} {value:g} is negative")
    return value


# what is noted


class Notes:
    """What a reader wants to say, gathered by what it is, so that a hundred joints make one line."""

    def __init__(self) -> None:
        self.by_text: dict[str, list[str]] = {}

    def add(self, text: str, *of: str) -> None:
        self.by_text.setdefault(text, []).extend(of)

    def lines(self) -> list[str]:
        lines = [f"{text}: {some(of)}" if of else text for text, of in self.by_text.items()]
        return lines if len(lines) <= MOST_NOTES else [*lines[:MOST_NOTES], f"and {len(lines) - MOST_NOTES} notes more"]


def at(element: Element) -> str:
    """Such as `joint 'knee' (line 12)`."""
    return f"{element.tag} {shown(element.attributes['name'])!r} (line {element.line})"


def note_strange(element: Element, notes: Notes) -> None:
    """Note what is not URDF in an element: it may be a typing error, or another program's."""
    for child in element.children:
        if child.tag not in CHILDREN.get(element.tag, ()):
            notes.add(f"<{shown(child.tag)}> in <{element.tag}> is not URDF, and was passed over", f"line {child.line}")
    for key in element.attributes:
        if key not in ATTRIBUTES.get(element.tag, (key,)):
            notes.add(f"{shown(key)} in <{element.tag}> is not URDF, and was passed over", f"line {element.line}")
