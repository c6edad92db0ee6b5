"""Memory: kernels touch no byte beyond their arrays, and their machine code goes when nobody can call it any
more.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import ExecutionEngine

import linkwork as lw
from linkwork.compiler.runtime import compiler, native
from linkwork.compiler.runtime import kernel as module
from linkwork.compiler.targets.cpu import EXPORTS, host
from processes import run_python

pytestmark = pytest.mark.background

# These end, or begin, at a page that may not be touched.
GUARDED = """
import ctypes, mmap, sys
import numpy as np
import linkwork as lw

PAGE, libc = mmap.PAGESIZE, ctypes.CDLL(None, use_errno=True)
keep = []

def guarded(shape, dtype, at_end):
    "Zeros right before, or right behind, a page that nobody may touch."
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    pages = -(-max(size, 1) // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        assert libc.mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) == 0
    keep.append(memory)
    offset = (pages + 1) * PAGE - size if at_end else PAGE
    return np.frombuffer(memory, dtype, int(np.prod(shape)), offset).reshape(shape)

rng = np.random.default_rng(0)
for dtype in ("float64", "float32"):
    for size in (1, 3, 7, 8, 9, 16, 17):
        def f(x, A, y):
            return {"sum": x + y, "all": A @ x, "one": x[0] * y}
        kernel = lw.compile(f, {"x": size, "A": (2, size), "y": ()}, dtype=dtype, wait=True)
        for rows in (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33):
            for at_end in (True, False):
                shapes = [(rows, size), (rows, 2, size), (rows,)]
                inputs = [guarded(s, dtype, at_end) for s in shapes]
                for a in inputs:
                    a[...] = rng.normal(size=a.shape)
                outs = tuple(guarded(s, dtype, at_end) for s in ((rows, size), (rows, 2), (rows,)))
                kernel(*inputs, out=outs)
                expected = kernel(*[a.copy() for a in inputs])
                assert all(np.array_equal(a, b) for a, b in zip(outs, expected))
                kernel(*[a[..., ::-1] if a.ndim > 1 else a[::-1] for a in inputs])  # strided, from the far end
print("untouched")
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None) if sys.platform != "win32" else object(), "mprotect"), reason="no mprotect"
)
def test_no_byte_beyond_the_arrays() -> None:
    done = run_python(GUARDED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "untouched\n", "")


DROPPED = """
import gc, threading
import numpy as np
import linkwork as lw
from linkwork.compiler.runtime import compiler

def mappings():
    gc.collect()
    done = threading.Event()
    compiler.background.submit(done.set)  # jobs keep their kernels
    assert done.wait(600)
    gc.collect()
    with open("/proc/self/maps") as file:
        return len(file.readlines())

def small(number):
    return lw.compile(lambda x: x * (1.5 + number) + x[::-1], {"x": 4})

def tiered(number):
    def steep(x):
        for k in range(3):
            x = lw.sin(x) * (1.5 + number + k) + x[::-1]
        return x
    return lw.compile(steep, {"x": 4})

def used(kernel):
    x = np.ones(4)
    kernel(x), kernel(np.ones((5, 4))), kernel(x, threads=2), kernel.bind(x)(), kernel.ufunc(x), kernel.direct(x)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="no /proc")
@pytest.mark.parametrize(("make", "count"), [("used(small(k))", 20), ("used(tiered(k).wait())", 10)])
def test_machine_code_goes_with_its_kernel(make: str, count: int) -> None:
    done = run_python(
        f"""{DROPPED}
for k in range(5):
    {make}
before = mappings()
for k in range(100, 100 + {count}):
    {make}
print(mappings() - before < 20)
""",
        LINKWORK_CACHE="off",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def kernel_of(factor: float) -> Any:
    """A kernel that nothing but its caller keeps alive, and its machine code's engine."""
    kernel = lw.compile(lambda x: x * factor + x[::-1], {"x": 3})
    module._recent.clear()
    return kernel


def engines() -> list[Any]:
    """LLVM's engines that are in memory, of other tests, too, whose garbage may go at any time."""
    return [x for x in gc.get_objects() if isinstance(x, ExecutionEngine)]


