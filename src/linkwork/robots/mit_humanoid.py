"""The MIT Humanoid with the rotors of its motors, and one of its legs alone."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from linkwork.model import WORLD, Model
from linkwork.robots.geared import Link, Rotor, approximation_level, assemble, rotor_solid, solid_from_moments
from linkwork.robots.solids import ORIGIN, Point

BODY = "Floating Base"
TORSO = (8.52, (0.009896, 0.004771, 0.100522), (0.172699, 0.001419, 0.004023, 0.105949, -0.001672, 0.091906))
BASE = ("world_to_base", BODY, solid_from_moments(*TORSO))

# Rotors: inertia about the axis and across it [kg m²].
SMALL = (1.6841e-4, 1.084e-4)
LARGE = (5.548e-4, 3.443e-4)
WEIGHT = {SMALL: 0.05, LARGE: 0.1}  # masses [kg]
TILTS: dict[str, Point] = {
    "hip_rz": (0.0, -0.174533, 0.0),
    "hip_rx": (0.0, 0.436332, 0.0),
    "hip_ry": (0.0, -0.261799, 0.0),
}


# Solids on the left: mass, center and moments.
SOLIDS = {
    "hip_rz": (
        0.84563,
        (-0.064842, -3.6e-5, -0.06309),
        (0.0015373, 1.1e-6, 0.0005578, 0.0014252, 2.4e-6, 0.0012028),
    ),
    "hip_rx": (
        1.20868,
        (0.067232, -0.013018, 0.0001831),
        (0.0017535, -6.3e-6, -8e-5, 0.003338, -1.3e-5, 0.0019927),
    ),
    "hip_ry": (
        2.64093,
        (0.0132054, 0.0269864, -0.096021),
        (0.0243761, 9.96e-5, 0.0006548, 0.0259015, 0.0026713, 0.0038929),
    ),
    "knee": (0.35435, (0.00528, 0.0014762, -0.13201), (0.003051, 0.0, 8.73e-5, 0.003033, 3.93e-5, 0.0002529)),
    "ankle": (0.280951, (0.022623, 0.0, -0.012826), (8.42e-5, 0.0, -4.88e-5, 0.0007959, 0.0, 0.0007681)),
    "shoulder_ry": (
        0.788506,
        (0.009265, 0.052623, -0.0001249),
        (0.0013678, 2.66e-5, 2.1e-6, 0.0007392, -1.2e-6, 0.000884),
    ),
    "shoulder_rx": (
        0.80125,
        (0.0006041, 0.0001221, -0.082361),
        (0.0011524, 7e-7, 3.96e-5, 0.0011921, 1.4e-6, 0.0012386),
    ),
    "shoulder_rz": (
        0.905588,
        (0.0001703, -0.016797, -0.06),
        (0.0012713, 1e-6, -8e-6, 0.0017477, -2.25e-5, 0.0008191),
    ),
    "elbow": (
        0.34839,
        (-0.0059578, 0.000111, -0.0426735),
        (0.00157, 2e-7, 3.35e-5, 0.0016167, 3e-6, 6.19e-5),
    ),
}


class Row(NamedTuple):
    """A link or its rotor on the left; {s} stands for the side in names."""

    name: str
    joint: str
    on: str
    at: Point
    axis: str
    rotor: tuple[float, float] | None = None
    gear: float = 0.0

    def part(self, s: str, side: float, *, mirror: float, with_mass: bool = True) -> Link:
        """Return the part for one side (1 left, -1 right), its solid mirrored for `mirror` -1."""
        x, y, z = self.at
        joint = self.joint.format(s=s)
        on = self.on.format(s=s)
        link = f"{s}{self.name}_link"
        tilt = TILTS.get(self.name, ORIGIN)
        if self.rotor is None:
            return Link(
                joint,
                on,
                link,
                (x, side * y, z),
                self.axis,
                solid_from_moments(*SOLIDS[self.name], mirror),
                tilt,
            )
        solid = rotor_solid(WEIGHT[self.rotor] if with_mass else 0.0, *self.rotor, self.axis)
        name = f"{s}{self.name}_rotor"
        return Rotor(
            joint, on, name, (x, side * y, z), self.axis, solid, tilt, False, gear=self.gear, drives=link
        )


# Name, joint, parent link, position [m], axis; for rotors also inertia and gear.
HIP = [
    Row("hip_rz", "base_to_{s}hipz_link", BODY, (-0.00565, 0.082, -0.05735), "z"),
    Row("hip_rz", "{s}base_to_hipz_rotor", BODY, (-0.00842837, 0.082, -0.041593), "z", SMALL, 6.0),
]
LEG = [
    Row("hip_rx", "{s}hipz_to_hipx_link", "{s}hip_rz_link", (-0.06435, 0.0, -0.07499), "x"),
    Row("hip_rx", "{s}hipz_to_hipx_rotor", "{s}hip_rz_link", (-0.0827, 0.0, -0.066436), "x", SMALL, 6.0),
    Row("hip_ry", "{s}hipx_to_hipy_link", "{s}hip_rx_link", (0.071, -0.0018375, 0.0), "y"),
    Row("hip_ry", "{s}hipx_to_hipy_rotor", "{s}hip_rx_link", (0.071, -0.024, 0.0), "y", LARGE, 6.0),
    Row("knee", "{s}hipy_to_knee_link", "{s}hip_ry_link", (0.0, 0.0, -0.267), "y"),
    Row("knee", "{s}hipy_to_knee_rotor", "{s}hip_ry_link", (0.013, 0.0497, -0.0178), "y", LARGE, 12.0),
    Row("ankle", "{s}hipy_to_ankle_rotor", "{s}hip_ry_link", (0.01563, 0.0454, -0.13354), "y", SMALL, 12.0),
    Row("ankle", "{s}knee_to_ankle", "{s}knee_link", (0.0, 0.0, -0.2785), "y"),
]
ARM = [
    Row("shoulder_ry", "base_to_{s}shouldery_link", BODY, (0.01346, 0.17608, 0.24657), "y"),
    Row("shoulder_ry", "base_to_{s}shouldery_rotor", BODY, (0.01346, 0.16, 0.24657), "y", SMALL, 6.0),
    Row("shoulder_rx", "{s}shouldery_shoulderx_link", "{s}shoulder_ry_link", (0.0, 0.0575, 0.0), "x"),
    Row(
        "shoulder_rx",
        "{s}shouldery_to_shoulderx_rotor",
        "{s}shoulder_ry_link",
        (0.0, 0.0575, 0.0),
        "x",
        SMALL,
        6.0,
    ),
    Row("shoulder_rz", "{s}shoulderx_shoulderz_link", "{s}shoulder_rx_link", (0.0, 0.0, -0.1025), "z"),
    Row(
        "shoulder_rz",
        "{s}shoulderx_to_shoulderz_rotor",
        "{s}shoulder_rx_link",
        (0.0, 0.0, -0.1025),
        "z",
        SMALL,
        6.0,
    ),
    Row("elbow", "{s}shoulderz_elbow_link", "{s}shoulder_rz_link", (0.0, 0.0, -0.1455), "y"),
    Row(
        "elbow", "{s}shoulderz_to_elbow_rotor", "{s}shoulder_rz_link", (0.0, -0.0325, -0.06), "y", SMALL, 9.0
    ),
]
SIDES = {"right_": -1.0, "left_": 1.0}


def mit_humanoid(approximate: bool | str = False) -> Model:
    """Return the MIT Humanoid with a floating base: 37 bodies, 17 clusters, nv = 24.

    Legs have five joints and arms four, with their rotors. The thigh carries the rotors of knee and ankle:
    that of the ankle turns with both joints through a belt, so that each leg has a cluster of four bodies.
    `approximate` omits the rotors with their mass: "ignored" adds nothing for them; "diagonal" (or True) adds
    their reflected inertia to each joint; "block" also adds the coupling between knee and ankle.
    """
    return _mit_humanoid(approximation_level(approximate))


def mit_humanoid_leg(approximate: bool | str = False) -> Model:
    """Return a leg of the MIT Humanoid, fixed at the hip: five joints with massless rotors; nv = 5.

    It is at the position of the right leg, with the links of the left one. `approximate` as in
    `mit_humanoid`.
    """
    return _mit_humanoid_leg(approximation_level(approximate))


@cache
def _mit_humanoid(level: str) -> Model:
    parts = [
        row.part(s, y, mirror=y) for rows in ([*HIP, *LEG], ARM) for s, y in SIDES.items() for row in rows
    ]
    return assemble("mit_humanoid", BASE, parts, level=level)


@cache
def _mit_humanoid_leg(level: str) -> Model:
    rows = [*(row._replace(on=WORLD) for row in HIP), *LEG]
    return assemble(
        "mit_humanoid_leg",
        None,
        [row.part("", -1.0, mirror=1.0, with_mass=False) for row in rows],
        level=level,
    )
