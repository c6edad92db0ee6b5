"""Constraints: equations on accelerations, enforced by constraint forces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.constraints.relative_motion import BodyKinematics
from linkwork.constraints.rows import Rows
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.spatial.constants import real_or_nan, set_frozen


@dataclass(frozen=True)
class Gains:
    """Baumgarte stabilisation gains [1/s², 1/s].

    The target of a row is -`stiffness` · error - `damping` · error rate.
    """

    stiffness: float = 0.0
    damping: float = 0.0

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            gain = getattr(self, name)
            x = real_or_nan(gain)
            if not (np.isfinite(x) and x >= 0.0):
                raise ModelError(f"Gains: {name}: expected a non-negative number, got {gain!r}")
            set_frozen(self, name, x)

    @staticmethod
    def check(gains: object) -> None:
        """Raise ModelError unless `gains` are Gains."""
        if not isinstance(gains, Gains):
            raise ModelError(f"gains: expected Gains(stiffness=..., damping=...), got {gains!r}")


NO_GAINS = Gains()


class Constraint(ABC):
    """A frozen constraint on frames and joints, which are looked up by name in a model."""

    @abstractmethod
    def labels(self, model: Model) -> tuple[str, ...]:
        """Return a name for each row; raise ModelError if the model lacks a frame or joint."""

    def bodies(self, model: Model) -> tuple[int, ...]:
        """Return the indices of the constrained bodies."""
        return ()

    @abstractmethod
    def equations(self, model: Model, kinematics: BodyKinematics) -> Rows:
        """Return the equations in one state, with Baumgarte's targets in k."""

    def violation(self, model: Model, kinematics: BodyKinematics) -> Any:
        """Return the position error of each row, (m,) [rad or m].

        Zero for rows that constrain velocities only (nonholonomic).
        """
        return np.zeros(len(self.labels(model)))


def total(model: Any, constraints: Sequence[Constraint]) -> int:
    """Return the total number of rows of several constraints."""
    return sum(len(c.labels(model)) for c in constraints)
