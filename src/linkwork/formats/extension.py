"""`<linkwork>` elements of URDF files: data that URDF cannot express, as `export_urdf` writes it.

    <robot>   <linkwork gravity= tolerance=>  with <order>, <start>, <keyframe>, <actuator>, <contact>,
                                              <polynomial>, <weight> and <tendon>
    <link>    <linkwork>                      with <shape>: shapes that URDF does not support
    <joint>   <linkwork lower= upper= angle= velocity= effort= damping= friction= stiffness= rest=
                        armature= base= partition= frame=>
    <visual>  <linkwork name= index= ...>     further data of a shape; in <collision> also `same=`

Numbers may be `inf` here. Unknown attributes and elements are errors, so that files of later versions are not
misread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from linkwork.errors import ModelError
from linkwork.formats.mjcf_equalities import polynomial
from linkwork.formats.urdf_parts import MAX_VALUE
from linkwork.formats.xml import Element
from linkwork.joints import Joint
from linkwork.mechanism import Actuator, ContactPair, Wrap
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model, ModelBuilder
from linkwork.model.loop_joints import LoopOptions
from linkwork.spatial.constants import set_frozen

TAG = "linkwork"
UNBOUNDED_LIMIT = 1e16  # a limit in <limit> that means none; other programs require one
INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
LIMITS = {
    "lower": "lower",
    "upper": "upper",
    "velocity": "max_velocity",
    "effort": "max_effort",
}  # attribute of the file -> attribute of a joint
ACTING = ("damping", "friction", "stiffness", "rest", "armature")
ROBOT = {"order", "start", "keyframe", "actuator", "contact", "polynomial", "weight", "tendon"}


def of(element: Element, keys: set[str], children: set[str] | frozenset[str] = frozenset()) -> Element | None:
    """Return the <linkwork> of an element, or None; unknown attributes and children are errors."""
    extension = element.one(TAG)
    if extension is not None:
        check(extension, keys, children)
    return extension


def check(element: Element, keys: set[str], children: set[str] | frozenset[str] = frozenset()) -> None:
    """Raise ModelError if an element of linkwork has unknown attributes or children."""
    unknown_names = [key for key in element.attributes if key not in keys]
    unknown_names += [f"<{child.tag}>" for child in element.children if child.tag not in children]
    if unknown_names:
        raise element.error(
            f"unknown to this version of linkwork: {join_names([printable(word) for word in unknown_names])}"
        )


def numbers(element: Element, key: str, n: int | None = None) -> tuple[float, ...]:
    """Return an attribute as n numbers (by default any number of them), which may be infinite."""
    words = element.word(key).split()
    if all(word not in INFINITE for word in words):
        return element.numbers(key, len(words) if n is None else n, largest=MAX_VALUE)
    finite_element = Element(
        element.tag,
        {key: " ".join("0" if word in INFINITE else word for word in words)},
        element.line,
        element.source,
    )
    finite = numbers(finite_element, key, n)
    return tuple(INFINITE.get(word, value) for word, value in zip(words, finite))


def truth(element: Element, key: str) -> bool:
    """Return a Boolean attribute, by default False."""
    word = element.attributes.get(key, "false")
    if word not in ("true", "false"):
        raise element.error(f"{key}: expected true or false, got {printable(word)!r}")
    return word == "true"


def integers(element: Element, key: str) -> tuple[int, ...]:
    """Return an attribute as non-negative integers, by default none."""
    words = element.attributes.get(key, "").split()
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise element.error(f"{key}: expected non-negative integers, got {printable(word)!r}")
    return tuple(map(int, words))


# joints


def joint_words(joint: Element, kind: Joint) -> dict[str, Any]:
    """Return limits and passive elements in the <linkwork> of a joint, which must not contradict <limit>."""
    extension = of(joint, {*LIMITS, *ACTING, "angle", "base", "partition", "frame"})
    if extension is None:
        return {}
    values_by_name: dict[str, Any] = {}
    if "angle" in extension.attributes:
        if not kind.has_angle or "upper" in extension.attributes:
            raise extension.error("angle: expected for a spherical joint without upper")
        values_by_name["upper"] = extension.number("angle", largest=MAX_VALUE)
    limit = joint.one("limit")
    for word, name in [*LIMITS.items(), *((word, word) for word in ACTING)]:
        if word not in extension.attributes:
            continue
        values_by_name[name] = numbers(extension, word, kind.nq if word in ("lower", "upper") else kind.nv)
        if limit is not None and word in LIMITS and word in limit.attributes:
            (urdf_limit,) = limit.numbers(word, 1)
            if abs(urdf_limit) < UNBOUNDED_LIMIT and urdf_limit != values_by_name[name][0]:
                raise extension.error(f"{word} contradicts <limit> in line {limit.line}: remove one of them")
    return values_by_name


def is_frame(joint: Element) -> bool:
    """Return True if a fixed joint and its child represent a frame of the model."""
    extension = joint.one(TAG)
    return extension is not None and truth(extension, "frame")


# the robot


@dataclass
class Extension:
    """The <linkwork> of a <robot>; `is_present` is False if there is none."""

    is_present: bool = False
    gravity: tuple[float, ...] | None = None
    tolerance: float | None = None
    start: dict[str, tuple[float, ...]] | None = None
    order: list[str] = field(default_factory=list)  # of loops and couplings
    bases: dict[str, str] = field(default_factory=dict)  # parent links of joints on the ground
    partitioned: list[str] = field(default_factory=list)  # joints
    kept: dict[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # independent equations of constrained loops
    element: Element | None = None

    @classmethod
    def read(cls, robot: Element) -> Extension:
        """Return the extension of a <robot>."""
        element = of(robot, {"gravity", "tolerance"}, ROBOT)
        if element is None:
            return cls()
        extension = cls(True, element=element)
        if "gravity" in element.attributes:
            extension.gravity = element.numbers("gravity", 3, largest=MAX_VALUE)
        if "tolerance" in element.attributes:
            extension.tolerance = element.number("tolerance")
        start = element.one("start")
        if start is not None:
            check(start, set(), {"joint"})
            extension.start = dict(_state(start, "q"))
        for joint in robot.all("joint"):
            joint_element = joint.one(TAG)
            if joint_element is not None and "base" in joint_element.attributes:
                extension.bases[joint.attributes.get("name", "")] = joint_element.word("base")
            if joint_element is not None and truth(joint_element, "partition"):
                extension.partitioned.append(joint.attributes.get("name", ""))
        for order in element.all("order"):
            check(order, {"constraint"})
            extension.order.append(order.word("constraint"))
        return extension

    def add(self, builder: ModelBuilder, closing: dict[str, Element]) -> None:
        """Add keyframes, actuators, contact pairs and polynomials, and set the order of all constraints."""
        extension = self.element
        if extension is None:
            return
        for child in extension.all("keyframe"):
            check(child, {"name"}, {"joint", "actuator"})
            q, v = (dict(_state(child, key)) for key in "qv")
            u, x = (dict(_by_actuator(child, key)) for key in ("control", "activation"))
            builder.add_keyframe(child.word("name"), q, v, controls=u, activations=x)
        for child in extension.all("actuator"):
            builder.add_actuator(_actuator(child))
        for child in extension.all("contact"):
            builder.add_contact_pair(_pair(child))
        for child in extension.all("polynomial"):
            closing[_polynomial(builder, child)] = child
        for child in extension.all("weight"):
            _weight(builder, child)
        for child in extension.all("tendon"):
            _tendon(builder, child)
        builder.order_constraints(self.order)

    def options(self, loops: LoopOptions) -> LoopOptions:
        """Return the loop options of a caller, with the tolerance of the file by default."""
        return loops if loops.tolerance is not None else loops._replace(tolerance=self.tolerance)

    def finish(self, model: Model) -> Model:
        """Return the model with bases and partitions of joints, and equations of constrained loops."""
        model = model.partitioned(*self.partitioned) if self.partitioned else model
        if not self.bases and not self.kept:
            return model
        loops = tuple(
            c.with_independent_rows(self.kept[c.name], getattr(c, "slack", ())) if c.name in self.kept else c
            for c in model.constrained_loops
        )
        joints = tuple(
            replace(j, base=self.bases[j.name]) if j.name in self.bases else j for j in model.joints
        )
        changed = replace(model, joints=joints, constrained_loops=loops, kernels={})
        set_frozen(changed, "clusters", model.clusters)
        return changed


def _state(element: Element, key: str) -> list[tuple[str, tuple[float, ...]]]:
    for joint in element.all("joint"):
        check(joint, {"name", "q", "v"})
    return [
        (joint.word("name"), numbers(joint, key)) for joint in element.all("joint") if key in joint.attributes
    ]


def _by_actuator(element: Element, key: str) -> list[tuple[str, float]]:
    """Return an attribute of each <actuator> in a keyframe that has it, by name."""
    for actuator in element.all("actuator"):
        check(actuator, {"name", "control", "activation"})
    return [
        (actuator.word("name"), actuator.number(key, largest=MAX_VALUE))
        for actuator in element.all("actuator")
        if key in actuator.attributes
    ]


def _weight(builder: ModelBuilder, element: Element) -> None:
    check(element, {"link", "fraction", "mass", "moment"})
    link = element.word("link")
    try:
        if "fraction" in element.attributes:
            builder.compensate_weight(link, fraction=element.number("fraction", largest=MAX_VALUE))
            return
        mass = element.number("mass", largest=MAX_VALUE)
        builder.compensate_weight(
            link, mass=mass, first_moment=element.numbers("moment", 3, largest=MAX_VALUE)
        )
    except ModelError as error:
        raise element.error(str(error)) from None


def _tendon_point(element: Element) -> tuple[str, tuple[float, ...]] | Wrap:
    """Return a point of a tendon, or a shape around which it passes."""
    link, xyz = element.word("link"), element.numbers("xyz", 3, largest=MAX_VALUE)
    if element.tag == "point":
        check(element, {"link", "xyz"})
        return link, xyz
    check(element, {"link", "xyz", "radius", "axis", "side"})
    axis, side = (
        element.numbers(key, 3, largest=MAX_VALUE) if key in element.attributes else ()
        for key in ("axis", "side")
    )
    return Wrap(link, element.number("radius", largest=MAX_VALUE), xyz, axis, side)


def _tendon(builder: ModelBuilder, element: Element) -> None:
    check(element, {"name", "stiffness", "damping", "rest", "range", "friction"}, {"branch"})
    branches = []
    for branch in element.all("branch"):
        check(branch, {"divisor"}, {"point", "around"})
        points = [_tendon_point(point) for point in branch.children]
        branches.append((branch.number("divisor", 1.0), points))
    try:
        builder.add_tendon(
            element.word("name"),
            branches=branches,
            stiffness=element.number("stiffness", 0.0, largest=MAX_VALUE),
            damping=element.number("damping", 0.0, largest=MAX_VALUE),
            rest=numbers(element, "rest", 2),
            friction=element.number("friction", 0.0, largest=MAX_VALUE),
            **({"range": numbers(element, "range", 2)} if "range" in element.attributes else {}),
        )
    except ModelError as error:
        raise element.error(str(error)) from None


RANGES = {"control": "control_range", "force": "force_range", "activation": "activation_range"}
LAWS = ("gain", "bias", "dynamics")


def _actuator(element: Element) -> Actuator:
    keys = {
        "name",
        "transmission",
        "target",
        "gear",
        "length",
        "lengths",
        "acceleration",
        "off",
        "unread",
        "reference",
    }
    check(element, {*keys, *RANGES, *LAWS, *(f"{law}_parameters" for law in LAWS)}, {"drives"})
    options: dict[str, Any] = {}
    for key, word in RANGES.items():
        if key in element.attributes:
            options[word] = numbers(element, key, 2)
    for law in LAWS:
        if law in element.attributes:
            parameters_key = f"{law}_parameters"
            parameters = numbers(element, parameters_key) if element.attributes.get(parameters_key) else ()
            options[law] = (element.word(law), parameters)
    joints = []
    for driven in element.all("drives"):
        check(driven, {"joint", "ratio"})
        joints.append((driven.word("joint"), driven.number("ratio", largest=MAX_VALUE)))
    for word in ("length", "acceleration"):
        options[word] = element.number(word, 0.0, largest=MAX_VALUE)
    if "lengths" in element.attributes:
        options["length_range"] = numbers(element, "lengths", 2)
    options |= {"enabled": not truth(element, "off"), "unread": element.attributes.get("unread", "")}
    options["reference"] = element.attributes.get("reference", "")
    if "gear" in element.attributes:
        options["gear"] = numbers(element, "gear") if element.attributes["gear"] else ()
    target = element.attributes.get("target", "")
    return Actuator(
        element.attributes.get("name", ""), element.word("transmission"), target, tuple(joints), **options
    )


def _pair(element: Element) -> ContactPair:
    check(element, {"first", "second", "excluded", "friction", "condim", "margin"})
    friction = numbers(element, "friction") if "friction" in element.attributes else ()
    (condim,) = integers(element, "condim") if "condim" in element.attributes else (3,)
    margin = element.number("margin", 0.0, largest=MAX_VALUE)
    return ContactPair(
        element.word("first"), element.word("second"), truth(element, "excluded"), friction, condim, margin
    )


def _polynomial(builder: ModelBuilder, element: Element) -> str:
    check(element, {"name", "coefficients", "embed"}, {"joint"})
    name = element.word("name")
    weights = {}
    for joint in element.all("joint"):
        check(joint, {"name", "y", "x"})
        weights[joint.word("name")] = (
            joint.number("y", 0.0, largest=MAX_VALUE),
            joint.number("x", 0.0, largest=MAX_VALUE),
        )
    function = partial(polynomial, numbers(element, "coefficients"), tuple(weights.values()))
    builder.add_implicit_constraint(name, function, joints=list(weights), embed=embedded(element))
    return name


def embedded(element: Element) -> bool:
    """Return True if a loop or coupling is embedded in the coordinates: unless embed="false"."""
    return truth(element, "embed") if "embed" in element.attributes else True


# shapes

SHAPE: Mapping[str, str] = {  # attribute of a shape besides its geometry -> type
    "name": "word", "visual": "truth", "collision": "truth", "friction": "numbers", "rgba": "numbers",
    "contype": "integer", "conaffinity": "integer", "condim": "integer", "margin": "number",
}  # fmt: skip
PLACES = {"index", "same"}  # index of a shape in the model; whether another element is the same shape


def shape_words(element: Element) -> dict[str, Any]:
    """Return the attributes of a <linkwork> in a shape, as in `Geometry`."""
    values_by_name: dict[str, Any] = {}
    for key, type_ in SHAPE.items():
        if key not in element.attributes:
            continue
        if type_ == "word":
            values_by_name[key] = element.attributes[key]
        elif type_ == "truth":
            values_by_name[key] = truth(element, key)
        elif type_ == "integer":
            (values_by_name[key],) = integers(element, key)
        else:
            values = numbers(element, key)
            values_by_name[key] = values[0] if type_ == "number" else values
    return values_by_name
