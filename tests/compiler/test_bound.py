"""Bound calls: the same results on arrays fixed in advance, kept alive, and refused where they would not be
safe.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime import kernel as module
from linkwork.compiler.runtime.bound import Bound
from linkwork.compiler.runtime.cache import Cache
from linkwork.compiler.runtime.compiler import OPTIMISED

pytestmark = pytest.mark.background


def mixed(a: Any, s: Any, m: Any) -> dict[str, Any]:
    return {"y": m @ a * s, "n": (a * a).sum(), "p": np.outer(a, a) + s}


def steep(x: Any) -> Any:
    """More instructions than are optimised at once."""
    for k in range(12):
        x = lw.sin(x) * (1.0 + k) + x[::-1]
    return x


@pytest.fixture(scope="module")
def kernel() -> Any:
    return lw.compile(mixed, inputs={"a": 3, "s": (), "m": (2, 3)})


@pytest.fixture(scope="module")
def double() -> Any:
    return lw.compile(lambda x: x[::-1] * 2.0, inputs={"x": 4})


def arrays(rows: int | None = None, dtype: str = "f8") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    batch = () if rows is None else (rows,)
    return [np.asarray(rng.integers(-9, 10, (*batch, *core))).astype(dtype) for core in ((3,), (), (2, 3))]


def same(found: Any, expected: Any) -> None:
    for f, e in zip(found, expected, strict=True):
        assert f.shape == np.shape(e)
        np.testing.assert_array_equal(f, e)


def unaligned(*shape: int) -> np.ndarray:
    array = np.zeros(8 * int(np.prod(shape)) + 1, np.uint8)[1:].view(np.float64).reshape(shape)
    assert not array.flags.aligned
    return array


def frozen(*shape: int) -> np.ndarray:
    array = np.zeros(shape)
    array.flags.writeable = False
    return array


# what it does


def test_arrays_that_are_given_are_used(kernel: Any) -> None:
    given = arrays()
    out = (np.zeros(2), np.zeros(()), np.zeros((3, 3)))
    bound = kernel.bind(*given, out=out)
    assert isinstance(bound, Bound)
    assert all(bound.inputs[n] is a for n, a in zip("asm", given, strict=True))
    assert all(bound.outputs[n] is a for n, a in zip("ynp", out, strict=True))
    assert not any(np.any(o) for o in out)
    found = bound()
    assert isinstance(found, tuple) and all(f is o for f, o in zip(found, out, strict=True))
    assert bound() is found
    same(out, kernel(*given))
    assert all(name in repr(bound) for name in ("a", "s", "m", "y", "n", "p"))


def test_arrays_that_are_missing_are_made(kernel: Any) -> None:
    bound = kernel.bind()
    assert {n: (a.shape, a.dtype.str[1:]) for n, a in {**bound.inputs, **bound.outputs}.items()} == {
        "a": ((3,), "f8"), "s": ((), "f8"), "m": ((2, 3), "f8"), "y": ((2,), "f8"), "n": ((), "f8"), "p": ((3, 3), "f8"),
    }  # fmt: skip
    assert not any(np.any(r) for r in bound())
    a, s, m = arrays()
    some = kernel.bind(a, m=m)
    some.inputs["s"][...] = s
    same(some(), kernel(a, s, m))
    same(kernel.bind(m=m, s=s, a=a)(), kernel(a, s, m))


def test_inputs_changed_in_place_are_seen(kernel: Any) -> None:
    a, s, m = arrays()
    bound = kernel.bind(a, s, m)
    for k in range(5):
        a[k % 3] += 1.0
        s += k
        m[k % 2] -= k
        same(bound(), kernel(a, s, m))


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8, 13, 40])
def test_one_batch_dimension(kernel: Any, rows: int) -> None:
    a, s, m = arrays(rows)
    same(kernel.bind(a, s, m)(), kernel(a, s, m))
    one = arrays()
    same(kernel.bind(a, one[1], m)(), kernel(a, one[1], m))
    bound = kernel.bind(one[0], s=s)
    assert bound.inputs["m"].shape == (rows, 2, 3)
    bound.inputs["m"][...] = m
    same(bound(), kernel(one[0], s, m))


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.repeat(np.repeat(a, 2, 0), 2, -1)[::2, ..., ::2],
        lambda a: a[::-1, ..., ::-1].copy()[::-1, ..., ::-1],
        lambda a: np.asfortranarray(a),
        lambda a: np.broadcast_to(a[0], a.shape),
    ],
)
def test_strided_arrays(kernel: Any, rows: int, view: Any) -> None:
    a, s, m = arrays(rows)
    a, m = view(a), view(m)
    expected = kernel(a.copy(), s, m.copy())
    out = (np.zeros((rows, 4))[:, ::-2], np.zeros(2 * rows)[::2], np.asfortranarray(np.zeros((rows, 3, 3))))
    assert kernel.bind(a, s, m, out=out)()[0] is out[0]
    same(out, expected)


def test_read_only_inputs_are_fine(double: Any) -> None:
    assert double.bind(frozen(4))().tolist() == [0.0] * 4


def test_float32(kernel: Any) -> None:
    kernel32 = lw.compile(mixed, inputs={"a": 3, "s": (), "m": (2, 3)}, dtype="float32")
    given = arrays(5, "f4")
    same(kernel32.bind(*given)(), kernel(*given))
    with pytest.raises(lw.DtypeError, match="a: expected an aligned float32 array"):
        kernel32.bind(*arrays(5))


def test_bound_calls_take_no_arguments(double: Any) -> None:
    bound = double.bind()
    with pytest.raises(TypeError):
        bound(np.zeros(4))
    with pytest.raises(TypeError):
        bound(x=np.zeros(4))
    assert bound().tolist() == [0.0] * 4


# lives


def test_results_are_counted_right(kernel: Any, double: Any) -> None:
    for bound in (double.bind(np.ones(4)), kernel.bind(*arrays())):
        result = bound()
        before = sys.getrefcount(result)
        for _ in range(10_000):
            bound()
        assert sys.getrefcount(result) == before
        kept = [bound() for _ in range(100)]
        assert sys.getrefcount(result) == before + 100
        del kept
        assert sys.getrefcount(result) == before


def test_bound_calls_keep_kernel_and_arrays_alive() -> None:
    kernel = lw.compile(lambda x: x * 2.0 + 0.125, inputs={"x": 90}, wait=True)
    call = kernel.bind(np.full(90, 3.0)).__call__
    module._recent.clear()  # here only the bound call keeps the kernel
    watched = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert watched() is not None
    memory = [np.full(90, 9.0) for _ in range(50)]
    assert np.all(call() == 6.125) and len(memory) == 50


def test_what_a_call_is_stays_while_garbage_is_cleared(double: Any) -> None:
    """A built-in reads its definition when it dies, and in a cycle what it owns may be gone before."""
    call = type(double.bind()).__dict__["__call__"]
    definition = ctypes.c_void_p.from_address(id(call) + 16).value  # behind the object's count and type
    assert definition is not None
    before = ctypes.string_at(definition, 32)
    call.__self__.keep = ()  # as the garbage collector does it
    memory = [bytes([k % 256]) * size for size in range(1, 200) for k in range(200)]
    assert ctypes.string_at(definition, 32) == before and memory


def test_deleted_bound_calls_free_their_arrays(kernel: Any) -> None:
    bound = kernel.bind()
    bound()
    watched = [weakref.ref(x) for x in (bound, *bound.inputs.values(), *bound.outputs.values())]
    del bound
    gc.collect()
    assert [w() for w in watched] == [None] * 7


def test_a_shallow_copy_works_on_the_same_arrays(double: Any, kernel: Any) -> None:
    bound = double.bind(np.ones(4))
    assert copy.copy(bound)() is bound()
    several = kernel.bind(*arrays())
    twin = copy.copy(several)
    assert all(twin.inputs[n] is several.inputs[n] for n in "asm") and all(
        x is y for x, y in zip(twin(), several())
    )


@pytest.mark.parametrize("rows", [None, 5])
def test_a_deep_copy_has_arrays_of_its_own(kernel: Any, rows: int | None) -> None:
    given = arrays(rows)
    bound = kernel.bind(*given)
    kept = [r.copy() for r in bound()]
    twin = copy.deepcopy(bound)
    assert isinstance(twin, Bound) and list(twin.inputs) == ["a", "s", "m"]
    same(twin(), kept)
    for array in twin.inputs.values():
        array += 1.0
    same(twin(), kernel(*(a + 1.0 for a in given)))
    same([bound.outputs[n] for n in "ynp"], kept)
    same(bound(), kept)
    assert all(found is twin.outputs[n] for n, found in zip("ynp", twin(), strict=True))


def test_a_deep_copy_refers_to_arrays_copied_with_it(double: Any) -> None:
    """A controller that holds a state and a bound call on it: the copy's call is on the copy's state."""
    x = np.ones(4)
    controller = {"x": x, "call": double.bind(x), "again": x}
    twin = copy.deepcopy(controller)
    assert twin["x"] is twin["again"] is twin["call"].inputs["x"]
    twin["x"][:] = 3.0
    assert twin["call"]().tolist() == [6.0] * 4 and controller["call"]().tolist() == [2.0] * 4


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_bound_calls_say_why_they_are_not_pickled(double: Any, protocol: int) -> None:
    with pytest.raises(TypeError, match="bound call.*machine code of this process"):
        pickle.dumps(double.bind(), protocol)


# arrays given by name


def test_what_is_assigned_to_an_input_is_copied(kernel: Any) -> None:
    a, _, m = arrays()
    bound = kernel.bind()
    places = dict(bound.inputs)
    bound.inputs["a"], bound.inputs["s"], bound.inputs["m"] = a, 2, m.tolist()
    assert all(bound.inputs[n] is places[n] for n in "asm")
    same(bound(), kernel(a, 2.0, m))
    bound.inputs["a"] += 1.0
    bound.inputs.update(s=3.0)
    same(bound(), kernel(a + 1.0, 3.0, m))
    batch = kernel.bind(np.zeros((5, 3)))
    batch.inputs["m"] = m  # one for all rows
    batch.inputs["a"] = np.tile(a, (5, 1))
    same(batch(), kernel(np.tile(a, (5, 1)), np.zeros(5), m))


@pytest.mark.parametrize(
    ("name", "value", "error", "words"),
    [
        ("a", np.zeros(4), lw.ShapeError, r"a: expected shape \(3,\), got \(4,\)"),
        ("a", np.zeros((2, 3)), lw.ShapeError, r"a: expected shape \(3,\), got \(2, 3\)"),
        ("a", 1.0, lw.ShapeError, r"a: expected shape \(3,\), got \(\)"),
        ("a", [1.0, [2.0]], lw.ShapeError, "a is not an array"),
        ("a", np.zeros(3, complex), lw.DtypeError, "a: expected dtype .*, got complex128"),
        ("a", None, lw.DtypeError, "a: expected dtype .*, got object"),
        ("a", np.ma.array(np.zeros(3), mask=[0, 0, 1]), lw.DtypeError, "a is a masked array"),
        ("q", np.zeros(3), lw.LinkworkError, "unknown input 'q'; the inputs are a, s, m"),
    ],
)
def test_wrong_assignments(kernel: Any, name: str, value: Any, error: type[Exception], words: str) -> None:
    bound = kernel.bind()
    with pytest.raises(error, match=f"mixed: .*{words}"):
        bound.inputs[name] = value
    assert list(bound.inputs) == ["a", "s", "m"]


def test_the_arrays_of_a_call_stay(double: Any) -> None:
    bound = double.bind(frozen(4))
    with pytest.raises(lw.DtypeError, match="x is read-only"):
        bound.inputs["x"] = np.zeros(4)
    with pytest.raises(lw.LinkworkError, match="outputs are written by the call"):
        bound.outputs["out"] = np.zeros(4)
    for change in (
        lambda: bound.inputs.pop("x"), lambda: bound.inputs.clear(), lambda: bound.inputs.popitem(),
        lambda: bound.inputs.__delitem__("x"), lambda: bound.inputs.setdefault("y", 1),
    ):  # fmt: skip
        with pytest.raises(lw.LinkworkError, match="arrays of a bound call are fixed"):
            change()
    for name in ("inputs", "outputs"):
        with pytest.raises(AttributeError):
            setattr(bound, name, {})
    assert (
        list(bound.inputs) == ["x"] and type(bound.inputs.copy()) is type(copy.deepcopy(bound.inputs)) is dict
    )


def test_masked_arrays_are_not_bound(double: Any) -> None:
    masked = np.ma.array(np.zeros(4), mask=[0, 1, 0, 0])
    with pytest.raises(lw.DtypeError, match="x is a masked array"):
        double.bind(masked)
    with pytest.raises(lw.DtypeError, match="output out is a masked array"):
        double.bind(out=masked)


def test_many_threads_call_it(kernel: Any) -> None:
    given = arrays(40)
    bound = kernel.bind(*given)
    expected = kernel(*given)
    wrong = []

    def work() -> None:
        for _ in range(500):
            found = bound()
            wrong.extend(k for k in range(3) if not np.array_equal(found[k], expected[k]))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []


def test_it_follows_the_kernel_to_its_optimised_code(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    compile_objects = module.compile_objects

    def late(*args: Any, **options: Any) -> Any:
        if options["level"] == OPTIMISED:
            gate.wait()
        return compile_objects(*args, **options)

    monkeypatch.setattr(module, "compile_objects", late)
    x = np.random.default_rng(1).normal(size=(21, 4))
    try:
        kernel = module.build_kernel(lw.trace(steep, {"x": 4}), cache=Cache(None))
        bounds = [kernel.bind(x), *(kernel.bind(row) for row in x[:3])]
        assert kernel.tier == 1
        before = [bound().tobytes() for bound in bounds]
    finally:
        gate.set()
    kernel.wait()
    assert kernel.tier == 2
    for bound in bounds:
        for out in bound.outputs.values():
            out[...] = np.nan
    assert [bound().tobytes() for bound in bounds] == before
    assert kernel.bind(x)().tobytes() == before[0] == kernel(x).tobytes()


# errors


@pytest.mark.parametrize(
    ("args", "named", "error", "words"),
    [
        (([0.0, 0.0, 0.0],), {}, lw.DtypeError, "a: expected a NumPy array to bind, got list"),
        ((None,), {}, lw.DtypeError, "a: expected a NumPy array to bind, got NoneType"),
        ((), {"s": 2.0}, lw.DtypeError, "s: expected a NumPy array to bind, got float"),
        ((), {"s": np.float64(2.0)}, lw.DtypeError, "s: expected a NumPy array"),
        (
            (np.zeros(3, "f4"),),
            {},
            lw.DtypeError,
            "a: expected an aligned float64 array to bind, got float32",
        ),
        ((np.zeros(3, int),), {}, lw.DtypeError, "a: expected an aligned float64 array to bind, got int64"),
        (
            (np.zeros(3, np.dtype("f8").newbyteorder()),),
            {},
            lw.DtypeError,
            "a: expected an aligned float64 array",
        ),
        ((unaligned(3),), {}, lw.DtypeError, "a: expected an aligned float64 array"),
        ((), {"m": unaligned(2, 2, 3)}, lw.DtypeError, "m: expected an aligned float64 array"),
        ((np.zeros(4),), {}, lw.ShapeError, r"a: expected shape \(..., 3\) .*got \(4,\)"),
        ((np.zeros(()),), {}, lw.ShapeError, r"a: expected shape \(..., 3\) .*got \(\)"),
        (
            (np.zeros((2, 2, 3)),),
            {},
            lw.ShapeError,
            r"a: expected .*at most one batch dimension, got \(2, 2, 3\)",
        ),
        ((), {"m": np.zeros((3, 2))}, lw.ShapeError, r"m: expected shape \(..., 2, 3\)"),
        ((np.zeros((2, 3)), np.zeros(3)), {}, lw.ShapeError, "s: expected 2 rows as in other inputs, got 3"),
        ((np.zeros((2, 3)), np.zeros(1)), {}, lw.ShapeError, "s: expected 2 rows as in other inputs, got 1"),
        ((), {"q": np.zeros(3)}, lw.LinkworkError, "unknown input 'q'; the inputs are a, s, m"),
        ((np.zeros(3),), {"a": np.zeros(3)}, lw.LinkworkError, "'a' is given twice"),
        ([np.zeros(3)] * 4, {}, lw.LinkworkError, r"at most 3 input arrays \(a, s, m\), got 4"),
    ],
)
def test_wrong_inputs(kernel: Any, args: Any, named: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"mixed.*{words}") as found:
        kernel.bind(*args, **named)
    assert type(found.value) is error


Y = np.zeros(2)
N = np.zeros(())
P = np.zeros((3, 3))


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        ((Y, N), lw.ShapeError, r"out: expected a tuple of 3 arrays \(y, n, p\)"),
        (Y, lw.ShapeError, "out: expected a tuple of 3 arrays"),
        ([Y, N, P], lw.ShapeError, "out: expected a tuple of 3 arrays"),
        ((Y, None, P), lw.DtypeError, "n: expected a NumPy array, got NoneType"),
        ((Y, np.float64(0.0), P), lw.DtypeError, "n: expected a NumPy array, got float64"),
        ((np.zeros(3), N, P), lw.ShapeError, r"y: expected shape \(2,\), got \(3,\)"),
        ((np.zeros((5, 2)), N, P), lw.ShapeError, r"y: expected shape \(2,\), got \(5, 2\)"),
        (
            (Y.astype("f4"), N, P),
            lw.DtypeError,
            "y: expected an aligned float64 array to bind, got float32",
        ),
        ((Y.astype(int), N, P), lw.DtypeError, "y: expected dtype float64, got int64"),
        ((Y, N, unaligned(3, 3)), lw.DtypeError, "p: expected an aligned float64 array"),
        ((Y, N, P.astype(P.dtype.newbyteorder())), lw.DtypeError, "p: expected an aligned float64 array"),
        ((Y, frozen(), P), lw.DtypeError, "n is read-only"),
        ((np.broadcast_to(0.0, 2), N, P), lw.DtypeError, "y is read-only"),
    ],
)
def test_wrong_outputs(kernel: Any, out: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"mixed: .*{words}") as found:
        kernel.bind(out=out)
    assert type(found.value) is error


def test_arrays_that_overlap_are_refused(kernel: Any, double: Any) -> None:
    memory = np.zeros(40)
    for args, out, words in (
        ((memory[:3],), (memory[2:4], N, P), "output y shares memory with a"),
        ((memory[:3],), (Y, memory[1:2].reshape(()), P), "output n shares memory with a"),
        ((), (memory[2:4], N, memory[3:12].reshape(3, 3)), "output p shares memory with y"),
    ):
        with pytest.raises(lw.OverlapError, match=f"mixed: {words}"):
            kernel.bind(*args, out=out)
    for shift in (0, 2):
        with pytest.raises(lw.OverlapError, match="output out shares memory with x"):
            double.bind(memory[:20].reshape(5, 4), out=memory[shift : 20 + shift].reshape(5, 4))
    memory[::2] = 1.0  # interleaved is apart; inputs may share
    assert double.bind(memory[:8:2], out=memory[1:9:2])().tolist() == [2.0] * 4
    a = np.ones(9)
    same(kernel.bind(a[:3], m=a[:6].reshape(2, 3))(), kernel(a[:3], 0.0, a[:6].reshape(2, 3)))
