"""Gimbal joint: three angles, with a singular pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.ir.functions import sincos
from linkwork.joints.closure import Row, no_translation
from linkwork.joints.joint import Joint, columns
from linkwork.joints.revolute import Revolute
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Gimbal(Joint):
    """Rotation about z by q[0], then about the new y by q[1], then about the new x by q[2] [rad]; singular at q[1] = ±π/2."""

    nq = nv = 3

    def partition(self) -> tuple[Joint, ...]:
        return Revolute((0.0, 0.0, 1.0)), Revolute((0.0, 1.0, 0.0)), Revolute((1.0, 0.0, 0.0))

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.turned(2, q[0]).then(Pose.turned(1, q[1])).then(Pose.turned(0, q[2]))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        (s1, c1), (s2, c2) = sincos(q[1]), sincos(q[2])
        none = (0.0, 0.0, 0.0)
        return columns(((-s1, c1 * s2, c1 * c2), none), ((0.0, c2, -s2), none), ((1.0, 0.0, 0.0), none))

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        (s1, c1), (s2, c2) = sincos(q[1]), sincos(q[2])
        a, b, c = v[0] * v[1], v[0] * v[2], v[1] * v[2]
        return np.array([-c1 * a, -s1 * s2 * a + c1 * c2 * b - s2 * c, -s1 * c2 * a - c1 * s2 * b - c2 * c, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.uniform(-np.pi, np.pi), rng.uniform(-1.4, 1.4), rng.uniform(-np.pi, np.pi)])

    def closure(self) -> list[Row]:
        return no_translation(*np.eye(3))
