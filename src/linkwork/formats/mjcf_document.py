"""MJCF text ready for the compiler, with errors located in the user's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from linkwork.errors import LimitError, ModelError
from linkwork.formats.mjcf_process import Compiled, CompilerError, compile_mjcf
from linkwork.formats.xml import Element
from linkwork.mechanism.names import printable

_LINE = re.compile(r"\(?,?\s*\bline (\d+)\b\)?")
_NUMBER = re.compile(r"\bid (\d{1,6})\b")
_PLACED = re.compile(r".*:\d+: <")  # from Element.message
_WORDS = re.compile(r"(?<!')\b[a-z]+\b(?!')")  # unquoted words
_QUOTED = re.compile(r"\b([a-z]+) '([^']*)'")


@dataclass
class Document:
    """A text to compile, with the elements on its lines and the files behind its names."""

    text: str
    elements: list[Element]  # by line
    meshes: dict[str, list[str]] = field(
        default_factory=dict
    )  # name in the text -> path, and why it is empty
    models: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # name in the text -> name in the user's file
    unread: set[str] = field(default_factory=set)  # height fields without known heights

    def compiled(self, *, free: bool) -> Compiled:
        """Return the compiled model, with errors that name the element in the user's file.

        `free`: add a free joint to the base.
        """
        try:
            return compile_mjcf(self.text, self.models, self.meshes, free=free)
        except CompilerError as error:
            raise self._located(str(error)) from None
        except LimitError as error:
            raise LimitError(self.elements[0].message(str(error))) from None

    def _located(self, text: str) -> ModelError:
        line_match = _LINE.search(text)
        line = int(line_match[1]) if line_match else 0
        element = self.elements[line - 1] if 0 < line <= len(self.elements) else self._named(text)
        message = "; ".join(part.strip() for part in _LINE.sub("", text).splitlines() if part.strip())
        for name, file in self.files.items():
            message = message.replace(name, file)
        return element.error(printable(message, 530))

    @contextmanager
    def errors_located(self) -> Iterator[None]:
        """Raise ModelErrors of the block with the file and line of the element that they name."""
        try:
            yield
        except ModelError as error:
            if _PLACED.match(str(error)):
                raise
            raise type(error)(self._named(str(error)).message(str(error))) from None

    def _named(self, text: str) -> Element:
        """Return the element that a text names (mesh 'hull'), else one with a mentioned attribute,
        or the root.
        """
        named = {(e.tag, e.attributes["name"]): e for e in self.elements if "name" in e.attributes}
        # MuJoCo refers to <key> elements as keyframes, by name or by number.
        keys = [e for e in self.elements if e.tag == "key"]
        named |= {("keyframe", e.attributes["name"]): e for e in keys if "name" in e.attributes}
        number = _NUMBER.search(text) if "keyframe ''" in text else None
        if number and int(number[1]) < len(keys):
            return keys[int(number[1])]
        quoted_element = next((named[pair] for pair in _QUOTED.findall(text) if pair in named), None)
        tags = {tag for tag, _ in _QUOTED.findall(text)}
        words = _WORDS.findall(text)
        with_attribute = (
            e
            for e in self.elements
            if (not tags or e.tag in tags) and any(word in e.attributes for word in words)
        )
        return quoted_element or next(with_attribute, self.elements[0])
