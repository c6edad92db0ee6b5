"""CUDA kernels as XLA custom calls: launched on XLA's stream and buffers by a function that XLA calls.

XLA calls it once for each use of a kernel and continues at once: the GPU keeps the order. The offsets are
those of XLA's header xla/ffi/api/c_api.h, whose layout is stable.
"""

from __future__ import annotations

import ctypes
import math
from contextlib import ExitStack
from typing import Any

from linkwork.compiler.runtime.cuda.binding import call, driver, gpu
from linkwork.compiler.runtime.cuda.kernel import CudaKernel
from linkwork.compiler.runtime.cuda.memory import Memory

# offsets in a call frame
EXTENSION = 8
API = 16
CONTEXT = 24
ARGUMENTS = 72
RESULTS = 112
# offsets in a buffer
DATA = 24
RANK = 32
DIMENSIONS = 40
# extension by which XLA queries a handler's FFI version, and that version
METADATA = 1
MINOR = 3
# offsets in the interface
API_MINOR = 36
MAKE_ERROR = 48
GET_STREAM = 80
INTERNAL = 13  # error kind

Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_OfStruct = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_handlers: dict[
    int, tuple[CudaKernel, Any]
] = {}  # XLA never drops a custom call, so its kernel must stay alive


class _StreamArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


class _ErrorArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("kind", ctypes.c_int),
    )


def xla_cuda_handler(kernel: CudaKernel) -> int:
    """Return the address of an XLA FFI handler that launches a kernel."""
    if id(kernel) not in _handlers:

        def handle(frame: int) -> int | None:
            if _answer_version_query(frame):
                return None
            try:
                _launch(kernel, frame)
            except Exception as error:  # exceptions must not propagate into XLA
                return _error(_pointer(frame + API), f"{type(error).__name__}: {error}")
            return None

        _handlers[id(kernel)] = kernel, Handler(handle)
    address = ctypes.cast(_handlers[id(kernel)][1], ctypes.c_void_p).value
    assert address is not None
    return address


def _pointer(place: int) -> int:
    return ctypes.c_void_p.from_address(place).value or 0


def _answer_version_query(frame: int) -> bool:
    """Return True after answering a query of the supported FFI version, False for a call."""
    extension = _pointer(frame + EXTENSION)
    if not extension or ctypes.c_int32.from_address(extension + 8).value != METADATA:
        return False
    api = _pointer(frame + API)
    version = _pointer(extension + 24)
    least = min(MINOR, ctypes.c_int32.from_address(api + API_MINOR).value) if api else MINOR
    for offset, value in ((24, 0), (28, least), (32, 0)):  # major and minor version, traits
        ctypes.c_int32.from_address(version + offset).value = value
    return True


def _launch(kernel: CudaKernel, frame: int) -> None:
    stream_args = _StreamArguments(ctypes.sizeof(_StreamArguments), None, _pointer(frame + CONTEXT), None)
    if _OfStruct(_pointer(_pointer(frame + API) + GET_STREAM))(ctypes.addressof(stream_args)):
        raise RuntimeError("XLA gave no stream")
    stream = int(stream_args.stream or 0)
    rows = 1
    inputs: list[tuple[int, int]] = []
    outputs: list[tuple[int, int]] = []
    for arrays, offset, addresses in ((kernel.inputs, ARGUMENTS, inputs), (kernel.outputs, RESULTS, outputs)):
        for k, array in enumerate(arrays):
            buffer = _pointer(_pointer(frame + offset) + 8 * k)
            lead = ctypes.c_int64.from_address(buffer + RANK).value - len(array.shape)
            sizes = (
                (ctypes.c_int64 * max(lead, 0)).from_address(_pointer(buffer + DIMENSIONS))
                if lead > 0
                else ()
            )
            rows = math.prod(sizes) if lead > 0 else rows
            addresses.append((_pointer(buffer + DATA), array.size if lead > 0 or addresses is outputs else 0))
    if rows == 0:
        return
    word = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    device = gpu(int(call("cuPointerGetAttribute", word, outputs[0][0])))
    with ExitStack() as stack:
        stack.enter_context(device.current())
        kernel.launch(device, rows, inputs, outputs, stream, Memory(kernel, stream, stack))


def _error(api: int, message: str) -> int | None:
    error_args = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), INTERNAL)
    error: int | None = _OfStruct(_pointer(api + MAKE_ERROR))(ctypes.addressof(error_args))
    return error
