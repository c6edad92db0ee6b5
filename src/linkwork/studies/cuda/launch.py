"""Launches of the kernels of `text` on the current GPU."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from linkwork.compiler.runtime.cuda.binding import Gpu, call, compile_text, current_gpu
from linkwork.compiler.runtime.cuda.device_arrays import DeviceArray
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM
from linkwork.studies.cuda.text import CUDA_TEXT, KERNELS, SHARED_BYTES, THREADS

_functions: dict[int, dict[str, Any]] = {}  # GPU -> functions by name
_lock = threading.Lock()


class OutputRows(ctypes.Structure):
    """The struct `output_rows` of the kernels: an output, and which rows are accepted (0: all)."""

    _fields_ = (
        ("rows", ctypes.c_longlong), ("width", ctypes.c_longlong), ("step", ctypes.c_longlong),
        ("x", ctypes.c_void_p), ("accepted", ctypes.c_void_p),
    )  # fmt: skip


def launch(name: str, blocks: int, *arguments: Any) -> None:
    """Run a kernel on the stream of this thread; arguments are ctypes numbers and structures, and arrays on
    the GPU.
    """
    if blocks == 0:
        return
    values = [ctypes.c_void_p(x.address) if isinstance(x, DeviceArray) else x for x in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(x) for x in values))
    run(name, blocks, pointers)


def run(name: str, blocks: int, pointers: Any) -> None:
    """Launch a kernel with pointers to its arguments."""
    function = _loaded(current_gpu())[name]
    call(
        "cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, SHARED_BYTES.get(name, 0), THREAD_STREAM,
        ctypes.addressof(pointers), 0,
    )  # fmt: skip


def _loaded(gpu: Gpu) -> dict[str, Any]:
    """Return the functions on a GPU, compiled at the first call."""
    with _lock:
        if gpu.number not in _functions:
            code = compile_text(CUDA_TEXT, gpu.device.arch)
            with gpu.current():
                module = call("cuModuleLoadData", code)
                _functions[gpu.number] = {
                    name: call("cuModuleGetFunction", module, name.encode()) for name in KERNELS
                }
        return _functions[gpu.number]
