"""How nearly the loops of a file can close: from the digits of its numbers.

A number of d significant digits is off by up to half a unit of its last one. Angles tell more: 1.5708 or -1.57 are right
angles, and miss them by what is known exactly. Short numbers (0.25) may be meant as they are, and tell nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import median

from linkwork.formats.xml import Element

LEAST, MOST = 1e-4, 2e-3  # of the tolerance: relative to the length of a loop, and in rad
SHORT = 4  # numbers with fewer digits may be exact
LOOKED_AT = 20_000  # numbers of a file, at most
LENGTHS = {"xyz", "pos", "anchor", "relpose", "quat", "axis", "axisangle", "xyaxes", "zaxis", "fromto"}
ANGLES = {"rpy"}
_NUMBER = re.compile(r"[+-]?([0-9]*)\.?([0-9]*)(?:[eE][+-]?[0-9]+)?")


def tolerance_of(root: Element) -> float | None:
    """The tolerance for closing loops, relative to their lengths and in rad; None where the usual one will do."""
    digits: list[int] = []
    turned = 0.0
    for count, (word, is_angle) in enumerate(_numbers(root)):
        if count > LOOKED_AT:
            break
        known = _digits(word)
        if is_angle and known >= SHORT - 1:
            turned = max(turned, _from_right_angle(word))
        if known >= SHORT:
            digits.append(known)
    rounding = 3.0 * 10.0 ** (1.0 - median(digits)) if digits else 0.0
    found = min(max(rounding, 30.0 * turned), MOST)
    return float(f"{found:.2g}") if found > LEAST else None


def _numbers(root: Element) -> Iterator[tuple[str, bool]]:
    """The numbers that place frames, and whether each is an angle [rad]."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        waiting += element.children
        for key, value in element.attributes.items():
            if key in LENGTHS or key in ANGLES:
                for word in value.split():
                    yield word, key in ANGLES
        if element.tag in ("pose", "xyz") and element.text:
            words = element.text.split()
            radians = element.tag == "pose" and element.attributes.get("degrees", "false") in ("false", "0") and len(words) == 6
            for k, word in enumerate(words):
                yield word, radians and k >= 3


def _digits(word: str) -> int:
    """Significant digits, without zeros at the end; none for what is no decimal number."""
    found = _NUMBER.fullmatch(word)
    if not found:
        return 0
    before, after = found[1], found[2]
    return len((before + after).strip("0")) if after else len(before.strip("0"))


def _from_right_angle(word: str) -> float:
    """By how much an angle misses the multiple of π/2 that it is, rounded; zero where it is none, or exact."""
    value = abs(float(word))
    nearest = round(value / (0.5 * math.pi))
    if nearest == 0 or nearest > 8:
        return 0.0
    off = abs(value - nearest * 0.5 * math.pi)
    decimals = len(word.partition(".")[2].split("e")[0].split("E")[0])
    return off if 1e-13 < off <= 0.51 * 10.0**-decimals else 0.0
