"""Loop constraints in URDF files, in the syntaxes of several tools; all become loops and couplings.

Besides <mimic>, and <loop> and <coupling> of URDF+, these are supported:

    <loop_joint> with <link1> and <link2>            Isaac Sim
    <drake:ball_constraint>                          Drake
    SDF <joint> in <gazebo> without reference        Gazebo, which adds it to the tree;
                                                     also type="gearbox"

Other elements that appear to constrain links raise an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.extension import Extension, embedded, integers
from linkwork.formats.gearbox import TreeJoint, gear_terms
from linkwork.formats.urdf_parts import MAX_NAME, MAX_VALUE, ONE, Notes, at, joint_kind, origin, unknown
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Joint, Prismatic, Revolute, Spherical, Universal
from linkwork.lazy import cached_property
from linkwork.mechanism.names import join_names, printable
from linkwork.model import WORLD, ModelBuilder
from linkwork.spatial import Pose
from linkwork.spatial.constants import length as length_of
from linkwork.spatial.constants import product

# Tags that appear to be constraints.
CONSTRAINING = re.compile("constraint|loop|closure|coupling|gear|equality")


@dataclass(frozen=True)
class File:
    """The links and joints of a file, and the builder that received them.

    `called` maps links to bodies, whose names may differ.
    """

    robot: Element
    links: dict[str, Element]
    joints: dict[str, Element]
    ends: dict[str, tuple[str, str]]
    root: str
    base: str
    builder: ModelBuilder
    called: dict[str, str]
    notes: Notes
    closing: dict[str, Element]  # loop constraints, by name
    extension: Extension = field(default_factory=Extension)  # data of <linkwork>

    @cached_property
    def zero(self) -> dict[str, Pose]:
        """The poses of all links relative to the root with all joints at zero, SDF's model and the world."""
        below: dict[str, list[tuple[str, str]]] = {}
        for name, (parent, child) in self.ends.items():
            below.setdefault(parent, []).append((name, child))
        poses = {name: Pose.identity() for name in (WORLD, "__model__", self.root)}
        stack = [self.root]
        while stack:
            parent = stack.pop()
            for name, child in below.get(parent, ()):
                poses[child] = poses[parent].then(origin(self.joints[name], Notes()))
                stack.append(child)
        return poses

    @cached_property
    def cycles(self) -> set[str]:
        """The joints in cyclic mimics, which follow themselves through others."""
        cyclic: set[str] = set()
        seen: set[str] = set()
        for name in self.joints:
            path: dict[str, None] = {}  # in order
            while name in self.joints and name not in seen:
                seen.add(name)
                path[name] = None
                mimic = self.joints[name].one("mimic")
                name = mimic.attributes.get("joint", "") if mimic else ""
            if name in path:
                names = list(path)
                cyclic.update(names[names.index(name) :])
        return cyclic

    @cached_property
    def tree_joints(self) -> dict[str, TreeJoint]:
        """The parent link and joint of each link in the tree."""
        tree_joints = {}
        for name, (parent, child) in self.ends.items():
            type_ = self.joints[name].word("type")
            along = None
            if type_ in ONE[:2]:
                kind: Any = joint_kind(self.joints[name], type_, Notes())
                along = product(np.asarray(self.zero[child].R, dtype=float), kind.unit)
            tree_joints[child] = TreeJoint(parent, "" if type_ == "fixed" else name, along)
        return tree_joints


def close_loops(file: File) -> None:
    """Add all loop constraints of the file to the builder."""
    for name, joint in file.joints.items():
        if joint.one("mimic") and joint.word("type") == "fixed":
            file.notes.add("<mimic> in a fixed joint is ignored", at(joint))
        elif joint.one("mimic"):
            file.closing[_mimic(file, name, joint)] = joint
    readers = {"loop": _loop, "coupling": _loop, "loop_joint": _loop_joint, "drake:ball_constraint": _ball}
    for element in file.robot.children:
        if element.tag in readers:
            file.closing[readers[element.tag](file, element)] = element
        elif element.tag == "gazebo" and "reference" not in element.attributes:
            _gazebo(file, element)
        elif CONSTRAINING.search(element.tag.lower()):
            raise element.error(
                "unsupported element that appears to constrain links: write it as <loop> or <coupling>"
            )


