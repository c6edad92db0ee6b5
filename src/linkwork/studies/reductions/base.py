"""Interface of reductions: a mergeable summary of samples, and a result computed from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.accumulate import State


@dataclass(frozen=True, eq=False)
class Blocks:
    """Samples of 2**n neighbouring blocks.

    Arrays are (blocks, size, ...), and the last rows may be padding.
    """

    index: np.ndarray
    real: np.ndarray
    """Which rows are samples."""
    accepted: np.ndarray
    """Which rows are samples that ended as the study accepts."""
    values: Mapping[str, np.ndarray]
    _finite: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, init=False, repr=False)

    def finite(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return an output's values, (blocks, size, k), and which rows count: accepted and finite."""
        if name not in self._finite:
            values = self.values[name]
            values = values.reshape(*values.shape[:2], -1)
            finite = np.isfinite(values)
            finite = finite[:, :, 0] if finite.shape[2] == 1 else finite.all(axis=2)
            self._finite[name] = values, self.accepted & finite
        return self._finite[name]

    def counted(self, name: str) -> np.ndarray:
        """Return an output's values of the rows that count, (rows, k), in the order of the samples."""
        values, counts = self.finite(name)
        return values.reshape(-1, values.shape[2]) if counts.all() else values[counts]


class Reduction:
    """A summary of one output, or of all samples.

    `summarize` and `merge` must return the same bits for the same samples; `merge` takes neighbours, left and
    right.
    """

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that it reads."""
        name = getattr(self, "output", None)
        return () if name is None else (name,)

    @property
    def label(self) -> str:
        """The default name of the result."""
        word = type(self).__name__
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in word).lstrip("_")
        return f"{name}({', '.join(self.outputs)})" if self.outputs else name

    @property
    def key(self) -> Any:
        """Identifies reductions that share one summary."""
        return id(self)

    def check(self, study: Any) -> None:
        """Raise StudyError if the study cannot serve this reduction."""
        for name in self.outputs:
            if name not in study.output_names:
                known = ", ".join(study.output_names) or "none"
                raise StudyError(f"{type(self).__name__}: unknown output {name!r}; the study has {known}")

    def summarize(self, blocks: Blocks) -> State:
        """Return the summary of neighbouring blocks."""
        raise NotImplementedError

    def merge(self, left: State, right: State) -> State:
        """Return the summary of both."""
        raise NotImplementedError

    def result(self, state: State, shape: tuple[int, ...]) -> Any:
        """Return the result; `shape` is that of one sample's output."""
        raise NotImplementedError


def check_scalar(reduction: Reduction, study: Any) -> None:
    """Raise StudyError if an output of a reduction has several components."""
    for name in reduction.outputs:
        shape = study.output_shape(name)
        if np.prod(shape, dtype=int) != 1:
            raise StudyError(
                f"{type(reduction).__name__}: output {name!r}: expected a scalar, got shape {shape}"
            )
