"""Reductions of studies: right numbers, and the same bits however samples are cut and in which order parts
arrive.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import linkwork as lw
from linkwork import studies
from linkwork.studies.accumulate import BLOCK, MergeTree, block_size, sum_blocks, tree_nodes
from linkwork.studies.encoding import decode_nodes, encode_nodes
from linkwork.studies.reductions.ordered import _bucket_of, _middle_of
from linkwork.studies.rows import Rows, summarize

SAMPLES = 9000


def numbers(samples: int = SAMPLES) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=samples) * 10.0 ** rng.integers(-3, 4, samples)
    x[rng.integers(0, samples, 20)] = np.nan
    x[rng.integers(0, samples, 20)] = 0.0
    x[7], x[4000] = x[5], x[5]
    return {
        "x": x,
        "wide": rng.normal(size=(samples, 3)) + 1e6,
        "fell": (rng.uniform(size=samples) < 0.1).astype(float),
    }


def failed(samples: int = SAMPLES) -> np.ndarray:
    return np.random.default_rng(2).uniform(size=samples) < 0.05


def reduced(
    reduction: studies.Reduction, chunk: int, order: int = 0, group: int = 1, outputs: Any = None
) -> Any:
    """Return the result of a reduction over chunks that arrive in some order, and the bytes of its summary."""
    outputs = numbers() if outputs is None else outputs
    samples = len(next(iter(outputs.values())))
    block = block_size(group)
    study: Any = SimpleNamespace(
        block=block, accepted=(0,), summaries=(reduction,), samples=samples, sampler=None
    )
    chunk = -(-chunk // block) * block
    starts = list(range(0, samples, chunk))
    np.random.default_rng(order).shuffle(starts)
    tree: MergeTree[Any] = MergeTree(lambda a, b: [reduction.merge(a[0], b[0])])
    for first in starts:
        part = slice(first, min(first + chunk, samples))
        index = np.arange(samples)[part]
        status = np.where(failed(samples)[part], 3, 0)
        rows = Rows(index, 0 * index, status, 0 * index, {}, {name: x[part] for name, x in outputs.items()})
        for level, number, states in decode_nodes(encode_nodes(summarize(study, rows))):
            tree.add(level, number, states)
    state = tree.total()[0]  # type: ignore[index]
    shape = outputs[reduction.outputs[0]].shape[1:] if reduction.outputs else ()
    return reduction.result(state, shape), b"".join(np.ascontiguousarray(x).tobytes() for x in state.values())


REDUCTIONS = [
    studies.Mean("x"),
    studies.Mean("wide"),
    studies.Variance("wide"),
    studies.Histogram("x", [-10.0, -1.0, 0.0, 1.0, 100.0]),
    studies.Histogram("wide", np.linspace(1e6 - 4, 1e6 + 4, 30)),
    studies.Quantiles("x"),
    studies.Quantiles("wide", method="exact"),
    studies.Extremes("x", 5),
    studies.SuccessRate("fell"),
    studies.SuccessRate(),
]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda each: each.label)
def test_bits_do_not_depend_on_chunks_or_their_order(reduction: studies.Reduction) -> None:
    first = reduced(reduction, SAMPLES)[1]
    for order, chunk in enumerate((1, 2000, 3 * BLOCK, 4096)):
        assert reduced(reduction, chunk, order)[1] == first


def kept(name: str) -> np.ndarray:
    x = numbers()[name][~failed()]
    finite: np.ndarray = x[np.isfinite(x.reshape(len(x), -1)).all(axis=1)]
    return finite


def test_moments_are_those_of_exact_sums() -> None:
    x = kept("x")
    mean, _ = reduced(studies.Mean("x"), 2048)
    assert mean.count == len(x) and mean.excluded == SAMPLES - len(x)
    assert abs(mean.mean - math.fsum(x) / len(x)) <= 2.0**-50 * abs(math.fsum(x) / len(x))
    variance, _ = reduced(studies.Variance("wide"), 2048)
    wide = kept("wide")
    np.testing.assert_allclose(variance.variance, (wide - 1e6).var(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(variance.std, np.sqrt(variance.variance))
    np.testing.assert_allclose(mean.standard_error, np.sqrt(x.var(ddof=1) / len(x)), rtol=1e-12)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=70))
@example([1e16, 1.0, -1e16, 1.0])
@example([3e20, 0.1, 0.2, -3e20, 1.0, 1e-8])
@settings(max_examples=60, deadline=None)
def test_block_sums_are_compensated(values: list[float]) -> None:
    values = [x / len(values) for x in values]
    high, low = sum_blocks(np.array(values)[None, :, None])
    found = math.fsum([high[0, 0], low[0, 0]])
    exact = math.fsum(values)
    assert abs(found - exact) <= 2.0**-95 * sum(map(abs, values)) + 2.0**-52 * abs(exact) + 1e-300


def test_histograms_are_those_of_numpy() -> None:
    edges = np.array([-10.0, -1.0, 0.0, 1.0, 100.0])
    found, _ = reduced(studies.Histogram("x", edges), 1)
    x = kept("x")
    assert found.counts.tolist() == np.histogram(x, edges)[0].tolist()
    assert (found.below, found.above) == ((x < -10.0).sum(), (x > 100.0).sum())
    wide, _ = reduced(studies.Histogram("wide", [1e6 - 1, 1e6, 1e6 + 1]), 1)
    assert wide.counts.shape == (3, 2) and wide.below.shape == (3,)
    assert (wide.counts.sum(axis=1) + wide.below + wide.above == len(kept("wide"))).all()
    assert reduced(studies.Histogram("x", [0, 1]), 1, outputs={"x": np.ones(20)})[0].counts.tolist() == [
        20 - failed(20).sum()
    ]


@pytest.mark.parametrize("kind", [studies.Mean, studies.Quantiles, studies.Extremes, studies.Variance, None])
def test_every_reduction_counts_what_it_leaves_out(kind: Any) -> None:
    """Samples that failed, or whose output is not finite, are `excluded`, also where chunks are merged."""
    reduction = studies.Histogram("x", [-1.0, 1.0]) if kind is None else kind("x")
    for chunk in (1024, SAMPLES):
        found, _ = reduced(reduction, chunk)
        assert (found.count, found.excluded) == (len(kept("x")), SAMPLES - len(kept("x")))


def test_quantiles_are_those_of_numpy() -> None:
    p = [0.0, 0.001, 0.25, 0.5, 0.999, 1.0]
    x = kept("x")
    expected = np.quantile(x, p, method="inverted_cdf")
    exact, _ = reduced(studies.Quantiles("x", p, method="exact"), 1)
    assert exact.values.tolist() == expected.tolist() and exact.relative_error == 0.0
    for error in (0.1, 1e-3, 1e-5):
        sketch, _ = reduced(studies.Quantiles("x", p, relative_error=error), 1)
        assert (np.abs(sketch.values - expected) <= error * np.abs(expected)).all()
        assert sketch.count == len(x)
    largest = np.finfo(float).max
    bits = studies.Quantiles("x").bucket_bits
    assert abs(_middle_of(_bucket_of(np.array([largest]), bits), bits)[0] / largest - 1.0) <= 1e-3


def test_extremes_name_their_samples() -> None:
    found, _ = reduced(studies.Extremes("x", 4), 2048)
    x = np.where(failed(), np.nan, numbers()["x"])
    index = np.flatnonzero(np.isfinite(x))
    order = index[np.lexsort((index, x[index]))]
    assert found.smallest_samples.tolist() == order[:4].tolist()
    largest = index[np.lexsort((index, -x[index]))]
    assert found.largest_samples.tolist() == largest[:4].tolist()
    assert (found.smallest == x[found.smallest_samples]).all() and (
        found.largest == x[found.largest_samples]
    ).all()


def test_of_equal_extremes_the_first_samples_are_kept() -> None:
    values = {"x": np.tile([0.0, 1.0], 3000)}
    found, _ = reduced(studies.Extremes("x", 3), 1, outputs=values)
    alive = ~failed(6000)
    assert found.largest_samples.tolist() == [k for k in range(1, 6000, 2) if alive[k]][:3]


def test_success_rates_have_wilson_intervals() -> None:
    stats = pytest.importorskip("scipy.stats")
    for reduction, successes, count in (
        (studies.SuccessRate(), (~failed()).sum(), SAMPLES),
        (studies.SuccessRate("fell"), kept("fell").sum(), SAMPLES),
        (studies.SuccessRate("fell", failed="ignore"), kept("fell").sum(), (~failed()).sum()),
    ):
        found, _ = reduced(reduction, 1)
        assert (found.successes, found.count) == (int(successes), int(count))
        expected = stats.binomtest(int(successes), int(count)).proportion_ci(method="wilson")
        np.testing.assert_allclose((found.low, found.high), expected, rtol=1e-12)


def test_no_accepted_sample_gives_nan() -> None:
    nothing = {"x": np.full(50, np.nan)}
    assert math.isnan(reduced(studies.Mean("x"), 1, outputs=nothing)[0].mean)
    assert np.isnan(reduced(studies.Quantiles("x"), 1, outputs=nothing)[0].values).all()
    assert len(reduced(studies.Extremes("x"), 1, outputs=nothing)[0].largest) == 0


@pytest.mark.parametrize("base", ["random", "sobol"])
def test_sobol_indices_of_the_ishigami_function(base: str) -> None:
    if base == "sobol":
        pytest.importorskip("scipy")
    names = ("a", "b", "c")
    sampler = studies.Saltelli({name: studies.Uniform(-np.pi, np.pi) for name in names}, base=base)
    from linkwork.studies.quantities import Quantity
    from linkwork.studies.samplers import Space

    samples = 5 * 16384
    here = Space(0, samples, ({name: Quantity((), None) for name in names},))
    values = sampler.assign(here, 0, sampler.draw(here, 0, samples))
    a, b, c = (values[name] for name in names)
    x = np.sin(a) + 7.0 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a) + 1e4
    reduction = studies.SobolIndices("x")
    object.__setattr__(reduction, "_names", names)
    found, bits = reduced(reduction, 1, group=5, outputs={"x": x})
    assert reduced(reduction, 7000, 1, group=5, outputs={"x": x})[1] == bits
    lost = failed(samples).reshape(-1, 5).any(axis=1).sum()
    assert found.groups == samples // 5 - lost and found.excluded == lost
    variance = 0.5 + 49 / 8 + 0.1 * np.pi**4 / 5 + 0.01 * np.pi**8 / 18
    np.testing.assert_allclose(found.variance, variance, rtol=0.03)
    np.testing.assert_allclose(found.first, [0.3139, 0.4424, 0.0], atol=0.03)
    np.testing.assert_allclose(found.total, [0.5576, 0.4424, 0.2437], atol=0.03)


@given(st.integers(0, 200), st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_nodes_cover_blocks_once(first: int, count: int) -> None:
    covered = [
        k
        for level, number in tree_nodes(first, first + count)
        for k in range(number << level, (number + 1) << level)
    ]
    assert covered == list(range(first, first + count))


def test_the_tree_keeps_few_nodes() -> None:
    tree: MergeTree[int] = MergeTree(lambda a, b: a + b)
    most = 0
    for k in range(1, 4096):  # block 0 is late
        tree.add(0, k, 1)
        most = max(most, len(tree))
    tree.add(0, 0, 1)
    assert most <= 24 and tree.total() == 4096 and len(tree) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: studies.Histogram("x", [1.0, 0.0]),
        lambda: studies.Histogram("x", [1.0]),
        lambda: studies.Quantiles("x", [1.5]),
        lambda: studies.Quantiles("x", method="guess"),
        lambda: studies.Quantiles("x", relative_error=0.0),
        lambda: studies.Extremes("x", 0),
        lambda: studies.SuccessRate("x", failed="maybe"),
    ],
)
def test_invalid_reductions_are_refused(make: Any) -> None:
    with pytest.raises(lw.StudyError, match="expected"):
        make()


def test_damaged_summaries_are_refused() -> None:
    data = encode_nodes([(0, 0, [{"x": np.arange(3.0)}])])
    assert decode_nodes(data)[0][2][0]["x"].tolist() == [0.0, 1.0, 2.0]
    for bad in (data[:-1], data + b"1", data.replace(b"<f8", b"|O8"), b"", b"{}\n"):
        with pytest.raises(lw.StudyError, match="damaged"):
            decode_nodes(bad)
