"""The identity operator."""

from __future__ import annotations

import numpy as np

from linkwork.spatial_operators.operator import Operator, Parts
from linkwork.spatial_operators.spaces import Space


class Identity(Operator):
    """The identity of a space."""

    diagonal = True

    def __init__(self, space: Space) -> None:
        super().__init__("I", space, space)

    @property
    def T(self) -> Operator:
        return self

    @property
    def inverse(self) -> Operator:
        return self

    def times(self, x: Parts) -> Parts:
        return x

    transposed_times = times

    def pattern(self) -> np.ndarray:
        return np.eye(len(self.rows), dtype=bool)

    def entry(self, i: int, j: int) -> np.ndarray:
        return np.eye(self.rows.rows_of(i)).astype(object)
