"""URDF: a tree of links and joints (wiki.ros.org/urdf/XML).

Structure is checked here, where lines are known; `ModelBuilder` then puts the model together. What only draws, collides,
controls or belongs to another program is passed over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import count
from typing import Any

from linkwork.errors import LimitError, ModelError
from linkwork.formats.dialects import File, close_loops
from linkwork.formats.finish import built
from linkwork.formats.urdf_parts import (
    LONGEST,
    ONE,
    Notes,
    at,
    dynamics,
    inertial,
    joint_kind,
    limits,
    note_strange,
    place,
    unknown,
)
from linkwork.formats.urdf_shapes import UNOPENED, shapes
from linkwork.formats.xml import Element, parse
from linkwork.joints import Fixed, Free, Revolute, Spherical
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.model.builder import GRAVITY
from linkwork.model.loop_joints import AS_THE_FILE_SAYS, LoopOptions
from linkwork.parts import Actuator
from linkwork.parts.limits import Limits, checked_limits
from linkwork.parts.names import did_you_mean, shown, some
from linkwork.spatial import physical_problems

UNITS = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}


def read(
    text: str | bytes,
    *,
    source: str = "<text>",
    base: str = "fixed",
    gravity: Sequence[float] = GRAVITY,
    strict: bool = False,
    limits: Limits | None = None,
    loops: LoopOptions = AS_THE_FILE_SAYS,
) -> Model:
    """The model of a URDF text, called `source` in errors; the rest is as for `load`."""
    limits = checked_limits(limits)
    return model(parse(text, source, limits), base=base, gravity=gravity, strict=strict, limits=limits, loops=loops)


def model(
    robot: Element, *, base: str, gravity: Sequence[float], strict: bool, limits: Limits, loops: LoopOptions = AS_THE_FILE_SAYS
) -> Model:
    """The model of a <robot> element; the rest is as for `load`."""
    if base not in ("fixed", "free"):
        raise ModelError(f'base must be "fixed" or "free", not {base!r}')
    _refuse_unsupported(robot)
    notes = Notes()
    for tag in ("link", "joint"):
        most = robot.all(tag)[: limits.links + 1]
        if len(most) > limits.links:
            raise LimitError(most[-1].told(f"there are more than {limits.links} {tag}s: {limits.raised('links')}"))
    links, joints = _named(robot, "link"), _named(robot, "joint")
    _imply_world(links, joints, notes)
    ends = {name: _ends(joint, links) for name, joint in joints.items()}
    root = _root(robot, links, joints, ends)

    builder = ModelBuilder(robot.word("name"), gravity=gravity)
    ground = WORLD if root == WORLD and base == "fixed" else None  # then this link is no body, but the world itself
    called = {name: WORLD if name == ground else name for name in links}
    if WORLD in links and ground is None:
        called[WORLD] = _free_name("world_link", links)
        notes.add(f"{at(links[WORLD])} is renamed {called[WORLD]!r}: the name 'world' is reserved for the fixed frame")
    for name, link in links.items():
        _add_link(builder, called[name], link, notes, strict=strict, ground=name == ground)
        for shape in shapes(link, called[name], notes):
            builder.add_geometry(shape)
    if ground is None:
        kind = Free() if base == "free" else Fixed()
        builder.add_joint(_free_name("root_joint", joints), kind, parent=WORLD, child=called[root])
    said = any("independent" in joint.attributes for joint in joints.values())
    for name, joint in joints.items():
        parent, child = ends[name]
        if base == "free" and parent == root and joint.attributes.get("type") == "floating" and not _massive(links[root]):
            raise joint.error(
                f"with base='free' the massless root link {root!r} would float as well, and has no inertia: "
                "load this file with base='fixed'"
            )
        ends_here = called[parent], called[child]
        free = _independent(joint, said=said)
        _add_joint(builder, name, joint, *ends_here, notes, free, loops.retyped.get(name, ""))
    for name in (*loops.retyped, *loops.motors):
        if name not in joints:
            raise ModelError(
                f"the loop file names the joint {shown(name)!r}{did_you_mean(name, joints)}, which is not in the file"
            )
    for name in loops.motors:
        builder.add_actuator(Actuator(name, "joint", name, ((name, 1.0),)))
    closing: dict[str, Element] = {}
    close_loops(File(robot, links, joints, ends, root, base, builder, called, notes, closing))
    closing |= {name: joint for name, joint in joints.items() if "independent" in joint.attributes}
    _note_rest(robot, notes)
    return built(builder, robot, notes, loops, limits, closing=closing)


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


def _imply_world(links: dict[str, Element], joints: dict[str, Element], notes: Notes) -> None:
    """Joints whose parent is the link "world", of which there is none, hang on the fixed world, as in Drake's own files."""
    parents = [parent for joint in joints.values() if (parent := joint.one("parent")) is not None]
    held = [parent for parent in parents if parent.attributes.get("link") == WORLD]
    if held and WORLD not in links:
        links[WORLD] = Element("link", {"name": WORLD}, held[0].line, held[0].source, held[0].parent)
        lines = [f"line {parent.line}" for parent in held]
        notes.add(f"there is no link named {WORLD!r}, so that it is taken as the fixed world", *lines)


