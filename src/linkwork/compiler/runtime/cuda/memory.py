"""Memory on a GPU for one call, allocated and freed in the order of the caller's stream without waiting."""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.runtime.cuda import binding
from linkwork.compiler.runtime.cuda.binding import call
from linkwork.errors import TargetError

if TYPE_CHECKING:
    from linkwork.compiler.runtime.cuda.kernel import CudaKernel

MAX_SCRATCH_BYTES = 2 << 30  # for crossing values of kernels of several parts
MIN_SCRATCH_STATES = 1024
POOL_SHARE = 0.25  # of a GPU's memory, that stays allocated between calls
THREAD_STREAM = 2  # CU_STREAM_PER_THREAD, of calls with host arrays: those of several threads overlap


class Memory:
    """Memory on the GPU for one call, freed in the order of its stream."""

    def __init__(self, kernel: CudaKernel, stream: int, stack: ExitStack) -> None:
        self.kernel = kernel
        self.stream = stream
        self.stack = stack

    def take(self, shape: tuple[int, ...]) -> int:
        """Return the address of new memory for an array; raise if the GPU has too little."""
        size = max(1, math.prod(shape)) * self.kernel._size
        address = allocate(size, int(call("cuCtxGetDevice")), self.stream, self.stack)
        if address is None:
            raise self.kernel.too_many(shape)
        return address

    def scratch(self, gpu: int, rows: int, slots: int, wave: int = 1 << 62) -> tuple[int, int]:
        """Return memory for `slots` crossing values of up to `rows` states, and for how many states it is.

        The number is as large as memory allows, a multiple of 32, and of a `wave` of states, which all
        multiprocessors hold at once; the remaining states must be processed later.
        """
        row = slots * self.kernel._size
        most = max(MIN_SCRATCH_STATES, MAX_SCRATCH_BYTES // row // MIN_SCRATCH_STATES * MIN_SCRATCH_STATES)
        count = -(-rows // -(-rows // most))  # batches of one size
        if most >= wave and rows > most:
            count = most // wave * wave
        while True:
            count = -(-count // 32) * 32
            address = allocate(count * row, gpu, self.stream, self.stack)
            if address is not None:
                return address, count
            if count <= MIN_SCRATCH_STATES:
                raise self.kernel.too_many((count, slots))
            count = max(MIN_SCRATCH_STATES, count // 2)

    def upload(self, array: np.ndarray) -> int:
        """Return the address of a copy of a host array, which must live until the stream has copied it."""
        address = self.take(array.shape)
        if array.size:
            call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, self.stream)
        return address

    def fetch(self, array: np.ndarray, address: int) -> None:
        """Fill a contiguous host array from the GPU, after all earlier work on the stream."""
        if array.size:
            call("cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, self.stream)
            call("cuStreamSynchronize", self.stream)

    def fetch_rows(self, array: np.ndarray, address: int, step: int) -> None:
        """Fill a contiguous host array from rows on the GPU that are `step` numbers apart."""
        count = math.prod(array.shape[1:])
        if step == count or len(array) < 2:
            self.fetch(array, address)
        elif array.size:
            cuda = binding.driver()
            copy = cuda.CUDA_MEMCPY2D()
            copy.srcMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
            copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_HOST
            copy.srcDevice, copy.srcPitch = address, step * self.kernel._size
            copy.dstHost = array.ctypes.data
            copy.WidthInBytes = copy.dstPitch = count * self.kernel._size
            copy.Height = len(array)
            call("cuMemcpy2DAsync", copy, self.stream)
            call("cuStreamSynchronize", self.stream)

    def clear(self, address: int, count: int) -> None:
        """Set `count` numbers to zero."""
        call("cuMemsetD8Async", address, 0, count * self.kernel._size, self.stream)

    def copy_rows(self, to: int, to_step: int, source: int, source_step: int, count: int, rows: int) -> None:
        """Copy rows of `count` numbers from one place on the GPU to another."""
        if rows == 0 or count == 0:
            return
        size = self.kernel._size
        if source_step == 0 and rows > 1:  # one row for all: twice as many copies of it each time
            call("cuMemcpyDtoDAsync", to, source, count * size, self.stream)
            done = 1
            while done < rows:
                more = min(done, rows - done)
                self.copy_rows(to + done * to_step * size, to_step, to, to_step, count, more)
                done += more
            return
        if to_step == source_step == count:
            call("cuMemcpyDtoDAsync", to, source, rows * count * size, self.stream)
            return
        cuda = binding.driver()
        copy = cuda.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice, copy.srcPitch = source, max(source_step, count) * size
        copy.dstDevice, copy.dstPitch = to, max(to_step, count) * size
        copy.WidthInBytes = count * size
        copy.Height = rows
        call("cuMemcpy2DAsync", copy, self.stream)


def allocate(size: int, gpu: int, stream: int, stack: ExitStack) -> int | None:
    """Return the address of `size` bytes, freed when the stack closes; None if the GPU has too few."""
    cuda = binding.driver()
    code, address = cuda.cuMemAllocFromPoolAsync(size, _pool(gpu), stream)
    if int(code) == int(cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
        return None
    if int(code) != 0:
        raise TargetError(f"cannot allocate GPU memory: {code.name}")
    stack.callback(call, "cuMemFreeAsync", address, stream)
    return int(address)


@cache
def _pool(gpu: int) -> Any:
    """Return a pool that keeps memory between calls; the default one releases it at every synchronisation."""
    cuda = binding.driver()
    properties = cuda.CUmemPoolProps()
    properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = gpu
    pool = call("cuMemPoolCreate", properties)
    attribute = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    threshold = int(POOL_SHARE * call("cuDeviceTotalMem", call("cuDeviceGet", gpu)))
    call("cuMemPoolSetAttribute", pool, attribute, cuda.cuuint64_t(threshold))
    return pool
