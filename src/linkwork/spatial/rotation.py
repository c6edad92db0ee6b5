"""Rotations as quaternions [x, y, z, w] and rotation vectors (axis times angle), over numbers or symbols."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import (
    absolute,
    atan2,
    cos,
    exponent,
    fma,
    maximum,
    pow2,
    sin,
    sqrt,
    where,
)
from linkwork.spatial.vectors import cross

_SMALL_ANGLE = 0.02  # [rad] series are used below, with an error under one unit in the last place
_ATAN = [1.0, -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11]  # atan(x) / x by powers of x x


def sinc(x: Any) -> Any:
    """Return sin(x) / x, 1 at 0."""
    small = absolute(x) < _SMALL_ANGLE
    z = x * x
    return where(small, 1.0 - z * (1.0 / 6.0 - z * (1.0 / 120.0 - z / 5040.0)), sin(x) / where(small, 1.0, x))


def scaled(q: np.ndarray) -> np.ndarray:
    """Return a quaternion scaled by a power of two so that its largest component is between 1 and 2.

    The scaling is exact, and the squared norm neither overflows nor loses digits. Only a quaternion with
    subnormal components may remain shorter, by 2⁻⁵² at most.
    """
    x, y, z, w = (exponent(part) for part in q)
    return q * pow2(-maximum(maximum(x, y), maximum(z, w)))


def normalized(q: np.ndarray) -> np.ndarray:
    """Return a unit quaternion from one of moderate norm, such as `scaled` returns."""
    return q * (1.0 / sqrt(q @ q))


def matrix(q: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a quaternion, (3, 3); NaN if its norm is zero or not finite."""
    x, y, z, w = q = scaled(q)
    square = q @ q
    # The numerator is 2, or NaN for an infinite square, so that all entries become NaN.
    X, Y, Z = fma(square, 0.0, 2.0) / square * q[:3]
    return np.array([
        [1.0 - (y * Y + z * Z), x * Y - w * Z, x * Z + w * Y],
        [x * Y + w * Z, 1.0 - (x * X + z * Z), y * Z - w * X],
        [x * Z - w * Y, y * Z + w * X, 1.0 - (x * X + y * Y)],
    ])  # fmt: skip


def multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the quaternion product: the rotation q followed by p."""
    return np.array([*(p[3] * q[:3] + q[3] * p[:3] + cross(p[:3], q[:3])), p[3] * q[3] - p[:3] @ q[:3]])


def conjugate(q: np.ndarray) -> np.ndarray:
    """Return the inverse rotation."""
    return np.array([-q[0], -q[1], -q[2], q[3]])


def between(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the rotation from p to q in the frame of p, as a quaternion of moderate norm."""
    return multiply(conjugate(scaled(p)), scaled(q))


def of_matrix(R: np.ndarray) -> np.ndarray:
    """Return the quaternion of a rotation matrix, from its largest component to avoid cancellation."""
    xx = R[0, 0]
    yy = R[1, 1]
    zz = R[2, 2]
    x = R[2, 1] - R[1, 2]
    y = R[0, 2] - R[2, 0]
    z = R[1, 0] - R[0, 1]
    xy = R[0, 1] + R[1, 0]
    yz = R[1, 2] + R[2, 1]
    zx = R[2, 0] + R[0, 2]
    q = np.array([x, y, z, 1.0 + xx + yy + zz])
    largest = q[3]
    for k, other in enumerate((
        np.array([1.0 + xx - yy - zz, xy, zx, x]),
        np.array([xy, 1.0 - xx + yy - zz, yz, y]),
        np.array([zx, yz, 1.0 - xx - yy + zz, z]),
    )):  # fmt: skip
        better = other[k] > largest
        q = where(better, other, q)
        largest = where(better, other[k], largest)
    return normalized(q)


def exp(r: np.ndarray) -> np.ndarray:
    """Return the exponential: the quaternion of a rotation vector r [rad]."""
    half = 0.5 * _angle(r @ r)
    return np.array([*(0.5 * sinc(half) * r), cos(half)])


