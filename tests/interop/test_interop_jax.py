"""Functions in JAX: the same numbers as our calls, under JAX's transformations, with the derivatives of our
programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.functions.engine import sources
from waiting import PATIENCE

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def double_precision() -> Any:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@cache
def model() -> lw.Model:
    return lw.robots.slider_crank()


@cache
def dynamics() -> Any:
    return lw.interop.jax.function(lw.forward_dynamics, model())


def states(count: int) -> tuple[np.ndarray, ...]:
    q, v = (np.stack(x) for x in zip(*(model().random_state(k) for k in range(count))))
    return q, v, np.sin(np.arange(count))[:, None] * np.ones(model().nv)


def test_the_same_bits_as_our_calls() -> None:
    q, v, tau = states(9)
    wanted = lw.forward_dynamics(model(), q, v, tau)
    np.testing.assert_array_equal(dynamics()(q, v, tau), wanted)
    np.testing.assert_array_equal(jax.jit(dynamics())(q, v, tau=tau), wanted)
    np.testing.assert_array_equal(jax.vmap(dynamics())(q, v, tau), wanted)
    np.testing.assert_array_equal(dynamics()(q[0], v[0], tau[0]), wanted[0])
    one = lw.forward_dynamics(model(), q, v[0], tau)
    np.testing.assert_array_equal(jax.vmap(dynamics(), (0, None, 0))(q, v[0], tau), one)
    np.testing.assert_array_equal(dynamics()(q, v[0], tau), one)


def test_nested_batches_of_different_arguments() -> None:
    q, v, tau = states(3)
    found = jax.vmap(jax.vmap(dynamics(), (None, 0, None)), (0, None, None))(q, v, tau[0])
    wanted = lw.forward_dynamics(model(), q[:, None], v[None], tau[0])
    np.testing.assert_array_equal(found, wanted)
    moved = jax.vmap(jax.vmap(dynamics(), (0, 1, None), 1), (None, 2, None), 2)(
        q, np.stack([v.T, 2 * v.T], 2), tau[0]
    )
    np.testing.assert_array_equal(moved[:, :, 1].T, lw.forward_dynamics(model(), q, 2 * v, tau[0]))


def test_a_batch_is_one_call() -> None:
    """vmap makes one custom call of the whole batch, not a loop over its elements."""
    q, v, tau = states(8)
    text = jax.jit(jax.vmap(dynamics())).lower(q, v, tau).as_text()
    assert text.count("@linkwork_forward_dynamics") == 1 and "while" not in text


def test_derivatives_are_those_of_the_program() -> None:
    q, v, tau = (x[0] for x in states(1))
    made = lw.compile(lw.jacobian(lw.forward_dynamics.program(model()), "out", "q"))
    wanted = made(q, v, tau)[1]
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jacobian(dynamics())(q, v, tau), wanted, rtol=1e-12, atol=1e-12)
    every = jax.jit(jax.jacrev(dynamics(), argnums=(0, 1, 2)))(q, v, tau)
    np.testing.assert_allclose(every[0], wanted, rtol=1e-12, atol=1e-12)
    assert [x.shape for x in every] == [(1, model().nq), (1, 1), (1, 1)]


def test_gradients_of_shared_arguments_are_summed() -> None:
    q, v, tau = states(4)

    def total(tau: Any) -> Any:
        return jax.vmap(dynamics(), (0, 0, None))(q, v, tau).sum()

    wanted = sum(jax.grad(lambda t, k=k: dynamics()(q[k], v[k], t).sum())(tau[0]) for k in range(4))
    np.testing.assert_allclose(jax.grad(total)(tau[0]), wanted, rtol=1e-12)


def test_second_derivatives() -> None:
    q, v, tau = (jnp.asarray(x[0]) for x in states(1))

    def f(q: Any) -> Any:
        return jnp.sum(dynamics()(q, v, tau) ** 2)

    every = [
        jax.hessian(f)(q),
        jax.jacfwd(jax.grad(f))(q),
        jax.jacrev(jax.grad(f))(q),
        jax.jacrev(jax.jacfwd(f))(q),
    ]
    for H in every:
        np.testing.assert_allclose(H, H.T, atol=1e-10 * np.abs(H).max())
        np.testing.assert_allclose(H, every[0], atol=1e-10 * np.abs(H).max())
    h = 1e-5
    d = np.eye(model().nq)[0]
    differences = (jax.grad(f)(q + h * d) - jax.grad(f)(q - h * d)) / (2 * h)
    np.testing.assert_allclose(every[0] @ d, differences, rtol=1e-6, atol=1e-6 * np.abs(every[0]).max())


def test_a_rollout_through_a_loop() -> None:
    """Steps of time in a scan, differentiated in reverse through `integrate`, which closes the loop by
    Newton's method.
    """
    integrate = lw.interop.jax.function(lw.integrate, model())
    q, v, tau = (jnp.asarray(x[0]) for x in states(1))

    def last(force: Any) -> Any:
        def step(state: Any, f: Any) -> Any:
            q, v = state
            v = v + 0.01 * dynamics()(q, v, f[None])
            return (integrate(q, 0.01 * v), v), None

        return jax.lax.scan(step, (q, v), force)[0][0][0]

    force = tau[0] * jnp.ones(5)
    gradient = jax.jit(jax.grad(last))(force)
    h = 1e-4
    wanted = [(last(force.at[k].add(h)) - last(force.at[k].add(-h))) / (2 * h) for k in range(5)]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(jax.jacfwd(last)(force), gradient, rtol=1e-9)


def test_parameters_options_and_several_outputs() -> None:
    chain = lw.robots.chain(2)
    q, v = chain.random_state(0)
    mass = chain.parameters()["mass"]
    f = lw.interop.jax.function(lw.hybrid_dynamics, chain, prescribed=["joint_0"], parameters=("mass",))
    a, tau = jax.jit(f)(q, v, v, v, mass=mass)
    wanted = lw.hybrid_dynamics(chain, q, v, v, v, prescribed=["joint_0"], parameters={"mass": mass})
    np.testing.assert_array_equal(a, wanted[0])
    np.testing.assert_array_equal(tau, wanted[1])
    assert jax.jacrev(lambda m: f(q, v, v, v, m)[1])(mass).shape == (2, 2)


def test_derivatives_on_the_tangent_space() -> None:
    made = lw.jacobian(lw.forward_dynamics, model(), wrt=("q", "v"))
    q, v, tau = states(3)
    by_q, _ = jax.vmap(lw.interop.jax.function(made))(q, v, tau)
    np.testing.assert_array_equal(by_q, made(q, v, tau)[0])


def test_single_precision_where_64_bits_are_off() -> None:
    jax.config.update("jax_enable_x64", False)
    q, v, tau = states(3)
    found = jax.vmap(dynamics())(q, v, tau)
    assert found.dtype == np.float32
    single = [x.astype("float32") for x in (q, v, tau)]
    np.testing.assert_array_equal(found, lw.forward_dynamics(model(), *single, dtype="float32"))
    assert jax.grad(lambda t: dynamics()(*single[:2], t).sum())(single[2]).dtype == np.float32


def test_large_batches_are_shared_among_threads() -> None:
    q, v, tau = (np.concatenate([x] * 2000) for x in states(8))
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(dynamics()))(q, v, tau), lw.forward_dynamics(model(), q, v, tau)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="how memory is had on Linux")
def test_large_results_lie_in_huge_pages() -> None:
    """As NumPy's do, if the system has any left: pages of 4 kB take longer to be had than matrices take to be
    computed.
    """
    import resource  # not on Windows

    chosen = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not chosen.exists() or "[never]" in chosen.read_text():
        pytest.skip("there are no huge pages here")
    chain = lw.robots.chain(12)
    call = jax.jit(lw.interop.jax.function(lw.mass_matrix, chain))
    q = jax.device_put(np.zeros((1 << 15, 12)))
    call(q).block_until_ready()

    def faults(make: Any) -> tuple[int, int]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return make().nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    (size, own), (_, of_numpy) = (
        faults(lambda: call(q).block_until_ready()),
        faults(lambda: np.ones((1 << 15, 12, 12))),
    )
    assert own < of_numpy + size / 4096 / 2


def test_an_empty_batch() -> None:
    q, v, tau = (x[:0] for x in states(1))
    assert dynamics()(q, v, tau).shape == (0, 1)


SHARDED = """
import numpy as np, jax, linkwork as lw
from jax.sharding import PartitionSpec as P
jax.config.update("jax_enable_x64", True)
model = lw.robots.chain(2)
f = lw.interop.jax.function(lw.forward_dynamics, model)
q, v = (np.stack(x) for x in zip(*(model.random_state(k) for k in range(6))))
mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
g = jax.jit(jax.shard_map(jax.vmap(f), mesh=mesh, in_specs=P("rows"), out_specs=P("rows")))
assert np.array_equal(g(q, v, v), lw.forward_dynamics(model, q, v, v)) and len(g(q, v, v).sharding.device_set) == 2
total = lambda v: g(q, v, v).sum()
wanted = jax.grad(lambda v: jax.vmap(f)(q, v, v).sum())(v)
assert np.allclose(jax.grad(total)(v), wanted)
shared = lambda q, tau: jax.vmap(f, (0, 0, None))(q, q, tau)
one = jax.shard_map(shared, mesh=mesh, in_specs=(P("rows"), P()), out_specs=P("rows"))
wanted = jax.grad(lambda tau: jax.vmap(f, (0, 0, None))(q, q, tau).sum())(v[0])
assert np.allclose(jax.grad(lambda tau: one(q, tau).sum())(v[0]), wanted)
"""


def test_shards_of_a_batch() -> None:
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


def test_lists_and_half_precision() -> None:
    q, v = model().random_state(0)
    wanted = lw.forward_dynamics(model(), q, v, [0.5])
    np.testing.assert_array_equal(dynamics()(list(q), tuple(v), [0.5]), wanted)
    np.testing.assert_array_equal(jax.jit(lambda x: dynamics()(q, v, [x]))(0.5), wanted)
    half = dynamics()(*(jnp.asarray(x, jnp.float16) for x in (q, v, [0.5])))
    assert half.dtype == np.float32 and np.allclose(half, wanted, rtol=0.1)


def test_errors() -> None:
    with pytest.raises(lw.ShapeError, match=r"forward_dynamics: q\b.* shape \(\.\.\., 3\),.* \(2,\)"):
        dynamics()(np.zeros(2), np.zeros(1), np.zeros(1))
    with pytest.raises(TypeError, match="missing a required argument: 'tau'"):
        dynamics()(np.zeros(3), np.zeros(1))
    for bad, error, told in (
        (None, lw.DtypeError, "q: expected an array of numbers, got NoneType"),
        ("a", lw.DtypeError, "q: expected an array of numbers, got str"),
        (np.ones(3) * 1j, lw.DtypeError, "q: expected real numbers, got complex128"),
        (np.ones((5, 3)), lw.ShapeError, r"cannot be broadcast: \(5,\) of q, \(2,\) of v"),
    ):
        with pytest.raises(error, match=f"forward_dynamics: .*{told}"):
            jax.jit(lambda v, bad=bad: dynamics()(bad, v, np.zeros(1)))(np.zeros((2, 1)))
    with pytest.raises(lw.LinkworkError, match="expected a function of a model"):
        lw.interop.jax.function(np.sin, model())


def test_a_solution_by_iterations_has_gradients_by_its_own_rule() -> None:
    held = lw.interop.jax.function(
        lw.constrained_dynamics, lw.robots.chain(2), constraints=[lw.Connect(frame="body_1")]
    )
    q, v = np.array([0.4, 1.1]), np.array([0.3, -0.2])
    total = lambda q: held(q, v, np.zeros(2))[0].sum()  # noqa: E731
    step = 1e-5 * np.eye(2)
    wanted = [(total(q + d) - total(q - d)) / 2e-5 for d in step]
    assert np.allclose(jax.grad(total)(q), wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_gradients_make_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = sources.build_named_kernel
    monkeypatch.setattr(sources, "build_named_kernel", lambda *a: made.append(a[2]) or real(*a))
    f = lw.interop.jax.function(lw.forward_dynamics, lw.robots.chain(4))
    jax.grad(lambda q: f(q, q, q).sum())(np.ones(4))
    assert (
        len(made) == 2 and len(set(made)) == 1
    )  # the function, and its gradient; no other dtype, no change along directions


@pytest.mark.slow
def test_steps_with_contact_have_the_derivatives_of_their_solution() -> None:
    """Forward and reverse mode by entries, of a body that slides on one point."""
    builder = lw.ModelBuilder("block").add_body("block", mass=2.0, inertia=(0.02, 0.03, 0.04))
    builder.add_joint("free", lw.joints.Free(), parent="world", child="block")
    block = builder.add_frame("corner", body="block", xyz=(0.1, 0.0, -0.05)).build()
    contacts = lw.Contacts(shapes="corner", friction=0.3, tolerance=1e-13)
    q, v, dt = (
        np.array([0.0, 0.0, 0.0499, 0.0, 0.0, 0.0, 1.0]),
        np.array([0.1, 0.2, 0.3, 1.0, 0.5, -0.8]),
        0.005,
    )
    step = lw.interop.jax.function(lw.step, block, contacts=contacts)
    wanted = lw.jacobian(lw.step, block, wrt=("q", "v"), contacts=contacts)(q, v, 0.0 * v, dt)
    for mode in (jax.jacfwd, jax.jacrev):
        found = mode(lambda v: step(q, v, 0.0 * v, dt)[1])(v)
        np.testing.assert_allclose(found, wanted[3], atol=1e-12)
    along = np.array([0.3, -0.2, 0.1, 0.0, 0.0, 0.0])
    moved = lambda x: lw.integrate(block, q, x * along)  # noqa: E731
    by_entries = (moved(1e-6) - moved(-1e-6)) / 2e-6
    q1, pushed = jax.jvp(lambda q: step(q, v, 0.0 * v, dt)[0], (q,), (by_entries,))
    ends = lw.difference(block, q1 - 1e-6 * np.asarray(pushed), q1 + 1e-6 * np.asarray(pushed)) / 2e-6
    np.testing.assert_allclose(ends, wanted[0] @ along, atol=1e-8)
    weights = np.arange(1.0, 8.0)  # of all entries of q, as many as it has
    (back,) = jax.vjp(lambda q: step(q, v, 0.0 * v, dt)[0], q)[1](weights)
    np.testing.assert_allclose(back @ by_entries, weights @ pushed, atol=1e-9)
