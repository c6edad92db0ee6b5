"""The YAML files beside collections of parallel robots: pairs of frames that close loops, 3D or 6D, of a URDF that is a tree.

    closed_loop: [[frame_a, frame_b], ...]    names of links, frames or joints
    type: [6d, 3d, ...]                       6D holds both frames on each other, 3D their origins
    name_mot: [hip, knee, ...]                joints with motors
    joint_name: [ankle, ...]                  joints of the URDF that are other ones in truth,
    joint_type: [SPHERICAL, ...]              these: SPHERICAL, FIXED, or UJOINT_XY (hinges about x, then y)

Only what these files use of YAML is read: lists in brackets or with dashes, and words with or without quotes.
"""

from __future__ import annotations

import re
from typing import Any

from linkwork.errors import LimitError, ModelError
from linkwork.formats.xml import PATH, content
from linkwork.joints import Fixed, Joint, Spherical
from linkwork.model.loop_joints import LoopJoint, LoopOptions
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown

KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type")
HELD: dict[str, type[Joint]] = {"3d": Spherical, "6d": Fixed}
TYPES = re.compile("SPHERICAL|FIXED|UJOINT_[XYZ][XYZ]")
MOST = 2**20  # bytes
DEEP = 5  # lists in lists
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*:(?:[ \t]+|$)")
_TOKEN = re.compile(r"""\s*(?:([\[\],])|"([^"]*)"|'([^']*)'|([^\s\[\],'"][^\[\],]*))""")


def loop_file(path: str, limits: Limits) -> LoopOptions:
    """The loops, motors and types of joints that a file gives."""
    data = content(path, limits)
    if len(data) > MOST:
        raise LimitError(f"{shown(path, PATH)}: it is larger than {MOST} bytes, the most that is read")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{shown(path, PATH)}: it is not text in UTF-8 ({error.reason} at {error.start})") from None
    found = _Reader(path, text).read()
    loops = []
    pairs, types = found.get("closed_loop", []), found.get("type", [])
    if len(pairs) != len(types):
        raise ModelError(f"{shown(path, PATH)}: closed_loop has {len(pairs)} pairs of frames, but type has {len(types)} words")
    for pair, type_ in zip(pairs, types):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise ModelError(f"{shown(path, PATH)}: closed_loop must be pairs of names, and {shown(pair)} is none")
        if not isinstance(type_, str) or type_.lower() not in HELD:
            raise ModelError(f"{shown(path, PATH)}: type must be 3D or 6D, not {shown(type_)}")
        name = f"{pair[0]} on {pair[1]}"
        loops.append(LoopJoint(name, HELD[type_.lower()](), predecessor=pair[0], successor=pair[1]))
    return LoopOptions(tuple(loops), motors=_words(path, found, "name_mot"), retyped=_retyped(path, found))


def _words(path: str, found: dict[str, Any], key: str) -> tuple[str, ...]:
    values = found.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ModelError(f"{shown(path, PATH)}: {key} must be a list of names, not {shown(values)}")
    return tuple(values)


def _retyped(path: str, found: dict[str, Any]) -> dict[str, str]:
    joints, types = _words(path, found, "joint_name"), _words(path, found, "joint_type")
    if len(joints) != len(types):
        raise ModelError(f"{shown(path, PATH)}: joint_name has {len(joints)} names, but joint_type has {len(types)}")
    for type_ in types:
        if not TYPES.fullmatch(type_):
            raise ModelError(f"{shown(path, PATH)}: joint_type must be SPHERICAL, FIXED or UJOINT_XY, not {shown(type_)}")
    return dict(zip(joints, types))


class _Reader:
    """Reads keys and their lists, and knows lines."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = [(k, _uncommented(line)) for k, line in enumerate(text.splitlines(), 1)]

    def error(self, line: int, text: str) -> ModelError:
        return ModelError(f"{shown(self.path, PATH)}:{line}: {text}")

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        key, first, lines = "", 0, []
        for number, line in [*self.lines, (0, "end:")]:
            if not line.strip() or line.strip() in ("---", "..."):
                continue
            begins = None if line[0] in " \t-[]" else _KEY.match(line)
            if begins is None:
                if not key:
                    raise self.error(number, f"there should be a key such as closed_loop: in {shown(line)!r}")
                lines.append((number, line))
                continue
            if key:
                found[key] = self._value(first, lines)
            key, first, lines = begins[1], number, [(number, line[begins.end() :])]
            if key in found:
                raise self.error(number, f"there is already a key {shown(key)!r}")
            if number and key not in KEYS:
                raise self.error(number, f"there is no key {shown(key)!r}; there are {', '.join(KEYS)}")
        return found

    def _value(self, first: int, lines: list[tuple[int, str]]) -> Any:
        text = [(number, line) for number, line in lines if line.strip()]
        if text and text[0][1].lstrip().startswith("-"):
            return self._dashes(text, 0)
        return self._brackets(first, "\n".join(line for _, line in text))

    def _dashes(self, lines: list[tuple[int, str]], depth: int) -> list[Any]:
        """A list with dashes, which may hold lists in brackets or with dashes."""
        found: list[Any] = []
        indent = len(lines[0][1]) - len(lines[0][1].lstrip())
        items: list[list[tuple[int, str]]] = []
        for number, line in lines:
            own = len(line) - len(line.lstrip())
            if own == indent and line.lstrip().startswith("-"):
                items.append([(number, line[:own] + " " + line[own + 1 :])])
            elif own > indent and items:
                items[-1].append((number, line))
            else:
                raise self.error(number, f"{shown(line)!r} is indented otherwise than the list that it is in")
        for item in items:
            inner = [(number, line) for number, line in item if line.strip()]
            if depth > DEEP:
                raise self.error(item[0][0], "lists are nested too deep")
            if inner and inner[0][1].lstrip().startswith("- "):
                found.append(self._dashes(inner, depth + 1))
            else:
                found.append(self._brackets(item[0][0], "\n".join(line for _, line in inner)))
        return found

    def _brackets(self, line: int, text: str) -> Any:
        """A list in brackets, or one word."""
        stack: list[list[Any]] = [[]]
        place = 0
        text = text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if not found:
                raise self.error(line + text[:place].count("\n"), f"{shown(text[place:].strip(), 40)!r} is no list of names")
            place = found.end()
            if found[1] == "[":
                stack.append([])
                if len(stack) > DEEP:
                    raise self.error(line, "lists are nested too deep")
            elif found[1] == "]":
                if len(stack) == 1:
                    raise self.error(line, "there is a ] too many")
                last = stack.pop()
                stack[-1].append(last)
            elif found[1] is None:
                stack[-1].append(next(x for x in found.groups()[1:] if x is not None).strip())
        if len(stack) > 1:
            raise self.error(line, "a [ is not closed")
        if len(stack[0]) != 1:
            raise self.error(line, "there should be one list")
        return stack[0][0]


def _uncommented(line: str) -> str:
    """A line without its comment."""
    quote = ""
    for k, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == "#" and (k == 0 or line[k - 1] in " \t"):
            return line[:k]
    return line
