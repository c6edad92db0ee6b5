"""A constraint: the origins of two frames stay at a distance from each other, as on a light rod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

import linkwork as lw
from linkwork.constraints import RelativeMotion
from linkwork.constraints.constraint import NO_GAINS
from linkwork.constraints.frames import BetweenFrames


@final
@dataclass(frozen=True)
class FixedDistance(BetweenFrames):
    """Distance of a frame's origin from that of `to`: one row, along the line between them."""

    frame: str
    length: float  # [m]
    to: Any = None
    gains: lw.Gains = NO_GAINS
    at: Any = None
    in_frame: ClassVar[bool] = False  # type: ignore[misc]  # the row is in the axes of `to`
    needs_anchor: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("distance",)  # type: ignore[misc]

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        n = seen.p / distance(seen.p)
        return np.zeros((1, 3)), n[None]

    def coefficient_bias(self, seen: RelativeMotion) -> Any:
        """Return ṅ · U, with the rate of the direction n in the axes of `to`."""
        d = distance(seen.p)
        along = seen.p @ seen.U / d
        return np.array([(seen.U @ seen.U - along * along) / d])

    def error(self, seen: Any) -> Any:
        return np.array([distance(seen.p) - self.length])


def distance(p: Any) -> Any:
    """Return the length of a vector."""
    return lw.sqrt(p @ p)
