"""Chunks by threads of this process. Kernels and NumPy release the interpreter's lock; each thread computes a
chunk.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from linkwork.compiler.runtime.threads import default_threads, using_threads
from linkwork.studies.chunks import ChunkResult, compute_chunk
from linkwork.studies.executors.base import ChunkFailure, Executor

if TYPE_CHECKING:
    from linkwork.studies.study import Study


GPU_THREADS = 4  # which keep one GPU busy; more wait for each other


class ThreadExecutor(Executor):
    """Threads, each with one chunk at a time."""

    def __init__(self, study: Study, workers: int | None, keep_files: bool) -> None:
        is_on_gpu = getattr(study.task, "device", None) == "cuda"
        count = workers or (min(GPU_THREADS, default_threads()) if is_on_gpu else default_threads())
        self._study = study
        self._keep_files = keep_files
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="linkwork-study")
        self._under_way: dict[Future[ChunkResult], int] = {}
        self.capacity = 2 * count

    def submit(self, first: int, last: int) -> None:
        self._under_way[self._pool.submit(self._compute, first, last)] = first

    def _compute(self, first: int, last: int) -> ChunkResult:
        with using_threads(1):
            return compute_chunk(self._study, first, last, self._keep_files)

    def completed(self, timeout: float) -> list[ChunkResult | ChunkFailure]:
        done, _ = wait(self._under_way, timeout, FIRST_COMPLETED)
        results: list[ChunkResult | ChunkFailure] = []
        for future in done:
            first = self._under_way.pop(future)
            error = future.exception()
            results.append(future.result() if error is None else ChunkFailure(first, error))
        return results

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
