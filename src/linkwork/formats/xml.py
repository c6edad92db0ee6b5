"""A minimal XML tree for untrusted files.

Entities, document types and external files are rejected, sizes are bounded, and every element has its line
number for error messages.
"""

from __future__ import annotations

import math
import os
import re
import stat
from typing import NoReturn
from xml.parsers import expat

from linkwork.errors import LimitError, ModelError
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable

MAX_DEPTH = 100  # nested elements
MAX_DEPTH_BY_ROOT = {"mujoco": 450, "mujocoinclude": 450}  # of formats that nest elements like bodies
MAX_ATTRIBUTE = 2**16  # characters of one value
MAX_TAG = 2**20  # bytes of one tag or comment, which the parser buffers
CHUNK = 2**16  # bytes parsed at once
PATH = 1000  # characters of a path in a message
MAX_LABEL = 8  # nested elements in a message

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")  # matches in linear time
_WORD = re.compile(r"[^ \t\r\n]+")  # XML has no other white space
_XACRO = "if this is a xacro file, expand it first: `xacro robot.xacro > robot.urdf`"


class Element:
    """An XML element with its file and line, and the first `MAX_ATTRIBUTE` characters of its text."""

    __slots__ = ("attributes", "children", "line", "parent", "source", "tag", "text")

    def __init__(
        self, tag: str, attributes: dict[str, str], line: int, source: str, parent: Element | None = None
    ) -> None:
        self.tag = tag
        self.attributes = attributes
        self.line = line
        self.source = source
        self.parent = parent
        self.children: list[Element] = []
        self.text = ""

    @property
    def label(self) -> str:
        """The element with its parents up to the first named one, at most eight.

        For example `<mass> in <inertial> in <link name="foot">`.
        """
        words: list[str] = []
        element: Element | None = self
        while element is not None and (element.parent is not None or not words):
            name = element.attributes.get("name")
            words.append(
                f"<{printable(element.tag)}>"
                if name is None
                else f'<{printable(element.tag)} name="{printable(name)}">'
            )
            element = element.parent if name is None else None
        return " in ".join(words if len(words) <= MAX_LABEL else [*words[:MAX_LABEL], "..."])

    def error(self, text: str) -> ModelError:
        """Return a ModelError for this element."""
        return ModelError(self.message(text))

    def message(self, text: str) -> str:
        """Return a message about this element with its file and line."""
        return f"{printable(self.source, PATH)}:{self.line}: {self.label}: {text}"

    def all(self, tag: str) -> list[Element]:
        """Return the children with this tag."""
        return [child for child in self.children if child.tag == tag]

    def one(self, tag: str) -> Element | None:
        """Return the child with this tag, or None; raise ModelError if two differ."""
        children = self.all(tag)
        for duplicate in children[1:]:
            if (
                duplicate.attributes != children[0].attributes
                or duplicate.text != children[0].text
                or duplicate.children
                or children[0].children
            ):
                raise duplicate.error(
                    f"duplicate element: expected one, the first is in line {children[0].line}"
                )
        return children[0] if children else None

    def needed(self, tag: str) -> Element:
        """Return the child with this tag; raise ModelError if it is missing."""
        child = self.one(tag)
        if child is None:
            raise self.error(f"missing element <{tag}>")
        return child

    def word(self, key: str) -> str:
        """Return the attribute `key`; raise ModelError if it is missing or empty."""
        value = self.attributes.get(key)
        if not value:
            raise self.error(f"{'missing' if value is None else 'empty'} attribute {key}")
        return value

    def content(self) -> str:
        """Return the text without surrounding white space; raise ModelError if it is empty."""
        value = self.text.strip()
        if not value:
            raise self.error("empty element: expected text")
        return value

    def number(self, key: str, default: float | None = None, *, largest: float = math.inf) -> float:
        """Return the attribute `key` as one finite number; without a default it is required."""
        return self.numbers(key, 1, None if default is None else (default,), largest=largest)[0]

    def numbers(
        self, key: str, n: int, default: tuple[float, ...] | None = None, *, largest: float = math.inf
    ) -> tuple[float, ...]:
        """Return the attribute `key` (the text if "") as n finite numbers of at most `largest`.

        Without a default it is required.
        """
        if default is not None and not (self.attributes.get(key) is not None if key else self.text.strip()):
            return default
        text = self.word(key) if key else self.content()
        words = _WORD.findall(text)
        if len(words) == n and all(map(_NUMBER.fullmatch, words)):
            values = tuple(map(float, words))
            if all(abs(x) <= largest and not math.isinf(x) for x in values):
                return values
        invalid = next((w for w in words if not _NUMBER.fullmatch(w)), None)
        hint = f"; {_XACRO}" if "${" in text or "$(" in text else ""
        value = f'{key}="{printable(text)}"' if key else f"{printable(text)!r}"
        if invalid is not None:
            raise self.error(
                f"{value}: expected {_count(n)}, but {printable(invalid)!r} is not a finite decimal "
                f"number{hint}"
            )
        if len(words) != n:
            raise self.error(f"{value}: expected {_count(n)}, got {len(words)}")
        raise self.error(
            f"{value}: too large" + ("" if math.isinf(largest) else f"; expected at most {largest:g}")
        )


