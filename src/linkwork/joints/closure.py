"""Loop-closure equations of joints, one scalar equation per row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import absolute, atan2, sqrt
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product

Direction = tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """One closure equation for the pose (R, p) of a successor's frame in its predecessor's frame.

    With `along` alone: along · p = 0. With `across` too: across · R along = 0; if `oriented`, R along must
    equal `along` and not its opposite, since a flipped axis is another assembly mode. With `length`: (p · p -
    length²) / 2 = 0.
    """

    along: Direction = (0.0, 0.0, 0.0)
    across: Direction | None = None
    length: float | None = None
    oriented: bool = False

    def residual(self, R: np.ndarray, p: np.ndarray) -> Any:
        """Return φ for the successor's pose (R, p) in the predecessor's frame; zero if the equation holds."""
        if self.length is not None:
            return 0.5 * (product(p, p) - self.length * self.length)
        along = np.array(self.along)
        return product(along, p) if self.across is None else product(np.array(self.across), product(R, along))

    def coefficients(self, P: Pose, F: Pose) -> tuple[np.ndarray, np.ndarray]:
        """Return c_w and c_v, (3,) each, with φ̇ = c_w · W + c_v · U.

        P and F are the poses of predecessor and successor frames in any common axes. W is the angular
        velocity of F relative to P, and U the velocity of F's origin relative to the point of P that
        coincides with it. c_w and c_v are therefore also the moment and, at F's origin, the force on the
        successor per unit of the equation's multiplier.
        """
        if self.length is not None:
            return np.zeros(3), F.p - P.p
        if self.across is None:
            return np.zeros(3), product(P.R, np.array(self.along))
        return cross(product(F.R, np.array(self.along)), product(P.R, np.array(self.across))), np.zeros(3)

    def bias(self, P: Pose, F: Pose, W: np.ndarray, U: np.ndarray) -> Any:
        """Return the velocity-dependent part of φ̈ = c_w · Ẇ + c_v · U̇ + bias, with rates as seen from P."""
        if self.length is not None:
            return product(U, U)
        if self.across is None:
            return 0.0
        return product(
            product(P.R, np.array(self.across)), cross(W, cross(W, product(F.R, np.array(self.along))))
        )


class ClosingError:
    """Closure error of a joint and its Jacobian over floats, for Newton iterations far from closed states.

    Translations are those of `Row.residual`; for a rod, the difference of lengths. Angles are rotation
    vectors (logarithms on SO(3)): of the rotation that aligns a shared axis of both frames or, if no rotation
    is free, of the full rotation between the frames. A frame turned by π has the largest error, not zero.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.count = len(rows)
        self.lengths = np.array([row.across is None for row in rows], dtype=bool)
        self._sliding = [i for i, row in enumerate(rows) if row.across is None and row.length is None]
        self._directions = np.array([rows[i].along for i in self._sliding]).reshape(-1, 3)
        self._rods = [(i, row.length) for i, row in enumerate(rows) if row.length is not None]
        rotational = [i for i, row in enumerate(rows) if row.across is not None]
        along = {i: np.array(rows[i].along) for i in rotational}
        across = {i: np.array(rows[i].across) for i in rotational}
        oriented = [i for i in rotational if rows[i].oriented]
        axes = {rows[i].along for i in oriented}
        self._rotation = oriented if len(oriented) == 3 and len(axes) == 3 else []
        self._normals = np.array([np.cross(along[i], across[i]) for i in self._rotation]).reshape(-1, 3)
        self._axes = []
        if not self._rotation:
            for axis in dict.fromkeys(rows[i].along for i in oriented):
                indices = [i for i in oriented if rows[i].along == axis]
                self._axes.append((indices, np.array(axis), np.array([across[i] for i in indices])))
        self._others = [(i, along[i], across[i]) for i in rotational if i not in oriented]

    def __call__(
        self, R: np.ndarray, p: np.ndarray, w: np.ndarray, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the error e, (count,) [m or rad], and its Jacobian for the successor's pose (R, p).

        The pose is relative to the predecessor's frame. w and u, (3, n), are the Jacobians of the successor's
        motion in the predecessor's axes: its angular velocity, and the velocity of its origin relative to the
        coincident point of the predecessor.
        """
        e = np.zeros(self.count)
        J = np.zeros((self.count, w.shape[1]))
        if self._sliding:
            e[self._sliding] = self._directions @ p
            J[self._sliding] = self._directions @ u
        for i, length in self._rods:
            distance = math.sqrt(p @ p)
            e[i] = distance - length
            J[i] = (p / max(distance, 1e-300)) @ u
        if self._rotation:
            rotvec = rotation_vector(R)
            e[self._rotation] = self._normals @ rotvec
            J[self._rotation] = (self._normals @ _rate_of_rotation_vector(rotvec)) @ w
        for indices, axis, normals in self._axes:
            e[indices], J[indices] = _axis_error(R @ axis, axis, normals, w)
        for i, along, across in self._others:
            rotated = R @ along
            e[i] = across @ rotated
            J[i] = _cross_matrix(rotated) @ across @ w
        return e, J


def _axis_error(
    rotated: np.ndarray, axis: np.ndarray, normals: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return θ/sin θ times the components of a rotated axis along normals of its target, and the Jacobian."""
    c = min(1.0, max(-1.0, float(axis @ rotated)))
    components = normals @ rotated
    cross_matrix = _cross_matrix(rotated)
    component_rates = normals @ cross_matrix.T
    cosine_gradient = cross_matrix @ axis
    s = math.sqrt(float(cosine_gradient @ cosine_gradient))
    angle = math.atan2(s, c)
    if s < 1e-9 and c < 0.0:  # opposite axis: any direction reduces the error
        return np.array([math.pi, *[0.0] * (len(components) - 1)]), component_rates @ w
    if angle < 1e-3:
        scale = slope = 1.0 + angle * angle / 6.0
        slope_rate = -1.0 / 3.0
    else:
        # near a half turn the direction changes fast, so that the slope is bounded
        scale = angle / s
        s = max(s, 1e-3) if c < 0.0 else s
        slope = angle / s
        slope_rate = -(s - angle * c) / (s * s * s)
    return scale * components, (
        slope * component_rates + np.outer(components, slope_rate * cosine_gradient)
    ) @ w


def _cross_matrix(a: np.ndarray) -> np.ndarray:
    """Return the cross-product matrix [a] with [a] b = a × b, (3, 3), over floats."""
    x, y, z = a.tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def gap(rows: Sequence[Row], R: np.ndarray, p: np.ndarray) -> tuple[Any, Any]:
    """Return the closure error of some equations as a distance [m] and an angle [rad].

    The distance is the norm of the constrained translations (of a rod, of its length error); the angle is
    that between shared axes or, if no rotation is free, of the full rotation: π for a flipped axis. Takes
    numbers or symbols.
    """
    distances: list[Any] = []
    angles: list[Any] = []
    shared: dict[Direction, list[Any]] = {}
    for row in rows:
        if row.length is not None:
            distances.append(_norm(p) - row.length)
        elif row.across is None:
            distances.append(product(np.array(row.along), p))
        elif row.oriented:
            shared.setdefault(row.along, []).append(row.residual(R, p))
        else:
            rotated = product(R, np.array(row.along))
            across = np.array(row.across)
            angles.append(atan2(product(across, rotated), _norm(cross(across, rotated))))
    if len(shared) == 3:
        sine = 0.5 * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
        angles.append(atan2(_norm(sine), 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0)))
    else:
        angles += [
            atan2(_norm(residuals), product(np.array(axis), product(R, np.array(axis))))
            for axis, residuals in shared.items()
        ]
    return _norm(distances), _norm(angles)


