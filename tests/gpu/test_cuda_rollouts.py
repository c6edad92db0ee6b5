"""Rollouts on a GPU: the CPU's bits, also of loops, and trajectories in the library of the states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from planar_bars import crank_states, four_bar

pytest.importorskip("cuda.bindings", reason="no cuda-bindings")
cupy = pytest.importorskip("cupy", reason="no CuPy")
try:
    cupy.cuda.runtime.getDeviceCount()
except Exception:
    pytest.skip("no GPU", allow_module_level=True)


def states(model: lw.Model, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    found = [model.random_state(k) for k in range(8)]
    q, v = (np.array([found[k % 8][n] for k in range(rows)]) for n in range(2))
    return q, v + 0.01 * rng.standard_normal(v.shape)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_same_bits_as_the_cpu(integrator: str) -> None:
    model = lw.robots.quadruped()
    q, v = states(model, 70)
    how: dict[str, Any] = {"dt": 1e-3, "steps": 50, "record_every": 20, "integrator": integrator}
    tau = np.random.default_rng(1).standard_normal((70, 50, model.nv))
    for forces in (
        (None, tau[:, 0], tau, lw.PD(5.0, 0.1, q[0])) if integrator != "rk4" else (None,)
    ):  # long kernels
        wanted = lw.rollout(model, q, v, forces, **how)
        found = lw.rollout(model, q, v, forces, device="cuda", **how)
        assert np.array_equal(found.q, wanted.q) and np.array_equal(found.v, wanted.v)
        assert np.array_equal(found.status, wanted.status) and np.array_equal(found.steps, wanted.steps)
    there = lw.rollout(model, cupy.asarray(q), cupy.asarray(v), **how)
    assert isinstance(there.q, cupy.ndarray) and np.array_equal(
        there.q.get(), lw.rollout(model, q, v, **how).q
    )


def test_rows_stop_alone() -> None:
    model = lw.robots.arm()
    q, v = states(model, 40)
    v[7, 0] = np.inf
    tau = np.zeros((40, 6, model.nv))
    tau[3, 4, 0] = np.nan
    found = lw.rollout(model, q, v, tau, dt=1e-3, steps=6, device="cuda")
    wanted = lw.rollout(model, q, v, tau, dt=1e-3, steps=6)
    assert np.array_equal(found.q, wanted.q, equal_nan=True)
    assert list(found.status) == list(wanted.status) and list(found.steps) == list(wanted.steps)


def test_loops_stay_closed() -> None:
    model = lw.robots.planar_leg_linkage()
    q, v = states(model, 33)
    found = lw.rollout(model, q, v, dt=1e-3, steps=20, device="cuda")
    wanted = lw.rollout(model, q, v, dt=1e-3, steps=20)
    good = (np.asarray(found.status) == 0) & (wanted.status == 0)
    assert good.any()
    assert np.allclose(found.q[good], wanted.q[good], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("library", ["numpy", "cupy", "torch", "jax"])
def test_rows_say_why_they_stopped(library: str) -> None:
    """As on the CPU: coordinates that turn singular, loops that are open, springs too stiff for the step, no
    numbers.
    """
    put: Any = np.asarray
    if library != "numpy":
        module = pytest.importorskip(library)
        put = {"cupy": cupy.asarray, "torch": lambda x: module.as_tensor(x, device="cuda")}.get(library)
        if library == "jax":
            module.config.update("jax_enable_x64", True)
            put = module.numpy.asarray
    model = four_bar(0.3, 1.0, 0.8, 1.0, gravity=0.0).with_independent("rocker")
    regular = crank_states(np.array([0.7, 2.0]))
    v = np.array(
        [lw.spanning_velocity(four_bar(0.3, 1.0, 0.8, 1.0), q, [w])[2] for q, w in zip(regular, (6.0, 1e-3))]
    )
    q = np.array([regular[0], regular[1], regular[1] + 0.01, regular[1] * np.nan])
    v = v[[0, 1, 1, 1], None]
    how: dict[str, Any] = {
        "dt": 2e-3,
        "steps": 800,
        "record_every": 40,
        "contacts": lw.Contacts(ground=None),
    }  # in one chart
    wanted = lw.rollout(model, q, v, **how)
    for tau in (None, np.zeros((4, 800, 1))):
        found = lw.rollout(model, put(q), put(v), tau, device="cuda", **how)
        assert [int(x) for x in found.status] == wanted.status.tolist() == [4, 0, 2, 3]
        assert [int(x) for x in found.steps] == wanted.steps.tolist()
        assert type(found.status) is type(put(q))
    again = lw.rollout(
        model,
        put(q),
        put(v),
        device="cuda",
        dt=2e-3,
        steps=1,
        status=found.status,
        contacts=how["contacts"],
    )
    assert [int(x) for x in again.status] == [4, 0, 2, 3] and [int(x) for x in again.steps] == [0, 1, 0, 0]
    assert cupy.isfinite(cupy.asarray(again.q)[0, 0]).all() and cupy.isnan(cupy.asarray(again.q)[0, 1]).all()


def test_contact_has_the_cpu_s_bits() -> None:
    model = lw.robots.quadruped()
    feet = [frame.name for frame in model.frames if "foot" in frame.name.lower()] or [
        body.name for body in model.bodies[3::3]
    ]
    q = np.tile(model.neutral(), (40, 1))
    q[:, 2] += np.linspace(0.3, 0.6, 40)
    v = 0.3 * np.random.default_rng(0).standard_normal((40, model.nv))
    how: dict[str, Any] = {
        "dt": 2e-3,
        "steps": 60,
        "record_every": 20,
        "contacts": lw.Contacts(shapes=feet, limits=False),
    }
    wanted = lw.rollout(model, q, v, **how)
    found = lw.rollout(model, q, v, device="cuda", **how)
    assert np.array_equal(found.q, wanted.q) and np.array_equal(found.v, wanted.v)
    assert np.array_equal(found.status, wanted.status) and np.array_equal(found.impulses, wanted.impulses)
    again = lw.rollout(model, found.q[:, -1], found.v[:, -1], warm_start=found.impulses, device="cuda", **how)
    assert np.array_equal(
        again.q, lw.rollout(model, wanted.q[:, -1], wanted.v[:, -1], warm_start=wanted.impulses, **how).q
    )
