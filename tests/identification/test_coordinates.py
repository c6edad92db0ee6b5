"""Coordinates of parameters: what they start from, the derivatives of values and entries, and poses and
moments of inertia as independent algebra has them.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from linkwork.identification.coordinates import Coordinates, logarithm, moment_of_inertia, placement, plain
from linkwork.spatial import skew

POSES = np.array([[0.1, -0.2, 0.3, 0.5, -0.1, 0.7, 0.5], [1.0, 2.0, -3.0, 0.0, 0.6, 0.0, 0.8]])
POSES[:, 3:] /= np.linalg.norm(POSES[:, 3:], axis=1, keepdims=True)
MOMENT = np.array([0.03, 0.05, 0.04, 0.004, -0.006, 0.005])
ONES = np.ones(6)
VARIED = np.array([0, 3, 4, 5, 8, 10])
CASES: dict[str, Callable[[], Coordinates]] = {
    "plain": lambda: plain(
        "center", ("x", "z"), np.array([0.3, -0.2, 0.1]), np.array([0, 2]), -np.inf, ONES[:2]
    ),
    "logarithm": lambda: logarithm("mass", np.array([2.5]), ONES[:1]),
    "moment": lambda: moment_of_inertia("inertia", MOMENT, ONES),
    "placement": lambda: placement("placement", tuple("abcdef"), POSES.ravel(), VARIED, ONES),
}


def rotation_of(q: np.ndarray) -> np.ndarray:
    x, y, z, w = q
    Q = np.array([[w, -z, y], [z, w, -x], [-y, x, w]])
    return Q @ Q + np.outer(q[:3], q[:3])


@pytest.mark.parametrize("size", [0.0, 1e-6, 0.3, 2.0])
@pytest.mark.parametrize("name", CASES)
def test_rates_are_derivatives(name: str, size: float) -> None:
    block = CASES[name]()
    x = block.start + size * np.random.default_rng(5).uniform(-1.0, 1.0, len(block.start))
    h = 1e-6
    for map_, rate in ((block.values, block.values_rate), (block.entries, block.entries_rate)):
        ends = [[map_(x + s * h * e) for e in np.eye(len(x))] for s in (1.0, -1.0)]
        expected = (np.array(ends[0]) - np.array(ends[1])).T / (2.0 * h)
        assert np.allclose(rate(x), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_they_start_at_the_model(name: str) -> None:
    block = CASES[name]()
    nominal = {"plain": [0.3, -0.2, 0.1], "logarithm": [2.5], "moment": MOMENT, "placement": POSES.ravel()}[
        name
    ]
    assert np.allclose(block.values(block.start), nominal, rtol=1e-14, atol=1e-16)
    assert len(block.labels) == len(block.start) == len(block.entries(block.start))
    assert (block.lower < block.start).all() and (block.start < block.upper).all()
    if block.to_coordinate is not None and name != "placement":
        found = [block.to_coordinate(float(y)) for y in block.entries(block.start)]
        assert np.allclose(found, block.start, rtol=1e-15)


def test_moments_of_inertia_are_of_a_body_whatever_the_coordinates() -> None:
    """Three principal moments, of which none exceeds the sum of the others; and free of units."""
    block = moment_of_inertia("inertia", MOMENT, ONES)
    for x in np.random.default_rng(1).normal(size=(20, 6)):
        xx, yy, zz, xy, xz, yz = block.values(block.start + x)
        principal = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        assert principal[0] > 0.0 and principal[2] < principal[:2].sum()
        large = moment_of_inertia("inertia", 1e4 * MOMENT, 1e4 * ONES)
        assert np.allclose(large.values(large.start + x), 1e4 * block.values(block.start + x), rtol=1e-12)


def test_placements_turn_about_axes_of_the_model() -> None:
    block = placement("placement", tuple("abcdef"), POSES.ravel(), VARIED, ONES)
    x = block.start + np.array([0.2, 0.5, -0.3, 0.4, -0.6, 0.7])
    found = block.values(x).reshape(2, 7)
    moved = np.zeros((2, 6))
    moved[:, :3] = POSES[:, :3]
    moved.ravel()[VARIED] = x
    assert np.allclose(found[:, :3], moved[:, :3])
    for pose, start, r in zip(found, POSES, moved[:, 3:]):
        turn = np.array(mpmath.expm(mpmath.matrix(skew(r).tolist())).tolist(), dtype=float)
        assert np.allclose(rotation_of(pose[3:]), rotation_of(start[3:]) @ turn, atol=1e-14)
