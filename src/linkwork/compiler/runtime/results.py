"""Recycling of the memory of large results.

The first write to each page of fresh memory is a page fault, which can take longer than computing the
numbers. Blocks that no array uses any more are kept, up to `KEEP_BYTES` or the size of the last result if
that is larger, and reused for results of their size.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from linkwork.compiler.runtime.signals import reraise_signal

# Smaller arrays use NumPy's allocator, which is faster, but may return what is freed to the system.
MIN_BYTES = 1 << 18
KEEP_BYTES = 1 << 26  # limit of unused blocks
CHECKED_BYTES = 1 << 26  # larger blocks are kept only while the machine has that much free memory
HUGE_PAGE = 1 << 21
GRANULARITY = 1 << 16  # sizes of blocks are multiples of this
MAX_RETURNED = 16  # blocks that wait for the next result or `release`; further ones are freed
BYTES = np.dtype(np.uint8)
MAX_WASTE = 1.25  # ratio of a block to the smallest result that reuses it


class Lease(weakref.ref[Any]):
    """Reference to an array of bytes on a block, which outlives the array."""

    memory: Memory | None = None  # None if an exception, such as Ctrl-C, came before it was set


class Memory(mmap.mmap):
    """Block of memory that returns to its pool when no array uses it any more."""

    lease: Lease | None = None

    def lend(self, returned: deque[Any]) -> np.ndarray:
        """Return the block as an array of bytes, to which all arrays on it refer.

        The callback is a function of C: an exception that a signal handler raises, such as Ctrl-C, would be
        lost in a callback of Python.
        """
        block = np.frombuffer(self, BYTES)
        lease = Lease(block, returned.append)
        self.lease = lease
        lease.memory = self
        return block


class ResultPool:
    """Blocks of memory for arrays, reused when no array uses them.

    Thread-safe without a lock: blocks change hands by atomic operations of `list`. Blocks come back from weak
    references, in any thread and at any time, so a lock could be held by the very thread that returns one.
    """

    def __init__(self) -> None:
        self._unused: list[Memory] = []  # least recently used first
        self._returned: deque[Lease] = deque(maxlen=MAX_RETURNED)
        self._limit = KEEP_BYTES  # bytes of unused blocks

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an uninitialised array of a shape and dtype."""
        return self.arrays([shape], dtype)[0]

    def arrays(self, shapes: Iterable[tuple[int, ...]], dtype: Any) -> tuple[np.ndarray, ...]:
        """Return uninitialised arrays of one dtype, each on memory of its own."""
        if self._returned:
            self._collect()
        dtype = np.dtype(dtype)
        total = 0
        arrays = []
        for shape in shapes:
            size = math.prod(shape) * dtype.itemsize
            if size >= MIN_BYTES:
                arrays.append(np.ndarray(shape, dtype, self._take(size).lend(self._returned)))
            else:
                arrays.append(np.empty(shape, dtype))
            total += size + GRANULARITY
        self._limit = max(KEEP_BYTES, total)
        return tuple(arrays)

    @property
    def unused_bytes(self) -> int:
        """Memory kept for later results [bytes]."""
        self._collect()
        return self._kept_bytes()

    def release(self) -> None:
        """Return all unused memory to the operating system."""
        self._collect()
        self._unused.clear()

    def _kept_bytes(self) -> int:
        return sum(map(len, self._unused[:]))

    def _collect(self) -> None:
        """Keep or free the blocks whose arrays are gone."""
        while self._returned:
            try:
                lease = self._returned.popleft()
            except IndexError as error:  # another thread was first
                reraise_signal(error)
                break
            memory = lease.memory
            if memory is not None:
                memory.lease = None  # they refer to each other
                size = len(memory)
                if size <= self._limit and (size < CHECKED_BYTES or size <= _available_bytes()):
                    self._unused.append(memory)
        while self._kept_bytes() > self._limit:
            try:
                self._unused.pop(0)
            except IndexError as error:  # another thread was first
                reraise_signal(error)
                break

    def _take(self, size: int) -> Memory:
        largest = MAX_WASTE * size + GRANULARITY
        for memory in self._unused[::-1]:
            if size <= len(memory) <= largest:
                try:
                    self._unused.remove(memory)
                except ValueError as error:  # another thread was first
                    reraise_signal(error)
                    continue
                return memory
        size += -size % GRANULARITY
        try:
            return _map_memory(size)
        except OSError as error:
            reraise_signal(error)
            self.release()
        try:
            return _map_memory(size)
        except OSError as error:
            reraise_signal(error)
            raise MemoryError(f"cannot allocate {size} bytes for a result: {error.strerror}") from None


def _map_memory(size: int) -> Memory:
    """Return private anonymous memory, in huge pages if the system has them."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return Memory(-1, size)
    memory = Memory(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:  # a kernel without them
            reraise_signal(error)
    return memory


def _available_bytes() -> float:
    """Return the memory available without swapping [bytes]; infinity if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("MemAvailable"))
        return 1024.0 * float(line.split()[1])
    except (OSError, StopIteration, ValueError, IndexError) as error:
        reraise_signal(error)
        return math.inf


POOL = ResultPool()


def release_memory() -> None:
    """Return memory kept for later results to the operating system."""
    POOL.release()


def _after_fork() -> None:
    """Drop unused blocks, which threads of the parent may have been taking."""
    POOL.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
