"""Free joint: six degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints.closure import Row
from linkwork.joints.joint import Joint
from linkwork.spatial import Pose, cross, rotation


@final
@dataclass(frozen=True)
class Free(Joint):
    """Unconstrained motion with q = [x, y, z, qx, qy, qz, qw] and v = [ω, v].

    q holds the child's origin in the parent [m] and its quaternion, of any nonzero norm. v is the child's
    twist relative to the parent, in the child's axes [rad/s, m/s].
    """

    nq = 7
    nv = 6
    components = ("wx", "wy", "wz", "vx", "vy", "vz")
    springs = "none"

    def transform(self, q: np.ndarray) -> Pose:
        return Pose(rotation.matrix(q[3:]), q[:3])

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        return np.array([*pose.p, *rotation.of_matrix(pose.R)])

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return np.eye(6)

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.array(
            [*(self.transform(q).R @ v[3:]), *(0.5 * rotation.multiply(q[3:], np.array([*v[:3], 0.0])))]
        )

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the end of the screw motion with constant v during one unit of time."""
        moved = self.transform(q).R @ rotation.screw(v[:3], v[3:])
        turned = rotation.normalized(rotation.multiply(rotation.scaled(q[3:]), rotation.exp(v[:3])))
        return np.array([*(q[:3] + moved), *turned])

    def rotating_axes_term(self, v: np.ndarray) -> np.ndarray:
        return np.array([0.0, 0.0, 0.0, *cross(v[:3], v[3:])], dtype=object)

    def chord_to_velocity(self, v: np.ndarray) -> np.ndarray:
        return np.array([*v[:3], *rotation.screw_inverse(v[:3], v[3:])])

    def in_moved_axes(self, motion: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.array([*v[:3], *(rotation.matrix(rotation.exp(motion[:3])).T @ v[3:])])

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        r = rotation.log(rotation.between(q0[3:], q1[3:]))
        return np.array([*r, *rotation.screw_inverse(r, self.transform(q0).R.T @ (q1[:3] - q0[:3]))])

    def chord(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        r = rotation.log(rotation.between(q0[3:], q1[3:]))
        return np.array([*r, *(self.transform(q0).R.T @ (q1[:3] - q0[:3]))])

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return rotation.numeric_matrix(q[3:]), np.array(q[:3], dtype=float), np.eye(6)

    def numeric_integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        moved = rotation.numeric_matrix(q[3:]) @ rotation.numeric_screw(v[:3], v[3:])
        return np.concatenate([q[:3] + moved, rotation.numeric_turned(q[3:], v[:3])])

    def neutral(self) -> np.ndarray:
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        q = rng.normal(size=4)
        return np.array([*rng.uniform(-1.0, 1.0, 3), *(q / np.linalg.norm(q))])

    def closure(self) -> list[Row]:
        return []
