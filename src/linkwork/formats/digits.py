"""Tolerance for closing the loops of a file, estimated from the digits of its numbers.

A number with d significant digits has an error of up to half a unit in the last place. Angles tell more:
1.5708 or -1.57 are rounded right angles whose error is known exactly. Short numbers (0.25) may be exact and
are not considered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import median

from linkwork.formats.xml import Element

# Bounds of the tolerance, relative to the length of a loop and in rad.
MIN_TOLERANCE = 1e-4
MAX_TOLERANCE = 2e-3
MIN_DIGITS = 4  # numbers with fewer digits may be exact
MAX_NUMBERS = 20_000  # numbers of a file that are examined
LENGTHS = {"xyz", "pos", "anchor", "relpose", "quat", "axis", "axisangle", "xyaxes", "zaxis", "fromto"}
ANGLES = {"rpy"}
_NUMBER = re.compile(r"[+-]?([0-9]*)\.?([0-9]*)(?:[eE][+-]?[0-9]+)?")


def tolerance_of(root: Element) -> float | None:
    """Return the tolerance for closing loops, relative to their lengths and in rad; None for the default."""
    digits: list[int] = []
    angle_error = 0.0
    for count, (word, is_angle) in enumerate(_numbers(root)):
        if count > MAX_NUMBERS:
            break
        n_digits = _digits(word)
        if is_angle and n_digits >= MIN_DIGITS - 1:
            angle_error = max(angle_error, _from_right_angle(word))
        if n_digits >= MIN_DIGITS:
            digits.append(n_digits)
    rounding = 3.0 * 10.0 ** (1.0 - median(digits)) if digits else 0.0
    tolerance = min(max(rounding, 30.0 * angle_error), MAX_TOLERANCE)
    return float(f"{tolerance:.2g}") if tolerance > MIN_TOLERANCE else None


def _numbers(root: Element) -> Iterator[tuple[str, bool]]:
    """Yield the numbers that place frames, and whether each is an angle [rad]."""
    stack = [root]
    while stack:
        element = stack.pop()
        stack += element.children
        for key, value in element.attributes.items():
            if key in LENGTHS or key in ANGLES:
                for word in value.split():
                    yield word, key in ANGLES
        if element.tag in ("pose", "xyz") and element.text:
            words = element.text.split()
            radians = (
                element.tag == "pose"
                and element.attributes.get("degrees", "false") in ("false", "0")
                and len(words) == 6
            )
            for k, word in enumerate(words):
                yield word, radians and k >= 3


def _digits(word: str) -> int:
    """Return the number of significant digits without trailing zeros; 0 if it is not a decimal number."""
    match = _NUMBER.fullmatch(word)
    if not match:
        return 0
    before = match[1]
    after = match[2]
    return len((before + after).strip("0")) if after else len(before.strip("0"))


def _from_right_angle(word: str) -> float:
    """Return the rounding error of an angle that is a multiple of π/2; zero if it is none, or exact."""
    value = abs(float(word))
    nearest = round(value / (0.5 * math.pi))
    if nearest == 0 or nearest > 8:
        return 0.0
    error = abs(value - nearest * 0.5 * math.pi)
    decimals = len(word.partition(".")[2].split("e")[0].split("E")[0])
    return error if 1e-13 < error <= 0.51 * 10.0**-decimals else 0.0
