"""From a program to machine code: the cache first, then a quick version at once and the optimised one in the background."""

from __future__ import annotations

import atexit
import hashlib
import queue
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from linkwork.ir.program import Program
from linkwork.runtime.cache import Cache, make_key
from linkwork.targets.cpu import NDARRAY_DATA, Machine, compile_object, module_texts

QUICK, OPTIMISED = 0, 2  # LLVM's levels of code generation


@cache
def default_cache() -> Cache:
    """The cache that this process uses."""
    return Cache.default()


@cache
def source_digest() -> str:
    """Digest of the rooms that decide what code a program becomes, so that no kernel outlives the compiler it came from."""
    root = Path(__file__).parents[1]
    h = hashlib.sha256()
    for room in ("ir", "passes", "targets/cpu"):
        for path in sorted((root / room).rglob("*.py")):
            h.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


def kernel_key(program: Program, machine: Machine) -> str:
    """The cache key of a traced program's optimised kernel on a machine."""
    return make_key(source_digest(), program.digest, program.dtype, str(NDARRAY_DATA), *machine.key())


def compile_objects(
    program: Program, machine: Machine, *, level: int, lanes: int, single: bool = True, stop: Callable[[], bool] = lambda: False
) -> list[bytes] | None:
    """Object code of a lowered program, module by module (see `module_texts`); None if `stop` came true in between."""
    objects = []
    for text in module_texts(program, lanes, single=single):
        if stop():
            return None
        objects.append(compile_object(text, machine, level=level))
    return objects


def split_objects(header: dict[str, Any], blob: bytes) -> list[bytes]:
    """The objects of a cache entry."""
    objects, place = [], 0
    for size in header["objects"]:
        objects.append(blob[place : place + size])
        place += size
    return objects


def join_objects(objects: Sequence[bytes]) -> tuple[list[int], bytes]:
    """The sizes of objects, for a cache entry's header, and its blob."""
    return [len(o) for o in objects], b"".join(objects)


class Background:
    """One thread that compiles what can wait, in order. It stops between two modules when Python exits."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job later. A job must not raise."""
        with self._lock:
            if self._thread is None:
                # A daemon, but joined at exit: ending the process while LLVM works would crash it.
                self._thread = threading.Thread(target=self._work, name="linkwork-compiler", daemon=True)
                self._thread.start()
                atexit.register(self._finish)
        self._jobs.put(job)

    def stopping(self) -> bool:
        """Whether jobs should give up."""
        return self._stopping.is_set()

    def _work(self) -> None:
        while not self.stopping():
            self._jobs.get()()

    def _finish(self) -> None:
        self._stopping.set()
        self._jobs.put(lambda: None)
        assert self._thread is not None
        self._thread.join()


background = Background()
