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


HOIST = """<mujoco><worldbody><site name="w" pos="-1 0 .1"/>
  <body><joint name="s" type="slide" axis="0 .3 1"/><geom size=".1" mass="1"/><site name="l" pos="1 0 0"/></body>
  <body><joint axis="1 .2 0"/><geom name="d" type="cylinder" size=".3 .1" euler="90 0 0"/></body>
  <body pos="3 0 0"><joint type="ball" range="0 30"/><geom size=".1" pos="0 0 -.3" mass="1"/></body></worldbody>
  <tendon><spatial name="r" range="0 1.62" frictionloss=".3"><site site="w"/><geom geom="d"/><site site="l"/></spatial></tendon>
  <actuator><muscle tendon="r" lengthrange=".5 3" force="3"/></actuator></mujoco>"""


@pytest.mark.slow
def test_limits_muscles_and_tendons_have_the_bits_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    model = lw.load(HOIST, strict=True)
    rng = np.random.default_rng(0)
    q = np.array([model.random_state(rng)[0] for _ in range(3)])
    q[:, 0] = 0.1
    v = 3.0 * rng.normal(size=(3, model.nv))
    drive = lw.Controls(rng.uniform(size=(3, 1)), activations=np.full((3, 1), 0.2))
    options: dict[str, Any] = {"dt": 1e-3, "steps": 200, "record_every": 100}
    expected = lw.rollout(model, q, v, drive, **options)
    assert (expected.status == lw.Status.OK).all() and np.abs(expected.q[:, -1, 0] - 0.1).max() > 0.05
    with fake_gpu(monkeypatch):
        found = lw.rollout(model, q, v, drive, device="cuda", **options)
    assert np.array_equal(found.q, expected.q) and np.array_equal(found.v, expected.v)


def reduced(
    model: Any, sampler: Any, outputs: dict[str, Any], device: str | None, workers: int, **options: Any
) -> Any:
    task = studies.RolloutTask(1e-2, 3, device=device, **options)
    means = [studies.Mean(name) for name in outputs]
    study = lw.Study(model, sampler, task, samples=1500, outputs=outputs, reductions=means, chunk=1024)
    return study.run(progress=False, workers=workers)


VARIED: dict[str, Any] = {
    "parameters": {"mass": studies.Uniform(0.5, 2.0), "v": studies.Normal()},
    "states": {"dq": studies.Normal(), "v": studies.Choice([0.0, 1.0, 1e300])},
}


@pytest.mark.parametrize("name", VARIED)
def test_studies_have_the_bits_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trajectories stay on the GPU; what comes back are outputs, and how many steps rows took."""
    sampler = studies.Random(VARIED[name])
    outputs: dict[str, Any] = {
        "energy": studies.Final(lw.kinetic_energy),
        "tip": studies.Final(lw.frame_pose, {"frame": "body_1"}),
        "v": "v",
        "steps": "steps",
    }
    expected = reduced(own_model(1.9), sampler, outputs, None, 1)
    with fake_gpu(monkeypatch) as gpu:
        found = reduced(own_model(1.9), sampler, outputs, "cuda", 2)
    assert found.state_bytes() == expected.state_bytes() and found.status == expected.status
    assert gpu.streams == {THREAD_STREAM}
    numbers = 1 + 16 + 2 + 2  # energy, pose, v; steps, for the status and for the output
    failed = 1500 - found.status[lw.Status.OK]
    assert gpu.fetched < 8 * (1600 * numbers + 100 * failed)


@pytest.mark.parametrize("output", [lambda batch: batch.q[:, -1, 0] * batch.v[:, 0, 0], "trajectory_q"])
def test_any_output_has_the_bits_of_the_cpu(output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = studies.Random({"v": studies.Normal()})
    expected = reduced(own_model(2.1), sampler, {"x": output}, None, 1)
    with fake_gpu(monkeypatch):
        found = reduced(own_model(2.1), sampler, {"x": output}, "cuda", 1)
    assert found.state_bytes() == expected.state_bytes()


TASKS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "PD": (own_model(2.3), {"pd@kp": studies.Uniform(1.0, 9.0)}, {"tau": lw.PD(1.0, 0.1, np.ones(2))}),
    "policy": (
        own_model(2.5),
        {"input@gain": studies.Uniform(np.zeros(2), 2.0)},
        {"policy": lambda q, v, t, inputs: 1.0 - inputs["gain"] * v},
    ),
    "forces": (own_model(2.7), {"tau": studies.Normal(np.zeros((3, 2)), 1.0)}, {}),
}


@pytest.mark.parametrize("name", TASKS)
def test_any_task_has_the_bits_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, varied, options = TASKS[name]
    outputs: dict[str, Any] = {"energy": studies.Final(lw.kinetic_energy), "q": "q"}
    expected = reduced(model, studies.Random(varied), outputs, None, 1, **options)
    with fake_gpu(monkeypatch):
        found = reduced(model, studies.Random(varied), outputs, "cuda", 1, **options)
    assert found.status == expected.status == {lw.Status.OK: 1500}
    assert found.state_bytes() == expected.state_bytes()


def test_joint_limits_have_the_bits_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lw.robots.arm().with_parameters({"damping": np.full(7, 0.3)})
    results = []
    for device in (None, "cuda"):
        task = studies.RolloutTask(1e-2, 2, device=device)
        varied = studies.Random({"q": studies.Uniform(-2.9, 2.9)})
        outputs = {"energy": studies.Final(lw.kinetic_energy)}
        study = lw.Study(model, varied, task, samples=60, outputs=outputs, reductions=studies.Mean("energy"))
        with fake_gpu(monkeypatch):
            results.append(study.run(progress=False))
    assert results[0].state_bytes() == results[1].state_bytes() and results[0].status == results[1].status


def test_loops_have_the_bits_of_rollouts_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lw.robots.five_bar()
    sampler = studies.Random({"dq": studies.Normal(0.0, 0.01), "v": studies.Normal()})
    task = studies.RolloutTask(1e-2, 3, q=model.random_state(1)[0], device="cuda")
    outputs: dict[str, Any] = {"energy": studies.Final(lw.kinetic_energy), "q": "q"}
    study = lw.Study(model, sampler, task, samples=100, outputs=outputs)
    with fake_gpu(monkeypatch):
        rows = study.evaluate(0, 100)
        q = lw.integrate(model, task.q, rows.values["dq"])
        motion = lw.rollout(model, q, rows.values["v"], dt=1e-2, steps=3, device="cuda")
    assert (rows.status == lw.Status.OK).all() and (rows.outputs["q"] == motion.q[:, -1]).all()
    assert (rows.outputs["energy"] == lw.kinetic_energy(model, motion.q[:, -1], motion.v[:, -1])).all()
