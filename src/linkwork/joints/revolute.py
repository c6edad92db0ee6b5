"""Revolute joint: one angle about a fixed axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from linkwork.joints.joint import Joint, columns, turned_about, unit_axis
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Revolute(Joint):
    """Rotation about `axis`, of the parent as of the child, by q[0] [rad]. A continuous joint is one without limits."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    _unit: np.ndarray = field(init=False, repr=False, compare=False)
    nq = nv = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unit", unit_axis(self.axis))

    def transform(self, q: np.ndarray) -> Pose:
        return turned_about(self._unit, q[0])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self._unit, np.zeros(3)))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-np.pi, np.pi, 1)
