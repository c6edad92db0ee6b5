"""Summaries of outputs on the GPU, with the bits of `reductions`: a few numbers of each block return."""

from __future__ import annotations

import ctypes
import math

import numpy as np

from linkwork.compiler.runtime.cuda.device_arrays import DeviceArray, DeviceScope
from linkwork.studies.accumulate import BLOCK, State, fold_pairs
from linkwork.studies.cuda.launch import OutputRows, launch
from linkwork.studies.cuda.text import ROWS_OF_THREAD, THREADS
from linkwork.studies.reductions import Extremes, Mean, Quantiles, Reduction, Variance

MAX_WIDTH = 32  # components of an output
MAX_EXTREMES = 64
MAX_BUCKET_BITS = 10  # of a mantissa: 16 MB of counters

Part = tuple[int, int]  # first row of a node, and the one after its last


def summarizes_on_device(reduction: Reduction, shape: tuple[int, ...]) -> bool:
    """Return whether a reduction of an output of a shape is computed on the GPU."""
    width = math.prod(shape)
    if isinstance(reduction, (Mean, Variance)):
        return 0 < width <= MAX_WIDTH
    if isinstance(reduction, Extremes):
        return width == 1 and reduction.count <= MAX_EXTREMES
    if isinstance(reduction, Quantiles):
        return (
            reduction.method == "sketch"
            and reduction.bucket_bits <= MAX_BUCKET_BITS
            and 0 < width <= MAX_WIDTH
        )
    return False


class DeviceOutput:
    """An output on the GPU of samples from `first` on; `accepted`, (rows,) of bool, are those that count."""

    def __init__(self, scope: DeviceScope, x: DeviceArray, accepted: np.ndarray, first: int) -> None:
        self._scope = scope
        self._first = first
        self.rows = len(x)
        self.width = math.prod(x.shape[1:])
        self.blocks = -(-self.rows // BLOCK)
        flags = 0 if accepted.all() else scope.upload(accepted.astype(np.uint8)).address
        self._place = OutputRows(self.rows, self.width, x.step, x.address, flags)
        self._moments: State | None = None
        self._candidates: dict[int, tuple[np.ndarray, ...]] = {}

    def summarize(self, reduction: Reduction, part: Part) -> State:
        """Return the summary of a node."""
        if isinstance(reduction, (Mean, Variance)):
            return self._moments_of(reduction, part)
        if isinstance(reduction, Extremes):
            return self._extremes(reduction, part)
        assert isinstance(reduction, Quantiles)
        return self._sketch(reduction, part)

    def _moments_of(self, reduction: Mean | Variance, part: Part) -> State:
        if self._moments is None:
            size = self.blocks * self.width
            x = self._scope.empty((self.blocks + 3 * size,), np.float64)
            places = [x.part(k) for k in (0, self.blocks, self.blocks + size, self.blocks + 2 * size)]
            launch("moments", size, self._place, *places)
            numbers = x.get()
            count = numbers[: self.blocks]
            sums, lost, squares = numbers[self.blocks :].reshape(3, self.blocks, self.width)
            real = np.minimum(BLOCK, self.rows - BLOCK * np.arange(self.blocks))
            self._moments = {
                "count": count, "excluded": real - count, "sum": sums, "lost": lost, "squares": squares,
            }  # fmt: skip
        return fold_pairs({name: x[_blocks_of(part)] for name, x in self._moments.items()}, reduction.merge)

    def _extremes(self, reduction: Extremes, part: Part) -> State:
        if self._candidates.get(reduction.count) is None:
            shape = (self.blocks, 2, reduction.count)
            arrays = [self._scope.empty(*each) for each in (((self.blocks,), np.int64), (shape, np.float64))]
            arrays.append(self._scope.empty(shape, np.int64))
            launch("extremes", self.blocks, self._place, ctypes.c_int(reduction.count), *arrays)
            numbers, values, rows = (each.get() for each in arrays)
            self._candidates[reduction.count] = numbers, values, rows
        numbers, values, rows = (x[_blocks_of(part)] for x in self._candidates[reduction.count])
        count = np.array([numbers.sum()])
        selected = []
        for turn in range(2):
            exists = rows[:, turn] >= 0
            selected += [values[:, turn][exists], rows[:, turn][exists] + self._first]
        return {"count": count, "excluded": part[1] - part[0] - count, **reduction.keep(*selected)}

    def _sketch(self, reduction: Quantiles, part: Part) -> State:
        bits = reduction.bucket_bits
        state: State = {}
        for k in range(self.width):
            buckets, numbers = self._buckets(k, part, bits)
            state |= {f"buckets{k}": buckets[None], f"numbers{k}": numbers[None]}
        count = np.array([state["numbers0"].sum()])
        return {"count": count, "excluded": part[1] - part[0] - count, **state}

    def _buckets(self, component: int, part: Part, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the buckets of a component that occur in rows of a node, in order, and how often."""
        rows = part[1] - part[0]
        where = (self._place, *(ctypes.c_longlong(n) for n in (component, *part)), ctypes.c_int(bits))
        limits = np.iinfo(np.int32)
        extent = self._scope.upload(np.array([limits.max, limits.min], np.int32))
        launch("bucket_range", -(-rows // (THREADS * ROWS_OF_THREAD)), *where, extent)
        least, most = map(int, extent.get())
        if least > most:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        counts = self._scope.zeros((most - least + 1,), np.uint32)
        launch("bucket_counts", -(-rows // THREADS), *where, ctypes.c_int(least), counts)
        numbers = counts.get()
        present = np.flatnonzero(numbers)
        return present + least, numbers[present].astype(np.int64)


def _blocks_of(part: Part) -> slice:
    return slice(part[0] // BLOCK, -(-part[1] // BLOCK))
