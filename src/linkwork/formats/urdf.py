"""URDF: a tree of links and joints (wiki.ros.org/urdf/XML).

Structure is checked here, where lines are known; `ModelBuilder` then puts the model together. What only draws, collides,
controls or belongs to another program is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.xml import Element, parse, shown
from linkwork.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.model.builder import GRAVITY
from linkwork.model.names import did_you_mean
from linkwork.spatial import Pose, physical_problems

AXIAL: dict[str, Callable[[Any], Joint]] = {
    "revolute": Revolute,
    "continuous": Revolute,
    "prismatic": Prismatic,
    "planar": Planar,
}
AXISLESS: dict[str, Callable[[], Joint]] = {"fixed": Fixed, "floating": Free}
LIMITED = ("revolute", "prismatic")  # those whose coordinate has limits
LARGEST = 1e30  # of a length, mass or moment: products of some of them stay finite
LONGEST = 1000  # characters of a name
MOST_NOTES = 200  # a note for each part of a very odd file helps nobody

# What may stand in an element; what else does is noted.
CHILDREN = {
    "robot": {"link", "joint", "material", "transmission", "gazebo", "sensor", "ros2_control", "loop", "coupling"},
    "link": {"inertial", "visual", "collision", "contact"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "safety_controller", "calibration"},
    "inertial": {"origin", "mass", "inertia"},
    "loop": {"predecessor", "successor", "axis"},
    "coupling": {"predecessor", "successor", "ratio"},
    "predecessor": {"origin"},
    "successor": {"origin"},
}
ATTRIBUTES = {
    "link": {"name", "type"},
    "joint": {"name", "type", "independent"},
    "origin": {"xyz", "rpy"},
    "mass": {"value"},
    "inertia": {"ixx", "ixy", "ixz", "iyy", "iyz", "izz"},
    "axis": {"xyz"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "dynamics": {"damping", "friction"},
    "parent": {"link"},
    "child": {"link"},
    "loop": {"name", "type"},
    "coupling": {"name"},
    "predecessor": {"link"},
    "successor": {"link"},
    "ratio": {"value"},
    "mimic": {"joint", "multiplier", "offset"},
}


def read(
    text: str | bytes,
    *,
    source: str = "<text>",
    base: str = "fixed",
    gravity: Sequence[float] = GRAVITY,
    strict: bool = False,
) -> Model:
    """The model of a URDF text, called `source` in errors; the rest is as for `load`."""
    return model(parse(text, source), base=base, gravity=gravity, strict=strict)


def model(robot: Element, *, base: str = "fixed", gravity: Sequence[float] = GRAVITY, strict: bool = False) -> Model:
    """The model of a <robot> element; the rest is as for `load`."""
    if base not in ("fixed", "free"):
        raise ModelError(f'base must be "fixed" or "free", not {base!r}')
    _refuse_unsupported(robot)
    notes = _Notes()
    links, joints = _named(robot, "link"), _named(robot, "joint")
    ends = {name: _ends(joint, links) for name, joint in joints.items()}
    root = _root(robot, links, joints, ends)

    builder = ModelBuilder(robot.word("name"), gravity=gravity)
    ground = WORLD if root == WORLD and base == "fixed" else None  # then this link is no body, but the world itself
    called = {name: WORLD if name == ground else name for name in links}
    if WORLD in links and ground is None:
        called[WORLD] = _free_name("world_link", links)
        notes.add(f"{_at(links[WORLD])} is called {called[WORLD]!r} here: the world is what does not move")
    for name, link in links.items():
        _add_link(builder, called[name], link, notes, strict=strict, ground=name == ground)
    if ground is None:
        kind = Free() if base == "free" else Fixed()
        builder.add_joint(_free_name("root_joint", joints), kind, parent=WORLD, child=called[root])
    said = any("independent" in joint.attributes for joint in joints.values())
    for name, joint in joints.items():
        parent, child = ends[name]
        if base == "free" and parent == root and joint.attributes.get("type") == "floating" and not _massive(links[root]):
            raise joint.error(
                f"with base='free' the massless root link {root!r} would float as well, with nothing to decide how: "
                "load this file with base='fixed'"
            )
        _add_joint(builder, name, joint, called[parent], called[child], notes, _independent(joint, said=said))
    closing: dict[str, Element] = {}
    for name, joint in joints.items():
        if joint.one("mimic") and joint.word("type") == "fixed":
            notes.add("<mimic> has no meaning in a fixed joint, and was passed over", _at(joint))
        elif joint.one("mimic"):
            closing[_add_mimic(builder, name, joint, joints, notes)] = joint
    for element in robot.children:
        if element.tag in ("loop", "coupling"):
            closing[_add_loop(builder, element, called, notes)] = element
    closing |= {name: joint for name, joint in joints.items() if "independent" in joint.attributes}
    _note_rest(robot, notes)
    builder.notes += notes.lines()
    try:
        return builder.build()
    except ModelError as error:  # what closes loops is checked as a whole: say where it stands
        for name, element in closing.items():
            if repr(name) in str(error):
                raise element.error(str(error)) from None
        raise


# structure


def _refuse_unsupported(robot: Element) -> None:
    if robot.tag != "robot":
        raise robot.error("this is not a URDF, whose root is <robot>")
    for element in robot.children:
        if element.tag.startswith("xacro:"):
            raise element.error("this is a xacro file: expand it first, by `xacro robot.xacro > robot.urdf`")


def _named(robot: Element, tag: str) -> dict[str, Element]:
    """The links or the joints, by name, in the order of the file."""
    found: dict[str, Element] = {}
    for element in robot.all(tag):
        name = element.word("name")
        if len(name) > LONGEST:
            raise element.error(f"its name is longer than {LONGEST} characters")
        if name in found:
            raise element.error(f"there is already a {tag} of this name in line {found[name].line}: names must differ")
        found[name] = element
    return found


def _ends(joint: Element, links: dict[str, Element]) -> tuple[str, str]:
    """The names of a joint's parent and child."""
    ends = []
    for role in ("parent", "child"):
        element = joint.needed(role)
        name = element.word("link")
        if name not in links:
            hint = did_you_mean(name, list(links)[:1000]) if len(name) < 100 else ""  # among more and longer it takes too long
            if name == WORLD:
                hint = f': add <link name="{WORLD}"/> for what does not move'
            raise element.error(f"there is no link named {shown(name)!r}{hint}")
        ends.append(name)
    if ends[0] == ends[1]:
        raise joint.error(f"it joins the link {shown(ends[0])!r} to itself: parent and child must differ")
    return ends[0], ends[1]


