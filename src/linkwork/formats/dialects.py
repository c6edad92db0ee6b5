"""Loop constraints in URDF files, in the dialects of several programs. All become loops and couplings of a builder.

Besides <mimic>, and <loop> and <coupling> of URDF+, these are read:

    <loop_joint> with <link1> and <link2>                 Isaac Sim
    <drake:ball_constraint>                               Drake
    <joint> of SDF in a <gazebo> without reference        Gazebo, which adds it to the tree; also type="gearbox"

Other tags that seem to constrain links are an error: without them the mechanism would be another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.urdf_parts import LARGEST, LONGEST, ONE, Notes, at, joint_kind, note_strange, origin, unknown
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Joint, Prismatic, Revolute, Spherical, Universal
from linkwork.lazy import cached_property
from linkwork.model import WORLD, ModelBuilder
from linkwork.parts.names import shown, some
from linkwork.spatial import Pose
from linkwork.spatial.constants import length as length_of
from linkwork.spatial.constants import product

CONSTRAINING = re.compile("constraint|loop|closure|coupling|gear|equality")  # tags that seem to be constraints


@dataclass(frozen=True)
class File:
    """A file's links and joints, and the builder that they have gone into, where some links may be `called` otherwise."""

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

    @cached_property
    def zero(self) -> dict[str, Pose]:
        """The poses of all links, where every joint is at zero, as seen from the root, where SDF's model is, and the world."""
        below: dict[str, list[tuple[str, str]]] = {}
        for name, (parent, child) in self.ends.items():
            below.setdefault(parent, []).append((name, child))
        found = {name: Pose.identity() for name in (WORLD, "__model__", self.root)}
        waiting = [self.root]
        while waiting:
            parent = waiting.pop()
            for name, child in below.get(parent, ()):
                found[child] = found[parent].then(origin(self.joints[name], Notes()))
                waiting.append(child)
        return found

    @cached_property
    def cycles(self) -> set[str]:
        """The joints in cyclic mimics: they follow themselves by way of others."""
        found: set[str] = set()
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
                found.update(names[names.index(name) :])
        return found

    @cached_property
    def above(self) -> dict[str, tuple[str, str]]:
        """The joint that holds each link, and the link that it hangs on."""
        return {child: (joint, parent) for joint, (parent, child) in self.ends.items()}


def close_loops(file: File) -> None:
    """Adds all loop constraints of the file to the builder."""
    for name, joint in file.joints.items():
        if joint.one("mimic") and joint.word("type") == "fixed":
            file.notes.add("<mimic> has no meaning in a fixed joint, and was passed over", at(joint))
        elif joint.one("mimic"):
            file.closing[_mimic(file, name, joint)] = joint
    readers = {"loop": _loop, "coupling": _loop, "loop_joint": _loop_joint, "drake:ball_constraint": _ball}
    for element in file.robot.children:
        if element.tag in readers:
            note_strange(element, file.notes)
            file.closing[readers[element.tag](file, element)] = element
        elif element.tag == "gazebo" and "reference" not in element.attributes:
            _gazebo(file, element)
        elif CONSTRAINING.search(element.tag.lower()):
            raise element.error("it seems to constrain links, but this tag is not supported: write it as <loop> or <coupling>")


def _mimic(file: File, name: str, joint: Element) -> str:
    """A joint that follows another."""
    mimic, joints = joint.needed("mimic"), file.joints
    note_strange(mimic, file.notes)
    other = mimic.word("joint")
    if other not in joints:
        raise unknown(mimic, "joint", other, joints)
    if other == name:
        raise mimic.error("it follows itself")
    for element in (joint, joints[other]):
        if element.word("type") not in ONE:
            raise mimic.error(f"{element.label} has no one coordinate to follow or be followed by")
    if name in file.cycles:
        path = [other]
        while (further := joints[path[-1]].needed("mimic").word("joint")) != name:
            path.append(further)
        raise mimic.error(f"it follows itself, by way of {some([repr(shown(x)) for x in path])}")
    factor, offset = mimic.number("multiplier", 1.0, largest=LARGEST), mimic.number("offset", 0.0, largest=LARGEST)
    coupling = f"{name} follows {other}"
    file.builder.add_coupling(coupling, {name: 1.0, other: -factor}, offset=offset)
    return coupling


# URDF+, Isaac Sim, Drake


def _loop(file: File, loop: Element) -> str:
    """A <loop> or <coupling> of URDF+, or a coupling of any joints: <term joint="a" coefficient="2"/>."""
    if loop.tag == "coupling" and loop.all("term"):
        return _terms(file, loop)
    ends = [loop.needed(role) for role in ("predecessor", "successor")]
    for end in ends:
        note_strange(end, file.notes)
    links, places = [_link(file, end, "link") for end in ends], [origin(end, file.notes) for end in ends]
    if loop.tag == "loop":
        return _add_loop(file, loop, _name(loop), joint_kind(loop, loop.word("type"), file.notes), links, places)
    _differ(loop, links)
    name, ratio = _name(loop), loop.needed("ratio").number("value", largest=LARGEST)
    with _told_at(loop):
        file.builder.add_coupling(name, predecessor=file.called[links[0]], successor=file.called[links[1]], ratio=ratio)
    return name


