"""Direct calls: one state in plain arrays gives the ufunc's bits, and everything else is left to the ufunc."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime.direct import arrays_lie_as_expected


def compute(x: Any, M: Any) -> Any:
    return M @ x + lw.sin(x[0]) * np.array([1.0, 2.0])


@pytest.fixture(scope="module", params=["float64", "float32"])
def kernel(request: pytest.FixtureRequest) -> lw.Kernel:
    return lw.compile(compute, {"x": 3, "M": (2, 3)}, dtype=request.param, wait=True)


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=3).astype(dtype), rng.normal(size=(2, 3)).astype(dtype)


def test_the_direct_call_is_available() -> None:
    assert arrays_lie_as_expected()


def test_the_bits_are_the_ufuncs(kernel: lw.Kernel) -> None:
    assert kernel.direct is not kernel.ufunc
    x, M = arrays(kernel.dtype)
    wanted = kernel.ufunc(x, M)
    for call in (kernel.direct, kernel):
        got = call(x, M)
        assert (
            type(got) is np.ndarray and got.dtype == kernel.dtype and got.shape == (2,) and got.flags.owndata
        )
        assert got.tobytes() == wanted.tobytes()
    assert kernel.direct(x, M) is not kernel.direct(x, M)  # an array of its own each time


class Derived(np.ndarray):
    pass


def variants(dtype: str) -> dict[str, tuple[Any, Any]]:
    x, M = arrays(dtype)
    wide = np.zeros((3, 2), dtype)
    wide[:, 0] = x
    raw = np.zeros(x.nbytes + 1, np.uint8)
    shifted = raw[1:].view(dtype)
    shifted[:] = x
    tagged = x.view(np.dtype(dtype, metadata={"unit": "m"}))
    return {
        "lists": (x.tolist() if dtype == "float64" else x, M),
        "strided": (wide[:, 0], M),
        "columns first": (x, np.asfortranarray(M)),
        "unaligned": (shifted, M),
        "bytes swapped": (x.astype(x.dtype.newbyteorder()), M),
        "a dtype of its own": (tagged, M),
        "a batch": (np.stack([x, x]), M),
        "no rows": (np.zeros((0, 3), dtype), M),
        "read only": (np.frombuffer(x.tobytes(), dtype), M),
    }


@pytest.mark.parametrize("name", list(variants("float64")))
def test_whatever_comes_the_result_is_the_ufuncs(kernel: lw.Kernel, name: str) -> None:
    x, M = variants(kernel.dtype)[name]
    wanted = kernel.ufunc(x, M)
    for call in (kernel.direct, kernel):
        got = call(x, M)
        assert got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()


def test_derived_arrays_keep_their_type(kernel: lw.Kernel) -> None:
    x, M = arrays(kernel.dtype)
    assert type(kernel.direct(x.view(Derived), M)) is Derived


@pytest.mark.parametrize(
    "give",
    [
        lambda x, M: (x,),
        lambda x, M: (x, M, x, M),
        lambda x, M: (x, M, None, None),
        lambda x, M: (),
        lambda x, M: (x[:2], M),
        lambda x, M: (M, x),
        lambda x, M: (None, M),
        lambda x, M: ("text", M),
        lambda x, M: (x, M.astype(complex)),
        lambda x, M: (x, np.array([[object()] * 3] * 2)),
    ],
)
def test_mistakes_are_the_ufuncs_mistakes(kernel: lw.Kernel, give: Any) -> None:
    given = give(*arrays(kernel.dtype))
    with pytest.raises((TypeError, ValueError)) as wanted:
        kernel.ufunc(*given)
    with pytest.raises(type(wanted.value)):
        kernel.direct(*given)


def test_the_kernel_names_the_argument(kernel: lw.Kernel) -> None:
    x, M = arrays(kernel.dtype)
    with pytest.raises(lw.ShapeError, match=r"x: expected shape \(\.\.\., 3\), got \(2,\)"):
        kernel(x[:2], M)


def test_scalars_and_several_outputs_are_the_ufuncs() -> None:
    x, s = np.array([1.0, 2.0, 3.0]), np.float64(2.0)
    for fn, inputs, given in (
        (lambda x: x @ x, {"x": 3}, (x,)),
        (lambda s, x: s * x, {"s": (), "x": 3}, (s, x)),
        (lambda x: (x, 2.0 * x), {"x": 3}, (x,)),
    ):
        kernel = lw.compile(fn, inputs)
        got, wanted = kernel.direct(*given), kernel.ufunc(*given)
        assert type(got) is type(wanted) and np.array_equal(got, wanted)


def test_nothing_is_left_behind(kernel: lw.Kernel) -> None:
    x, M = arrays(kernel.dtype)
    dtype = np.dtype(kernel.dtype)

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in (x, M, dtype, kernel.ufunc)]

    for given in ((x, M), (x, np.asfortranarray(M))):
        before = counts()
        for _ in range(1000):
            kernel.direct(*given)
        assert np.abs(np.subtract(counts(), before)).max() < 5


def test_functions_of_a_model_take_the_short_way() -> None:
    model = lw.robots.arm()
    q, v = model.random_state(1)
    a = lw.inverse_dynamics(model, q, v, v)
    assert model.cache[lw.inverse_dynamics] is lw.inverse_dynamics.kernel(model).direct
    assert a.tobytes() == lw.inverse_dynamics(model, q[None], v, v)[0].tobytes()
