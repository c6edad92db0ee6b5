"""Export of a model as URDF, with loops as <loop> and couplings as <mimic> or <coupling>.

Data that URDF cannot express uses the extensions in docs/formats.md: further joint types, springs and
armature in <dynamics>, and <linkwork> elements, which other programs ignore.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats import export_urdf_extension as extension
from linkwork.formats.export_checks import Losses, as_polynomial
from linkwork.formats.export_text import Tag, place
from linkwork.formats.export_urdf_shapes import Shapes
from linkwork.formats.extension import ACTING, LIMITS, TAG, UNBOUNDED_LIMIT
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
from linkwork.mechanism import Body, Coupling, End, Frame, ImplicitConstraint, Loop, LoopConstraint
from linkwork.model import GROUND, WORLD, Model, PlacedJoint
from linkwork.model.partition import default_split

TYPES: dict[type[Joint], str] = {
    Revolute: "continuous",
    Prismatic: "prismatic",
    Fixed: "fixed",
    Free: "floating",
    Planar: "planar",
    Spherical: "spherical",
    Universal: "universal",
    Gimbal: "gimbal",
    Cylindrical: "cylindrical",
    Helical: "helical",
    PointOnLine: "point_on_line",
    Rod: "rod",
}
NONE = {
    "lower": -math.inf,
    "upper": math.inf,
    "velocity": math.inf,
    "effort": math.inf,
}  # values without a limit


def urdf_text(model: Model, losses: Losses) -> str:
    """Return the URDF of a model; raise ModelError for losses that are not allowed."""
    return '<?xml version="1.0"?>\n' + _Writer(model, losses).robot().text()


def urdf_compact(model: Model, losses: Losses) -> str:
    """Return the URDF on one line with single quotes, for use inside another file."""
    return _Writer(model, losses).robot().compact()


class _Writer:
    def __init__(self, model: Model, losses: Losses) -> None:
        self.model = model
        self.losses = losses
        self.names = [body.name for body in model.bodies]
        self.shapes = Shapes(model)
        self.left_out = self._left_out()
        self.independent = extension.choices(model, self.left_out)
        self.mimics = _mimics(model, self.independent)

    def robot(self) -> Tag:
        model = self.model
        robot = Tag("robot", name=model.name)
        self.shapes.write(robot.add("link", name=WORLD), WORLD)
        self.joint_names = {joint.name for joint in model.joints} | {
            frame.joint for frame in model.frames if frame.joint
        }
        for frame in model.frames:  # depth first, as links are read again
            if frame.body != GROUND and frame.name == self.names[frame.body]:
                self._body(robot, model.bodies[frame.body])
            else:
                self._frame(robot, frame)
        constraints = [c for c in model.loops if c.name not in self.left_out]
        polynomials = [c for c in constraints if as_polynomial(c)]
        others = [c for c in constraints if c not in polynomials and c.name not in self.mimics]
        for constraint in others:
            self._constraint(robot, constraint)
        mimics = sorted(self.mimics, key=lambda name: self.mimics[name][0].terms[0][0])
        order = [*mimics, *(c.name for c in others), *(c.name for c in polynomials)]  # as they are read
        robot.children.insert(1, extension.robot(model, [c.name for c in constraints], order, polynomials))
        return robot

    def _left_out(self) -> set[str]:
        """Return the names of implicit constraints that are omitted, if that is allowed."""
        names = [
            c.name for c in self.model.loops if isinstance(c, ImplicitConstraint) and not as_polynomial(c)
        ]
        for name in names:
            self.losses.lose(
                "implicit constraints", f"{name!r} is an implicit constraint, which URDF does not support"
            )
        return set(names)

    # links and joints

    def _body(self, robot: Tag, body: Body) -> None:
        link = robot.add("link", name=body.name)
        joint = self.model.joints[body.index]
        if not (np.isfinite([body.mass, *body.moment.ravel()]).all() and body.mass >= 0.0):
            raise ModelError(f"body {body.name!r}: expected a finite non-negative mass, got {body.mass:g} kg")
        if body.mass or np.any(body.moment):
            inertial = link.add("inertial")
            inertial.add("origin", xyz=body.center)
            inertial.add("mass", value=body.mass)
            I = body.moment
            inertial.add(
                "inertia", ixx=I[0, 0], ixy=I[0, 1], ixz=I[0, 2], iyy=I[1, 1], iyz=I[1, 2], izz=I[2, 2]
            )
        self.shapes.write(link, body.name)
        self._joint(robot, joint, body.name)

    def _joint(self, robot: Tag, joint: PlacedJoint, child: str) -> None:
        parent = WORLD if joint.parent == GROUND else self.names[joint.parent]
        mimic = next((words for c, words in self.mimics.values() if c.terms[0][0] == joint.child), None)
        type_ = _type(joint.kind, f"joint {joint.name!r}")
        limited = any(math.isfinite(x) for x in (*joint.lower, *joint.upper))
        if type_ == "continuous" and limited:
            type_ = "revolute"
        independent = None if mimic else self.independent.get(joint.child)
        tag = robot.add("joint", name=joint.name, type=type_, independent=independent)
        tag.add("parent", link=parent)
        tag.add("child", link=child)
        place(tag, joint.place)
        _kind(tag, joint.kind)
        _acting(tag, joint, type_, self._is_partitioned(joint))
        if mimic:
            tag.add("mimic", **mimic)

    def _is_partitioned(self, joint: PlacedJoint) -> bool:
        """Return True if a joint has the default partition; others are lost."""
        split = dict(self.model.partition).get(joint.child)
        if split is None or split == default_split(joint.kind):
            return split is not None
        self.losses.lose(
            "partition",
            f"joint {joint.name!r} has a partition that is not the default, which URDF does not support",
        )
        return False

    def _frame(self, robot: Tag, frame: Frame) -> None:
        """Add a frame or merged link as a massless link with a fixed joint."""
        self.shapes.write(robot.add("link", name=frame.name), frame.name)
        name = frame.joint or f"{frame.name}_fixed"
        while not frame.joint and name in self.joint_names:
            name += "_"
        self.joint_names.add(name)
        tag = robot.add("joint", name=name, type="fixed")
        tag.add("parent", link=WORLD if frame.body == GROUND else self.names[frame.body])
        tag.add("child", link=frame.name)
        place(tag, frame.place)
        if not frame.joint:
            tag.add(TAG, frame=True)

    # loops

    def _constraint(self, robot: Tag, constraint: LoopConstraint) -> None:
        embed = None if any(constraint is c for c in self.model.embedded) else False
        if isinstance(constraint, Loop):
            self._loop(robot, constraint, embed)
        else:
            assert isinstance(constraint, Coupling)
            self._coupling(robot, constraint, embed)

    def _loop(self, robot: Tag, loop: Loop, embed: bool | None) -> None:
        tag = robot.add(
            "loop",
            name=loop.name,
            type=_type(loop.kind, f"loop {loop.name!r}"),
            embed=embed,
            kept=loop.independent_rows,
        )

        def end(role: str, at: End) -> None:
            place(tag.add(role, link=WORLD if at.body == GROUND else self.names[at.body]), at.place)

        end("predecessor", loop.predecessor)
        end("successor", loop.successor)
        _kind(tag, loop.kind)

    def _coupling(self, robot: Tag, coupling: Coupling, embed: bool | None) -> None:
        tag = robot.add("coupling", name=coupling.name, embed=embed)
        for k, _, coefficient in coupling.terms:
            tag.add("term", joint=self.model.joints[k].name, coefficient=coefficient)
        if coupling.offset:
            tag.add("offset", value=coupling.offset)


def _type(kind: Joint, label: str) -> str:
    name = TYPES.get(type(kind))
    if name is None:
        raise ModelError(f"{label}: URDF does not support {type(kind).__name__} joints")
    return name


def _kind(tag: Tag, kind: Joint) -> None:
    """Add the axis, pitch or length of a joint."""
    axis = getattr(kind, "axis", None)
    if axis is not None:
        tag.add("axis", xyz=axis)
    if isinstance(kind, Helical):
        tag.attributes["pitch"] = repr(float(kind.pitch))
    if isinstance(kind, Rod):
        tag.attributes["length"] = repr(float(kind.length))


def _acting(tag: Tag, joint: PlacedJoint, type_: str, partitioned: bool) -> None:
    """Add limits and passive elements: <limit> and <dynamics> for one velocity, <linkwork> otherwise."""
    acting = {word: getattr(joint, word) for word in ACTING if any(getattr(joint, word))}
    limits = {
        word: getattr(joint, name) for word, name in LIMITS.items() if {*getattr(joint, name)} - {NONE[word]}
    }
    extras: dict[str, Any] = {}
    if joint.nv == 1:
        if limits or type_ == "prismatic":  # all attributes, since other programs require them
            words = [*LIMITS] if type_ != "continuous" else ["velocity", "effort"]
            values = {word: getattr(joint, LIMITS[word])[0] for word in words}
            tag.add(
                "limit",
                **{
                    word: math.copysign(UNBOUNDED_LIMIT, x) if math.isinf(x) else x
                    for word, x in values.items()
                },
            )
            zero = joint.lower == joint.upper == (0.0,)
            extras = {
                word: x
                for word, x in values.items()
                if math.isinf(x) or (zero and word in ("lower", "upper"))
            }
        if acting:
            tag.add("dynamics", **acting)
    else:
        extras = limits | acting
    if joint.max_angle < math.inf:
        extras["angle"] = joint.max_angle
    if joint.parent == GROUND and joint.base not in ("", WORLD):
        extras["base"] = joint.base
    if partitioned:
        extras["partition"] = True
    if extras:
        tag.add(TAG, **extras)


def _mimics(model: Model, independent: dict[int, str]) -> dict[str, tuple[Coupling, dict[str, Any]]]:
    """Return the couplings that can be written as <mimic>, by name.

    One embedded joint follows another and is dependent.
    """
    mimics: dict[str, tuple[Coupling, dict[str, Any]]] = {}
    following: set[int] = set()
    for coupling in model.embedded:
        if not isinstance(coupling, Coupling) or len(coupling.terms) != 2:
            continue
        (a, _, x), (b, _, y) = coupling.terms
        one = model.joints[a].name
        two = model.joints[b].name
        known = (
            coupling.name == f"{one} follows {two}"
            and x == 1.0
            and independent.get(a) == "false"
            and a not in following
        )
        if known and not _leads_to(model, b, a, mimics):
            following.add(a)
            mimics[coupling.name] = coupling, {"joint": two, "multiplier": -y, "offset": coupling.offset}
    return mimics


def _leads_to(model: Model, start: int, end: int, mimics: dict[str, tuple[Coupling, dict[str, Any]]]) -> bool:
    """Return True if followers lead from one joint to another: cyclic mimics cannot be read."""
    leader = {c.terms[0][0]: c.terms[1][0] for c, _ in mimics.values()}
    while start != end and start in leader:
        start = leader[start]
    return start == end
