"""Pick-off operators of frames (SKO Sec. 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from linkwork.mechanism import GROUND, Frame
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial_operators.operator import Operator, Parts
from linkwork.spatial_operators.spaces import Space


class PickOffs(Operator):
    """The pick-off operator B of frames: forces on frames to forces on their nodes.

    B* maps motions of nodes to those of frames.
    """

    def __init__(
        self, nodes: TreeState[Any], frames: Sequence[Any], rows: Space, number: Mapping[HingeNode, int]
    ) -> None:
        resolved = [each if isinstance(each, Frame) else nodes.frame(each) for each in frames]
        self._picks = [None if frame.body == GROUND else nodes.pick_off(frame) for frame in resolved]
        self._on = [GROUND if pick is None else number[pick.node] for pick in self._picks]
        sizes = [6 if pick is None else len(pick.bias) for pick in self._picks]
        ends = np.cumsum([0, *sizes]).tolist()
        columns = Space(
            "forces on frames", [frame.name for frame in resolved], [slice(a, b) for a, b in pairwise(ends)]
        )
        super().__init__("B", rows, columns)

    def times(self, x: Parts) -> Parts:
        y = [np.zeros((self.rows.rows_of(k), *x[0].shape[1:]), dtype=object) for k in range(len(self.rows))]
        for k, pick, F in zip(self._on, self._picks, x):
            if pick is not None:
                y[k][: pick.node.rows] = y[k][: pick.node.rows] + pick.force(F)
        return y

    def transposed_times(self, x: Parts) -> Parts:
        still = [
            np.zeros((self.columns.rows_of(f), *x[0].shape[1:]), dtype=object)
            for f in range(len(self.columns))
        ]
        return [
            still[f] if pick is None else pick.motion(x[self._on[f]][: pick.node.rows])
            for f, pick in enumerate(self._picks)
        ]

    def pattern(self) -> np.ndarray:
        mask = np.zeros((len(self.rows), len(self.columns)), dtype=bool)
        for f, k in enumerate(self._on):
            if k != GROUND:
                mask[k, f] = True
        return mask

    def entry(self, i: int, j: int) -> np.ndarray:
        matrix = np.zeros((self.rows.rows_of(i), self.columns.rows_of(j)), dtype=object)
        pick: Any = self._picks[j]
        matrix[: pick.node.rows] = pick.force(np.eye(self.columns.rows_of(j)))
        return matrix
