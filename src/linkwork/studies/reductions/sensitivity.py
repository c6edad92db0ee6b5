"""Sobol indices: which quantity the variance of an output comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.accumulate import State, fold_pairs, sum_blocks
from linkwork.studies.reductions.base import Blocks, Reduction
from linkwork.studies.samplers import Saltelli


@dataclass(frozen=True, eq=False)
class SobolIndicesResult:
    """First-order and total indices of each quantity, (quantities, *shape)."""

    names: tuple[str, ...]
    first: np.ndarray
    total: np.ndarray
    variance: Any
    groups: int
    excluded: int


@final
@dataclass(frozen=True, eq=False)
class SobolIndices(Reduction):
    """First-order (Saltelli 2010) and total (Jansen 1999) indices of an output; for the sampler `Saltelli`.

    A group in which any sample is not accepted is left out as a whole.
    """

    output: str

    def check(self, study: Any) -> None:
        super().check(study)
        if not isinstance(study.sampler, Saltelli):
            raise StudyError(
                f"SobolIndices: expected the sampler Saltelli, got {type(study.sampler).__name__}"
            )
        object.__setattr__(self, "_names", study.sampler.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the quantities, once a study has checked them."""
        result: tuple[str, ...] = self.__dict__["_names"]
        return result

    def summarize(self, blocks: Blocks) -> State:
        d = len(self.names)
        x, counted = blocks.finite(self.output)
        count, size, width = x.shape
        groups = x.reshape(count, size // (d + 2), d + 2, width)
        full: np.ndarray = np.all(counted.reshape(count, size // (d + 2), d + 2), axis=2)
        real: np.ndarray = np.all(blocks.real.reshape(count, size // (d + 2), d + 2), axis=2)
        groups = np.where(full[:, :, None, None], groups, 0.0)
        a = groups[:, :, 0]
        b = groups[:, :, 1]
        shifted = groups[:, :, 2:] - a[:, :, None]  # (blocks, groups, d, width)
        number = full.sum(axis=1).astype(float)
        state: State = {"count": number, "excluded": real.sum(axis=1) - number}
        sums = {"a": a, "b": b, "shift": shifted}
        means = {}
        for name, values in sums.items():
            high, low = sum_blocks(values)
            state[name] = high + low
            means[name] = _mean(state[name], number)
        inside = full[:, :, None]
        from_a = np.where(inside, a - means["a"][:, None], 0.0)
        from_b = np.where(inside, b - means["b"][:, None], 0.0)
        from_shift = np.where(inside[..., None], shifted - means["shift"][:, None], 0.0)
        products = {
            "aa": from_a * from_a, "bb": from_b * from_b,
            "co": from_b[:, :, None] * from_shift, "jansen": shifted * shifted,
        }  # fmt: skip
        state |= {name: np.add(*sum_blocks(values)) for name, values in products.items()}
        return fold_pairs(state, self.merge)

    def merge(self, left: State, right: State) -> State:
        state = {
            name: left[name] + right[name] for name in ("count", "excluded", "a", "b", "shift", "jansen")
        }
        weight = left["count"] * right["count"] / np.maximum(state["count"], 1.0)
        jump = {
            name: _mean(right[name], right["count"]) - _mean(left[name], left["count"])
            for name in ("a", "b", "shift")
        }
        w = weight[:, None]
        wd = weight[:, None, None]
        state["aa"] = (left["aa"] + right["aa"]) + jump["a"] * jump["a"] * w
        state["bb"] = (left["bb"] + right["bb"]) + jump["b"] * jump["b"] * w
        state["co"] = (left["co"] + right["co"]) + jump["b"][:, None] * jump["shift"] * wd
        return state

    def result(self, state: State, shape: tuple[int, ...]) -> SobolIndicesResult:
        n = float(state["count"][0])
        d = len(self.names)
        with np.errstate(invalid="ignore", divide="ignore"):
            jump = (state["b"][0] - state["a"][0]) / n
            variance = (state["aa"][0] + state["bb"][0] + jump * jump * n / 2) / (2 * n - 1)
            first = state["co"][0] / n / variance
            total = state["jansen"][0] / (2 * n) / variance
        shapes = (d, *shape)
        arrays = first.reshape(shapes), total.reshape(shapes), variance.reshape(shape)[()]
        return SobolIndicesResult(self.names, *arrays, int(n), int(state["excluded"][0]))


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return total / np.maximum(count, 1.0).reshape(-1, *([1] * (total.ndim - 1)))
