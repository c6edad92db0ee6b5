"""Sharing a large batch among threads: each takes the next piece of rows until none is left.

Compiled code calls `Sharer` from inside NumPy (see `targets.cpu.share`). Rows are independent, so pieces can be of any size
and order: results are the same bits with any number of threads.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import starmap

from linkwork.errors import LinkworkError
from linkwork.runtime.native import LoopFunction, address_of
from linkwork.targets.cpu import share

MOST_THREADS = max(32, os.cpu_count() or 1)  # that work on one batch: more are of no use, and each stays for good
_PIECES = 8  # per thread: enough to even out cores that are busy with other work
_override = threading.local()


def default_threads() -> int:
    """How many threads large batches use: LINKWORK_THREADS, or as many cores as this process may use."""
    wanted = _wanted_threads()
    if wanted is not None:
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _wanted_threads() -> int | None:
    """What LINKWORK_THREADS asks for, read once: a mistake in it is found when the first kernel is made."""
    text = os.environ.get("LINKWORK_THREADS", "").strip()
    return checked_threads(text, "LINKWORK_THREADS") if text else None


def checked_threads(value: object, name: str = "threads") -> int:
    """A number of threads given by a user."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or (isinstance(value, float) and value != number):
        raise LinkworkError(f"{name} must be a whole number of at least 1, not {value!r}")
    return number


@contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Calls of this Python thread inside the block use so many threads."""
    before = getattr(_override, "number", None)
    _override.number = number
    try:
        yield
    finally:
        _override.number = before


def _threads() -> int:
    return min(getattr(_override, "number", None) or default_threads(), MOST_THREADS)


class _Pool:
    """Threads that wait for work. A Ctrl-C while they start does no harm, as it would to those of concurrent.futures."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._size = 0

    def submit(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Have jobs done some time, on as many threads: fewer where no more can be started."""
        with suppress(RuntimeError):
            while self._size < len(jobs):
                _thread.start_new_thread(self._serve, ())
                self._size += 1
        for job in jobs[: self._size]:
            self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            self._jobs.get()()


_pool = _Pool()


# What compiled code needs of Python, as `targets.cpu.share` lays it out.
_table = (ctypes.c_uint64 * len(share.WORDS))(*(address_of(getattr(ctypes.pythonapi, name)) for name in share.FUNCTIONS))
_table[-1] = threading.main_thread().ident or 0
TABLE_ADDRESS = ctypes.addressof(_table)


def _after_fork() -> None:
    global _pool
    _pool = _Pool()  # threads do not survive a fork
    _table[-1] = threading.get_ident()  # and the one that forked is the main one now


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Sharer:
    """The function that a kernel's `loop` calls for large batches, as compiled code sees it."""

    def __init__(self, operands: int, lanes: int) -> None:
        default_threads()
        self._operands = operands
        self._lanes = lanes
        self.function = self._share
        self.address = id(self.function)

    def _share(self, args: int, dims: int, steps: int, data: int, status: int) -> None:
        """Do all rows, whatever happens, leave 1 in the status, and then raise what came meanwhile, in any line.

        Of a signal's handler, say, or Ctrl-C; compiled code sees to it that the caller gets it. Where it came before the first
        line, the status is 0, and compiled code does the rows by itself.
        """
        done = ctypes.c_int.from_address(status)
        batch: _Batch | None = None
        failure: BaseException | None = None
        while batch is None or not batch.finished:
            try:
                if batch is None and failure is None:
                    batch = self._plan(args, dims, steps, data)
                    batch.call_helpers()
                batch = batch or _Batch(_run_of(data), [(args, dims, steps, data)], 0)
                batch.finish()
            except BaseException as error:
                failure = error
        done.value = 1  # no call stands between this and the end of the loop, so no signal is handled there
        if failure is not None:
            raise failure

    def _plan(self, args: int, dims: int, steps: int, data: int) -> _Batch:
        """The rows cut into pieces, some for each thread, of whole vectors."""
        count = self._operands
        total = ctypes.c_int64.from_address(dims).value
        bases = list((ctypes.c_int64 * count).from_address(args))
        distances = list((ctypes.c_int64 * count).from_address(steps))
        threads = min(_threads(), max(1, total // self._lanes))
        piece = -(-total // (threads * _PIECES))
        piece = -(-piece // self._lanes) * self._lanes if threads > 1 else total
        calls, kept = [], []
        for start in range(0, total, piece):
            own_args = (ctypes.c_int64 * count)(*[b + start * d for b, d in zip(bases, distances, strict=True)])
            own_dims = ctypes.c_int64(min(piece, total - start))  # the kernel reads no other: its shapes are fixed
            kept.append((own_args, own_dims))
            calls.append((ctypes.addressof(own_args), ctypes.addressof(own_dims), steps, data))
        return _Batch(_run_of(data), calls, threads - 1, kept)


def _run_of(data: int) -> Callable[..., None]:
    return LoopFunction(ctypes.c_void_p.from_address(data).value)  # type: ignore[arg-type]


class _Batch:
    """The pieces of one call. Each is done once, although the calling thread may be interrupted between any two lines.

    For that, all that changes does so inside one call of C: a whole drain, a helper's state in `_helpers`.
    """

    def __init__(self, run: Callable[..., None], calls: list[tuple[int, int, int, int]], helpers: int, kept: object = None):
        self.finished = False
        self._run, self._calls, self._count, self._kept = run, iter(calls), helpers, kept
        self._helpers: dict[int, str] = {}  # at "work" or "over", by number
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def call_helpers(self) -> None:
        """Ask the pool for help."""
        _pool.submit([partial(self._help, number) for number in range(self._count)])

    def finish(self) -> None:
        """Work, then wait for helpers; call it again if an exception came between. Who has not begun to help need not."""
        self._drain()
        for number in range(self._count):
            while self._helpers.setdefault(number, "over") != "over":
                with suppress(queue.Empty):
                    self._wake.get(timeout=0.1)
        self.finished = True

    def _help(self, number: int) -> None:
        if self._helpers.setdefault(number, "work") == "over":
            return
        try:
            self._drain()
        finally:
            self._helpers[number] = "over"
            self._wake.put(None)

    def _drain(self) -> None:
        deque(starmap(self._run, self._calls), maxlen=0)
