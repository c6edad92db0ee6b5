"""Planar joint: translation and rotation in a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.compiler.ir.functions import sincos
from linkwork.joints.closure import Row, no_translation, parallel_axes
from linkwork.joints.joint import AxisJoint, Joint, Symmetry, aligned, angle_about, columns
from linkwork.spatial import Pose
from linkwork.spatial.rotation import sinc


@final
@dataclass(frozen=True)
class Planar(AxisJoint):
    """Translation by (q[0], q[1]) [m] in the plane normal to `axis`, then rotation about it by q[2] [rad].

    v = [vx, vy, ω]: the velocity of the child's origin in the plane's axes, which rotate with the child
    [m/s], and the angular rate [rad/s]. The plane's axes follow the normal cyclically: x and y for z, y and z
    for x, z and x for y. For any other normal they are the first two of `aligned(axis)`.
    """

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 3
    components = ("vx", "vy", "wz")
    springs = "none"

    def axis_aligned(self) -> tuple[Joint, Pose]:
        if self.axis == (0.0, 0.0, 1.0):
            return self, Pose.identity()
        k = int(np.argmax(self.axis))
        is_coordinate_axis = np.array_equal(self.unit, np.eye(3)[k])
        plane = (
            Pose(np.roll(np.eye(3), k + 1, axis=0), np.zeros(3)) if is_coordinate_axis else aligned(self.unit)
        )
        return Planar(), plane

    def symmetry(self) -> Symmetry:
        return Symmetry((2,))

    def transform(self, q: np.ndarray) -> Pose:
        _, plane = self.axis_aligned()
        moved = Pose.translation(np.array([q[0], q[1], 0.0])).then(Pose.rotation_about(2, q[2]))
        return moved if self.axis == (0.0, 0.0, 1.0) else plane.then(moved).then(plane.inverse())

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        _, plane = self.axis_aligned()
        moved = plane.inverse().then(pose).then(plane)
        return np.array([moved.p[0], moved.p[1], angle_about(np.array([0.0, 0.0, 1.0]), moved.R)])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        x, y, z = self.axis_aligned()[1].R.T
        zero = np.zeros(3)
        return columns((zero, x), (zero, y), (z, zero))

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, c = sincos(q[2])
        return np.array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the end of the arc that constant v describes; its chord has half the angle."""
        half = 0.5 * v[2]
        k = sinc(half)
        s, c = sincos(q[2] + half)
        return np.array([q[0] + k * (c * v[0] - s * v[1]), q[1] + k * (s * v[0] + c * v[1]), q[2] + v[2]])

    def rotating_axes_term(self, v: np.ndarray) -> np.ndarray:
        return np.array([-v[2] * v[1], v[2] * v[0], 0.0], dtype=object)

    def chord_to_velocity(self, v: np.ndarray) -> np.ndarray:
        half = 0.5 * v[2]
        s, c = sincos(half)
        k = 1.0 / sinc(half)
        return np.array([k * (c * v[0] + s * v[1]), k * (c * v[1] - s * v[0]), v[2]])

    def in_moved_axes(self, motion: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, c = sincos(motion[2])
        return np.array([c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]])

    def chord(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        s, c = sincos(q0[2])
        x = q1[0] - q0[0]
        y = q1[1] - q0[1]
        return np.array([c * x + s * y, c * y - s * x, q1[2] - q0[2]])

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        w = q1[2] - q0[2]
        s, c = sincos(q0[2] + 0.5 * w)
        x = q1[0] - q0[0]
        y = q1[1] - q0[1]
        k = sinc(0.5 * w)
        return np.array([(c * x + s * y) / k, (c * y - s * x) / k, w])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([*rng.uniform(-1.0, 1.0, 2), rng.uniform(-np.pi, np.pi)])

    def closure(self) -> list[Row]:
        a, b = self.normals
        return [*no_translation(self.axis), *parallel_axes((a, self.axis), (b, self.axis))]