class Closed(list[Any]):
    """Engines whose code was freed, but for those that were there before."""

    def __init__(self) -> None:
        super().__init__()
        self.others = engines()

    def append(self, engine: Any) -> None:
        if not any(engine is other for other in self.others):
            super().append(engine)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The engines whose code was freed."""
    module._recent.clear()
    gc.collect()  # what other tests left
    freed = Closed()
    monkeypatch.setattr(compiler, "_close_retired", lambda: None)
    monkeypatch.setattr(compiler, "_retired", freed)
    return freed


@pytest.mark.parametrize("part", ["ufunc", "direct", "__call__", "bind", "bind()"])
def test_objects_that_call_machine_code_keep_it_loaded(closed: list[Any], part: str) -> None:
    kernel = kernel_of(2.0 + len(part))
    expected = kernel(np.ones(3)).tolist()
    call = kernel.bind(np.ones(3)) if part == "bind()" else getattr(kernel, part)
    watched = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert closed == []
    result = call(np.ones(3))() if part == "bind" else call() if part == "bind()" else call(np.ones(3))
    assert result.tolist() == expected
    del call, result
    gc.collect()
    assert watched() is None and len(closed) == 1


def test_finalisers_in_a_cycle_of_garbage_may_call_kernels(closed: list[Any]) -> None:
    """The garbage collector runs all finalisers of a cycle, in any order, before it clears anything."""
    results = []

    class Last:
        def __init__(self, calls: list[Any]) -> None:
            self.calls = calls
            self.me = self

        def __del__(self) -> None:
            results.append((len(closed), [call(*args).tolist() for call, *args in self.calls]))

    kernels = [kernel_of(30.0 + k) for k in range(5)]
    one = np.ones(3)
    last = Last(
        [call for k in kernels for call in ((k, one), (k.bind(one),), (k.ufunc, one), (k.direct, one))]
    )
    for kernel in kernels:
        kernel.last = last
    del kernels, kernel, last
    gc.collect()
    assert results == [(0, [[31.0 + k // 4] * 3 for k in range(20)])] and len(closed) == 5


def test_machine_code_goes_after_all_finalisers() -> None:
    """Also where the garbage collector finds all that leads to it."""
    retired: list[Any] = []
    seen = []

    class Last:
        def __init__(self, code: native.Code) -> None:
            self.code = code
            self.me = self

        def __del__(self) -> None:
            seen.append(len(retired))

    program = lw.lower(lw.trace(lambda x: x * 2.0, {"x": 2}), "float64")
    objects = compiler.compile_objects(program, host(), level=compiler.QUICK, lanes=1)
    assert objects is not None
    Last(native.Code(objects, EXPORTS, retired.append))
    gc.collect()
    assert seen == [0] and len(retired) == 1


def test_nobody_waits_for_a_compiler_to_free_memory() -> None:
    """While LLVM works, code to be freed waits for whoever has it work."""
    before = engines()
    kernel = kernel_of(50.0)
    (own,) = (engine for engine in engines() if not any(engine is other for other in before))
    with compiler._llvm:
        del kernel
        gc.collect()
        assert any(engine is own for engine in compiler._retired)
    kernel_of(51.0)
    assert not any(engine is own for engine in compiler._retired)


def test_kernels_may_be_called_while_python_exits() -> None:
    done = run_python(
        """
        import linkwork as lw
        class Last:
            def __del__(self):
                print(*(a.tolist() for a in (self.kernel([1.0, 2.0]), self.bound(), self.ufunc([1.0, 2.0]))))
        last = Last()
        last.kernel = lw.compile(lambda x: x * 2.0, {"x": 2})
        last.bound, last.ufunc, last.me = last.kernel.bind(), last.kernel.ufunc, last
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2.0, 4.0] [0.0, 0.0] [2.0, 4.0]\n", "")


def test_a_ufunc_without_a_place_for_an_object_keeps_it_for_good(
    monkeypatch: pytest.MonkeyPatch, closed: list[Any]
) -> None:
    monkeypatch.setattr(native, "_ufuncs_keep_objects", lambda: False)
    kept: list[object] = []
    monkeypatch.setattr(native, "_immortal", kept)
    ufunc = kernel_of(60.0).ufunc
    gc.collect()
    assert len(kept) == 1 and closed == [] and ufunc([1.0, 0.0, 1.0]).tolist() == [61.0, 0.0, 61.0]


def test_definitions_of_built_ins_are_few() -> None:
    """They are never freed (see `native._method`): one for the direct and one for the bound calls of a
    kernel, no more.
    """
    before = native._method.cache_info().currsize
    for k in range(10):
        kernel = kernel_of(70.0 + k)
        for _ in range(5):
            kernel.bind()()
    assert native._method.cache_info().currsize - before <= 20