def _root(robot: Element, links: dict[str, Element], joints: dict[str, Element], ends: dict[str, tuple[str, str]]) -> str:
    """The one link that is no joint's child, after a check that all links hang on it."""
    if not links:
        raise robot.error("there is no <link> in it, and a robot has at least one")
    above: dict[str, str] = {}  # child link -> its joint
    below: dict[str, list[str]] = {name: [] for name in links}
    for name, (parent, child) in ends.items():
        if child in above:
            first = joints[above[child]]
            raise joints[name].error(
                f"its child {shown(child)!r} is already the child of {first.label} in line {first.line}: "
                "a link hangs on one joint; what holds it besides is a <loop>"
            )
        above[child] = name
        below[parent].append(child)
    roots = [name for name in links if name not in above]
    if len(roots) > 1:
        raise links[roots[1]].error(
            f"it is a second root: no joint has it as its child, and none has {links[roots[0]].label} in line "
            f"{links[roots[0]].line}; all links but one must hang on others"
        )
    reached = set(roots)
    waiting = list(roots)
    while waiting:
        news = below[waiting.pop()]
        reached.update(news)
        waiting += news
    lost = next((name for name in links if name not in reached), None)
    if lost is not None:
        raise _circle(lost, joints, ends, above)
    return roots[0]


