"""Sampling and reductions on a GPU: their CUDA text, compiled by the host compiler, has the bits of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from fake_gpu import fake_gpu
from linkwork import studies
from linkwork.compiler.runtime.cuda.device_arrays import DeviceScope
from linkwork.studies.cuda.sampling import DeviceDraws, draws_on_device
from linkwork.studies.cuda.summaries import DeviceOutput, summarizes_on_device
from linkwork.studies.reductions.base import Blocks

DISTRIBUTIONS: dict[str, Any] = {
    "uniform": studies.Uniform([-1.0, 2.0, 0.0], [1.0, 3.0, 0.5]),
    "normal": studies.Normal(0.1, [0.0, 1.0, 2.0]),
    "log uniform": studies.LogUniform(0.1, 10.0),
    "log normal": studies.LogNormal(2.0, [0.1, 0.2, 0.3]),
    "truncated": studies.TruncatedNormal(0.0, 1.0, [-1.0, 5.0, -30.0], [2.0, 6.0, -29.0]),
    "exponential": studies.Exponential(3.0),
    "choice": studies.Choice([1.0, 2.0]),
    "constant": studies.Constant(-0.0),
    "offset": studies.Offset(studies.Normal(0.0, 0.1)),
    "shared offset": studies.Offset(studies.Normal(0.0, 0.1), shared=True),
    "shared, of components": studies.Offset(studies.LogNormal([1.0, 2.0, 3.0], 0.1), shared=True),
    "scale": studies.Scale(studies.Uniform(0.5, 2.0)),
}


def study_of(sampler: Any, samples: int = 4000, **options: Any) -> Any:
    """A study of a model of its own, since kernels are kept as long as it is."""
    model = lw.robots.chain(3).with_parameters({"mass": [1.3, 1.1, samples]})
    task = studies.RolloutTask(1e-2, 2, v=[0.5, -0.0, 2.0], device="cuda")
    return lw.Study(model, sampler, task, samples=samples, **options)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("first, rows", [(0, 1), (3, 70), (1025, 300)])
def test_draws_have_the_bits_of_the_host(
    name: str, first: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(studies.Random({"v": DISTRIBUTIONS[name], "gravity": studies.Normal()}))
    assert draws_on_device(study)
    drawn = study.sampler.draw(study.space, first, rows)
    expected = study.sampler.assign(study.space, 0, drawn)
    with fake_gpu(monkeypatch), DeviceScope() as scope:
        draws = DeviceDraws(study, scope, first, rows)
        draws.check()
        for quantity, x in draws.values.items():
            assert x.get().tobytes() == np.ascontiguousarray(expected[quantity]).tobytes()


def test_the_first_invalid_sample_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(studies.Random({"mass": studies.Normal(1.0, 0.3)}))
    values = study.sampler.assign(study.space, 0, study.sampler.draw(study.space, 0, 4000))["mass"]
    sample = int(np.argmax((values < 0.0).any(axis=1)))
    with fake_gpu(monkeypatch), DeviceScope() as scope:
        draws = DeviceDraws(study, scope, 0, 4000)
        with pytest.raises(lw.StudyError, match=f"in sample {sample}"):
            draws.check()


REDUCTIONS: dict[str, Any] = {
    "mean": studies.Mean("x"),
    "variance": studies.Variance("x"),
    "quantiles": studies.Quantiles("x"),
    "coarse": studies.Quantiles("x", relative_error=0.5),
    "extremes": studies.Extremes("x", 5),
    "many extremes": studies.Extremes("x", 64),
}


def outputs_of(kind: str, rows: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, width))
    if kind == "ties":
        return np.round(x) * np.where(rng.random(x.shape) < 0.5, 1.0, -1.0)
    if kind == "not finite":
        x[rng.random(rows) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
    if kind == "wide range":
        return x * 10.0 ** rng.integers(-300, 300, x.shape)
    return 1e9 + x if kind == "offset" else x


@pytest.mark.parametrize("kind", ["normal", "ties", "not finite", "wide range", "offset"])
@pytest.mark.parametrize(
    "rows, width, failed", [(1, 1, 0.0), (700, 1, 0.3), (3 * 1024 + 5, 2, 0.0), (2100, 1, 1.0)]
)
def test_summaries_have_the_bits_of_the_host(
    kind: str, rows: int, width: int, failed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    x = outputs_of(kind, rows, width)
    accepted = rng.random(rows) >= failed
    blocks = -(-rows // 1024)
    missing = blocks * 1024 - rows

    def in_blocks(values: np.ndarray) -> np.ndarray:
        padding = np.zeros((missing, *values.shape[1:]), values.dtype)
        return np.concatenate([values, padding]).reshape(blocks, 1024, *values.shape[1:])

    with fake_gpu(monkeypatch), DeviceScope() as scope:
        output = DeviceOutput(scope, scope.upload(x), accepted, 5 * 1024)
        for begin in (0, 1, 2):  # a node of one block, or of two
            count = 2 if begin == 2 else 1
            if blocks < begin + count:
                continue
            part = slice(begin, begin + count)
            real = in_blocks(np.ones(rows, bool))[part]
            index = 5 * 1024 + np.arange(blocks * 1024).reshape(blocks, 1024)
            expected_of = Blocks(index[part], real, in_blocks(accepted)[part], {"x": in_blocks(x)[part]})
            for name, reduction in REDUCTIONS.items():
                if not summarizes_on_device(reduction, (width,)):
                    assert width > 1 and "extremes" in name
                    continue
                with np.errstate(all="ignore"):
                    expected = reduction.summarize(expected_of)
                    found = output.summarize(reduction, (1024 * begin, min(1024 * (begin + count), rows)))
                assert found.keys() == expected.keys()
                for key, values in expected.items():
                    assert found[key].dtype == values.dtype and found[key].shape == values.shape, (name, key)
                    assert found[key].tobytes() == values.tobytes(), (name, key)


def test_a_study_fetches_summaries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    varied = {"mass@link_1": studies.Uniform(0.5, 2.0), "dq": studies.Normal(), "v": studies.Normal()}
    model = lw.robots.chain(3).with_parameters({"mass": [1.3, 1.1, 2.1]})
    varied = {f"mass@{model.bodies[1].name}": varied.pop("mass@link_1"), **varied}
    options: dict[str, Any] = {
        "samples": 3000,
        "outputs": {"energy": studies.Final(lw.kinetic_energy), "v": "v"},
        "reductions": [
            *(kind("energy") for kind in (studies.Mean, studies.Variance, studies.Quantiles, studies.Extremes)),
            studies.Mean("v"), studies.SuccessRate(),
        ],
    }  # fmt: skip
    results = {}
    for device, chunk in ((None, None), ("cuda", 1024), ("cuda", None)):
        task = studies.RolloutTask(1e-2, 3, device=device)
        study = lw.Study(model, studies.Random(varied), task, chunk=chunk, **options)
        with fake_gpu(monkeypatch) as gpu:
            results[device, chunk] = study.run(progress=False, workers=2).state_bytes()
            assert device is None or 8 * 2 * 3000 <= gpu.fetched < 8 * 3 * 3000 + 30_000 * (
                1 + (chunk or 0) / 512
            )
    assert len(set(results.values())) == 1


def test_arrays_are_indexed_by_the_last_axis_as_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(24.0).reshape(4, 6)
    keys: list[Any] = [
        (..., -3),
        (..., 0),
        (..., slice(None, -3)),
        (slice(None), 2),
        (slice(None), slice(1, 5)),
    ]
    with fake_gpu(monkeypatch), DeviceScope() as scope:
        for key in keys:
            part = scope.upload(x)[key]
            assert part.shape == x[key].shape
            np.testing.assert_array_equal(part.get(), x[key])


def test_studies_of_joints_with_limits_have_the_bits_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for device in (None, "cuda"):
        task = studies.RolloutTask(1e-3, 3, device=device)
        arm = lw.robots.arm()
        study = lw.Study(
            arm,
            studies.Random({"q": studies.Uniform(-1.0, 1.0)}),
            task,
            samples=64,
            outputs={"energy": studies.Final(lw.kinetic_energy), "v": "v"},
            reductions=[studies.Mean("energy"), studies.Extremes("energy"), studies.Mean("v")],
            chunk=32,
        )
        if device is None:
            results.append(study.run(progress=False))
            continue
        with fake_gpu(monkeypatch):
            results.append(study.run(progress=False))
    expected, found = results
    assert found.status == expected.status and found.state_bytes() == expected.state_bytes()
