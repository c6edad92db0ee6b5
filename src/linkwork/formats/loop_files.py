"""YAML files of parallel robots, which list the frame pairs that close the loops of a tree URDF.

    closed_loop: [[frame_a, frame_b], ...]    names of links, frames or joints
    type: [6d, 3d, ...]                       6D welds the frames, 3D connects their origins
    name_mot: [hip, knee, ...]                actuated joints
    joint_name: [ankle, ...]                  joints of the URDF that have another type,
    joint_type: [SPHERICAL, ...]              namely SPHERICAL, FIXED, or UJOINT_XY (hinges about x, then y)

Only the YAML of these files is supported: lists in brackets or with dashes, and words with or without quotes.
"""

from __future__ import annotations

import re
from typing import Any

from linkwork.errors import LimitError, ModelError
from linkwork.formats.xml import PATH, content
from linkwork.joints import Fixed, Joint, Spherical
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable
from linkwork.model.loop_joints import LoopJoint, LoopOptions

KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type")
LOOP_JOINTS: dict[str, type[Joint]] = {"3d": Spherical, "6d": Fixed}
TYPES = re.compile("SPHERICAL|FIXED|UJOINT_[XYZ][XYZ]")
MAX_SIZE = 2**20  # bytes
MAX_DEPTH = 5  # nested lists
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*:(?:[ \t]+|$)")
_TOKEN = re.compile(r"""\s*(?:([\[\],])|"([^"]*)"|'([^']*)'|([^\s\[\],'"][^\[\],]*))""")


def loop_file(path: str, limits: Limits) -> LoopOptions:
    """Return the loops, motors and joint types of a file."""
    data = content(path, limits)
    if len(data) > MAX_SIZE:
        raise LimitError(f"{printable(path, PATH)}: larger than the limit of {MAX_SIZE} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{printable(path, PATH)}: not UTF-8 text ({error.reason} at {error.start})"
        ) from None
    values_by_key = _Reader(path, text).read()
    loops = []
    pairs = values_by_key.get("closed_loop", [])
    types = values_by_key.get("type", [])
    if len(pairs) != len(types):
        raise ModelError(
            f"{printable(path, PATH)}: type: expected {len(pairs)} entries, one per pair of closed_loop; "
            f"got {len(types)}"
        )
    for pair, type_ in zip(pairs, types):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise ModelError(
                f"{printable(path, PATH)}: closed_loop: expected pairs of names, got {printable(pair)}"
            )
        if not isinstance(type_, str) or type_.lower() not in LOOP_JOINTS:
            raise ModelError(f"{printable(path, PATH)}: type: expected 3D or 6D, got {printable(type_)}")
        name = f"{pair[0]} on {pair[1]}"
        loops.append(LoopJoint(name, LOOP_JOINTS[type_.lower()](), predecessor=pair[0], successor=pair[1]))
    return LoopOptions(
        tuple(loops), motors=_words(path, values_by_key, "name_mot"), retyped=_retyped(path, values_by_key)
    )


def _words(path: str, values_by_key: dict[str, Any], key: str) -> tuple[str, ...]:
    values = values_by_key.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ModelError(f"{printable(path, PATH)}: {key}: expected a list of names, got {printable(values)}")
    return tuple(values)


def _retyped(path: str, values_by_key: dict[str, Any]) -> dict[str, str]:
    joints = _words(path, values_by_key, "joint_name")
    types = _words(path, values_by_key, "joint_type")
    if len(joints) != len(types):
        raise ModelError(
            f"{printable(path, PATH)}: joint_type: expected {len(joints)} entries, one per joint_name; "
            f"got {len(types)}"
        )
    for type_ in types:
        if not TYPES.fullmatch(type_):
            raise ModelError(
                f"{printable(path, PATH)}: joint_type: expected SPHERICAL, FIXED or UJOINT_XY, got {printable(type_)}"
            )
    return dict(zip(joints, types))


