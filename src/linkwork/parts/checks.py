"""Checks of what users give to builders."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.spatial import Pose


def check_name(what: str, name: Any) -> None:
    """That a name is a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"a {what}'s name is a text that is not empty, not {name!r}")


def numbers(what: str, values: Any, n: int, *, finite: bool = True) -> tuple[float, ...]:
    """So many numbers, finite ones unless others are allowed too."""
    try:
        found = tuple(float(x) for x in values)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be {n} numbers, not {values!r}") from None
    if len(found) != n:
        raise ModelError(f"{what} must be {n} numbers, not {len(found)}: {values!r}")
    if finite and not all(map(isfinite, found)):
        raise ModelError(f"{what} must be finite, but is {values!r}")
    return found


def placed(what: str, xyz: Any, rpy: Any, place: Pose | None) -> Pose:
    """The pose at `xyz` turned by `rpy`, or `place`, if that is one."""
    given = (*numbers(f"{what}: xyz", xyz, 3), *numbers(f"{what}: rpy", rpy, 3))
    if place is None:
        return Pose.placed(given[:3], given[3:]) if any(given[3:]) else Pose.translation(np.array(given[:3]))
    if not isinstance(place, Pose):
        raise ModelError(f"{what}: place must be a linkwork.spatial.Pose, not {place!r}")
    if any(given):
        raise ModelError(f"{what}: give its place, or xyz and rpy, not both")
    R, p = np.asarray(place.R, dtype=float), np.asarray(place.p, dtype=float)
    if not np.isfinite([*R.ravel(), *p]).all():
        raise ModelError(f"{what}: place must be finite")
    if np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0:
        raise ModelError(f"{what}: the matrix R of its place must be a rotation")
    return place
