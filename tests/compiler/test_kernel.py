"""Kernels as NumPy generalised ufuncs: what goes in, what comes out, and what is said when it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes import lower
from linkwork.compiler.runtime import compiler
from linkwork.compiler.runtime import kernel as module
from linkwork.compiler.runtime.cache import Cache
from linkwork.compiler.targets.cpu import host, module_texts
from processes import run_python

pytestmark = pytest.mark.background

SOURCE = str(Path(lw.__file__).parents[1])
A = np.array([1.0, 2.0, -3.0])
M = np.array([[1.0, 0.0, 2.0], [4.0, -5.0, 6.0]])


def mixed(a: Any, s: Any, m: Any) -> dict[str, Any]:
    """A vector, a scalar and a matrix in; of each one out. On small whole numbers everything is exact."""
    return {"y": m @ a * s, "n": (a * a).sum(), "p": np.outer(a, a) + s}


def reference(a: Any, s: Any, m: Any) -> tuple[Any, Any, Any]:
    a = np.asarray(a, float)
    s = np.asarray(s, float)
    m = np.asarray(m, float)
    batch = np.broadcast_shapes(a.shape[:-1], s.shape, m.shape[:-2])
    a = np.broadcast_to(a, (*batch, 3))
    outer = a[..., :, None] * a[..., None, :] + np.broadcast_to(s, batch)[..., None, None]
    return (m @ a[..., None])[..., 0] * s[..., None], (a * a).sum(-1), outer


def back(x: Any) -> Any:
    """Every output depends on another element than its own."""
    return x[::-1] * 2.0


@pytest.fixture(scope="module")
def kernel() -> Any:
    return lw.compile(mixed, inputs={"a": 3, "s": (), "m": (2, 3)})


@pytest.fixture(scope="module")
def kernel32() -> Any:
    return lw.compile(mixed, inputs={"a": 3, "s": (), "m": (2, 3)}, dtype="float32")


@pytest.fixture(scope="module")
def reverse() -> Any:
    return lw.compile(back, inputs={"x": 4})


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-9, 10, shape).astype(float)


def same(found: Any, expected: Any) -> None:
    for f, e in zip(found, expected, strict=True):
        assert np.shape(f) == np.shape(e)
        np.testing.assert_array_equal(f, e)


# what a kernel is


def test_a_kernel_holds_a_true_generalised_ufunc(kernel: Any) -> None:
    assert type(kernel.ufunc) is np.ufunc
    assert kernel.ufunc.signature == kernel.signature == "(3),(),(2,3)->(2),(),(3,3)"
    assert (kernel.ufunc.nin, kernel.ufunc.nout, kernel.ufunc.types) == (3, 3, ["ddd->ddd"])
    assert kernel.ufunc.__name__ == kernel.name == "mixed"
    assert [a.name for a in kernel.inputs + kernel.outputs] == ["a", "s", "m", "y", "n", "p"]
    assert isinstance(kernel, lw.Kernel) and "mixed" in repr(kernel) and "float64" in repr(kernel)


def test_the_ufunc_itself_gives_the_same(kernel: Any) -> None:
    same(kernel.ufunc(A, 2.0, M), reference(A, 2.0, M))
    with pytest.raises(TypeError):
        kernel.ufunc.outer(A, A)
    with pytest.raises(RuntimeError):
        kernel.ufunc.reduce(A)


def test_one_output_comes_bare_and_several_as_a_tuple(kernel: Any, reverse: Any) -> None:
    assert isinstance(reverse(np.arange(4.0)), np.ndarray)
    assert isinstance(kernel(A, 2.0, M), tuple)


# broadcasting


@pytest.mark.parametrize(
    "batches",
    [
        ((), (), ()),
        ((5,), (), ()),
        ((), (7,), ()),
        ((), (), (3,)),
        ((5, 1), (1, 4), ()),
        ((5, 1), (4,), (2, 1, 1)),
        ((1,), (1,), (1,)),
        ((17,), (17,), (17,)),
        ((2, 3, 11), (1, 3, 1), (11,)),
        ((0,), (), ()),
        ((0, 1), (5,), ()),
        ((4, 0), (1, 1), (1, 0)),
        ((1,) * 20, (), ()),
    ],
    ids=str,
)
def test_any_leading_dimensions_broadcast(kernel: Any, batches: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(1)
    args = [whole(rng, *b, *core) for b, core in zip(batches, ((3,), (), (2, 3)), strict=True)]
    same(kernel(*args), reference(*args))


def test_every_number_of_rows_around_the_vector_width(kernel: Any) -> None:
    rng = np.random.default_rng(2)
    for rows in range(40):
        args = whole(rng, rows, 3), whole(rng, rows), whole(rng, rows, 2, 3)
        same(kernel(*args), reference(*args))


def test_rows_beside_a_row_do_not_change_its_bits() -> None:
    kernel = lw.compile(lambda x: lw.sin(x) / x + lw.exp(x[0]), inputs={"x": 3})
    x = np.random.default_rng(3).normal(size=(37, 3))
    alone = np.array([kernel(row) for row in x])
    for first, last in ((0, 37), (1, 20), (5, 8), (30, 37)):
        assert kernel(x[first:last]).tobytes() == alone[first:last].tobytes()


def test_zero_dimensional_arrays_and_plain_numbers(kernel: Any) -> None:
    for s in (2, 2.0, np.float64(2), np.array(2.0), np.array(2), True + True, np.float32(2)):
        same(kernel(A, s, M), reference(A, 2.0, M))
    square = lw.compile(lambda x: x * x, inputs={"x": ()})
    assert square.signature == "()->()"
    assert square(3) == 9.0 and isinstance(square(3), np.float64)
    same([square(np.arange(12).reshape(3, 4))], [np.arange(12.0).reshape(3, 4) ** 2])


# inputs of all kinds


def strided(values: np.ndarray, kind: str) -> np.ndarray:
    """The same values in another layout."""
    if kind == "every second":
        wide = np.full([2 * n for n in values.shape], np.nan)
        view = wide[tuple(slice(0, None, 2) for _ in values.shape)]
    elif kind == "backwards":
        view = np.full(values.shape, np.nan)[tuple(slice(None, None, -1) for _ in values.shape)]
    elif kind == "fortran":
        view = np.full(values.shape, np.nan, order="F")
    elif kind == "rows last":
        view = np.moveaxis(np.full((*values.shape[1:], values.shape[0]), np.nan), -1, 0)
    elif kind == "field":
        view = np.zeros(values.shape, dtype=[("flag", "i4"), ("x", "f8"), ("y", "f8")])["x"]
    elif kind == "unaligned":
        view = np.zeros(values.size * 8 + 1, np.uint8)[1:].view(np.float64).reshape(values.shape)
        assert not view.flags.aligned
    elif kind == "swapped":
        view = np.zeros(values.shape, np.dtype(np.float64).newbyteorder())
    else:
        raise AssertionError(kind)
    view[...] = values
    return view


LAYOUTS = ["every second", "backwards", "fortran", "rows last", "field", "unaligned", "swapped"]


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("rows", [2, 13])
def test_inputs_of_any_layout(kernel: Any, kind: str, rows: int) -> None:
    rng = np.random.default_rng(4)
    args = whole(rng, rows, 3), whole(rng, rows), whole(rng, rows, 2, 3)
    expected = reference(*args)
    for place in range(3):
        given = list(args)
        given[place] = strided(args[place], kind)
        kept = given[place].copy()
        same(kernel(*given), expected)
        np.testing.assert_array_equal(given[place], kept)
    same(kernel(*(strided(x, kind) for x in args)), expected)


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("rows", [2, 13])
def test_outputs_of_any_layout(kernel: Any, kind: str, rows: int) -> None:
    rng = np.random.default_rng(5)
    args = whole(rng, rows, 3), whole(rng, rows), whole(rng, rows, 2, 3)
    expected = reference(*args)
    out = tuple(strided(np.full(e.shape, np.nan), kind) for e in expected)
    found = kernel(*args, out=out)
    assert all(f is o for f, o in zip(found, out, strict=True))
    same(out, expected)


def test_a_strided_output_leaves_its_neighbours_alone(reverse: Any) -> None:
    for rows in (1, 2, 3, 9, 16):
        wide = np.full((2 * rows, 9), 7.0)
        reverse(np.ones((rows, 4)), out=wide[::2, 1::2])
        assert np.all(wide[::2, 1::2] == 2.0)
        wide[::2, 1::2] = 7.0
        assert np.all(wide == 7.0)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float16, np.float32, bool]
)
def test_smaller_and_whole_numbers_become_float64(kernel: Any, dtype: Any) -> None:
    a = np.array([1, 0, 1], dtype)
    m = np.array([[1, 1, 0], [0, 1, 1]], dtype)
    found = kernel(a, dtype(1), m)
    same(found, reference(a, 1, m))
    assert all(f.dtype == np.float64 for f in found)


def test_lists_and_tuples_and_read_only_arrays(kernel: Any) -> None:
    same(kernel([1, 2, 3], 2, ((1, 2, 3), (4, 5, 6))), reference([1, 2, 3], 2, [[1, 2, 3], [4, 5, 6]]))
    a = A.copy()
    a.flags.writeable = False
    same(kernel(a, 2.0, np.broadcast_to(M, (4, 2, 3))), reference(a, 2.0, np.broadcast_to(M, (4, 2, 3))))


def test_float32_kernels_take_what_fits(kernel32: Any) -> None:
    a = A.astype("f4")
    m = M.astype("f4")
    for args in (
        (a, 2.0, m),
        (a, 2, m),
        (a.astype("f2"), np.float32(2), m),
        (A.astype(np.int8), True + True, M.astype(np.int16)),
    ):
        found = kernel32(*args)
        same(found, reference(A, 2.0, M))
        assert all(f.dtype == np.float32 for f in found)


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ((A, 2.0, M.astype("f4")), "a"),
        ((A.astype("f4"), np.float64(2.0), M.astype("f4")), "s"),
        ((A.astype("f4"), 2.0, M), "m"),
        ((A.astype(np.int64), 2.0, M.astype("f4")), "a"),
        (([1.0, 2.0, 3.0], 2.0, M.astype("f4")), "a"),
    ],
)
def test_float32_kernels_refuse_float64_and_say_what_to_do(kernel32: Any, args: Any, name: str) -> None:
    with pytest.raises(lw.DtypeError, match=rf"mixed: {name}: expected dtype float32.*\.astype\('float32'\)"):
        kernel32(*args)


# arguments by name, out


def test_arguments_by_name(kernel: Any) -> None:
    expected = reference(A, 2.0, M)
    same(kernel(a=A, s=2.0, m=M), expected)
    same(kernel(m=M, s=2.0, a=A), expected)
    same(kernel(A, m=M, s=2.0), expected)
    out = tuple(np.zeros(e.shape) for e in expected)
    assert kernel(A, m=M, s=2.0, out=out)[2] is out[2]
    same(out, expected)
    same(kernel(m=M, s=2.0, a=A, threads=2), expected)


@pytest.mark.parametrize(
    "name", ["x", "axis", "dtype", "where", "out", "threads", "self", "lambda", "kernel", "args"]
)  # fmt: skip
def test_inputs_may_have_any_name(name: str) -> None:
    assert lw.compile(lambda x: {"y": x * 2.0}, inputs={name: 2})([1.0, 2.0]).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "name", ["ufunc", "explain", "error", "TypeError", "using_threads", "checked_threads"]
)
def test_inputs_may_have_the_names_that_the_call_uses(name: str) -> None:
    kernel = lw.compile(lambda x: {"y": x * 2.0}, inputs={name: 2})
    assert kernel([1.0, 2.0]).tolist() == kernel([1.0, 2.0], threads=2).tolist() == [2.0, 4.0]
    with pytest.raises(lw.ShapeError, match=name):
        kernel([1.0])


def test_out_is_returned_and_filled(reverse: Any, kernel: Any) -> None:
    out = np.full((5, 4), np.nan)
    assert reverse(np.ones(4), out=out[0]) is not out
    assert reverse(np.ones((5, 4)), out=out) is out
    assert np.all(out == 2.0)
    assert reverse(np.ones((5, 4)), out=(out,)) is out
    zero = np.array(0.0)
    assert kernel(A, 2.0, M, out=(None, zero, None))[1] is zero and zero == 14.0


def test_out_may_be_none_or_hold_none(kernel: Any) -> None:
    expected = reference(A, 2.0, M)
    same(kernel(A, 2.0, M, out=None), expected)
    same(kernel(A, 2.0, M, out=(None, None, None)), expected)
    same(kernel(A, 2.0, M, out=None, threads=1), expected)


def test_a_batch_of_outputs_takes_one_input_many_times(reverse: Any) -> None:
    out = np.zeros((3, 4))
    assert reverse(np.arange(4.0), out=out) is out
    assert np.all(out == [6.0, 4.0, 2.0, 0.0])


@pytest.mark.parametrize("rows", [1, 2, 11, 64])
def test_out_of_another_precision(kernel: Any, kernel32: Any, rows: int) -> None:
    rng = np.random.default_rng(6)
    args = whole(rng, rows, 3), whole(rng, rows), whole(rng, rows, 2, 3)
    expected = reference(*args)
    down = tuple(np.zeros(e.shape, "f4") for e in expected)
    assert kernel(*args, out=down)[0] is down[0]
    same(down, expected)
    up = tuple(np.zeros(e.shape, "f8") for e in expected)
    assert kernel32(*(x.astype("f4") for x in args), out=up)[0] is up[0]
    same(up, expected)


@pytest.mark.parametrize("rows", [None, 1, 2, 8, 10, 33])
def test_out_may_be_the_input_itself(reverse: Any, rows: int | None) -> None:
    x = np.arange(4.0 * (rows or 1)).reshape((4,) if rows is None else (rows, 4))
    expected = x[..., ::-1] * 2.0
    assert reverse(x, out=x) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("shift", [1, 2, 4, 6])
@pytest.mark.parametrize("rows", [1, 2, 10, 33])
def test_out_may_overlap_the_input(reverse: Any, shift: int, rows: int) -> None:
    for forward in (True, False):
        memory = np.arange(4.0 * rows + 8)
        low = memory[: 4 * rows].reshape(rows, 4)
        high = memory[shift : shift + 4 * rows].reshape(rows, 4)
        source, out = (low, high) if forward else (high, low)
        expected = source[:, ::-1] * 2.0
        reverse(source, out=out)
        np.testing.assert_array_equal(out, expected)


# errors of calls


def refused(kernel: Any, error: type[Exception], words: str, *args: Any, **options: Any) -> None:
    with pytest.raises(error, match=words) as found:
        kernel(*args, **options)
    assert type(found.value) is error


@pytest.mark.parametrize(
    ("args", "options", "name"),
    [
        ((), {}, "a"),
        ((A,), {}, "s"),
        ((A, 2.0), {}, "m"),
        ((A,), {"m": M}, "s"),
        ((), {"s": 2.0, "m": M}, "a"),
        ((A, 2.0, M), {"a": A}, "a"),
        ((A, 2.0, M), {"foo": 1}, "foo"),
        ((A, 2.0, M), {"where": True}, "where"),
        ((A, 2.0, M), {"casting": "unsafe"}, "casting"),
        ((A, 2.0, M), {"dtype": "f4"}, "dtype"),
        ((A, 2.0, M), {"axes": [(0,)]}, "axes"),
        ((A, 2.0, M), {"keepdims": True}, "keepdims"),
        ((A, 2.0, M), {"subok": True}, "subok"),
    ],
)
def test_wrong_arguments_are_named(kernel: Any, args: Any, options: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"'{name}'"):
        kernel(*args, **options)


def test_too_many_arguments(kernel: Any) -> None:
    with pytest.raises(TypeError, match="8 were given|9 were given"):
        kernel(*[A] * 8)


def test_out_is_never_taken_by_position(kernel: Any, reverse: Any) -> None:
    """An argument too many, the gain of a controller say, must not be written into."""
    extra = np.full(4, 7.0)
    for call in (reverse, reverse.direct):
        with pytest.raises(TypeError, match="positional argument"):
            call(np.ones(4), extra)
        with pytest.raises(TypeError, match="positional argument"):
            call(np.ones((5, 4)), extra)
    with pytest.raises(TypeError, match="positional argument"):
        kernel(A, 2.0, M, (np.zeros(2), np.zeros(()), np.zeros((3, 3))))
    assert extra.tolist() == [7.0] * 4


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((A[:2], 2.0, M), r"mixed: a: expected shape \(\.\.\., 3\), got \(2,\)"),
        ((1.0, 2.0, M), r"mixed: a: expected shape \(\.\.\., 3\), got \(\)"),
        ((A, 2.0, M.T), r"mixed: m: expected shape \(\.\.\., 2, 3\), got \(3, 2\)"),
        ((A, 2.0, A), r"mixed: m: expected shape \(\.\.\., 2, 3\), got \(3,\)"),
        ((np.ones((5, 1)), 2.0, M), r"mixed: a: expected"),
        ((np.ones((4, 3)), np.ones(5), M), r"mixed: .*broadcast: a \(4,\), s \(5,\), m \(\)"),
        ((A, np.ones(2), np.ones((3, 2, 3))), r"mixed: .*broadcast.*s \(2,\), m \(3,\)"),
        (([1, [2, 3], 4], 2.0, M), r"mixed: a is not an array"),
    ],
)
def test_wrong_shapes(kernel: Any, args: Any, words: str) -> None:
    refused(kernel, lw.ShapeError, words, *args)
    refused(kernel, lw.ShapeError, words, *args, threads=2)


@pytest.mark.parametrize(
    "value",
    [
        A + 0j,
        A.astype(object),
        np.array(["a", "b", "c"]),
        "abc",
        None,
        np.zeros(3, "M8[s]"),
        np.zeros(3, [("x", "f8")]),
        [1.0, "x", 2.0],
        [1.0, None, 2.0],
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, np.ndarray) else str(v.dtype),
)
def test_wrong_dtypes(kernel: Any, value: Any) -> None:
    refused(kernel, lw.DtypeError, "mixed: a: expected dtype .*real numbers are needed", value, 2.0, M)
    refused(
        kernel, lw.DtypeError, "mixed: m: expected dtype .*real numbers are needed", A, 2.0, np.asarray(value)
    )


def nullable(values: Any, missing: Any) -> Any:
    """An array as pandas' nullable dtypes are: it answers ufuncs by itself, on numbers that stand behind the
    mask.
    """

    class Nullable:
        dtype = "Float64"

        def isna(self) -> np.ndarray:
            return np.asarray(missing)

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            return np.where(missing, None, values) if np.any(missing) else np.asarray(values)

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
            return getattr(ufunc, method)(*(values if x is self else x for x in inputs), **named)

    return Nullable()


MASKED = {
    "masked": np.ma.array(A, mask=[0, 1, 0]),
    "nothing masked": np.ma.array(A),
    "hard": np.ma.array(A, mask=True, hard_mask=True),
    "in a list": [np.ma.array(A, mask=[0, 1, 0]), A],
    "deep in lists": [[A, A], (A, np.ma.array(A, mask=[0, 1, 0]))],
    "an element": [1.0, np.ma.masked, 2.0],
    "nullable": nullable(A, [False, True, False]),
    "nullables in a list": [A, nullable(A, [False, True, False])],
}


@pytest.mark.parametrize("kind", MASKED)
def test_masked_arrays_are_refused(kernel: Any, reverse: Any, kind: str) -> None:
    value = MASKED[kind]
    for options in ({}, {"threads": 2}, {"out": (np.zeros(2), None, None)}):
        refused(kernel, lw.DtypeError, r"mixed: a .*(masked|missing).*np\.nan", value, 2.0, M, **options)
    with pytest.raises(lw.DtypeError, match=r"back: x .*(masked|missing)"):
        reverse.direct(value)


def test_results_are_not_written_behind_a_mask(kernel: Any, reverse: Any) -> None:
    out = np.ma.array(np.zeros(4), mask=[0, 1, 0, 0])
    refused(reverse, lw.DtypeError, "output out is a masked array", np.ones(4), out=out)
    refused(
        kernel, lw.DtypeError, "output n is a masked array", A, 2.0, M, out=(None, np.ma.array(0.0), None)
    )


def test_nullable_arrays_without_missing_values_are_taken(kernel: Any) -> None:
    same(kernel(nullable(A, [False] * 3), 2.0, M), reference(A, 2.0, M))


@pytest.mark.skipif(np.dtype(np.longdouble) == np.float64, reason="long double is double here")
def test_long_doubles_need_a_cast(kernel: Any) -> None:
    refused(kernel, lw.DtypeError, r"mixed: a: .*\.astype\('float64'\)", A.astype(np.longdouble), 2.0, M)


def frozen(*shape: int) -> np.ndarray:
    array = np.zeros(shape)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        ((np.zeros(3), None, None), lw.ShapeError, r"output y: expected shape \(2,\), got \(3,\)"),
        ((None, None, np.zeros((3, 2))), lw.ShapeError, r"output p: expected shape \(3, 3\), got \(3, 2\)"),
        ((None, np.zeros((2, 1, 1)), np.zeros((4, 3, 3))), lw.ShapeError, r"output n"),
        (
            (np.zeros(2, int), None, None),
            lw.DtypeError,
            r"output y: expected dtype float64, got int64",
        ),
        (
            (None, np.zeros((), object), np.zeros(2)),
            lw.ShapeError,
            r"output p: expected shape \(3, 3\), got \(2,\)",
        ),
        ((frozen(2), None, None), lw.DtypeError, r"output y is read-only"),
        ((None, frozen(), None), lw.DtypeError, r"output n is read-only"),
        (([0.0, 0.0], None, None), lw.DtypeError, r"output y: expected a NumPy array, got list"),
        ((None, 0.0, None), lw.DtypeError, r"output n: expected a NumPy array, got float"),
        ((None, None), lw.ShapeError, r"out: expected a tuple of 3 arrays \(y, n, p\)"),
        ((None,) * 4, lw.ShapeError, r"out: expected a tuple of 3 arrays"),
        (np.zeros(2), lw.ShapeError, r"out: expected a tuple of 3 arrays"),
        ([np.zeros(2), np.zeros(()), np.zeros((3, 3))], lw.ShapeError, r"out: expected a tuple of 3 arrays"),
    ],
)
def test_wrong_outputs(kernel: Any, out: Any, error: type[Exception], words: str) -> None:
    refused(kernel, error, f"mixed: {words}", A, 2.0, M, out=out)


def test_an_output_smaller_than_the_batch(reverse: Any) -> None:
    for shape in ((1, 4), (4,), (4, 4), (5, 1, 4)):
        refused(
            reverse,
            lw.ShapeError,
            r"back: output out: expected shape \(5, 4\)",
            np.ones((5, 4)),
            out=np.zeros(shape),
        )


def with_gaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.zeros(200), shape, strides)


@pytest.mark.parametrize("threads", [None, 1, 2])
@pytest.mark.parametrize(
    ("out", "words"),
    [
        (lambda x: (x[:2], x[1:2].reshape(()), None), "output n shares memory with y"),
        (lambda x: (x[3:5], None, x[4:13].reshape(3, 3)), "output p shares memory with y"),
        (
            lambda x: (None, None, with_gaps((3, 3), (0, 8))),
            "several entries of output p have the same memory",
        ),
        (lambda x: (None, None, with_gaps((3, 3), (8, 16))), "several entries of output p"),
        (lambda x: (None, None, with_gaps((3, 3), (48, 24))), "several entries of output p"),
        (lambda x: (x[:2], None, with_gaps((3, 3), (24, 24))[::-1]), "several entries of output p"),
    ],
)
def test_outputs_that_overlap_are_refused(kernel: Any, out: Any, words: str, threads: int | None) -> None:
    refused(kernel, lw.OverlapError, f"mixed: {words}", A, 2.0, M, out=out(np.zeros(40)), threads=threads)
    with pytest.raises(lw.OverlapError, match=words):
        kernel.bind(
            out=tuple(
                np.zeros(s.shape) if x is None else x for x, s in zip(out(np.zeros(40)), kernel.outputs)
            )
        )


@pytest.mark.parametrize("rows", [1, 3, 5000])
def test_rows_of_an_output_that_overlap_are_refused(reverse: Any, rows: int) -> None:
    flat = np.zeros(4 * rows + 8)
    x = np.arange(4.0 * rows).reshape(rows, 4)
    views = np.lib.stride_tricks.as_strided
    for stride in (0, 8, 24):
        out = views(flat, (rows, 4), (stride, 8))
        if rows > 1:
            refused(reverse, lw.OverlapError, "several entries of output out", x, out=out)
        else:
            same([reverse(x, out=out)], [reverse(x)])
    for strides in ((32, 8), (40, 8), (8, 8 * rows), (16, 24) if rows == 1 else (32, 8)):
        same([reverse(x, out=views(np.zeros(5 * rows + 40), (rows, 4), strides))], [reverse(x)])
    odd = views(np.zeros(40), (3, 4), (16, 56))  # apart, although axes lie within each other
    same([reverse(x[:3], out=odd[:rows])], [reverse(x[:3])])


@pytest.mark.parametrize("shift", [-17, -4, -1, 0, 3])
def test_an_output_may_share_memory_with_an_input(reverse: Any, shift: int) -> None:
    numbers = np.arange(440.0)
    for threads in (None, 2):
        memory = numbers.copy()
        x, out = (memory[first : first + 400].reshape(100, 4) for first in (20, 20 + shift))
        same([reverse(x, out=out, threads=threads)], [reverse(numbers[20:420].reshape(100, 4))])


@pytest.mark.parametrize(
    "threads", [0, -1, "x", 1.5, float("inf"), float("nan"), [2], "", "2.5", "2", True, 2.0]
)
def test_wrong_threads(kernel: Any, threads: Any) -> None:
    with pytest.raises(lw.LinkworkError, match="threads: expected an integer"):
        kernel(A, 2.0, M, threads=threads)


def test_errors_of_the_arguments_pass_through(kernel: Any) -> None:
    class Broken:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no data today")

    with pytest.raises(RuntimeError, match="no data today"):
        kernel(Broken(), 2.0, M)

    class Proud(np.ndarray):
        def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
            raise ValueError("not with me")

    with pytest.raises(ValueError, match="^not with me$"):
        kernel(A.view(Proud), 2.0, M)


def test_a_refused_call_leaves_no_trace(kernel: Any) -> None:
    with pytest.raises(lw.ShapeError) as found:
        kernel(A[:2], 2.0, M)
    assert found.value.__cause__ is None and found.value.__suppress_context__
    same(kernel(A, 2.0, M), reference(A, 2.0, M))


def test_other_libraries_may_take_over(kernel: Any) -> None:
    class Other:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
            return ufunc, method, len(inputs)

    assert kernel(Other(), 2.0, M) == (kernel.ufunc, "__call__", 3)


# compile


def test_compile_refuses_what_it_cannot_do() -> None:
    def twice(x: Any) -> Any:
        return x * 2.0

    program = lw.trace(twice, {"x": 2})
    cases: list[tuple[type[Exception], str, Any, Any, dict[str, Any]]] = [
        (
            lw.LinkworkError,
            "dtype: expected one of float64, float32, got 'f8'",
            twice,
            {"x": 2},
            {"dtype": "f8"},
        ),
        (lw.LinkworkError, "dtype: expected one of", twice, {"x": 2}, {"dtype": None}),
        (lw.LinkworkError, "dtype: expected one of", twice, {"x": 2}, {"dtype": "int64"}),
        (lw.TargetError, "target: expected one of cpu, cuda.*'gpu'", twice, {"x": 2}, {"target": "gpu"}),
        (lw.TargetError, "target: expected one of cpu, cuda", twice, {"x": 2}, {"target": None}),
        (lw.LinkworkError, "inputs= is for functions only", program, {"x": 2}, {}),
        (lw.LinkworkError, "inputs: expected the shapes of the function's inputs", twice, None, {}),
        (lw.ProgramError, "'x' of shape \\(0,\\) is empty", lambda x: 1.0, {"x": 0}, {}),
        (lw.ProgramError, "'x' of shape \\(2, 0\\) is empty", lambda x: 1.0, {"x": (2, 0)}, {}),
        (lw.ProgramError, "'out' of shape \\(0,\\) is empty", lambda x: x[:0], {"x": 2}, {}),
        (lw.ProgramError, "has no inputs", lambda: 1.0, {}, {}),
        (lw.ShapeError, "'x'.*negative", twice, {"x": -1}, {}),
        (lw.ShapeError, "'x'.*integers", twice, {"x": 2.5}, {}),
        (lw.TraceError, "'2x'", twice, {"2x": 2}, {}),
        (lw.TraceError, "'out' holds None", lambda x: None, {"x": 2}, {}),
    ]
    for error, words, source, inputs, options in cases:
        with pytest.raises(error, match=words) as found:
            lw.compile(source, inputs, **options)
        assert type(found.value) is error


def test_compile_of_programs_and_own_targets() -> None:
    program = lw.trace(back, {"x": 4})
    kernel = lw.compile(program)
    assert kernel([1, 2, 3, 4]).tolist() == [8.0, 6.0, 4.0, 2.0]
    taken = lw.compile(program, target=lambda lowered: lowered, dtype="float32")
    assert isinstance(taken, Program) and taken.dtype == "float32"


def test_more_arrays_than_a_ufunc_takes_are_said() -> None:
    def many(**x: Any) -> Any:
        return {f"out_{name}": 2.0 * value for name, value in x.items()}

    def kernel(count: int, *shape: int) -> Any:
        names = [f"x{k}" for k in range(count)]
        return lw.compile(lw.trace(lambda *x: many(**dict(zip(names, x))), dict.fromkeys(names, shape)))

    with pytest.raises(lw.ProgramError, match="at most 64 arrays .* got 33 inputs and 33 outputs of 0 "):
        kernel(33)
    with pytest.raises(lw.ProgramError, match="22 outputs of 66 dimensions; .* or use several kernels"):
        kernel(22, 1, 2, 1)
    most = kernel(20, 1, 2, 1)
    x = [np.ones((1, 2, 1))] * 19
    assert most(np.ones((1, 1, 1, 1, 1, 2, 1)), *x)[0].ndim == 7
    with pytest.raises(lw.ShapeError, match="at most 4 batch dimensions beside the 60 of the outputs, got 5"):
        most(np.ones((1, 1, 1, 1, 1, 1, 2, 1)), *x)


def test_the_same_program_gives_the_same_kernel(reverse: Any) -> None:
    assert lw.compile(back, inputs={"x": 4}) is reverse
    assert lw.compile(lw.trace(back, {"x": 4})) is reverse
    assert lw.compile(back, inputs={"x": 4}, dtype="float32") is not reverse
    assert lw.compile(back, inputs={"x": 5}) is not reverse
    assert lw.compile(back, inputs={"y": 4}) is not reverse
    assert lw.compile(lambda x: x[::-1] * 2.5, inputs={"x": 4}) is not reverse


def test_many_threads_compile_at_once() -> None:
    kernels: dict[tuple[int, int], Any] = {}
    start = threading.Barrier(6)

    def work(number: int) -> None:
        start.wait()
        for factor in range(3):
            kernels[number, factor] = lw.compile(lambda x: x * (7.5 + factor) + 1.0, inputs={"x": 3})  # noqa: B023

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for (_, factor), kernel in kernels.items():
        assert kernel is kernels[0, factor]
        assert kernel(np.ones(3)).tolist() == [8.5 + factor] * 3
    assert len(kernels) == 18 and len(set(kernels.values())) == 3


# the making of


def steep(x: Any) -> Any:
    """More instructions than are optimised at once."""
    for k in range(12):
        x = lw.sin(x) * (1.0 + k) + x[::-1]
    return x


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A background of its own that cannot start its thread, as under a limit on processes."""
    background = compiler.Background()
    monkeypatch.setattr(module, "background", background)

    def start(thread: threading.Thread) -> None:
        if thread.name == "linkwork-compiler":
            raise RuntimeError("can't start new thread")
        threading.Thread.start.__wrapped__(thread)  # type: ignore[attr-defined]

    start.__wrapped__ = threading.Thread.start  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield patch


