"""A small tree of XML elements, read as if the file were hostile.

There are no entities, no document types and no other files; sizes are bounded; and every element knows its line, so that
whoever finds it wrong can say where it is.
"""

from __future__ import annotations

import math
import os
import re
import stat
from typing import NoReturn
from xml.parsers import expat

from linkwork.errors import LimitError, ModelError
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown

MAX_DEPTH = 100  # of elements within elements
DEEP = {"mujoco": 450, "mujocoinclude": 450}  # of files whose elements are nested as their bodies are
MAX_ATTRIBUTE = 2**16  # characters of one value
MAX_TAG = 2**20  # bytes of one tag or comment: a parser holds it whole
CHUNK = 2**16
PATH = 1000  # characters of a path in a message

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")  # in linear time, also for a long one
_WORD = re.compile(r"[^ \t\r\n]+")  # other white space is none in XML
_XACRO = "this may be a xacro file: expand it first, by `xacro robot.xacro > robot.urdf`"


class Element:
    """One element, with the file and line where it begins, and the first `MAX_ATTRIBUTE` characters of its own text."""

    __slots__ = ("attributes", "children", "line", "parent", "source", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], line: int, source: str, parent: Element | None = None) -> None:
        self.tag, self.attributes, self.line, self.source, self.parent = tag, attributes, line, source, parent
        self.children: list[Element] = []
        self.text = ""

    @property
    def label(self) -> str:
        """Such as `<mass> in <inertial> in <link name="foot">`: up to the first that has a name."""
        name = self.attributes.get("name")
        if name is not None:
            return f'<{shown(self.tag)} name="{shown(name)}">'
        return f"<{shown(self.tag)}>" + (f" in {self.parent.label}" if self.parent and self.parent.parent else "")

    def error(self, text: str) -> ModelError:
        """What is wrong with this element, to be raised."""
        return ModelError(self.told(text))

    def told(self, text: str) -> str:
        """What is to be said about this element, with its file and line."""
        return f"{shown(self.source, PATH)}:{self.line}: {self.label}: {text}"

    def all(self, tag: str) -> list[Element]:
        """The children of this tag."""
        return [child for child in self.children if child.tag == tag]

    def one(self, tag: str) -> Element | None:
        """The child of this tag, or None; two that differ are an error."""
        found = self.all(tag)
        for other in found[1:]:
            if other.attributes != found[0].attributes or other.text != found[0].text or other.children or found[0].children:
                raise other.error(f"there is already one in line {found[0].line}, and only one can count")
        return found[0] if found else None

    def needed(self, tag: str) -> Element:
        """The one child of this tag, which must be there."""
        found = self.one(tag)
        if found is None:
            raise self.error(f"it has no <{tag}>, and needs one")
        return found

    def word(self, key: str) -> str:
        """The attribute `key`, which must be there and not be empty."""
        value = self.attributes.get(key)
        if not value:
            raise self.error(f"its attribute {key} is {'missing' if value is None else 'empty'}")
        return value

    def content(self) -> str:
        """Its text without white space around it, which must not be empty."""
        value = self.text.strip()
        if not value:
            raise self.error("there is nothing in it")
        return value

    def number(self, key: str, default: float | None = None, *, largest: float = math.inf) -> float:
        """The attribute `key` as one finite number; without a default it must be there."""
        return self.numbers(key, 1, None if default is None else (default,), largest=largest)[0]

    def numbers(
        self, key: str, n: int, default: tuple[float, ...] | None = None, *, largest: float = math.inf
    ) -> tuple[float, ...]:
        """The attribute `key`, or the text where key is "", as n finite numbers of at most `largest`.

        Without a default it must be there.
        """
        if default is not None and not (self.attributes.get(key) is not None if key else self.text.strip()):
            return default
        text = self.word(key) if key else self.content()
        words = _WORD.findall(text)
        if len(words) == n and all(map(_NUMBER.fullmatch, words)):
            values = tuple(map(float, words))
            if all(abs(x) <= largest and not math.isinf(x) for x in values):
                return values
        wrong = next((w for w in words if not _NUMBER.fullmatch(w)), None)
        hint = f"; {_XACRO}" if "${" in text or "$(" in text else ""
        is_ = f'its {key}="{shown(text)}"' if key else f"{shown(text)!r} in it"
        if wrong is not None:
            raise self.error(f"{is_} must be {_count(n)}, but {shown(wrong)!r} is not a finite decimal number{hint}")
        if len(words) != n:
            raise self.error(f"{is_} must be {_count(n)}, not {len(words)}")
        raise self.error(f"{is_} is too large" + ("" if math.isinf(largest) else f": at most {largest:g} can be meant"))


