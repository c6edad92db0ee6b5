"""XML as text: elements with attributes, and numbers with all their digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from linkwork.spatial import Pose

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


class Tag:
    """An element to be written."""

    def __init__(self, tag: str, **attributes: Any) -> None:
        self.tag = tag
        self.attributes = {key.rstrip("_"): written(value) for key, value in attributes.items() if value is not None}
        self.children: list[Tag] = []

    def add(self, tag: str, **attributes: Any) -> Tag:
        """A child, which is given back."""
        child = Tag(tag, **attributes)
        self.children.append(child)
        return child

    def text(self) -> str:
        """The element and all in it, indented; without recursion, since chains of bodies may be long."""
        lines: list[str] = []
        waiting: list[tuple[Tag | str, int]] = [(self, 0)]
        while waiting:
            item, depth = waiting.pop()
            indent = "  " * min(depth, 40)
            if isinstance(item, str):
                lines.append(indent + item)
                continue
            words = "".join(f' {key}="{value}"' for key, value in item.attributes.items())
            lines.append(f"{indent}<{item.tag}{words}{'' if item.children else '/'}>")
            if item.children:
                waiting.append((f"</{item.tag}>", depth))
                waiting += [(child, depth + 1) for child in reversed(item.children)]
        return "\n".join(lines) + "\n"


def written(value: Any) -> str:
    """A word, a number or several as the value of an attribute."""
    if isinstance(value, str):
        return "".join(_ESCAPES.get(c, c) for c in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Iterable, np.ndarray)):
        return " ".join(written(x) for x in value)
    if isinstance(value, int):
        return str(value)
    number = float(value) + 0.0
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def rpy(pose: Pose) -> tuple[float, float, float]:
    """Roll, pitch and yaw of a constant pose [rad]."""
    R = np.asarray(pose.R, dtype=float)
    across = math.hypot(R[0, 0], R[1, 0])
    if across > 1e-9:
        return math.atan2(R[2, 1], R[2, 2]), math.atan2(-R[2, 0], across), math.atan2(R[1, 0], R[0, 0])
    return math.atan2(-R[1, 2], R[1, 1]), math.atan2(-R[2, 0], across), 0.0
