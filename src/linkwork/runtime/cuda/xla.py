"""CUDA kernels as custom calls of XLA: launched on XLA's own stream and buffers, by a function that XLA calls.

XLA calls it once for each use of a kernel and goes on at once: the GPU keeps the order. Where the structures of XLA's foreign
function interface keep what is needed here stands in its header xla/ffi/api/c_api.h, whose layout is stable.
"""

from __future__ import annotations

import ctypes
import math
from contextlib import ExitStack
from typing import Any

from linkwork.runtime.cuda.binding import call, driver, gpu
from linkwork.runtime.cuda.kernel import CudaKernel
from linkwork.runtime.cuda.memory import Memory

EXTENSION, API, CONTEXT, ARGUMENTS, RESULTS = 8, 16, 24, 72, 112  # of a call frame
DATA, RANK, DIMENSIONS = 24, 32, 40  # of a buffer
METADATA, MINOR = 1, 3  # the extension with which XLA asks for a handler's version, and that version
API_MINOR, MAKE_ERROR, GET_STREAM = 36, 48, 80  # of the interface
INTERNAL = 13  # the kind of an error

Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_OfStruct = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_made: dict[int, tuple[CudaKernel, Any]] = {}  # XLA never forgets a custom call, so neither may its kernel go


class _StreamArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


class _ErrorArguments(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("message", ctypes.c_char_p), ("kind", ctypes.c_int))


def xla_cuda_handler(kernel: CudaKernel) -> int:
    """The address of a handler of XLA's foreign function interface that launches a kernel."""
    if id(kernel) not in _made:

        def handle(frame: int) -> int | None:
            if _asked_for_version(frame):
                return None
            try:
                _launch(kernel, frame)
            except Exception as error:  # nothing may be raised into XLA
                return _error(_pointer(frame + API), f"{type(error).__name__}: {error}")
            return None

        _made[id(kernel)] = kernel, Handler(handle)
    address = ctypes.cast(_made[id(kernel)][1], ctypes.c_void_p).value
    assert address is not None
    return address


def _pointer(place: int) -> int:
    return ctypes.c_void_p.from_address(place).value or 0


def _asked_for_version(frame: int) -> bool:
    """Whether XLA only asks for the version that this was written for; then it is told."""
    extension = _pointer(frame + EXTENSION)
    if not extension or ctypes.c_int32.from_address(extension + 8).value != METADATA:
        return False
    api, told = _pointer(frame + API), _pointer(extension + 24)
    least = min(MINOR, ctypes.c_int32.from_address(api + API_MINOR).value) if api else MINOR
    for place, value in ((24, 0), (28, least), (32, 0)):  # major and minor version, traits
        ctypes.c_int32.from_address(told + place).value = value
    return True


def _launch(kernel: CudaKernel, frame: int) -> None:
    wanted = _StreamArguments(ctypes.sizeof(_StreamArguments), None, _pointer(frame + CONTEXT), None)
    if _OfStruct(_pointer(_pointer(frame + API) + GET_STREAM))(ctypes.addressof(wanted)):
        raise RuntimeError("XLA gave no stream")
    stream = int(wanted.stream or 0)
    rows = 1
    inputs: list[tuple[int, int]] = []
    outputs: list[tuple[int, int]] = []
    for arrays, where, found in ((kernel.inputs, ARGUMENTS, inputs), (kernel.outputs, RESULTS, outputs)):
        for k, array in enumerate(arrays):
            buffer = _pointer(_pointer(frame + where) + 8 * k)
            lead = ctypes.c_int64.from_address(buffer + RANK).value - len(array.shape)
            sizes = (ctypes.c_int64 * max(lead, 0)).from_address(_pointer(buffer + DIMENSIONS)) if lead > 0 else ()
            rows = math.prod(sizes) if lead > 0 else rows
            found.append((_pointer(buffer + DATA), array.size if lead > 0 or found is outputs else 0))
    if rows == 0:
        return
    word = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    here = gpu(int(call("cuPointerGetAttribute", word, outputs[0][0])))
    with ExitStack() as stack:
        stack.enter_context(here.current())
        kernel.launch(here, rows, inputs, outputs, stream, Memory(kernel, stream, stack))


def _error(api: int, message: str) -> int | None:
    given = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), INTERNAL)
    made: int | None = _OfStruct(_pointer(api + MAKE_ERROR))(ctypes.addressof(given))
    return made
