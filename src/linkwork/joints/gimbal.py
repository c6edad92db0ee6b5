"""Gimbal joint: three Euler angles, with a singular configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.compiler.ir.functions import atan2, sincos, sqrt
from linkwork.joints.closure import Row, no_translation
from linkwork.joints.joint import Joint, columns
from linkwork.joints.revolute import Revolute
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Gimbal(Joint):
    """Rotation about z by q[0], then about the new y by q[1], then about the new x by q[2] [rad].

    Singular at q[1] = ±π/2.
    """

    nq = nv = 3

    def partition(self) -> tuple[Joint, ...]:
        return Revolute((0.0, 0.0, 1.0)), Revolute((0.0, 1.0, 0.0)), Revolute((1.0, 0.0, 0.0))

    def transform(self, q: np.ndarray) -> Pose:
        return (
            Pose.rotation_about(2, q[0]).then(Pose.rotation_about(1, q[1])).then(Pose.rotation_about(0, q[2]))
        )

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        R = pose.R
        c = sqrt(R[0, 0] * R[0, 0] + R[1, 0] * R[1, 0])
        return np.array([atan2(R[1, 0], R[0, 0]), atan2(-R[2, 0], c), atan2(R[2, 1], R[2, 2])])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        (s1, c1), (s2, c2) = sincos(q[1]), sincos(q[2])
        zero = (0.0, 0.0, 0.0)
        return columns(((-s1, c1 * s2, c1 * c2), zero), ((0.0, c2, -s2), zero), ((1.0, 0.0, 0.0), zero))

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        (s1, c1), (s2, c2) = sincos(q[1]), sincos(q[2])
        a = v[0] * v[1]
        b = v[0] * v[2]
        c = v[1] * v[2]
        return np.array(
            [-c1 * a, -s1 * s2 * a + c1 * c2 * b - s2 * c, -s1 * c2 * a - c1 * s2 * b - c2 * c, 0.0, 0.0, 0.0]
        )

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.uniform(-np.pi, np.pi), rng.uniform(-1.4, 1.4), rng.uniform(-np.pi, np.pi)])

    def closure(self) -> list[Row]:
        return no_translation(*np.eye(3))
