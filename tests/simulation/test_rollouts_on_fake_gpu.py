"""Rollouts of host arrays on a GPU: the same bits as on the CPU, and no thread waits for another's work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from fake_gpu import fake_gpu
from linkwork import studies
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM


def own_model(mass: float) -> Any:
    return lw.robots.chain(2).with_parameters({"mass": [mass, 1.0]})


def test_rollouts_have_the_bits_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model = own_model(1.7)
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(2, 5, 2))
    v[3] = np.nan
    options: dict[str, Any] = {"dt": 1e-2, "steps": 6, "record_every": 2}
    numbers = {"mass": rng.uniform(1.0, 2.0, (5, 2))}
    for tau in (None, np.ones(2), rng.normal(size=(5, 6, 2))):
        expected = lw.rollout(model, q, v, tau, parameters=numbers, **options)
        with fake_gpu(monkeypatch) as gpu:
            found = lw.rollout(model, q, v, tau, parameters=numbers, device="cuda", **options)
            acceleration = lw.forward_dynamics(model, q, v, np.ones(2), device="cuda")
        assert gpu.streams == {THREAD_STREAM}
        for name in ("q", "v", "status", "steps"):
            a, b = (np.asarray(getattr(each, name)) for each in (found, expected))
            assert a.shape == b.shape and np.array_equal(a, b, equal_nan=True), name
        assert np.array_equal(acceleration, lw.forward_dynamics(model, q, v, np.ones(2)), equal_nan=True)
        assert found.status.dtype.kind == "i" and found.status[3] == lw.Status.NOT_FINITE


def test_studies_have_the_bits_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = studies.Random({"mass": studies.Uniform(0.5, 2.0), "v": studies.Normal()})

    def study(device: str | None) -> lw.Study:
        task = studies.RolloutTask(1e-2, 3, device=device)
        outputs: dict[str, Any] = {"energy": studies.Final(lw.kinetic_energy), "v": "v"}
        means = [studies.Mean("energy"), studies.Extremes("energy"), studies.Variance("v")]
        return lw.Study(
            own_model(1.9), sampler, task, samples=1500, outputs=outputs, reductions=means, chunk=1024
        )

    expected = study(None).run(progress=False, workers=1).state_bytes()
    with fake_gpu(monkeypatch) as gpu:
        assert study("cuda").run(progress=False, workers=2).state_bytes() == expected
    assert gpu.streams == {THREAD_STREAM}
