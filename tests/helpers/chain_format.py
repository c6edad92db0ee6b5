"""A file format: <chain> with a <link> for each link of a chain of hinges about y.

<chain name="whip"><link name="a" length="0.5" mass="1.0"/><link name="b" length="0.3" mass="0.4"/></chain>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import linkwork as lw
from linkwork.formats.xml import Element
from linkwork.mechanism.limits import Limits
from linkwork.model.loop_joints import DEFAULT_OPTIONS, LoopOptions

ATTRIBUTES = {"chain": {"name"}, "link": {"name", "length", "mass"}}


def read_chain(
    root: Element,
    *,
    base: str | None,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions,
    **_: Any,
) -> lw.Model:
    """Return the model of a <chain> element."""
    if base == "free":
        raise root.error("base: a <chain> is fixed to the ground")
    if loops != DEFAULT_OPTIONS:
        raise root.error("loops: not supported in a <chain>")
    builder = lw.ModelBuilder(root.word("name"), gravity=gravity or (0.0, 0.0, -9.81))
    check_attributes(root)
    parent = "world"
    offset = 0.0
    for link in root.children:
        if link.tag != "link":
            raise link.error("unknown element; expected <link>")
        check_attributes(link)
        name = link.word("name")
        length = link.number("length")
        mass = link.number("mass")
        moment = mass * length**2 / 12.0
        builder.add_body(name, mass=mass, center=(0.0, 0.0, -0.5 * length), inertia=(moment, moment, 0.0))
        builder.add_joint(
            f"{name}_hinge", lw.joints.Revolute((0, 1, 0)), parent=parent, child=name, xyz=(0.0, 0.0, -offset)
        )
        parent = name
        offset = length
    return builder.build()


def check_attributes(element: Element) -> None:
    """Raise for attributes that are not part of the format."""
    for key in element.attributes:
        if key not in ATTRIBUTES[element.tag]:
            raise element.error(f"unknown attribute {key!r}")
