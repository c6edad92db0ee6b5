"""Rotations as quaternions [x, y, z, w] and as rotation vectors (axis times angle), over numbers or symbols."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linkwork.ir.functions import absolute, atan2, cos, exponent, fma, maximum, pow2, sin, sqrt, where
from linkwork.spatial.vectors import cross

_SMALL = 0.02  # below it, series with an error under one unit in the last place
_ATAN = [1.0, -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11]  # atan(x) / x by powers of x x


def sinc(x: Any) -> Any:
    """sin(x) / x, 1 at 0."""
    small = absolute(x) < _SMALL
    z = x * x
    return where(small, 1.0 - z * (1.0 / 6.0 - z * (1.0 / 120.0 - z / 5040.0)), sin(x) / where(small, 1.0, x))


def scaled(q: np.ndarray) -> np.ndarray:
    """A quaternion of any length as one whose largest part is between 1 and 2, by a power of two, which rounds nothing.

    So its square neither overflows nor loses digits. Only one with subnormal numbers may stay shorter, by 2⁻⁵² at most.
    """
    x, y, z, w = (exponent(part) for part in q)
    return q * pow2(-maximum(maximum(x, y), maximum(z, w)))


def normalised(q: np.ndarray) -> np.ndarray:
    """A quaternion of moderate length, such as `scaled` gives, at length 1."""
    return q * (1.0 / sqrt(q @ q))


def matrix(q: np.ndarray) -> np.ndarray:
    """The rotation matrix of a quaternion of any length, (3, 3); NaN where that is zero or not finite."""
    x, y, z, w = q = scaled(q)
    square = q @ q
    X, Y, Z = fma(square, 0.0, 2.0) / square * q[:3]  # 2, or NaN where the square is infinite: parts would not all be NaN
    return np.array([
        [1.0 - (y * Y + z * Z), x * Y - w * Z, x * Z + w * Y],
        [x * Y + w * Z, 1.0 - (x * X + z * Z), y * Z - w * X],
        [x * Z - w * Y, y * Z + w * X, 1.0 - (x * X + y * Y)],
    ])  # fmt: skip


def multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The quaternion product: first turned by q, then by p."""
    return np.array([*(p[3] * q[:3] + q[3] * p[:3] + cross(p[:3], q[:3])), p[3] * q[3] - p[:3] @ q[:3]])


def conjugate(q: np.ndarray) -> np.ndarray:
    """The opposite rotation."""
    return np.array([-q[0], -q[1], -q[2], q[3]])


def between(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The quaternion that turns on from p to q, both of any length, as seen by p; its own length is moderate."""
    return multiply(conjugate(scaled(p)), scaled(q))


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
    """The exponential: the quaternion of a rotation vector r [rad]."""
    half = 0.5 * _angle(r @ r)
    return np.array([*(0.5 * sinc(half) * r), cos(half)])


def log(q: np.ndarray) -> np.ndarray:
    """The principal logarithm: the shortest rotation vector [rad] of a quaternion of moderate length, as `scaled` gives."""
    square, w = q[:3] @ q[:3], q[3]
    small = square < (_SMALL * _SMALL) * (w * w)
    n = sqrt(where(small, 1.0, square))
    angle = 2.0 * atan2(n, absolute(w))
    one_over_w = 1.0 / where(small, w, 1.0)
    near = _series(square * (one_over_w * one_over_w), _ATAN) * (2.0 * one_over_w)
    return where(small, near, where(w < 0.0, -angle, angle) / n) * q[:3]


def numeric_matrix(q: np.ndarray) -> np.ndarray:
    """The same as `matrix` for floats of moderate size, quickly: where last bits do not matter."""
    x, y, z, w = (float(part) for part in q)
    f = 2.0 / (x * x + y * y + z * z + w * w)
    return np.array([
        [1.0 - f * (y * y + z * z), f * (x * y - w * z), f * (x * z + w * y)],
        [f * (x * y + w * z), 1.0 - f * (x * x + z * z), f * (y * z - w * x)],
        [f * (x * z - w * y), f * (y * z + w * x), 1.0 - f * (x * x + y * y)],
    ])  # fmt: skip


def numeric_turned(q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """A quaternion turned on by a rotation vector r [rad], at length 1, over floats."""
    a, b, c = (float(part) for part in r)
    half = 0.5 * math.sqrt(a * a + b * b + c * c)
    s = 0.5 * math.sin(half) / half if half > 1e-8 else 0.5
    found = multiply(np.asarray(q, dtype=float), np.array([s * a, s * b, s * c, math.cos(half)]))
    return found / np.linalg.norm(found)


def numeric_screw(r: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The same as `screw` over floats."""
    square = float(r @ r)
    angle = math.sqrt(square)
    near = angle < 1e-3  # the next terms of the series are below 1e-13
    a = 0.5 - square / 24.0 if near else (1.0 - math.cos(angle)) / square
    b = 1.0 / 6.0 - square / 120.0 if near else (angle - math.sin(angle)) / (square * angle)
    u = np.cross(r, v)
    return v + a * u + b * np.cross(r, u)


def _angle(square: Any) -> Any:
    """The length of a vector from its square, for functions in which only the square matters.

    A root has no derivative at zero, but these functions have. So the square is moved by less than they can show.
    """
    return sqrt(square + 1e-20)


_CLOSE = 0.5  # [rad] below it, the quotients of `screw` cancel and series do not
_SCREW = [1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800]
_SCREW_INVERSE = [1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600]


def screw(r: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The left Jacobian of SO(3) at r [rad], times v: ∫ exp(t [r]) v dt, the translation of a unit screw motion."""
    square = r @ r
    half, close = 0.5 * _angle(square), square < _CLOSE * _CLOSE
    s = sinc(half)
    a = 0.5 * s * s
    b = where(close, _series(square, _SCREW), (1.0 - s * cos(half)) / where(close, 1.0, square))  # sinc(2 x) = sinc(x) cos(x)
    u = cross(r, v)
    return v + a * u + b * cross(r, u)


def screw_inverse(r: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The inverse of the left Jacobian times p: the v with `screw(r, v)` = p, for angles below 2 π."""
    square = r @ r
    half, close = 0.5 * _angle(square), square < _CLOSE * _CLOSE
    c = where(close, _series(square, _SCREW_INVERSE), (1.0 - cos(half) / sinc(half)) / where(close, 1.0, square))
    u = cross(r, p)
    return p - 0.5 * u + c * cross(r, u)


def _series(x: Any, coefficients: list[float]) -> Any:
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
