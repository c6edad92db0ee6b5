"""Memory on a GPU for one call: taken and freed in the order of the caller's stream, so that nobody waits."""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import TargetError
from linkwork.runtime.cuda import binding
from linkwork.runtime.cuda.binding import call

if TYPE_CHECKING:
    from linkwork.runtime.cuda.kernel import CudaKernel

SCRATCH = 2 << 30  # bytes that kernels of several parts take for crossing values at most, and that stay taken for the next call
LEAST = 1024  # states for which that must do


class Memory:
    """Memory on the GPU for one call, freed in the order of its stream."""

    def __init__(self, kernel: CudaKernel, stream: int, stack: ExitStack) -> None:
        self.kernel, self.stream, self.stack = kernel, stream, stack

    def take(self, shape: tuple[int, ...]) -> int:
        address = self._taken(max(1, math.prod(shape)) * self.kernel._size)
        if address is None:
            raise self.kernel.too_many(shape)
        return address

    def _taken(self, size: int, pool: Any = None) -> int | None:
        """So many bytes; None where the GPU has too few."""
        cuda = binding.driver()
        if pool is None:
            code, address = cuda.cuMemAllocAsync(size, self.stream)
        else:
            code, address = cuda.cuMemAllocFromPoolAsync(size, pool, self.stream)
        if int(code) == int(cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
            return None
        if int(code) != 0:
            raise TargetError(f"memory of the GPU could not be taken: {code.name}")
        self.stack.callback(call, "cuMemFreeAsync", address, self.stream)
        return int(address)

    def scratch(self, gpu: int, rows: int, slots: int, wave: int = 1 << 62) -> tuple[int, int]:
        """Memory for so many crossing values of each of up to so many states: where it is, and for how many states it does.

        As many as there is memory for, a multiple of 32, and of a `wave` of states, which all multiprocessors have at once: the
        rest of them must come later.
        """
        row = slots * self.kernel._size
        most = max(LEAST, SCRATCH // row // LEAST * LEAST)
        count = -(-rows // -(-rows // most))  # batches of one size
        if most >= wave and rows > most:
            count = most // wave * wave
        while True:
            count = -(-count // 32) * 32
            address = self._taken(count * row, _pool(gpu))
            if address is not None:
                return address, count
            if count <= LEAST:
                raise self.kernel.too_many((count, slots))
            count = max(LEAST, count // 2)

    def upload(self, array: np.ndarray) -> int:
        """A copy of an array of this machine; the array must live until the stream has come so far."""
        address = self.take(array.shape)
        if array.size:
            call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, self.stream)
        return address

    def clear(self, address: int, count: int) -> None:
        call("cuMemsetD8Async", address, 0, count * self.kernel._size, self.stream)

    def copy_rows(self, to: int, to_step: int, source: int, source_step: int, count: int, rows: int) -> None:
        """Copy rows of so many numbers from one place on the GPU to another."""
        if rows == 0 or count == 0:
            return
        size = self.kernel._size
        if source_step == 0 and rows > 1:  # one row for all
            for row in range(rows):
                call("cuMemcpyDtoDAsync", to + row * to_step * size, source, count * size, self.stream)
            return
        cuda = binding.driver()
        how = cuda.CUDA_MEMCPY2D()
        how.srcMemoryType = how.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
        how.srcDevice, how.srcPitch = source, max(source_step, count) * size
        how.dstDevice, how.dstPitch = to, max(to_step, count) * size
        how.WidthInBytes, how.Height = count * size, rows
        call("cuMemcpy2DAsync", how, self.stream)


@cache
def _pool(gpu: int) -> Any:
    """Memory that is kept between calls: a usual pool gives it back whenever somebody waits for the GPU."""
    cuda = binding.driver()
    how = cuda.CUmemPoolProps()
    how.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    how.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    how.location.id = gpu
    pool = call("cuMemPoolCreate", how)
    word = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    call("cuMemPoolSetAttribute", pool, word, cuda.cuuint64_t(SCRATCH))
    return pool
