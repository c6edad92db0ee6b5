"""XML output: elements with attributes, and numbers with all their digits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.urdf_parts import MAX_NAME, MAX_VALUE
from linkwork.mechanism.names import printable
from linkwork.spatial import Pose

_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&apos;",
    "\n": "&#10;",
    "\r": "&#13;",
    "\t": "&#9;",
}
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not allowed in XML


class Tag:
    """An element to be written."""

    def __init__(self, tag: str, **attributes: Any) -> None:
        self.tag = tag
        self.attributes: dict[str, str] = {}
        for key, value in attributes.items():
            if value is None:
                continue
            try:
                self.attributes[key.rstrip("_")] = written(value)
            except ValueError as error:
                named = (
                    f" name={printable(attributes['name'])!r}"
                    if attributes.get("name") and key != "name"
                    else ""
                )
                raise ModelError(f"<{tag}{named}>: {key}: cannot be written: {error}") from None
        self.children: list[Tag] = []

    def add(self, tag: str, **attributes: Any) -> Tag:
        """Add a child and return it."""
        child = Tag(tag, **attributes)
        self.children.append(child)
        return child

    def set_long(self, key: str, text: str) -> None:
        """Set an attribute of any length, with few escapes."""
        self.attributes[key] = "".join(c if c in "'>" else _ESCAPES.get(c, c) for c in text)

    def text(self) -> str:
        """Return the element and its content, indented.

        It does not recurse, since chains of bodies may be long.
        """
        lines: list[str] = []
        stack: list[tuple[Tag | str, int]] = [(self, 0)]
        while stack:
            item, depth = stack.pop()
            indent = "  " * min(depth, 40)
            if isinstance(item, str):
                lines.append(indent + item)
                continue
            attributes_text = "".join(f' {key}="{value}"' for key, value in item.attributes.items())
            lines.append(f"{indent}<{item.tag}{attributes_text}{'' if item.children else '/'}>")
            if item.children:
                stack.append((f"</{item.tag}>", depth))
                stack += [(child, depth + 1) for child in reversed(item.children)]
        return "\n".join(lines) + "\n"

    def compact(self) -> str:
        """Return the element on one line, with single quotes around attributes."""
        parts: list[str] = []
        stack: list[Tag | str] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                parts.append(item)
                continue
            attributes_text = "".join(f" {key}='{value}'" for key, value in item.attributes.items())
            parts.append(f"<{item.tag}{attributes_text}{'>' if item.children else '/>'}")
            if item.children:
                stack.append(f"</{item.tag}>")
                stack += reversed(item.children)
        return "".join(parts)


class Names:
    """Unique names among MuJoCo elements of one kind, which may coincide in a model."""

    def __init__(self) -> None:
        self.taken: dict[str, set[str]] = {}

    def new(self, kind: str, preferred: str) -> str:
        """Return the preferred name, or an unused one that begins with it."""
        taken = self.taken.setdefault(kind, set())
        name = preferred
        k = 2
        while name in taken:
            name = f"{preferred} ({k})"
            k = k + 1
        taken.add(name)
        return name


def written(value: Any) -> str:
    """Return a value as the text of an attribute; raise ValueError for what files cannot hold."""
    if isinstance(value, str):
        if _UNWRITABLE.search(value):
            raise ValueError(f"{printable(value)!r} has characters that XML does not allow")
        if len(value) > MAX_NAME:
            raise ValueError(f"longer than {MAX_NAME} characters")
        return "".join(_ESCAPES.get(c, c) for c in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Iterable, np.ndarray)):
        return " ".join(written(x) for x in value)
    if isinstance(value, int):
        return str(value)
    number = float(value) + 0.0
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if not abs(number) <= MAX_VALUE:
        raise ValueError(f"expected a number of at most {MAX_VALUE:g}, got {number}")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def rpy(pose: Pose) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of a constant pose [rad]."""
    R = np.asarray(pose.R, dtype=float)
    across = math.hypot(R[0, 0], R[1, 0])
    yaw = math.atan2(R[1, 0], R[0, 0]) if across > 1e-15 else 0.0
    s = math.sin(yaw)
    c = math.cos(yaw)
    side = c * R[1] - s * R[0]  # accurate roll also for a pitch of a right angle
    return math.atan2(-side[2], side[1]), math.atan2(-R[2, 0], across), yaw


def place(tag: Tag, pose: Pose) -> None:
    """Add the <origin> of an element."""
    tag.add("origin", xyz=np.asarray(pose.p, dtype=float), rpy=rpy(pose))
