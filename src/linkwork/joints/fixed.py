"""Fixed joint: no degree of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row, no_translation, parallel_axes
from linkwork.joints.joint import Joint
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Fixed(Joint):
    """A rigid connection: child and parent frames coincide."""

    nq = nv = 0

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.identity()

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        return np.zeros(0)

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return np.zeros((6, 0))

    def closure(self) -> list[Row]:
        x, y, z = np.eye(3)
        return [*no_translation(x, y, z), *parallel_axes((y, z), (z, x), (x, y))]
