"""Environments on a GPU: the states stay there, and what comes out is what the CPU gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw

pytest.importorskip("cuda.bindings", reason="no cuda-bindings")
pytest.importorskip("gymnasium", reason="no gymnasium")
torch = pytest.importorskip("torch", reason="no PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

MODEL = lw.robots.quadruped()


def environment(**how: Any) -> Any:
    around = MODEL.neutral()
    around[2] = 0.5
    action = lw.interop.gymnasium.joint_targets(MODEL, 20.0, 0.5, around=around)

    def begin(rng: np.random.Generator, count: int) -> Any:
        return np.tile(around, (count, 1)), 0.1 * rng.normal(size=(count, MODEL.nv))

    def randomise(rng: np.random.Generator, count: int) -> Any:
        return {"mass": MODEL.parameters()["mass"] * rng.uniform(0.8, 1.2, (count, 1))}

    return lw.interop.gymnasium.VectorEnv(
        MODEL, 64, action=action, reset=begin, randomise=randomise, reward=lambda w: w.v[:, 3], duration=0.3, dtype="float64",
        termination=lambda w: w.q[:, 2] < 0.3, **how,
    )  # fmt: skip


def played(env: Any, make: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    found = [env.reset(seed=3)]
    return found + [env.step(make(rng.uniform(-1.0, 1.0, (64, 12)))) for _ in range(30)]


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
@pytest.mark.parametrize("arrays", ["numpy", "torch", "jax", "cupy"])
def test_a_gpu_has_the_cpus_numbers(arrays: str, autoreset: str) -> None:
    make: Any = np.asarray
    kind: Any = np.ndarray
    if arrays == "torch":
        make, kind = (lambda x: torch.as_tensor(x, device="cuda")), torch.Tensor
    elif arrays == "jax":
        jax = pytest.importorskip("jax", reason="no JAX")
        jax.config.update("jax_enable_x64", True)
        make = jax.numpy.asarray
        kind = jax.Array
    elif arrays == "cupy":
        cupy = pytest.importorskip("cupy", reason="no CuPy")
        make = cupy.asarray
        kind = cupy.ndarray
    here = played(environment(autoreset=autoreset), np.asarray)
    there = played(environment(autoreset=autoreset, arrays=arrays, device="cuda"), make)
    for a, b in zip(here, there):
        assert all(isinstance(x, kind) for x in b[:-1])
        assert arrays != "torch" or all(x.is_cuda for x in b[:-1])
        host = [
            x.cpu().numpy() if arrays == "torch" else x.get() if arrays == "cupy" else np.asarray(x)
            for x in b[:-1]
        ]
        assert all(np.allclose(x, y, rtol=0.0, atol=1e-9) for x, y in zip(a[:-1], host))


def test_float32_stays_float32_on_the_gpu() -> None:
    env = lw.interop.gymnasium.VectorEnv(
        MODEL, 4096, arrays="torch", device="cuda", reward=lambda w: -w.v.square().sum(1)
    )
    env.reset(seed=0)
    for _ in range(5):
        observed, rewards, *_ = env.step(torch.zeros((4096, 12), device="cuda"))
    assert (
        observed.dtype == rewards.dtype == torch.float32
        and observed.is_cuda
        and torch.isfinite(observed).all()
    )
