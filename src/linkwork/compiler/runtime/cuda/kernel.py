"""Kernel on a GPU, called with arrays of CuPy, PyTorch, JAX or NumPy."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from linkwork.compiler.ir.program import Array, signature
from linkwork.compiler.runtime.arguments import numbers, shape_text
from linkwork.compiler.runtime.cuda.arrays import Library, OnDevice, library_of, row_step
from linkwork.compiler.runtime.cuda.binding import Gpu, call, current_gpu, gpu
from linkwork.compiler.runtime.cuda.memory import THREAD_STREAM, Memory
from linkwork.compiler.runtime.cuda.resources import WARP, kernel_resources, load_functions
from linkwork.compiler.runtime.results import POOL
from linkwork.errors import DtypeError, OverlapError, ShapeError, TargetError

LAUNCH = ("threads", "rows", "gaps", "blocks", "shared_bytes")
WAVE = 256  # resident states of a multiprocessor in most kernels that run in parts


class CudaKernel:
    """Compiled program on a GPU, called with arrays of any leading batch dimensions.

    Arrays broadcast, and `out=` takes output arrays. Arrays of CuPy, PyTorch and JAX are used in place, on
    the caller's stream and device, and results are of the same library. Everything else that NumPy accepts as
    an array is copied to the GPU and back. All must have the kernel's dtype.
    """

    array_labels: Any = None  # of a function of a model: contents of its arrays, and names along their axes

    def __init__(self, name: str, dtype: str, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
        self.name = name
        self.dtype = dtype
        self.inputs = inputs
        self.outputs = outputs
        self._code: dict[str, tuple[dict[str, Any], bytes]] = {}  # architecture -> header, cubin
        self._functions: dict[int, list[Any]] = {}  # GPU -> functions, one after the other
        self._make: Callable[[Gpu], tuple[dict[str, Any], bytes]] | None = None
        self._lock = threading.Lock()
        self._size = np.dtype(dtype).itemsize

    @property
    def signature(self) -> str:
        """Signature of core dimensions, as of NumPy's generalised ufuncs."""
        return signature(self.inputs, self.outputs)

    def __repr__(self) -> str:
        return f"<linkwork CUDA kernel {self.name} {self.signature} {self.dtype}>"

    def wait(self) -> CudaKernel:
        """Return at once: a CUDA kernel is compiled before it is returned."""
        return self

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        values = self._values(args, named)
        libraries = [library_of(x) for x in values]
        outs = self._given_outputs(out)
        device_libraries = [lib for lib in [*libraries, *map(library_of, outs)] if lib is not None]
        if not device_libraries:
            return self._on_host(values, outs)
        return self._on_device(values, libraries, outs, device_libraries[0])

    # arguments

    def _values(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        names = [a.name for a in self.inputs]
        for name in named:
            if name not in names[len(args) :]:
                raise TypeError(f"{self.name} has no argument {name!r}, or got it twice")
        missing = [n for n in names[len(args) :] if n not in named]
        if missing or len(args) > len(names):
            raise TypeError(f"{self.name} takes the arrays {', '.join(names)}")
        return [*args, *(named[n] for n in names[len(args) :])]

    def _given_outputs(self, out: Any) -> list[Any]:
        if out is None:
            return [None] * len(self.outputs)
        outs = list(out) if isinstance(out, tuple) else [out]
        if len(outs) != len(self.outputs):
            names = ", ".join(a.name for a in self.outputs)
            raise ShapeError(f"{self.name}: out: expected a tuple of {len(self.outputs)} arrays ({names})")
        return outs

    def _batch(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        leads = []
        for spec, shape in zip(self.inputs, shapes, strict=True):
            lead = len(shape) - len(spec.shape)
            if lead < 0 or tuple(shape[lead:]) != spec.shape:
                raise ShapeError(
                    f"{self.name}: {spec.name}: expected shape {shape_text(spec)}, got {tuple(shape)}"
                )
            leads.append(tuple(shape[:lead]))
        try:
            return np.broadcast_shapes(*leads)
        except ValueError:
            pairs = ", ".join(f"{s.name} {b}" for s, b in zip(self.inputs, leads, strict=True))
            raise ShapeError(f"{self.name}: the batch shapes do not broadcast: {pairs}") from None

    def _rows(self, batch: tuple[int, ...]) -> int:
        rows = math.prod(batch)
        if rows >= 2**31:
            raise ShapeError(
                f"{self.name}: {rows} states are too many for one call: take at most {2**31 - 1}"
            )
        return rows

    def checked(self, name: str, view: OnDevice, number: int) -> None:
        """Raise if an array has another dtype or is on another GPU."""
        if view.dtype != self.dtype:
            raise DtypeError(
                f"{self.name}: {name}: expected dtype {self.dtype}, got {view.dtype}; convert it first"
            )
        if view.gpu != number:
            raise TargetError(
                f"{self.name}: {name} is on GPU {view.gpu}, other arrays are on GPU {number}: move it there"
            )

    # calls

    def _on_device(
        self, values: list[Any], libraries: list[Library | None], outs: list[Any], main: Library
    ) -> Any:
        everything = [
            (a.name, x) for a, x in zip((*self.inputs, *self.outputs), [*values, *outs], strict=True)
        ]
        first = next((n, x, library_of(x)) for n, x in everything if library_of(x) is not None)
        number = first[2].view(first[1]).gpu  # type: ignore[union-attr]
        active_gpu = gpu(number)
        with ExitStack() as stack:
            stack.enter_context(active_gpu.current())
            stream = main.stream(number)
            memory = Memory(self, stream, stack)
            owner: Any = self
            host = {
                k: np.ascontiguousarray(numbers(owner, self.inputs[k], x), dtype=self.dtype)
                for k, (x, lib) in enumerate(zip(values, libraries, strict=True))
                if lib is None
            }
            views = [lib.view(x) if lib else None for x, lib in zip(values, libraries, strict=True)]
            for spec, view in zip(self.inputs, views, strict=True):
                if view is not None:
                    self.checked(spec.name, view, number)
            shapes = [view.shape if view else host[k].shape for k, view in enumerate(views)]
            batch = self._batch(shapes)
            rows = self._rows(batch)
            for lib in dict.fromkeys(lib for lib in libraries if lib is not None):
                lib.before([x for x, other in zip(values, libraries, strict=True) if other is lib])
                if lib is not main:
                    call("cuStreamSynchronize", lib.stream(number))
            keep: list[Any] = []
            input_rows = []
            for k, (spec, view) in enumerate(zip(self.inputs, views, strict=True)):
                if view is None:
                    flat = (
                        host[k]
                        if host[k].size == spec.size
                        else np.broadcast_to(host[k], (*batch, *spec.shape))
                    )
                    flat = np.ascontiguousarray(flat)
                    keep.append(flat)
                    input_rows.append((memory.upload(flat), spec.size if flat.size > spec.size else 0))
                    continue
                step = row_step(view, spec.shape, batch)
                if step is None:
                    library = libraries[k]
                    assert library is not None
                    packed = library.packed(values[k], (*batch, *spec.shape))
                    keep.append(packed)
                    view = library.view(packed)
                    step = spec.size
                input_rows.append((view.address, step))
            results, output_rows = self._outputs(
                outs, batch, number, main, [v for v in views if v is not None]
            )
            self.launch(active_gpu, rows, input_rows, output_rows, stream, memory)
            if keep or not main.asynchronous:
                call("cuStreamSynchronize", stream)
        return results[0] if len(results) == 1 else tuple(results)

    def _outputs(
        self, outs: list[Any], batch: tuple[int, ...], number: int, main: Library, inputs: list[OnDevice]
    ) -> tuple[list[Any], list[tuple[int, int]]]:
        results = []
        output_rows = []
        for spec, out in zip(self.outputs, outs, strict=True):
            shape = (*batch, *spec.shape)
            if out is None:
                array = self.empty(main, shape, number)
                library = main
            else:
                array, library = out, library_of(out)  # type: ignore[assignment]
                if library is None:
                    raise DtypeError(
                        f"{self.name}: output {spec.name}: expected an array on the GPU, got "
                        f"{type(out).__name__}"
                    )
            view = library.view(array)
            if out is not None:
                self.checked(f"output {spec.name}", view, number)
                if view.shape != shape or row_step(view, spec.shape, batch) not in (spec.size, 0):
                    raise ShapeError(
                        f"{self.name}: output {spec.name}: expected a contiguous array of shape {shape}, got "
                        f"{view.shape}"
                    )
                end = view.address + math.prod(shape) * self._size
                for other in inputs:
                    size = self._size * (
                        1 + sum((n - 1) * abs(s) for n, s in zip(other.shape, other.strides))
                    )
                    if view.address < other.address + size and other.address < end:
                        raise OverlapError(f"{self.name}: output {spec.name} shares memory with an input")
            results.append(array)
            output_rows.append((view.address, spec.size))
        return results, output_rows

    def empty(self, library: Library, shape: tuple[int, ...], number: int) -> Any:
        """Return a new array of a library; an error states how much memory is left if it is too large."""
        try:
            return library.empty(shape, self.dtype, number)
        except (DtypeError, TargetError):
            raise
        except Exception as error:  # the message differs between libraries
            if "memory" not in f"{type(error).__name__} {error}".lower():
                raise
            raise self.too_many(shape) from None

    def too_many(self, shape: tuple[int, ...]) -> TargetError:
        """Return the error for an array of this shape that exceeds the memory of the GPU."""
        free, _ = call("cuMemGetInfo")
        size = math.prod(shape) * self._size
        return TargetError(
            f"{self.name}: an array of shape {shape} takes {size / 1e9:.1f} GB, and the GPU has "
            f"{free / 1e9:.1f} GB left: take fewer states at once"
        )

    def _on_host(self, values: list[Any], outs: list[Any]) -> Any:
        arrays = [
            np.ascontiguousarray(numbers(self, spec, x), dtype=self.dtype)  # type: ignore[arg-type]
            for spec, x in zip(self.inputs, values, strict=True)
        ]
        batch = self._batch([a.shape for a in arrays])
        rows = self._rows(batch)
        active_gpu = current_gpu()
        with ExitStack() as stack:
            stack.enter_context(active_gpu.current())
            memory = Memory(self, THREAD_STREAM, stack)
            input_rows = []
            for spec, a in zip(self.inputs, arrays, strict=True):
                if a.size != spec.size:
                    a = np.ascontiguousarray(np.broadcast_to(a, (*batch, *spec.shape)))
                input_rows.append((memory.upload(a), 0 if a.size == spec.size else spec.size))
            output_rows = [(memory.take((*batch, *spec.shape)), spec.size) for spec in self.outputs]
            self.launch(active_gpu, rows, input_rows, output_rows, memory.stream, memory)
            results = []
            for spec, (address, _), out in zip(self.outputs, output_rows, outs, strict=True):
                result = POOL.empty((*batch, *spec.shape), self.dtype)
                memory.fetch(result, address)
                if out is not None:
                    out[...] = result
                results.append(result[()] if out is None else out)
        return results[0] if len(results) == 1 else tuple(results)

    def launch(
        self,
        active_gpu: Gpu,
        rows: int,
        inputs: list[tuple[int, int]],
        outputs: list[tuple[int, int]],
        stream: int,
        memory: Memory,
    ) -> None:
        """Run the kernel. Batches smaller than a warp are padded; output rows with gaps are written through
        contiguous memory.
        """
        if rows == 0:
            return
        header, functions = self._loaded(active_gpu)
        copies_back = []
        count = rows
        if rows < WARP:
            count = WARP
            padded = []
            for spec, (address, step) in zip(self.inputs, inputs, strict=True):
                if step:
                    place = memory.take((WARP, *spec.shape))
                    memory.clear(place, WARP * spec.size)
                    memory.copy_rows(place, spec.size, address, step, spec.size, rows)
                    address = place
                padded.append((address, spec.size if step else 0))
            inputs = padded
            places = [(memory.take((WARP, *spec.shape)), spec.size) for spec in self.outputs]
            copies_back = list(zip(self.outputs, outputs, places, strict=True))
            outputs = places
        elif not header["gaps"] and any(
            step != spec.size for spec, (_, step) in zip(self.outputs, outputs, strict=True)
        ):
            places = [(memory.take((rows, *spec.shape)), spec.size) for spec in self.outputs]
            copies_back = list(zip(self.outputs, outputs, places, strict=True))
            outputs = places
        if "parts" in header:
            self._run_parts(header, functions, count, [*inputs, *outputs], active_gpu, memory)
        else:
            self._run(header, functions[0], count, [*inputs, *outputs], stream)
        for spec, (address, step), (place, _) in copies_back:
            memory.copy_rows(address, step, place, spec.size, spec.size, rows)

    def _run(
        self,
        header: dict[str, Any],
        function: Any,
        rows: int,
        arrays: list[tuple[int, int]],
        stream: int,
        scratch: int = 0,
    ) -> None:
        """Launch one function."""
        parameters: list[Any] = [ctypes.c_int(rows)]
        for address, step in arrays:
            parameters += [ctypes.c_void_p(address), ctypes.c_longlong(step)]
        if scratch:
            parameters.append(ctypes.c_void_p(scratch))
        pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(x) for x in parameters))
        blocks = -(-rows // header["rows"])
        call(
            "cuLaunchKernel", function, blocks, 1, 1, header["threads"], 1, 1, header["shared_bytes"], stream,
            ctypes.addressof(pointers), 0,
        )  # fmt: skip

    def _run_parts(
        self,
        header: dict[str, Any],
        functions: list[Any],
        rows: int,
        arrays: list[tuple[int, int]],
        active_gpu: Gpu,
        memory: Memory,
    ) -> None:
        """Launch the parts in sequence over as many states as fit the memory for crossing values, then over
        the next states.
        """
        wave = active_gpu.device.multiprocessors * WAVE
        scratch, max_rows = memory.scratch(active_gpu.number, rows, max(1, header["scratch_slots"]), wave)
        for start in range(0, rows, max_rows):
            first = min(start, rows - WARP)  # at least a warp: some rows may be recomputed
            shifted = [(address + first * step * self._size, step) for address, step in arrays]
            for part, function in zip(header["parts"], functions, strict=True):
                self._run(part, function, min(max_rows, rows - first), shifted, memory.stream, scratch)

    # code

    def _loaded(self, active_gpu: Gpu) -> tuple[dict[str, Any], list[Any]]:
        """Return the launch parameters of the kernel, and its functions on a GPU."""
        arch = active_gpu.device.arch
        if active_gpu.number not in self._functions:
            with self._lock:
                if arch not in self._code:
                    assert self._make is not None
                    self._code[arch] = self._make(active_gpu)
                if active_gpu.number not in self._functions:
                    header, code = self._code[arch]
                    self._functions[active_gpu.number] = load_functions(header, code, active_gpu)
        return self._code[arch][0], self._functions[active_gpu.number]

    def resources(self, *, measured: int = 0) -> dict[str, Any]:
        """Return the resources that the kernel uses on a GPU, and its predicted rate.

        Parameters
        ----------
        measured : int, optional
            Number of random states to run. The result then includes the measured rate.

        Returns
        -------
        dict
            Registers, threads and states of a block (two threads may share a state), shared memory of a block
            and local memory of a thread [bytes]; blocks and warps on a multiprocessor, and their share of the
            maximum (`occupancy`); loads and stores of waiting values per state, and values left to the
            assembler (`unassigned`); predicted rate [states/s] and share of the peak instruction rate, with
            loops counted up to a hundred times. A long program runs in `parts`, one kernel each: the largest
            part comes first, then each part, and the memory for values between them per state
            (`scratch_bytes`). With `measured`, the measured rate, and its share for programs without loops.
        """
        return kernel_resources(self, measured)
