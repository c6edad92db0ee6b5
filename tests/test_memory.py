"""Kernels touch no byte beyond their arrays: these end, or begin, at a page that may not be touched."""

from __future__ import annotations

import ctypes
import sys

import pytest

from processes import run_python

SCRIPT = """
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


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None) if sys.platform != "win32" else object(), "mprotect"), reason="no mprotect")
def test_no_byte_beyond_the_arrays() -> None:
    done = run_python(SCRIPT, timeout=300.0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "untouched\n", "")
