"""Memory of large results: fresh for each result, recycled once no array lies on it, and bounded."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime.results import GRANULARITY, KEEP_BYTES, MIN_BYTES, POOL, ResultPool

ENTRIES = MIN_BYTES // 8


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.fixture
def pool() -> ResultPool:
    return ResultPool()


def test_memory_is_reused_after_the_last_view_is_gone(pool: ResultPool) -> None:
    first = pool.empty((ENTRIES // 4, 4), float)
    place = address(first)
    view = first[1:, ::2].T.reshape(-1)[:3]
    view = first[5:]
    del first
    second = pool.empty((ENTRIES // 4, 4), float)
    assert address(second) != place and not np.shares_memory(second, view)
    del view
    assert address(pool.empty((ENTRIES,), float)) == place


@pytest.mark.parametrize(
    "hold",
    [
        memoryview,
        lambda x: x.view(np.complex128),
        lambda x: x[::-1].T,
        lambda x: np.asarray(x, copy=None)[3:],
    ],
)
def test_no_memory_is_recycled_while_something_refers_to_it(pool: ResultPool, hold) -> None:
    array = pool.empty((ENTRIES,), float)
    array[:] = 1.0
    held = hold(array)
    del array
    for _ in range(3):
        pool.empty((ENTRIES,), float)[:] = 2.0
    assert (np.asarray(held) == np.asarray(held).ravel()[0]).all() and np.asarray(held).ravel()[0] in (
        1.0,
        1.0 + 1.0j,
    )


def test_arrays_of_one_result_are_apart(pool: ResultPool) -> None:
    arrays = pool.arrays([(ENTRIES,), (3, ENTRIES), (2,), ()], np.float32)
    assert [x.shape for x in arrays] == [(ENTRIES,), (3, ENTRIES), (2,), ()]
    assert all(x.dtype == np.float32 and x.flags.c_contiguous and x.flags.writeable for x in arrays)
    assert not any(np.shares_memory(x, y) for k, x in enumerate(arrays) for y in arrays[:k])


def test_unused_memory_is_bounded(pool: ResultPool) -> None:
    held = [pool.empty((KEEP_BYTES // 8 // 4,), float) for _ in range(12)]
    del held
    assert pool.unused_bytes <= KEEP_BYTES
    size = KEEP_BYTES // 4  # entries, twice what is kept otherwise
    held = [pool.empty((size,), float) for _ in range(3)]
    del held
    assert pool.unused_bytes <= 8 * size + GRANULARITY
    del_small = pool.empty((ENTRIES,), float)
    del del_small
    assert pool.unused_bytes <= KEEP_BYTES
    pool.release()
    assert pool.unused_bytes == 0


def test_much_smaller_results_do_not_take_large_blocks(pool: ResultPool) -> None:
    large = pool.empty((16 * ENTRIES,), float)
    place = address(large)
    del large
    assert address(pool.empty((2 * ENTRIES,), float)) != place


def test_threads_never_share_a_block(pool: ResultPool) -> None:
    failures = []

    def work(number: float) -> None:
        for k in range(200):
            array = pool.empty((ENTRIES + 64 * (k % 5),), float)
            array[:] = number
            if not (array == number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def states(model: lw.Model, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(rows, model.nq)),
        rng.normal(size=(rows, model.nv)),
        rng.normal(size=(rows, model.nv)),
    )


def test_results_of_calls_are_their_own() -> None:
    """Results of several calls that are all held are those of calls with `out=`."""
    model = lw.robots.arm()
    q, v, tau = states(model, 3 * MIN_BYTES // (8 * model.nv**2))
    scales = (1.0, 0.5, 0.25)
    held = [lw.forward_dynamics_derivatives(model, q * s, v, tau) for s in scales]
    kernel = lw.compile(lw.forward_dynamics_derivatives, model)
    for s, found in zip(scales, held):
        out = tuple(np.empty_like(x) for x in found)
        kernel(q * s, v, tau, out=out)
        assert all(np.array_equal(x, y) for x, y in zip(found, out))
    some = held[1][2][7]
    copy = some.copy()
    del held, found
    lw.forward_dynamics_derivatives(model, -q, v, tau)
    assert np.array_equal(some, copy)


def test_broadcasting_and_errors_are_those_of_small_batches() -> None:
    model = lw.robots.arm()
    rows = 2 * MIN_BYTES // (8 * model.nv**2)
    q, v, tau = states(model, rows)
    found = lw.forward_dynamics_derivatives(model, q[:, None], v[0], tau[:2])
    assert found[0].shape == (rows, 2, model.nv, model.nv)
    assert np.array_equal(found[0][3, 1], lw.forward_dynamics_derivatives(model, q[3], v[0], tau[1])[0])
    with pytest.raises(lw.ShapeError, match="broadcast"):
        lw.forward_dynamics_derivatives(model, q, v[:-1], tau)
    with pytest.raises(lw.ShapeError, match="shape"):
        lw.forward_dynamics_derivatives(model, q[:, 1:], v, tau)


@pytest.mark.parametrize("call", ["arrays", "a scalar", "threads", "a derivative"])
def test_results_of_functions_are_recycled(call: str) -> None:
    """The memory of a large result is that of an earlier one that is gone, and never that of a live one."""
    model = lw.robots.arm()
    q, v, tau = states(model, 3 * MIN_BYTES // (8 * model.nv))
    dx = lw.jvp(lw.inverse_dynamics, model)
    kernels = {
        "arrays": lambda: lw.forward_dynamics(model, q, v, tau),
        "a scalar": lambda: lw.step(model, q, v, tau, 1e-3)[0],
        "threads": lambda: lw.compile(lw.forward_dynamics, model)(q, v, tau, threads=1),
        "a derivative": lambda: dx(q, v, tau, q, v, tau)[0],
    }
    compute = kernels[call]
    lw.release_memory()
    first = compute()
    second = compute()
    assert not np.shares_memory(first, second)
    places = {address(first), address(second)}
    expected = second.copy()
    del first, second
    assert POOL.unused_bytes >= 2 * expected.nbytes
    third = compute()
    assert address(third) in places
    assert np.array_equal(third, expected)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults of a thread")
@pytest.mark.parametrize("megabytes", [0.8, 1.0, 1.2, 1.4, 4.0])
def test_results_in_place_of_earlier_ones_need_no_new_pages(megabytes: float) -> None:
    """An allocator that returns freed memory to the system maps it again for each result."""
    import resource

    model = lw.robots.quadruped()
    q, v, tau = states(model, int(megabytes * 1e6 / (3 * 8 * model.nv**2)))
    kernel = lw.compile(lw.forward_dynamics_derivatives, model)
    results = [kernel(q, v, tau, threads=1) for _ in range(3)]
    count = 20
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for k in range(count):
        results[k % 2] = kernel(q, v, tau, threads=1)
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    pages = megabytes * 1e6 / resource.getpagesize()
    assert faults < 2.0 * pages  # one more result of the first calls, instead of a share of all


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_trajectories_with_loops_are_recycled(integrator: str) -> None:
    model = lw.robots.four_bar()
    rows = MIN_BYTES // (8 * 2 * model.nv)
    q, v = model.random_state(0)
    q, v = np.tile(q, (rows, 1)), np.tile(v, (rows, 1))
    lw.release_memory()
    first = lw.rollout(model, q, v, dt=1e-3, steps=1, integrator=integrator)
    place = address(first.q)
    expected = first.q.copy()
    del first
    assert POOL.unused_bytes >= expected.nbytes
    again = lw.rollout(model, q, v, dt=1e-3, steps=1, integrator=integrator)
    assert address(again.q) == place
    assert np.array_equal(again.q, expected)


FORK = """
import os, numpy as np
from linkwork.compiler.runtime import results
array = results.POOL.empty((results.MIN_BYTES // 8,), float)
array[:] = 1.0
child = os.fork()
if child == 0:
    other = results.POOL.empty(array.shape, float)
    other[:] = 2.0
    os._exit(0 if (other == 2.0).all() and (array == 1.0).all() else 1)
print(os.waitpid(child, 0)[1], float(array.min()), float(array.max()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_children_have_memory_of_their_own() -> None:
    """In a process of its own: this one may have threads, with which forking is not safe."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1.0", "1.0"]
