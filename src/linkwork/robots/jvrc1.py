"""JVRC-1, a humanoid designed for simulation, with rotors added to its joints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from linkwork.model import Model
from linkwork.robots.geared import Link, Rotor, approximation_level, assemble, solid_from_moments
from linkwork.robots.solids import ORIGIN, Point

BASE = (
    "base_to_pelvis",
    "pelvis",
    solid_from_moments(10.0, (-0.01, 0.0, 0.034), (0.089583, 0.089583, 0.1125)),
)
ROTOR = solid_from_moments(
    0.07, ORIGIN, (2e-5, 2e-5, 5e-5)
)  # in the axes of its link, for any axis of rotation
GEAR = 6.0


class Row(NamedTuple):
    """A link on the left: joint, name, position [m], axis, mass [kg], center [m], moments xx, yy, zz [kg m²].

    {s} is the side. The parent is the link of the row above.
    """

    joint: str
    name: str
    at: Point
    axis: str
    mass: float
    center: Point
    moments: Point
    rotor: bool = True


def ball(moment: float) -> Point:
    return moment, moment, moment


SHIN = (0.031925, 0.034525, 0.00865)
WAIST = [
    Row(
        "pelvis-to-waist-yaw",
        "waist-yaw",
        (0.0, 0.0, 0.192),
        "z",
        1.0,
        (0.0, 0.0, -0.07),
        (0.00173, 0.00173, 0.0032),
    ),
    Row("waist-yaw-to-waist-pitch", "waist-pitch", ORIGIN, "y", 1.0, ORIGIN, ball(0.002425)),
    Row(
        "waist-pitch-to-waist-roll",
        "waist-roll",
        ORIGIN,
        "x",
        10.0,
        (0.02, 0.0, 0.24),
        (0.157083, 0.101083, 0.1367),
    ),
]
NECK = [
    Row("waist-roll-to-neck-yaw", "neck-yaw", (-0.003, 0.0, 0.453), "z", 0.5, (0.0, 0.0, -0.05),
        (0.000729167, 0.000729167, 0.000625), False),
    Row("neck-yaw-to-neck-roll", "neck-roll", ORIGIN, "x", 0.5, ORIGIN, ball(0.0005), False),
    Row("neck-roll-to-neck-pitch", "neck-pitch", ORIGIN, "y", 2.0, (0.01, 0.0, 0.11), ball(0.00968), False),
]  # fmt: skip
LEG = [
    Row("pelvis-to-{s}-hip-pitch", "{s}-hip-pitch", (0.0, 0.096, 0.0), "y", 1.0, ORIGIN, ball(0.00196)),
    Row("{s}-hip-pitch-to-hip-roll", "{s}-hip-roll", ORIGIN, "x", 1.0, ORIGIN, ball(0.00196)),
    Row("{s}-hip-roll-to-hip-yaw", "{s}-hip-yaw", ORIGIN, "z", 3.0, (0.01, 0.0, -0.22), SHIN),
    Row("{s}-hip-yaw-to-knee", "{s}-knee", (-0.02, 0.0, -0.389), "y", 3.0, (0.04, 0.0, -0.16), SHIN),
    Row("{s}-knee-to-ankle-roll", "{s}-ankle-roll", (0.04, 0.0, -0.357), "x", 1.0, ORIGIN, ball(0.00064)),
    Row("{s}-ankle-roll-to-ankle-pitch", "{s}-ankle-pitch", ORIGIN, "y", 1.5, (0.03, 0.0, -0.07),
        (0.001417, 0.005617, 0.006217)),
]  # fmt: skip
RIGHT_LEG = [
    LEG[0]._replace(at=(0.0, 0.096, -0.087)),
    *LEG[1:],
]  # it begins lower than the left one, as in the data
ARM = [
    Row("waist-roll-to-{s}-shoulder-pitch", "{s}-shoulder-pitch", (0.0, 0.24, 0.33), "y", 1.0, ORIGIN,
        ball(0.00196)),
    Row("{s}-shoulder-pitch-to-shoulder-roll", "{s}-shoulder-roll", ORIGIN, "x", 1.0, ORIGIN, ball(0.00196)),
    Row("{s}-shoulder-roll-to-shoulder-yaw", "{s}-shoulder-yaw", ORIGIN, "z", 2.0, (-0.01, 0.0, -0.19),
        (0.01365, 0.0146, 0.00635)),
    Row("{s}-shoulder-yaw-to-elbow-pitch", "{s}-elbow-pitch", (0.004, 0.0, -0.305), "y", 1.0,
        (-0.02, 0.0, -0.1),
        (0.010675, 0.010675, 0.0027)),
    Row("{s}-elbow-pitch-to-elbow-yaw", "{s}-elbow-yaw", (-0.004, 0.0, -0.239), "z", 1.0, ORIGIN,
        ball(0.00064)),
    Row("{s}-elbow-yaw-to-wrist-roll", "{s}-wrist-roll", ORIGIN, "x", 0.5, ORIGIN, ball(0.00032), False),
    Row("{s}-wrist-roll-to-wrist-yaw", "{s}-wrist-yaw", ORIGIN, "z", 0.5, (0.0, -0.01, -0.06),
        (0.0004625, 0.0007625, 0.0004625), False),
]  # fmt: skip


def limb(rows: Sequence[Row], on: str, s: str = "", side: float = 1.0) -> list[Link]:
    """Return the parts of a chain of links that starts on another, on one side (1 left, -1 right)."""
    parts: list[Link] = []
    for row in rows:
        x, y, z = row.at
        name = row.name.format(s=s)
        joint = row.joint.format(s=s)
        at = (x, side * y, z)
        parts.append(
            Link(joint, on, name, at, row.axis, solid_from_moments(row.mass, row.center, row.moments, side))
        )
        if row.rotor:
            parts.append(
                Rotor(
                    f"{joint}-rotor",
                    on,
                    f"{name}-rotor",
                    at,
                    row.axis,
                    ROTOR,
                    independent=False,
                    gear=GEAR,
                    drives=name,
                )
            )
        on = name
    return parts


def jvrc1(approximate: bool | str = False) -> Model:
    """Return JVRC-1 with a floating base: 32 joints, 58 bodies, 33 clusters, nv = 38.

    All joints except neck and wrists (25) have rotors with equal inertia in the axes of their link: those
    about x and y are not symmetric about their axes. `approximate` omits the rotors with their mass:
    "ignored" adds nothing for them; "diagonal" (or True) and "block" add the reflected inertia to each joint,
    with equal results here.
    """
    return _jvrc1(approximation_level(approximate))


@cache
def _jvrc1(level: str) -> Model:
    parts = [
        *limb([*WAIST, *NECK], "pelvis"),
        *limb(LEG, "pelvis", "left"),
        *limb(RIGHT_LEG, "pelvis", "right", -1.0),
        *limb(ARM, "waist-roll", "left"),
        *limb(ARM, "waist-roll", "right", -1.0),
    ]
    return assemble("jvrc1_humanoid", BASE, parts, level=level)
