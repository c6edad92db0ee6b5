"""Chunks by threads of this process. Kernels and NumPy release the interpreter's lock; each thread computes a
chunk.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from linkwork.compiler.runtime.threads import default_threads, using_threads
from linkwork.studies.chunks import ChunkResult, compute_chunk
from linkwork.studies.executors.base import ChunkFailure, Executor, next_answers

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
        self._closed = False
        self._jobs: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[ChunkResult | ChunkFailure] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"linkwork-study_{k}", daemon=True)
            for k in range(count)
        ]
        for thread in self._threads:
            thread.start()
        self.capacity = 2 * count

    def submit(self, first: int, last: int) -> None:
        self._jobs.put((first, last))

    def _serve(self) -> None:
        """Compute queued chunks, one after the other."""
        with using_threads(1):
            while (job := self._jobs.get()) is not None and not self._closed:
                try:
                    answer: ChunkResult | ChunkFailure = compute_chunk(self._study, *job, self._keep_files)
                except BaseException as error:
                    answer = ChunkFailure(job[0], error)
                self._answers.put(answer)

    def completed(self, timeout: float) -> list[ChunkResult | ChunkFailure]:
        return next_answers(self._answers, timeout)

    def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
