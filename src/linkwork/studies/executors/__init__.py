"""Executors of chunks: threads of this process, processes of this machine, or a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwork.errors import StudyError
from linkwork.studies.executors.base import ChunkFailure, Executor

if TYPE_CHECKING:
    from linkwork.studies.study import Study

NAMES = ("threads", "processes", "ray")


def make_executor(
    name: str, study: Study, workers: int | None, address: str | None, retries: int, *, keep_files: bool
) -> Executor:
    """Return the named executor, started."""
    if name not in NAMES:
        raise StudyError(f"study: executor: expected one of {', '.join(NAMES)}, got {name!r}")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise StudyError(f"study: workers: expected an integer >= 1, got {workers!r}")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise StudyError(f"study: retries: expected an integer >= 0, got {retries!r}")
    if address is not None and name != "ray":
        raise StudyError(f"study: address: expected executor='ray', got {name!r}")
    if name == "threads":
        from linkwork.studies.executors.local import ThreadExecutor

        return ThreadExecutor(study, workers, keep_files)
    if name == "processes":
        from linkwork.studies.executors.processes import ProcessExecutor

        return ProcessExecutor(study, workers, retries, keep_files)
    from linkwork.studies.executors.ray import RayExecutor

    return RayExecutor(study, workers, address, retries, keep_files)


__all__ = ["NAMES", "ChunkFailure", "Executor", "make_executor"]
