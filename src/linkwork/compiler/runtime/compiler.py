"""Compilation to machine code: quick code immediately, optimised code by a background thread."""

from __future__ import annotations

import atexit
import math
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from linkwork.compiler.ir.program import Program
from linkwork.compiler.runtime.cache import Cache, make_key
from linkwork.compiler.runtime.native import Code
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.compiler.runtime.source import code_digest
from linkwork.compiler.targets.cpu import (
    NDARRAY_DATA,
    Machine,
    bytecode_texts,
    compile_object,
    host,
    module_texts,
)
from linkwork.errors import LinkworkError, TargetError

if TYPE_CHECKING:
    from linkwork.compiler.runtime.unfinished import Unfinished

_llvm = threading.Lock()  # locked while LLVM works
# LLVM's levels of code generation
QUICK = 0
OPTIMISED = 1


@cache
def default_cache() -> Cache:
    """Return the cache that this process uses."""
    return Cache.default()


COMPILER = ("compiler/ir", "compiler/passes", "compiler/targets/cpu")  # packages that determine emitted code


@cache
def source_digest(packages: tuple[str, ...] = COMPILER) -> str | None:
    """Return a digest of the code in some packages, or None if it cannot be read.

    It is a part of cache keys, so that no kernel outlives the code that produced it.
    """
    return code_digest(packages)


def kernel_key(program: Program, machine: Machine) -> str | None:
    """Return the cache key of a traced program's optimised kernel, or None.

    None means that the code of the compiler cannot be read.
    """
    return _key(source_digest(), program.digest, program.dtype, machine)


def named_key(identity: str, dtype: str, machine: Machine) -> str | None:
    """Return the cache key of an optimised kernel by an identity that determines its program, or None.

    The whole package's code is a part of the key.
    """
    return _key(source_digest((".",)), identity, dtype, machine)


def _key(source: str | None, content: str, dtype: str, machine: Machine) -> str | None:
    return None if source is None else make_key(source, content, dtype, str(NDARRAY_DATA), *machine.key())


UNREADABLE = "cannot read the linkwork sources, so kernels of two versions could not be distinguished"


def compile_objects(
    program: Program | Callable[[], Program],
    machine: Machine,
    *,
    level: int,
    lanes: int,
    bytecode: bool = False,
    stop: Callable[[], bool] = lambda: False,
    unfinished: Unfinished | None = None,
) -> list[bytes] | None:
    """Return the object code of a lowered program, module by module; None if `stop` became true.

    The modules are those of `module_texts`, or with `bytecode` those of `bytecode_texts`, which run the
    program as bytecode and need little work by LLVM. With `unfinished`, completed modules are stored there
    when compilation stops, and modules stored by an earlier process are not compiled again.
    """
    pending = unfinished.load() if unfinished is not None else None
    if pending is None and stop():
        return None
    if pending is None:
        with background.outside_llvm():
            program = program if isinstance(program, Program) else program()
            make_texts = bytecode_texts if bytecode else module_texts
            pending = [], make_texts(program, lanes, machine)
    objects, texts = pending
    for number, text in enumerate(texts):
        background.yield_priority()
        if stop():
            if unfinished is not None:
                unfinished.store(objects, texts[number:])
            return None
        with _llvm:
            _ensure_memory(len(text))
            objects.append(compile_object(text, machine, level=level))
        _close_retired()
    return objects


def _ensure_memory(size: int) -> None:
    """Raise if memory may not suffice for LLVM to compile `size` bytes of text: it would abort."""
    required = (32 << 20) + 64 * size  # more than any measured program needed
    try:
        mmap.mmap(-1, required).close()  # never touched, so it costs nothing
    except (OSError, MemoryError, ValueError) as error:
        reraise_signal(error)
        raise TargetError(
            f"out of memory: LLVM may need {required >> 20} MB, which this process cannot allocate"
        ) from None


def compile_text(text: str, names: Sequence[str], *, level: int) -> Code:
    """Compile a short LLVM text for this machine into memory."""
    with background.ahead():
        with _llvm:
            _ensure_memory(len(text))
            object_code = compile_object(text, host(), level=level)
        return load_code([object_code], names)


def load_code(objects: Sequence[bytes], names: Sequence[str]) -> Code:
    """Load object code into memory."""
    with _llvm:
        _ensure_memory(sum(map(len, objects)))
        code = Code(objects, names, _retire)
    _close_retired()
    return code


_retired: deque[Any] = deque()  # LLVM engines whose code is no longer referenced


def _retire(engine: Any) -> None:
    """Free machine code, immediately or after the running compilation: no caller waits for LLVM."""
    _retired.append(engine)
    _close_retired()


def _close_retired() -> None:
    while _retired and _llvm.acquire(blocking=False):
        try:
            while _retired:
                _retired.popleft().close()
        finally:
            _llvm.release()


def split_objects(header: dict[str, Any], blob: bytes) -> list[bytes]:
    """Return the objects of a cache entry; raise ValueError if header and blob do not match."""
    objects = []
    offset = 0
    for size in header["objects"]:
        objects.append(blob[offset : offset + size])
        offset += size
    if offset != len(blob) or not all(o.startswith(_OBJECT_MAGIC) for o in objects):
        raise ValueError("the blob of a cache entry does not contain the objects listed in its header")
    return objects


# Linux, macOS, Windows on x86 and Arm
_OBJECT_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86", b"\x64\xaa")


def join_objects(objects: Sequence[bytes]) -> tuple[list[int], bytes]:
    """Return the sizes of objects, for the header of a cache entry, and its blob."""
    return [len(o) for o in objects], b"".join(objects)


