"""A humanoid robot of the size of a small adult."""

from __future__ import annotations

from functools import cache

from linkwork.model import Model
from linkwork.robots.solids import box, cylinder, ellipsoid
from linkwork.robots.table import AttachedFrame, Motor, Row, assemble, both_sides

# effort [N m], speed [rad/s], rotor [kg m²], gear, damping [N m s/rad]
HIP = Motor(160.0, 18.0, 1.4e-4, 18.0, 0.8)
KNEE = Motor(200.0, 18.0, 1.4e-4, 20.0, 1.0)
ANKLE = Motor(70.0, 20.0, 6.0e-5, 18.0, 0.4)
WAIST = Motor(120.0, 14.0, 1.4e-4, 18.0, 0.8)
SHOULDER = Motor(55.0, 20.0, 4.0e-5, 18.0, 0.3)
WRIST = Motor(12.0, 22.0, 1.0e-5, 20.0, 0.1)
NECK = Motor(6.0, 15.0, 5.0e-6, 30.0, 0.08)

PELVIS = ("pelvis", box(5.2, (0.16, 0.22, 0.13), at=(0.0, 0.0, 0.02)))
# from hip to knee to ankle to ground [m]
THIGH = 0.36
SHANK = 0.36
SOLE = 0.065
UPPER_ARM = 0.27  # from shoulder to elbow [m]; the wrist is 0.24 m further, the palm 0.09 m

# Joint, parent, body, position [m], axis, limits [rad], motor, solid. x points ahead, y to the left; at
# zero the robot stands straight, with its arms down.
TRUNK = [
    Row("waist_yaw", "pelvis", "waist_ring", (0.0, 0.0, 0.09), "z", (-2.2, 2.2), WAIST,
        cylinder(0.8, 0.06, 0.05)),
    Row("waist_roll", "waist_ring", "waist_yoke", (0.0, 0.0, 0.03), "x", (-0.5, 0.5), WAIST,
        cylinder(0.9, 0.05, 0.10, "x")),
    Row("waist_pitch", "waist_yoke", "torso", (0.0, 0.0, 0.0), "y", (-0.5, 1.2), WAIST,
        box(10.5, (0.17, 0.26, 0.26), at=(0.0, 0.0, 0.21)) + box(3.0, (0.08, 0.22, 0.16),
            at=(-0.10, 0.0, 0.22))),
    Row("neck_yaw", "torso", "neck", (0.0, 0.0, 0.38), "z", (-1.4, 1.4), NECK, cylinder(0.4, 0.035, 0.07)),
    Row("neck_pitch", "neck", "head", (0.0, 0.0, 0.05), "y", (-0.6, 0.9), NECK,
        ellipsoid(2.6, (0.19, 0.15, 0.21), at=(0.015, 0.0, 0.09))),
]  # fmt: skip

LEFT_LEG = [
    Row("left_hip_pitch", "pelvis", "left_hip_bracket", (0.0, 0.075, -0.02), "y", (-2.5, 1.0), HIP,
        cylinder(1.5, 0.055, 0.07, "y", at=(0.0, 0.03, 0.0))),
    Row("left_hip_roll", "left_hip_bracket", "left_hip_yoke", (0.0, 0.035, 0.0), "x", (-0.5, 1.6), HIP,
        cylinder(1.4, 0.05, 0.09, "x", at=(-0.02, 0.0, -0.01))),
    Row("left_hip_yaw", "left_hip_yoke", "left_thigh", (0.0, 0.0, 0.0), "z", (-1.6, 1.6), HIP,
        cylinder(3.6, 0.065, 0.24, at=(0.0, 0.0, -0.16)) + cylinder(1.2, 0.055, 0.09, "y",
            at=(0.0, 0.0, -0.34))),
    Row("left_knee", "left_thigh", "left_shank", (0.0, 0.0, -THIGH), "y", (-0.05, 2.6), KNEE,
        cylinder(2.6, 0.045, 0.28, at=(0.0, 0.0, -0.15))),
    Row("left_ankle_pitch", "left_shank", "left_ankle_cross", (0.0, 0.0, -SHANK), "y", (-1.0, 0.7), ANKLE,
        cylinder(0.25, 0.025, 0.06, "y")),
    Row("left_ankle_roll", "left_ankle_cross", "left_foot", (0.0, 0.0, 0.0), "x", (-0.4, 0.4), ANKLE,
        box(0.95, (0.22, 0.09, 0.03), at=(0.03, 0.0, -0.05))),
]  # fmt: skip

