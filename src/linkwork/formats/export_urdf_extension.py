"""The <linkwork> element of a URDF's <robot>: data of the model that URDF cannot express."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

from linkwork.formats.export_checks import as_polynomial
from linkwork.formats.export_text import Tag
from linkwork.formats.extension import LAWS, RANGES, TAG
from linkwork.mechanism import Actuator, Around, LoopConstraint
from linkwork.model import GROUND, WORLD, Model

INDEPENDENT_VALUES = {True: "true", False: "false", None: "any"}


def choices(model: Model, left_out: Container[str]) -> dict[int, str]:
    """Return the attribute `independent` of each joint by its child body; {} if the file needs none.

    It records the choice of the model, so that reading the file reproduces it. Where a constraint is omitted,
    the choice is left open.
    """
    choice_by_body = {joint.child: joint.choices for joint in model.joints}
    for cluster in (c for c in model.clusters if c.constraints):
        if any(constraint.name in left_out for constraint in cluster.constraints):
            choice_by_body |= {k: (None,) * model.joints[k].nv for k in cluster.bodies}
            continue
        columns = [(k, i) for k in cluster.bodies for i in range(model.joints[k].nv)]
        independent = {columns[c] for c in cluster.independent}
        choice_by_body |= {
            k: tuple((k, i) in independent for i in range(model.joints[k].nv)) for k in cluster.bodies
        }
    if not any(x is not None for choice in choice_by_body.values() for x in choice):
        return {}
    return {
        k: " ".join(INDEPENDENT_VALUES[x] for x in (choice if len({*choice}) > 1 else choice[:1]))
        for k, choice in choice_by_body.items()
    }


def robot(model: Model, names: list[str], order: list[str], polynomials: list[LoopConstraint]) -> Tag:
    """Return the element; `names` are the constraints in the file, which is read in `order`."""
    tag = Tag(TAG, gravity=model.gravity, tolerance=model.tolerance)
    for name in names if names != order else ():
        tag.add("order", constraint=name)
    if model.start is not None:
        start = tag.add("start")
        for joint in model.joints:
            start.add("joint", name=joint.name, q=model.start[joint.q_slice])
    for name, keyframe in model.keyframes.items():
        key = tag.add("keyframe", name=name)
        for joint in model.joints:
            key.add("joint", name=joint.name, q=keyframe.q[joint.q_slice], v=keyframe.v[joint.v_slice])
        for actuator, u, x in zip(model.actuators, keyframe.controls, keyframe.activations):
            if u or x:
                key.add("actuator", name=actuator.name, control=u or None, activation=x or None)
    for actuator in model.actuators:
        _actuator(tag, actuator)
    for pair in model.contact_pairs:
        words: dict[str, Any] = {
            "first": pair.first,
            "second": pair.second,
            "excluded": pair.excluded or None,
        }
        words |= {"friction": pair.friction or None, "condim": pair.condim, "margin": pair.margin or None}
        tag.add("contact", **words)
    for constraint in polynomials:
        _polynomial(tag, model, constraint)
    _loads(tag, model)
    return tag


def _loads(tag: Tag, model: Model) -> None:
    """Add compensated weights and spatial tendons."""
    names = {GROUND: WORLD, **{body.index: body.name for body in model.bodies}}
    for each in model.weight_compensations:
        if each.mass is None:
            tag.add("weight", link=names[each.body], fraction=each.fraction)
        else:
            tag.add("weight", link=names[each.body], mass=each.mass, moment=each.first_moment)
    for tendon in model.tendons:
        words: dict[str, Any] = {
            name: getattr(tendon, name) or None for name in ("stiffness", "damping", "friction")
        }
        words["range"] = tendon.range if tendon.limited else None
        element = tag.add("tendon", name=tendon.name, **words, rest=tendon.rest)
        for divisor, points in tendon.branches:
            branch = element.add("branch", divisor=divisor if divisor != 1.0 else None)
            for point in points:
                if isinstance(point, Around):
                    wrap = {"axis": point.axis or None, "side": point.side or None}
                    xyz = point.center
                    branch.add("around", link=names[point.body], xyz=xyz, radius=point.radius, **wrap)
                else:
                    branch.add("point", link=names[point[0]], xyz=point[1])


def _actuator(tag: Tag, actuator: Actuator) -> None:
    words: dict[str, Any] = {
        "transmission": actuator.transmission,
        "target": actuator.target or None,
        "gear": actuator.gear,
    }
    for key, name in RANGES.items():
        low, high = getattr(actuator, name)
        words[key] = None if (low, high) == (-math.inf, math.inf) else (low, high)
    for law in LAWS:
        words[law], words[f"{law}_parameters"] = getattr(actuator, law)
    words |= {
        "length": actuator.length or None,
        "acceleration": actuator.acceleration or None,
        "reference": actuator.reference or None,
        "unread": actuator.unread or None,
        "lengths": actuator.length_range if any(actuator.length_range) else None,
        "off": None if actuator.enabled else True,
    }
    element = tag.add("actuator", name=actuator.name, **words)
    for joint, ratio in actuator.joints:
        element.add("drives", joint=joint, ratio=ratio)


def _polynomial(tag: Tag, model: Model, constraint: LoopConstraint) -> None:
    """Add a polynomial of joints or fixed tendons, as read from MJCF."""
    equality = as_polynomial(constraint)
    assert equality is not None
    coefficients, weights = equality
    embed = None if any(constraint is c for c in model.embedded) else False
    element = tag.add("polynomial", name=constraint.name, coefficients=coefficients, embed=embed)
    for k, y, x in weights:
        element.add("joint", name=model.joints[k].name, y=y or None, x=x or None)
