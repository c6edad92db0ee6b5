"""Constants that depend on the precision in which a program runs."""

from __future__ import annotations

from typing import Any

from linkwork.compiler.ir.functions import absolute, exponent, minimum, where


def by_precision(x: Any, double: Any, single: Any) -> Any:
    """Return `double` if the program runs in float64 and `single` if it runs in float32; x is any value."""
    exponent_of_zero = exponent(minimum(absolute(x), 0.0))  # -1023 or -127
    return where(exponent_of_zero < -500.0, double, single)
