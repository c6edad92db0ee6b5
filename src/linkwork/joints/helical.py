"""Helical joint: a screw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from linkwork.joints.joint import Joint, columns, turned_about, unit_axis
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Helical(Joint):
    """Rotation about `axis` by q[0] [rad] with an advance of `pitch` [m/rad] along it."""

    pitch: float
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    _unit: np.ndarray = field(init=False, repr=False, compare=False)
    nq = nv = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unit", unit_axis(self.axis))

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self._unit * (self.pitch * q[0])).then(turned_about(self._unit, q[0]))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self._unit, self.pitch * self._unit))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-np.pi, np.pi, 1)
