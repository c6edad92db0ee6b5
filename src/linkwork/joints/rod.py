"""Rods and slots: loop joints that cannot be in a spanning tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np

from linkwork.joints.closure import Row, no_translation
from linkwork.joints.joint import AxisJoint, Joint


class LoopOnly(Joint):
    """A joint that can only close a loop."""

    tree = False

    def transform(self, q: np.ndarray) -> NoReturn:
        raise NotImplementedError(f"a {type(self).__name__} closes loops only")

    def subspace(self, q: np.ndarray) -> NoReturn:
        raise NotImplementedError(f"a {type(self).__name__} closes loops only")


@final
@dataclass(frozen=True)
class Rod(LoopOnly):
    """A rod without mass, of a `length` [m], with a ball at each end: it holds the origins of two frames apart."""

    length: float
    nq = nv = 5

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length) and self.length > 0):
            raise ValueError(f"a rod's length is a positive number, not {self.length!r}")

    def closure(self) -> list[Row]:
        return [Row(length=float(self.length))]


@final
@dataclass(frozen=True)
class PointOnLine(LoopOnly, AxisJoint):
    """A pin in a slot: the successor's origin stays on the line along `axis` through the predecessor's origin."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 4

    def closure(self) -> list[Row]:
        return no_translation(*self.normals)
