"""Arrays on GPUs: those of CuPy, PyTorch, JAX and others with the CUDA array interface, taken and made without copies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from linkwork.errors import DtypeError, TargetError
from linkwork.runtime.arguments import on_gpu


class OnDevice(NamedTuple):
    """Where the numbers of an array lie: address, shape, distances in numbers, dtype and the GPU's number."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    gpu: int


class Library:
    """What is asked of an array library. This one is for any array with the CUDA array interface."""

    name = "array with the CUDA array interface"

    def view(self, x: Any) -> OnDevice:
        """Where an array lies."""
        from linkwork.runtime.cuda.binding import call, driver

        told = x.__cuda_array_interface__
        code = told["typestr"]
        dtype = {"<f4": "float32", "<f8": "float64"}.get(code, code)
        size = int(code[2:])
        strides = told.get("strides")
        address = told["data"][0]
        word = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        gpu = int(call("cuPointerGetAttribute", word, address)) if address else 0
        shape = tuple(told["shape"])
        found = _packed(shape) if strides is None else tuple(s // size for s in strides)
        return OnDevice(address, shape, found, dtype, gpu)

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        """A new array."""
        raise TargetError(f"a result of an {self.name} cannot be made: give the arrays for it as out=")

    def stream(self, gpu: int) -> int:
        """The stream that the caller works on; 0 for the usual one."""
        return 0

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        """The array repeated to a shape, its rows one after the other."""
        raise TargetError(f"an {self.name} must have its rows one after the other")

    def before(self, arrays: Sequence[Any]) -> None:
        """Wait until arrays may be read, where the library's stream cannot be used."""

    asynchronous = True  # whether the library waits for its stream before it looks at a result


class _Cupy(Library):
    name = "CuPy array"

    def view(self, x: Any) -> OnDevice:
        return OnDevice(x.data.ptr, x.shape, tuple(s // x.dtype.itemsize for s in x.strides), str(x.dtype), int(x.device.id))

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
                "a tensor requires its gradient, which a kernel does not give: take linkwork.interop.torch, or tensor.detach()"
            )
        return OnDevice(
            x.data_ptr(), tuple(x.shape), tuple(x.stride()), str(x.dtype).removeprefix("torch."), int(x.device.index or 0)
        )

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{gpu}")

    def stream(self, gpu: int) -> int:
        return int(sys.modules["torch"].cuda.current_stream(gpu).cuda_stream)

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.expand(shape).contiguous()


class _Jax(Library):
    """JAX does not tell its stream, so a call waits for its inputs and for its result."""

    name = "JAX array"
    asynchronous = False

    def view(self, x: Any) -> OnDevice:
        (device,) = x.devices()
        return OnDevice(x.unsafe_buffer_pointer(), x.shape, _packed(x.shape), str(x.dtype), int(device.local_hardware_id or 0))

    def empty(self, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
        jax = sys.modules["jax"]
        device = next(d for d in jax.devices() if int(d.local_hardware_id or 0) == gpu)
        if dtype == "float64" and not jax.config.jax_enable_x64:
            raise DtypeError("JAX has no float64 here: call jax.config.update('jax_enable_x64', True), or compile in float32")
        return jax.device_put(jax.numpy.empty(shape, dtype), device).block_until_ready()

    def packed(self, x: Any, shape: tuple[int, ...]) -> Any:
        return sys.modules["jax"].numpy.broadcast_to(x, shape).block_until_ready()

    def before(self, arrays: Sequence[Any]) -> None:
        for x in arrays:
            x.block_until_ready()


_LIBRARIES = {"cupy": _Cupy(), "torch": _Torch(), "jaxlib": _Jax(), "jax": _Jax()}
_OTHER = Library()


def library_of(value: Any) -> Library | None:
    """The library of an array on a GPU; None for everything else."""
    if not on_gpu(value):
        return None
    return _LIBRARIES.get(type(value).__module__.partition(".")[0], _OTHER)


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The distances of elements of an array without gaps, in numbers."""
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


def row_step(view: OnDevice, core: tuple[int, ...], batch: tuple[int, ...]) -> int | None:
    """The distance of rows in numbers, 0 where one row is for all; None where rows cannot be walked with one step."""
    lead = len(view.shape) - len(core)
    inside = _packed(core)
    for size, stride, wanted in zip(core, view.strides[lead:], inside):
        if size > 1 and stride != wanted:
            return None
    own = view.shape[:lead]
    if all(size == 1 for size in own):
        return 0
    if own != batch[len(batch) - lead :] or any(size != 1 for size in batch[: len(batch) - lead]):
        return None
    step: int | None = None
    expected = 0
    for size, stride in reversed(list(zip(own, view.strides[:lead]))):
        if size == 1:
            continue
        if step is None:
            step, expected = stride, stride * size
        elif stride != expected:
            return None
        else:
            expected *= size
    return step