def _ends(joint: Element, links: dict[str, Element]) -> tuple[str, str]:
    """The names of a joint's parent and child."""
    ends = []
    for role in ("parent", "child"):
        element = joint.needed(role)
        name = element.word("link")
        if name not in links:
            raise unknown(element, "link", name, links)
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
                "a link has one parent joint; a further joint is a <loop>"
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
        raise _cycle(lost, joints, ends, above)
    return roots[0]


def _cycle(lost: str, joints: dict[str, Element], ends: dict[str, tuple[str, str]], above: dict[str, str]) -> ModelError:
    """Why a link does not hang on the root, while there is no other: somewhere above it joints form a cycle."""
    path: dict[str, None] = {}
    while lost not in path:
        path[lost] = None
        lost = ends[above[lost]][0]
    cycle = list(path)[list(path).index(lost) :]
    names = ", ".join(repr(shown(name)) for name in cycle[:5]) + (" ..." if len(cycle) > 5 else "")
    return joints[above[lost]].error(
        f"it closes a cycle of links, {names}, that is not connected to a root: one link must be no joint's child"
    )


def _free_name(wanted: str, taken: Container[str]) -> str:
    """A name like the wanted one that nothing in the file has."""
    names = (wanted if k == 1 else f"{wanted}_{k}" for k in count(1))
    return next(name for name in names if name not in taken)


# parts


def _add_link(builder: ModelBuilder, name: str, link: Element, notes: Notes, *, strict: bool, ground: bool) -> None:
    mass, centre, moment = inertial(link, notes)
    problems = physical_problems(mass, moment)
    if problems and strict:
        raise (link.one("inertial") or link).error(f"{'; '.join(problems)}: not physically consistent")
    for problem in problems:
        notes.add(f"{at(link)}: {problem}: not physically consistent")
    if not ground:
        builder.add_body(name, mass=mass, center=centre.tolist(), inertia=moment, check=None)
    elif mass:
        notes.add(f"{at(link)} is the fixed world: its mass is ignored")


def _massive(link: Element) -> bool:
    return inertial(link, Notes())[0] > 0


def _add_joint(
    builder: ModelBuilder,
    name: str,
    joint: Element,
    parent: str,
    child: str,
    notes: Notes,
    independent: bool | tuple[bool, ...] | None,
    retyped: str = "",
) -> None:
    """A joint as the file gives it, or one of another type that a loop file knows better."""
    note_strange(joint, notes)
    type_ = joint.word("type")
    kind = joint_kind(joint, type_, notes)
    more: dict[str, Any] = {}
    if type_ in ONE:
        more = limits(joint, type_, notes) | dynamics(joint, notes)
    elif type_ != "fixed":
        more = _plural(joint, type_, kind.nv, notes)
    if not kind.tree:
        raise joint.error(f"a {type_} joint can only close a loop: write it as <loop>")
    xyz, rpy = place(joint, notes)
    if retyped.startswith("UJOINT"):  # two hinges, along axes of the joint's frame
        first, kind = (Revolute(UNITS[axis]) for axis in retyped[-2:])
        between = f"{child} at {name}_{retyped[-2]}"
        builder.add_body(between)
        builder.add_joint(f"{name}_{retyped[-2]}", first, parent=parent, child=between, xyz=xyz, rpy=rpy)
        builder.add_joint(f"{name}_{retyped[-1]}", kind, parent=between, child=child)
        return
    if retyped:
        kind, more, independent = (Spherical() if retyped == "SPHERICAL" else Fixed()), {}, None
    builder.add_joint(name, kind, parent=parent, child=child, xyz=xyz, rpy=rpy, independent=independent, **more)


def _plural(joint: Element, type_: str, count: int, notes: Notes) -> dict[str, Any]:
    """What acts in a joint of several velocities, if the file gives a number for each of them."""
    given = joint.one("dynamics")
    if given is not None and all(len(value.split()) == count for value in given.attributes.values()):
        passed, found = joint.all("limit"), dynamics(joint, notes, count)
    else:
        passed, found = [*joint.all("limit"), *joint.all("dynamics")], {}
    if passed:
        notes.add(f"<limit> and <dynamics> have no meaning in a {type_} joint, and were passed over", at(joint))
    return found


def _independent(joint: Element, *, said: bool) -> bool | tuple[bool, ...] | None:
    """Whether a joint, or each of its velocities, is chosen as independent in its loop.

    That is true unless the file says otherwise, if it says so of any.
    """
    word = joint.attributes.get("independent", "true")
    each = word.split()
    if not each or not {*each} <= {"true", "false"}:
        raise joint.error(f"independent must be true or false, or one of them for each velocity, not {shown(word)!r}")
    if joint.one("mimic") is not None:
        return False
    return tuple(x == "true" for x in each) if said and len(each) > 1 else (each[0] == "true") if said else None


def _note_rest(robot: Element, notes: Notes) -> None:
    note_strange(robot, notes)
    meshes = []
    for link in robot.all("link"):
        note_strange(link, notes)
        meshes += [m.attributes.get("filename", "") for m in _within(link, ("visual", "collision"), ("geometry",), ("mesh",))]
    if meshes:
        files = sorted(set(meshes))
        notes.add(f"{len(files)} mesh file{'s' * (len(files) > 1)} {UNOPENED}: {some([shown(file) for file in files], 3)}")


def _within(element: Element, *tags: Sequence[str]) -> Iterable[Element]:
    """All elements at the end of a path of tags."""
    found = [element]
    for allowed in tags:
        found = [child for parent in found for child in parent.children if child.tag in allowed]
    return found
