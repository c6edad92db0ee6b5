"""A collaborative robot arm with seven joints."""

from __future__ import annotations

from functools import cache

from linkwork.joints import Fixed
from linkwork.model import Model
from linkwork.robots.solids import box, cylinder
from linkwork.robots.table import AttachedFrame, Motor, Row, assemble

# effort [N m], speed [rad/s], rotor [kg m²], gear, damping [N m s/rad]
BIG = Motor(180.0, 2.2, 1.1e-4, 100.0, 3.0)
MIDDLE = Motor(90.0, 2.6, 6.0e-5, 100.0, 1.5)
SMALL = Motor(30.0, 3.2, 2.0e-5, 100.0, 0.5)

BASE = ("pedestal", cylinder(4.5, 0.09, 0.16, at=(0.0, 0.0, 0.08)))

# Joint, parent, body, position [m], axis, limits [rad], motor, solid. The arm points upwards at zero; odd
# joints rotate about its length, even ones bend it.
ROWS = [
    Row("shoulder_yaw", "pedestal", "shoulder", (0.0, 0.0, 0.16), "z", (-2.9, 2.9), BIG,
        cylinder(2.4, 0.075, 0.17, at=(0.0, 0.0, 0.09)) + cylinder(1.5, 0.065, 0.14, "y",
            at=(0.0, 0.0, 0.18))),
    Row("shoulder_pitch", "shoulder", "upper_arm", (0.0, 0.0, 0.18), "y", (-2.1, 2.1), BIG,
        cylinder(3.2, 0.065, 0.21, at=(0.0, 0.0, 0.11))),
    Row("upper_arm_yaw", "upper_arm", "elbow", (0.0, 0.0, 0.21), "z", (-2.9, 2.9), MIDDLE,
        cylinder(1.7, 0.06, 0.16, at=(0.0, 0.0, 0.08)) + cylinder(1.1, 0.055, 0.12, "y",
            at=(0.03, 0.0, 0.19))),
    Row("elbow_pitch", "elbow", "forearm", (0.03, 0.0, 0.19), "y", (-2.4, 2.1), MIDDLE,
        cylinder(2.3, 0.055, 0.20, at=(-0.02, 0.0, 0.10))),
    Row("forearm_yaw", "forearm", "wrist", (-0.03, 0.0, 0.20), "z", (-2.9, 2.9), SMALL,
        cylinder(1.1, 0.045, 0.14, at=(0.0, 0.0, 0.07)) + cylinder(0.7, 0.045, 0.10, "y",
            at=(0.0, 0.0, 0.18))),
    Row("wrist_pitch", "wrist", "hand", (0.0, 0.0, 0.18), "y", (-2.1, 2.1), SMALL,
        box(1.3, (0.09, 0.08, 0.11), at=(0.0, 0.0, 0.03))),
    Row("hand_yaw", "hand", "flange", (0.0, 0.0, 0.09), "z", (-3.05, 3.05), SMALL,
        cylinder(0.35, 0.035, 0.03, at=(0.0, 0.0, 0.015))),
]  # fmt: skip

FRAMES = [AttachedFrame("tool", "flange", (0.0, 0.0, 0.03))]


@cache
def arm() -> Model:
    """Return a 7-DoF arm on a fixed pedestal: 15.65 kg of moving mass, a reach of 0.90 m.

    nq = nv = 7. The frame `tool` is on the face of the flange. At zero the arm points upwards.
    """
    return assemble("arm", BASE, ROWS, FRAMES, on=Fixed())
