"""Splitting of large batches among threads: each takes the next piece of rows until none remains.

Compiled code calls `BatchSplitter` from inside NumPy (see `targets.cpu.share`). Rows are independent, so
pieces can be of any size and order: results have the same bits with any number of threads.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import starmap

import numpy as np

from linkwork.compiler.runtime.native import LoopFunction, address_of
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.compiler.targets.cpu import share
from linkwork.errors import LinkworkError

MAX_THREADS = max(32, os.cpu_count() or 1)  # for one batch; threads are never stopped
_PIECES_PER_THREAD = 8  # balances the load if some cores are busy with other work
_override = threading.local()


def default_threads() -> int:
    """Return the threads of large batches: LINKWORK_THREADS, or the cores available to this process."""
    requested = _requested_threads()
    if requested is not None:
        return requested
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _requested_threads() -> int | None:
    """Return the value of LINKWORK_THREADS, read and checked once, or None."""
    text = os.environ.get("LINKWORK_THREADS", "").strip()
    if not text:
        return None
    return checked_threads(int(text) if text.isdecimal() and int(text) else text, "LINKWORK_THREADS")


def checked_threads(value: object, name: str = "threads") -> int:
    """Return a number of threads given by a user; raise if it is invalid."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise LinkworkError(f"{name}: expected an integer >= 1, got {value!r}")
    return int(value)


@contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Use `number` threads for calls of this Python thread inside the block."""
    previous = getattr(_override, "number", None)
    _override.number = number
    try:
        yield
    finally:
        _override.number = previous


def _threads() -> int:
    return min(getattr(_override, "number", None) or default_threads(), MAX_THREADS)


class _Pool:
    """Threads that wait for work.

    Unlike those of concurrent.futures they may be interrupted by Ctrl-C while they start.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._size = 0

    def submit(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run jobs eventually, each in its own thread, or in fewer threads if no more can be started."""
        while self._size < len(jobs):
            try:
                _thread.start_new_thread(self._serve, ())
            except RuntimeError as error:
                reraise_signal(error)
                break
            self._size += 1
        for job in jobs[: self._size]:
            self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            self._jobs.get()()


_pool = _Pool()


# Functions of Python used by compiled code, in the layout of `targets.cpu.share`.
_table = (ctypes.c_uint64 * len(share.WORDS))(
    *(address_of(getattr(ctypes.pythonapi, name)) for name in share.FUNCTIONS)
)
_table[-1] = threading.main_thread().ident or 0
TABLE_ADDRESS = ctypes.addressof(_table)


def _after_fork() -> None:
    global _pool
    _pool = _Pool()  # threads do not survive a fork
    _table[-1] = threading.get_ident()  # and the forking thread is now the main one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class BatchSplitter:
    """Function that a kernel's `loop` calls for large batches, as compiled code sees it."""

    def __init__(self, operands: int, lanes: int) -> None:
        default_threads()
        self._operands = operands
        self._lanes = lanes
        self.function = self._share
        self.address = id(self.function)

    def _share(self, args: int, dims: int, steps: int, data: int, status: int) -> None:
        """Compute all rows, leave 1 in the status, and then raise any exception that came meanwhile.

        Exceptions may come in any line, from a signal handler or Ctrl-C; compiled code passes them to the
        caller. If one comes before the first line, the status is 0 and compiled code computes the rows by
        itself.
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
        done.value = 1  # no call between this and the end of the loop, so no signal is handled there
        if failure is not None:
            raise failure

    def _plan(self, args: int, dims: int, steps: int, data: int) -> _Batch:
        """Return the rows split into pieces of whole vectors, several for each thread."""
        count = self._operands
        total = ctypes.c_int64.from_address(dims).value
        bases = list((ctypes.c_int64 * count).from_address(args))
        distances = list((ctypes.c_int64 * count).from_address(steps))
        threads = min(_threads(), max(1, total // self._lanes))
        piece = -(-total // (threads * _PIECES_PER_THREAD))
        piece = -(-piece // self._lanes) * self._lanes if threads > 1 else total
        calls = []
        buffers = []
        for start in range(0, total, piece):
            piece_args = (ctypes.c_int64 * count)(
                *[b + start * d for b, d in zip(bases, distances, strict=True)]
            )
            piece_dims = ctypes.c_int64(min(piece, total - start))  # other dimensions are compiled in
            buffers.append((piece_args, piece_dims))
            calls.append((ctypes.addressof(piece_args), ctypes.addressof(piece_dims), steps, data))
        return _Batch(_run_of(data), calls, threads - 1, buffers)


def _run_of(data: int) -> Callable[..., None]:
    return LoopFunction(ctypes.c_void_p.from_address(data).value)  # type: ignore[arg-type]


class _Batch:
    """Pieces of one call, each computed once, even if the calling thread is interrupted.

    An interruption may come between any two lines, so all state changes inside one call of C: a whole drain,
    a helper's state in `_helpers`.
    """

    def __init__(
        self,
        run: Callable[..., None],
        calls: list[tuple[int, int, int, int]],
        helpers: int,
        buffers: object = None,
    ):
        self.finished = False
        self._run = run
        self._calls = iter(calls)
        self._count = helpers
        self._buffers = buffers
        self._helpers: dict[int, str] = {}  # "working" or "done", by number
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def call_helpers(self) -> None:
        """Submit the helpers to the pool."""
        _pool.submit([partial(self._help, number) for number in range(self._count)])

    def finish(self) -> None:
        """Compute pieces, then wait for started helpers; call again if an exception came between."""
        self._drain()
        for number in range(self._count):
            while self._helpers.setdefault(number, "done") != "done":
                self._wait()
        self.finished = True

    def _wait(self) -> None:
        try:
            self._wake.get(timeout=0.1)
        except queue.Empty as error:
            reraise_signal(error)

    def _help(self, number: int) -> None:
        if self._helpers.setdefault(number, "working") == "done":
            return
        try:
            self._drain()
        finally:
            self._helpers[number] = "done"
            self._wake.put(None)

    def _drain(self) -> None:
        deque(starmap(self._run, self._calls), maxlen=0)
