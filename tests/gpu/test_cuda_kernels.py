"""Kernels on a GPU: the interpreter's bits, for arrays of every library, on the caller's stream, and errors
in one sentence.

`make test-gpu` runs them on a machine that has a GPU; elsewhere they are skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import DtypeError, OverlapError, ShapeError, TargetError

pytest.importorskip("cuda.bindings", reason="no cuda-bindings")
cupy = pytest.importorskip("cupy", reason="no CuPy")
try:
    cupy.cuda.runtime.getDeviceCount()
except Exception:
    pytest.skip("no GPU", allow_module_level=True)

ROWS = 1000


def state(model: lw.Model, rows: int = ROWS, dtype: str = "float32", seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]


def interpreted(fn: lw.ModelFunction, model: lw.Model, arrays: list[Any], dtype: str, **options: Any) -> Any:
    return lw.interpret(lw.lower(fn.program(model, **options), dtype), *arrays)


@pytest.fixture(scope="module")
def quadruped() -> lw.Model:
    return lw.robots.quadruped()


def same(a: Any, b: Any) -> bool:
    a = np.ascontiguousarray(a)
    b = np.ascontiguousarray(b)
    equal = a.view(np.uint8).reshape(*a.shape, -1) == b.view(np.uint8).reshape(*b.shape, -1)
    return a.shape == b.shape and bool((equal.all(-1) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 31, 32, 33, 1000])
def test_numpy(quadruped: lw.Model, dtype: str, rows: int) -> None:
    arrays = state(quadruped, rows, dtype)
    kernel = lw.compile(lw.forward_dynamics, quadruped, target="cuda", dtype=dtype)
    assert same(kernel(*arrays), interpreted(lw.forward_dynamics, quadruped, arrays, dtype))
    assert same(
        kernel(*(a[0] for a in arrays)),
        interpreted(lw.forward_dynamics, quadruped, [a[0] for a in arrays], dtype),
    )


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_libraries(quadruped: lw.Model, library: str) -> None:
    module = pytest.importorskip(library)
    arrays = state(quadruped)
    put = {
        "cupy": lambda x: cupy.asarray(x),
        "torch": lambda x: module.as_tensor(x, device="cuda"),
        "jax": lambda x: module.numpy.asarray(x),
    }[library]
    given = [put(a) for a in arrays]
    wanted = interpreted(lw.forward_dynamics, quadruped, arrays, "float32")
    found = lw.forward_dynamics(quadruped, *given)  # arrays on the device choose it
    assert type(found) is type(given[0])
    assert same(cupy.asnumpy(cupy.asarray(found)), wanted)
    one = lw.forward_dynamics(quadruped, given[0], given[1], given[2][0])  # one row for all
    assert same(
        cupy.asnumpy(cupy.asarray(one)),
        interpreted(lw.forward_dynamics, quadruped, [*arrays[:2], arrays[2][0]], "float32"),
    )


def test_device_by_name(quadruped: lw.Model) -> None:
    arrays = state(quadruped, dtype="float64")
    found = lw.forward_dynamics(quadruped, *arrays, device="cuda")
    assert isinstance(found, np.ndarray)
    assert same(found, lw.forward_dynamics(quadruped, *arrays))


def test_streams_and_layouts(quadruped: lw.Model) -> None:
    q, v, tau = (cupy.asarray(x) for x in state(quadruped, 6 * 200))
    wanted = lw.forward_dynamics(quadruped, q, v, tau)
    shaped = [x.reshape(6, 200, -1) for x in (q, v, tau)]
    assert (lw.forward_dynamics(quadruped, *shaped) == wanted.reshape(6, 200, -1)).all()
    turned = [cupy.asfortranarray(x) for x in (q, v, tau)]
    assert (lw.forward_dynamics(quadruped, *turned) == wanted).all()
    strided = [x[::2] for x in (q, v, tau)]
    assert (lw.forward_dynamics(quadruped, *strided) == wanted[::2]).all()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        big = [cupy.concatenate([x] * 200) for x in (q, v, tau)]
        found = lw.forward_dynamics(quadruped, *big)
    stream.synchronize()
    assert (found[-1200:] == wanted).all()
    out = cupy.empty_like(wanted)
    assert lw.forward_dynamics(quadruped, q, v, tau, out=out) is out
    assert (out == wanted).all()
    with pytest.raises(OverlapError, match="shares memory"):
        lw.forward_dynamics(quadruped, q, v, tau, out=v)


def test_bad_input(quadruped: lw.Model) -> None:
    kernel = lw.compile(lw.forward_dynamics, quadruped, target="cuda", dtype="float32")
    q, v, tau = (cupy.asarray(x) for x in state(quadruped))
    with pytest.raises(DtypeError, match="v: expected dtype float32, got float64"):
        kernel(q, v.astype("float64"), tau)
    with pytest.raises(ShapeError, match="q: expected shape"):
        kernel(q[:, :-1], v, tau)
    with pytest.raises(ShapeError, match="do not broadcast"):
        kernel(q[:7], v, tau)
    with pytest.raises(TypeError, match="takes the arrays q, v, tau"):
        kernel(q, v)
    huge = cupy.cuda.runtime.memGetInfo()[1] // (4 * quadruped.nv)
    if huge < 2**31:
        with pytest.raises(TargetError, match="take fewer states at once"):
            kernel(q[0], cupy.broadcast_to(v[0], (huge, quadruped.nv)), tau[0])
    with pytest.raises(DtypeError, match="is on a GPU"):
        lw.compile(lw.forward_dynamics, quadruped, dtype="float32")(q, v, tau)


def test_functions_of_all_sorts() -> None:
    """Loops of robots, masked iterations, derivatives, vector-Jacobian products and parameters as inputs."""
    linkage = lw.robots.planar_leg_linkage()
    arm = lw.robots.arm()
    rng = np.random.default_rng(1)
    sources: list[tuple[Any, lw.Model | None, dict[str, Any]]] = [
        (lw.forward_dynamics, linkage, {}),
        (lw.integrate, linkage, {}),
        (lw.forward_dynamics_derivatives, arm, {}),
        (lw.forward_dynamics, arm, {"parameters": ("mass", "gravity")}),
        (lw.vjp(lw.inverse_dynamics, arm), None, {}),
    ]
    for source, model, options in sources:
        for dtype in ("float32", "float64"):
            kernel = lw.compile(source, model, target="cuda", dtype=dtype, **options)
            program = source.program(model, **options) if model else source.program()
            inputs = [rng.standard_normal((257, *a.shape)).astype(dtype) for a in kernel.inputs]
            found = kernel(*inputs)
            wanted = lw.interpret(lw.lower(program, dtype), *inputs)
            pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
            assert all(same(f, w) for f, w in pairs), (kernel, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_maps_of_long_programs(dtype: str) -> None:
    """Derivatives in several kernels, the last of which runs maps and writes rows: batches of any size,
    outputs anywhere.
    """
    model = lw.robots.mit_humanoid()
    kernel = lw.compile(lw.forward_dynamics_derivatives, model, target="cuda", dtype=dtype)
    told = kernel.resources()
    assert told["parts"][-1]["states"] < told["parts"][-1]["threads"] and told["scratch_bytes"] > 0
    for rows, shift in ((1, 0), (33, 0), (1000, 0), (1003, 1), (4111, 3)):
        arrays = state(model, rows, dtype, seed=rows)
        wanted = interpreted(lw.forward_dynamics_derivatives, model, arrays, dtype)
        outs = []
        for spec in kernel.outputs:
            flat = cupy.full(rows * spec.size + 8, np.nan, dtype)
            outs.append(flat[shift : shift + rows * spec.size].reshape(rows, *spec.shape))
        kernel(*(cupy.asarray(x) for x in arrays), out=tuple(outs))
        assert all(same(o.get(), w) for o, w in zip(outs, wanted, strict=True)), (rows, shift)


def test_resources(quadruped: lw.Model) -> None:
    kernel = lw.compile(lw.forward_dynamics, quadruped, target="cuda", dtype="float32")
    told = kernel.resources(measured=1 << 17)
    assert told["local_bytes"] < 256  # the fastest way may have a few
    assert told["states"] in (told["threads"], told["threads"] // 2)
    assert 0 < told["occupancy"] <= 1
    assert 0 < told["measured_share"] < 1
    assert told["measured_rate"] > 0 and told["predicted_rate"] > 0