def _mimic(file: File, name: str, joint: Element) -> str:
    """Add the coupling of a joint that follows another, and return its name."""
    mimic = joint.needed("mimic")
    joints = file.joints
    other = mimic.word("joint")
    if other not in joints:
        raise unknown(mimic, "joint", other, joints)
    if other == name:
        raise mimic.error("the joint follows itself")
    for element in (joint, joints[other]):
        if element.word("type") not in ONE:
            raise mimic.error(f"{element.label}: expected a joint with one DoF")
    if name in file.cycles:
        path = [other]
        while (further := joints[path[-1]].needed("mimic").word("joint")) != name:
            path.append(further)
        raise mimic.error(
            f"cyclic mimic: the joint follows itself through {join_names([repr(printable(x)) for x in path])}"
        )
    factor = mimic.number("multiplier", 1.0, largest=MAX_VALUE)
    offset = mimic.number("offset", 0.0, largest=MAX_VALUE)
    coupling = f"{name} follows {other}"
    file.builder.add_coupling(coupling, {name: 1.0, other: -factor}, offset=offset)
    return coupling


# URDF+, Isaac Sim, Drake


def _loop(file: File, loop: Element) -> str:
    """Add a <loop> or <coupling> of URDF+, or a coupling with <term>s; return its name."""
    if loop.tag == "coupling" and loop.all("term"):
        return _terms(file, loop)
    ends = [loop.needed(role) for role in ("predecessor", "successor")]
    links = [_link(file, end, "link") for end in ends]
    places = [origin(end, file.notes) for end in ends]
    if loop.tag == "loop":
        if "kept" in loop.attributes:
            file.extension.kept[_name(loop)] = integers(loop, "kept")
        kind = joint_kind(loop, loop.word("type"), file.notes)
        return _add_loop(file, loop, _name(loop), kind, links, places, embed=embedded(loop))
    _differ(loop, links)
    name = _name(loop)
    ratio = loop.needed("ratio").number("value", largest=MAX_VALUE)
    with _errors_at(loop):
        first, second = (file.called[link] for link in links)
        file.builder.add_coupling(
            name, predecessor=first, successor=second, ratio=ratio, embed=embedded(loop)
        )
    return name


def _terms(file: File, coupling: Element) -> str:
    """Add a coupling Σ coefficient * coordinate = offset, and return its name."""
    name = _name(coupling)
    terms = {}
    for term in coupling.all("term"):
        joint = term.word("joint")
        if joint not in file.joints:
            raise unknown(term, "joint", joint, file.joints)
        if file.joints[joint].word("type") not in ONE:
            raise term.error(f"{file.joints[joint].label}: expected a joint with one DoF")
        if joint in terms:
            raise term.error(f"duplicate joint {printable(joint)!r}")
        terms[joint] = term.number("coefficient", largest=MAX_VALUE)
    offset = coupling.one("offset")
    value = 0.0 if offset is None else offset.number("value", largest=MAX_VALUE)
    with _errors_at(coupling):
        file.builder.add_coupling(name, terms, offset=value, embed=embedded(coupling))
    return name


