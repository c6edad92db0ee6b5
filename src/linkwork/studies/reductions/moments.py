"""Means and variances, by compensated sums and Chan's updates along the tree of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.studies.accumulate import State, add_compensated, fold_pairs, sum_blocks
from linkwork.studies.reductions.base import Blocks, Reduction


@dataclass(frozen=True, eq=False)
class MeanResult:
    """A mean, its standard error, and how many samples count and do not."""

    mean: Any
    standard_error: Any
    count: int
    excluded: int


@dataclass(frozen=True, eq=False)
class VarianceResult:
    """The unbiased variance, its square root, and how many samples count and do not."""

    variance: Any
    std: Any
    count: int
    excluded: int


class _Moments(Reduction):
    """Count, compensated sum and sum of squared deviations."""

    output: str

    @property
    def key(self) -> Any:
        return ("moments", self.output)

    def summarize(self, blocks: Blocks) -> State:
        x, counts = blocks.finite(self.output)
        if not counts.all():
            x = np.where(counts[:, :, None], x, 0.0)
        high, low = sum_blocks(x)
        count = counts.sum(axis=1).astype(float)
        deviations = x - ((high + low) / np.maximum(count, 1.0)[:, None])[:, None]
        if not counts.all():
            deviations = np.where(counts[:, :, None], deviations, 0.0)
        squares, lost = sum_blocks(deviations * deviations)
        excluded = blocks.real.sum(axis=1) - count
        state = {"count": count, "excluded": excluded, "sum": high, "lost": low, "squares": squares + lost}
        return fold_pairs(state, self.merge)

    def merge(self, left: State, right: State) -> State:
        a = left["count"]
        b = right["count"]
        count = a + b
        means = [
            (each["sum"] + each["lost"]) / np.maximum(each["count"], 1.0)[:, None] for each in (left, right)
        ]
        between = (a * b / np.maximum(count, 1.0))[:, None]
        difference = means[1] - means[0]
        high, low = add_compensated((left["sum"], left["lost"]), (right["sum"], right["lost"]))
        return {
            "count": count,
            "excluded": left["excluded"] + right["excluded"],
            "sum": high,
            "lost": low,
            "squares": (left["squares"] + right["squares"]) + difference * difference * between,
        }

    def moments(self, state: State, shape: tuple[int, ...]) -> tuple[int, int, np.ndarray, np.ndarray]:
        """Return count, excluded, mean and variance."""
        count = int(state["count"][0])
        total = (state["sum"][0] + state["lost"][0]).reshape(shape)
        squares = state["squares"][0].reshape(shape)
        mean = total / count if count else np.full(shape, np.nan)
        variance = squares / (count - 1) if count > 1 else np.full(shape, np.nan)
        return count, int(state["excluded"][0]), mean, variance


@final
@dataclass(frozen=True, eq=False)
class Mean(_Moments):
    """The mean of an output over all accepted samples, with its standard error."""

    output: str

    def result(self, state: State, shape: tuple[int, ...]) -> MeanResult:
        count, excluded, mean, variance = self.moments(state, shape)
        error = np.sqrt(variance / max(count, 1))
        return MeanResult(mean[()], error[()], count, excluded)


@final
@dataclass(frozen=True, eq=False)
class Variance(_Moments):
    """The unbiased variance of an output over all accepted samples."""

    output: str

    def result(self, state: State, shape: tuple[int, ...]) -> VarianceResult:
        count, excluded, _, variance = self.moments(state, shape)
        return VarianceResult(variance[()], np.sqrt(variance)[()], count, excluded)