LEFT_ARM = [
    Row("left_shoulder_pitch", "torso", "left_shoulder_bracket", (0.0, 0.13, 0.31), "y", (-3.1, 1.2),
        SHOULDER,
        cylinder(0.9, 0.045, 0.07, "y", at=(0.0, 0.02, 0.0))),
    Row("left_shoulder_roll", "left_shoulder_bracket", "left_shoulder_yoke", (0.0, 0.06, 0.0), "x",
        (-0.3, 2.8), SHOULDER,
        cylinder(0.7, 0.04, 0.08, "x", at=(-0.01, 0.0, 0.0))),
    Row("left_shoulder_yaw", "left_shoulder_yoke", "left_upper_arm", (0.0, 0.0, 0.0), "z", (-1.8, 1.8),
        SHOULDER,
        cylinder(1.5, 0.04, 0.25, at=(0.0, 0.0, -0.14))),
    Row("left_elbow", "left_upper_arm", "left_forearm", (0.0, 0.0, -UPPER_ARM), "y", (-2.5, 0.05), SHOULDER,
        cylinder(1.0, 0.035, 0.16, at=(0.0, 0.0, -0.08))),
    Row("left_wrist_yaw", "left_forearm", "left_wrist", (0.0, 0.0, -0.17), "z", (-2.0, 2.0), WRIST,
        cylinder(0.4, 0.03, 0.07, at=(0.0, 0.0, -0.03))),
    Row("left_wrist_pitch", "left_wrist", "left_wrist_cross", (0.0, 0.0, -0.07), "y", (-1.2, 1.2), WRIST,
        cylinder(0.12, 0.02, 0.05, "y")),
    Row("left_wrist_roll", "left_wrist_cross", "left_hand", (0.0, 0.0, 0.0), "x", (-0.6, 0.6), WRIST,
        box(0.38, (0.03, 0.07, 0.14), at=(0.005, 0.0, -0.08))),
]  # fmt: skip

LEFT_FRAMES = [
    AttachedFrame("left_sole", "left_foot", (0.03, 0.0, -SOLE)),
    AttachedFrame("left_heel", "left_foot", (-0.08, 0.0, -SOLE)),
    AttachedFrame("left_toe", "left_foot", (0.14, 0.0, -SOLE)),
    AttachedFrame("left_palm", "left_hand", (0.01, 0.0, -0.09)),
]


@cache
def humanoid() -> Model:
    """Return a floating-base humanoid: 1.55 m tall, 56.4 kg, nq = 38, nv = 37.

    Legs have 6 joints, arms 7, the waist 3 and the head 2. Frames: `left_sole` under the middle of the foot,
    `left_heel` and `left_toe` at its ends, `left_palm`, the same on the right side, and `crown` on top of the
    head. Bending forward is a positive pitch of the waist; raising an arm forward and bending an elbow are
    negative pitches of shoulder and elbow. A knee bends with a positive angle.
    """
    rows = [*both_sides(LEFT_LEG), *TRUNK, *both_sides(LEFT_ARM)]
    return assemble(
        "humanoid",
        PELVIS,
        rows,
        [*both_sides(LEFT_FRAMES), AttachedFrame("crown", "head", (0.015, 0.0, 0.195))],
    )
