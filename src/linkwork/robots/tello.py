"""Tello, a humanoid whose legs are driven through differentials: two rotors move two joints together.

The motion of the rotors is known only implicitly as φ = 0 of all four angles. A rotor turns `GEAR` times as
fast as the shaft behind its gearbox, which drives the linkage.
"""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import cos, sin
from linkwork.errors import ModelError
from linkwork.loops.motion import cluster_posture
from linkwork.model import Model
from linkwork.robots.geared import (
    EXACT,
    Differential,
    Link,
    Rotor,
    approximation_level,
    assemble,
    gear_ratios,
    rotor_solid,
    solid_from_moments,
)
from linkwork.robots.mit_humanoid import SOLIDS
from linkwork.robots.solids import ORIGIN, Point
from linkwork.spatial.solve import solve

GEAR = 6.0
TORSO = (2.3008, (0.0073, -0.0013, -0.0023), (0.0366, 0.0, -0.0006, 0.0142, -0.0002, 0.0291))
BASE = ("torso-to-ground", "torso", solid_from_moments(*TORSO))
ROTOR = rotor_solid(0.07, 5.1512e-5, 2.5984e-5, "z")
ARM_ROTOR = (0.0, 1.684e-4, 1.084e-4)  # mass, moments about the axis and across it [kg m²]
# Range of the rotors of the differentials [rad], which limits the links.
HIP_REACH = 5.0
KNEE_REACH = 8.0
UPSIDE_DOWN: Point = (pi, 0.0, 0.0)
LEFTWARDS: Point = (-pi / 2, pi, 0.0)  # z of a rotor along y
RIGHTWARDS: Point = (pi / 2, 0.0, 0.0)


def hip(q: Any) -> Any:
    """Return φ of the hip differential: rotors 1 and 2, roll of the gimbal, pitch of the thigh."""
    y1 = q[0] / GEAR
    y2 = q[1] / GEAR
    q1 = q[2]
    q2 = q[3]
    return np.array([_hip(y1, q1, q2, 1.0), _hip(y2, q1, q2, -1.0)])


def _hip(y: Any, q1: Any, q2: Any, side: float) -> Any:
    """Return φ of one rod; the two rods are mirror images."""
    sy = sin(y)
    s1 = sin(q1)
    c1 = cos(q1)
    s2 = sin(q2)
    return (
        57 / 2500 * sy
        - 49 / 5000 * c1
        - side * (399 / 20000 * s1)
        - 8 / 625 * (cos(y) * cos(q2))
        - 57 / 2500 * (c1 * s2)
        - side * (7 / 625 * (sy * s1))
        + side * (7 / 625 * (s1 * s2))
        - 8 / 625 * (c1 * sy * s2)
        + 3021 / 160000
    )


def knee_ankle(q: Any) -> Any:
    """Return φ of the knee-ankle differential: rotors 1 and 2, knee, ankle."""
    y1 = q[0] / GEAR
    y2 = q[1] / GEAR
    q1 = q[2]
    q2 = q[3]
    half = 0.5 * y1 - 0.5 * y2
    rod = (
        21 / 6250 * cos(half + 1979 * pi / 4500)
        - 13 / 625 * cos(half + 493 * pi / 1500)
        - 273 / 12500 * cos(pi / 9)
        - 7 / 2500 * sin(half + q2 + 231 * pi / 500)
        + 91 / 5000 * sin(q2 + 2 * pi / 15)
        - 147 / 50000 * sin(q2 + pi / 45)
        + 163349 / 6250000
    )
    return np.array([rod, q1 - 0.5 * y2 - 0.5 * y1])


