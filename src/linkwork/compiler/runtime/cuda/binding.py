"""CUDA driver and NVRTC, through NVIDIA's package `cuda-bindings` (the basis of `cuda-core`).

Unlike CuPy, that package brings no array library, so users of PyTorch or JAX need nothing else, and it is the
C interface itself, whose error codes can be distinguished. It is imported when the first CUDA kernel is
requested.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from linkwork.compiler.targets.cuda import Device
from linkwork.errors import MissingPackageError, TargetError

OPTIONS = ("--fmad=false", "--std=c++17", "-default-device")  # the program determines what is fused


@cache
def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("cuda", "cuda.bindings", f"cuda.bindings.{name}"):
            raise
        raise MissingPackageError(
            "kernels on GPUs need the package cuda-bindings: pip install 'linkwork[cuda]'"
        ) from None


def driver() -> Any:
    """Return the driver's functions; raise without a driver or a GPU."""
    module = _module("driver")
    _ready()
    return module


@cache
def _ready() -> None:
    module = _module("driver")
    try:
        (code,) = module.cuInit(0)
    except RuntimeError as error:  # its library cannot be loaded
        raise TargetError(f"no NVIDIA driver found on this machine ({error})") from None
    if code == module.CUresult.CUDA_ERROR_NO_DEVICE:
        raise TargetError("no NVIDIA GPU found on this machine (CUDA_VISIBLE_DEVICES may hide it)")
    if code != module.CUresult.CUDA_SUCCESS:
        raise TargetError(f"the NVIDIA driver could not be started: {_error_text(code)}")


def _error_text(code: Any) -> str:
    _, text = _module("driver").cuGetErrorString(code)
    return f"{code.name}: {text.decode() if text else 'unknown'}"


def call(name: str, *args: Any) -> Any:
    """Return the results of a driver function; raise with the driver's message if it fails."""
    code, *results = getattr(driver(), name)(*args)
    if int(code) != 0:
        raise TargetError(f"{name} failed: {_error_text(code)}")
    return results[0] if len(results) == 1 else tuple(results)


@dataclass(frozen=True)
class Gpu:
    """GPU with its number, properties, name, and the primary context that all libraries share."""

    number: int
    device: Device
    name: str
    context: Any

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make this GPU current in the block."""
        call("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent")


@cache
def gpu(number: int) -> Gpu:
    """Return the GPU with this number."""
    cuda = driver()
    count = call("cuDeviceGetCount")
    if not 0 <= number < count:
        raise TargetError(f"GPU {number} does not exist: this machine has {count}, numbered from 0")
    handle = call("cuDeviceGet", number)
    names = cuda.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(call("cuDeviceGetAttribute", getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

    major = attribute("COMPUTE_CAPABILITY_MAJOR")
    minor = attribute("COMPUTE_CAPABILITY_MINOR")
    if major < 8:
        raise TargetError(f"GPU {number} has compute capability {major}.{minor}; kernels need 8.0 or newer")
    device = Device(
        arch=f"sm_{major}{minor}",
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        registers=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        shared=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        block=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        warps=attribute("MAX_THREADS_PER_MULTIPROCESSOR") // 32,
        clock=1e3 * attribute("CLOCK_RATE"),
    )
    name = call("cuDeviceGetName", 96, handle).split(b"\0")[0].decode()
    return Gpu(number, device, name, call("cuDevicePrimaryCtxRetain", handle))


def current_gpu() -> Gpu:
    """Return the GPU of this thread's current context, or the first one."""
    driver()
    context = call("cuCtxGetCurrent")
    return gpu(int(call("cuCtxGetDevice")) if int(context) else 0)


@cache
def toolkit_version() -> str:
    """Return the version of cuda-bindings; asking NVRTC takes longer than loading a cached kernel."""
    return str(getattr(importlib.import_module("cuda.bindings"), "__version__", "unknown"))


def _nvrtc() -> Any:
    return _module("nvrtc")


def compile_text(source: str, arch: str) -> bytes:
    """Compile CUDA text to machine code (a cubin)."""
    nvrtc = _nvrtc()
    try:
        code, program = nvrtc.nvrtcCreateProgram(source.encode(), b"linkwork.cu", 0, [], [])
    except RuntimeError as error:
        raise TargetError(
            f"NVRTC, the CUDA compiler library, not found: pip install 'linkwork[cuda]' ({error})"
        ) from None
    _nvrtc_check(code)
    try:
        options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture={arch}")]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(code) != 0:
            raise TargetError(f"NVRTC rejected a kernel for {arch}: {_log(program)}")
        code, size = nvrtc.nvrtcGetCUBINSize(program)
        _nvrtc_check(code)
        cubin = b" " * size
        (code,) = nvrtc.nvrtcGetCUBIN(program, cubin)
        _nvrtc_check(code)
        return cubin
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc_check(code: Any) -> None:
    if int(code) != 0:
        raise TargetError(f"NVRTC failed: {code.name}")


def _log(program: Any) -> str:
    nvrtc = _nvrtc()
    code, size = nvrtc.nvrtcGetProgramLogSize(program)
    if int(code) != 0 or size < 2:
        return "no reason given"
    text = b" " * size
    nvrtc.nvrtcGetProgramLog(program, text)
    return text.decode(errors="replace").strip("\0 \n")[:2000]
