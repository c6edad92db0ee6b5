"""Sharing a large batch among threads: each takes the next piece of rows until none is left.

Compiled code calls `Sharer` from inside NumPy, with the interpreter lock released. Rows are independent, so pieces can be
of any size and order: results are the same bits with any number of threads.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from linkwork.errors import LinkworkError
from linkwork.runtime.native import LoopFunction

_PIECES = 8  # per thread: enough to even out cores that are busy with other work
_override = threading.local()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_pool_lock = threading.Lock()


def default_threads() -> int:
    """How many threads large batches use: LINKWORK_THREADS, or as many cores as this process may use."""
    text = os.environ.get("LINKWORK_THREADS", "").strip()
    if text:
        return checked_threads(text, "LINKWORK_THREADS")
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_threads(value: object, name: str = "threads") -> int:
    """A number of threads given by a user."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
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


def _workers(count: int) -> ThreadPoolExecutor:
    """A pool of at least `count` threads, kept between calls."""
    global _pool, _pool_size
    with _pool_lock:
        if _pool is None or _pool_size < count:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool, _pool_size = ThreadPoolExecutor(count, "linkwork"), count
        return _pool


def _forget_pool() -> None:
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_forget_pool)


class Sharer:
    """The function that a kernel's `loop` calls for large batches, as compiled code sees it."""

    def __init__(self, operands: int, lanes: int) -> None:
        self._operands = operands
        self._lanes = lanes
        self.function = LoopFunction(self._share)
        address = ctypes.cast(self.function, ctypes.c_void_p).value
        assert address is not None
        self.address = address

    def _share(self, args: int, dims: int, steps: int, data: int) -> None:
        run = LoopFunction(ctypes.c_void_p.from_address(data).value)  # type: ignore[arg-type]
        try:
            pieces, helpers, rows = self._plan(args, dims, steps)
            pool = _workers(helpers) if helpers else None
        except Exception:  # an exception cannot pass through compiled code, and one thread can always do the work
            run(args, dims, steps, data)
            return

        def work() -> None:
            for start in pieces:
                count = min(rows.piece, rows.total - start)
                own_dims = ctypes.c_int64(count)  # the kernel reads no other dimension: its shapes are fixed
                own_args = (ctypes.c_void_p * self._operands)(
                    *[base + start * step for base, step in zip(rows.bases, rows.steps, strict=True)]
                )
                run(ctypes.addressof(own_args), ctypes.addressof(own_dims), steps, data)

        waiting = []
        for _ in range(helpers):
            try:
                waiting.append(pool.submit(work))  # type: ignore[union-attr]
            except RuntimeError:  # the interpreter is shutting down: no new threads
                break
        work()
        for future in waiting:
            future.result()

    def _plan(self, args: int, dims: int, steps: int) -> tuple[Iterator[int], int, _Rows]:
        total = ctypes.c_int64.from_address(dims).value
        bases = list((ctypes.c_int64 * self._operands).from_address(args))
        distances = list((ctypes.c_int64 * self._operands).from_address(steps))
        threads = min(_threads(), max(1, total // self._lanes))
        piece = -(-total // (threads * _PIECES))
        piece = -(-piece // self._lanes) * self._lanes if threads > 1 else total
        starts = itertools.takewhile(lambda s: s < total, itertools.count(0, piece))
        return _Shared(starts), threads - 1, _Rows(total, piece, bases, distances)


class _Rows:
    def __init__(self, total: int, piece: int, bases: list[int], steps: list[int]) -> None:
        self.total, self.piece, self.bases, self.steps = total, piece, bases, steps


class _Shared:
    """An iterator that several threads may draw from."""

    def __init__(self, source: Iterator[int]) -> None:
        self._source, self._lock = source, threading.Lock()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._source)
