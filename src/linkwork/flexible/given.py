"""Checks of single numbers that users give: Python's and NumPy's are taken alike, and nothing that only looks like one."""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real
from typing import Any

from linkwork.errors import ModelError


def is_number(value: Any) -> bool:
    """Whether it is one finite real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def positive(what: str, value: Any) -> float:
    """A number above zero."""
    if not is_number(value) or value <= 0.0:
        raise ModelError(f"{what} must be a number above zero, not {value!r}")
    return float(value)


def not_negative(what: str, value: Any) -> float:
    """A number of zero or more."""
    if not is_number(value) or value < 0.0:
        raise ModelError(f"{what} must be a number that is not negative, not {value!r}")
    return float(value)


def rayleigh_factors(what: str, values: Any) -> tuple[float, float]:
    """(α, β) of damping α mass + β stiffness."""
    try:
        alpha, beta = values
    except (TypeError, ValueError):
        raise ModelError(f"{what}: rayleigh must be two numbers, of mass and of stiffness, not {values!r}") from None
    return not_negative(f"{what}: rayleigh", alpha), not_negative(f"{what}: rayleigh", beta)


def whole(what: str, value: Any, least: int, most: int, why: str = "") -> int:
    """A whole number between two."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise ModelError(f"{what} from {least} to {most}{why}, not {value!r}")
    return int(value)
