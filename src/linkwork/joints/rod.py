"""Rods and slots: joints that only close loops and cannot be in a spanning tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints.closure import Row, no_translation
from linkwork.joints.joint import AxisJoint, Joint
from linkwork.spatial.constants import real_or_nan


class LoopOnly(Joint):
    """A joint that can only close a loop."""

    tree = False

    def transform(self, q: np.ndarray) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__}: only a loop joint, not a joint of the spanning tree"
        )

    def subspace(self, q: np.ndarray) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__}: only a loop joint, not a joint of the spanning tree"
        )


@final
@dataclass(frozen=True)
class Rod(LoopOnly):
    """A massless rod of a `length` [m] with a ball joint at each end.

    It keeps the origins of both frames at that distance.
    """

    length: float
    nq = nv = 5

    def __post_init__(self) -> None:
        length = real_or_nan(self.length)
        if not (np.isfinite(length) and length > 0):
            raise ModelError(f"length of a rod: expected a positive number [m], got {self.length!r}")
        object.__setattr__(self, "length", length)

    def closure(self) -> list[Row]:
        return [Row(length=self.length)]


@final
@dataclass(frozen=True)
class PointOnLine(LoopOnly, AxisJoint):
    """A pin in a slot: the successor's origin stays on a line of the predecessor.

    The line goes through the predecessor's origin along `axis`.
    """

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    nq = nv = 4

    def closure(self) -> list[Row]:
        return no_translation(*self.normals)
