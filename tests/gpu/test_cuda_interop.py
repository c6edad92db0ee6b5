"""JAX and PyTorch on GPU arrays: the same bits as on the CPU, under their transformations, with gradients.

`make test-gpu` runs them on a machine that has a GPU; elsewhere they are skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import TargetError

pytest.importorskip("cuda.bindings", reason="no cuda-bindings")

MODELS = {"quadruped": lw.robots.quadruped, "tello": lw.robots.tello}


def arrays(model: lw.Model, rows: int, dtype: str) -> list[np.ndarray]:
    states = [model.random_state(k) for k in range(rows)]
    tau = np.random.default_rng(0).standard_normal((rows, model.nv))
    return [
        np.array([s[0] for s in states], dtype),
        0.1 * np.array([s[1] for s in states], dtype),
        tau.astype(dtype),
    ]


@pytest.fixture(params=MODELS)
def model(request: Any) -> lw.Model:
    return MODELS[request.param]()


class TestTorch:
    @pytest.fixture(autouse=True)
    def gpu(self) -> Any:
        self.torch = pytest.importorskip("torch")
        if not self.torch.cuda.is_available():
            pytest.skip("no GPU for PyTorch")

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_values_and_gradients_are_those_of_the_cpu(self, model: lw.Model, dtype: str) -> None:
        f = lw.interop.torch.function(lw.forward_dynamics, model)
        found = {}
        for device in ("cpu", "cuda"):
            given = [
                self.torch.tensor(x, device=device, requires_grad=True) for x in arrays(model, 100, dtype)
            ]
            a = f(*given)
            (a * a).sum().backward()
            assert a.device.type == device
            found[device] = [x.detach().cpu().numpy() for x in (a, *(x.grad for x in given))]
        for a, b in zip(found["cpu"], found["cuda"], strict=True):
            assert a.tobytes() == b.tobytes()

    def test_vmap_and_one_row_for_all(self) -> None:
        model = lw.robots.quadruped()
        f = lw.interop.torch.function(lw.forward_dynamics, model)
        q, v, tau = (self.torch.tensor(x, device="cuda") for x in arrays(model, 40, "float64"))
        assert self.torch.equal(self.torch.func.vmap(f, in_dims=(0, 0, None))(q, v, tau[0]), f(q, v, tau[0]))
        grad = self.torch.func.grad(lambda t: f(q, v, t).square().sum())(tau[0])
        assert grad.shape == tau[0].shape and grad.is_cuda

    def test_tensors_on_two_devices(self) -> None:
        model = lw.robots.quadruped()
        q, v, tau = (self.torch.tensor(x, device="cuda") for x in arrays(model, 3, "float64"))
        with pytest.raises(TargetError, match="v is on cpu, another tensor on cuda"):
            lw.interop.torch.function(lw.forward_dynamics, model)(q, v.cpu(), tau)


class TestJax:
    @pytest.fixture(autouse=True)
    def gpu(self) -> Any:
        self.jax = pytest.importorskip("jax")
        if self.jax.default_backend() != "gpu":
            pytest.skip("no GPU for JAX")
        self.jax.config.update("jax_enable_x64", True)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("rows", [3, 100])
    def test_values_and_gradients_are_those_of_the_cpu(self, model: lw.Model, rows: int, dtype: str) -> None:
        f = lw.interop.jax.function(lw.forward_dynamics, model)
        given = arrays(model, rows, dtype)

        def all_of(q: Any, v: Any, tau: Any) -> Any:
            def cost(*x: Any) -> Any:
                a = f(*x)
                return (a * a).sum(), a

            gradients, a = self.jax.grad(cost, argnums=(0, 1, 2), has_aux=True)(q, v, tau)
            return a, *gradients

        found = []
        for kind in ("cpu", "gpu"):
            device = self.jax.devices(kind)[0]
            found.append(self.jax.jit(all_of)(*(self.jax.device_put(x, device) for x in given)))
            assert all(x.devices() == {device} for x in found[-1])
        for a, b in zip(*found, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()

    def test_vmap_scan_and_jvp(self) -> None:
        jax, model = self.jax, lw.robots.quadruped()
        f = lw.interop.jax.function(lw.forward_dynamics, model)
        q, v, tau = arrays(model, 64, "float64")

        def rolled(q: Any, v: Any) -> Any:
            def step(v: Any, _: Any) -> Any:
                v = v + 1e-3 * jax.vmap(f, in_axes=(0, 0, None))(q, v, tau[0])
                return v, v.sum()

            return jax.lax.scan(step, v, None, length=20)[0]

        here, there = (
            jax.jit(lambda q, v: jax.jvp(rolled, (q, v), (0.1 * q, v)))(
                *(jax.device_put(x, d) for x in (q, v))
            )
            for d in (jax.devices("cpu")[0], jax.devices("gpu")[0])
        )
        for a, b in zip(here, there, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-9)