def leg(s: str, side: float) -> list[Link]:
    """Return a leg (1 left, -1 right), mirrored only in position of the clamp and pose of its rotor."""
    clamp, gimbal, thigh, shin = (f"{s}-{part}" for part in ("hip-clamp", "gimbal", "thigh", "shin"))

    def rotor(name: str, on: str, y: float, rpy: Point, reach: float) -> Rotor:
        return Rotor(f"{on}-to-{name}", on, f"{s}-{name}", (0.0, y, 0.0), "z", ROTOR, rpy, True, reach)

    def link(on: str, name: str, at: Point, axis: str, reach: float, *solid: Any) -> Link:
        return Link(
            f"{on}-to-{name}", on, f"{s}-{name}", at, axis, solid_from_moments(*solid), ORIGIN, False, reach
        )

    return [
        Rotor(f"torso-to-{clamp}-rotor", "torso", f"{clamp}-rotor", (0.0, 0.126 * side, -0.026), "z",
              ROTOR, UPSIDE_DOWN if side > 0 else ORIGIN, False, gear=GEAR, drives=clamp),
        Link(f"torso-to-{clamp}", "torso", clamp, (0.0, 0.126 * side, -0.087), "z",
             solid_from_moments(1.3289, (-0.001, 0.0, -0.0069), (0.0032, 0.0, 0.0001, 0.0033, 0.0, 0.0027)),
             independent=True),
        rotor("hip-rotor-1", clamp, 0.04, LEFTWARDS, HIP_REACH),
        rotor("hip-rotor-2", clamp, -0.04, RIGHTWARDS, HIP_REACH),
        link(clamp, "gimbal", (0.0, 0.0, -0.1425), "x", 0.8,
             0.4433, (-0.0027, 0.0, 0.0258), (0.0018, 0.0017, 0.0015)),
        link(gimbal, "thigh", ORIGIN, "y", 1.0,
             1.5424, (0.003, -0.0001, -0.0323), (0.0103, 0.0, -0.0005, 0.0097, 0.0, 0.0027)),
        rotor("knee-ankle-rotor-1", thigh, 0.02655, RIGHTWARDS, KNEE_REACH),
        rotor("knee-ankle-rotor-2", thigh, -0.02655, LEFTWARDS, KNEE_REACH),
        link(thigh, "shin", (0.0, 0.0, -0.2268), "y", 1.3,
             0.3072, (0.0047, -0.0003, -0.1043), (0.0054, 0.0, -0.0002, 0.0054, 0.0, 0.0001)),
        link(shin, "foot", (0.0, 0.0, -0.26), "y", 1.5,
             0.1025, (0.0042, 0.0, -0.0251), (9.4e-5, 0.0, -3.8e-6, 1.773e-4, 0.0, 9.01e-5)),
    ]  # fmt: skip


# Link, joint, parent link, positions of link and rotor on the left [m], axis, gear. The links are those of
# the MIT Humanoid.
ARM = [
    (
        "shoulder-ry",
        "torso-to-{s}-shoulder-ry",
        "torso",
        (0.01346, 0.17608, 0.24657),
        (0.01346, 0.16, 0.24657),
        "y",
        6.0,
    ),
    (
        "shoulder-rx",
        "{s}-shoulder-ry-to-shoulder-rx",
        "{s}-shoulder-ry",
        (0.0, 0.0575, 0.0),
        (0.0, 0.0575, 0.0),
        "x",
        6.0,
    ),
    (
        "shoulder-rz",
        "{s}-shoulder-rx-to-shoulder-rz",
        "{s}-shoulder-rx",
        (0.0, 0.0, -0.1025),
        (0.0, 0.0, -0.1025),
        "z",
        6.0,
    ),
    (
        "elbow",
        "{s}-shoulder-rz-to-elbow",
        "{s}-shoulder-rz",
        (0.0, 0.0, -0.1455),
        (0.0, -0.0325, -0.06),
        "y",
        9.0,
    ),
]


def arm(s: str, side: float) -> list[Link]:
    """Return an arm (1 left, -1 right)."""
    parts: list[Link] = []
    for name, joint, on, (x, y, z), (rx, ry, rz), axis, gear in ARM:
        joint = joint.format(s=s)
        on = on.format(s=s)
        link = f"{s}-{name}"
        solid = solid_from_moments(*SOLIDS[name.replace("-", "_")], side)
        parts.append(Link(joint, on, link, (x, side * y, z), axis, solid, independent=True))
        parts.append(
            Rotor(f"{joint}-rotor", on, f"{link}-rotor", (rx, side * ry, rz), axis,
                rotor_solid(*ARM_ROTOR, axis),
                  independent=False, gear=gear, drives=link)
        )  # fmt: skip
    return parts


