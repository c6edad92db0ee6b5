"""Parallel robots: a platform that several legs carry together."""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import cos, sin, sqrt
from linkwork.errors import ModelError
from linkwork.joints import Free, Prismatic, Revolute, Spherical, Universal
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import Point, cylinder
from linkwork.spatial import Pose
from linkwork.spatial.constants import length as length_of


def pointing(start: Point, end: Point) -> Pose:
    """Return a frame at one point whose z axis points to another, with x and y close to the world's."""
    z = np.array(end) - np.array(start)
    z = z / length_of(z)
    y = np.cross(z, (1.0, 0.0, 0.0))
    y = y / length_of(y)
    return Pose(np.column_stack([np.cross(y, z), y, z]), np.array(start))


def around(radius: float, angle: float, z: float = 0.0) -> Point:
    """Return a point at a distance from the z axis, in a direction [rad]."""
    return radius * cos(angle), radius * sin(angle), z


def nearby(distance: float, quaternion_bound: float) -> dict[str, Any]:
    """Return limits of a free joint: a distance [m], and a bound of the quaternion components."""
    upper = [distance] * 3 + [quaternion_bound] * 3
    return {"lower": [*(-x for x in upper), 1.0 - quaternion_bound], "upper": [*upper, 1.0]}


LEGS = ("legs", "platform")
SWING: dict[str, Any] = {
    "lower": -0.3,
    "upper": 0.3,
}  # of universal joints [rad]; other assembly modes begin farther out


def stewart(coordinates: str = "legs") -> Model:
    """Return a Gough-Stewart platform: six legs with universal joint, cylinder and piston; nv = 6.

    The pistons carry a free platform by ball joints: 13 bodies, 6 loops, one cluster. The independent joints
    are the `legs` (pistons, so that v and tau are theirs) or the `platform` (its free joint, so that every
    leg closes separately). At zero the platform is level, 0.8 m above the ground, and its joint is zero.
    """
    if coordinates not in LEGS:
        raise ModelError(f"coordinates: expected 'legs' or 'platform', got {coordinates!r}")
    return _stewart(coordinates)


@cache
def _stewart(coordinates: str) -> Model:
    height = 0.8
    by_legs = coordinates == "legs"
    builder = ModelBuilder("stewart").add_body("platform", **cylinder(6.0, 0.3, 0.04).body_args())
    builder.add_joint(
        "platform",
        Free(),
        parent=WORLD,
        child="platform",
        xyz=(0.0, 0.0, height),
        independent=not by_legs,
        **nearby(0.1, 0.1),
    )
    for k in range(6):
        third = 2.0 * pi / 3.0 * (k // 2)
        turn = 1.0 if k % 2 else -1.0
        foot = around(0.6, third + 0.25 * turn)
        head = around(0.3, third + (pi / 3.0 - 0.25) * turn)
        low = pointing(foot, (head[0], head[1], height))
        length = float(length_of(np.array((head[0], head[1], height)) - np.array(foot)))
        builder.add_body(f"cylinder_{k}", **cylinder(1.2, 0.03, 0.45, at=(0.0, 0.0, 0.225)).body_args())
        builder.add_body(f"piston_{k}", **cylinder(0.6, 0.015, 0.45, at=(0.0, 0.0, -0.225)).body_args())
        builder.add_joint(
            f"foot_{k}",
            Universal(),
            parent=WORLD,
            child=f"cylinder_{k}",
            place=low,
            independent=False,
            **SWING,
        )
        builder.add_joint(
            f"leg_{k}", Prismatic((0.0, 0.0, 1.0)), parent=f"cylinder_{k}", child=f"piston_{k}",
            xyz=(0.0, 0.0, length),
            lower=-0.2, upper=0.2, independent=by_legs,
        )  # fmt: skip
        builder.add_loop(f"ball_{k}", Spherical(), predecessor="platform", successor=f"piston_{k}", xyz=head)
    return builder.build()


@cache
def delta() -> Model:
    """Return a delta robot: three arms that carry the platform by two parallel rods each; nv = 3.

    Every rod is a body, with a universal joint at the arm and a ball joint at the platform, which is
    otherwise free: 10 bodies, 6 loops, one cluster. Together the rods keep the platform level. The
    independent joints are the hinges of the arms. At zero the arms are level, and the platform is centered
    below them.
    """
    # Distance of hinges, lengths, and half the distance of rods [m].
    base = 0.2
    arm = 0.3
    rod = 0.6
    plate = 0.1
    half = 0.08
    reach = base + arm - plate
    height = float(sqrt(rod * rod - reach * reach))
    builder = ModelBuilder("delta").add_body("platform", **cylinder(0.5, plate, 0.02).body_args())
    builder.add_joint(
        "platform",
        Free(),
        parent=WORLD,
        child="platform",
        xyz=(0.0, 0.0, -height),
        independent=False,
        **nearby(0.1, 0.05),
    )
    for k in range(3):
        angle = 2.0 * pi / 3.0 * k
        builder.add_body(f"arm_{k}", **cylinder(0.8, 0.02, arm, "x", at=(0.5 * arm, 0.0, 0.0)).body_args())
        builder.add_joint(
            f"arm_{k}", Revolute((0.0, 1.0, 0.0)), parent=WORLD, child=f"arm_{k}",
            xyz=around(base, angle), rpy=(0.0, 0.0, angle), lower=-0.4, upper=0.6, independent=True,
        )  # fmt: skip
        for side, y in (("left", half), ("right", -half)):
            name = f"rod_{k}_{side}"
            # In the axes of the arm at zero.
            start = (arm, y, 0.0)
            end = (plate - base, y, -height)
            builder.add_body(name, **cylinder(0.1, 0.006, rod, at=(0.0, 0.0, 0.5 * rod)).body_args())
            place = pointing(start, end)
            builder.add_joint(
                name, Universal(), parent=f"arm_{k}", child=name, place=place, independent=False, **SWING
            )
            ball = (
                Pose.from_xyz_rpy((0.0, 0.0, 0.0), (0.0, 0.0, angle))
                .point(np.array([plate, y, 0.0]))
                .tolist()
            )
            tip = (0.0, 0.0, rod)
            builder.add_loop(
                f"{name}_ball",
                Spherical(),
                predecessor="platform",
                successor=name,
                xyz=ball,
                successor_xyz=tip,
            )
    return builder.build()
