"""Kernels: compiled programs as NumPy generalised ufuncs."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from linkwork.compiler.ir.context import collector_paused
from linkwork.compiler.ir.program import Array, BoundedLoop, Program, RowMap, signature
from linkwork.compiler.passes import arrange, lower
from linkwork.compiler.passes.unroll import unroll
from linkwork.compiler.runtime.arguments import (
    MAX_DIMENSIONS,
)
from linkwork.compiler.runtime.bound import Bound, bind_arrays, machine_call
from linkwork.compiler.runtime.cache import Cache, make_key
from linkwork.compiler.runtime.cache_files import Entry
from linkwork.compiler.runtime.compiler import (
    OPTIMISED,
    QUICK,
    UNREADABLE,
    background,
    compile_objects,
    default_cache,
    join_objects,
    kernel_key,
    load_code,
    named_key,
    split_objects,
)
from linkwork.compiler.runtime.direct import make_call, make_direct
from linkwork.compiler.runtime.native import Code, keep_with, make_gufunc
from linkwork.compiler.runtime.progress import Progress
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.compiler.runtime.threads import TABLE_ADDRESS, BatchSplitter
from linkwork.compiler.runtime.unfinished import Unfinished, quick_key
from linkwork.compiler.targets.cpu import EXPORTS, Machine, arrangement, host
from linkwork.errors import ProgramError, TargetError

MAX_ARRAYS = 64  # operands of a NumPy generalised ufunc
MAX_IMMEDIATE_SIZE = 400  # instructions; larger programs start with quick code
SHARED_WORK_NS = 300_000  # smaller batches run in one thread
MAX_COUNTED_ITERATIONS = 8  # of a loop, in the estimate of work
_NS_PER_INSTRUCTION = 0.04  # for one row, with vector instructions


class Kernel:
    """Compiled program, called with arrays of any leading batch dimensions, with broadcasting and casting.

    `ufunc` is the NumPy generalised ufunc that does the work, and `direct` a shorter path to it for one
    state. Calling the kernel adds arguments by name, `out=`, `threads=`, and errors that name the argument.
    Kernels are thread-safe, and run without the interpreter lock unless there is only one state.
    """

    array_labels: Any = None  # of a function of a model: what its arrays are, and the names along their axes

    def __init__(
        self,
        name: str,
        dtype: str,
        inputs: tuple[Array, ...],
        outputs: tuple[Array, ...],
        size: int,
        work: int | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.inputs = inputs
        self.outputs = outputs
        self.size = size  # instructions, with bodies of loops counted once
        self.work = work or size  # estimated number of instructions run
        self.lanes = 1
        self.tier = 0
        self._codes: list[Code] = []  # all code stays loaded: another thread may still be running it
        self._ready = False  # True once the optimised code is installed or has failed
        self._failure: Exception | None = None
        self._job: Callable[[], None] | None = None  # builds the optimised code
        lanes = host().lanes(dtype)
        self._splitter = BatchSplitter(len(inputs) + len(outputs), lanes)
        rows = max(4 * lanes, int(SHARED_WORK_NS / (_NS_PER_INSTRUCTION * max(self.work, 1))))
        self._data = (ctypes.c_void_p * 4)(None, self._splitter.address, rows, TABLE_ADDRESS)

    @property
    def signature(self) -> str:
        """Signature of core dimensions, as of NumPy's generalised ufuncs."""
        return signature(self.inputs, self.outputs)

    def __repr__(self) -> str:
        return f"<linkwork kernel {self.name} {self.signature} {self.dtype}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError  # replaced in each kernel by `make_call`

    def bind(self, *args: Any, out: Any = None, **named: Any) -> Bound:
        """Return a call without arguments on fixed arrays: the fastest way for control loops.

        Arrays that are not given are allocated. See `Bound`.
        """
        return bind_arrays(self, args, named, out)

    def bound_call(self, inputs: list[np.ndarray], outputs: list[np.ndarray], result: Any) -> Any:
        """Return the function of a bound call, which computes the outputs and returns `result`."""
        return machine_call(self, inputs + outputs, result)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"cannot pickle kernel {self.name}: it is machine code of this process; pickle the model instead"
        )

    def _wait(self) -> None:
        with background.boosted():
            while not self._ready:
                if (job := self._job) is not None:
                    background.run_inline(job)
                background.pause(lambda: self._ready)

    def wait(self) -> Kernel:
        """Return when the optimised code is installed."""
        if not self._ready:
            with Progress(self.name) as progress:
                progress.stage(f"optimising {self.size} instructions")
                self._wait()
        if self._failure is not None:
            reason = str(self._failure) or type(self._failure).__name__
            raise TargetError(
                f"{self.name}: the optimised kernel could not be built: {reason}"
            ) from self._failure
        return self

    # building

    def _install(self, objects: list[bytes], *, tier: int, lanes: int) -> None:
        """Load code and use it for all following calls."""
        code = load_code(objects, EXPORTS)
        self._codes.append(code)
        self._data[0] = code.address["run"]  # one aligned word: running calls see the old or the new one
        if self.tier == 0:
            doc = f"{self.name}{self.signature} in {self.dtype}, compiled by linkwork."
            self.ufunc, memory = make_gufunc(
                code.address["loop"], ctypes.addressof(self._data), len(self.inputs), len(self.outputs),
                self.dtype, self.signature, self.name, doc,
            )  # fmt: skip
            keep_with(self.ufunc, (self._codes, self._data, self._splitter, memory))
            self.bound_address = code.address["bound"]
            self.direct = make_direct(self, code.address["direct"])
            self.__class__ = type("Kernel", (Kernel,), {"__call__": make_call(self)})
        self.tier = tier
        self.lanes = lanes
        if tier == 2:
            self._settle()

    def _optimise_later(self, job: Callable[[], None]) -> None:
        """Build the optimised code by a job in the background."""
        self._job = job
        background.submit(job)

    def _settle(self, failure: Exception | None = None) -> None:
        """Release waiting threads: the optimised code is installed, or has failed."""
        self._failure = failure
        self._job = None
        self._ready = True
        background.announce()

    @property
    def data_address(self) -> int:
        """Address of the pointer to the function that does the work."""
        return ctypes.addressof(self._data)