def log(q: np.ndarray) -> np.ndarray:
    """Return the logarithm: the shortest rotation vector [rad] of a quaternion of moderate norm."""
    square = q[:3] @ q[:3]
    w = q[3]
    small = square < (_SMALL_ANGLE * _SMALL_ANGLE) * (w * w)
    n = sqrt(where(small, 1.0, square))
    angle = 2.0 * atan2(n, absolute(w))
    one_over_w = 1.0 / where(small, w, 1.0)
    near = _series(square * (one_over_w * one_over_w), _ATAN) * (2.0 * one_over_w)
    return where(small, near, where(w < 0.0, -angle, angle) / n) * q[:3]


def numeric_matrix(q: np.ndarray) -> np.ndarray:
    """Return `matrix` of floats of moderate size, faster but without defined last bits."""
    x, y, z, w = (float(part) for part in q)
    f = 2.0 / (x * x + y * y + z * z + w * w)
    return np.array([
        [1.0 - f * (y * y + z * z), f * (x * y - w * z), f * (x * z + w * y)],
        [f * (x * y + w * z), 1.0 - f * (x * x + z * z), f * (y * z - w * x)],
        [f * (x * z - w * y), f * (y * z + w * x), 1.0 - f * (x * x + y * y)],
    ])  # fmt: skip


def numeric_turned(q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return a unit quaternion rotated by a rotation vector r [rad], over floats."""
    a, b, c = (float(part) for part in r)
    half = 0.5 * math.sqrt(a * a + b * b + c * c)
    s = 0.5 * math.sin(half) / half if half > 1e-8 else 0.5
    product = multiply(np.asarray(q, dtype=float), np.array([s * a, s * b, s * c, math.cos(half)]))
    return product / np.linalg.norm(product)


def numeric_screw(r: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return `screw` of floats."""
    square = float(r @ r)
    angle = math.sqrt(square)
    is_small = angle < 1e-3  # the next terms of the series are below 1e-13
    a = 0.5 - square / 24.0 if is_small else (1.0 - math.cos(angle)) / square
    b = 1.0 / 6.0 - square / 120.0 if is_small else (angle - math.sin(angle)) / (square * angle)
    u = np.cross(r, v)
    return v + a * u + b * np.cross(r, u)


def _angle(square: Any) -> Any:
    """Return the norm of a vector from its square, for functions that depend only on the square.

    A root has no derivative at zero, but these functions have one. Therefore the square is shifted by less
    than their precision.
    """
    return sqrt(square + 1e-20)


_SERIES_ANGLE = 0.5  # [rad] series are used below, where the quotients of `screw` cancel
_SCREW = [1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800]
_SCREW_INVERSE = [1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600]


def screw(r: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the left Jacobian of SO(3) at r [rad] times v: ∫ exp(t [r]) v dt, a screw's translation."""
    square = r @ r
    half = 0.5 * _angle(square)
    close = square < _SERIES_ANGLE * _SERIES_ANGLE
    s = sinc(half)
    a = 0.5 * s * s
    b = where(
        close, _series(square, _SCREW), (1.0 - s * cos(half)) / where(close, 1.0, square)
    )  # sinc(2 x) = sinc(x) cos(x)
    u = cross(r, v)
    return v + a * u + b * cross(r, u)


def screw_inverse(r: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the inverse left Jacobian times p: the v with `screw(r, v)` = p, for angles below 2π."""
    square = r @ r
    half = 0.5 * _angle(square)
    close = square < _SERIES_ANGLE * _SERIES_ANGLE
    c = where(
        close, _series(square, _SCREW_INVERSE), (1.0 - cos(half) / sinc(half)) / where(close, 1.0, square)
    )
    u = cross(r, p)
    return p - 0.5 * u + c * cross(r, u)


def _series(x: Any, coefficients: list[float]) -> Any:
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
