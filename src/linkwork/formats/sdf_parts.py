"""The parts of SDF files: inertias, shapes, axes with their limits and springs, and kinds of joints."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from linkwork.formats.sdf_frames import Scope, direction, pose_of
from linkwork.formats.urdf_parts import LARGEST, Notes, at
from linkwork.formats.urdf_shapes import geometry_of
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Helical, Joint, Prismatic, Revolute, Spherical, Universal
from linkwork.parts import Geometry
from linkwork.parts.names import shown
from linkwork.spatial import Pose
from linkwork.spatial.constants import length, product
from linkwork.spatial.pose import snapped

WIDE = 1e16  # a limit as large as this is none
AXIAL = ("revolute", "continuous", "prismatic", "screw")
KINDS = (*AXIAL, "revolute2", "universal", "ball", "fixed", "gearbox")


class Axis(NamedTuple):
    """One kind of joint with a pose for its frame in the model, and what acts in it; several of them make a chain."""

    kind: Joint
    frame: Pose
    acting: dict[str, Any]


def number(element: Element | None, tag: str, default: float, *, largest: float = LARGEST) -> float:
    """The number in a child of this tag."""
    child = element.one(tag) if element is not None else None
    return default if child is None else child.numbers("", 1, (default,), largest=largest)[0]


def truth(element: Element | None, tag: str, default: bool = False) -> bool:
    child = element.one(tag) if element is not None else None
    if child is None or not child.text.strip():
        return default
    word = child.text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        raise child.error(f"it must be true or false, not {shown(word)!r}")
    return word in ("true", "1")


def inertial(link: Element, notes: Notes) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass [kg], centre [m], and moment of inertia about that centre in the link's axes [kg m²]."""
    inertial = link.one("inertial")
    if inertial is None:
        notes.add("no <inertial>, so that the mass is 1 kg and the moments of inertia 1 kg m², as SDF says", at(link))
    elif inertial.attributes.get("auto", "false") in ("true", "1"):
        raise inertial.error("inertias are not computed from shapes: give mass and inertia")
    place = pose_of(inertial.one("pose")) if inertial is not None else Pose.identity()
    mass = number(inertial, "mass", 1.0)
    if mass < 0:
        raise (inertial or link).error(f"the mass {mass:g} kg is negative")
    inertia = inertial.one("inertia") if inertial is not None else None
    xx, yy, zz = (number(inertia, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
    xy, xz, yz = (number(inertia, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
    moment = product(product(place.R, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])), place.R.T)
    return mass, np.asarray(place.p, dtype=float), 0.5 * (moment + moment.T)


# joints


def axes(scope: Scope, joint: Element, J: Pose, *, version: float, notes: Notes) -> list[Axis]:
    """What a joint is made of: one kind, or a chain of two hinges."""
    type_ = joint.word("type")
    if type_ not in KINDS:
        raise joint.error(f"there is no type {shown(type_)!r} of joints; there are {', '.join(KINDS)}")
    if type_ in ("ball", "fixed"):
        return [Axis(Spherical() if type_ == "ball" else Fixed(), J, {})]
    tags = ("axis", "axis2") if type_ in ("revolute2", "universal") else ("axis",)
    found = [(axis, direction(scope, axis, J, in_model=_in_model(axis, version))) for axis in map(joint.needed, tags)]
    if type_ == "universal":
        (first, x), (second, y) = found
        if abs(float(x @ y)) > SKEW:
            raise joint.error("the axes of a universal joint must be at right angles")
        y = y - x * float(x @ y)
        y = y / math.sqrt(float(y @ y))
        frame = Pose(np.column_stack([x, y, np.cross(x, y)]), J.p)
        each = [acting(joint, axis, "universal", notes) for axis in (first, second)]
        return [Axis(Universal(), frame, {word: [a.get(word, none), b.get(word, none)] for word, none in NONE.items()
                                          for a, b in [each] if word in a or word in b})]  # fmt: skip
    chain = []
    for axis, along in found:
        own = tuple(product(np.asarray(J.R, dtype=float).T, along).tolist())
        kind: Joint = Prismatic(own) if type_ == "prismatic" else Revolute(own)
        if type_ == "screw":
            kind = Helical(_pitch(joint), own)
        chain.append(Axis(kind, J, acting(joint, axis, type_, notes)))
    return chain


SKEW = 2e-3  # cosine of axes that are at right angles in a file with three digits
NONE = {  # what is not said of one axis of two
    "lower": -math.inf, "upper": math.inf, "max_velocity": math.inf, "max_effort": math.inf,
    "damping": 0.0, "friction": 0.0, "stiffness": 0.0, "rest": 0.0,
}  # fmt: skip


def _in_model(axis: Element, version: float) -> bool:
    """Whether an axis is given in the model's frame: by a word of old versions, or by default before 1.5."""
    return truth(axis, "use_parent_model_frame", version < 1.5)


def _pitch(joint: Element) -> float:
    """The advance of a screw [m/rad]: the older word counts the other way, in radians for a metre."""
    per_turn, older = joint.one("screw_thread_pitch"), joint.one("thread_pitch")
    if per_turn is not None:
        return per_turn.numbers("", 1, largest=LARGEST)[0] / (2.0 * math.pi)
    if older is None:
        raise joint.error("it has no <screw_thread_pitch>, and needs one")
    value = older.numbers("", 1, largest=LARGEST)[0]
    if value == 0.0:
        raise older.error("it must not be zero")
    return -1.0 / value


def acting(joint: Element, axis: Element, type_: str, notes: Notes) -> dict[str, Any]:
    """Limits, springs, dampers and friction of one axis."""
    limit, dynamics = axis.one("limit"), axis.one("dynamics")
    found: dict[str, Any] = {}
    low, high = number(limit, "lower", -WIDE, largest=math.inf), number(limit, "upper", WIDE, largest=math.inf)
    if low > high:
        raise (limit or axis).error(f"its lower limit {low:g} is above its upper limit {high:g}")
    if type_ != "continuous":
        found |= {"lower": low} if low > -WIDE else {}
        found |= {"upper": high} if high < WIDE else {}
    for tag, word in (("effort", "max_effort"), ("velocity", "max_velocity")):
        most = number(limit, tag, -1.0, largest=math.inf)
        if most >= 0.0 and most < WIDE:
            found[word] = most
    if dynamics is None:
        return found
    for tag, word in (("damping", "damping"), ("friction", "friction"), ("spring_stiffness", "stiffness")):
        value = number(dynamics, tag, 0.0)
        if value < 0.0:
            raise dynamics.error(f"its {tag} {value:g} is negative")
        if value:
            found[word] = value
    if found.get("stiffness"):
        found["rest"] = number(dynamics, "spring_reference", 0.0)
    return found


def reversed_kind(kind: Joint) -> tuple[Joint, np.ndarray]:
    """The kind of a joint seen from its child, with the same coordinates, and how its frames are turned for that."""
    if isinstance(kind, (Revolute, Prismatic)):
        return type(kind)(tuple((-kind.unit).tolist())), np.eye(3)
    if isinstance(kind, Helical):
        return Helical(kind.pitch, tuple((-kind.unit).tolist())), np.eye(3)
    if isinstance(kind, Universal):  # first about the second axis: its coordinates change places
        return kind, np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    return kind, np.eye(3)


# shapes


def shapes(link: Element, name: str, notes: Notes) -> list[Geometry]:
    """What is drawn of a link, and what can touch."""
    found = []
    for k, element in enumerate(child for child in link.children if child.tag in ("visual", "collision")):
        geometry = element.one("geometry")
        shape = next(iter(geometry.children), None) if geometry is not None else None
        if shape is None:
            continue
        size, mesh, scale = _size(shape)
        if size is None:
            notes.add(f"a shape <{shown(shape.tag)}> is passed over", at(link))
            continue
        place, sized = pose_of(element.one("pose")), (size, mesh, scale)
        if shape.tag == "plane":
            place = place.then(_facing(shape.one("normal")))
        found.append(geometry_of(element, k, name, place, shape.tag, sized, friction=_friction(element)))
    return found


def _size(shape: Element) -> tuple[tuple[float, ...] | None, str, tuple[float, ...]]:
    """Size, file and scale of a shape; no size for one that is not known."""
    one = (1.0, 1.0, 1.0)
    if shape.tag == "box":
        return shape.needed("size").numbers("", 3, largest=LARGEST), "", one
    if shape.tag == "sphere":
        return (shape.needed("radius").numbers("", 1, largest=LARGEST)[0],), "", one
    if shape.tag in ("cylinder", "capsule"):
        radius, length = (shape.needed(tag).numbers("", 1, largest=LARGEST)[0] for tag in ("radius", "length"))
        return (radius, length), "", one
    if shape.tag == "ellipsoid":
        return shape.needed("radii").numbers("", 3, largest=LARGEST), "", one
    if shape.tag == "plane":
        return (0.0, 0.0, 0.0), "", one
    if shape.tag == "mesh":
        scale = shape.one("scale")
        return (), shape.needed("uri").content(), one if scale is None else scale.numbers("", 3, one, largest=LARGEST)
    return None, "", one


def _facing(normal: Element | None) -> Pose:
    """Turned so that z is the normal of a plane."""
    n = np.array((0.0, 0.0, 1.0) if normal is None else normal.numbers("", 3, largest=LARGEST))
    if not np.any(n):
        assert normal is not None
        raise normal.error("a normal must not be zero")
    z = n / length(n)
    side = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(side, z) / length(np.cross(side, z))
    return Pose(snapped(np.column_stack([x, np.cross(z, x), z])), np.zeros(3)) if np.any(z[:2]) or z[2] < 0 else Pose.identity()


def _friction(collision: Element) -> tuple[float, ...]:
    """The first coefficient of friction that <surface> gives."""
    element: Element | None = collision
    for tag in ("surface", "friction", "ode"):
        element = element.one(tag) if element is not None else None
    mu = element.one("mu") if element is not None else None
    return () if mu is None else mu.numbers("", 1, (1.0,))
