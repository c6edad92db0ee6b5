"""URDF: a tree of links and joints (wiki.ros.org/urdf/XML).

The structure is checked here, where lines are known; `ModelBuilder` then builds the model. Elements for
drawing, collision, control and other programs are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.formats import extension
from linkwork.formats.dialects import File, close_loops
from linkwork.formats.elements import check
from linkwork.formats.elements_urdf import urdf
from linkwork.formats.extension import Extension
from linkwork.formats.finish import built
from linkwork.formats.urdf_parts import (
    ONE,
    Notes,
    at,
    dynamics,
    inertial,
    joint_kind,
    limits,
    place,
)
from linkwork.formats.urdf_shapes import UNOPENED, Indexed, in_order, shapes
from linkwork.formats.urdf_structure import (
    check_root,
    elements_by_name,
    ends_of,
    frame_links,
    imply_world,
    links_without_gravity,
    root_link,
    unused_name,
)
from linkwork.formats.urdf_transmissions import reflected_inertias
from linkwork.formats.xml import Element, parse
from linkwork.joints import Fixed, Free, Revolute, Spherical
from linkwork.mechanism import Actuator
from linkwork.mechanism.limits import Limits, checked_limits
from linkwork.mechanism.names import did_you_mean, join_names, printable
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.model.builder import GRAVITY
from linkwork.model.loop_joints import DEFAULT_OPTIONS, LoopOptions
from linkwork.spatial import physical_problems

UNITS = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}


def read(
    text: str | bytes,
    *,
    source: str = "<text>",
    base: str = "fixed",
    gravity: Sequence[float] | None = None,
    strict: bool = False,
    limits: Limits | None = None,
    loops: LoopOptions = DEFAULT_OPTIONS,
) -> Model:
    """Return the model of a URDF text, called `source` in errors; other arguments as in `load`."""
    limits = checked_limits(limits)
    return model(
        parse(text, source, limits), base=base, gravity=gravity, strict=strict, limits=limits, loops=loops
    )


def model(
    robot: Element,
    *,
    base: str,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions = DEFAULT_OPTIONS,
) -> Model:
    """Return the model of a <robot> element; other arguments as in `load`.

    `gravity` None means that of the file.
    """
    if base not in ("fixed", "free"):
        raise ModelError(f'base: expected "fixed" or "free", got {base!r}')
    check_root(robot)
    notes = Notes(strict=strict)
    _check_size(robot, limits)
    check(robot, urdf(), notes, "URDF", strict=strict)
    links = elements_by_name(robot, "link")
    joints = elements_by_name(robot, "joint")
    imply_world(links, joints, notes)
    ends = {name: ends_of(joint, links) for name, joint in joints.items()}
    root = root_link(robot, links, joints, ends)

    description = Extension.read(robot)
    gravity_vector = description.gravity if gravity is None else gravity
    builder = ModelBuilder(robot.word("name"), gravity=GRAVITY if gravity_vector is None else gravity_vector)
    ground = WORLD if root == WORLD and base == "fixed" else None  # this link is the world, not a body
    called = {name: WORLD if name == ground else name for name in links}
    if WORLD in links and ground is None:
        called[WORLD] = unused_name("world_link", links)
        notes.add(
            f"{at(links[WORLD])} is renamed {called[WORLD]!r}: 'world' is reserved for the inertial frame"
        )
    closing: dict[str, Element] = {}
    file = File(robot, links, joints, ends, root, base, builder, called, notes, closing, description)
    frames = frame_links(joints, ends)
    _add_links(file, frames, ground, strict=strict)
    _add_joints(file, frames, ground, loops)
    _add_motors(file, loops)
    close_loops(file)
    description.add(builder, closing)
    closing |= {name: joint for name, joint in joints.items() if "independent" in joint.attributes}
    _note_meshes(robot, notes)
    model = built(
        builder,
        robot,
        notes,
        description.options(loops),
        limits,
        closing=closing,
        start=description.start,
        digits=not description.is_present,
    )
    return description.finish(model)


def _check_size(robot: Element, limits: Limits) -> None:
    for tag in ("link", "joint"):
        elements = robot.all(tag)[: limits.links + 1]
        if len(elements) > limits.links:
            message = f"more than {limits.links} {tag}s: {limits.raised('links')}"
            raise LimitError(elements[-1].message(message))


def _add_links(file: File, frames: dict[str, str], ground: str | None, *, strict: bool) -> None:
    """Add all links except those that represent frames, and all shapes."""
    indexed_shapes: list[Indexed] = []
    weightless = links_without_gravity(file.robot, file.links, file.notes)
    for name, link in file.links.items():
        if name not in frames:
            scale = 0.0 if name in weightless else 1.0
            called = file.called[name]
            _add_link(file.builder, called, link, file.notes, scale, strict=strict, ground=name == ground)
        indexed_shapes += shapes(link, file.called[name], file.notes)
    for shape in in_order(indexed_shapes):
        file.builder.add_geometry(shape)


def _add_joints(file: File, frames: dict[str, str], ground: str | None, loops: LoopOptions) -> None:
    """Add the joint of the base, and the joints and frames of the file."""
    builder = file.builder
    joints = file.joints
    called = file.called
    if ground is None:
        kind = Free() if file.base == "free" else Fixed()
        name = unused_name("root_joint", joints)
        builder.add_joint(name, kind, parent=WORLD, child=called[file.root])
    rotors = reflected_inertias(file.robot, joints, file.notes)
    any_independent = any("independent" in joint.attributes for joint in joints.values())
    for name, joint in joints.items():
        parent, child = file.ends[name]
        if (
            file.base == "free"
            and parent == file.root
            and joint.attributes.get("type") == "floating"
            and not _massive(file.links[file.root])
        ):
            raise joint.error(
                f"base='free' would add a floating joint to the massless root link {file.root!r}, whose mass "
                "matrix would be singular: load this file with base='fixed'"
            )
        if frames.get(child) == name:
            xyz, rpy = place(joint, file.notes)
            builder.add_frame(called[child], body=called[parent], xyz=xyz, rpy=rpy)
            continue
        bodies = called[parent], called[child]
        free = _independent(joint, declared=any_independent)
        retyped = loops.retyped.get(name, "")
        _add_joint(builder, name, joint, *bodies, file.notes, free, retyped, rotors.get(name, 0.0))


def _add_motors(file: File, loops: LoopOptions) -> None:
    """Add the motors of a loop file, after checking the joints that it names."""
    for name in (*loops.retyped, *loops.motors):
        if name not in file.joints:
            hint = did_you_mean(name, file.joints)
            raise ModelError(f"loop file: no joint named {printable(name)!r} in the model file{hint}")
    for name in loops.motors:
        file.builder.add_actuator(Actuator(name, "joint", name, ((name, 1.0),)))


# parts


def _add_link(
    builder: ModelBuilder,
    name: str,
    link: Element,
    notes: Notes,
    gravity_scale: float,
    *,
    strict: bool,
    ground: bool,
) -> None:
    mass, centre, moment = inertial(link, notes)
    problems = physical_problems(mass, moment)
    if problems and strict:
        raise (link.one("inertial") or link).error(f"{'; '.join(problems)}: not physically consistent")
    for problem in problems:
        notes.add(f"{at(link)}: {problem}: not physically consistent")
    if not ground:
        builder.add_body(
            name,
            mass=mass,
            center=centre.tolist(),
            inertia=moment,
            check=None,
            gravity_scale=gravity_scale,
        )
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
    independent: bool | tuple[bool | None, ...] | None,
    retyped: str = "",
    rotor: float = 0.0,
) -> None:
    """Add a joint, with the type of the loop file (`retyped`) if that has one."""
    type_ = joint.word("type")
    kind = joint_kind(joint, type_, notes)
    options: dict[str, Any] = {}
    extras = extension.joint_words(joint, kind)
    if type_ in ONE:
        options = limits(joint, type_, notes, extras) | dynamics(joint, notes)
    elif type_ != "fixed":
        options = _dynamics_of_several(joint, type_, kind.nv, notes)
    options |= extras
    if rotor:
        options["armature"] = rotor + float(np.asarray(options.get("armature", 0.0)).item())
    if not kind.tree:
        raise joint.error(f"{type_} joint: only closes loops; write it as <loop>")
    xyz, rpy = place(joint, notes)
    ignored = (
        [word for word, value in options.items() if np.any(np.isfinite(value) & (np.asarray(value) != 0.0))]
        if retyped
        else []
    )
    if ignored:
        message = f"{', '.join(ignored)} of a joint whose type the loop file changes is ignored"
        notes.lost(joint, message, at(joint))
    if retyped.startswith("UJOINT"):  # two hinges, along axes of the joint's frame
        first, kind = (Revolute(UNITS[axis]) for axis in retyped[-2:])
        middle_link = f"{child} at {name}_{retyped[-2]}"
        builder.add_body(middle_link)
        builder.add_joint(f"{name}_{retyped[-2]}", first, parent=parent, child=middle_link, xyz=xyz, rpy=rpy)
        builder.add_joint(f"{name}_{retyped[-1]}", kind, parent=middle_link, child=child)
        return
    if retyped:
        kind = Spherical() if retyped == "SPHERICAL" else Fixed()
        options = {}
        independent = None
    builder.add_joint(
        name, kind, parent=parent, child=child, xyz=xyz, rpy=rpy, independent=independent, **options
    )


def _dynamics_of_several(joint: Element, type_: str, count: int, notes: Notes) -> dict[str, Any]:
    """Return the dynamics of a joint with several DoF, if the file has one number per velocity."""
    element = joint.one("dynamics")
    if element is not None and all(len(value.split()) == count for value in element.attributes.values()):
        ignored = joint.all("limit")
        values = dynamics(joint, notes, count)
    else:
        ignored = [*joint.all("limit"), *joint.all("dynamics")]
        values = {}
    if ignored:
        notes.lost(
            ignored[0],
            f"<limit> and <dynamics> are not supported in a {type_} joint and ignored",
            at(joint),
        )
    return values


CHOICES = {"true": True, "false": False, "any": None}


def _independent(joint: Element, *, declared: bool) -> bool | tuple[bool | None, ...] | None:
    """Return whether a joint, or each of its velocities, is independent in its loop; None leaves it open.

    The default is None if no joint of the file has this attribute (`declared`), and True otherwise; "any" is
    None.
    """
    word = joint.attributes.get("independent", "true")
    words = word.split()
    if not words or not {*words} <= {*CHOICES}:
        raise joint.error(
            f"independent: expected true, false or any, once or for each velocity; got {printable(word)!r}"
        )
    if joint.one("mimic") is not None:
        return False
    return (
        tuple(CHOICES[x] for x in words)
        if declared and len(words) > 1
        else CHOICES[words[0]]
        if declared
        else None
    )


def _note_meshes(robot: Element, notes: Notes) -> None:
    meshes = []
    for link in robot.all("link"):
        meshes += [
            m.attributes.get("filename", "")
            for m in _within(link, ("visual", "collision"), ("geometry",), ("mesh",))
        ]
    if meshes:
        files = sorted(set(meshes))
        notes.add(
            f"{len(files)} mesh file{'s' * (len(files) > 1)} {UNOPENED}: "
            f"{join_names([printable(file) for file in files], 3)}"
        )


def _within(element: Element, *tags: Sequence[str]) -> Iterable[Element]:
    """Return all elements at the end of a path of tags."""
    elements = [element]
    for allowed in tags:
        elements = [child for parent in elements for child in parent.children if child.tag in allowed]
    return elements