def _circle(lost: str, joints: dict[str, Element], ends: dict[str, tuple[str, str]], above: dict[str, str]) -> ModelError:
    """Why a link does not hang on the root, while there is no other: somewhere above it joints run in a circle."""
    way: dict[str, None] = {}
    while lost not in way:
        way[lost] = None
        lost = ends[above[lost]][0]
    circle = list(way)[list(way).index(lost) :]
    names = ", ".join(repr(shown(name)) for name in circle[:5]) + (" ..." if len(circle) > 5 else "")
    return joints[above[lost]].error(
        f"it closes a circle of links, {names}, that hangs on nothing: one link must be no joint's child"
    )


def _free_name(wanted: str, taken: Container[str]) -> str:
    """A name like the wanted one that nothing in the file has."""
    names = (wanted if k == 1 else f"{wanted}_{k}" for k in count(1))
    return next(name for name in names if name not in taken)


# parts


def _add_link(builder: ModelBuilder, name: str, link: Element, notes: _Notes, *, strict: bool, ground: bool) -> None:
    mass, centre, moment = _inertial(link, notes)
    problems = physical_problems(mass, moment)
    if problems and strict:
        raise (link.one("inertial") or link).error(f"{'; '.join(problems)}: no body is like this")
    for problem in problems:
        notes.add(f"{_at(link)}: {problem}: no body is like this")
    if not ground:
        known = len(builder.notes)
        builder.add_body(name, mass=mass, center=centre.tolist(), inertia=moment, check=False)
        del builder.notes[known:]  # the same problems, without lines
    elif mass:
        notes.add(f"{_at(link)} is what does not move: its mass does not count")


def _inertial(link: Element, notes: _Notes) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass [kg], centre [m], and moment of inertia about that centre in the link's axes [kg m²]."""
    inertial = link.one("inertial")
    if inertial is None:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    _note_strange(inertial, notes)
    place = _origin(inertial, notes)
    value, inertia = inertial.needed("mass"), inertial.needed("inertia")
    _note_strange(value, notes)
    _note_strange(inertia, notes)
    mass = value.number("value", largest=LARGEST)
    if mass < 0:
        raise value.error(f"the mass {mass:g} kg is negative")
    xx, xy, xz, yy, yz, zz = (inertia.number(f"i{ab}", largest=LARGEST) for ab in ("xx", "xy", "xz", "yy", "yz", "zz"))
    moment = place.R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ place.R.T
    return mass, place.p, 0.5 * (moment + moment.T)


def _massive(link: Element) -> bool:
    return _inertial(link, _Notes())[0] > 0


def _origin(element: Element, notes: _Notes) -> Pose:
    origin = element.one("origin")
    if origin is None:
        return Pose.identity()
    if "quat_xyzw" in origin.attributes:
        raise origin.error("quaternions are not read: give roll, pitch and yaw as rpy")
    _note_strange(origin, notes)
    none = (0.0, 0.0, 0.0)
    return Pose.placed(origin.numbers("xyz", 3, none, largest=LARGEST), origin.numbers("rpy", 3, none, largest=LARGEST))


def _add_joint(
    builder: ModelBuilder, name: str, joint: Element, parent: str, child: str, notes: _Notes, independent: bool | None
) -> None:
    _note_strange(joint, notes)
    type_ = joint.word("type")
    kind = _kind(joint, type_, notes)
    more: dict[str, Any] = {}
    if type_ in ("revolute", "continuous", "prismatic"):
        more = _limits(joint, type_, notes) | _dynamics(joint, notes)
    elif type_ != "fixed" and any(joint.all(tag) for tag in ("limit", "dynamics")):
        notes.add(f"<limit> and <dynamics> have no meaning in a {type_} joint, and were passed over", _at(joint))
    builder.add_joint(name, kind, parent=parent, child=child, place=_origin(joint, notes), independent=independent, **more)


