"""Success rates, histograms and numbers of samples by status: exact counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.accumulate import State
from linkwork.studies.reductions.base import Blocks, Reduction, check_scalar

Z_95 = 1.959963984540054  # of a two-sided interval of 95 %


@dataclass(frozen=True, eq=False)
class SuccessRateResult:
    """A rate of success with its 95 % Wilson interval."""

    rate: float
    low: float
    high: float
    successes: int
    count: int


@final
@dataclass(frozen=True, eq=False)
class SuccessRate(Reduction):
    """The share of samples in which an output is true, with Wilson's 95 % interval.

    Parameters
    ----------
    output : str, optional
        A scalar output, true where it is neither 0 nor NaN. Default: a sample succeeds if its status is
        accepted.
    failed : str
        "failure" (default): samples whose status is not accepted count as failures; "ignore": they do not
        count.
    """

    output: str | None = None
    failed: str = "failure"

    def __post_init__(self) -> None:
        if self.failed not in ("failure", "ignore"):
            raise StudyError(f"SuccessRate: failed: expected 'failure' or 'ignore', got {self.failed!r}")

    def check(self, study: Any) -> None:
        super().check(study)
        check_scalar(self, study)

    def summarize(self, blocks: Blocks) -> State:
        if self.output is None:
            success = blocks.accepted
        else:
            x = blocks.values[self.output]
            x = x.reshape(*x.shape[:2], -1)[:, :, 0]
            success = blocks.accepted & (x != 0.0) & ~np.isnan(x)
        trials = blocks.real if self.failed == "failure" else blocks.accepted
        return {"successes": np.array([success.sum()]), "count": np.array([trials.sum()])}

    def merge(self, left: State, right: State) -> State:
        return {name: left[name] + right[name] for name in left}

    def result(self, state: State, shape: tuple[int, ...]) -> SuccessRateResult:
        successes = int(state["successes"][0])
        count = int(state["count"][0])
        low, high = wilson_interval(successes, count)
        return SuccessRateResult(successes / count if count else np.nan, low, high, successes, count)


def wilson_interval(successes: int, count: int, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson score interval of a binomial proportion."""
    if not count:
        return 0.0, 1.0
    p = successes / count
    z2 = z * z
    centre = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = z * np.sqrt(p * (1 - p) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == count else min(1.0, centre + half)
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class HistogramResult:
    """Counts between edges, and below and above them; how many samples count and do not."""

    edges: np.ndarray
    counts: np.ndarray
    below: Any
    above: Any
    count: int
    excluded: int


@final
@dataclass(frozen=True, eq=False)
class Histogram(Reduction):
    """Counts of an output between edges, for each of its components.

    Parameters
    ----------
    output : str
        The output.
    edges : array_like
        Edges, (bins + 1,), increasing. A value on an edge belongs to the bin above it; the last bin includes
        its end.
    """

    output: str
    edges: Any

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=float)
        if (
            edges.ndim != 1
            or len(edges) < 2
            or not (np.isfinite(edges).all() and (np.diff(edges) > 0.0).all())
        ):
            raise StudyError(
                f"Histogram: edges: expected at least two increasing numbers, got {self.edges!r}"
            )

    def summarize(self, blocks: Blocks) -> State:
        edges = np.asarray(self.edges, dtype=float)
        x = blocks.counted(self.output)
        excluded = np.array([blocks.real.sum() - len(x)])
        result = np.empty((x.shape[1], len(edges) + 1), dtype=np.int64)
        for k in range(x.shape[1]):
            places = np.searchsorted(edges, x[:, k], side="right")
            places[x[:, k] == edges[-1]] = len(edges) - 1
            result[k] = np.bincount(places, minlength=len(edges) + 1)
        return {"counts": result[None], "excluded": excluded}

    def merge(self, left: State, right: State) -> State:
        return {name: left[name] + right[name] for name in left}

    def result(self, state: State, shape: tuple[int, ...]) -> HistogramResult:
        counts = state["counts"][0]
        bins = counts[:, 1:-1].reshape(*shape, counts.shape[1] - 2)
        below = counts[:, 0].reshape(shape)
        above = counts[:, -1].reshape(shape)
        edges = np.asarray(self.edges, dtype=float)
        numbers = int(counts[0].sum()), int(state["excluded"][0])
        return HistogramResult(edges, bins, below[()], above[()], *numbers)
