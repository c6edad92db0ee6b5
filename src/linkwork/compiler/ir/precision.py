"""Numbers by the precision in which a program runs."""

from __future__ import annotations

from typing import Any

from linkwork.compiler.ir.functions import absolute, exponent, minimum, where


def by_precision(x: Any, double: Any, single: Any) -> Any:
    """Return `double` or `single`, depending on the precision in which a program runs on x."""
    lowest = exponent(minimum(absolute(x), 0.0))  # of zero: -1023 or -127
    return where(lowest < -500.0, double, single)
