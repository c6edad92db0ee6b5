"""Couplings: linear equations between coordinates of joints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.mechanism.loops import End, LoopConstraint, Posture, Speeds
from linkwork.mechanism.tree import PlacedJoint
from linkwork.spatial.constants import set_frozen


@final
@dataclass(frozen=True)
class Coupling(LoopConstraint):
    """A linear coupling Σ coefficient · coordinate = offset: gears, belts, mimic joints, differentials.

    `terms` are (joint index, component, coefficient).
    """

    name: str
    terms: tuple[tuple[int, int, float], ...]
    offset: float
    linear = True

    def __post_init__(self) -> None:
        set_frozen(
            self, "terms", tuple((k, component, coefficient) for k, component, coefficient in self.terms)
        )

    @property
    def bodies(self) -> tuple[int, ...]:
        return tuple(k for k, _, _ in self.terms)

    @property
    def coefficients(self) -> tuple[float, ...]:
        return tuple(c for _, _, c in self.terms)

    def count(self, joints: Sequence[PlacedJoint]) -> int:
        return 1

    def residual(self, posture: Posture) -> np.ndarray:
        total: Any = -self.offset
        for joint, component, coefficient in self.terms:
            total = total + coefficient * posture.q(joint)[component]
        return np.array([total])

    def gap(self, posture: Posture) -> tuple[Any, Any]:
        distance, angle = super().gap(posture)
        slides = all(posture.joint(k).kind.units(2.0)[component] == 2.0 for k, component, _ in self.terms)
        return (angle, distance) if slides else (distance, angle)

    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        K = np.zeros((1, posture.width), dtype=object)
        for joint, component, coefficient in self.terms:
            K[0, posture.columns[joint].start + component] = coefficient
        return K, np.zeros(1, dtype=object)

    def content(self, index: Mapping[int, int], place_key: Callable[[End], Any]) -> Any:
        return tuple((index[k], component, x) for k, component, x in self.terms), self.offset
