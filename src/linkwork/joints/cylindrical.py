"""Cylindrical joint: an angle about an axis and a length along it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from linkwork.joints.joint import Joint, columns, turned_about, unit_axis
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Cylindrical(Joint):
    """Rotation about `axis` by q[0] [rad] and translation along it by q[1] [m]."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    _unit: np.ndarray = field(init=False, repr=False, compare=False)
    nq = nv = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unit", unit_axis(self.axis))

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self._unit * q[1]).then(turned_about(self._unit, q[0]))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self._unit, np.zeros(3)), (np.zeros(3), self._unit))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.uniform(-np.pi, np.pi), rng.uniform(-1.0, 1.0)])
