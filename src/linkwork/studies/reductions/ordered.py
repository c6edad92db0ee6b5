"""Extremes with the samples that produced them, and quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.accumulate import State
from linkwork.studies.reductions.base import Blocks, Reduction, check_scalar

EXACT_LIMIT = 10_000_000  # numbers that an exact quantile keeps in memory
_SIGN = np.int64(-(2**63))


@dataclass(frozen=True, eq=False)
class ExtremesResult:
    """The smallest and the largest values, most extreme first, and the samples that have them; how many
    samples count and do not.
    """

    smallest: np.ndarray
    smallest_samples: np.ndarray
    largest: np.ndarray
    largest_samples: np.ndarray
    count: int
    excluded: int


@final
@dataclass(frozen=True, eq=False)
class Extremes(Reduction):
    """The `count` smallest and largest values of a scalar output, with the indices of their samples.

    Of equal values, those of the lowest indices are kept.
    """

    output: str
    count: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise StudyError(f"Extremes: count: expected an integer >= 1, got {self.count!r}")

    def check(self, study: Any) -> None:
        super().check(study)
        check_scalar(self, study)

    def summarize(self, blocks: Blocks) -> State:
        _, counts = blocks.finite(self.output)
        values = blocks.counted(self.output)[:, 0]
        index = blocks.index[counts]
        count = np.array([len(values)])
        numbers = {"count": count, "excluded": blocks.real.sum() - count}
        if len(values) <= 2 * self.count:
            return {**numbers, **self.keep(values, index, values, index)}
        ordered = np.partition(values, (self.count - 1, len(values) - self.count))
        low = values <= ordered[self.count - 1]
        high = values >= ordered[-self.count]
        return {**numbers, **self.keep(values[low], index[low], values[high], index[high])}

    def keep(self, low: np.ndarray, low_index: np.ndarray, high: np.ndarray, high_index: np.ndarray) -> State:
        """Return the smallest and the largest of candidates with the indices of their samples."""
        a, ai = _smallest(low, low_index, self.count)
        b, bi = _smallest(-high, high_index, self.count)
        return {"low": a[None], "low_index": ai[None], "high": -b[None], "high_index": bi[None]}

    def merge(self, left: State, right: State) -> State:
        names = ("low", "low_index", "high", "high_index")
        both = [np.concatenate([left[name][0], right[name][0]]) for name in names]
        numbers = {name: left[name] + right[name] for name in ("count", "excluded")}
        return {**numbers, **self.keep(*both)}

    def result(self, state: State, shape: tuple[int, ...]) -> ExtremesResult:
        low, low_index, high, high_index, count, excluded = (
            state[name][0] for name in ("low", "low_index", "high", "high_index", "count", "excluded")
        )
        return ExtremesResult(low, low_index, high, high_index, int(count), int(excluded))


def _smallest(values: np.ndarray, index: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest values in order, and their indices; of equal ones, those of the lowest indices."""
    if len(values) > count:
        limit = np.partition(values, count - 1)[count - 1]
        near = np.flatnonzero(values <= limit)
        values = values[near]
        index = index[near]
    order = np.lexsort((index, values))[:count]
    return values[order], index[order]


@dataclass(frozen=True, eq=False)
class QuantilesResult:
    """Quantiles at probabilities, of each component: (len(probabilities), *shape)."""

    probabilities: np.ndarray
    values: np.ndarray
    count: int
    excluded: int
    relative_error: float


