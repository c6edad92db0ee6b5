"""Elements of SDF files: inertias, shapes, joint types, axes with limits and springs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from linkwork.formats.sdf_frames import Scope, direction, pose_of, relative_to
from linkwork.formats.sdf_includes import version_of
from linkwork.formats.urdf_parts import MAX_VALUE, Notes, at, unknown
from linkwork.formats.urdf_shapes import geometry_of
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Helical, Joint, Prismatic, Revolute, Spherical, Universal
from linkwork.mechanism import Geometry
from linkwork.mechanism.names import printable
from linkwork.spatial import Pose
from linkwork.spatial.constants import length, product
from linkwork.spatial.pose import snapped

UNBOUNDED_LIMIT = 1e16  # limits of this size mean none
AXIAL = ("revolute", "continuous", "prismatic", "screw")
KINDS = (*AXIAL, "revolute2", "universal", "ball", "fixed", "gearbox")


class Axis(NamedTuple):
    """A joint with the pose of its frame in the model, and its limits and passive elements.

    A joint of the file is one axis, or a chain of two.
    """

    kind: Joint
    frame: Pose
    acting: dict[str, Any]


def number(element: Element | None, tag: str, default: float, *, largest: float = MAX_VALUE) -> float:
    """Return the number in a child with this tag."""
    child = element.one(tag) if element is not None else None
    return default if child is None else child.numbers("", 1, (default,), largest=largest)[0]


def bound(limit: Element | None, tag: str, default: float) -> float:
    """Return the number in a child with this tag, which may be infinite."""
    child = limit.one(tag) if limit is not None else None
    if child is not None and child.text.strip().lower().lstrip("+-") in ("inf", "infinity"):
        return float(child.text)
    return number(limit, tag, default, largest=math.inf)


def truth(element: Element | None, tag: str, default: bool = False) -> bool:
    child = element.one(tag) if element is not None else None
    if child is None or not child.text.strip():
        return default
    word = child.text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        raise child.error(f"expected true or false, got {printable(word)!r}")
    return word in ("true", "1")


def inertial(link: Element, notes: Notes) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass [kg], center of mass [m], and inertia about it in the link's axes [kg m²]."""
    inertial = link.one("inertial")
    if inertial is None:
        notes.add(
            "no <inertial>: mass 1 kg and moments of inertia 1 kg m², the defaults of SDF",
            at(link),
        )
    place = pose_of(inertial.one("pose")) if inertial is not None else Pose.identity()
    mass = number(inertial, "mass", 1.0)
    if mass < 0:
        raise (inertial or link).error(f"mass: expected a non-negative number [kg], got {mass:g}")
    inertia = inertial.one("inertia") if inertial is not None else None
    xx, yy, zz = (number(inertia, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
    xy, xz, yz = (number(inertia, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
    moment = product(product(place.R, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])), place.R.T)
    return mass, np.asarray(place.p, dtype=float), 0.5 * (moment + moment.T)


# joints


def axes(scope: Scope, joint: Element, J: Pose, notes: Notes) -> list[Axis]:
    """Return the axes of a joint: one, or a chain of two revolute joints."""
    type_ = joint.word("type")
    if type_ not in KINDS:
        raise joint.error(f"unknown joint type {printable(type_)!r}; expected one of {', '.join(KINDS)}")
    if type_ in ("ball", "fixed"):
        return [Axis(Spherical() if type_ == "ball" else Fixed(), J, {})]
    tags = ("axis", "axis2") if type_ in ("revolute2", "universal") else ("axis",)
    directions = [
        (axis, direction(scope, axis, J, in_model=in_model(axis))) for axis in map(joint.needed, tags)
    ]
    if type_ == "universal":
        (first, x), (second, y) = directions
        if abs(float(x @ y)) > PERPENDICULAR_TOL:
            raise joint.error("universal joint: expected perpendicular axes")
        y = y - x * float(x @ y)
        y = y / math.sqrt(float(y @ y))
        frame = Pose(np.column_stack([x, y, np.cross(x, y)]), J.p)
        each = [acting(joint, axis, "universal", notes) for axis in (first, second)]
        return [Axis(Universal(), frame,
            {word: [a.get(word, none), b.get(word, none)] for word, none in NONE.items()
                                          for a, b in [each] if word in a or word in b})]  # fmt: skip
    chain = []
    for axis, along in directions:
        local_axis = tuple(product(np.asarray(J.R, dtype=float).T, along).tolist())
        kind: Joint = Prismatic(local_axis) if type_ == "prismatic" else Revolute(local_axis)
        if type_ == "screw":
            kind = Helical(_pitch(joint), local_axis)
        chain.append(Axis(kind, J, acting(joint, axis, type_, notes)))
    return chain


PERPENDICULAR_TOL = 2e-3  # cosine of perpendicular axes with three digits
NONE = {  # defaults for one axis of two
    "lower": -math.inf, "upper": math.inf, "max_velocity": math.inf, "max_effort": math.inf,
    "damping": 0.0, "friction": 0.0, "stiffness": 0.0, "rest": 0.0,
}  # fmt: skip


def in_model(axis: Element) -> bool:
    """Return True if an axis is given in the model's frame: by an old attribute, or by default before 1.5."""
    version = version_of(axis)
    in_model_frame = truth(axis, "use_parent_model_frame", version < (1, 5))
    if version < (1, 5) and not in_model_frame:
        raise axis.error("use_parent_model_frame: expected true, as always before SDF 1.5, got false")
    return in_model_frame and version < (1, 7)


def _pitch(joint: Element) -> float:
    """Return the pitch of a screw joint [m/rad].

    The older attribute has the opposite sign and is in rad/m.
    """
    per_turn = joint.one("screw_thread_pitch")
    older = joint.one("thread_pitch")
    if per_turn is not None:
        return per_turn.numbers("", 1, largest=MAX_VALUE)[0] / (2.0 * math.pi)
    if older is None:
        raise joint.error("missing element <screw_thread_pitch>")
    value = older.numbers("", 1, largest=MAX_VALUE)[0]
    if value == 0.0:
        raise older.error("thread_pitch: expected a nonzero number")
    return -1.0 / value


def acting(joint: Element, axis: Element, type_: str, notes: Notes) -> dict[str, Any]:
    """Return limits, spring, damper and friction of one axis."""
    limit = axis.one("limit")
    dynamics = axis.one("dynamics")
    values: dict[str, Any] = {}
    low = bound(limit, "lower", -UNBOUNDED_LIMIT)
    high = bound(limit, "upper", UNBOUNDED_LIMIT)
    if low > high:
        raise (limit or axis).error(f"limit: expected lower <= upper, got {low:g} > {high:g}")
    if type_ != "continuous":
        values |= {"lower": low} if low > -UNBOUNDED_LIMIT else {}
        values |= {"upper": high} if high < UNBOUNDED_LIMIT else {}
    for tag, word in (("effort", "max_effort"), ("velocity", "max_velocity")):
        largest = bound(limit, tag, -1.0)
        if 0.0 <= largest < UNBOUNDED_LIMIT:
            values[word] = largest
    if dynamics is None:
        return values
    for tag, word in (("damping", "damping"), ("friction", "friction"), ("spring_stiffness", "stiffness")):
        value = number(dynamics, tag, 0.0)
        if value < 0.0:
            raise dynamics.error(f"{tag}: expected a non-negative number, got {value:g}")
        if value:
            values[word] = value
    if values.get("stiffness"):
        values["rest"] = number(dynamics, "spring_reference", 0.0)
    return values


def reversed_axis(axis: Axis) -> Axis:
    """Return a joint of one axis, a ball or a fixed joint from child to parent, with the same coordinate."""
    kind = axis.kind
    if isinstance(kind, (Revolute, Prismatic)):
        return axis._replace(kind=type(kind)(tuple((-kind.unit).tolist())))
    if isinstance(kind, Helical):
        return axis._replace(kind=Helical(kind.pitch, tuple((-kind.unit).tolist())))
    return axis


def in_two(universal: Axis) -> list[Axis]:
    """Return the two revolute joints of a universal joint in series."""
    hinges = []
    for k, along in enumerate(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))):
        acting = {word: values[k] for word, values in universal.acting.items()}
        hinges.append(Axis(Revolute(along), universal.frame, acting))
    return hinges