def _independent(joint: Element, *, said: bool) -> bool | None:
    """Whether a joint shall be independent in its loop: true unless the file says otherwise, where it says so of any."""
    word = joint.attributes.get("independent", "true")
    if word not in ("true", "false"):
        raise joint.error(f"independent must be true or false, not {shown(word)!r}")
    if joint.one("mimic") is not None:
        return False
    return (word == "true") if said else None


def _add_mimic(builder: ModelBuilder, name: str, joint: Element, joints: dict[str, Element], notes: _Notes) -> str:
    """A joint that follows another; gives the name of their coupling."""
    mimic = joint.needed("mimic")
    _note_strange(mimic, notes)
    other = mimic.word("joint")
    if other not in joints:
        raise mimic.error(f"there is no joint named {shown(other)!r}{did_you_mean(other, joints)}")
    if other == name:
        raise mimic.error("it follows itself")
    for element in (joint, joints[other]):
        if element.word("type") not in ("revolute", "continuous", "prismatic"):
            raise mimic.error(f"{element.label} has no one coordinate to follow or be followed by")
    way = [other]
    while (further := joints[way[-1]].one("mimic")) and further.attributes.get("joint") in joints:
        way.append(further.attributes["joint"])
        if way[-1] == name:
            raise mimic.error(f"it follows itself, by way of {', '.join(repr(shown(x)) for x in way[:-1])}")
        if way[-1] in way[:-1]:
            break  # a circle that this joint is not in: one of those will say so
    factor, offset = mimic.number("multiplier", 1.0, largest=LARGEST), mimic.number("offset", 0.0, largest=LARGEST)
    coupling = f"{name} follows {other}"
    builder.add_coupling(coupling, {name: 1.0, other: -factor}, offset=offset)
    return coupling


def _add_loop(builder: ModelBuilder, loop: Element, called: dict[str, str], notes: _Notes) -> str:
    """A <loop> or <coupling> of URDF+; gives its name."""
    name = loop.word("name")
    if len(name) > LONGEST:
        raise loop.error(f"its name is longer than {LONGEST} characters")
    _note_strange(loop, notes)
    ends, places = [], []
    for role in ("predecessor", "successor"):
        end = loop.needed(role)
        _note_strange(end, notes)
        link = end.word("link")
        if link not in called:
            raise end.error(f"there is no link named {shown(link)!r}{did_you_mean(link, called)}")
        ends.append(called[link])
        places.append(_origin(end, notes))
    if ends[0] == ends[1]:
        raise loop.error(f"it joins the link {shown(ends[0])!r} to itself: predecessor and successor must differ")
    try:
        if loop.tag == "coupling":
            ratio = loop.needed("ratio").number("value", largest=LARGEST)
            builder.add_coupling(name, predecessor=ends[0], successor=ends[1], ratio=ratio)
        else:
            kind = _kind(loop, loop.word("type"), notes)
            builder.add_loop(name, kind, predecessor=ends[0], successor=ends[1], place=places[0], successor_place=places[1])
    except ModelError as error:
        raise error if ":" in str(error).partition(" ")[0] else loop.error(str(error)) from None
    return name


def _kind(joint: Element, type_: str, notes: _Notes) -> Joint:
    if type_ in AXISLESS:
        return AXISLESS[type_]()
    if type_ not in AXIAL:
        raise joint.error(f"there is no joint type {shown(type_)!r}; there are {', '.join([*AXIAL, *AXISLESS])}")
    axis = joint.one("axis")
    if axis is None:
        return AXIAL[type_]((1.0, 0.0, 0.0))
    _note_strange(axis, notes)
    try:
        return AXIAL[type_](axis.numbers("xyz", 3, largest=LARGEST))
    except ModelError:
        raise
    except ValueError:
        raise axis.error("the axis has no length: it must be a direction, such as 0 0 1") from None


