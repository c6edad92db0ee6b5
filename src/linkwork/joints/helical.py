"""Helical joint: a screw with one degree of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints.joint import AxisJoint, Symmetry, angle_about, axis_rotation, columns
from linkwork.spatial import Pose
from linkwork.spatial.constants import product, real_or_nan


@final
@dataclass(frozen=True)
class Helical(AxisJoint):
    """Rotation about `axis` by q[0] [rad] with an advance of `pitch` [m/rad] along it."""

    pitch: float
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        pitch = real_or_nan(self.pitch)
        if not np.isfinite(pitch):
            raise ModelError(
                f"pitch of a helical joint: expected a finite number [m/rad], got {self.pitch!r}"
            )
        object.__setattr__(self, "pitch", pitch)

    def symmetry(self) -> Symmetry:
        return Symmetry((self.coordinate,), self.coordinate)

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(self.unit * (self.pitch * q[0])).then(axis_rotation(self.unit, q[0]))

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        if self.pitch == 0.0:
            return np.array([angle_about(self.unit, pose.R)])
        return np.array([product(self.unit, pose.p) / self.pitch])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return columns((self.unit, self.pitch * self.unit))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-np.pi, np.pi, 1)
