"""What closes loops: loop joints between bodies that the tree holds already, and couplings between joints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.joints import Joint
from linkwork.model.parts import PlacedJoint
from linkwork.spatial import Pose
from linkwork.spatial.constants import put


@dataclass(frozen=True)
class End:
    """Where a loop joint takes hold of a body: its frame there."""

    body: int  # index of a body, or GROUND
    place: Pose

    def __post_init__(self) -> None:
        put(self, "place", self.place.frozen())


@dataclass(frozen=True)
class Loop:
    """A joint of some kind that holds `successor` on `predecessor`, which the tree's joints hold already.

    `kept` matters where it is upheld by forces: redundant equations cost time there, and make forces ambiguous.
    """

    name: str
    kind: Joint
    predecessor: End
    successor: End
    kept: tuple[int, ...] | None = None  # of its equations, those that do not follow from the others; None: all

    def __post_init__(self) -> None:
        put(self, "kind", self.kind.settled())
        put(self, "kept", None if self.kept is None else tuple(self.kept))


@dataclass(frozen=True)
class Coupling:
    """Σ coefficient * coordinate = offset over joints of the spanning tree: gears, belts, mimics, differentials.

    `terms` are (index of the joint, its component, coefficient).
    """

    name: str
    terms: tuple[tuple[int, int, float], ...]
    offset: float

    def __post_init__(self) -> None:
        put(self, "terms", tuple((k, component, coefficient) for k, component, coefficient in self.terms))


@dataclass(frozen=True)
class Closure:
    """φ(q) = 0 for a function of some joints' coordinates, one after the other, over numbers or symbols."""

    name: str
    joints: tuple[int, ...]
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        put(self, "joints", tuple(self.joints))

    def phi(self, q: np.ndarray) -> np.ndarray:
        """What the function gives, as a vector."""
        return np.atleast_1d(np.asarray(self.function(q), dtype=object))


Constraint = Loop | Coupling | Closure


def count_rows(constraint: Constraint, joints: Sequence[PlacedJoint]) -> int:
    """How many equations a constraint has, in a model with these joints."""
    if isinstance(constraint, Loop):
        return len(constraint.kind.closure())
    if isinstance(constraint, Coupling):
        return 1
    return len(constraint.phi(np.concatenate([joints[j].kind.neutral() for j in constraint.joints])))
