"""Interface of executors."""

from __future__ import annotations

from typing import NamedTuple

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