def _terms(file: File, coupling: Element) -> str:
    """Σ coefficient * coordinate = offset."""
    name, terms = _name(coupling), {}
    for term in coupling.all("term"):
        note_strange(term, file.notes)
        joint = term.word("joint")
        if joint not in file.joints:
            raise unknown(term, "joint", joint, file.joints)
        if file.joints[joint].word("type") not in ONE:
            raise term.error(f"{file.joints[joint].label} has no one coordinate to be coupled by")
        if joint in terms:
            raise term.error(f"the joint {shown(joint)!r} is in it already")
        terms[joint] = term.number("coefficient", largest=LARGEST)
    offset = coupling.one("offset")
    with _told_at(coupling):
        file.builder.add_coupling(name, terms, offset=0.0 if offset is None else offset.number("value", largest=LARGEST))
    return name


def _loop_joint(file: File, loop: Element) -> str:
    """Its ends are <link1> and <link2>, or twice <link1>, as Isaac Sim's manual shows."""
    ends = [*loop.all("link1"), *loop.all("link2")]
    if len(ends) != 2:
        raise loop.error(f"it needs <link1> and <link2>, and has {len(ends)} of them")
    links, places = [], []
    for end in ends:
        note_strange(end, file.notes)
        links.append(_link(file, end, "link"))
        none = (0.0, 0.0, 0.0)
        places.append(Pose.placed(*(end.numbers(key, 3, none, largest=LARGEST) for key in ("xyz", "rpy"))))
    kind = joint_kind(loop, loop.word("type"), file.notes)
    return _add_loop(file, loop, _name(loop), kind, links, places)


def _ball(file: File, ball: Element) -> str:
    """It has no name, and holds a point of one link on a point of another."""
    links = [_link(file, ball.needed(f"drake:ball_constraint_body_{x}"), "name") for x in "AB"]
    points = [ball.needed(f"drake:ball_constraint_p_{x}").numbers("value", 3, largest=LARGEST) for x in ("AP", "BQ")]
    name = f"{links[0]} on {links[1]}"
    name += f" (line {ball.line})" if name in file.closing else ""
    return _add_loop(file, ball, name, Spherical(), links, [Pose.translation(np.array(p)) for p in points])


# Gazebo


def _gazebo(file: File, gazebo: Element) -> None:
    """The SDF joints that Gazebo adds to the tree."""
    for child in gazebo.children:
        if child.tag == "joint":
            name = _sdf_joint(file, child)
            if name is not None:
                file.closing[name] = child
        elif child.tag.startswith("joint"):
            file.notes.add(f"<{shown(child.tag)}> in <gazebo> is of an old Gazebo, and was passed over", f"line {child.line}")
        elif child.tag == "plugin":
            for follower in child.all("mimicJoint"):
                joint = file.joints.get(follower.text.strip())
                if joint is not None and joint.one("mimic") is None:
                    file.notes.add("a Gazebo plugin makes joints follow others, which is not read: give <mimic>", at(joint))


def _sdf_joint(file: File, joint: Element) -> str | None:
    """Its frame is placed in the child, and coincides with one of the parent where all joints of the tree are at zero."""
    name, type_ = _name(joint), joint.word("type")
    links = [_link(file, joint.needed(role), "") for role in ("parent", "child")]
    if type_ == "fixed" and links == [WORLD, file.root] and WORLD not in file.links:
        if file.base == "free":
            file.notes.add("Gazebo would hold the root in the world, where base='free' lets it move", at(joint))
        return None
    _differ(joint, links)
    zero = file.zero
    J = _frame(joint.one("pose"), ("relative_to", "frame"), zero, zero[links[1]]).then(_pose(joint))
    if type_ == "gearbox":
        return _gearbox(file, joint, name, links, J)
    for axis in joint.children:
        for child in axis.children if axis.tag in ("axis", "axis2") else ():
            if child.tag in ("limit", "dynamics"):
                file.notes.add(f"<{child.tag}> does not act in a joint that closes a loop, and was passed over", at(joint))
    kind: Joint
    if type_ == "universal":
        x, y = (product(J.R.T, _axis(joint, tag, zero, J)) for tag in ("axis", "axis2"))
        if abs(product(x, y)) > 1e-6:
            raise joint.error("the axes of a universal joint must be at right angles")
        kind, J = Universal(), J.then(Pose(np.column_stack([x, y, np.cross(x, y)]), np.zeros(3)))
    elif type_ in ("ball", "fixed"):
        kind = Spherical() if type_ == "ball" else Fixed()
    elif type_ in ONE[:3]:
        kind = (Prismatic if type_ == "prismatic" else Revolute)(product(J.R.T, _axis(joint, "axis", zero, J)))
    else:
        known = ", ".join((*ONE[:3], "ball", "universal", "fixed", "gearbox"))
        raise joint.error(f"there is no type {shown(type_)!r} of joints that close a loop; there are {known}")
    return _add_loop(file, joint, name, kind, links, [zero[link].inverse().then(J) for link in links])


