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

from linkwork.errors import ProgramError, TargetError
from linkwork.ir.collector import collector_paused
from linkwork.ir.program import Array, BoundedLoop, Program, RowMap, signature
from linkwork.passes import arrange, lower
from linkwork.passes.unroll import unroll
from linkwork.runtime.arguments import MOST_DIMENSIONS, argument_names, explain, refuse_masks
from linkwork.runtime.bound import Bound, bind_arrays, machine_call
from linkwork.runtime.cache import Cache, Entry, make_key
from linkwork.runtime.compiler import (
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
from linkwork.runtime.direct import make_direct, plain_text
from linkwork.runtime.native import Code, keep_with, make_gufunc
from linkwork.runtime.progress import Progress
from linkwork.runtime.threads import TABLE_ADDRESS, Sharer, checked_threads, using_threads
from linkwork.runtime.unfinished import Unfinished, quick_key
from linkwork.targets.cpu import EXPORTS, Machine, arrangement, host

MOST_ARRAYS = 64  # of a NumPy generalised ufunc
AT_ONCE = 400  # instructions up to which the optimised kernel is made before the first answer
SHARED_WORK_NS = 300_000  # a batch is shared among threads from about this much work on
LOOP_RUNS = 8  # of a loop's body, for that
_NS_PER_INSTRUCTION = 0.04  # of one row, in lanes


class Kernel:
    """A compiled program. Call it with its input arrays: any leading batch dimensions, broadcasting, casting, `out=`.

    `ufunc` is the NumPy generalised ufunc that does the work, and `direct` a shorter way to it for one state. Calling the
    kernel adds arguments by name, `threads=`, and errors that name the argument. Kernels are thread-safe, and run without
    the interpreter lock unless there is only one state.
    """

    entries: Any = None  # of a function of a model: what its arrays are, and the names along their axes

    def __init__(
        self, name: str, dtype: str, inputs: tuple[Array, ...], outputs: tuple[Array, ...], size: int, work: int | None = None
    ) -> None:
        self.name, self.dtype, self.inputs, self.outputs = name, dtype, inputs, outputs
        self.size = size  # instructions, those of loops' bodies once
        self.work = work or size  # instructions that may run
        self.lanes = 1
        self.tier = 0
        self._codes: list[Code] = []  # code that was ever called stays in memory: another thread may still be inside
        self._ready = False  # whether the optimised code is in place, or could not be made
        self._failure: Exception | None = None
        self._job: Callable[[], None] | None = None  # that makes the optimised code
        lanes = host().lanes(dtype)
        self._sharer = Sharer(len(inputs) + len(outputs), lanes)
        rows = max(4 * lanes, int(SHARED_WORK_NS / (_NS_PER_INSTRUCTION * max(self.work, 1))))
        self._data = (ctypes.c_void_p * 4)(None, self._sharer.address, rows, TABLE_ADDRESS)

    @property
    def signature(self) -> str:
        """The ufunc's signature of core dimensions."""
        return signature(self.inputs, self.outputs)

    def __repr__(self) -> str:
        return f"<linkwork kernel {self.name} {self.signature} {self.dtype}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError  # every kernel gets a call with its own arguments: see `make_call`

    def bind(self, *args: Any, out: Any = None, **named: Any) -> Bound:
        """A call of no arguments on arrays fixed now: the quickest way for control loops.

        Arrays that are not given are allocated. See `Bound`.
        """
        return bind_arrays(self, args, named, out)

    def bound_call(self, inputs: list[np.ndarray], outputs: list[np.ndarray], result: Any) -> Any:
        """What a bound call does: from inputs to outputs, and returns the result, which is made of these."""
        return machine_call(self, inputs + outputs, result)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"kernel {self.name} is machine code of this process: copy or pickle what it was compiled from")

    def _wait(self) -> None:
        with background.needed():
            while not self._ready:
                if (job := self._job) is not None:
                    background.attend(job)
                background.pause(lambda: self._ready)

    def wait(self) -> Kernel:
        """Return when the optimised code is in place."""
        if not self._ready:
            with Progress(self.name) as progress:
                progress.stage(f"optimising {self.size} instructions")
                self._wait()
        if self._failure is not None:
            why = str(self._failure) or type(self._failure).__name__
            raise TargetError(f"{self.name}: the optimised kernel could not be made: {why}") from self._failure
        return self

    # making of

    def _install(self, objects: list[bytes], *, tier: int, lanes: int) -> None:
        """Load code and let all calls from now on use it."""
        code = load_code(objects, EXPORTS)
        self._codes.append(code)
        self._data[0] = code.address["run"]  # one aligned word: calls under way see the old or the new one
        if self.tier == 0:
            doc = f"{self.name}{self.signature} in {self.dtype}, compiled by linkwork."
            self.ufunc, memory = make_gufunc(
                code.address["loop"], ctypes.addressof(self._data), len(self.inputs), len(self.outputs),
                self.dtype, self.signature, self.name, doc,
            )  # fmt: skip
            keep_with(self.ufunc, (self._codes, self._data, self._sharer, memory))
            self.bound_address = code.address["bound"]
            self.direct = make_direct(self, code.address["direct"])
            self.__class__ = type("Kernel", (Kernel,), {"__call__": make_call(self)})
        self.tier, self.lanes = tier, lanes
        if tier == 2:
            self._settle()

    def _optimise_later(self, job: Callable[[], None]) -> None:
        """Let a job make the optimised code in the background."""
        self._job = job
        background.submit(job)

    def _settle(self, failure: Exception | None = None) -> None:
        """Let go whoever waits: the optimised code is in place, or could not be made."""
        self._failure, self._job = failure, None
        self._ready = True
        background.announce()

    @property
    def data_address(self) -> int:
        """Where compiled code finds the function that does the work."""
        return ctypes.addressof(self._data)


