"""Prismatic joint: one length along a fixed axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row, no_translation, parallel_axes
from linkwork.joints.joint import AxisJoint, Symmetry, columns
from linkwork.spatial import Pose


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

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((np.zeros(3), self.unit))

    def closure(self) -> list[Row]:
        x, y, z = np.eye(3)
        return [*no_translation(*self.normals), *parallel_axes((y, z), (z, x), (x, y))]