def _loop_joint(file: File, loop: Element) -> str:
    """Add a loop with the ends <link1> and <link2>, or <link1> twice as in Isaac Sim's manual."""
    ends = [*loop.all("link1"), *loop.all("link2")]
    if len(ends) != 2:
        raise loop.error(f"expected <link1> and <link2>, got {len(ends)} elements")
    links = []
    places = []
    for end in ends:
        links.append(_link(file, end, "link"))
        zero = (0.0, 0.0, 0.0)
        places.append(
            Pose.from_xyz_rpy(*(end.numbers(key, 3, zero, largest=MAX_VALUE) for key in ("xyz", "rpy")))
        )
    kind = joint_kind(loop, loop.word("type"), file.notes)
    return _add_loop(file, loop, _name(loop), kind, links, places)


def _ball(file: File, ball: Element) -> str:
    """Add a ball constraint between points of two links; it gets a name from them."""
    links = [_link(file, ball.needed(f"drake:ball_constraint_body_{x}"), "name") for x in "AB"]
    points = [
        ball.needed(f"drake:ball_constraint_p_{x}").numbers("value", 3, largest=MAX_VALUE)
        for x in ("AP", "BQ")
    ]
    name = f"{links[0]} on {links[1]}"
    name += f" (line {ball.line})" if name in file.closing else ""
    return _add_loop(file, ball, name, Spherical(), links, [Pose.translation(np.array(p)) for p in points])


# Gazebo


def _gazebo(file: File, gazebo: Element) -> None:
    """Add the SDF joints that Gazebo adds to the tree."""
    for child in gazebo.children:
        if child.tag == "joint":
            name = _sdf_joint(file, child)
            if name is not None:
                file.closing[name] = child
        elif child.tag.startswith("joint"):
            message = f"<{printable(child.tag)}> in <gazebo> is not supported and ignored"
            file.notes.lost(child, message, f"line {child.line}")
        elif child.tag == "plugin":
            for follower in child.all("mimicJoint"):
                joint = file.joints.get(follower.text.strip())
                if joint is not None and joint.one("mimic") is None:
                    message = "a joint coupled by a Gazebo plugin is not supported and ignored: use <mimic>"
                    file.notes.lost(follower, message, at(joint))


def _sdf_joint(file: File, joint: Element) -> str | None:
    """Add an SDF joint, whose frame is placed in the child with all joints of the tree at zero."""
    name = _name(joint)
    type_ = joint.word("type")
    links = [_link(file, joint.needed(role), "") for role in ("parent", "child")]
    if type_ == "fixed" and links == [WORLD, file.root] and WORLD not in file.links:
        if file.base == "free":
            file.notes.add("a joint to the world is ignored, since base='free' is given", at(joint))
        return None
    _differ(joint, links)
    zero = file.zero
    J = _frame(joint.one("pose"), ("relative_to", "frame"), zero, zero[links[1]]).then(_pose(joint))
    if type_ == "gearbox":
        return _gearbox(file, joint, name, links, J)
    for axis in joint.children:
        for child in axis.children if axis.tag in ("axis", "axis2") else ():
            if child.tag in ("limit", "dynamics"):
                message = f"<{child.tag}> in a joint that closes a loop is not supported and ignored"
                file.notes.lost(child, message, at(joint))
    kind: Joint
    if type_ == "universal":
        x, y = (product(J.R.T, _axis(joint, tag, zero, J)) for tag in ("axis", "axis2"))
        if abs(product(x, y)) > 1e-6:
            raise joint.error("universal joint: expected perpendicular axes")
        kind = Universal()
        J = J.then(Pose(np.column_stack([x, y, np.cross(x, y)]), np.zeros(3)))
    elif type_ in ("ball", "fixed"):
        kind = Spherical() if type_ == "ball" else Fixed()
    elif type_ in ONE[:3]:
        kind = (Prismatic if type_ == "prismatic" else Revolute)(
            product(J.R.T, _axis(joint, "axis", zero, J))
        )
    else:
        known = ", ".join((*ONE[:3], "ball", "universal", "fixed", "gearbox"))
        raise joint.error(f"unknown type {printable(type_)!r} of a loop joint; expected one of {known}")
    return _add_loop(file, joint, name, kind, links, [zero[link].inverse().then(J) for link in links])


