"""For tests of studies on a GPU: their CUDA text compiled by the host compiler through `cuda_shim.h`, and run."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from cuda_programs import FLAGS, SHIM, host_compiler
from linkwork.studies.cuda.text import CUDA_TEXT, KERNELS, SHARED_BYTES, THREADS
from waiting import PATIENCE

BEFORE = """
#include <utility>
template <class T> static T atomicAdd(T *x, T y) { T old = *x; *x += y; return old; }
template <class T> static T atomicMin(T *x, T y) { T old = *x; *x = y < old ? y : old; return old; }
template <class T> static T atomicMax(T *x, T y) { T old = *x; *x = y > old ? y : old; return old; }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
"""
AFTER = """
template <class... A, size_t... I>
static void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) { kernel(*(A *)arguments[I]...); }
template <class... A> static void run(void (*kernel)(A...), unsigned blocks, size_t shared, void **arguments) {
    lw_run_grid(blocks, %d, shared, [=] { call(kernel, arguments, std::index_sequence_for<A...>()); });
}
"""
_lock = threading.Lock()  # the shim runs one kernel at a time


@cache
def _library() -> Any:
    folder = Path(tempfile.mkdtemp())
    wrappers = "".join(
        f'extern "C" void run_{name}(unsigned blocks, void **arguments) {{'
        f" run({name}, blocks, {SHARED_BYTES.get(name, 0)}, arguments); }}\n"
        for name in KERNELS
    )
    source = folder / "kernels.cpp"
    source.write_text(BEFORE + CUDA_TEXT + AFTER % THREADS + wrappers)
    library = folder / "kernels.so"
    command = [host_compiler(), *FLAGS, "-O1", "-include", str(SHIM), "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def run_on_host(name: str, blocks: int, pointers: Any) -> None:
    """Run a kernel of studies, in place of `linkwork.studies.cuda.launch.run`."""
    with _lock:
        getattr(_library(), f"run_{name}")(ctypes.c_uint(blocks), pointers)