class _Reader:
    """A parser of keys and lists that tracks line numbers."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = [(k, _uncommented(line)) for k, line in enumerate(text.splitlines(), 1)]

    def error(self, line: int, text: str) -> ModelError:
        return ModelError(f"{printable(self.path, PATH)}:{line}: {text}")

    def read(self) -> dict[str, Any]:
        values_by_key: dict[str, Any] = {}
        key = ""
        first = 0
        lines = []
        for number, line in [*self.lines, (0, "end:")]:
            if not line.strip() or line.strip() in ("---", "..."):
                continue
            key_match = None if line[0] in " \t-[]" else _KEY.match(line)
            if key_match is None:
                if not key:
                    raise self.error(number, f"expected a key such as closed_loop:, got {printable(line)!r}")
                lines.append((number, line))
                continue
            if key:
                values_by_key[key] = self._value(first, lines)
            key = key_match[1]
            first = number
            lines = [(number, line[key_match.end() :])]
            if key in values_by_key:
                raise self.error(number, f"duplicate key {printable(key)!r}")
            if number and key not in KEYS:
                raise self.error(number, f"unknown key {printable(key)!r}; expected one of {', '.join(KEYS)}")
        return values_by_key

    def _value(self, first: int, lines: list[tuple[int, str]]) -> Any:
        text = [(number, line) for number, line in lines if line.strip()]
        if text and text[0][1].lstrip().startswith("-"):
            return self._dashes(text, 0)
        return self._brackets(first, "\n".join(line for _, line in text))

    def _dashes(self, lines: list[tuple[int, str]], depth: int) -> list[Any]:
        """Return a list with dashes, which may contain lists in brackets or with dashes."""
        values: list[Any] = []
        indent = len(lines[0][1]) - len(lines[0][1].lstrip())
        items: list[list[tuple[int, str]]] = []
        for number, line in lines:
            line_indent = len(line) - len(line.lstrip())
            if line_indent == indent and line.lstrip().startswith("-"):
                items.append([(number, line[:line_indent] + " " + line[line_indent + 1 :])])
            elif line_indent > indent and items:
                items[-1].append((number, line))
            else:
                raise self.error(number, f"inconsistent indentation of {printable(line)!r}")
        for item in items:
            inner = [(number, line) for number, line in item if line.strip()]
            if depth > MAX_DEPTH:
                raise self.error(item[0][0], f"lists are nested deeper than {MAX_DEPTH}")
            if inner and inner[0][1].lstrip().startswith("- "):
                values.append(self._dashes(inner, depth + 1))
            else:
                values.append(self._brackets(item[0][0], "\n".join(line for _, line in inner)))
        return values

    def _brackets(self, line: int, text: str) -> Any:
        """Return a list in brackets, or a single word."""
        stack: list[list[Any]] = [[]]
        position = 0
        text = text.rstrip()
        while position < len(text):
            token = _TOKEN.match(text, position)
            if not token:
                raise self.error(
                    line + text[:position].count("\n"),
                    f"expected a list of names, got {printable(text[position:].strip(), 40)!r}",
                )
            position = token.end()
            if token[1] == "[":
                stack.append([])
                if len(stack) > MAX_DEPTH:
                    raise self.error(line, f"lists are nested deeper than {MAX_DEPTH}")
            elif token[1] == "]":
                if len(stack) == 1:
                    raise self.error(line, "unmatched ]")
                closed = stack.pop()
                stack[-1].append(closed)
            elif token[1] is None:
                stack[-1].append(next(x for x in token.groups()[1:] if x is not None).strip())
        if len(stack) > 1:
            raise self.error(line, "unmatched [")
        if len(stack[0]) != 1:
            raise self.error(line, f"expected one list, got {len(stack[0])}")
        return stack[0][0]


def _uncommented(line: str) -> str:
    """Return a line without its comment."""
    quote = ""
    for k, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == "#" and (k == 0 or line[k - 1] in " \t"):
            return line[:k]
    return line