# shapes


def shapes(link: Element, name: str, scope: Scope, notes: Notes) -> list[Geometry]:
    """Return the visual and collision shapes of a link."""
    geometries = []
    for k, element in enumerate(child for child in link.children if child.tag in ("visual", "collision")):
        geometry = element.one("geometry")
        shape = next(iter(geometry.children), None) if geometry is not None else None
        if shape is None:
            continue
        size, mesh, scale = _size(shape)
        if size is None:
            notes.passed_over(
                shape,
                f"shape <{printable(shape.tag)}> is not supported and ignored",
                at(link),
                acts=element.tag == "collision",
            )
            continue
        place = _in_link(scope, link, element)
        sized = (size, mesh, scale)
        if shape.tag == "plane":
            place = place.then(_facing(shape.one("normal")))
        geometries.append(geometry_of(element, k, name, place, shape.tag, sized, friction=_friction(element)))
    return geometries


def _in_link(scope: Scope, link: Element, element: Element) -> Pose:
    """Return the pose of a shape in its link; the file may give it in any frame of the model."""
    pose = element.one("pose")
    reference = relative_to(pose)
    if not reference:
        return pose_of(pose)
    if reference not in scope.poses:
        raise unknown(element, "link or frame", reference, scope.poses)
    return scope.poses[link.word("name")].inverse().then(scope.poses[reference]).then(pose_of(pose))


