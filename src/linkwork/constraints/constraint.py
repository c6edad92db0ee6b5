"""What a constraint is: equations on accelerations, enforced by constraint forces."""

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


@dataclass(frozen=True)
class Gains:
    """Baumgarte stabilisation: the target of a row is -`stiffness` * its error - `damping` * the error's rate [1/s², 1/s]."""

    stiffness: float = 0.0
    damping: float = 0.0

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            x = getattr(self, name)
            if isinstance(x, bool) or not (isinstance(x, (int, float)) and np.isfinite(x) and x >= 0.0):
                raise ModelError(f"a gain's {name} must be a number and not negative, not {x!r}")

    @staticmethod
    def check(gains: object) -> None:
        """An error where something else stands in the place of gains."""
        if not isinstance(gains, Gains):
            raise ModelError(f"gains must be given as Gains(stiffness=, damping=), not {gains!r}")


NO_GAINS = Gains()


class Constraint(ABC):
    """A frozen value that says what is constrained. It names frames and joints, which are looked up in a model."""

    @abstractmethod
    def labels(self, model: Model) -> tuple[str, ...]:
        """A name for each of its rows; ModelError where it names what the model does not have."""

    def bodies(self, model: Model) -> tuple[int, ...]:
        """The bodies that it constrains, by index."""
        return ()

    @abstractmethod
    def equations(self, model: Model, kinematics: BodyKinematics) -> Rows:
        """Its equations in one state, with Baumgarte's targets in k."""

    def violation(self, model: Model, kinematics: BodyKinematics) -> Any:
        """The position error of each row, (m,) [rad or m]; zero for rows that constrain velocities only (nonholonomic)."""
        return np.zeros(len(self.labels(model)))


def total(model: Model, constraints: Sequence[Constraint]) -> int:
    """The number of rows of several constraints."""
    return sum(len(c.labels(model)) for c in constraints)
