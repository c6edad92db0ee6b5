"""A four-legged walking robot of the size of a dog."""

from __future__ import annotations

from functools import cache

from linkwork.model import Model
from linkwork.robots.solids import box, cylinder
from linkwork.robots.table import AttachedFrame, Motor, Row, assemble, both_sides

# effort [N m], speed [rad/s], rotor [kg m²], gear, damping [N m s/rad]
HIP = Motor(24.0, 30.0, 7.0e-5, 8.0, 0.05)
KNEE = Motor(36.0, 20.0, 7.0e-5, 12.0, 0.08)

TRUNK = (
    "trunk",
    box(5.4, (0.38, 0.16, 0.11)) + box(1.2, (0.10, 0.10, 0.07), at=(0.02, 0.0, -0.01)),
)  # frame, battery
# Lengths and radius of the foot [m].
THIGH = 0.21
SHANK = 0.20
FOOT = 0.02


def leg(end: str, x: float) -> list[Row]:
    """Return the left leg at one end of the trunk, with its hip at x [m].

    The joints are abduction, hip and knee; the leg points straight down at zero.
    """
    name = f"{end}_left"
    outwards = 0.03 if x > 0 else -0.03  # the hip motor is towards the end of the trunk
    return [
        Row(f"{name}_abduction", "trunk", f"{name}_hip", (x, 0.055, 0.0), "x", (-0.8, 0.8), HIP,
            cylinder(0.42, 0.04, 0.05, "x", at=(outwards, 0.0, 0.0)) + cylinder(0.20, 0.042, 0.03, "y",
                at=(0.0, 0.045, 0.0))),
        Row(f"{name}_hip", f"{name}_hip", f"{name}_thigh", (0.0, 0.085, 0.0), "y", (-1.4, 3.2), HIP,
            cylinder(0.52, 0.042, 0.04, "y", at=(0.0, -0.02, 0.0)) + box(0.30, (0.03, 0.02, 0.20),
                at=(0.0, 0.0, -0.11))),
        Row(f"{name}_knee", f"{name}_thigh", f"{name}_shank", (0.0, 0.0, -THIGH), "y", (-2.7, 0.0), KNEE,
            cylinder(0.11, 0.012, 0.18, at=(0.0, 0.0, -0.10)) + cylinder(0.05, FOOT, 0.03, "y",
                at=(0.0, 0.0, -SHANK))),
    ]  # fmt: skip


ENDS = {"front": 0.185, "rear": -0.185}  # hip positions along the trunk [m]


@cache
def quadruped() -> Model:
    """Return a floating-base quadruped with four legs of three joints: 18 DoF, 13.0 kg.

    nq = 19, nv = 18. x points ahead, y to the left. The frames `front_left_foot` and so on are at the centers
    of the spherical feet. At zero the legs point straight down; `front_left_hip` 0.8 and `front_left_knee`
    -1.6, and likewise for the other legs, is a good stance.
    """
    rows = [row for end, x in ENDS.items() for row in both_sides(leg(end, x))]
    feet = both_sides(
        AttachedFrame(f"{end}_left_foot", f"{end}_left_shank", (0.0, 0.0, -SHANK), FOOT) for end in ENDS
    )
    return assemble("quadruped", TRUNK, rows, feet)
