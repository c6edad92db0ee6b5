"""Distances of all pairs of convex shapes: exact by duality where they are apart, and the least of many
directions where they overlap; and their derivatives. `tests/helpers/distance_sweep.py` tests many more.
"""

from __future__ import annotations

from itertools import product as combinations

import numpy as np
import pytest

import linkwork as lw
from distance_certificates import (
    KINDS,
    Solid,
    allowed,
    distance_errors,
    random_poses,
    random_solid,
    two_solids,
)

CASES = [(*pair, sizes) for sizes in ("similar", "mixed", "rounded") for pair in combinations(KINDS, KINDS)]
CLOUD = tuple(map(tuple, np.random.default_rng(4).normal(size=(6, 3)).tolist()))


@pytest.mark.sweep(11)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_distances_are_exact(case: tuple[str, str, str], dtype: str) -> None:
    one_kind, other_kind, sizes = case
    rng = np.random.default_rng([CASES.index(case), 5])
    one = random_solid(one_kind, rng, sizes)
    other = random_solid(other_kind, rng, sizes)
    _, errors = distance_errors(one, other, random_poses(one, other, rng, 100), rng, dtype)
    bound = allowed(one, other, dtype)
    for name, error in errors.items():
        if name == "normal":
            assert error.max() < (1e-12 if dtype == "float64" else 1e-5)
        elif (name in ("depth", "points") and "hull" in case) or (name == "points" and dtype == "float32"):
            assert np.mean(error > bound) < 0.03  # some deep overlaps of hulls; ties in single precision
        else:
            assert error.max() < bound, name


@pytest.mark.parametrize(
    ("one", "other", "place", "depth"),
    [
        # centres on an axis: the way out is across it
        (("capsule", (0.1, 0.5)), ("sphere", (0.2,)), (0.0, 0.0, 0.0), 0.3),
        (("capsule", (0.1, 0.5)), ("capsule", (0.2, 0.4)), (0.0, 0.0, 0.1), 0.3),
        (("sphere", (0.5,)), ("cylinder", (0.15, 0.4)), (0.0, 0.0, 0.0), 0.65),
        (("cylinder", (0.1, 0.5)), ("cylinder", (0.2, 0.5)), (0.0, 0.0, 0.05), 0.3),
        (("cylinder", (0.3, 0.1)), ("capsule", (0.2, 0.4)), (0.0, 0.0, 0.0), 0.45),
        (("ellipsoid", (0.4, 0.5, 0.3)), ("ellipsoid", (0.2, 0.1, 0.3)), (0.0, 0.0, 0.0), 0.6),
        # flush faces
        (("box", (1.0, 0.4, 0.2)), ("box", (0.2, 0.6, 0.4)), (0.3, 0.1, 0.29), 0.01),
        (("cylinder", (0.2, 0.4)), ("box", (0.2, 0.6, 0.4)), (0.1, 0.1, 0.39), 0.01),
        # a plate inside of a block that is more than three times as thick
        (("box", (0.4, 0.3, 0.4)), ("box", (0.1, 0.35, 0.5)), (0.0, 0.0, 0.0), 0.25),
        # a needle across a small disk
        (("box", (8.0, 0.002, 0.015)), ("cylinder", (0.0023, 0.0024)), (0.0, 0.0, 0.0), 0.0033),
    ],
)
def test_depths_of_shapes_in_special_places(
    one: tuple[str, tuple[float, ...]],
    other: tuple[str, tuple[float, ...]],
    place: tuple[float, ...],
    depth: float,
) -> None:
    first = Solid(*one)
    second = Solid(*other)
    rng = np.random.default_rng(6)
    q = np.array([[*place, 0.0, 0.0, 0.0, 1.0]])
    distance, errors = distance_errors(first, second, q, rng)
    assert distance[0] == pytest.approx(-depth, abs=1e-12)
    assert max(error.max() for error in errors.values()) < 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sizes", ["similar", "mixed", "rounded"])
def test_nearest_points_of_boxes_are_on_them(sizes: str, dtype: str) -> None:
    """Also deep inside, where faces are flush or an edge is along a face: both are in the boxes, and a
    distance apart.
    """
    rng = np.random.default_rng(21)
    for _ in range(3):
        one, other = (random_solid("box", rng, sizes) for _ in range(2))
        _, errors = distance_errors(one, other, random_poses(one, other, rng, 400), rng, dtype)
        bound = allowed(one, other, dtype) * (1.0 if dtype == "float64" else 10.0)
        assert errors["outside"].max() < bound
        assert errors["points"].max() < bound


@pytest.mark.parametrize(
    "solids",
    [
        (Solid("cylinder", (0.3, 0.48)), Solid("ellipsoid", (0.16, 0.48, 0.22))),
        (Solid("ellipsoid", (0.16, 0.3, 0.22)), Solid("hull", CLOUD)),
        (Solid("cylinder", (0.3, 0.4)), Solid("cylinder", (0.2, 0.3))),
    ],
    ids=lambda solids: "-".join(each.kind for each in solids),
)
def test_derivatives_are_those_of_differences(solids: tuple[Solid, Solid]) -> None:
    """Wherever results are smooth by differences, also in overlaps; and those of both modes agree."""
    rng = np.random.default_rng(7)
    one, other = solids
    model = two_solids(one, other)
    turns, centres = rng.normal(size=(60, 4)), rng.normal(size=(60, 3))
    centres *= rng.uniform(0.2, 1.2, (60, 1)) / np.linalg.norm(centres, axis=1)[:, None]
    q = np.concatenate([centres, turns / np.linalg.norm(turns, axis=1)[:, None]], axis=1)
    pairs = ("first", "second")
    step = 1e-4
    direction = rng.normal(size=6)
    J = lw.jacobian(lw.distance, model, wrt="q", pairs=pairs)(q)
    at = {
        k: lw.distance(model, lw.integrate(model, q, k * step * direction), pairs=pairs) for k in range(-2, 3)
    }
    smooth = np.zeros(4, dtype=int)
    for output in range(4):
        before2, before, here, after, after2 = (
            np.asarray(at[k][output]).reshape(60, -1) for k in range(-2, 3)
        )
        central = (after - before) / (2 * step)
        exact = (8 * (after - before) - (after2 - before2)) / (12 * step)
        bend = np.abs(after - 2 * here + before).max(axis=1) / step
        kinked = (bend > 1e-2) | (np.abs(exact - central).max(axis=1) > 1e-4)
        computed = np.asarray(J[output]).reshape(60, -1, 6) @ direction
        assert np.abs(computed - exact)[~kinked].max() < 1e-5
        smooth[output] = (~kinked).sum()
    assert (smooth > 50).all()
    weights = [rng.normal(size=np.shape(each)) for each in at[0]]
    pulled = lw.vjp(lw.distance, model, wrt="q", pairs=pairs)(q, *weights)[-1]
    summed = sum(
        np.einsum("nki,nk->ni", np.asarray(by_q).reshape(60, -1, 6), weight.reshape(60, -1))
        for by_q, weight in zip(J, weights)
    )
    np.testing.assert_allclose(pulled, summed, rtol=1e-9, atol=1e-9 * np.abs(summed).max())
    assert np.isfinite(summed).all()