def make_call(kernel: Kernel) -> Any:
    """The function behind `kernel(...)`, written for its arguments: Python then passes them on without packing them."""
    names = argument_names(kernel)
    given = ", ".join(names)
    # one output goes on by position, which NumPy takes sooner than by name
    place = "out[0] if out.__class__ is ().__class__ and out.__len__() == 1 else out" if len(kernel.outputs) == 1 else "out=out"
    text = f"""
def __call__(self, {given}, *, out=None, threads=None):
    try:
        if threads is None and out is None:
            return __direct({given})
        if not ({plain_text([*names, "out"])}):
            __refuse_masks(self, ({given},), out)
        if threads is None:
            return __ufunc({given}, {place})
        with __using_threads(__checked_threads(threads)):
            return __ufunc({given}) if out is None else __ufunc({given}, {place})
    except (__TypeError, __ValueError) as __error:
        raise __explain(self, ({given},), out, __error) from None
"""
    scope: dict[str, Any] = {  # no input has such a name
        "__ufunc": kernel.ufunc, "__direct": kernel.direct, "__explain": explain, "__refuse_masks": refuse_masks,
        "__using_threads": using_threads, "__checked_threads": checked_threads,
        "__ndarray": np.ndarray, "__TypeError": TypeError, "__ValueError": ValueError,
    }  # fmt: skip
    exec(text, scope)
    call = scope["__call__"]
    call.__qualname__ = kernel.name  # Python names it when an argument is missing
    call.__doc__ = (
        f"{kernel.name}{kernel.signature} on arrays with any leading batch dimensions; `out` and `threads` as wanted."
    )
    return call


_kernels: WeakValueDictionary[tuple[str, str], Kernel] = WeakValueDictionary()
_recent: deque[Kernel] = deque(maxlen=4)  # kept for models that are loaded, used and dropped again and again
_making = threading.Lock()


def _after_fork() -> None:
    global _making
    _making = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def build_kernel(program: Program, dtype: str = "float64", *, wait: bool = False, cache: Cache | None = None) -> Kernel:
    """The kernel of a traced program on this machine; the same one whenever the same program comes again."""
    program = _checked(program).with_dtype(dtype)
    place = (program.digest, dtype)
    with _making:
        kernel = _kernels.get(place)
        if kernel is None or cache is not None:
            kernel = _kernels[place] = _make(kernel_key(program, host()), lambda: program, host(), cache or default_cache())
        _recent.append(kernel)
    return kernel.wait() if wait else kernel


def build_named_kernel(identity: str, make: Callable[[], Program], dtype: str, *, cache: Cache | None = None) -> Kernel:
    """The kernel of the program that `make` traces, by an `identity` that decides it, given this package's source.

    Found in memory or in the cache, it costs no tracing.
    """
    place = (identity, dtype)
    with _making:
        kernel = _kernels.get(place)
        if kernel is None or cache is not None:
            key = named_key(identity, dtype, host())
            kernel = _kernels[place] = _make(key, lambda: _checked(make()).with_dtype(dtype), host(), cache or default_cache())
        _recent.append(kernel)
    return kernel


