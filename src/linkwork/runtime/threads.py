"""Sharing a large batch among threads: each takes the next piece of rows until none is left.

Compiled code calls `Sharer` from inside NumPy, with the interpreter lock released. Rows are independent, so pieces can be
of any size and order: results are the same bits with any number of threads.
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
from linkwork.runtime.native import LoopFunction, ShareFunction

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
    return getattr(_override, "number", None) or default_threads()


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


def _forget_pool() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_forget_pool)


class Sharer:
    """The function that a kernel's `loop` calls for large batches, as compiled code sees it."""

    def __init__(self, operands: int, lanes: int) -> None:
        default_threads()
        self._operands = operands
        self._lanes = lanes
        self.function = ShareFunction(self._share)
        address = ctypes.cast(self.function, ctypes.c_void_p).value
        assert address is not None
        self.address = address

    def _share(self, args: int, dims: int, steps: int, data: int, status: int) -> None:
        """Do all rows, whatever happens, and say 1: no exception passes through compiled code, and a Ctrl-C comes any time.

        Where one came, say 2, and compiled code tells Python again. Where it came before the first line, nothing is said,
        and compiled code does the rows by itself.
        """
        batch, failure = None, None
        while batch is None or not batch.finished:
            try:
                if batch is None and failure is None:
                    batch = self._plan(args, dims, steps, data)
                    batch.call_helpers()
                batch = batch or _Batch(_run_of(data), [(args, dims, steps, data)], 0)
                batch.finish()
            except BaseException as error:
                failure = error
        ctypes.c_int.from_address(status).value = 2 if isinstance(failure, KeyboardInterrupt) else 1
        if failure is not None and not isinstance(failure, KeyboardInterrupt):
            raise failure  # Python reports it as ignored

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