_kernels: WeakValueDictionary[tuple[str, str], Kernel] = WeakValueDictionary()
_recent: deque[Kernel] = deque(maxlen=4)  # for models that are loaded, used and dropped repeatedly
_build_lock = threading.Lock()


def _after_fork() -> None:
    global _build_lock
    _build_lock = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def build_kernel(
    program: Program, dtype: str = "float64", *, wait: bool = False, cache: Cache | None = None
) -> Kernel:
    """Return the kernel of a traced program on this machine; equal programs share one kernel."""
    program = _check_arrays(program).with_dtype(dtype)
    kernel_id = (program.digest, dtype)
    with _build_lock:
        kernel = _kernels.get(kernel_id)
        if kernel is None or cache is not None:
            kernel = _kernels[kernel_id] = _find_or_compile(
                kernel_key(program, host()), lambda: program, host(), cache or default_cache()
            )
        _recent.append(kernel)
    return kernel.wait() if wait else kernel


def build_named_kernel(
    identity: str, make: Callable[[], Program], dtype: str, *, cache: Cache | None = None
) -> Kernel:
    """Return the kernel of the program that `make` traces, found by its `identity` without tracing.

    The identity and this package's source together determine the program.
    """
    kernel_id = (identity, dtype)
    with _build_lock:
        kernel = _kernels.get(kernel_id)
        if kernel is None or cache is not None:
            key = named_key(identity, dtype, host())
            kernel = _kernels[kernel_id] = _find_or_compile(
                key, lambda: _check_arrays(make()).with_dtype(dtype), host(), cache or default_cache()
            )
        _recent.append(kernel)
    return kernel


def _check_arrays(program: Program) -> Program:
    """Return the program; raise if NumPy's limits on arrays do not allow a kernel of it."""
    for array in program.inputs + program.outputs:
        if array.size == 0:
            raise ProgramError(
                f"{program.name}: array {array.name!r} of shape {array.shape} is empty; leave it out"
            )
    if not program.inputs:
        raise ProgramError(f"{program.name} has no inputs: it is a constant and needs no kernel")
    dimensions = sum(len(array.shape) for array in program.outputs)
    if len(program.inputs) + len(program.outputs) > MAX_ARRAYS or dimensions > MAX_DIMENSIONS:
        raise ProgramError(
            f"{program.name}: expected at most {MAX_ARRAYS} arrays and {MAX_DIMENSIONS} dimensions of all "
            f"outputs together, got {len(program.inputs)} inputs and {len(program.outputs)} outputs of "
            f"{dimensions} dimensions; pass parameters of all bodies or joints as one array ('mass', not "
            "'mass@link1', ...), or use several kernels"
        )
    return program


def _find_or_compile(
    key: str | None, program_of: Callable[[], Program], machine: Machine, cache: Cache
) -> Kernel:
    """Return the kernel with this key from the cache, or compile the program of `program_of`."""
    if key is None:
        cache.turn_off(UNREADABLE)
        key = make_key("unused, since the cache is off")
    kernel = _find(key, machine, cache)
    if kernel is not None:
        if kernel.tier == 1:  # the optimised code was not finished: resume, tracing only if needed
            kernel._optimise_later(_optimiser(kernel, lambda: _lowered(program_of()), key, machine, cache))
        return kernel

    with Progress("kernel") as progress, collector_paused(), background.ahead():
        return _compile(key, program_of, machine, cache, progress)


