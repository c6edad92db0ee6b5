"""Rotations as quaternions [x, y, z, w] and as rotation vectors (axis times angle), over numbers or symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.ir.functions import absolute, atan2, cos, sin, sqrt, where
from linkwork.spatial.vectors import cross

_SMALL = 0.02  # below it, series with an error under one unit in the last place


def sinc(x: Any) -> Any:
    """sin(x) / x, 1 at 0."""
    small = absolute(x) < _SMALL
    z = x * x
    return where(small, 1.0 - z * (1.0 / 6.0 - z * (1.0 / 120.0 - z / 5040.0)), sin(x) / where(small, 1.0, x))


def normalised(q: np.ndarray) -> np.ndarray:
    """A quaternion scaled to length 1."""
    return q * (1.0 / sqrt(q @ q))


def multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The quaternion product: first turned by q, then by p."""
    return np.array([*(p[3] * q[:3] + q[3] * p[:3] + cross(p[:3], q[:3])), p[3] * q[3] - p[:3] @ q[:3]])


def conjugate(q: np.ndarray) -> np.ndarray:
    """The opposite rotation."""
    return np.array([-q[0], -q[1], -q[2], q[3]])


def of_matrix(R: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation matrix; from the largest of its four components, so that nothing cancels."""
    xx, yy, zz = R[0, 0], R[1, 1], R[2, 2]
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, yz, zx = R[0, 1] + R[1, 0], R[1, 2] + R[2, 1], R[2, 0] + R[0, 2]
    q = np.array([x, y, z, 1.0 + xx + yy + zz])
    largest = q[3]
    for k, other in enumerate((
        np.array([1.0 + xx - yy - zz, xy, zx, x]),
        np.array([xy, 1.0 - xx + yy - zz, yz, y]),
        np.array([zx, yz, 1.0 - xx - yy + zz, z]),
    )):  # fmt: skip
        better = other[k] > largest
        q, largest = where(better, other, q), where(better, other[k], largest)
    return normalised(q)


def exp(r: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation vector r [rad]."""
    half = 0.5 * sqrt(r @ r)
    return np.array([*(0.5 * sinc(half) * r), cos(half)])


def log(q: np.ndarray) -> np.ndarray:
    """The shortest rotation vector [rad] of a quaternion of length 1."""
    n2 = q[:3] @ q[:3]
    small = n2 < _SMALL * _SMALL
    n = sqrt(where(small, 1.0, n2))
    angle = 2.0 * atan2(n, absolute(q[3]))
    # asin(n) / n for small n: half the angle over n
    series = 2.0 * (1.0 + n2 * (1.0 / 6.0 + n2 * (3.0 / 40.0 + n2 * (5.0 / 112.0))))
    factor = where(small, series, angle / n)
    return where(q[3] < 0.0, -factor, factor) * q[:3]


_CLOSE = 0.5  # [rad] below it, the quotients of `screw` cancel and series do not
_SCREW = [1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800]
_SCREW_INVERSE = [1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600]


def screw(r: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Where a point goes in a unit of time that moves with v in a frame turning with r [rad]: ∫ exp(t [r]) v dt."""
    square, close, angle = _angle(r)
    a = 0.5 * sinc(0.5 * angle) * sinc(0.5 * angle)
    b = where(close, _series(square, _SCREW), (1.0 - sinc(angle)) / where(close, 1.0, square))
    u = cross(r, v)
    return v + a * u + b * cross(r, u)


def screw_inverse(r: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The v with `screw(r, v)` = p, for angles below 2 π."""
    square, close, angle = _angle(r)
    half = 0.5 * angle
    c = where(close, _series(square, _SCREW_INVERSE), (1.0 - cos(half) / sinc(half)) / where(close, 1.0, square))
    u = cross(r, p)
    return p - 0.5 * u + c * cross(r, u)


def _angle(r: np.ndarray) -> tuple[Any, Any, Any]:
    """The square of a rotation vector's angle, whether that is small, and the angle [rad]."""
    square = r @ r
    close = square < _CLOSE * _CLOSE
    return square, close, sqrt(square)


def _series(x: Any, coefficients: list[float]) -> Any:
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
