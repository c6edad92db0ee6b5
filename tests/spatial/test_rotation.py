"""Rotations against exponentials and logarithms of matrices in 40 digits, on both sides of every limit between
series and quotients.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from linkwork.joints.closure import rotation_vector
from linkwork.spatial import rotation, skew

ANGLES = [
    0.0,
    1e-12,
    1e-9,
    1e-5,
    9.9e-4,
    1.01e-3,
    0.0199,
    0.0201,
    0.0399,
    0.0401,
    0.3,
    0.4999,
    0.5001,
    1.7,
    3.1,
]


def vectors(angle: float) -> list[np.ndarray]:
    """Rotation vectors of this length [rad] along and between the axes."""
    rng = np.random.default_rng(4)
    axes = [*np.eye(3), *(-np.eye(3)), *rng.normal(size=(2, 3))]
    return [angle * axis / np.linalg.norm(axis) for axis in axes]


def screw_of(r: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R and p of the motion with rotation vector r and velocity v in unit time, to the last digit."""
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = skew(r), v
    with mpmath.workdps(40):
        T = np.array(mpmath.expm(mpmath.matrix(twist.tolist()), method="taylor").tolist(), dtype=float)
    return T[:3, :3], T[:3, 3]


def floats(x: object) -> np.ndarray:
    return np.asarray(x, dtype=float)


@pytest.mark.parametrize("angle", ANGLES)
def test_exponentials_and_their_inverses(angle: float) -> None:
    v = np.array([0.3, -0.7, 0.5])
    for r in vectors(angle):
        R, p = screw_of(r, v)
        q = rotation.exp(r)
        for matrix in (rotation.matrix(q), rotation.matrix(-3.0 * q), rotation.numeric_matrix(q)):
            assert np.allclose(floats(matrix), R, rtol=0.0, atol=2e-15)
        assert np.allclose(floats(rotation.screw(r, v)), p, rtol=0.0, atol=4e-15)
        assert np.allclose(rotation.numeric_screw(r, v), p, rtol=0.0, atol=2e-13)
        assert np.allclose(floats(rotation.screw_inverse(r, p)), v, rtol=0.0, atol=4e-15)
        assert np.allclose(floats(rotation.log(q)), r, rtol=2e-15, atol=1e-20)
        assert np.allclose(floats(rotation.log(-q)), r, rtol=2e-15, atol=1e-20)  # the same rotation
        assert np.allclose(rotation_vector(R), r, rtol=1e-14, atol=4e-16)
        start = rotation.exp(np.array([0.4, -1.1, 0.6])).astype(float)
        turned = floats(rotation.matrix(start)) @ R
        assert np.allclose(rotation.numeric_matrix(rotation.numeric_turned(start, r)), turned, atol=2e-15)
        way = rotation.between(2.0 * start, 0.3 * rotation.multiply(start, q))
        assert np.allclose(floats(rotation.log(way)), r, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.01, 0.0199, 0.0201, 1.0, 4.0])
def test_sinc(x: float) -> None:
    with mpmath.workdps(40):
        expected = float(mpmath.sinc(mpmath.mpf(x)))
    assert abs(rotation.sinc(x) - expected) <= 3e-16 and abs(rotation.sinc(-x) - expected) <= 3e-16


@pytest.mark.parametrize("largest", range(4))
@pytest.mark.parametrize("size", [1.0, 1e-9, 0.0])
def test_quaternions_of_matrices(largest: int, size: float) -> None:
    """Whichever component is the largest, and where the others vanish: turns by nothing and by 180°."""
    rng = np.random.default_rng(largest)
    for sign in (-1.0, 1.0):
        q = size * rng.uniform(-0.5, 0.5, 4)
        q[largest] = sign
        q /= np.linalg.norm(q)
        x, y, z, w = q
        Q = np.array([[w, -z, y], [z, w, -x], [-y, x, w]])
        R = Q @ Q + np.outer(q[:3], q[:3])
        assert np.allclose(floats(rotation.matrix(q)), R, atol=1e-15)
        found = floats(rotation.of_matrix(R))
        assert np.allclose(found * np.sign(found @ q), q, rtol=0.0, atol=1e-15)
        p = rng.normal(size=4)
        both = rotation.matrix(rotation.multiply(p, q))
        assert np.allclose(floats(both), floats(rotation.matrix(p)) @ R, atol=2e-15)
        assert np.allclose(
            floats(rotation.matrix(rotation.conjugate(p))), floats(rotation.matrix(p)).T, atol=1e-15
        )
