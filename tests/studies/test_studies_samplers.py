"""Samplers of studies: numbers follow from the seed and the sample's index, and have the distributions they
name.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwork as lw
from linkwork import studies
from linkwork.studies import distributions, low_discrepancy, philox
from linkwork.studies.quantities import Quantity
from linkwork.studies.samplers import Space

SIZES = {"mass": (3,), "load": (), "place": (2, 2)}
SAMPLES = 3000


def space(seed: int = 7, samples: int = SAMPLES) -> Space:
    described = {name: Quantity(shape, np.ones(shape), True) for name, shape in SIZES.items()}
    return Space(seed, samples, (described,))


def by_distribution(kind: type, **more: object) -> studies.Sampler:
    made = {
        "mass": studies.Scale(studies.Uniform(0.5, 2.0), shared=True),
        "load": studies.Normal(1.0, 0.1),
        "place": studies.Uniform(-1.0, [[1.0, 2.0], [3.0, 4.0]]),
    }
    sampler: studies.Sampler = kind(made, **more)
    sampler.prepare(space())
    return sampler


SAMPLERS = {
    "random": lambda: by_distribution(studies.Random),
    "latin hypercube": lambda: by_distribution(studies.LatinHypercube),
    "sobol": lambda: by_distribution(studies.Sobol),
    "saltelli": lambda: by_distribution(studies.Saltelli),
    "saltelli of random points": lambda: by_distribution(studies.Saltelli, base="random"),
    "grid": lambda: studies.Grid({"load": np.arange(60.0), "mass": np.ones((50, 3))}),
    "function": lambda: studies.FromFunction(["load"], lambda index, seed: {"load": seed + math.sqrt(index)}),
}


@pytest.fixture(autouse=True)
def _needs_scipy(request: pytest.FixtureRequest) -> None:
    if "sobol" in request.node.name or "saltelli" in request.node.name:
        pytest.importorskip("scipy")


@pytest.mark.parametrize("name", SAMPLERS)
def test_values_do_not_depend_on_how_samples_are_cut(name: str) -> None:
    sampler = SAMPLERS[name]()
    here = space()
    whole = sampler.assign(here, 0, sampler.draw(here, 0, SAMPLES))
    rng = np.random.default_rng(0)
    for first in (0, 1, 5, 1023, 2990):
        rows = min(int(rng.integers(1, 100)), SAMPLES - first)
        part = sampler.assign(here, 0, sampler.draw(here, first, rows))
        for word, values in part.items():
            assert values.tobytes() == np.ascontiguousarray(whole[word][first : first + rows]).tobytes()


def test_random_words_are_those_of_one_philox_stream() -> None:
    stream = np.random.Philox(key=philox.stream_key(3, "mass")).random_raw(4000)
    assert (philox.random_words(3, "mass", 0, 800, 5).ravel() == stream).all()
    assert (philox.random_words(3, "mass", 123, 10, 5).ravel() == stream[615:665]).all()


def test_quantities_have_streams_of_their_own() -> None:
    alone = studies.Random({"load": studies.Uniform()}).draw(space(), 0, 10)["load"]
    together = by_distribution(studies.Random).draw(space(), 0, 10)["load"]
    assert (alone == together).all()
    assert not (alone == studies.Random({"load": studies.Uniform()}).draw(space(seed=8), 0, 10)["load"]).any()


def test_numbers_far_out_are_those_of_the_counter() -> None:
    """The stream goes on beyond 2**64 words."""
    found = philox.uniforms(1, "x", 10**15, 3, 100_000)
    assert found.shape == (3, 100_000) and ((found > 0.0) & (found < 1.0)).all()
    assert (found[1] == philox.uniforms(1, "x", 10**15 + 1, 1, 100_000)[0]).all()


@given(st.integers(1, 5000), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_permutation_has_each_number_once(size: int, seed: int) -> None:
    found = low_discrepancy.permutation(seed, "x", np.arange(size, dtype=np.uint64), size)
    assert (np.sort(found) == np.arange(size)).all()


def test_latin_hypercube_has_one_sample_in_each_slice() -> None:
    drawn = by_distribution(studies.LatinHypercube).draw(space(), 0, SAMPLES)
    for u in drawn.values():
        for k in range(u.shape[1]):
            assert (np.sort((u[:, k] * SAMPLES).astype(int)) == np.arange(SAMPLES)).all()


def test_sobol_points_are_those_of_scipy() -> None:
    qmc = pytest.importorskip("scipy.stats").qmc
    expected = qmc.Sobol(5, scramble=False, bits=low_discrepancy.BITS).random(256)
    assert np.abs(low_discrepancy.sobol_points(5, 0, 256) - expected).max() <= 2.0**-53
    assert (low_discrepancy.sobol_points(5, 100, 7) == low_discrepancy.sobol_points(5, 0, 256)[100:107]).all()


def test_other_direction_numbers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    qmc = pytest.importorskip("scipy.stats").qmc

    class Other(qmc.Sobol):  # type: ignore[misc,name-defined]
        def random(self, *args: object, **named: object) -> object:
            return super().random(*args, **named)[::-1]

    monkeypatch.setattr(qmc, "Sobol", Other)
    with pytest.raises(lw.StudyError, match="direction numbers"):
        low_discrepancy._direction_numbers.__wrapped__(3)


def test_grid_has_all_combinations() -> None:
    values = {"load": [1.0, 2.0], "mass": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}
    sampler = studies.Grid(values)
    assert sampler.count(None) == 6
    drawn = sampler.draw(space(samples=6), 0, 6)
    expected = list(itertools.product(*values.values()))
    assert [(a, b.tolist()) for a, b in zip(drawn["load"], drawn["mass"])] == expected


def test_saltelli_changes_one_quantity_at_a_time() -> None:
    pytest.importorskip("scipy")
    sampler = by_distribution(studies.Saltelli)
    here = space(samples=500)
    drawn = sampler.draw(here, 0, 500)
    for k, name in enumerate(SIZES):
        a, b, changed = (drawn[name][role::5] for role in (0, 1, 2 + k))
        assert (changed == b).all() and not (a == b).any()
        others = [drawn[other][2 + k :: 5] == drawn[other][0::5] for other in SIZES if other != name]
        assert all(each.all() for each in others)


@pytest.mark.parametrize(
    ("distribution", "name", "arguments"),
    [
        (studies.Uniform(-1.0, 3.0), "uniform", (-1.0, 4.0)),
        (studies.LogUniform(0.1, 10.0), "loguniform", (0.1, 10.0)),
        (studies.Normal(1.0, 2.0), "norm", (1.0, 2.0)),
        (studies.TruncatedNormal(0.0, 1.0, -0.5, 2.0), "truncnorm", (-0.5, 2.0)),
        (studies.TruncatedNormal(0.0, 1.0, 3.0, 4.0), "truncnorm", (3.0, 4.0)),
        (studies.TruncatedNormal(0.0, 1.0, 9.0, 10.0), "truncnorm", (9.0, 10.0)),
        (studies.TruncatedNormal(0.0, 1.0, -31.0, -30.0), "truncnorm", (-31.0, -30.0)),
        (studies.LogNormal(2.0, 0.5), "lognorm", (0.5, 0.0, 2.0)),
        (studies.Exponential(3.0), "expon", (0.0, 3.0)),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, studies.Distribution) else None,
)
def test_quantiles_are_those_of_scipy(
    distribution: studies.Distribution, name: str, arguments: tuple[float, ...]
) -> None:
    stats = pytest.importorskip("scipy.stats")
    u = np.concatenate(
        [philox.uniforms(0, "u", 0, 500, 1)[:, 0], [1e-12, 1e-3, 0.075, 0.5, 0.925, 1.0 - 1e-9]]
    )
    expected = getattr(stats, name)(*arguments).ppf(u)
    np.testing.assert_allclose(distribution.quantile(u, None), expected, rtol=1e-9, atol=1e-12)


def test_the_normal_quantile_is_accurate() -> None:
    import mpmath

    u = np.array([2.0**-53, 1e-300, 1e-20, 1e-5, 0.02, 0.0749, 0.0751, 0.3, 0.5, 0.7, 0.95, 1.0 - 2.0**-53])
    found = distributions._kernel("normal")(u)
    for x, z in zip(u, found):
        with mpmath.workdps(60):
            expected = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(x) - 1) if x > 1e-10 else None
            if expected is not None:
                assert abs(z - expected) <= 2e-15 * max(1, abs(expected))
            else:
                assert abs(mpmath.ncdf(mpmath.mpf(float(z))) / mpmath.mpf(x) - 1) < 1e-12


def test_choice_takes_its_values_alike() -> None:
    u = philox.uniforms(0, "u", 0, 9000, 1)[:, 0]
    values, counts = np.unique(studies.Choice([1.0, 2.0, 5.0]).quantile(u, None), return_counts=True)
    assert values.tolist() == [1.0, 2.0, 5.0] and np.abs(counts - 3000).max() < 200
    for values in ([1.0, 2.0, 5.0], [7.0, 3.0]):  # in their order, each from an equal part of 0 to 1
        parts = (np.arange(len(values))[:, None] + np.array([0.0, 0.5, 1.0 - 1e-9])) / len(values)
        found = studies.Choice(values).quantile(parts.ravel(), None).reshape(parts.shape)
        assert np.array_equal(found, np.array(values)[:, None] * np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: studies.Uniform(2.0, 1.0),
        lambda: studies.Uniform(0.0, math.nan),
        lambda: studies.Normal(0.0, -1.0),
        lambda: studies.Normal("x"),
        lambda: studies.LogUniform(0.0, 1.0),
        lambda: studies.LogNormal(-1.0),
        lambda: studies.Exponential(0.0),
        lambda: studies.Choice([]),
        lambda: studies.Constant(math.inf),
        lambda: studies.Scale(2.0),
        lambda: studies.Random({"mass": 2.0}),
        lambda: studies.Random([studies.Uniform()]),
        lambda: studies.Grid({"mass": 3.0}),
        lambda: studies.Grid({}),
        lambda: studies.FromFunction("mass", len),
        lambda: studies.FromFunction(["mass"], None),
        lambda: studies.Saltelli({"mass": studies.Uniform()}, base="halton"),
    ],
)
def test_invalid_distributions_and_samplers_are_refused(make: object) -> None:
    with pytest.raises(lw.StudyError, match="expected"):
        make()  # type: ignore[operator]
