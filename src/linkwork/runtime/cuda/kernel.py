"""A program on a GPU, called with the arrays of CuPy, PyTorch, JAX or NumPy."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from linkwork.errors import DtypeError, OverlapError, ProgramError, ShapeError, TargetError
from linkwork.ir.program import Array, Program, signature
from linkwork.passes import lower
from linkwork.runtime.arguments import numbers, shape_text
from linkwork.runtime.cache import Cache, make_key
from linkwork.runtime.compiler import default_cache, source_digest
from linkwork.runtime.cuda import binding
from linkwork.runtime.cuda.arrays import Library, OnDevice, library_of, row_step
from linkwork.runtime.cuda.binding import Gpu, call, compile_text, compiler_version, current_gpu, gpu
from linkwork.targets.cuda import Choice, candidates, emit_cuda

COMPILER = ("ir", "passes", "targets/cuda")  # the rooms that decide what code a program becomes
LAUNCH = ("threads", "rows", "gaps", "blocks", "shared_bytes")
FIGURES = ("registers", "slots", "local_slots", "loads", "stores", "left", "predicted_rate", "predicted_share")
WARP = 32
MEASURED = 1500  # instructions from which several ways are compiled and measured
TRIED = 4  # so many
ROUNDS = 3  # of measurements, of which the best counts: others may use the GPU too
ROWS, BYTES = 1 << 17, 1 << 28  # of a measurement, at most


class CudaKernel:
    """A compiled program on a GPU. Call it with arrays on the GPU: any leading batch dimensions, broadcasting, `out=`.

    Arrays of CuPy, PyTorch and JAX are used where they lie, on the caller's stream and device, and results are of the same
    library. Everything else that NumPy takes for an array is copied there and back. All must have the kernel's dtype.
    """

    entries: Any = None  # of a function of a model: what its arrays are, and the names along their axes

    def __init__(self, name: str, dtype: str, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
        self.name, self.dtype, self.inputs, self.outputs = name, dtype, inputs, outputs
        self._code: dict[str, tuple[dict[str, Any], bytes]] = {}  # architecture -> header, cubin
        self._functions: dict[int, Any] = {}  # GPU -> function
        self._make: Callable[[Gpu], tuple[dict[str, Any], bytes]] | None = None
        self._lock = threading.Lock()
        self._size = np.dtype(dtype).itemsize

    @property
    def signature(self) -> str:
        """Core dimensions, as of NumPy's generalised ufuncs."""
        return signature(self.inputs, self.outputs)

    def __repr__(self) -> str:
        return f"<linkwork CUDA kernel {self.name} {self.signature} {self.dtype}>"

    def wait(self) -> CudaKernel:
        """Return at once: a CUDA kernel is compiled before it is given."""
        return self

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        values = self._values(args, named)
        libraries = [library_of(x) for x in values]
        outs = self._given_outputs(out)
        found = [lib for lib in [*libraries, *map(library_of, outs)] if lib is not None]
        if not found:
            return self._on_host(values, outs)
        return self._on_device(values, libraries, outs, found[0])

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
            raise ShapeError(f"{self.name}: out must be a tuple of {len(self.outputs)} arrays ({names})")
        return outs

    def _batch(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        leads = []
        for spec, shape in zip(self.inputs, shapes, strict=True):
            lead = len(shape) - len(spec.shape)
            if lead < 0 or tuple(shape[lead:]) != spec.shape:
                raise ShapeError(f"{self.name}: {spec.name} must have shape {shape_text(spec)}, not {tuple(shape)}")
            leads.append(tuple(shape[:lead]))
        try:
            return np.broadcast_shapes(*leads)
        except ValueError:
            pairs = ", ".join(f"{s.name} {b}" for s, b in zip(self.inputs, leads, strict=True))
            raise ShapeError(f"{self.name}: the batch shapes do not broadcast: {pairs}") from None

    def _rows(self, batch: tuple[int, ...]) -> int:
        rows = math.prod(batch)
        if rows >= 2**31:
            raise ShapeError(f"{self.name}: {rows} states are too many for one call: take at most {2**31 - 1}")
        return rows

    def checked(self, name: str, view: OnDevice, number: int) -> None:
        """An error where an array has another dtype, or lies on another GPU."""
        if view.dtype != self.dtype:
            raise DtypeError(f"{self.name}: {name} has dtype {view.dtype}, the kernel {self.dtype}: convert it first")
        if view.gpu != number:
            raise TargetError(f"{self.name}: {name} is on GPU {view.gpu}, other arrays are on GPU {number}: move it there")

    # calls

    def _on_device(self, values: list[Any], libraries: list[Library | None], outs: list[Any], main: Library) -> Any:
        everything = [(a.name, x) for a, x in zip((*self.inputs, *self.outputs), [*values, *outs], strict=True)]
        first = next((n, x, library_of(x)) for n, x in everything if library_of(x) is not None)
        number = first[2].view(first[1]).gpu  # type: ignore[union-attr]
        here = gpu(number)
        with ExitStack() as stack:
            stack.enter_context(here.current())
            stream = main.stream(number)
            memory = Memory(self, stream, stack)
            host = {
                k: np.ascontiguousarray(numbers(self, self.inputs[k], x), dtype=self.dtype)  # type: ignore[arg-type]
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
            given = []
            for k, (spec, view) in enumerate(zip(self.inputs, views, strict=True)):
                if view is None:
                    flat = host[k] if host[k].size == spec.size else np.broadcast_to(host[k], (*batch, *spec.shape))
                    flat = np.ascontiguousarray(flat)
                    keep.append(flat)
                    given.append((memory.upload(flat), spec.size if flat.size > spec.size else 0))
                    continue
                step = row_step(view, spec.shape, batch)
                if step is None:
                    library = libraries[k]
                    assert library is not None
                    packed = library.packed(values[k], (*batch, *spec.shape))
                    keep.append(packed)
                    view, step = library.view(packed), spec.size
                given.append((view.address, step))
            results, taken = self._outputs(outs, batch, number, main, [v for v in views if v is not None])
            self.launch(here, rows, given, taken, stream, memory)
            if keep or not main.asynchronous:
                call("cuStreamSynchronize", stream)
        return results[0] if len(results) == 1 else tuple(results)

    def _outputs(
        self, outs: list[Any], batch: tuple[int, ...], number: int, main: Library, inputs: list[OnDevice]
    ) -> tuple[list[Any], list[tuple[int, int]]]:
        results, taken = [], []
        for spec, given in zip(self.outputs, outs, strict=True):
            shape = (*batch, *spec.shape)
            if given is None:
                made, library = self.empty(main, shape, number), main
            else:
                made, library = given, library_of(given)  # type: ignore[assignment]
                if library is None:
                    raise DtypeError(f"{self.name}: output {spec.name} must be an array on the GPU, not {type(given).__name__}")
            view = library.view(made)
            if given is not None:
                self.checked(f"output {spec.name}", view, number)
                if view.shape != shape or row_step(view, spec.shape, batch) not in (spec.size, 0):
                    raise ShapeError(f"{self.name}: output {spec.name} must have shape {shape} without gaps, not {view.shape}")
                end = view.address + math.prod(shape) * self._size
                for other in inputs:
                    size = self._size * (1 + sum((n - 1) * abs(s) for n, s in zip(other.shape, other.strides)))
                    if view.address < other.address + size and other.address < end:
                        raise OverlapError(f"{self.name}: output {spec.name} shares memory with an input")
            results.append(made)
            taken.append((view.address, spec.size))
        return results, taken

    def empty(self, library: Library, shape: tuple[int, ...], number: int) -> Any:
        """A new array of a library; an error that says how much memory is left where it is too large."""
        try:
            return library.empty(shape, self.dtype, number)
        except (DtypeError, TargetError):
            raise
        except Exception as error:  # each library has its own words for it
            if "memory" not in f"{type(error).__name__} {error}".lower():
                raise
            raise self._too_many(shape) from None

    def _too_many(self, shape: tuple[int, ...]) -> TargetError:
        free, _ = call("cuMemGetInfo")
        wanted = math.prod(shape) * self._size
        return TargetError(
            f"{self.name}: an array of shape {shape} takes {wanted / 1e9:.1f} GB, and the GPU has {free / 1e9:.1f} GB left: "
            "take fewer states at once"
        )

    def _on_host(self, values: list[Any], outs: list[Any]) -> Any:
        arrays = [
            np.ascontiguousarray(numbers(self, spec, x), dtype=self.dtype)  # type: ignore[arg-type]
            for spec, x in zip(self.inputs, values, strict=True)
        ]
        batch = self._batch([a.shape for a in arrays])
        rows = self._rows(batch)
        here = current_gpu()
        with ExitStack() as stack:
            stack.enter_context(here.current())
            memory = Memory(self, 0, stack)
            given = []
            for spec, a in zip(self.inputs, arrays, strict=True):
                if a.size != spec.size:
                    a = np.ascontiguousarray(np.broadcast_to(a, (*batch, *spec.shape)))
                given.append((memory.upload(a), 0 if a.size == spec.size else spec.size))
            taken = [(memory.take((*batch, *spec.shape)), spec.size) for spec in self.outputs]
            self.launch(here, rows, given, taken, 0, memory)
            results = []
            for spec, (address, _), out in zip(self.outputs, taken, outs, strict=True):
                made = np.empty((*batch, *spec.shape), self.dtype)
                if made.size:
                    call("cuMemcpyDtoH", made.ctypes.data, address, made.nbytes)
                if out is not None:
                    out[...] = made
                results.append(made[()] if out is None else out)
        return results[0] if len(results) == 1 else tuple(results)

    def launch(
        self,
        here: Gpu,
        rows: int,
        inputs: list[tuple[int, int]],
        outputs: list[tuple[int, int]],
        stream: int,
        memory: Memory,
    ) -> None:
        """Run the kernel; fewer states than a warp has threads are padded, and rows of outputs with gaps copied there."""
        if rows == 0:
            return
        header, function = self._function(here)
        back = []
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
            back = list(zip(self.outputs, outputs, places, strict=True))
            outputs = places
        elif not header["gaps"] and any(step != spec.size for spec, (_, step) in zip(self.outputs, outputs, strict=True)):
            places = [(memory.take((rows, *spec.shape)), spec.size) for spec in self.outputs]
            back = list(zip(self.outputs, outputs, places, strict=True))
            outputs = places
        held: list[Any] = [ctypes.c_int(count)]
        for address, step in [*inputs, *outputs]:
            held += [ctypes.c_void_p(address), ctypes.c_longlong(step)]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(x) for x in held))
        blocks = -(-count // header["rows"])
        call(
            "cuLaunchKernel", function, blocks, 1, 1, header["threads"], 1, 1, header["shared_bytes"], stream,
            ctypes.addressof(pointers), 0,
        )  # fmt: skip
        for spec, (address, step), (place, _) in back:
            memory.copy_rows(address, step, place, spec.size, spec.size, rows)

    # code

    def _function(self, here: Gpu) -> tuple[dict[str, Any], Any]:
        """What the kernel is launched with, and its function on a GPU."""
        arch = here.device.arch
        if here.number not in self._functions:
            with self._lock:
                if arch not in self._code:
                    assert self._make is not None
                    self._code[arch] = self._make(here)
                if here.number not in self._functions:
                    header, cubin = self._code[arch]
                    with here.current():
                        module = call("cuModuleLoadData", cubin)
                        function = call("cuModuleGetFunction", module, b"linkwork")
                        word = binding.driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                        call("cuFuncSetAttribute", function, word, header["shared_bytes"])
                    self._functions[here.number] = function
        return self._code[arch][0], self._functions[here.number]

    def resources(self, *, measured: int = 0) -> dict[str, Any]:
        """What the kernel takes of a GPU, and how fast it is.

        Registers, threads and states of a block (two threads may do a state together), blocks and warps on a multiprocessor
        and their share of the most (occupancy); bytes of shared memory of a block, and of local memory of a thread; how often
        values wait in shared memory (stores and loads of a state) and how often they are left to the assembler; states a second
        and the share of all instructions that could be started, as the model predicts them, which takes loops to run a hundred
        times if they may. `measured` asks for a run of so many random states: then also the measured rate, and the share of
        programs without loops.
        """
        here = current_gpu()
        header, function = self._function(here)
        words = binding.driver().CUfunction_attribute

        def ask(word: str) -> int:
            return int(call("cuFuncGetAttribute", getattr(words, f"CU_FUNC_ATTRIBUTE_{word}"), function))

        with here.current():
            blocks = int(
                call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, header["threads"], header["shared_bytes"])
            )
            found = {
                "gpu": here.name,
                "threads": header["threads"],
                "states": header["rows"],
                "blocks": blocks,
                "warps": blocks * header["threads"] // WARP,
                "occupancy": blocks * header["threads"] / WARP / here.device.warps,
                "registers": ask("NUM_REGS"),
                "shared_bytes": header["shared_bytes"],
                "local_bytes": ask("LOCAL_SIZE_BYTES"),
                **{word: header[word] for word in FIGURES if word != "registers"},
            }
        if measured:
            rate = self._measure(here, measured)
            found["measured_rate"] = rate
            if not header["loops"]:  # nobody knows how often these run
                states = WARP * header["rows"] // header["threads"]  # of a warp
                found["measured_share"] = (
                    rate * header["work"] / states / (4.0 * here.device.multiprocessors * here.device.clock)
                )
        return found

    def _measure(self, here: Gpu, rows: int) -> float:
        """States a second."""
        rng = np.random.default_rng(0)
        driver_words = binding.driver().CUevent_flags
        with ExitStack() as stack:
            stack.enter_context(here.current())
            memory = Memory(self, 0, stack)
            inputs = []
            for spec in self.inputs:
                some = rng.standard_normal((min(rows, 4096), spec.size)).astype(self.dtype)
                inputs.append((memory.upload(np.resize(some, (rows, spec.size))), spec.size))
            outputs = [(memory.take((rows, *spec.shape)), spec.size) for spec in self.outputs]
            start, end = (call("cuEventCreate", int(driver_words.CU_EVENT_DEFAULT)) for _ in range(2))

            def seconds(launches: int) -> float:
                call("cuEventRecord", start, 0)
                for _ in range(launches):
                    self.launch(here, rows, inputs, outputs, 0, memory)
                call("cuEventRecord", end, 0)
                call("cuEventSynchronize", end)
                return 1e-3 * float(call("cuEventElapsedTime", start, end)) / launches

            many = max(1, min(16, int(2e-3 / max(seconds(1), 1e-6))))  # so that the host's part of a launch is not measured
            times = [seconds(many) for _ in range(6)]
        return rows / sorted(times)[len(times) // 2]


class Memory:
    """Memory on the GPU for one call, freed in the order of its stream."""

    def __init__(self, kernel: CudaKernel, stream: int, stack: ExitStack) -> None:
        self.kernel, self.stream, self.stack = kernel, stream, stack

    def take(self, shape: tuple[int, ...]) -> int:
        size = max(1, math.prod(shape)) * self.kernel._size
        code, address = binding.driver().cuMemAllocAsync(size, self.stream)
        if int(code) == int(binding.driver().CUresult.CUDA_ERROR_OUT_OF_MEMORY):
            raise self.kernel._too_many(shape)
        if int(code) != 0:
            raise TargetError(f"cuMemAllocAsync failed: {code.name}")
        self.stack.callback(call, "cuMemFreeAsync", address, self.stream)
        return int(address)

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


# making of

_kernels: WeakValueDictionary[tuple[str, str], CudaKernel] = WeakValueDictionary()
_making = threading.Lock()


def build_cuda_kernel(program: Program, dtype: str = "float64", *, cache: Cache | None = None) -> CudaKernel:
    """The CUDA kernel of a traced program, compiled for this machine's GPU."""
    program = program.with_dtype(dtype)
    return _build(program.digest, source_digest(COMPILER), lambda: program, dtype, cache)


def build_named_cuda_kernel(
    identity: str, make: Callable[[], Program], dtype: str, *, cache: Cache | None = None
) -> CudaKernel:
    """The CUDA kernel of the program that `make` traces, by an `identity` that decides it, given this package's source."""
    return _build(identity, source_digest((".",)), lambda: make().with_dtype(dtype), dtype, cache)


def _build(content: str, source: str | None, program_of: Callable[[], Program], dtype: str, cache: Cache | None) -> CudaKernel:
    with _making:
        kernel = _kernels.get((content, dtype))
        if kernel is None or cache is not None:
            kernel = _make(content, source, program_of, dtype, cache or default_cache())
            _kernels[content, dtype] = kernel
    return kernel


def _make(content: str, source: str | None, program_of: Callable[[], Program], dtype: str, cache: Cache) -> CudaKernel:
    def make(here: Gpu) -> tuple[dict[str, Any], bytes]:
        device = here.device
        key = None if source is None else make_key("cuda", source, content, dtype, repr(device), compiler_version())
        stored = cache.load(key) if key is not None else None
        if stored is not None and stored.blob.startswith(b"\x7fELF") and set(LAUNCH) <= stored.header.keys():
            return stored.header, stored.blob
        program = _fit(program_of())
        header, cubin = fastest(program, lower(program, dtype, arranged=None), here)
        if key is not None and not cache.read_only:
            cache.store(key, header, cubin)
        return header, cubin

    here = current_gpu()
    header, cubin = make(here)
    kernel = _kernel_of(header, cubin, here)
    kernel._make = make
    return kernel


def _kernel_of(header: dict[str, Any], cubin: bytes, here: Gpu) -> CudaKernel:
    inputs, outputs = (tuple(Array(name, tuple(shape)) for name, *shape in header[part]) for part in ("inputs", "outputs"))
    kernel = CudaKernel(header["name"], header["dtype"], inputs, outputs)
    kernel._code[here.device.arch] = header, cubin
    return kernel


def fastest(program: Program, lowered: Program, here: Gpu) -> tuple[dict[str, Any], bytes]:
    """Of the ways that are good by the model, the one that is the fastest on this GPU; short programs are not measured."""
    choices = candidates(lowered, here.device)
    choices = choices[: TRIED if choices[0].work >= MEASURED else 1]
    with ThreadPoolExecutor(len(choices)) as pool:  # NVRTC works without the interpreter lock
        cubins = list(pool.map(lambda c: compile_text(emit_cuda(lowered, here.device, c).source, here.device.arch), choices))
    made = [(_header(program, choice, here), cubin) for choice, cubin in zip(choices, cubins, strict=True)]
    if len(made) == 1:
        return made[0]
    numbers = sum(a.size for a in program.inputs + program.outputs)
    rows = max(WARP, min(ROWS, BYTES // (numbers * np.dtype(lowered.dtype).itemsize)))
    kernels = [_kernel_of(header, cubin, here) for header, cubin in made]
    rates = [max(each) for each in zip(*([k._measure(here, rows) for k in kernels] for _ in range(ROUNDS)), strict=True)]
    return made[rates.index(max(rates))]


def _header(program: Program, choice: Choice, here: Gpu) -> dict[str, Any]:
    return {
        "name": program.name,
        "dtype": choice.program.dtype,
        "cpu": here.device.arch,
        "inputs": [[a.name, *a.shape] for a in program.inputs],
        "outputs": [[a.name, *a.shape] for a in program.outputs],
        "size": len(choice.program),
        "threads": choice.threads,
        "rows": choice.rows,
        "gaps": choice.gaps,
        "blocks": choice.blocks,
        "shared_bytes": choice.shared_bytes,
        "registers": choice.registers,
        "slots": choice.shared,
        "local_slots": choice.local,
        "loads": choice.plan.loads,
        "stores": choice.plan.stores,
        "left": choice.plan.left,
        "predicted_rate": choice.rate,
        "predicted_share": choice.share,
        "work": choice.work,
        "loops": any(op == "loop" for op, _, _ in choice.program.code),
    }


def _fit(program: Program) -> Program:
    for array in program.inputs + program.outputs:
        if array.size == 0:
            raise ProgramError(f"{program.name}: array {array.name!r} of shape {array.shape} is empty: leave it out")
    if not program.inputs:
        raise ProgramError(f"{program.name} has no inputs: it is a constant, and needs no kernel")
    return program
