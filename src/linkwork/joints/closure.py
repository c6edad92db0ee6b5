"""Loop-closure equations of joints, one scalar a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product

Direction = tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """One equation for a successor's frame at pose (R, p) in its predecessor's.

    With `along` alone: along · p = 0. With `across` too: across · R along = 0, and where it is `oriented`, R along must be
    `along` and not its opposite: a flipped axis is another assembly mode. With `length`: (p · p - length²) / 2 = 0.
    """

    along: Direction = (0.0, 0.0, 0.0)
    across: Direction | None = None
    length: float | None = None
    oriented: bool = False

    def residual(self, R: np.ndarray, p: np.ndarray) -> Any:
        """φ, for the successor's pose (R, p) in the predecessor's frame; zero where the equation holds."""
        if self.length is not None:
            return 0.5 * (product(p, p) - self.length * self.length)
        along = np.array(self.along)
        return product(along, p) if self.across is None else product(np.array(self.across), product(R, along))

    def coefficients(self, P: Pose, F: Pose) -> tuple[np.ndarray, np.ndarray]:
        """c_w and c_v, (3,) each, with φ̇ = c_w · W + c_v · U, for the poses P and F of both frames in any common axes.

        W is the angular velocity of F against P, and U the velocity of F's origin against P's point that is there. So they
        are also the moment and, at F's origin, the force on the successor for a unit of the equation's multiplier.
        """
        if self.length is not None:
            return np.zeros(3), F.p - P.p
        if self.across is None:
            return np.zeros(3), product(P.R, np.array(self.along))
        return cross(product(F.R, np.array(self.along)), product(P.R, np.array(self.across))), np.zeros(3)

    def bias(self, P: Pose, F: Pose, W: np.ndarray, U: np.ndarray) -> Any:
        """The bias of φ̈: what it has besides c_w · Ẇ + c_v · U̇, the rates being those seen from P."""
        if self.length is not None:
            return product(U, U)
        if self.across is None:
            return 0.0
        return product(product(P.R, np.array(self.across)), cross(W, cross(W, product(F.R, np.array(self.along)))))


def no_translation(*directions: Any) -> list[Row]:
    """No translation along these directions of the predecessor."""
    return [Row(_direction(d)) for d in directions]


def perpendicular(*pairs: tuple[Any, Any]) -> list[Row]:
    """A direction of the predecessor stays perpendicular to one of the successor."""
    return [Row(_direction(along), _direction(across)) for across, along in pairs]


def parallel_axes(*pairs: tuple[Any, Any]) -> list[Row]:
    """The same, where the second direction is an axis that both frames share: two such rows keep it parallel."""
    return [Row(_direction(along), _direction(across), oriented=True) for across, along in pairs]


def _direction(d: Any) -> Direction:
    x, y, z = np.asarray(d, dtype=float).tolist()
    return x, y, z
