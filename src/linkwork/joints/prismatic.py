"""Prismatic joint: one length along a fixed axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from linkwork.joints.joint import Joint, columns, unit_axis
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Prismatic(Joint):
    """Translation along `axis` by q[0] [m]."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    _unit: np.ndarray = field(init=False, repr=False, compare=False)
    nq = nv = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unit", unit_axis(self.axis))

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self._unit * q[0])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((np.zeros(3), self._unit))