def test_waiting_compiles_where_no_thread_can_start(no_threads: Any) -> None:
    x = np.random.default_rng(1).normal(size=(21, 4))
    kernels = [module.build_kernel(lw.trace(steep, {"x": 4}), cache=Cache(None)) for _ in range(3)]
    assert [k.tier for k in kernels] == [1, 1, 1]
    before = kernels[1](x).tobytes()
    waiting = [threading.Thread(target=kernels[1].wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    assert [k.tier for k in kernels] == [1, 2, 1] and kernels[1](x).tobytes() == before
    no_threads.undo()  # from now on threads can start, and do all that is left
    assert module.build_kernel(lw.trace(steep, {"x": 5}), cache=Cache(None)).wait().tier == 2
    assert [k.wait().tier for k in kernels] == [2, 2, 2]


def test_waiting_compiles_what_an_earlier_process_left(no_threads: Any, tmp_path: Path) -> None:
    """The quick kernel comes from the cache; where no thread can start, whoever waits for the optimised one
    makes it.
    """
    x = np.random.default_rng(1).normal(size=(21, 4))
    cache = Cache(tmp_path / "cache")
    first, second = [module.build_kernel(lw.trace(steep, {"x": 4}), cache=cache) for _ in range(2)]
    assert (first.tier, second.tier, len(list((tmp_path / "cache").iterdir()))) == (1, 1, 1)
    before = second(x).tobytes()
    assert second.wait().tier == 2 and second(x).tobytes() == before
    assert first.wait().tier == 2 and module.build_kernel(lw.trace(steep, {"x": 4}), cache=cache).tier == 2


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_waiting_in_an_exit_handler(before: bool, cached: bool, tmp_path: Path) -> None:
    """Handlers that were registered before linkwork run when its thread has ended already."""
    register = "atexit.register(lambda: print(kernel.tier, kernel.wait().tier))"
    done = run_python(f"""
        import atexit
        {register if before else ""}
        import linkwork as lw
        from linkwork.compiler.runtime import kernel as module
        {"" if before else register}

        def steep(x):
            for k in range(30):
                x = lw.sin(x) * (1.0 + k) + x[::-1]
            return x

        if {before}:
            module.background._work = lambda: None  # its thread ends before it has done anything
        kernel = lw.compile(steep, {{"x": 4}})
    """, LINKWORK_CACHE=str(tmp_path / "cache") if cached else "off", LINKWORK_EXIT_SECONDS="0")  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 2\n", "")


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, SystemExit, MemoryError, type("Own", (BaseException,), {})]
)
def test_what_interrupts_a_compilation_stays_what_it_is(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise error

    program = lw.trace(lambda x: x * 6.5, {"x": 2})  # it is optimised at once
    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(module, "compile_objects", interrupted)
        module.build_kernel(program, cache=Cache(None))
    assert module.build_kernel(program, cache=Cache(None))(np.ones(2)).tolist() == [6.5, 6.5]


def test_an_interrupt_while_waiting_stays_what_it_is(no_threads: Any) -> None:
    kernel = module.build_kernel(lw.trace(steep, {"x": 4}), cache=Cache(None))
    compile_objects = module.compile_objects
    left = [1]

    def interrupted(*args: Any, **options: Any) -> Any:
        if left:
            left.pop()
            raise KeyboardInterrupt
        return compile_objects(*args, **options)

    no_threads.setattr(module, "compile_objects", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel.wait()
    assert kernel.tier == 1 and kernel.wait().tier == 2


def test_an_error_without_words_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, level: int, **options: Any) -> Any:
        if level == compiler.OPTIMISED:
            raise AssertionError
        return compile_objects(*args, level=level, **options)

    compile_objects = module.compile_objects
    monkeypatch.setattr(module, "compile_objects", failing)
    for source in (steep, lambda x: x * 8.5):
        with pytest.raises(lw.TargetError, match="could not be built: AssertionError"):
            module.build_kernel(lw.trace(source, {"x": 4}), cache=Cache(None)).wait()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux")
def test_too_little_memory_is_an_error_and_not_the_end() -> None:
    """LLVM ends the process when it gets no memory: it is not asked where that could happen."""
    done = run_python("""
        import os, resource, sys, linkwork as lw
        from linkwork.compiler.runtime import kernel
        from linkwork.compiler.runtime.cache import Cache

        def steep(x):
            for k in range(16):
                x = lw.sin(x) * (1.0 + k) + x[::-1]
            return x

        program = lw.trace(steep, {"x": 6})
        kernel.build_kernel(lw.trace(lambda x: 2.0 * x, {"x": 6}), cache=Cache(None))  # all that is made once
        print(flush=True)
        for megabytes in (0, 1, 4, 8, 16, 4000):
            if not (child := os.fork()):
                size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (size + (megabytes << 20),) * 2)
                try:
                    kernel.build_kernel(program, cache=Cache(None)).wait()
                except (lw.TargetError, MemoryError) as error:
                    os._exit(1 if "memory" in str(error).lower() or isinstance(error, MemoryError) else 2)
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    codes = done.stdout.split()
    assert set(codes) == {"0", "1"} and codes[0] == "1" and codes[-1] == "0", (done.stdout, done.stderr)


# copies, imports


def test_kernels_are_copied_and_pickled_or_say_why_not() -> None:
    """In a process of its own: half-made copies of LLVM's objects complain when they go."""
    done = run_python(
        "import copy, pickle, linkwork as lw\n"
        "k = lw.compile(lambda x: x * 3.0, {'x': 2})\n"
        "for f in (copy.copy, copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))):\n"
        "    try:\n"
        "        assert f(k)([1, 2]).tolist() == [3.0, 6.0]\n"
        "    except TypeError as error:\n"
        "        assert 'kernel' in str(error), error\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_import_takes_no_more_than_it_needs() -> None:
    done = run_python(
        "import sys, linkwork as lw; lw.forward_dynamics, lw.load, lw.rollout; print(*sys.modules)"
    )
    assert done.returncode == 0, done.stderr
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"numpy", "llvmlite", "linkwork"} <= modules
    assert not modules & {
        "mpmath",
        "hypothesis",
        "scipy",
        "matplotlib",
        "pinocchio",
        "mujoco",
        "numba",
        "pytest",
        "sympy",
    }


def test_values_wait_once_for_all_places_of_outputs() -> None:
    """In lanes, a value that stands at many places of outputs is stored once before they become rows."""

    def stores(*elements: Callable[[Any], Any]) -> int:
        program = lw.trace(lambda x: np.array([f(x[0]) for f in elements], dtype=object), {"x": 1})
        many = next(
            text for text in module_texts(lower(program), 4, host()) if "define void @lw.many(" in text
        )
        return many.count("store ")

    zero, others = (lambda x: 0.0 * x), [lambda x, k=k: x * (k + 2.0) for k in range(60)]
    for same in (zero, lambda x: -0.0 + 0.0 * x, others[0]):
        assert stores(others[1], *[same] * 40) == stores(others[1], *[same] * 7)
    assert stores(*others) == stores(*others[:20]) + 40


def test_zeros_stand_in_every_row_of_every_tile() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return np.array([[x[0] * x[1], 0.0, -0.0], [0.0, 2.0, x[1] - x[0]]], dtype=object)

    kernel = lw.compile(lw.trace(f, {"x": 2}), wait=True)
    x = np.random.default_rng(0).normal(size=(43, 2))
    out = np.full((43, 2, 6), np.nan)
    kernel(x, out=out[:, :, ::2])
    right = np.array([[[a * b, 0.0, -0.0], [0.0, 2.0, b - a]] for a, b in x])
    assert np.array_equal(out[:, :, ::2], right) and np.array_equal(kernel(x), right)
    assert np.signbit(kernel(x)[:, 0, 2]).all() and not np.signbit(kernel(x)[:, 0, 1]).any()


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [127, 128, 141, 300])
def test_long_rows_begin_anywhere(size: int, dtype: str, repeated: bool) -> None:
    """Rows of many blocks are written by lines of memory, wherever they begin and however far apart: no other
    byte changes.
    """

    def f(x: np.ndarray) -> np.ndarray:
        return np.array([0.0 if repeated and k % 3 else x[0] * (k + 1.0) for k in range(size)], dtype=object)

    kernel = lw.compile(f, {"x": 1}, dtype=dtype, wait=True)
    x = np.arange(1.0, 14.0, dtype=dtype)[:, None]
    right = x * np.array([0.0 if repeated and k % 3 else k + 1.0 for k in range(size)], dtype)
    for gap in (0, 1, 7, 16):
        for start in range(16):
            memory = np.full(start + 13 * (size + gap) + 40, 7.0, dtype)
            rows = memory[start : start + 13 * (size + gap)].reshape(13, -1)[:, :size]
            kernel(x, out=rows)
            assert np.array_equal(rows, right)
            rows[...] = 7.0
            assert np.all(memory == 7.0)
    backwards = np.full((13, size), np.nan, dtype)
    kernel(x, out=backwards[::-1])
    assert np.array_equal(backwards[::-1], right)


def test_size_counts_the_body_of_a_loop_once() -> None:
    def of(limit: int) -> Any:
        return lw.compile(lambda x: lw.loop(lambda s: (s * s + 1.0, s < 1e3), x, limit=limit), {"x": ()})

    once = of(1)
    twice = of(2)
    often = of(7)
    assert once.size == once.work == twice.size == often.size < twice.work
    assert often.work - once.work == 6 * (twice.work - once.work)
