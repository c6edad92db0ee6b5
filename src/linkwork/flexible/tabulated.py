"""Checks of scalar arguments: Python and NumPy numbers are accepted, Booleans and text are not."""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real
from typing import Any

from linkwork.errors import ModelError


def is_number(value: Any) -> bool:
    """Return True for one finite real number; Booleans are not numbers."""
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def positive(label: str, value: Any) -> float:
    """Return a positive number as a float."""
    if not is_number(value) or value <= 0.0:
        raise ModelError(f"{label}: expected a positive number, got {value!r}")
    return float(value)


def not_negative(label: str, value: Any) -> float:
    """Return a non-negative number as a float."""
    if not is_number(value) or value < 0.0:
        raise ModelError(f"{label}: expected a non-negative number, got {value!r}")
    return float(value)


def rayleigh_factors(label: str, values: Any) -> tuple[float, float]:
    """Return (α, β) of the damping α mass + β stiffness."""
    try:
        alpha, beta = values
    except (TypeError, ValueError):
        raise ModelError(f"{label}: rayleigh: expected two numbers (α, β), got {values!r}") from None
    return not_negative(f"{label}: rayleigh", alpha), not_negative(f"{label}: rayleigh", beta)


def integer(label: str, value: Any, minimum: int, maximum: int, reason: str = "") -> int:
    """Return an integer between `minimum` and `maximum`; `reason` explains the bound."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not minimum <= int(value) <= maximum:
        raise ModelError(f"{label}: expected an integer from {minimum} to {maximum}{reason}, got {value!r}")
    return int(value)
