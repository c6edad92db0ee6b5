"""Cylindrical joint: rotation about an axis and translation along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row, no_translation, parallel_axes
from linkwork.joints.joint import AxisJoint, Joint, Symmetry, angle_about, axis_rotation, columns
from linkwork.joints.prismatic import Prismatic
from linkwork.joints.revolute import Revolute
from linkwork.spatial import Pose
from linkwork.spatial.constants import product


@final
@dataclass(frozen=True)
class Cylindrical(AxisJoint):
    """Rotation about `axis` by q[0] [rad] and translation along it by q[1] [m]."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 2

    def symmetry(self) -> Symmetry:
        return Symmetry((self.coordinate,), self.coordinate, self.axis[self.coordinate])

    def partition(self) -> tuple[Joint, ...]:
        return Revolute(self.axis), Prismatic(self.axis)

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self.unit * q[1]).then(axis_rotation(self.unit, q[0]))

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        return np.array([angle_about(self.unit, pose.R), product(self.unit, pose.p)])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self.unit, np.zeros(3)), (np.zeros(3), self.unit))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.uniform(-np.pi, np.pi), rng.uniform(-1.0, 1.0)])

    def closure(self) -> list[Row]:
        a, b = self.normals
        return [*no_translation(a, b), *parallel_axes((a, self.axis), (b, self.axis))]
