"""Checks of the limits, springs and other properties of joints."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints.check import check_springs
from linkwork.mechanism import PlacedJoint
from linkwork.mechanism.checks import numbers


def property_values(label: str, value: Any, n: int, default: float, low: float) -> tuple[float, ...]:
    """Return a joint property as `n` numbers of at least `low`, or raise ModelError."""
    if value is None:
        return (default,) * n
    is_scalar = isinstance(value, float) or not np.ndim(value)
    values = numbers(label, [value] * n if is_scalar else value, n, finite=False)
    if any(not x >= low for x in values):
        expected = "numbers" if low < 0 else "non-negative numbers"
        raise ModelError(f"{label}: expected {expected}, got {value}")
    return values


def check_properties(label: str, joint: PlacedJoint) -> None:
    """Raise ModelError if limits, springs or other properties of a joint are inconsistent."""
    for word in ("damping", "friction", "stiffness", "rest", "armature"):
        if not all(map(isfinite, getattr(joint, word))):
            raise ModelError(f"{label}: {word}: expected finite numbers, got {getattr(joint, word)}")
    if any(a > b for a, b in zip(joint.lower, joint.upper)):
        raise ModelError(
            f"{label}: expected lower limits below upper limits, got {joint.lower} and {joint.upper}"
        )
    if not joint.max_angle > 0.0:
        raise ModelError(f"{label}: upper: expected a positive angle, got {joint.max_angle!r}")
    if any(joint.stiffness) and joint.kind.springs == "none":
        raise ModelError(
            f"{label}: stiffness: expected zero for a {type(joint.kind).__name__} joint, whose springs have "
            f"no potential, got {joint.stiffness}"
        )
    if any(joint.stiffness) and joint.kind.springs == "each" and not joint.kind.is_builtin:
        check_springs(joint.kind)
    if joint.kind.springs == "equal" and (
        len(set(joint.stiffness)) > 1 or (any(joint.stiffness) and any(joint.rest))
    ):
        raise ModelError(
            f"{label}: stiffness: expected equal numbers and zero rest for a {type(joint.kind).__name__} "
            f"joint, whose other springs have no potential; got {joint.stiffness} and rest {joint.rest}"
        )


def check_component_names(joints: Iterable[PlacedJoint]) -> None:
    """Raise ModelError if a component of a joint has the name of another joint: v_names would repeat it."""
    owners: dict[str, str] = {}
    for joint in joints:
        for name in joint.v_names:
            if name in owners:
                label = f"joints {owners[name]!r} and {joint.name!r}"
                raise ModelError(
                    f"{label}: expected different names of velocities, got {name!r} for both: rename one"
                )
            owners[name] = joint.name
