"""Parallel robots: a platform that several legs carry together."""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.ir.functions import cos, sin, sqrt
from linkwork.joints import Free, Prismatic, Revolute, Spherical, Universal
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import Point, cylinder
from linkwork.spatial import Pose
from linkwork.spatial.constants import length as length_of


def pointing(start: Point, end: Point) -> Pose:
    """A frame at one point whose z axis points to another; its x and y are as near to the world's as they can be."""
    z = np.array(end) - np.array(start)
    z = z / length_of(z)
    y = np.cross(z, (1.0, 0.0, 0.0))
    y = y / length_of(y)
    return Pose(np.column_stack([np.cross(y, z), y, z]), np.array(start))


def around(radius: float, angle: float, z: float = 0.0) -> Point:
    """A point at a distance from the z axis, in a direction [rad]."""
    return radius * cos(angle), radius * sin(angle), z


def nearby(moved: float, turned: float) -> dict[str, Any]:
    """Limits of a free joint that may move so far [m] and turn so far, as parts of a quaternion."""
    room = [moved] * 3 + [turned] * 3
    return {"lower": [*(-x for x in room), 1.0 - turned], "upper": [*room, 1.0]}


LEGS = ("legs", "platform")
SWING: dict[str, Any] = {
    "lower": -0.3,
    "upper": 0.3,
}  # of universal joints [rad]: farther out, other assembly modes begin


def stewart(coordinates: str = "legs") -> Model:
    """A Gough-Stewart platform: six legs, each a cylinder on a universal joint with a piston in it; nv = 6.

    The pistons hold a free platform by balls: 13 bodies, 6 loops, one cluster. The independent joints are the `legs` (the
    pistons, so that v and tau are theirs) or the `platform` (its free joint, so that every leg closes by itself). At zero
    the platform is level, 0.8 m above the ground, and its own joint is zero there.
    """
    if coordinates not in LEGS:
        raise ModelError(f"coordinates must be 'legs' or 'platform', not {coordinates!r}")
    return _stewart(coordinates)


@cache
def _stewart(coordinates: str) -> Model:
    height, by_legs = 0.8, coordinates == "legs"
    builder = ModelBuilder("stewart").add_body("platform", **cylinder(6.0, 0.3, 0.04).figures())
    builder.add_joint(
        "platform", Free(), parent=WORLD, child="platform", xyz=(0.0, 0.0, height), independent=not by_legs, **nearby(0.1, 0.1)
    )
    for k in range(6):
        third, turn = 2.0 * pi / 3.0 * (k // 2), 1.0 if k % 2 else -1.0
        foot, head = around(0.6, third + 0.25 * turn), around(0.3, third + (pi / 3.0 - 0.25) * turn)
        low = pointing(foot, (head[0], head[1], height))
        length = float(length_of(np.array((head[0], head[1], height)) - np.array(foot)))
        builder.add_body(f"cylinder_{k}", **cylinder(1.2, 0.03, 0.45, at=(0.0, 0.0, 0.225)).figures())
        builder.add_body(f"piston_{k}", **cylinder(0.6, 0.015, 0.45, at=(0.0, 0.0, -0.225)).figures())
        builder.add_joint(f"foot_{k}", Universal(), parent=WORLD, child=f"cylinder_{k}", place=low, independent=False, **SWING)
        builder.add_joint(
            f"leg_{k}", Prismatic((0.0, 0.0, 1.0)), parent=f"cylinder_{k}", child=f"piston_{k}", xyz=(0.0, 0.0, length),
            lower=-0.2, upper=0.2, independent=by_legs,
        )  # fmt: skip
        builder.add_loop(f"ball_{k}", Spherical(), predecessor="platform", successor=f"piston_{k}", xyz=head)
    return builder.build()


@cache
def delta() -> Model:
    """A delta robot: three arms, each of which carries the platform by two parallel rods; nv = 3.

    Every rod is a body, on a universal joint at the arm and a ball at the platform, which is free otherwise: 10 bodies, 6
    loops, one cluster. Together the rods keep the platform level. The independent joints are the arms' hinges. At zero the
    arms are level, and the platform hangs in the middle below them.
    """
    base, arm, rod, plate, half = 0.2, 0.3, 0.6, 0.1, 0.08  # distances of hinges, lengths, half of that between rods [m]
    reach = base + arm - plate
    height = float(sqrt(rod * rod - reach * reach))
    builder = ModelBuilder("delta").add_body("platform", **cylinder(0.5, plate, 0.02).figures())
    builder.add_joint(
        "platform", Free(), parent=WORLD, child="platform", xyz=(0.0, 0.0, -height), independent=False, **nearby(0.1, 0.05)
    )
    for k in range(3):
        angle = 2.0 * pi / 3.0 * k
        builder.add_body(f"arm_{k}", **cylinder(0.8, 0.02, arm, "x", at=(0.5 * arm, 0.0, 0.0)).figures())
        builder.add_joint(
            f"arm_{k}", Revolute((0.0, 1.0, 0.0)), parent=WORLD, child=f"arm_{k}",
            xyz=around(base, angle), rpy=(0.0, 0.0, angle), lower=-0.4, upper=0.6, independent=True,
        )  # fmt: skip
        for side, y in (("left", half), ("right", -half)):
            name = f"rod_{k}_{side}"
            start, end = (arm, y, 0.0), (plate - base, y, -height)  # in the axes of the arm at zero
            builder.add_body(name, **cylinder(0.1, 0.006, rod, at=(0.0, 0.0, 0.5 * rod)).figures())
            place = pointing(start, end)
            builder.add_joint(name, Universal(), parent=f"arm_{k}", child=name, place=place, independent=False, **SWING)
            ball = Pose.placed((0.0, 0.0, 0.0), (0.0, 0.0, angle)).point(np.array([plate, y, 0.0])).tolist()
            tip = (0.0, 0.0, rod)
            builder.add_loop(f"{name}_ball", Spherical(), predecessor="platform", successor=name, xyz=ball, successor_xyz=tip)
    return builder.build()