def content(path: str, limits: Limits) -> bytes:
    """Return the bytes of a regular file, at most one more than the limit."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):  # reading a pipe or device may block or never end
            with open(path, "rb") as file:
                return file.read(limits.size + 1)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{printable(path, PATH)}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    raise ModelError(
        f"{printable(path, PATH)}: expected a file, got "
        f"{'a folder' if stat.S_ISDIR(mode) else 'a special file'}"
    )


def parse(text: str | bytes, source: str, limits: Limits | None = None) -> Element:
    """Return the root element of an XML text, called `source` in errors.

    Bytes are decoded by their XML declaration.
    """
    encoding: str | None
    if isinstance(text, str):
        try:
            data = text.encode()
            encoding = "utf-8"
        except UnicodeEncodeError as error:
            raise ModelError(
                f"{printable(source, PATH)}: invalid Unicode text: {error.reason} at {error.start}"
            ) from None
    elif isinstance(text, (bytes, bytearray)):
        data = bytes(text)
        encoding = None
    else:
        raise ModelError(
            f"{printable(source, PATH)}: expected XML as str or bytes, got {type(text).__name__}"
        )
    limits = limits or Limits()
    if len(data) > limits.size:
        raise LimitError(
            f"{printable(source, PATH)}: larger than the limit of {limits.size} bytes: "
            f"{limits.raised('size')}"
        )
    return _Parser(source, encoding, limits).run(data)


KINDS = {  # first bytes of files that are often mistaken for others
    b"version https://git-lfs": "this is a Git LFS pointer: fetch the file with `git lfs pull`",
    b"\x1f\x8b": "this is a gzip archive: unpack it first",
    b"PK\x03\x04": "this is a zip archive: unpack it first",
}


def other_kind(data: bytes) -> str:
    """Return a hint at the actual type of a file that cannot be read, or ""."""
    return next((f"; {hint}" for begin, hint in KINDS.items() if data.startswith(begin)), "")


class _Parser:
    def __init__(self, source: str, encoding: str | None, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = 0
        self.depth = MAX_DEPTH
        self.longest = MAX_ATTRIBUTE
        self.expat = expat.ParserCreate(encoding)
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = lambda tag: self.open.pop()
        self.expat.CharacterDataHandler = self.characters
        self.expat.buffer_text = True
        self.expat.StartDoctypeDeclHandler = lambda *_: self.refuse("a document type (<!DOCTYPE ...>)")
        self.expat.EntityDeclHandler = lambda *_: self.refuse("an entity declaration")
        self.expat.ExternalEntityRefHandler = lambda *_: self.refuse("an external entity")

    def run(self, data: bytes) -> Element:
        try:
            for begin in range(0, len(data), CHUNK):
                self.expat.Parse(data[begin : begin + CHUNK], False)
                if begin - self.expat.CurrentByteIndex > MAX_TAG:  # an incomplete tag
                    raise self.error(f"a tag or comment is longer than the limit of {MAX_TAG} bytes")
            self.expat.Parse(b"", True)
        except expat.ExpatError as error:
            why = expat.ErrorString(error.code) + other_kind(data)
            if why == expat.errors.XML_ERROR_MISPLACED_XML_PI:
                why += "; <?xml ...?> must be at the very beginning"
            raise ModelError(
                f"{printable(self.source, PATH)}:{error.lineno}:{error.offset + 1}: not XML: {why}"
            ) from None
        except ModelError:
            raise
        except (LookupError, ValueError) as error:  # encodings unknown to Python or expat
            raise self.error(f"unsupported encoding; expected UTF-8 ({str(error)[:80]})") from None
        assert self.root is not None  # else expat raised
        return self.root

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1 + len(attributes)
        if self.count > self.limits.elements:
            message = f"more than {self.limits.elements} elements and attributes, the limit"
            raise LimitError(f"{self.where()}: {message}: {self.limits.raised('elements')}")
        if not self.open and tag in MAX_DEPTH_BY_ROOT:  # MJCF has arrays in attributes
            self.depth = MAX_DEPTH_BY_ROOT[tag]
            self.longest = MAX_TAG
        if len(self.open) >= self.depth:
            raise self.error(f"elements are nested deeper than the limit of {self.depth}")
        for key, value in attributes.items():
            if len(key) + len(value) > self.longest:
                raise self.error(
                    f"<{printable(tag)}>: attribute {printable(key)} is longer than the limit of "
                    f"{self.longest} characters"
                )
        parent = self.open[-1] if self.open else None
        element = Element(tag, attributes, self.expat.CurrentLineNumber, self.source, parent)
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self.open.append(element)

    def characters(self, text: str) -> None:
        element = self.open[-1]
        if len(element.text) < MAX_ATTRIBUTE and not text.isspace():
            element.text += text[: MAX_ATTRIBUTE - len(element.text)]

    def refuse(self, construct: str) -> NoReturn:
        raise self.error(f"{construct} is not allowed: remove it")

    def error(self, text: str) -> ModelError:
        return ModelError(f"{self.where()}: {text}")

    def where(self) -> str:
        """Return the file and current line."""
        return f"{printable(self.source, PATH)}:{self.expat.CurrentLineNumber}"


def _count(n: int) -> str:
    return "one number" if n == 1 else f"{n} numbers"