def differentials(s: str) -> list[Differential]:
    """Return the two differentials of a leg."""
    clamp = f"{s}-hip-clamp-to"
    thigh = f"{s}-thigh-to"
    upper = (f"{clamp}-hip-rotor-1", f"{clamp}-hip-rotor-2", f"{clamp}-gimbal", f"{s}-gimbal-to-thigh")
    lower = (
        f"{thigh}-knee-ankle-rotor-1",
        f"{thigh}-knee-ankle-rotor-2",
        f"{thigh}-shin",
        f"{s}-shin-to-foot",
    )
    return [
        Differential(f"{s} hip differential", hip, upper),
        Differential(f"{s} knee-ankle differential", knee_ankle, lower),
    ]


SIDES = {"left": 1.0, "right": -1.0}
# Contact points of the sole ahead of the ankle [m].
CORNERS = {"toe": 0.09, "heel": -0.06}


def soles() -> list[tuple[str, str, Point, float]]:
    """Return the contact balls of both soles, four each."""
    return [
        (f"{s}-{end}-{'outer' if y > 0 else 'inner'}", f"{s}-foot", (x, side * y, -0.04), 0.01)
        for s, side in SIDES.items()
        for end, x in CORNERS.items()
        for y in (0.025, -0.025)
    ]


def tello(*, arms: bool = False, approximate: bool | str = False) -> Model:
    """Return Tello with a floating base: nv = 16, with `arms` nv = 24.

    It has 21 bodies in 7 clusters, with arms 37 bodies in 15 clusters.

    Each leg has a rotating clamp, and one differential for the hip and another for knee and ankle. The rotors
    of these are the independent joints: `lw.close_loops` computes the links for them. `approximate` omits the
    rotors with their mass: the links' joints are then independent. "ignored" adds nothing for rotors;
    "diagonal" (or True) adds their reflected inertia with straight legs to each joint; "block" also adds the
    coupling between the two joints of a differential.
    """
    if not isinstance(arms, bool):
        raise ModelError(f"arms: expected True or False, got {arms!r}")
    return _tello(arms, approximation_level(approximate))


@cache
def _tello(arms: bool, level: str) -> Model:
    parts = [part for s, side in SIDES.items() for part in leg(s, side)]
    parts += [part for s, side in SIDES.items() for part in arm(s, side)] if arms else []
    constraints = [differential for s in SIDES for differential in differentials(s)]
    name = "tello_humanoid" if arms else "tello_legs"
    if level == EXACT:
        return assemble(name, BASE, parts, differentials=constraints, balls=soles())
    ratios_by_rotor = {**gear_ratios(parts), **_straight(_tello(arms, EXACT))}
    return assemble(name, BASE, parts, level=level, balls=soles(), ratios_by_rotor=ratios_by_rotor)


def _straight(model: Model) -> dict[str, dict[str, float]]:
    """Return the gear ratios of the differentials' rotors for their links' joints, all at zero."""
    ratios: dict[str, dict[str, float]] = {}
    for cluster in model.clusters:
        for closure in cluster.constraints:
            if closure.name.endswith("differential"):
                q = model.tree_neutral()
                joints = [model.joints[k] for k in closure.joints]  # type: ignore[attr-defined]
                rotors = [joint.q_start for joint in joints[:2]]
                for _ in range(50):
                    posture = cluster_posture(model, cluster.bodies, q)
                    K = closure.equations(posture)[0]
                    columns = [posture.columns[joint.child].start for joint in joints]
                    q[rotors] -= solve(K[:, columns[:2]], closure.residual(posture)).astype(float)
                turn = -solve(K[:, columns[:2]], K[:, columns[2:]])
                for joint, row in zip(joints[:2], turn):
                    ratios[joint.name] = {link.name: float(rate) for link, rate in zip(joints[2:], row)}
    return ratios
