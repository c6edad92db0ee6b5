"""From a program to machine code: the cache first, then a quick version at once and the optimised one in the background."""

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

from linkwork.errors import LinkworkError, TargetError
from linkwork.ir.program import Program
from linkwork.runtime.cache import Cache, make_key
from linkwork.runtime.native import Code
from linkwork.runtime.source import code_digest
from linkwork.targets.cpu import NDARRAY_DATA, Machine, bytecode_texts, compile_object, host, module_texts

if TYPE_CHECKING:
    from linkwork.runtime.unfinished import Unfinished

_llvm = threading.Lock()  # held while LLVM works
QUICK, OPTIMISED = 0, 1  # LLVM's levels of code generation


@cache
def default_cache() -> Cache:
    """The cache that this process uses."""
    return Cache.default()


COMPILER = ("ir", "passes", "targets/cpu")  # the rooms that decide what code a program becomes


@cache
def source_digest(rooms: tuple[str, ...] = COMPILER) -> str | None:
    """Digest of the code in some rooms, so that no kernel outlives the code it came from; None where it cannot be read."""
    return code_digest(rooms)


def kernel_key(program: Program, machine: Machine) -> str | None:
    """The cache key of a traced program's optimised kernel on a machine; None where the compiler's code cannot be read."""
    return _key(source_digest(), program.digest, program.dtype, machine)


def named_key(identity: str, dtype: str, machine: Machine) -> str | None:
    """The cache key of the optimised kernel of a program that the package's whole code and an identity decide, or None."""
    return _key(source_digest((".",)), identity, dtype, machine)


def _key(source: str | None, content: str, dtype: str, machine: Machine) -> str | None:
    return None if source is None else make_key(source, content, dtype, str(NDARRAY_DATA), *machine.key())


UNREADABLE = "linkwork's own code cannot be read here, so that kernels of two versions could not be told apart"


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
    """Object code of a lowered program, module by module (see `module_texts`); None if `stop` came true in between.

    With `bytecode` it runs the program as bytecode (see `bytecode_texts`), which LLVM has little to do for.

    With `unfinished`, what is done by then is kept there, and what an earlier process left there is not done again.
    """
    left = unfinished.load() if unfinished is not None else None
    if left is None and stop():
        return None
    if left is None:
        with background.outside_llvm():
            program = program if isinstance(program, Program) else program()
            texts = bytecode_texts(program, lanes, machine) if bytecode else module_texts(program, lanes, machine)
            left = [], texts
    objects, texts = left
    for number, text in enumerate(texts):
        background.give_way()
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
    """An error where LLVM might get too little memory for a text of so many bytes: it would end the process."""
    wanted = (32 << 20) + 64 * size  # more than it took for any of our programs
    try:
        mmap.mmap(-1, wanted).close()  # never touched, so it costs nothing
    except (OSError, MemoryError, ValueError):
        raise TargetError(f"too little memory: LLVM may need {wanted >> 20} MB, and this process cannot get them") from None


def compile_text(text: str, names: Sequence[str], *, level: int) -> Code:
    """Machine code in memory of a short LLVM text for this machine."""
    with background.ahead():
        with _llvm:
            _ensure_memory(len(text))
            made = compile_object(text, host(), level=level)
        return load_code([made], names)


def load_code(objects: Sequence[bytes], names: Sequence[str]) -> Code:
    """Machine code in memory from object code."""
    with _llvm:
        _ensure_memory(sum(map(len, objects)))
        code = Code(objects, names, _retire)
    _close_retired()
    return code


_retired: deque[Any] = deque()  # LLVM's engines whose code nobody can call any more


def _retire(engine: Any) -> None:
    """Free machine code; while LLVM works, leave it to whoever has it work: no caller waits for a compiler."""
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


@cache
def exit_seconds() -> float:
    """How long Python may wait at its exit for optimised code: LINKWORK_EXIT_SECONDS, or 2."""
    text = os.environ.get("LINKWORK_EXIT_SECONDS", "").strip()
    try:
        seconds = float(text or 2.0)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0.0:
        raise LinkworkError(f"LINKWORK_EXIT_SECONDS must be a number of seconds of at least 0, not {text!r}")
    return seconds


class _Block:
    """A `with` block that is being run."""


