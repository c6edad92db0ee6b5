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
    """Computes chunks that are handed to it; `capacity` is how many may be under way."""

    capacity = 1

    def submit(self, first: int, last: int) -> None:
        """Have samples `first` to `last - 1` computed."""
        raise NotImplementedError

    def completed(self, timeout: float) -> list[ChunkResult | ChunkFailure]:
        """Return chunks that have been completed or have failed; none after `timeout` seconds."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop; chunks that are under way are given up."""


def next_answers(answers: queue.SimpleQueue[Any], timeout: float) -> list[ChunkResult | ChunkFailure]:
    """Return what is in a queue of answers, after at most `timeout` seconds; raise an error that is in it."""
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
