"""Universal joint: two angles about intersecting axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.compiler.ir.functions import atan2, sincos
from linkwork.joints.closure import Row, no_translation, perpendicular
from linkwork.joints.joint import Joint, columns
from linkwork.joints.revolute import Revolute
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Universal(Joint):
    """Rotation about the parent's x by q[0], then about the new y by q[1] [rad]."""

    nq = nv = 2

    def partition(self) -> tuple[Joint, ...]:
        return Revolute((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0))

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.rotation_about(0, q[0]).then(Pose.rotation_about(1, q[1]))

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        R = pose.R
        return np.array([atan2(R[2, 1], R[1, 1]), atan2(R[0, 2], R[0, 0])])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        s, c = sincos(q[1])
        return columns(((c, 0.0, s), (0.0, 0.0, 0.0)), ((0.0, 1.0, 0.0), (0.0, 0.0, 0.0)))

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s = math.sin(q[0])
        c = math.cos(q[0])
        t = math.sin(q[1])
        d = math.cos(q[1])
        S = np.zeros((6, 2))
        S[0, 0] = d
        S[2, 0] = t
        S[1, 1] = 1.0
        return np.array([[d, 0.0, t], [s * t, c, -s * d], [-c * t, s, c * d]]), np.zeros(3), S

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, c = sincos(q[1])
        return v[0] * v[1] * np.array([-s, 0.0, c, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-np.pi, np.pi, 2)

    def closure(self) -> list[Row]:
        x, y, _ = np.eye(3)
        return [*no_translation(*np.eye(3)), *perpendicular((x, y))]