class Background:
    """One thread that compiles what can wait, in order, and ends when nothing is left.

    When Python exits it goes on for `exit_seconds` with what the cache will keep, then stops between two modules. A forked
    child takes over what its parent had not finished. Where no thread can start, or it gave up, whoever waits does it.
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()  # the first one is being worked on
        self._attended: set[Callable[[], None]] = set()  # being done by whoever waits for them
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._end = math.inf  # when jobs should give up, by the monotonic clock
        self._start_anew()
        atexit.register(self._finish)

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job later. A job raises nothing but what interrupts it; then it is done again for whoever waits."""
        exit_seconds()  # a mistake in it is found here
        with self._lock:
            self._jobs.append(job)
            self._ensure_thread()

    def attend(self, job: Callable[[], None]) -> None:
        """Do a job that is not done here and now if no thread is going to: none can be started, or Python is about to exit."""
        with self._lock:
            waiting = job in self._jobs
            if job in self._attended or (waiting and self._ensure_thread()):
                return
            if waiting:
                self._jobs.remove(job)
            self._attended.add(job)
        try:
            job()
        except BaseException:
            with self._lock:
                self._jobs.append(job)
            raise
        finally:
            with self._lock:
                self._attended.discard(job)

    def announce(self) -> None:
        """Wake all that wait for something to be settled."""
        with self._settled:
            self._settled.notify_all()

    def pause(self, settled: Callable[[], bool]) -> None:
        """Return when something is settled and announced, or after a while."""
        with self._settled:
            self._settled.wait_for(settled, timeout=0.1)

    def stopping(self, lasting: bool = False) -> bool:
        """Whether the running job should give up: at exit, unless somebody waits for it there.

        Jobs whose work is `lasting` have some time after Python has begun to exit.
        """
        mine = threading.current_thread() is self._thread
        return self._stopping and mine and not (lasting and time.monotonic() < self._end)

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """While such a block runs, the thread begins no module: somebody waits for a first answer, and LLVM works on one."""
        if threading.current_thread() is self._thread:
            yield
        else:
            with self._counted(self._ahead):
                yield

    @contextmanager
    def needed(self) -> Iterator[None]:
        """While such a block runs, somebody waits for what the thread does, and it gives way to nobody."""
        with self._counted(self._needed):
            yield

    @contextmanager
    def _counted(self, blocks: WeakSet[_Block]) -> Iterator[None]:
        block = _Block()  # counted as long as it lives, whatever interrupts this
        blocks.add(block)
        try:
            yield
        finally:
            blocks.discard(block)
            self.announce()

    def give_way(self) -> None:
        """Let those go first who are ahead."""
        if threading.current_thread() is self._thread:
            with self._settled:
                while self._ahead and not self._needed and not self._stopping:
                    self._settled.wait(0.1)

    @contextmanager
    def outside_llvm(self) -> Iterator[None]:
        """In such a block, the thread may be left behind by a process that ends; elsewhere that could crash it."""
        if threading.current_thread() is not self._thread:
            yield
            return
        self._outside_llvm = True
        try:
            yield
        finally:
            self._outside_llvm = False

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._thread = None
        self._ahead: WeakSet[_Block] = WeakSet()
        self._needed: WeakSet[_Block] = WeakSet()
        self._outside_llvm = False

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
                self._jobs.popleft()
                if not self._jobs:
                    self._thread = None

    def _finish(self) -> None:
        self._end = time.monotonic() + exit_seconds() if self._jobs else 0.0
        self._stopping = True
        self.announce()
        while (thread := self._thread) is not None and thread.is_alive():
            if self._outside_llvm and time.monotonic() > self._end:
                return  # it will ask `stopping` before it goes on
            try:
                thread.join(0.02)
            except KeyboardInterrupt:  # an impatient user waits only for what LLVM is in the middle of
                self._end = 0.0

    def after_fork(self) -> None:
        """Begin anew in a child: threads do not survive a fork, but the locks that they hold do."""
        self._start_anew()
        self._jobs.extend(self._attended)  # by threads that are not here
        self._attended.clear()
        if self._jobs:
            with self._lock:
                self._ensure_thread()


background = Background()


def _after_fork() -> None:
    _llvm.release()
    background.after_fork()


if hasattr(os, "register_at_fork"):
    # No fork while LLVM works: the child would inherit its locks, and nobody to release them.
    os.register_at_fork(before=_llvm.acquire, after_in_parent=_llvm.release, after_in_child=_after_fork)
