"""Arrays in the memory of a GPU, for callers without an array library: intermediate results of a few calls.

    with DeviceScope() as scope:
        q = scope.upload(numbers)
        motion = lw.rollout(model, q, ...)  # stays on the GPU
        energy = lw.kinetic_energy(model, motion.q[:, -1], motion.v[:, -1], device="cuda").get()

All work runs on the stream of the thread. Memory is given back where the scope ends.
"""

from __future__ import annotations

import math
import threading
from contextlib import ExitStack
from typing import Any

import numpy as np

from linkwork.compiler.runtime.cuda import binding
from linkwork.compiler.runtime.cuda.binding import call, current_gpu
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM, allocate
from linkwork.errors import TargetError

_scopes = threading.local()


class DeviceArray:
    """Rows on a GPU, contiguous each; `step` is their distance in numbers."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: Any, gpu: int, step: int) -> None:
        self.address = address
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.gpu = gpu
        self.step = step

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distances along the axes, in numbers."""
        contiguous = [math.prod(self.shape[k + 1 :]) for k in range(1, len(self.shape))]
        return (self.step, *contiguous) if self.shape else ()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The location, for other libraries."""
        size = self.dtype.itemsize
        strides = tuple(size * n for n in self.strides)
        where = {"data": (self.address, False), "shape": self.shape, "strides": strides}
        return {**where, "typestr": self.dtype.str, "version": 3, "stream": THREAD_STREAM}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> DeviceArray:
        """Return one entry or a range of entries of each row: x[:, k], or x[..., k] of a matrix."""
        axes = key[0] if isinstance(key, tuple) and len(key) == 2 else None
        if not ((axes is Ellipsis and self.ndim == 2) or (axes == slice(None) and self.ndim >= 2)):
            raise IndexError(f"an array on the GPU: expected x[:, k], got {key!r}")
        selected = range(self.shape[1])[key[1]]
        first = selected if isinstance(selected, int) else selected.start
        columns: tuple[int, ...] = () if isinstance(selected, int) else (len(selected),)
        if isinstance(selected, range) and selected.step != 1:
            raise IndexError(f"an array on the GPU: expected consecutive entries, got {key!r}")
        size = math.prod(self.shape[2:])
        address = self.address + first * size * self.dtype.itemsize
        return DeviceArray(
            address, (self.shape[0], *columns, *self.shape[2:]), self.dtype, self.gpu, self.step
        )

    def part(self, first: int) -> DeviceArray:
        """Return the numbers of x, (n,), from `first` on."""
        address = self.address + first * self.dtype.itemsize
        return DeviceArray(address, (self.shape[0] - first,), self.dtype, self.gpu, 1)

    def get(self) -> np.ndarray:
        """Return a copy on the host."""
        result = np.empty(self.shape, self.dtype)
        if result.size and self.step == math.prod(self.shape[1:]):
            call("cuMemcpyDtoHAsync", result.ctypes.data, self.address, result.nbytes, THREAD_STREAM)
            call("cuStreamSynchronize", THREAD_STREAM)
        elif result.size:
            cuda = binding.driver()
            rows = self.shape[0] if self.shape else 1
            copied = cuda.CUDA_MEMCPY2D()
            copied.srcMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
            copied.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_HOST
            copied.WidthInBytes = copied.dstPitch = result.nbytes // rows
            copied.srcDevice, copied.srcPitch = self.address, self.step * self.dtype.itemsize
            copied.dstHost = result.ctypes.data
            copied.Height = rows
            call("cuMemcpy2DAsync", copied, THREAD_STREAM)
            call("cuStreamSynchronize", THREAD_STREAM)
        return result


class DeviceScope:
    """Memory for arrays of a thread, on the current GPU.

    Results of calls on such arrays are taken from it.
    """

    def __enter__(self) -> DeviceScope:
        self._stack = ExitStack()
        self._gpu = current_gpu()
        self._keep: list[np.ndarray] = []
        self._stack.enter_context(self._gpu.current())
        self._outer = getattr(_scopes, "innermost", None)
        _scopes.innermost = self
        return self

    def __exit__(self, *error: Any) -> None:
        _scopes.innermost = self._outer
        self._stack.close()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """Return a new array."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        address = allocate(max(1, size), self._gpu.number, THREAD_STREAM, self._stack)
        if address is None:
            raise TargetError(
                f"an array of shape {shape}: out of memory on the GPU; take fewer states at once"
            )
        return DeviceArray(address, shape, dtype, self._gpu.number, math.prod(shape[1:]))

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """Return a new array of zeros."""
        result = self.empty(shape, dtype)
        size = math.prod(shape) * result.dtype.itemsize
        if size:
            call("cuMemsetD8Async", result.address, 0, size, THREAD_STREAM)
        return result

    def upload(self, x: np.ndarray) -> DeviceArray:
        """Return a copy of a host array, rows first."""
        x = np.ascontiguousarray(x)
        result = self.empty(x.shape, x.dtype)
        if x.size:
            self._keep.append(x)  # until the stream has copied it
            call("cuMemcpyHtoDAsync", result.address, x.ctypes.data, x.nbytes, THREAD_STREAM)
        return result

    def upload_row(self, x: np.ndarray, rows: int) -> DeviceArray:
        """Return `rows` equal rows, of which one is stored."""
        row = self.upload(x)
        return DeviceArray(row.address, (rows, *row.shape), row.dtype, row.gpu, 0)


def innermost_scope() -> DeviceScope:
    """Return the scope of this thread that new arrays belong to."""
    scope: DeviceScope | None = getattr(_scopes, "innermost", None)
    if scope is None:
        raise TargetError("an array of linkwork on the GPU: its scope has ended")
    return scope
