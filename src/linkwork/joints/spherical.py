"""Spherical joint: any rotation, without a singular configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row, no_translation
from linkwork.joints.joint import Joint
from linkwork.spatial import Pose, rotation


@final
@dataclass(frozen=True)
class Spherical(Joint):
    """Rotation by the quaternion q = [x, y, z, w], of any nonzero norm.

    v is the angular velocity in the child's axes [rad/s].
    """

    nq = 4
    nv = 3
    components = ("wx", "wy", "wz")
    springs = "equal"
    has_angle = True

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.from_quaternion(q)

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        return rotation.of_matrix(pose.R)

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return np.eye(6)[:, :3]

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 0.5 * rotation.multiply(q, np.array([*v, 0.0]))

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return rotation.normalized(rotation.multiply(rotation.scaled(q), rotation.exp(v)))

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        return rotation.log(rotation.between(q0, q1))

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return rotation.numeric_matrix(q), np.zeros(3), np.eye(6)[:, :3]

    def numeric_integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return rotation.numeric_turned(q, v)

    def neutral(self) -> np.ndarray:
        return np.array([0.0, 0.0, 0.0, 1.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        q = rng.normal(size=4)
        return q / np.linalg.norm(q)

    def rotation_vector(self, q: np.ndarray) -> np.ndarray:
        return rotation.log(rotation.scaled(q))

    def closure(self) -> list[Row]:
        return no_translation(*np.eye(3))
