"""From a program to machine code: the cache first, then a quick version at once and the optimised one in the background."""

from __future__ import annotations

import atexit
import hashlib
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from linkwork.errors import TargetError
from linkwork.ir.program import Program
from linkwork.runtime.cache import Cache, make_key
from linkwork.runtime.native import Code
from linkwork.targets.cpu import NDARRAY_DATA, Machine, compile_object, module_texts

_llvm = threading.Lock()  # held while LLVM works
QUICK, OPTIMISED = 0, 2  # LLVM's levels of code generation


@cache
def default_cache() -> Cache:
    """The cache that this process uses."""
    return Cache.default()


COMPILER = ("ir", "passes", "targets/cpu")  # the rooms that decide what code a program becomes


@cache
def source_digest(rooms: tuple[str, ...] = COMPILER) -> str:
    """Digest of the source in some rooms, so that no kernel outlives the source it came from."""
    root = Path(__file__).parents[1]
    h = hashlib.sha256()
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            h.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


def kernel_key(program: Program, machine: Machine) -> str:
    """The cache key of a traced program's optimised kernel on a machine."""
    return make_key(source_digest(), program.digest, program.dtype, str(NDARRAY_DATA), *machine.key())


def named_key(identity: str, dtype: str, machine: Machine) -> str:
    """The cache key of the optimised kernel of a program that the package's whole source and an identity decide."""
    return make_key(source_digest((".",)), identity, dtype, str(NDARRAY_DATA), *machine.key())


def compile_objects(
    program: Program, machine: Machine, *, level: int, lanes: int, single: bool = True, stop: Callable[[], bool] = lambda: False
) -> list[bytes] | None:
    """Object code of a lowered program, module by module (see `module_texts`); None if `stop` came true in between."""
    objects = []
    for text in module_texts(program, lanes, machine, single=single):
        if stop():
            return None
        with _llvm:
            _ensure_memory(len(text))
            objects.append(compile_object(text, machine, level=level))
    return objects


def _ensure_memory(size: int) -> None:
    """An error where LLVM might get too little memory for a text of so many bytes: it would end the process."""
    wanted = (32 << 20) + 64 * size  # more than it took for any of our programs
    try:
        mmap.mmap(-1, wanted).close()  # never touched, so it costs nothing
    except (OSError, MemoryError, ValueError):
        raise TargetError(f"too little memory: LLVM may need {wanted >> 20} MB, and this process cannot get them") from None


def load_code(objects: Sequence[bytes], names: Sequence[str]) -> Code:
    """Machine code in memory from object code."""
    with _llvm:
        _ensure_memory(sum(map(len, objects)))
        return Code(objects, names)


def split_objects(header: dict[str, Any], blob: bytes) -> list[bytes]:
    """The objects of a cache entry; ValueError where header and blob do not belong together."""
    objects, place = [], 0
    for size in header["objects"]:
        objects.append(blob[place : place + size])
        place += size
    if place != len(blob) or not all(o.startswith(_OBJECT_MAGIC) for o in objects):
        raise ValueError("the blob of a cache entry does not hold the objects that its header names")
    return objects


_OBJECT_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86", b"\x64\xaa")  # Linux, macOS, Windows on x86 and Arm


def join_objects(objects: Sequence[bytes]) -> tuple[list[int], bytes]:
    """The sizes of objects, for a cache entry's header, and its blob."""
    return [len(o) for o in objects], b"".join(objects)


class Background:
    """One thread that compiles what can wait, in order, and ends when nothing is left.

    When Python exits it stops between two modules. A forked child takes over what its parent had not finished. Where no thread
    can start, whoever waits for a job does it.
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()  # the first one is being worked on
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._start_anew()
        atexit.register(self._finish)
        if hasattr(os, "register_at_fork"):
            # No fork while LLVM works: the child would inherit its locks, and nobody to release them.
            os.register_at_fork(before=_llvm.acquire, after_in_parent=_llvm.release, after_in_child=self._after_fork)

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job later. A job raises nothing but what interrupts it; then it is done again for whoever waits."""
        with self._lock:
            self._jobs.append(job)
            self._ensure_thread()

    def attend(self, job: Callable[[], None]) -> None:
        """Do a job here and now if no thread is going to: none can be started, or Python is about to exit."""
        with self._lock:
            if self._ensure_thread() or job not in self._jobs:
                return
            self._jobs.remove(job)
        try:
            job()
        except BaseException:
            with self._lock:
                self._jobs.append(job)
            raise

    def stopping(self) -> bool:
        """Whether the running job should give up: at exit, unless somebody waits for it there."""
        return self._stopping and threading.current_thread() is self._thread

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._thread = None

    def _ensure_thread(self) -> bool:
        """Whether a thread is at work, or can be started."""
        if self._thread is not None and self._thread.is_alive():
            return True
        if self._stopping:
            return False
        # A daemon, but joined at exit: ending the process while LLVM works would crash it.
        self._thread = threading.Thread(target=self._work, name="linkwork-compiler", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or none any more
            self._thread = None
        return self._thread is not None

    def _work(self) -> None:
        while threading.current_thread() is self._thread:  # one that was given up while it started has nothing to do
            self._jobs[0]()
            with self._lock:
                if not self._stopping:
                    self._jobs.popleft()
                if not self._jobs or self._stopping:
                    self._thread = None

    def _finish(self) -> None:
        self._stopping = True
        thread = self._thread
        if thread is not None:
            thread.join()

    def _after_fork(self) -> None:
        _llvm.release()
        self._start_anew()
        if self._jobs:
            with self._lock:
                self._ensure_thread()


background = Background()
