"""The tree of links and joints of a URDF file, checked with line numbers."""

from __future__ import annotations

from collections.abc import Container
from itertools import count

from linkwork.errors import ModelError
from linkwork.formats import extension
from linkwork.formats.sdf_parts import truth
from linkwork.formats.urdf_parts import (
    MAX_NAME,
    Notes,
    unknown,
)
from linkwork.formats.xml import Element
from linkwork.mechanism.names import printable
from linkwork.model import WORLD


def check_root(robot: Element) -> None:
    """Raise ModelError unless the root is an expanded <robot>."""
    if robot.tag != "robot":
        raise robot.error("unsupported root element; expected <robot>")
    for element in robot.children:
        if element.tag.startswith("xacro:"):
            raise element.error("this is a xacro file: expand it first with `xacro robot.xacro > robot.urdf`")


def links_without_gravity(robot: Element, links: Container[str], notes: Notes) -> set[str]:
    """Return the links that <gravity> or <turnGravityOff> in a <gazebo> element exempt from gravity."""
    exempt = set()
    for gazebo in robot.all("gazebo"):
        link = gazebo.attributes.get("reference", "")
        for tag, default in (("gravity", True), ("turnGravityOff", False)):
            element = gazebo.one(tag)
            if element is None or truth(gazebo, tag, default) is default:
                continue
            if link in links:
                exempt.add(link)
            elif link:
                message = f"<{tag}> in <gazebo> is ignored: its reference is not a link"
                notes.lost(element, message, f"line {element.line}")
    return exempt


def elements_by_name(robot: Element, tag: str) -> dict[str, Element]:
    """Return the links or joints by name, in file order."""
    by_name: dict[str, Element] = {}
    for element in robot.all(tag):
        name = element.word("name")
        if len(name) > MAX_NAME:
            raise element.error(f"name: longer than {MAX_NAME} characters")
        if name in by_name:
            raise element.error(f"duplicate {tag} name; the first is in line {by_name[name].line}")
        by_name[name] = element
    return by_name


def imply_world(links: dict[str, Element], joints: dict[str, Element], notes: Notes) -> None:
    """Add the link "world" if joints name it as parent and it is not declared, as in Drake's files."""
    parents = [parent for joint in joints.values() if (parent := joint.one("parent")) is not None]
    on_world = [parent for parent in parents if parent.attributes.get("link") == WORLD]
    if on_world and WORLD not in links:
        links[WORLD] = Element(
            "link", {"name": WORLD}, on_world[0].line, on_world[0].source, on_world[0].parent
        )
        lines = [f"line {parent.line}" for parent in on_world]
        notes.add(f"no link named {WORLD!r}: taken as the fixed world", *lines)


def ends_of(joint: Element, links: dict[str, Element]) -> tuple[str, str]:
    """Return the names of a joint's parent and child."""
    ends = []
    for role in ("parent", "child"):
        element = joint.needed(role)
        name = element.word("link")
        if name not in links:
            raise unknown(element, "link", name, links)
        ends.append(name)
    if ends[0] == ends[1]:
        raise joint.error(f"parent and child are the same link {printable(ends[0])!r}; expected two links")
    return ends[0], ends[1]


def root_link(
    robot: Element, links: dict[str, Element], joints: dict[str, Element], ends: dict[str, tuple[str, str]]
) -> str:
    """Return the only link that is no joint's child, after checking that it is connected to all links."""
    if not links:
        raise robot.error("no <link>: a robot needs at least one")
    above: dict[str, str] = {}  # child link -> its joint
    below: dict[str, list[str]] = {name: [] for name in links}
    for name, (parent, child) in ends.items():
        if child in above:
            first = joints[above[child]]
            raise joints[name].error(
                f"child {printable(child)!r} is already the child of {first.label} in line {first.line}; "
                "a link has one parent joint: write the other joint as <loop>"
            )
        above[child] = name
        below[parent].append(child)
    roots = [name for name in links if name not in above]
    if len(roots) > 1:
        raise links[roots[1]].error(
            f"second root link, besides {links[roots[0]].label} in line {links[roots[0]].line}; "
            "expected one link that is no joint's child"
        )
    reached = set(roots)
    stack = list(roots)
    while stack:
        children = below[stack.pop()]
        reached.update(children)
        stack += children
    unreached = next((name for name in links if name not in reached), None)
    if unreached is not None:
        raise _cycle(unreached, joints, ends, above)
    return roots[0]


def _cycle(
    link: str, joints: dict[str, Element], ends: dict[str, tuple[str, str]], above: dict[str, str]
) -> ModelError:
    """Return an error for a link that is not connected to the root, since joints above it form a cycle."""
    path: dict[str, None] = {}
    while link not in path:
        path[link] = None
        link = ends[above[link]][0]
    cycle = list(path)[list(path).index(link) :]
    names = ", ".join(repr(printable(name)) for name in cycle[:5]) + (" ..." if len(cycle) > 5 else "")
    return joints[above[link]].error(
        f"the links {names} form a cycle without a root; close a cycle with <loop>"
    )


def unused_name(preferred: str, taken: Container[str]) -> str:
    """Return an unused name that begins with the preferred one."""
    names = (preferred if k == 1 else f"{preferred}_{k}" for k in count(1))
    return next(name for name in names if name not in taken)


def frame_links(joints: dict[str, Element], ends: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Return the links that represent frames of the model, with the joints that place them."""
    frames = {}
    for name, joint in joints.items():
        if not extension.is_frame(joint):
            continue
        if joint.attributes.get("type") != "fixed" or any(
            ends[name][1] == parent for parent, _ in ends.values()
        ):
            raise joint.error("frame: expected a fixed joint whose child link has no children")
        frames[ends[name][1]] = name
    return frames