def _size(shape: Element) -> tuple[tuple[float, ...] | None, str, tuple[float, ...]]:
    """Return size, file and scale of a shape; size None if the shape is unknown."""
    one = (1.0, 1.0, 1.0)
    if shape.tag == "box":
        return shape.needed("size").numbers("", 3, largest=MAX_VALUE), "", one
    if shape.tag == "sphere":
        return (shape.needed("radius").numbers("", 1, largest=MAX_VALUE)[0],), "", one
    if shape.tag in ("cylinder", "capsule"):
        radius, length = (
            shape.needed(tag).numbers("", 1, largest=MAX_VALUE)[0] for tag in ("radius", "length")
        )
        return (radius, length), "", one
    if shape.tag == "ellipsoid":
        return shape.needed("radii").numbers("", 3, largest=MAX_VALUE), "", one
    if shape.tag == "plane":
        return (0.0, 0.0, 0.0), "", one
    if shape.tag == "mesh":
        scale = shape.one("scale")
        return (
            (),
            shape.needed("uri").content(),
            one if scale is None else scale.numbers("", 3, one, largest=MAX_VALUE),
        )
    return None, "", one


def _facing(normal: Element | None) -> Pose:
    """Return a rotation whose z is the normal of a plane."""
    n = np.array((0.0, 0.0, 1.0) if normal is None else normal.numbers("", 3, largest=MAX_VALUE))
    if not np.any(n):
        assert normal is not None
        raise normal.error("normal: expected a nonzero vector")
    z = n / length(n)
    side = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(side, z) / length(np.cross(side, z))
    return (
        Pose(snapped(np.column_stack([x, np.cross(z, x), z])), np.zeros(3))
        if np.any(z[:2]) or z[2] < 0
        else Pose.identity()
    )


def _friction(collision: Element) -> tuple[float, ...]:
    """Return the first friction coefficient of <surface>."""
    element: Element | None = collision
    for tag in ("surface", "friction", "ode"):
        element = element.one(tag) if element is not None else None
    mu = element.one("mu") if element is not None else None
    return () if mu is None else mu.numbers("", 1, (1.0,))


def is_default(word: str, value: Any) -> bool:
    """Return True if a value is the default, for one axis or for two."""
    return all(x == NONE[word] for x in (value if isinstance(value, list) else [value]))
