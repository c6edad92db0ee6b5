"""Interface of executors."""

from __future__ import annotations

import queue
from typing import Any, NamedTuple

from linkwork.studies.chunks import ChunkResult


class ChunkFailure(NamedTuple):
    """The error of the chunk that starts with sample `first`."""

    first: int
    error: BaseException


class Executor:
    """Computes submitted chunks; `capacity` is the number of chunks that may be pending."""

    capacity = 1

    def submit(self, first: int, last: int) -> None:
        """Submit samples `first` to `last - 1`."""
        raise NotImplementedError

    def completed(self, timeout: float) -> list[ChunkResult | ChunkFailure]:
        """Return chunks that have been completed or have failed; none after `timeout` seconds."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop; pending chunks are abandoned."""


def next_answers(answers: queue.SimpleQueue[Any], timeout: float) -> list[ChunkResult | ChunkFailure]:
    """Return the answers in a queue, waiting at most `timeout` seconds for one; raise if one is an error."""
    result: list[ChunkResult | ChunkFailure] = []
    try:
        result.append(_answer(answers.get(timeout=timeout)))
        while True:
            result.append(_answer(answers.get_nowait()))
    except queue.Empty:
        return result


def _answer(answer: Any) -> ChunkResult | ChunkFailure:
    if isinstance(answer, BaseException):
        raise answer
    value: ChunkResult | ChunkFailure = answer
    return value
