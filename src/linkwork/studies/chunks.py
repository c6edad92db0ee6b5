"""One chunk of a study: its summaries and the rows of its file. Runs in any process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from linkwork.studies.encoding import Nodes
from linkwork.studies.outputs import check_shapes
from linkwork.studies.rows import STATUS_CODES, compute_rows, stays_on_gpu, summarize

if TYPE_CHECKING:
    from linkwork.studies.study import Study


class ChunkResult(NamedTuple):
    """Result of samples `first` to `last - 1`: summaries, and the bytes of a file if rows are stored."""

    first: int
    last: int
    nodes: Nodes
    file: bytes | None
    counts: dict[int, int]
    seconds: float


def compute_chunk(study: Study, first: int, last: int, keep_file: bool) -> ChunkResult:
    """Compute samples `first` to `last - 1`, whole blocks of the study; `keep_file`: with the bytes of their
    file.
    """
    began = time.perf_counter()
    file = None
    if (
        not keep_file
        and stays_on_gpu(study)
        and len(study.models) == 1
        and "model" not in study.sampler.names
    ):
        from linkwork.studies.cuda.chunk import compute_on_device

        nodes, status = compute_on_device(study, first, last)
    else:
        rows = compute_rows(study, first, last)
        status = rows.status
        check_shapes(study, rows.outputs, first, last)
        nodes = summarize(study, rows)
        if keep_file:
            from linkwork.studies.chunk_files import chunk_bytes

            file = chunk_bytes(study, rows, nodes)
    numbers = np.bincount(status, minlength=STATUS_CODES)
    counts = {int(code): int(numbers[code]) for code in np.flatnonzero(numbers)}
    return ChunkResult(first, last, nodes, file, counts, time.perf_counter() - began)
