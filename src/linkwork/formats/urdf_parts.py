"""Elements of URDF files: inertias, origins, joint types, limits and dynamics; notes of readers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
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
from linkwork.mechanism.names import did_you_mean, join_names, printable
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
ONE = ("revolute", "continuous", "prismatic", "helical")  # types with one DoF
LIMITED = ("revolute", "prismatic", "helical")  # types with position limits
MAX_VALUE = 1e30  # largest length, mass or moment, so that products remain finite
MAX_NAME = 1000  # characters of a name
MAX_NOTES = 200  # lines of a report


def unknown(element: Element, kind: str, name: str, known: Iterable[str], hint: str = "") -> ModelError:
    """Return a ModelError for an element that names an unknown link, joint or frame."""
    return element.error(f"no {kind} named {printable(name)!r}{hint or did_you_mean(name, known)}")


def inertial(link: Element, notes: Notes) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass [kg], center of mass [m], and inertia about it in the link's axes [kg m²]."""
    inertial = link.one("inertial")
    if inertial is None:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    place = origin(inertial, notes)
    value = inertial.needed("mass")
    inertia = inertial.needed("inertia")
    mass = value.number("value", largest=MAX_VALUE)
    if mass < 0:
        raise value.error(f"mass: expected a non-negative number [kg], got {mass:g}")
    xx, xy, xz, yy, yz, zz = (
        inertia.number(f"i{ab}", largest=MAX_VALUE) for ab in ("xx", "xy", "xz", "yy", "yz", "zz")
    )
    moment = product(product(place.R, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])), place.R.T)
    return mass, place.p, 0.5 * (moment + moment.T)


def origin(element: Element, notes: Notes) -> Pose:
    """Return the pose of an element's <origin>."""
    xyz, rpy = place(element, notes)
    return Pose.from_xyz_rpy(xyz, rpy) if any(rpy) else Pose.translation(np.array(xyz))


def place(element: Element, notes: Notes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return xyz [m] and roll, pitch, yaw [rad] of an element's <origin>; zeros if it has none."""
    origin = element.one("origin")
    zero = (0.0, 0.0, 0.0)
    if origin is None:
        return zero, zero
    return origin.numbers("xyz", 3, zero, largest=MAX_VALUE), origin.numbers(
        "rpy", 3, zero, largest=MAX_VALUE
    )


def joint_kind(joint: Element, type_: str, notes: Notes) -> Joint:
    """Return the joint of a type, with its axis."""
    if type_ in AXISLESS:
        return AXISLESS[type_]()
    if type_ == "rod":
        length = joint.number("length", largest=MAX_VALUE)
        if length <= 0.0:
            raise joint.error(f"length: expected a positive number [m], got {length:g}")
        return Rod(length)
    if type_ not in AXIAL:
        raise joint.error(
            f"unknown joint type {printable(type_)!r}; expected one of "
            f"{', '.join([*AXIAL, *AXISLESS, 'rod'])}"
        )
    axis = joint.one("axis")
    if type_ == "helical":
        along = (1.0, 0.0, 0.0) if axis is None else axis.numbers("xyz", 3, largest=MAX_VALUE)
        if not any(along):
            raise (axis or joint).error("axis: expected a nonzero vector such as 0 0 1")
        return Helical(joint.number("pitch", largest=MAX_VALUE), (along[0], along[1], along[2]))
    if axis is None:
        return _axial(type_, (1.0, 0.0, 0.0))
    along = axis.numbers("xyz", 3, largest=MAX_VALUE)
    try:
        return _axial(type_, along)
    except ValueError:
        raise axis.error("axis: expected a nonzero vector such as 0 0 1") from None


@lru_cache(maxsize=64)
def _axial(type_: str, axis: tuple[float, ...]) -> Joint:
    """Return a joint with an axis; cached, since most joints of a file share a few axes."""
    return AXIAL[type_](axis)


def limits(joint: Element, type_: str, notes: Notes, known: Container[str] = ()) -> dict[str, Any]:
    """Return the limits of <limit>; those in `known` are given elsewhere."""
    limit = joint.one("limit")
    if limit is None:
        if type_ in LIMITED and "lower" not in known:
            notes.add("no <limit>: taken as unlimited", at(joint))
        return {}
    values = {}
    for key, word in (("effort", "max_effort"), ("velocity", "max_velocity")):
        if key in limit.attributes:
            values[word] = _not_negative(limit, key)
        elif word not in known:
            notes.add(f"no {key} in <limit>: taken as unlimited", at(joint))
    if type_ in LIMITED:
        lower = limit.number("lower", 0.0)
        upper = limit.number("upper", 0.0)
        if lower > upper:
            raise limit.error(f"limit: expected lower <= upper, got {lower:g} > {upper:g}")
        if lower == upper == 0.0 and "lower" not in known:  # many exporters write this for "no limits"
            notes.add("lower and upper limit are both absent or 0: taken as unlimited", at(joint))
        else:
            values |= {"lower": lower, "upper": upper}
    return values


def dynamics(joint: Element, notes: Notes, count: int = 1) -> dict[str, Any]:
    """Return damping and friction, and stiffness, rest and armature (an extension), one per velocity."""
    dynamics = joint.one("dynamics")
    if dynamics is None:
        return {}
    values_by_name: dict[str, Any] = {}
    for key in ("damping", "friction", "stiffness", "armature"):
        if count == 1 or key in dynamics.attributes:
            values = dynamics.numbers(key, count, (0.0,), largest=MAX_VALUE)
            for value in values:
                if value < 0:
                    raise dynamics.error(f"{key}: expected a non-negative number, got {value:g}")
            if key in ("damping", "friction") or any(values):
                values_by_name[key] = values
    if "rest" in dynamics.attributes:
        values_by_name["rest"] = dynamics.numbers("rest", count, largest=MAX_VALUE)
    return values_by_name


def _not_negative(element: Element, key: str, default: float | None = None, largest: float = np.inf) -> float:
    value = element.number(key, default, largest=largest)
    if value < 0:
        raise element.error(f"{key}: expected a non-negative number, got {value:g}")
    return value


# notes


class Notes:
    """Notes of a reader, grouped by their text: many joints with one issue give one line."""

    def __init__(self, *, strict: bool = False) -> None:
        self.by_text: dict[str, list[str]] = {}
        self.strict = strict

    def add(self, text: str, *of: str) -> None:
        self.by_text.setdefault(text, []).extend(of)

    def lost(self, element: Element, text: str, *of: str) -> None:
        """Note that an element is not supported; raise if `strict`."""
        if self.strict:
            raise element.error(text)
        self.add(text, *of)

    def passed_over(self, element: Element, text: str, *of: str, acts: bool) -> None:
        """Note that an element is ignored; raise if `strict` and it would affect motion (`acts`)."""
        self.lost(element, text, *of) if acts else self.add(text, *of)

    def missing(self, text: str, *of: str) -> None:
        """Note an unsupported feature without an element, named by `of`; raise if `strict`."""
        if self.strict:
            raise ModelError(f"{join_names(of)}: {text}" if of else text)
        self.add(text, *of)

    def lines(self) -> list[str]:
        lines = [f"{text}: {join_names(of)}" if of else text for text, of in self.by_text.items()]
        return (
            lines
            if len(lines) <= MAX_NOTES
            else [*lines[:MAX_NOTES], f"and {len(lines) - MAX_NOTES} more notes"]
        )


def at(element: Element) -> str:
    """Return a reference to an element such as `joint 'knee' (line 12)`."""
    return f"{element.tag} {printable(element.attributes['name'])!r} (line {element.line})"
