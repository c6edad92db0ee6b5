"""Helical joint: a screw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.joint import AxisJoint, Symmetry, columns, turned_about
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Helical(AxisJoint):
    """Rotation about `axis` by q[0] [rad] with an advance of `pitch` [m/rad] along it."""

    pitch: float
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pitch", float(self.pitch))
        if not np.isfinite(self.pitch):
            raise ValueError(f"a pitch is a finite number; this is {self.pitch!r}")

    def symmetry(self) -> Symmetry:
        return Symmetry((self.coordinate,), self.coordinate)

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self.unit * (self.pitch * q[0])).then(turned_about(self.unit, q[0]))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self.unit, self.pitch * self.unit))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-np.pi, np.pi, 1)
