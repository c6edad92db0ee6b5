"""Driver of a study: submits chunks, writes their files and merges their summaries."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.accumulate import MergeTree, State
from linkwork.studies.encoding import Nodes
from linkwork.studies.executors import ChunkFailure, Executor, make_executor
from linkwork.studies.progress import Progress
from linkwork.studies.result import StudyResult

if TYPE_CHECKING:
    from linkwork.studies.storage import StudyFolder
    from linkwork.studies.study import Study

WAIT = 0.2  # seconds after which a signal is noticed


def run_study(
    study: Study,
    folder: StudyFolder | None,
    *,
    executor: str = "threads",
    workers: int | None = None,
    address: str | None = None,
    retries: int = 3,
    progress: bool | None = None,
) -> StudyResult:
    """Compute the chunks that are not in the folder yet, and return the results."""
    tree = _tree(study)
    displayed = Progress(study.name, study.samples, study.accepted, progress)
    with folder.locked() if folder is not None else nullcontext():
        missing = deque(study.chunks())
        if folder is not None:
            finished = {}
            for chunk, nodes in folder.finished():
                finished[chunk] = True
                _add(tree, nodes)
                displayed.resume(chunk[1] - chunk[0], _status_counts(nodes))
            missing = deque(chunk for chunk in missing if chunk not in finished)
        if missing:
            running = make_executor(executor, study, workers, address, retries, keep_files=folder is not None)
            try:
                _drive(running, missing, folder, tree, displayed)
            except KeyboardInterrupt:
                hint = f": continue with lw.Study.resume({str(folder.path)!r})" if folder is not None else ""
                displayed.close(
                    f"{study.name}: stopped after {displayed.done} of {study.samples} samples{hint}"
                )
                displayed.shown = False
                raise
            finally:
                running.close()
    displayed.close()
    return StudyResult(study, tree.total(), None if folder is None else folder.path, displayed.seconds)


def collect_results(folder: StudyFolder) -> StudyResult:
    """Return the results of the chunks that are in a folder."""
    tree = _tree(folder.study)
    for _, nodes in folder.finished(repair=False):
        _add(tree, nodes)
    return StudyResult(folder.study, tree.total(), folder.path, 0.0)


def _tree(study: Study) -> MergeTree[list[State]]:
    summaries = study.summaries

    def merge(left: list[State], right: list[State]) -> list[State]:
        with np.errstate(all="ignore"):
            return [each.merge(a, b) for each, a, b in zip(summaries, left, right)]

    return MergeTree(merge)


def _drive(
    running: Executor, missing: deque[tuple[int, int]], folder: StudyFolder | None,
    tree: MergeTree[list[State]],
    progress: Progress,
) -> None:  # fmt: skip
    """Hand out chunks as long as fewer are under way than the executor's capacity.

    If chunks fail, the error of the first of them in the order of samples is raised, for any executor and
    number of workers: chunks before a failed one are completed first.
    """
    under_way: set[int] = set()
    failure: ChunkFailure | None = None
    while True:
        while missing and failure is None and len(under_way) < running.capacity:
            chunk = missing.popleft()
            running.submit(*chunk)
            under_way.add(chunk[0])
        if failure is not None and all(first > failure.first for first in under_way):
            raise failure.error
        if not under_way:
            return
        for result in running.completed(WAIT):
            under_way.remove(result.first)
            if isinstance(result, ChunkFailure):
                if failure is None or result.first < failure.first:
                    failure = result
                continue
            if folder is not None:
                if result.file is None:
                    raise StudyError("study: a worker returned no file")
                folder.write(result.first, result.file)
            _add(tree, result.nodes)
            progress.add(result.last - result.first, result.counts)


def _add(tree: MergeTree[list[State]], nodes: Nodes) -> None:
    for level, number, states in nodes:
        tree.add(level, number, states)


def _status_counts(nodes: Nodes) -> dict[int, int]:
    """Return the number of samples by status, which is every node's first summary."""
    total = sum(states[0]["counts"][0] for _, _, states in nodes)
    return {k: int(n) for k, n in enumerate(np.asarray(total)) if n}
