"""The equations of joints that close loops, one scalar a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Direction = tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """One equation for a successor's frame at pose (R, p) in its predecessor's.

    With `along` alone: along · p = 0. With `across` too: across · R along = 0, and where it `faces`, R along must be
    `along` there: a hinge's axis cannot be turned over. With `length`: (p · p - length²) / 2 = 0.
    """

    along: Direction = (0.0, 0.0, 0.0)
    across: Direction | None = None
    length: float | None = None
    faces: bool = False


def staying(*directions: Any) -> list[Row]:
    """No moving along these directions of the predecessor."""
    return [Row(_direction(d)) for d in directions]


def square(*pairs: tuple[Any, Any]) -> list[Row]:
    """A direction of the predecessor stays at right angles to one of the successor."""
    return [Row(_direction(along), _direction(across)) for across, along in pairs]


def facing(*pairs: tuple[Any, Any]) -> list[Row]:
    """The same, where the second direction is one that both frames share."""
    return [Row(_direction(along), _direction(across), faces=True) for across, along in pairs]


def _direction(d: Any) -> Direction:
    x, y, z = np.asarray(d, dtype=float).tolist()
    return x, y, z
