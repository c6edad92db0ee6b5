"""Protocol of mechanisms that loop analysis works on."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from linkwork.mechanism.loops import LoopConstraint
from linkwork.mechanism.tree import Body, PlacedJoint


class Mechanism(Protocol):
    """Bodies on a spanning tree of joints, body k behind joint k, and its loop constraints."""

    @property
    def bodies(self) -> tuple[Body, ...]: ...
    @property
    def joints(self) -> tuple[PlacedJoint, ...]: ...
    @property
    def embedded(self) -> tuple[LoopConstraint, ...]: ...
    @property
    def constrained_loops(self) -> tuple[LoopConstraint, ...]: ...
    @property
    def analyses(self) -> dict[Any, Any]: ...
    @property
    def nq(self) -> int: ...
    @property
    def nv_spanning(self) -> int: ...
    @property
    def start(self) -> tuple[float, ...] | None:
        """Coordinates from which loops are closed; None for the neutral ones."""

    @property
    def tolerance(self) -> float | None:
        """Accepted residual of redundant loop equations, relative to the length of the loop."""

    def tree_neutral(self) -> np.ndarray: ...