def _checked(program: Program) -> Program:
    for array in program.inputs + program.outputs:
        if array.size == 0:
            raise ProgramError(f"{program.name}: array {array.name!r} of shape {array.shape} is empty: leave it out")
    if not program.inputs:
        raise ProgramError(f"{program.name} has no inputs: it is a constant, and needs no kernel")
    dimensions = sum(len(array.shape) for array in program.outputs)
    if len(program.inputs) + len(program.outputs) > MOST_ARRAYS or dimensions > MOST_DIMENSIONS:
        raise ProgramError(
            f"{program.name} has {len(program.inputs)} inputs, and {len(program.outputs)} outputs of {dimensions} dimensions "
            f"in all; a kernel can have {MOST_ARRAYS} arrays, and outputs of {MOST_DIMENSIONS} dimensions: take parameters of "
            "all bodies or joints as one array ('mass', not 'mass@link1', ...), or ask for some at a time"
        )
    return program


def _make(key: str | None, program_of: Callable[[], Program], machine: Machine, cache: Cache) -> Kernel:
    """The kernel with this key in the cache, where there is one; otherwise of the program that `program_of` gives."""
    if key is None:
        cache.turn_off(UNREADABLE)
        key = make_key("nothing", "a cache that is off is never asked for it")
    kernel = _find(key, machine, cache)
    if kernel is not None:
        if kernel.tier == 1:  # the optimised code was not finished: go on, and trace only where nothing is left of it
            kernel._optimise_later(_optimiser(kernel, lambda: _lowered(program_of()), key, machine, cache))
        return kernel

    with Progress("kernel") as progress, collector_paused(), background.ahead():
        return _compiled(key, program_of, machine, cache, progress)


def _compiled(key: str, program_of: Callable[[], Program], machine: Machine, cache: Cache, progress: Progress) -> Kernel:
    """The kernel of the program that `program_of` gives: with optimised code where it is short, with quick code else."""
    program = program_of()
    progress.name = program.name
    progress.stage(f"lowering {len(program)} instructions")
    lowered = _lowered(program)
    kernel = Kernel(program.name, program.dtype, program.inputs, program.outputs, *_sizes(lowered))
    progress.stage(f"compiling {kernel.size} instructions")
    optimise = _optimiser(kernel, lambda: lowered, key, machine, cache)
    if kernel.size <= AT_ONCE:
        optimise()
        if isinstance(kernel._failure, MemoryError):
            raise kernel._failure
        return kernel.wait()
    lanes = machine.lanes(program.dtype)
    objects = compile_objects(unroll(lowered), machine, level=QUICK, lanes=lanes, bytecode=True)
    assert objects is not None
    kernel._install(objects, tier=1, lanes=lanes)
    if not cache.read_only:  # the next process may begin before the optimised code is there
        _store(kernel, objects, quick_key(key), machine, cache)
    kernel._optimise_later(optimise)
    return kernel


def _sizes(program: Program) -> tuple[int, int]:
    """Instructions with those of bodies of loops and maps, and with these as often as they may run, up to so many times."""
    size = work = len(program)
    for _, _, attr in program.code:
        if isinstance(attr, BoundedLoop | RowMap):
            inner, running = _sizes(attr.body)
            times = min(attr.limit, LOOP_RUNS) if isinstance(attr, BoundedLoop) else attr.count
            size, work = size + inner, work + times * running
    return size, work


def _lowered(program: Program) -> Program:
    return lower(program, program.dtype, arranged=None)


def _optimiser(
    kernel: Kernel, lowered_of: Callable[[], Program], key: str, machine: Machine, cache: Cache
) -> Callable[[], None]:
    """A job that makes a kernel's optimised code, puts it in place and into the cache."""
    lanes, unfinished = machine.lanes(kernel.dtype), Unfinished(cache, key, kernel.name)

    def optimise() -> None:
        if kernel._ready:  # another thread was first
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
        except Exception as failure:  # reported by wait(); the quick kernel goes on working
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
    """The optimised kernel in the cache; where it was not finished, the quick one."""
    for place, tier in ((key, 2), (quick_key(key), 1)):
        stored = cache.load(place)
        if stored is not None:
            try:
                return _stored_kernel(stored, tier, machine)
            except Exception:  # whole, but not what this version stores: make it anew
                continue
    return None


def _stored_kernel(stored: Entry, tier: int, machine: Machine) -> Kernel:
    """The kernel of a cache entry; an error where the entry does not hold one."""
    header = stored.header
    inputs, outputs = (tuple(Array(name, tuple(shape)) for name, *shape in header[part]) for part in ("inputs", "outputs"))
    kernel = Kernel(header["name"], header["dtype"], inputs, outputs, header["size"], header["work"])
    lanes = machine.lanes(kernel.dtype)
    kernel._install(split_objects(header, stored.blob), tier=tier, lanes=lanes)
    return kernel
