"""Revolute joint: rotation about a fixed axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row, no_translation, parallel_axes
from linkwork.joints.joint import AxisJoint, Symmetry, angle_about, axis_rotation, columns
from linkwork.lazy import cached_property
from linkwork.spatial import Pose
from linkwork.spatial.constants import frozen


@final
@dataclass(frozen=True)
class Revolute(AxisJoint):
    """Rotation by q[0] [rad] about `axis`, which parent and child share.

    A continuous joint is a revolute joint without limits.
    """

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 1

    def symmetry(self) -> Symmetry:
        return Symmetry((self.coordinate,), self.coordinate, self.axis[self.coordinate])

    def transform(self, q: np.ndarray) -> Pose:
        return axis_rotation(self.unit, q[0])

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        return np.array([angle_about(self.unit, pose.R)])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self.unit, np.zeros(3)))

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        across, along, skew, S = self._rodrigues
        return along + math.cos(q[0]) * across + math.sin(q[0]) * skew, np.zeros(3), S

    @cached_property
    def _rodrigues(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """1 - a aᵀ, a aᵀ and [a] of the axis a, the factors of cosine, one and sine; and S."""
        x, y, z = a = self.unit
        along = np.outer(a, a)
        skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        return frozen(np.eye(3) - along), frozen(along), frozen(skew), frozen(self.subspace(a))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-np.pi, np.pi, 1)

    def closure(self) -> list[Row]:
        a, b = self.normals
        return [*no_translation(*np.eye(3)), *parallel_axes((a, self.axis), (b, self.axis))]
