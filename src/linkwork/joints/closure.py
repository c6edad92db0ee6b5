"""Loop-closure equations of joints, one scalar a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product

Direction = tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """One equation for a successor's frame at pose (R, p) in its predecessor's.

    With `along` alone: along · p = 0. With `across` too: across · R along = 0, and where it is `oriented`, R along must be
    `along` and not its opposite: a flipped axis is another assembly mode. With `length`: (p · p - length²) / 2 = 0.
    """

    along: Direction = (0.0, 0.0, 0.0)
    across: Direction | None = None
    length: float | None = None
    oriented: bool = False

    def residual(self, R: np.ndarray, p: np.ndarray) -> Any:
        """φ, for the successor's pose (R, p) in the predecessor's frame; zero where the equation holds."""
        if self.length is not None:
            return 0.5 * (product(p, p) - self.length * self.length)
        along = np.array(self.along)
        return product(along, p) if self.across is None else product(np.array(self.across), product(R, along))

    def coefficients(self, P: Pose, F: Pose) -> tuple[np.ndarray, np.ndarray]:
        """c_w and c_v, (3,) each, with φ̇ = c_w · W + c_v · U, for the poses P and F of both frames in any common axes.

        W is the angular velocity of F against P, and U the velocity of F's origin against P's point that is there. So they
        are also the moment and, at F's origin, the force on the successor for a unit of the equation's multiplier.
        """
        if self.length is not None:
            return np.zeros(3), F.p - P.p
        if self.across is None:
            return np.zeros(3), product(P.R, np.array(self.along))
        return cross(product(F.R, np.array(self.along)), product(P.R, np.array(self.across))), np.zeros(3)

    def bias(self, P: Pose, F: Pose, W: np.ndarray, U: np.ndarray) -> Any:
        """The bias of φ̈: what it has besides c_w · Ẇ + c_v · U̇, the rates being those seen from P."""
        if self.length is not None:
            return product(U, U)
        if self.across is None:
            return 0.0
        return product(product(P.R, np.array(self.across)), cross(W, cross(W, product(F.R, np.array(self.along)))))


class ClosingError:
    """How far a joint's equations are from holding, over numbers, each row as near to linear as it can be.

    Lengths are as in `Row.residual`, but for a rod the difference of lengths. Angles are rotation vectors (logarithms on
    SO(3)): of the turn that takes a shared axis of one frame to that of the other, or, where no turn is left free, of the whole
    turn between the frames. A frame that is turned over is so as far from closed as it can be, and not closed.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.count = len(rows)
        self.lengths = np.array([row.across is None for row in rows], dtype=bool)
        self._sliding = [i for i, row in enumerate(rows) if row.across is None and row.length is None]
        self._directions = np.array([rows[i].along for i in self._sliding]).reshape(-1, 3)
        self._rods = [(i, row.length) for i, row in enumerate(rows) if row.length is not None]
        turning = [i for i, row in enumerate(rows) if row.across is not None]
        along = {i: np.array(rows[i].along) for i in turning}
        across = {i: np.array(rows[i].across) for i in turning}
        oriented = [i for i in turning if rows[i].oriented]
        axes = {rows[i].along for i in oriented}
        self._whole = oriented if len(oriented) == 3 and len(axes) == 3 else []
        self._normals = np.array([np.cross(along[i], across[i]) for i in self._whole]).reshape(-1, 3)
        self._axes = []
        if not self._whole:
            for axis in dict.fromkeys(rows[i].along for i in oriented):
                own = [i for i in oriented if rows[i].along == axis]
                self._axes.append((own, np.array(axis), np.array([across[i] for i in own])))
        self._others = [(i, along[i], across[i]) for i in turning if i not in oriented]

    def __call__(self, R: np.ndarray, p: np.ndarray, w: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """e, (count,) [m or rad], and its Jacobian, for the successor's pose (R, p) in the predecessor's frame.

        w and u, (3, n), are the Jacobians of the successor's motion: its angular velocity, and the velocity of its origin
        against the predecessor's point that is there, in the predecessor's axes.
        """
        e, J = np.zeros(self.count), np.zeros((self.count, w.shape[1]))
        if self._sliding:
            e[self._sliding], J[self._sliding] = self._directions @ p, self._directions @ u
        for i, length in self._rods:
            distance = math.sqrt(p @ p)
            e[i], J[i] = distance - length, (p / max(distance, 1e-300)) @ u
        if self._whole:
            turn = rotation_vector(R)
            e[self._whole] = self._normals @ turn
            J[self._whole] = (self._normals @ _rate_of_rotation_vector(turn)) @ w
        for own, axis, normals in self._axes:
            e[own], J[own] = _axis_error(R @ axis, axis, normals, w)
        for i, along, across in self._others:
            turned = R @ along
            e[i], J[i] = across @ turned, _crossing(turned) @ across @ w
        return e, J


def _axis_error(turned: np.ndarray, axis: np.ndarray, normals: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ/sin θ times the components of a turned axis along some normals of where it should be, and the Jacobian."""
    c = min(1.0, max(-1.0, float(axis @ turned)))
    off = normals @ turned
    by = _crossing(turned)
    about, toward = normals @ by.T, by @ axis
    s = math.sqrt(float(toward @ toward))
    angle = math.atan2(s, c)
    if s < 1e-9 and c < 0.0:  # turned over: any direction leads back
        return np.array([math.pi, *[0.0] * (len(off) - 1)]), about @ w
    if angle < 1e-3:
        value = factor = 1.0 + angle * angle / 6.0
        rate = -1.0 / 3.0
    else:
        value, s = angle / s, max(s, 1e-3) if c < 0.0 else s  # near a half turn its direction changes fast: bounded
        factor, rate = angle / s, -(s - angle * c) / (s * s * s)
    return value * off, (factor * about + np.outer(off, rate * toward)) @ w


def _crossing(a: np.ndarray) -> np.ndarray:
    """[a], with [a] b = a × b, (3, 3), over numbers."""
    x, y, z = a.tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def rotation_vector(R: np.ndarray) -> np.ndarray:
    """The logarithm of a rotation matrix, (3,) [rad], of at most half a turn."""
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    k = int(np.argmax([R[0, 0], R[1, 1], R[2, 2], trace]))
    if k == 3:
        q = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1.0 + trace])
    else:
        a, b = (k + 1) % 3, (k + 2) % 3
        q = np.zeros(4)
        q[k], q[a], q[b] = 1.0 - trace + 2.0 * R[k, k], R[a, k] + R[k, a], R[b, k] + R[k, b]
        q[3] = R[b, a] - R[a, b]
        q = -q if q[3] < 0.0 else q
    sine = math.sqrt(float(q[:3] @ q[:3]))
    return q[:3] * (2.0 * math.atan2(sine, float(q[3])) / sine if sine > 0.0 else 0.0)


def _rate_of_rotation_vector(turn: np.ndarray) -> np.ndarray:
    """What takes an angular velocity in the axes before a turn to the rate of its rotation vector, (3, 3)."""
    S = _crossing(turn)
    angle = math.sqrt(float(turn @ turn))
    if angle < 1e-3:
        factor = 1.0 / 12.0
    else:
        factor = 1.0 / (angle * angle) - (1.0 + math.cos(angle)) / (2.0 * angle * max(math.sin(angle), 1e-12))
    return np.eye(3) - 0.5 * S + factor * (S @ S)


def no_translation(*directions: Any) -> list[Row]:
    """No translation along these directions of the predecessor."""
    return [Row(_direction(d)) for d in directions]


def perpendicular(*pairs: tuple[Any, Any]) -> list[Row]:
    """A direction of the predecessor stays perpendicular to one of the successor."""
    return [Row(_direction(along), _direction(across)) for across, along in pairs]


def parallel_axes(*pairs: tuple[Any, Any]) -> list[Row]:
    """The same, where the second direction is an axis that both frames share: two such rows keep it parallel."""
    return [Row(_direction(along), _direction(across), oriented=True) for across, along in pairs]


def _direction(d: Any) -> Direction:
    x, y, z = np.asarray(d, dtype=float).tolist()
    return x, y, z