def _limits(joint: Element, type_: str, notes: _Notes) -> dict[str, Any]:
    limit = joint.one("limit")
    if limit is None:
        if type_ in LIMITED:
            notes.add("no <limit>, so none is known", _at(joint))
        return {}
    _note_strange(limit, notes)
    found = {}
    for key, word in (("effort", "max_effort"), ("velocity", "max_velocity")):
        if key in limit.attributes:
            found[word] = _not_negative(limit, key)
        else:
            notes.add(f"no {key} in <limit>, so none is known", _at(joint))
    if type_ in LIMITED:
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if lower > upper:
            raise limit.error(f"its lower limit {lower:g} is above its upper limit {upper:g}")
        if lower == upper == 0.0:  # as many exporters write: by the letter it could not move
            notes.add("lower and upper limit are both absent or 0: taken as unlimited", _at(joint))
        else:
            found |= {"lower": lower, "upper": upper}
    return found


def _dynamics(joint: Element, notes: _Notes) -> dict[str, Any]:
    dynamics = joint.one("dynamics")
    if dynamics is None:
        return {}
    _note_strange(dynamics, notes)
    return {key: _not_negative(dynamics, key, 0.0, largest=LARGEST) for key in ("damping", "friction")}


def _not_negative(element: Element, key: str, default: float | None = None, largest: float = np.inf) -> float:
    value = element.number(key, default, largest=largest)
    if value < 0:
        raise element.error(f"its {key} {value:g} is negative")
    return value


# what is noted


class _Notes:
    """What a reader wants to say, gathered by what it is, so that a hundred joints make one line."""

    def __init__(self) -> None:
        self.by_text: dict[str, list[str]] = {}

    def add(self, text: str, *of: str) -> None:
        self.by_text.setdefault(text, []).extend(of)

    def lines(self) -> list[str]:
        lines = [f"{text}: {_some(of)}" if of else text for text, of in self.by_text.items()]
        return lines if len(lines) <= MOST_NOTES else [*lines[:MOST_NOTES], f"and {len(lines) - MOST_NOTES} notes more"]


def _some(of: list[str], most: int = 8) -> str:
    return ", ".join(of[:most]) + (f" and {len(of) - most} more" if len(of) > most else "")


def _at(element: Element) -> str:
    """Such as `joint 'knee' (line 12)`."""
    return f"{element.tag} {shown(element.attributes['name'])!r} (line {element.line})"


def _note_strange(element: Element, notes: _Notes) -> None:
    """Note what is not URDF in an element: it may be a slip of the pen, or another program's."""
    for child in element.children:
        if child.tag not in CHILDREN.get(element.tag, ()):
            notes.add(f"<{shown(child.tag)}> in <{element.tag}> is not URDF, and was passed over", f"line {child.line}")
    for key in element.attributes:
        if key not in ATTRIBUTES.get(element.tag, (key,)):
            notes.add(f"{shown(key)} in <{element.tag}> is not URDF, and was passed over", f"line {element.line}")


def _note_rest(robot: Element, notes: _Notes) -> None:
    _note_strange(robot, notes)
    meshes = []
    for link in robot.all("link"):
        _note_strange(link, notes)
        meshes += [m.attributes.get("filename", "") for m in _within(link, ("visual", "collision"), ("geometry",), ("mesh",))]
    if meshes:
        files = sorted(set(meshes))
        notes.add(
            f"{len(files)} mesh file{'s' * (len(files) > 1)} named, none opened: {_some([shown(file) for file in files], 3)}"
        )


def _within(element: Element, *tags: Sequence[str]) -> Iterable[Element]:
    """All elements at the end of a path of tags."""
    found = [element]
    for allowed in tags:
        found = [child for parent in found for child in parent.children if child.tag in allowed]
    return found
