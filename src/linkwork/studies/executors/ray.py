"""Chunks as Ray tasks: named, retried where a worker or a node dies,
with results through the object store.
"""

from __future__ import annotations

import re
import socket
import sys
import warnings
from typing import TYPE_CHECKING, Any

from linkwork.errors import StudyError
from linkwork.studies.chunks import ChunkResult
from linkwork.studies.executors.base import ChunkFailure, Executor
from linkwork.studies.packages import import_optional
from linkwork.version import __version__

if TYPE_CHECKING:
    from linkwork.studies.study import Study

REACHED_WITHIN = 5.0  # seconds
TASKS_PER_CORE = 2  # under way: one that runs, one that waits


class RayExecutor(Executor):
    """Tasks of a Ray cluster."""

    def __init__(
        self, study: Study, workers: int | None, address: str | None, retries: int, keep_files: bool
    ) -> None:
        self._ray = ray = import_optional("ray", "executor='ray'")
        self._started_here = not ray.is_initialized()
        if self._started_here:
            _check_reachable(address)
            try:
                ray.init(address=address, log_to_driver=False, namespace="linkwork")
            except Exception as error:
                place = f"at {address}" if address else "on this machine"
                raise StudyError(f"study: no Ray cluster {place} ({type(error).__name__}: {error})") from None
        gpus = 1 if getattr(study.task, "device", None) == "cuda" else 0
        self._study = ray.put(_pickled(ray, study))
        self._task = ray.remote(max_retries=retries, num_gpus=gpus, num_cpus=1)(_compute)
        self._name = study.name
        self._retries = retries
        self._keep_files = keep_files
        self._under_way: dict[Any, tuple[int, int]] = {}
        self._attempts: dict[tuple[int, int], int] = {}
        cores = workers or max(1, int(ray.cluster_resources().get("GPU" if gpus else "CPU", 1)))
        self.capacity = TASKS_PER_CORE * cores if workers is None else cores

    def submit(self, first: int, last: int) -> None:
        name = f"{self._name}: samples {first} to {last - 1}"
        answer = self._task.options(name=name).remote(self._study, __version__, first, last, self._keep_files)
        self._under_way[answer] = (first, last)

    def completed(self, timeout: float) -> list[ChunkResult | ChunkFailure]:
        ray = self._ray
        done, _ = ray.wait(list(self._under_way), num_returns=1, timeout=timeout)
        result: list[ChunkResult | ChunkFailure] = []
        for answer in done:
            chunk = self._under_way.pop(answer)
            try:
                kind, value = ray.get(answer)
            except ray.exceptions.RayTaskError as error:
                message = f"study: samples {chunk[0]} to {chunk[1] - 1}: {error.cause}"
                result.append(ChunkFailure(chunk[0], StudyError(message)))
                continue
            except ray.exceptions.RayError as error:
                self._again(chunk, error)
                continue
            result.append(
                ChunkResult(*value) if kind == "result" else ChunkFailure(chunk[0], StudyError(value))
            )
        return result

    def _again(self, chunk: tuple[int, int], error: Exception) -> None:
        """Compute a chunk again whose task Ray gave up, or whose result was lost."""
        self._attempts[chunk] = self._attempts.get(chunk, 0) + 1
        if self._attempts[chunk] > self._retries:
            label = f"samples {chunk[0]} to {chunk[1] - 1}"
            raise StudyError(
                f"study: Ray lost {label} {self._attempts[chunk]} times ({type(error).__name__})"
            ) from None
        self.submit(*chunk)

    def close(self) -> None:
        for answer in self._under_way:
            self._ray.cancel(answer, force=True)
        self._under_way.clear()
        if self._started_here:
            self._ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise StudyError if nothing listens at an address host:port; Ray itself would try for minutes."""
    match = re.fullmatch(r"(?:ray://)?([^/]+):(\d+)", address or "")
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=REACHED_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise StudyError(f"study: no Ray cluster at {address}: {error}") from None


def _pickled(ray: Any, study: Study) -> bytes:
    try:
        data: bytes = ray.cloudpickle.dumps(study)
        return data
    except Exception as error:
        raise StudyError(
            f"study: cannot be sent to Ray ({type(error).__name__}: {error}): expected functions that can be "
            "pickled"
        ) from None


_studies: dict[int, Any] = {}


def _compute(data: bytes, version: str, first: int, last: int, keep_file: bool) -> tuple[str, Any]:
    """Compute a chunk in a worker of the cluster; the study is unpickled once for each worker."""
    import pickle

    from linkwork.studies.chunks import compute_chunk
    from linkwork.version import __version__ as own_version

    if own_version != version:
        return (
            "error",
            f"study: the driver has linkwork {version}, a node of the cluster {own_version}: bits may differ",
        )
    warnings.simplefilter("ignore")  # the driver has warned
    try:
        key = hash(data)
        if key not in _studies:
            _studies.clear()
            _studies[key] = pickle.loads(data)
        return "result", tuple(compute_chunk(_studies[key], first, last, keep_file))
    except StudyError as error:
        return "error", str(error)
    except Exception as error:
        print(f"linkwork: samples {first} to {last - 1}: {error}", file=sys.stderr)
        return "error", f"study: samples {first} to {last - 1}: {type(error).__name__}: {error}"