def _norm(x: Any) -> Any:
    """Return the Euclidean norm of a vector, or the absolute value of a single number."""
    if len(x) < 2:
        return absolute(x[0]) if len(x) else 0.0
    total: Any = 0.0
    for component in x:
        total = total + component * component
    return sqrt(total)


def rotation_vector(R: np.ndarray) -> np.ndarray:
    """Return the logarithm of a rotation matrix, (3,) [rad], with an angle of at most π."""
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    k = int(np.argmax([R[0, 0], R[1, 1], R[2, 2], trace]))
    if k == 3:
        q = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1.0 + trace])
    else:
        a = (k + 1) % 3
        b = (k + 2) % 3
        q = np.zeros(4)
        q[k] = 1.0 - trace + 2.0 * R[k, k]
        q[a] = R[a, k] + R[k, a]
        q[b] = R[b, k] + R[k, b]
        q[3] = R[b, a] - R[a, b]
        q = -q if q[3] < 0.0 else q
    sine = math.sqrt(float(q[:3] @ q[:3]))
    return q[:3] * (2.0 * math.atan2(sine, float(q[3])) / sine if sine > 0.0 else 0.0)


def _rate_of_rotation_vector(rotvec: np.ndarray) -> np.ndarray:
    """Return the matrix from angular velocity, in axes before the rotation, to rotation-vector rate."""
    S = _cross_matrix(rotvec)
    angle = math.sqrt(float(rotvec @ rotvec))
    if angle < 1e-3:
        factor = 1.0 / 12.0
    else:
        factor = 1.0 / (angle * angle) - (1.0 + math.cos(angle)) / (2.0 * angle * max(math.sin(angle), 1e-12))
    return np.eye(3) - 0.5 * S + factor * (S @ S)


def no_translation(*directions: Any) -> list[Row]:
    """Return rows without translation along these directions of the predecessor."""
    return [Row(_direction(d)) for d in directions]


def perpendicular(*pairs: tuple[Any, Any]) -> list[Row]:
    """Return rows that keep a direction of the predecessor perpendicular to one of the successor."""
    return [Row(_direction(along), _direction(across)) for across, along in pairs]


def parallel_axes(*pairs: tuple[Any, Any]) -> list[Row]:
    """Return oriented rows for an axis shared by both frames; two rows keep it parallel.

    A pair is a direction of the predecessor normal to the axis, and the axis.
    """
    return [Row(_direction(along), _direction(across), oriented=True) for across, along in pairs]


def _direction(d: Any) -> Direction:
    x, y, z = np.asarray(d, dtype=float).tolist()
    return x, y, z
