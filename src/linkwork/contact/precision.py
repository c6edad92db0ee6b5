"""Tolerances by the precision in which a program runs."""

from __future__ import annotations

from typing import Any

from linkwork.compiler.ir.functions import absolute, exponent, minimum, where
from linkwork.spatial import Pose


def by_precision(T: Pose, double: float, single: float) -> Any:
    """Return the number for the precision in which a program runs, from a relative pose of shapes."""
    lowest = exponent(minimum(absolute(T.p[0]), 0.0))  # of zero: -1023 or -127
    return where(lowest < -500.0, double, single)