def _gearbox(file: File, gearbox: Element, name: str, links: list[str], J: Pose) -> str:
    """θ₂ = -ratio θ₁, the angles from a reference body to the parent about <axis>, and to the child about <axis2>."""
    reference, ratio = gearbox.needed("gearbox_reference_body"), gearbox.needed("gearbox_ratio")
    below = _link(file, reference, "")
    terms: dict[str, float] = {}
    for link, tag, factor in zip(links, ("axis", "axis2"), (ratio.numbers("", 1, largest=LARGEST)[0], 1.0)):
        path: list[str] = []
        while link != below and link in file.above and len(path) < 2:
            joint, link = file.above[link]
            path += [joint] if file.joints[joint].word("type") != "fixed" else []
        if link != below or len(path) != 1 or file.joints[path[0]].word("type") not in ONE[:2] or path[0] in terms:
            raise gearbox.error(f"each of its links must hang on {shown(below)!r} by one hinge of its own, and no other joint")
        hinge = file.joints[path[0]]
        kind: Any = joint_kind(hinge, hinge.word("type"), Notes())
        along = product(file.zero[file.ends[path[0]][1]].R, kind.unit)
        same = product(along, _axis(gearbox, tag if gearbox.one(tag) else "axis", file.zero, J))
        if abs(abs(same) - 1.0) > 1e-6:
            raise gearbox.error(f"its <{tag}> is not the axis of joint {shown(path[0])!r}")
        terms[path[0]] = factor * float(np.sign(same))
    with _told_at(gearbox):
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
        raise pose.error("degrees and quaternions are not read: give roll, pitch and yaw in radians")
    numbers = pose.numbers("", 6, (0.0,) * 6, largest=LARGEST)
    return Pose.placed(numbers[:3], numbers[3:])


def _axis(joint: Element, tag: str, zero: dict[str, Pose], J: Pose) -> np.ndarray:
    """The unit direction of an axis as seen from the root: given in the joint's frame, or in another that is named."""
    axis = joint.needed(tag)
    xyz = axis.needed("xyz")
    direction = np.array(xyz.numbers("", 3, largest=LARGEST))
    length = length_of(direction)
    if length == 0.0:
        raise xyz.error("the axis has no length: it must be a direction, such as 0 0 1")
    parents = axis.one("use_parent_model_frame")
    if parents is not None and parents.content() in ("true", "1"):
        return direction / length
    return product(_frame(xyz, ("expressed_in",), zero, J).R, direction) / length


def _frame(element: Element | None, keys: tuple[str, ...], zero: dict[str, Pose], default: Pose) -> Pose:
    """The pose of the frame that an element names; those of the links are known, and that of the model."""
    for key, name in element.attributes.items() if element is not None else ():
        if key in keys and name:
            if name not in zero:
                raise element.error(f"its {key} names {shown(name)!r}, which is no link")  # type: ignore[union-attr]
            return zero[name]
    return default


# common to all


def _name(element: Element) -> str:
    name = element.word("name")
    if len(name) > LONGEST:
        raise element.error(f"its name is longer than {LONGEST} characters")
    return name


def _link(file: File, end: Element, key: str) -> str:
    """The link that an element names in an attribute, or in its text; in SDF also the world."""
    name = end.word(key) if key else end.content()
    if name not in file.called and not (name == WORLD and not key):
        raise unknown(end, "link", name, file.called)
    return name


def _differ(loop: Element, links: list[str]) -> None:
    if links[0] == links[1]:
        raise loop.error(f"it joins the link {shown(links[0])!r} to itself: predecessor and successor must differ")


def _add_loop(file: File, loop: Element, name: str, kind: Joint, links: list[str], places: list[Pose]) -> str:
    """Adds a loop joint between two links."""
    _differ(loop, links)
    first, second = (file.called.get(link, link) for link in links)
    with _told_at(loop):
        file.builder.add_loop(name, kind, predecessor=first, successor=second, place=places[0], successor_place=places[1])
    return name


@contextmanager
def _told_at(element: Element) -> Iterator[None]:
    """What a builder refuses is told with the line of the element that asked for it."""
    try:
        yield
    except ModelError as error:
        raise element.error(str(error)) from None