@cache
def exit_seconds() -> float:
    """Return how long Python may wait at exit for optimised code [s]: LINKWORK_EXIT_SECONDS, or 2."""
    text = os.environ.get("LINKWORK_EXIT_SECONDS", "").strip()
    try:
        seconds = float(text or 2.0)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0.0:
        raise LinkworkError(f"LINKWORK_EXIT_SECONDS: expected seconds >= 0, got {text!r}")
    return seconds


class _Block:
    """Token of a running `with` block."""


class Background:
    """Thread that compiles optimised code in order of submission, and ends when no job remains.

    At Python's exit it continues for `exit_seconds` with work that the cache will keep, then stops between
    two modules. A forked child takes over the unfinished jobs of its parent. If no thread can be started, or
    it has stopped, a waiting caller runs the job.
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()  # the first one is running
        self._inline_jobs: set[Callable[[], None]] = set()  # being run by waiting callers
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._end = math.inf  # when jobs should stop, by the monotonic clock
        self._reset()
        atexit.register(self._finish)

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job, which raises only when interrupted; then it is run again for the next waiter."""
        exit_seconds()  # reports an invalid setting early
        with self._lock:
            self._jobs.append(job)
            self._ensure_thread()

    def run_inline(self, job: Callable[[], None]) -> None:
        """Run a pending job in this thread if no other thread will: none can be started, or Python exits."""
        with self._lock:
            is_queued = job in self._jobs
            if job in self._inline_jobs or (is_queued and self._ensure_thread()):
                return
            if is_queued:
                self._jobs.remove(job)
            self._inline_jobs.add(job)
        try:
            job()
        except BaseException:
            with self._lock:
                self._jobs.append(job)
            raise
        finally:
            with self._lock:
                self._inline_jobs.discard(job)

    def announce(self) -> None:
        """Wake all threads that wait for a change of state."""
        with self._settled:
            self._settled.notify_all()

    def pause(self, settled: Callable[[], bool]) -> None:
        """Return when `settled` is true and announced, or after 0.1 s."""
        with self._settled:
            self._settled.wait_for(settled, timeout=0.1)

    def stopping(self, lasting: bool = False) -> bool:
        """Return True if the running job should stop: at exit, unless a caller waits for it.

        Jobs whose work is `lasting` may continue for some time after Python has begun to exit.
        """
        in_worker = threading.current_thread() is self._thread
        return self._stopping and in_worker and not (lasting and time.monotonic() < self._end)

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Start no module in the background while this block runs, in which a caller waits for a result."""
        if threading.current_thread() is self._thread:
            yield
        else:
            with self._counted(self._ahead):
                yield

    @contextmanager
    def boosted(self) -> Iterator[None]:
        """Let the background thread continue while this block runs, in which a caller waits for its job."""
        with self._counted(self._boosted):
            yield

    @contextmanager
    def _counted(self, blocks: WeakSet[_Block]) -> Iterator[None]:
        block = _Block()  # counted while it is alive, even if this is interrupted
        blocks.add(block)
        try:
            yield
        finally:
            blocks.discard(block)
            self.announce()

    def yield_priority(self) -> None:
        """Wait until no caller is ahead of the background thread."""
        if threading.current_thread() is self._thread:
            with self._settled:
                while self._ahead and not self._boosted and not self._stopping:
                    self._settled.wait(0.1)

    @contextmanager
    def outside_llvm(self) -> Iterator[None]:
        """Mark a block in which the background thread may be abandoned at exit without a crash."""
        if threading.current_thread() is not self._thread:
            yield
            return
        self._outside_llvm = True
        try:
            yield
        finally:
            self._outside_llvm = False

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._thread = None
        self._ahead: WeakSet[_Block] = WeakSet()
        self._boosted: WeakSet[_Block] = WeakSet()
        self._outside_llvm = False

    def _ensure_thread(self) -> bool:
        """Return True if the thread is running or could be started."""
        if self._thread is not None and self._thread.is_alive():
            return True
        if self._stopping:
            return False
        # A daemon, but joined at exit: ending the process while LLVM works would crash it.
        self._thread = threading.Thread(target=self._work, name="linkwork-compiler", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # thread limit reached, or the interpreter is exiting
            reraise_signal(error)
            self._thread = None
        return self._thread is not None

    def _work(self) -> None:
        while threading.current_thread() is self._thread:  # a thread abandoned at its start has no job
            self._jobs[0]()
            with self._lock:
                self._jobs.popleft()
                if not self._jobs:
                    self._thread = None

    def _finish(self) -> None:
        self._end = time.monotonic() + exit_seconds() if self._jobs else 0.0
        self._stopping = True
        self.announce()
        while True:
            try:
                return self._join()
            except KeyboardInterrupt:  # after Ctrl-C wait only for the module that LLVM is compiling
                self._end = 0.0

    def _join(self) -> None:
        """Wait for the thread, and where it may be abandoned no longer than until `_end`."""
        while (thread := self._thread) is not None and thread.is_alive():
            if self._outside_llvm and time.monotonic() > self._end:
                return  # it will check `stopping` before it continues
            thread.join(0.02)

    def after_fork(self) -> None:
        """Reset in a child process: threads do not survive a fork, but the locks that they hold do."""
        self._reset()
        self._jobs.extend(self._inline_jobs)  # were run by threads of the parent
        self._inline_jobs.clear()
        if self._jobs:
            with self._lock:
                self._ensure_thread()


background = Background()


def _after_fork() -> None:
    _llvm.release()
    background.after_fork()


if hasattr(os, "register_at_fork"):
    # No fork while LLVM works: the child would inherit its locks, which no thread would release.
    os.register_at_fork(before=_llvm.acquire, after_in_parent=_llvm.release, after_in_child=_after_fork)