def _gearbox(file: File, gearbox: Element, name: str, links: list[str], J: Pose) -> str:
    """Add a gearbox θ₂ = -ratio θ₁ and return its name.

    θ₁ and θ₂ are the angles from a reference body to the parent about <axis>, and to the child about <axis2>.
    """
    reference = _link(file, gearbox.needed("gearbox_reference_body"), "")
    tags = ["axis2" if gearbox.one("axis2") else "axis", "axis"][::-1]
    axes = [_axis(gearbox, tag, file.zero, J) if gearbox.one(tag) else None for tag in tags]
    terms = gear_terms(gearbox, reference, links, axes, file.tree_joints)
    with _errors_at(gearbox):
        file.builder.add_coupling(name, terms)
    return name


def _pose(joint: Element) -> Pose:
    pose = joint.one("pose")
    if pose is None:
        return Pose.identity()
    if (
        pose.attributes.get("degrees", "false") not in ("false", "0")
        or pose.attributes.get("rotation_format", "euler_rpy") != "euler_rpy"
    ):
        raise pose.error(
            "pose: degrees and quaternions are not supported; use roll, pitch and yaw in radians"
        )
    numbers = pose.numbers("", 6, (0.0,) * 6, largest=MAX_VALUE)
    return Pose.from_xyz_rpy(numbers[:3], numbers[3:])


def _axis(joint: Element, tag: str, zero: dict[str, Pose], J: Pose) -> np.ndarray:
    """Return the unit direction of an axis in the axes of the root."""
    axis = joint.needed(tag)
    xyz = axis.needed("xyz")
    direction = np.array(xyz.numbers("", 3, largest=MAX_VALUE))
    length = length_of(direction)
    if length == 0.0:
        raise xyz.error("axis: expected a nonzero vector such as 0 0 1")
    parents = axis.one("use_parent_model_frame")
    if parents is not None and parents.content() in ("true", "1"):
        return direction / length
    return product(_frame(xyz, ("expressed_in",), zero, J).R, direction) / length


def _frame(element: Element | None, keys: tuple[str, ...], zero: dict[str, Pose], default: Pose) -> Pose:
    """Return the pose of the frame that an element names: a link or the model."""
    for key, name in element.attributes.items() if element is not None else ():
        if key in keys and name:
            if name not in zero:
                raise element.error(f"{key}: no link named {printable(name)!r}")  # type: ignore[union-attr]
            return zero[name]
    return default


# shared helpers


def _name(element: Element) -> str:
    name = element.word("name")
    if len(name) > MAX_NAME:
        raise element.error(f"name: longer than {MAX_NAME} characters")
    return name


def _link(file: File, end: Element, key: str) -> str:
    """Return the link that an element names in an attribute or its text; in SDF also the world."""
    name = end.word(key) if key else end.content()
    if name not in file.called and not (name == WORLD and not key):
        raise unknown(end, "link", name, file.called)
    return name


def _differ(loop: Element, links: list[str]) -> None:
    if links[0] == links[1]:
        raise loop.error(
            f"predecessor and successor are the same link {printable(links[0])!r}; expected two links"
        )


def _add_loop(
    file: File,
    loop: Element,
    name: str,
    kind: Joint,
    links: list[str],
    places: list[Pose],
    *,
    embed: bool = True,
) -> str:
    """Add a loop joint between two links, and return its name."""
    _differ(loop, links)
    first, second = (file.called.get(link, link) for link in links)
    with _errors_at(loop):
        file.builder.add_loop(
            name,
            kind,
            predecessor=first,
            successor=second,
            place=places[0],
            successor_place=places[1],
            embed=embed,
        )
    return name


@contextmanager
def _errors_at(element: Element) -> Iterator[None]:
    """Raise ModelErrors of the block with the line of this element."""
    try:
        yield
    except ModelError as error:
        raise element.error(str(error)) from None