def _compile(
    key: str, program_of: Callable[[], Program], machine: Machine, cache: Cache, progress: Progress
) -> Kernel:
    """Return a new kernel, with optimised code for short programs and with quick code for others."""
    program = program_of()
    progress.name = program.name
    progress.stage(f"lowering {len(program)} instructions")
    lowered = _lowered(program)
    kernel = Kernel(program.name, program.dtype, program.inputs, program.outputs, *_sizes(lowered))
    progress.stage(f"compiling {kernel.size} instructions")
    optimise = _optimiser(kernel, lambda: lowered, key, machine, cache)
    if kernel.size <= MAX_IMMEDIATE_SIZE:
        optimise()
        if isinstance(kernel._failure, MemoryError):
            raise kernel._failure
        return kernel.wait()
    lanes = machine.lanes(program.dtype)
    objects = compile_objects(unroll(lowered), machine, level=QUICK, lanes=lanes, bytecode=True)
    assert objects is not None
    kernel._install(objects, tier=1, lanes=lanes)
    if not cache.read_only:  # the next process may start before the optimised code is complete
        _store(kernel, objects, quick_key(key), machine, cache)
    kernel._optimise_later(optimise)
    return kernel


def _sizes(program: Program) -> tuple[int, int]:
    """Return the instructions with bodies counted once, and with bodies counted per iteration.

    Iterations of loops are counted up to MAX_COUNTED_ITERATIONS, of maps all.
    """
    size = work = len(program)
    for _, _, attr in program.code:
        if isinstance(attr, BoundedLoop | RowMap):
            inner, running = _sizes(attr.body)
            times = min(attr.limit, MAX_COUNTED_ITERATIONS) if isinstance(attr, BoundedLoop) else attr.count
            size = size + inner
            work = work + times * running
    return size, work


def _lowered(program: Program) -> Program:
    return lower(program, program.dtype, arranged=None)


def _optimiser(
    kernel: Kernel, lowered_of: Callable[[], Program], key: str, machine: Machine, cache: Cache
) -> Callable[[], None]:
    """Return a job that builds a kernel's optimised code, installs it and stores it in the cache."""
    lanes = machine.lanes(kernel.dtype)
    unfinished = Unfinished(cache, key, kernel.name)

    def optimise() -> None:
        if kernel._ready:  # done by another thread
            return
        try:
            objects = compile_objects(
                lambda: arrange(lowered_of(), arrangement(machine)), machine, level=OPTIMISED, lanes=lanes,
                stop=lambda: background.stopping(unfinished.lasting), unfinished=unfinished,
            )  # fmt: skip
            if objects is None:
                return  # Python is about to exit
            kernel._install(objects, tier=2, lanes=lanes)
            if _store(kernel, objects, key, machine, cache):
                unfinished.forget()
        except Exception as failure:  # raised by wait(); the quick code remains usable
            reraise_signal(failure)
            kernel._settle(failure)

    return optimise


def _store(kernel: Kernel, objects: list[bytes], key: str, machine: Machine, cache: Cache) -> bool:
    sizes, blob = join_objects(objects)
    header = {
        "name": kernel.name,
        "dtype": kernel.dtype,
        "cpu": machine.cpu,
        "size": kernel.size,
        "work": kernel.work,
        "inputs": [[a.name, *a.shape] for a in kernel.inputs],
        "outputs": [[a.name, *a.shape] for a in kernel.outputs],
        "objects": sizes,
    }
    return cache.store(key, header, blob)


def _find(key: str, machine: Machine, cache: Cache) -> Kernel | None:
    """Return the optimised kernel in the cache, or the quick one if it was not finished."""
    for entry_key, tier in ((key, 2), (quick_key(key), 1)):
        stored = cache.load(entry_key)
        if stored is not None:
            try:
                return _load_kernel(stored, tier, machine)
            except Exception as error:  # intact, but of another version: build it again
                reraise_signal(error)
                continue
    return None


def _load_kernel(stored: Entry, tier: int, machine: Machine) -> Kernel:
    """Return the kernel of a cache entry; raise if the entry does not contain one."""
    header = stored.header
    inputs, outputs = (
        tuple(Array(name, tuple(shape)) for name, *shape in header[part]) for part in ("inputs", "outputs")
    )
    kernel = Kernel(header["name"], header["dtype"], inputs, outputs, header["size"], header["work"])
    lanes = machine.lanes(kernel.dtype)
    kernel._install(split_objects(header, stored.blob), tier=tier, lanes=lanes)
    return kernel