@final
@dataclass(frozen=True, eq=False)
class Quantiles(Reduction):
    """Quantiles of an output: the smallest values that at least a share p of the samples do not exceed.

    Parameters
    ----------
    output : str
        The output.
    probabilities : array_like
        Probabilities between 0 and 1.
    method : str
        "sketch" (default): within `relative_error`, in bounded memory; "exact": keeps all values, at most
        1e7.
    relative_error : float
        Of the sketch. Values share a bucket if sign, exponent and leading bits of the mantissa agree.
    """

    output: str
    probabilities: Any = (0.05, 0.25, 0.5, 0.75, 0.95)
    method: str = "sketch"
    relative_error: float = 1e-3

    def __post_init__(self) -> None:
        p = np.asarray(self.probabilities, dtype=float)
        if p.ndim != 1 or not len(p) or not ((p >= 0.0) & (p <= 1.0)).all():
            raise StudyError(
                f"Quantiles: probabilities: expected numbers from 0 to 1, got {self.probabilities!r}"
            )
        if self.method not in ("exact", "sketch"):
            raise StudyError(f"Quantiles: method: expected 'exact' or 'sketch', got {self.method!r}")
        if not 1e-6 <= self.relative_error <= 0.5:
            raise StudyError(f"Quantiles: relative_error: expected 1e-6 to 0.5, got {self.relative_error!r}")

    def check(self, study: Any) -> None:
        super().check(study)
        size = int(np.prod(study.output_shape(self.output), dtype=int))
        if self.method == "exact" and study.samples * size > EXACT_LIMIT:
            raise StudyError(
                f"Quantiles: {study.samples} samples of {size} numbers do not fit method='exact' (at most "
                f"{EXACT_LIMIT}): use method='sketch'"
            )

    @property
    def bucket_bits(self) -> int:
        """Return the mantissa's bits that choose a bucket: half a bucket is at most the relative error."""
        return max(0, int(np.ceil(-np.log2(self.relative_error))) - 1)

    def summarize(self, blocks: Blocks) -> State:
        x = blocks.counted(self.output)
        state = {"count": np.array([len(x)]), "excluded": np.array([blocks.real.sum() - len(x)])}
        if self.method == "exact":
            return {**state, "values": x[None]}
        for k in range(x.shape[1]):
            buckets, numbers = _counted_buckets(_bucket_of(x[:, k], self.bucket_bits))
            state |= {f"buckets{k}": buckets[None], f"numbers{k}": numbers[None]}
        return state

    def merge(self, left: State, right: State) -> State:
        state = {name: left[name] + right[name] for name in ("count", "excluded")}
        if self.method == "exact":
            return {**state, "values": np.concatenate([left["values"], right["values"]], axis=1)}
        for k in range((len(left) - 2) // 2):
            buckets = np.concatenate([left[f"buckets{k}"][0], right[f"buckets{k}"][0]])
            numbers = np.concatenate([left[f"numbers{k}"][0], right[f"numbers{k}"][0]])
            known, places = np.unique(buckets, return_inverse=True)
            total = np.zeros(len(known), dtype=np.int64)
            np.add.at(total, places, numbers)
            state |= {f"buckets{k}": known[None], f"numbers{k}": total[None]}
        return state

    def result(self, state: State, shape: tuple[int, ...]) -> QuantilesResult:
        p = np.asarray(self.probabilities, dtype=float)
        count = int(state["count"][0])
        excluded = int(state["excluded"][0])
        ranks = np.clip(np.ceil(p * count).astype(np.int64) - 1, 0, max(count - 1, 0))
        size = int(np.prod(shape, dtype=int))
        values = np.full((len(p), size), np.nan)
        for k in range(size if count else 0):
            if self.method == "exact":
                values[:, k] = np.sort(state["values"][0][:, k])[ranks]
            else:
                ends = np.cumsum(state[f"numbers{k}"][0])
                places = np.searchsorted(ends, ranks, side="right")
                values[:, k] = _middle_of(state[f"buckets{k}"][0][places], self.bucket_bits)
        error = 0.0 if self.method == "exact" else self.relative_error
        return QuantilesResult(p, values.reshape(len(p), *shape), count, excluded, error)


def _bucket_of(x: np.ndarray, bits: int) -> np.ndarray:
    """Return integers in the order of x: the leading bits of the numbers' magnitudes, with their signs."""
    raw = np.ascontiguousarray(x).view(np.int64)
    magnitude = (raw & np.int64(2**63 - 1)) >> np.int64(52 - bits)
    return np.where(raw < 0, -magnitude - 1, magnitude)


def _middle_of(buckets: np.ndarray, bits: int) -> np.ndarray:
    """Return the numbers in the middle of buckets; zero for those that hold it."""
    negative = buckets < 0
    magnitude = np.where(negative, -buckets - 1, buckets)
    shift = np.int64(52 - bits)
    halfway = ((magnitude << shift) | (np.int64(1) << (shift - 1))).view(np.float64)
    middle = np.where(magnitude == 0, 0.0, halfway)
    return np.where(negative, -middle, middle)


def _counted_buckets(buckets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the buckets that occur, in order, and how often."""
    if not len(buckets):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    least = int(buckets.min())
    most = int(buckets.max())
    if most - least < max(1 << 16, 4 * len(buckets)):
        numbers = np.bincount(buckets - least)
        present = np.flatnonzero(numbers)
        return present + least, numbers[present].astype(np.int64)
    return np.unique(buckets, return_counts=True)
