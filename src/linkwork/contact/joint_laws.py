"""The laws that act in joints where a step has no contact scene: limits and dry friction."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, final

from linkwork.contact.candidates import Candidate
from linkwork.model import Model


@final
@dataclass(frozen=True)
class JointLaws:
    """Limits of joints and dry friction in them, without any shapes: what steps honour when `contacts` is not
    given.

    It has the attributes of `Contacts` that make rows and laws of joints, and no candidates.
    """

    limits: bool = True
    joint_friction: bool = True
    iterations: int = 200
    tolerance: float = 1e-9
    stiffness: ClassVar[float] = inf

    def candidates(self, model: Model) -> tuple[Candidate, ...]:
        """Return no points."""
        return ()
