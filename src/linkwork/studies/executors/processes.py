"""Chunks by processes of this machine, each a Python of its own that answers requests on its
standard input.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from linkwork.compiler.runtime.threads import default_threads
from linkwork.errors import LinkworkError, StudyError
from linkwork.studies.chunks import ChunkResult
from linkwork.studies.executors.base import ChunkFailure, Executor, next_answers
from linkwork.studies.storage import pickled_study

if TYPE_CHECKING:
    from linkwork.studies.study import Study

_LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], data: bytes) -> None:
    """Write a message: its length, and its bytes."""
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None where the stream ends."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(head)[0]
    data = stream.read(size)
    return data if len(data) == size else None


class ProcessExecutor(Executor):
    """Processes, each served by a thread that hands it chunks and starts another one where it dies."""

    def __init__(self, study: Study, workers: int | None, retries: int, keep_files: bool) -> None:
        count = workers or default_threads()
        data = pickled_study(study, required=True)
        self._hello = pickle.dumps({"path": list(sys.path), "study": data, "keep_files": keep_files})
        self._threads_each = max(1, default_threads() // count)
        self._jobs: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[ChunkResult | ChunkFailure | BaseException] = queue.SimpleQueue()
        self._retries = retries
        self._closed = False
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.capacity = 2 * count
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "LINKWORK_THREADS": str(self._threads_each)}
        environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
        command = [sys.executable, "-m", "linkwork.studies.executors.worker"]
        started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._processes.add(started)
        assert started.stdin is not None
        with suppress(OSError):  # it has ended; its result reports that
            send(started.stdin, self._hello)
        return started

    def _serve(self) -> None:
        """Hand queued chunks to one process after the other."""
        process: subprocess.Popen[bytes] | None = None
        try:
            while (job := self._jobs.get()) is not None and not self._closed:
                answer: Any = None
                for _ in range(self._retries + 1):
                    if process is None or process.poll() is not None:
                        process = self._start()
                    answer = _ask(process, job)
                    if answer is not None or self._closed:
                        break
                    _stop(process)
                    self._processes.discard(process)
                    process = None
                if answer is None:
                    times = f"{self._retries + 1} times"
                    label = f"samples {job[0]} to {job[1] - 1}"
                    answer = StudyError(f"study: the worker process died {times} while it computed {label}")
                if isinstance(answer, Exception):
                    answer = ChunkFailure(job[0], answer)
                self._answers.put(answer)
        except BaseException as error:
            self._answers.put(error)
        finally:
            if process is not None:
                _stop(process)

    def submit(self, first: int, last: int) -> None:
        self._jobs.put((first, last))

    def completed(self, timeout: float) -> list[ChunkResult | ChunkFailure]:
        return next_answers(self._answers, timeout)

    def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for process in set(self._processes):
            _stop(process)
        for thread in self._threads:
            thread.join(timeout=5.0)


def _ask(process: subprocess.Popen[bytes], job: tuple[int, int]) -> Any:
    """Return a process's answer, an error or a result; None where it died."""
    assert process.stdin is not None and process.stdout is not None
    try:
        send(process.stdin, pickle.dumps(job))
        data = receive(process.stdout)
    except (OSError, ValueError):
        return None
    if data is None:
        return None
    kind, value = pickle.loads(data)
    if kind == "result":
        return ChunkResult(*value)
    return StudyError(value) if kind == "study" else LinkworkError(value)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