def content(path: str, limits: Limits) -> bytes:
    """The bytes of a file, if it is one; no more than one above the limit."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):  # others may never end, or never begin
            with open(path, "rb") as file:
                return file.read(limits.size + 1)
    except (OSError, ValueError) as error:
        raise ModelError(f"{shown(path, PATH)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    raise ModelError(
        f"{shown(path, PATH)}: this is {'a folder' if stat.S_ISDIR(mode) else 'not a plain file'}, not a file to read"
    )


def parse(text: str | bytes, source: str, limits: Limits | None = None) -> Element:
    """The root element of an XML text; `source` names it in errors. Text is read as it is, bytes as their encoding says."""
    encoding: str | None
    if isinstance(text, str):
        try:
            data, encoding = text.encode(), "utf-8"
        except UnicodeEncodeError as error:
            raise ModelError(f"{shown(source, PATH)}: the text is not Unicode: {error.reason} at {error.start}") from None
    elif isinstance(text, (bytes, bytearray)):
        data, encoding = bytes(text), None
    else:
        raise ModelError(f"{shown(source, PATH)}: XML is text or bytes, not {type(text).__name__}")
    limits = limits or Limits()
    if len(data) > limits.size:
        raise LimitError(
            f"{shown(source, PATH)}: it is larger than {limits.size} bytes, the most that is read: {limits.raised('size')}"
        )
    return _Parser(source, encoding, limits).run(data)


KINDS = {  # how files begin that are often taken for others
    b"version https://git-lfs": "this is a pointer of Git LFS, and not the file itself: `git lfs pull` fetches that",
    b"\x1f\x8b": "this is a gzip archive: unpack it first",
    b"PK\x03\x04": "this is a zip archive: unpack it first",
}


def other_kind(data: bytes) -> str:
    """What a file that cannot be read is in truth, where its beginning tells: "; this is ...", or nothing."""
    return next((f"; {told}" for begin, told in KINDS.items() if data.startswith(begin)), "")


class _Parser:
    def __init__(self, source: str, encoding: str | None, limits: Limits) -> None:
        self.source, self.limits = source, limits
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = 0
        self.depth, self.longest = MAX_DEPTH, MAX_ATTRIBUTE
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
                if begin - self.expat.CurrentByteIndex > MAX_TAG:  # what waits to be whole
                    raise self.error(f"a tag or comment is longer than {MAX_TAG} bytes, the most that is read")
            self.expat.Parse(b"", True)
        except expat.ExpatError as error:
            why = expat.ErrorString(error.code) + other_kind(data)
            if why == expat.errors.XML_ERROR_MISPLACED_XML_PI:
                why += "; nothing, not even space, may come before <?xml ...?>"
            raise ModelError(f"{shown(self.source, PATH)}:{error.lineno}:{error.offset + 1}: not XML: {why}") from None
        except ModelError:
            raise
        except (LookupError, ValueError) as error:  # Python knows no such encoding, or expat cannot use it
            raise self.error(f"its encoding cannot be read; UTF-8 would be right ({str(error)[:80]})") from None
        assert self.root is not None  # or expat had found none
        return self.root

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1 + len(attributes)
        if self.count > self.limits.elements:
            most = f"there are more than {self.limits.elements} elements and attributes, the most that are read"
            raise LimitError(f"{self.where()}: {most}: {self.limits.raised('elements')}")
        if not self.open and tag in DEEP:  # its arrays are attributes
            self.depth, self.longest = DEEP[tag], MAX_TAG
        if len(self.open) >= self.depth:
            raise self.error(f"elements are nested deeper than {self.depth}, the most that is read")
        for key, value in attributes.items():
            if len(key) + len(value) > self.longest:
                raise self.error(
                    f"<{shown(tag)}>: its attribute {shown(key)} is longer than {self.longest} characters, the most"
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

    def refuse(self, what: str) -> NoReturn:
        raise self.error(f"it holds {what}, which is never read: take it out")

    def error(self, text: str) -> ModelError:
        return ModelError(f"{self.where()}: {text}")

    def where(self) -> str:
        """The file and the line that is being read."""
        return f"{shown(self.source, PATH)}:{self.expat.CurrentLineNumber}"


def _count(n: int) -> str:
    return "one number" if n == 1 else f"{n} numbers"
