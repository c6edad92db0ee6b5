"""Arrays on GPUs of CuPy, PyTorch, JAX and other libraries with the CUDA array interface, without copies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM
from linkwork.errors import DtypeError, TargetError


class OnDevice(NamedTuple):
    """Location of an array: address, shape, strides in numbers, dtype and the GPU's number."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    gpu: int


class Library:
    """Interface of an array library; this class serves any array with the CUDA array interface."""

    name = "array with the CUDA array interface"

    def view(self, x: Any) -> OnDevice:
        """Return the location of an array."""
        from linkwork.compiler.runtime.cuda.binding import call, driver

        interface = x.__cuda_array_interface__
        code = interface["typestr"]
        dtype = {"<f4": "float32", "<f8": "float64"}.get(code, code)
        size = int(code[2:])
        strides = interface.get("strides")
        address = interface["data"][0]
        attribute = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        gpu = int(call("cuPointerGetAttribute", attribute, address)) if address else 0
        shape = tuple(interface["shape"])
        element_strides = _contiguous_strides(shape) if strides is None else tuple(s // size for s in strides)
        return OnDevice(address, shape, element_strides, dtype, gpu)

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        """Return a new array."""
        raise TargetError(f"cannot allocate an {self.name}; pass the output arrays as out=")

    def stream(self, gpu: int) -> int:
        """Return the stream that the caller uses; 0 for the default one."""
        return 0

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return the array broadcast to a shape, its rows contiguous."""
        raise TargetError(f"{self.name}: expected contiguous rows")

    def before(self, arrays: Sequence[Any]) -> None:
        """Wait until arrays may be read, if the library's stream cannot be used."""

    host_status = False  # whether rollouts return the status of rows as an array of the host
    asynchronous = True  # True if the library waits for its stream before it reads a result


class _Cupy(Library):
    name = "CuPy array"

    def view(self, x: Any) -> OnDevice:
        return OnDevice(
            x.data.ptr,
            x.shape,
            tuple(s // x.dtype.itemsize for s in x.strides),
            str(x.dtype),
            int(x.device.id),
        )

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(gpu):
            return cupy.empty(shape, dtype)

    def stream(self, gpu: int) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(gpu).ptr)

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        cupy = sys.modules["cupy"]
        return cupy.ascontiguousarray(cupy.broadcast_to(x, shape))


class _Torch(Library):
    name = "PyTorch tensor"

    def view(self, x: Any) -> OnDevice:
        if x.requires_grad:
            raise DtypeError(
                "a tensor requires a gradient, which kernels do not compute; use linkwork.interop.torch or "
                "tensor.detach()"
            )
        return OnDevice(
            x.data_ptr(),
            tuple(x.shape),
            tuple(x.stride()),
            str(x.dtype).removeprefix("torch."),
            int(x.device.index or 0),
        )

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{gpu}")

    def stream(self, gpu: int) -> int:
        return int(sys.modules["torch"].cuda.current_stream(gpu).cuda_stream)

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.expand(shape).contiguous()


class _Jax(Library):
    """Arrays of JAX, which does not expose its stream: a call waits for its inputs and its result."""

    name = "JAX array"
    asynchronous = False

    def view(self, x: Any) -> OnDevice:
        (device,) = x.devices()
        return OnDevice(
            x.unsafe_buffer_pointer(),
            x.shape,
            _contiguous_strides(x.shape),
            str(x.dtype),
            int(device.local_hardware_id or 0),
        )

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        jax = sys.modules["jax"]
        device = next(d for d in jax.devices() if int(d.local_hardware_id or 0) == gpu)
        if dtype == "float64" and not jax.config.jax_enable_x64:
            raise DtypeError(
                "float64 is disabled in JAX; call jax.config.update('jax_enable_x64', True), or compile in "
                "float32"
            )
        return jax.device_put(jax.numpy.empty(shape, dtype), device).block_until_ready()

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        return sys.modules["jax"].numpy.broadcast_to(x, shape).block_until_ready()

    def before(self, arrays: Sequence[Any]) -> None:
        for x in arrays:
            x.block_until_ready()


class _Own(Library):
    """Arrays of `device_arrays`, for callers without an array library."""

    name = "array of a DeviceScope"
    host_status = True

    def view(self, x: Any) -> OnDevice:
        return OnDevice(x.address, x.shape, x.strides, str(x.dtype), x.gpu)

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        from linkwork.compiler.runtime.cuda.device_arrays import innermost_scope

        return innermost_scope().empty(shape, dtype)

    def stream(self, gpu: int) -> int:
        return THREAD_STREAM


_LIBRARIES = {"linkwork": _Own(), "cupy": _Cupy(), "torch": _Torch(), "jaxlib": _Jax(), "jax": _Jax()}
_OTHER = Library()


def library_of(value: Any) -> Library | None:
    """Return the library of an array on a GPU, or None for everything else."""
    if not is_on_gpu(value):
        return None
    return _LIBRARIES.get(type(value).__module__.partition(".")[0], _OTHER)


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in numbers."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def row_step(view: OnDevice, core: tuple[int, ...], batch: tuple[int, ...]) -> int | None:
    """Return the distance of rows in numbers, 0 for a single row, or None if it is not constant."""
    lead = len(view.shape) - len(core)
    core_strides = _contiguous_strides(core)
    for size, stride, expected_stride in zip(core, view.strides[lead:], core_strides):
        if size > 1 and stride != expected_stride:
            return None
    batch_shape = view.shape[:lead]
    if all(size == 1 for size in batch_shape):
        return 0
    if batch_shape != batch[len(batch) - lead :] or any(size != 1 for size in batch[: len(batch) - lead]):
        return None
    step: int | None = None
    expected = 0
    for size, stride in reversed(list(zip(batch_shape, view.strides[:lead]))):
        if size == 1:
            continue
        if step is None:
            step = stride
            expected = stride * size
        elif stride != expected:
            return None
        else:
            expected *= size
    return step
