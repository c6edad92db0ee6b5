"""Planar joint: moving and turning in a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.ir.functions import sincos
from linkwork.joints.joint import Joint, columns
from linkwork.spatial import Pose
from linkwork.spatial.rotation import sinc


@final
@dataclass(frozen=True)
class Planar(Joint):
    """Translation by (q[0], q[1]) [m] in the parent's xy plane, then rotation about z by q[2] [rad].

    v = [vx, vy, w]: the velocity of the child's origin in the child's axes, and the turning rate.
    """

    nq = nv = 3

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.translation(np.array([q[0], q[1], 0.0])).then(Pose.turned(2, q[2]))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        none = (0.0, 0.0, 0.0)
        return columns((none, (1.0, 0.0, 0.0)), (none, (0.0, 1.0, 0.0)), ((0.0, 0.0, 1.0), none))

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, c = sincos(q[2])
        return np.array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Along the arc that constant v describes: a chord of half the angle."""
        half = 0.5 * v[2]
        k = sinc(half)
        s, c = sincos(q[2] + half)
        return np.array([q[0] + k * (c * v[0] - s * v[1]), q[1] + k * (s * v[0] + c * v[1]), q[2] + v[2]])

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        w = q1[2] - q0[2]
        s, c = sincos(q0[2] + 0.5 * w)
        x, y = q1[0] - q0[0], q1[1] - q0[1]
        k = sinc(0.5 * w)
        return np.array([(c * x + s * y) / k, (c * y - s * x) / k, w])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([*rng.uniform(-1.0, 1.0, 2), rng.uniform(-np.pi, np.pi)])
