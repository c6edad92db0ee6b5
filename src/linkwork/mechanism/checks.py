"""Checks of arguments of builders."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Joint
from linkwork.spatial import Pose
from linkwork.spatial.constants import real


def check_name(kind: str, name: Any) -> None:
    """Raise ModelError unless a name is a non-empty string."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"name of a {kind}: expected a non-empty string, got {name!r}")


def frozen_joint(owner: str, freeze: Callable[[], Joint]) -> Joint:
    """Return an immutable copy of a joint type; errors name its owner."""
    try:
        return freeze()
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from None


def numbers(label: str, values: Any, n: int, *, finite: bool = True) -> tuple[float, ...]:
    """Return `n` numbers as a tuple, or raise ModelError; finite unless `finite` is False."""
    try:
        result = tuple(real(x) for x in values)
    except (TypeError, ValueError):
        raise ModelError(f"{label}: expected {n} numbers, got {values!r}") from None
    if len(result) != n:
        raise ModelError(f"{label}: expected {n} numbers, got {len(result)}: {values!r}")
    if finite and not all(map(isfinite, result)):
        raise ModelError(f"{label}: expected finite numbers, got {values!r}")
    return result


def checked_pose(label: str, xyz: Any, rpy: Any, place: Pose | None) -> Pose:
    """Return the pose `place`, or the pose at `xyz` rotated by `rpy`, or raise ModelError."""
    position_and_angles = (*numbers(f"{label}: xyz", xyz, 3), *numbers(f"{label}: rpy", rpy, 3))
    if place is None:
        return (
            Pose.from_xyz_rpy(position_and_angles[:3], position_and_angles[3:])
            if any(position_and_angles[3:])
            else Pose.translation(np.array(position_and_angles[:3]))
        )
    if not isinstance(place, Pose):
        raise ModelError(f"{label}: place: expected a linkwork.spatial.Pose, got {place!r}")
    if any(position_and_angles):
        raise ModelError(f"{label}: expected place, or xyz and rpy, got both")
    rows = np.asarray(place.R, dtype=float).tolist()
    if not all(map(isfinite, (*rows[0], *rows[1], *rows[2], *np.asarray(place.p, dtype=float).tolist()))):
        raise ModelError(f"{label}: place: expected finite numbers")
    if not _is_rotation(*rows):
        raise ModelError(f"{label}: place: expected a rotation matrix R")
    return place


def _is_rotation(x: list[float], y: list[float], z: list[float]) -> bool:
    """Return whether three rows are those of a rotation matrix, within 1e-9."""
    for row, others in ((x, (y, z)), (y, (z,)), (z, ())):
        if abs(row[0] * row[0] + row[1] * row[1] + row[2] * row[2] - 1.0) > 1e-9:
            return False
        if any(abs(row[0] * o[0] + row[1] * o[1] + row[2] * o[2]) > 1e-9 for o in others):
            return False
    normal = (x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0])
    return normal[0] * z[0] + normal[1] * z[1] + normal[2] * z[2] > 0.0
