"""Prismatic joint: translation along a fixed axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row, no_translation, parallel_axes
from linkwork.joints.joint import AxisJoint, Symmetry, columns
from linkwork.lazy import cached_property
from linkwork.spatial import Pose
from linkwork.spatial.constants import frozen, product


@final
@dataclass(frozen=True)
class Prismatic(AxisJoint):
    """Translation along `axis` by q[0] [m]."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 1

    def symmetry(self) -> Symmetry:
        return Symmetry((0, 1, 2), self.coordinate)

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self.unit * q[0])

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        return np.array([product(self.unit, pose.p)])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((np.zeros(3), self.unit))

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        S = self._subspace
        return np.eye(3), q[0] * S[3:, 0], S

    @cached_property
    def _subspace(self) -> np.ndarray:
        """The constant motion subspace, (6, 1)."""
        return frozen(self.subspace(self.unit))

    def closure(self) -> list[Row]:
        x, y, z = np.eye(3)
        return [*no_translation(*self.normals), *parallel_axes((y, z), (z, x), (x, y))]
