"""A GPU for tests on machines without one: its memory is this machine's, and kernels are interpreted.

What it does not have fails: copies that wait for all streams, and the stream that all threads share.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes import lower
from linkwork.compiler.runtime.cuda import binding, build, memory
from linkwork.compiler.runtime.cuda.kernel import CudaKernel
from linkwork.studies.cuda import launch, sampling
from study_kernels import run_on_host

CACHED = (binding.gpu, memory._pool, sampling._elementary)


class FakeDriver:
    """Functions of the CUDA driver on the memory of this machine; `streams` are those that were used."""

    CUresult = SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=2)
    CUmemorytype = SimpleNamespace(CU_MEMORYTYPE_DEVICE=2, CU_MEMORYTYPE_HOST=1)
    CUDA_MEMCPY2D = SimpleNamespace
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)
    cuuint64_t = int

    def __init__(self) -> None:
        self.buffers: dict[int, Any] = {}
        self.streams: set[int] = set()
        self.fetched = 0  # bytes copied to the host
        self.lock = threading.Lock()

    def CUmemPoolProps(self) -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    @property
    def CUdevice_attribute(self) -> Any:
        class Names:
            def __getattr__(self, name: str) -> str:
                return name

        return Names()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Functions of which only success counts."""
        answers: dict[str, Any] = {
            "cuCtxGetCurrent": 0, "cuCtxGetDevice": 0, "cuDeviceGetCount": 1, "cuDeviceGet": 0,
            "cuDeviceGetName": b"fake\0", "cuDevicePrimaryCtxRetain": 1, "cuCtxPopCurrent": 1, "cuMemPoolCreate": 1,
            "cuDeviceTotalMem": 1 << 34,
        }  # fmt: skip
        if name in answers:
            return lambda *args: (0, answers[name])
        if name in ("cuCtxPushCurrent", "cuMemPoolSetAttribute"):
            return lambda *args: (0,)
        raise AttributeError(f"the fake GPU has no {name}")

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int, int]:
        return 0, 9 if name.endswith("MAJOR") else 1 << 16

    def cuMemAllocFromPoolAsync(self, size: int, pool: Any, stream: int) -> tuple[int, int]:
        self.streams.add(stream)
        buffer = (ctypes.c_char * size).from_buffer(bytearray(b"\xff" * size))  # NaN
        address = ctypes.addressof(buffer)
        with self.lock:
            self.buffers[address] = buffer
        return 0, address

    def cuMemFreeAsync(self, address: int, stream: int) -> tuple[int]:
        with self.lock:
            del self.buffers[address]
        return (0,)

    def _copied(self, to: int, source: int, size: int, stream: int) -> tuple[int]:
        self.streams.add(stream)
        ctypes.memmove(to, source, size)
        return (0,)

    cuMemcpyHtoDAsync = cuMemcpyDtoDAsync = _copied

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: int) -> tuple[int]:
        self.fetched += size
        return self._copied(to, source, size, stream)

    def cuMemcpy2DAsync(self, copy: Any, stream: int) -> tuple[int]:
        to_host = copy.dstMemoryType == self.CUmemorytype.CU_MEMORYTYPE_HOST
        start = copy.dstHost if to_host else copy.dstDevice
        if to_host:
            self.fetched += copy.WidthInBytes * copy.Height
        for row in range(copy.Height):
            source = copy.srcDevice + row * copy.srcPitch
            self._copied(start + row * copy.dstPitch, source, copy.WidthInBytes, stream)
        return (0,)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> tuple[int]:
        ctypes.memset(address, value, size)
        return (0,)

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        self.streams.add(stream)
        return (0,)


class InterpretedKernel(CudaKernel):
    """A kernel of the fake GPU."""

    program: Program

    def launch(self, here: Any, rows: int, inputs: Any, outputs: Any, stream: int, memory: Any) -> None:
        binding.driver().streams.add(stream)
        numbers = [self._rows_at(rows, spec, place) for spec, place in zip(self.inputs, inputs)]
        results = interpret(self.program, *(x.copy() for x in numbers))
        results = results if isinstance(results, tuple) else (results,)
        for spec, place, result in zip(self.outputs, outputs, results, strict=True):
            self._rows_at(rows, spec, place)[...] = result

    def _rows_at(self, rows: int, spec: Any, place: tuple[int, int]) -> np.ndarray:
        address, step = place
        count = (rows - 1) * step + spec.size
        flat = np.ctypeslib.as_array(
            ctypes.cast(address, ctypes.POINTER(np.ctypeslib.as_ctypes_type(self.dtype))), (max(count, 1),)
        )
        size = flat.itemsize
        shape = (rows, spec.size)
        view = np.lib.stride_tricks.as_strided(flat, shape, (step * size, size), writeable=True)
        return view.reshape(rows, *spec.shape) if step == 0 or len(spec.shape) != 1 else view


@contextmanager
def fake_gpu(patch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Have kernels run on a fake GPU. Take a model of your own: kernels are kept as long as it is."""
    fake = FakeDriver()

    def make(content: str, source: Any, program_of: Any, dtype: str, cache: Any) -> CudaKernel:
        program = program_of()
        kernel = InterpretedKernel(program.name, dtype, program.inputs, program.outputs)
        kernel.program = lower(program, dtype)
        return kernel

    with patch.context() as own:
        own.setattr(binding, "driver", lambda: fake)
        own.setattr(build, "_load_or_compile", make)
        own.setattr(launch, "run", run_on_host)
        for cached in CACHED:
            cached.cache_clear()
        yield fake
    for cached in CACHED:
        cached.cache_clear()
    assert not fake.buffers, "memory was not given back"
