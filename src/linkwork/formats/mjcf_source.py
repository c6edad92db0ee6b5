"""MJCF before it is compiled: one text without includes, in which nothing is opened but meshes inside the named folders.

MuJoCo's compiler would open any file that a text names. So includes are put in here, what only draws or senses is left out, and
names that linkwork chose stand for the files of meshes and of models to attach. Each element is on a line of its own, so
that an error that names a line is told with the element and its place in the user's file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.formats import xml
from linkwork.formats.folders import Folders
from linkwork.formats.mjcf_process import Compiled, CompilerError, compile_mjcf
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown

FILES = 200  # includes and models of one file
DRAWN = {"texture", "skin", "light", "camera", "visual", "statistic"}  # what only draws
UNREAD = {  # what has no counterpart, and is not shown to the compiler
    "sensor": "sensors are not read",
    "custom": "<custom> is not read",
    "extension": "plugins are not read, and what they would do is missing",
    "plugin": "plugins are not read, and what they would do is missing",
}
REFUSED = {
    "flexcomp": "soft bodies (flex) have no counterpart: take it out",
    "flex": "soft bodies (flex) have no counterpart: take it out",
}
NAMES = {  # attributes that may be any word
    "name", "class", "childclass", "file", "model", "prefix", "suffix", "joint", "joint1", "joint2", "jointinparent", "body",
    "body1", "body2", "site", "site1", "site2", "geom", "geom1", "geom2", "mesh", "material", "hfield", "tendon", "tendon1",
    "tendon2", "actuator", "target", "refsite", "slidersite", "cranksite", "sidesite", "texture", "layer", "frame",
}  # fmt: skip
DIRECTORIES = ("meshdir", "texturedir", "assetdir", "strippath")
LARGEST_COUNT = 10**7
COMPILED = 10  # of so many elements and attributes that may be read, one element may be compiled, in more than linear time
LINEAR = {"actuator", "tendon", "contact"}  # what is in these takes linear time: as many as may be read
FRAME = 2  # elements as which one <frame> counts: it takes longest
MOST_HEIGHTS = 10**6  # of a height field
_LINE = re.compile(r"\(?,?\s*\bline (\d+)\b\)?")
_NUMBER = re.compile(r"\bid (\d{1,6})\b")
_PLACED = re.compile(r".*:\d+: <")  # by Element.told
_WORDS = re.compile(r"(?<!')\b[a-z]+\b(?!')")  # that are not quoted
_QUOTED = re.compile(r"\b([a-z]+) '([^']*)'")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


@dataclass
class Document:
    """What is to be compiled, and whose names stand for what."""

    text: str
    elements: list[Element]  # by line
    meshes: dict[str, list[str]] = field(default_factory=dict)  # name here -> path, and why there is none
    models: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # name here -> as the user's file writes it
    unread: set[str] = field(default_factory=set)  # height fields whose heights are not known

    def compiled(self) -> Compiled:
        """The compiled model; what is wrong is told with the element that the compiler names."""
        try:
            return compile_mjcf(self.text, self.models, self.meshes)
        except CompilerError as error:
            raise self._told(str(error)) from None
        except LimitError as error:
            raise LimitError(self.elements[0].told(str(error))) from None

    def _told(self, text: str) -> ModelError:
        found = _LINE.search(text)
        line = int(found[1]) if found else 0
        element = self.elements[line - 1] if 0 < line <= len(self.elements) else self._named(text)
        said = "; ".join(part.strip() for part in _LINE.sub("", text).splitlines() if part.strip())
        for name, file in self.files.items():
            said = said.replace(name, file)
        return element.error(shown(said, 530))

    @contextmanager
    def places_told(self) -> Iterator[None]:
        """In such a block, an error that has no place in a file is told with the element that it names."""
        try:
            yield
        except ModelError as error:
            if _PLACED.match(str(error)):
                raise
            raise type(error)(self._named(str(error)).told(str(error))) from None

    def _named(self, text: str) -> Element:
        """The element that a text names, such as mesh 'hull'; else one that has an attribute of its words; else the root."""
        named = {(e.tag, e.attributes["name"]): e for e in self.elements if "name" in e.attributes}
        keys = [e for e in self.elements if e.tag == "key"]  # which MuJoCo calls keyframes, and tells by name or by number
        named |= {("keyframe", e.attributes["name"]): e for e in keys if "name" in e.attributes}
        number = _NUMBER.search(text) if "keyframe ''" in text else None
        if number and int(number[1]) < len(keys):
            return keys[int(number[1])]
        found = next((named[pair] for pair in _QUOTED.findall(text) if pair in named), None)
        tags, words = {tag for tag, _ in _QUOTED.findall(text)}, _WORDS.findall(text)
        having = (e for e in self.elements if (not tags or e.tag in tags) and any(word in e.attributes for word in words))
        return found or next(having, self.elements[0])


class Preparation:
    """Makes a document of the elements of a file."""

    def __init__(self, folders: Folders, limits: Limits, notes: Notes) -> None:
        self.folders, self.limits, self.notes = folders, limits, notes
        self.opened = 0
        self.taken = 0  # elements and attributes of further files
        self.meshes: dict[str, list[str]] = {}
        self.models: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.unread: set[str] = set()

    def document(self, root: Element) -> Document:
        text, elements = self._text(root, ())
        return Document(text, elements, self.meshes, self.models, self.files, self.unread)

    def _text(self, root: Element, within: tuple[str, ...]) -> tuple[str, list[Element]]:
        """One text without includes, line by line."""
        self._include(root, within)
        self._count(root)
        self._leave_out_missing_materials(root)
        meshdir, assetdir, strip = "", "", False
        for compiler in root.all("compiler"):
            meshdir = compiler.attributes.get("meshdir", meshdir)
            assetdir = compiler.attributes.get("assetdir", assetdir)
            strip = compiler.attributes.get("strippath", str(strip)).lower() == "true"
        self.below = meshdir or assetdir
        self.strip = strip
        lines: list[str] = []
        elements: list[Element] = []
        waiting: list[Element | str] = [root]
        while waiting:
            element = waiting.pop()
            if isinstance(element, str):
                lines[-1] += element
                continue
            kept = self._kept(element, within)
            if kept is None:
                continue
            words = "".join(f' {key}="{_escaped(value)}"' for key, value in kept.items())
            elements.append(element)
            lines.append(f"<{element.tag}{words}>")
            waiting.append(f"</{element.tag}>")
            if element is root:
                waiting.append('<compiler><lengthrange mode="none"/></compiler>')
            waiting += reversed(element.children)
        return "\n".join(lines), elements

    def _leave_out_missing_materials(self, root: Element) -> None:
        """Parts of scenes name materials of their scenes; these only draw, and must not keep a part from being read."""
        every = [root]
        for element in every:
            every += element.children
        if any(element.tag == "attach" for element in every):  # it may bring materials
            return
        defined = {element.attributes.get("name") for element in every if element.tag == "material"}
        for element in every:
            name = element.attributes.get("material", "")
            if name and name not in defined:
                self.notes.add("a material that is not defined is left out", f"{shown(name)} (line {element.line})")
                del element.attributes["material"]

    # what stays

    def _kept(self, element: Element, within: tuple[str, ...]) -> dict[str, str] | None:
        """The attributes of an element as the compiler gets them, or None for what is left out."""
        tag, attributes = element.tag, dict(element.attributes)
        if not _NAME.fullmatch(tag):
            raise element.error("there is no such element in MJCF")
        for key, value in attributes.items():
            if key not in NAMES and "nan" in value.lower().replace("-", " ").replace("+", " ").split():
                raise element.error(f"its {shown(key)}={shown(value)!r} must be finite numbers")
        if tag in REFUSED:
            raise element.error(REFUSED[tag])
        if tag in UNREAD:
            count = len(element.children) if tag in ("sensor", "custom") else 1
            self.notes.add(UNREAD[tag], f"line {element.line}" + (f" ({count})" if count > 1 else ""))
            return None
        if tag in DRAWN or tag == "size":
            return None
        if tag == "actuator":
            element.children = [child for child in element.children if self._is_plain(child)]
        if tag == "compiler":
            element.children = [child for child in element.children if child.tag != "lengthrange"]
            return {key: value for key, value in attributes.items() if key not in DIRECTORIES}
        if tag == "material":
            element.children = []
            attributes.pop("texture", None)
        elif tag == "mesh":
            self._mesh(element, attributes, within)
        elif tag == "hfield":
            attributes = self._height_field(element, attributes)
        elif tag == "model" and "file" in attributes:
            self._model(element, attributes, within)
        elif "file" in attributes:
            raise element.error("MJCF has no file here")
        return attributes

    def _is_plain(self, actuator: Element) -> bool:
        if actuator.tag != "plugin":
            return True
        self.notes.add(UNREAD["plugin"], f"line {actuator.line}")
        return False

    def _mesh(self, mesh: Element, attributes: dict[str, str], within: tuple[str, ...]) -> None:
        attributes.pop("content_type", None)
        for word in attributes.get("params", "").split():
            if word.isdigit() and int(word) > 200:
                raise mesh.error(f"its params {shown(attributes['params'])!r} ask for too many vertices")
        if "file" not in attributes:
            return
        file = attributes["file"]
        if self.strip:
            file = file.replace("\\", "/").rpartition("/")[2]
        attributes.setdefault("name", _stem(file))
        name = f"linkwork{len(self.files)}{os.path.splitext(file)[1].lower()}"
        own = [os.path.dirname(os.path.abspath(path)) for path in (*within[-1:], mesh.source)]  # of the file that names it
        near = [*(os.path.join(folder, self.below) for folder in own), *own]
        found = self.folders.find(file, *((*near, self.below) if within else (self.below, *near))) if file else None
        self.meshes[name] = list(found) if found else ["", "it names no file"]
        self.files[name] = self.folders.inside(found.path) if found and found.path else os.path.join(self.below, file)
        attributes["file"] = name

    def _height_field(self, element: Element, attributes: dict[str, str]) -> dict[str, str]:
        """Heights that the text has stay, and those of a file of numbers take their place; pictures are not read."""
        kept = {key: value for key, value in attributes.items() if key in ("name", "size", "nrow", "ncol", "elevation")}
        if "file" in attributes:
            kept.setdefault("name", _stem(attributes["file"]))
            kept |= self._heights_of(element, attributes["file"]) or {"nrow": "2", "ncol": "2"}
            if "elevation" not in kept:
                self.unread.add(kept["name"])
        elif _whole(element, "nrow", 1) * _whole(element, "ncol", 1) > MOST_HEIGHTS:
            raise LimitError(element.told(f"it has more than {MOST_HEIGHTS} heights, the most that are read"))
        return kept

    def _heights_of(self, element: Element, file: str) -> dict[str, str]:
        """The grid of a file in MuJoCo's own form: two whole numbers, and a height for each place."""
        found = self.folders.find(file, self.below)
        if file.lower().endswith(".png") or not found.path:
            why = "it is a picture" if found.path else found.why
            self.notes.add(f"the heights of a height field's file are not read: {why}", f"line {element.line}")
            return {}
        with open(found.path, "rb") as opened:
            data = opened.read(8 + 4 * MOST_HEIGHTS + 1)
        rows, columns = np.frombuffer(data[:8].ljust(8, b"\0"), "<i4").tolist()
        if rows < 2 or columns < 2 or len(data) != 8 + 4 * rows * columns:
            raise element.error(f"its file {shown(file)!r} is no height field of at most {MOST_HEIGHTS} heights")
        heights = np.frombuffer(data, "<f4", offset=8).reshape(rows, columns)[::-1]  # texts begin with the last row
        return {"nrow": str(rows), "ncol": str(columns), "elevation": " ".join(repr(float(x)) for x in heights.ravel())}

    # further files

    def _include(self, root: Element, within: tuple[str, ...]) -> None:
        """Puts the elements of other files in the places of <include>."""
        waiting = [(root, within)]
        while waiting:
            element, inside = waiting.pop()
            children: list[Element] = []
            for child in element.children:
                if child.tag != "include":
                    children.append(child)
                    waiting.append((child, inside))
                    continue
                found, path = self._opened(child, inside)
                if found.tag not in ("mujoco", "mujocoinclude"):
                    raise child.error(f"it includes <{shown(found.tag)}>, which must be <mujoco> or <mujocoinclude>")
                holder = Element(element.tag, {}, child.line, child.source, element)
                holder.children = found.children
                for grandchild in holder.children:
                    grandchild.parent = element
                waiting_before = (*inside, path)
                self._include(holder, waiting_before)
                children += holder.children
            element.children = children

    def _model(self, element: Element, attributes: dict[str, str], within: tuple[str, ...]) -> None:
        """A model to attach becomes a text of its own."""
        root, path = self._opened(element, within)
        if root.tag != "mujoco":
            raise element.error(f"its root is <{shown(root.tag)}>: only MJCF can be attached")
        below, strip = self.below, self.strip
        text, _ = self._text(root, (*within, path))
        self.below, self.strip = below, strip
        name = f"linkwork{len(self.files)}.xml"
        self.files[name], self.models[name] = attributes["file"], text
        attributes.setdefault("name", root.attributes.get("model", _stem(attributes["file"])))
        attributes["file"] = name

    def _opened(self, element: Element, within: tuple[str, ...]) -> tuple[Element, str]:
        """The root of a file that an element names, and its path."""
        file = element.word("file")
        nearby = [os.path.dirname(path) for path in within[-1:]]
        found = self.folders.find(file, "", *nearby)
        if not found.path:
            raise element.error(f"its file {shown(file)!r} is not opened: {found.why}")
        if found.path in within:
            raise element.error(f"its file {shown(file)!r} includes itself")
        self.opened += 1
        if self.opened > FILES:
            raise LimitError(element.told(f"more than {FILES} files are included, the most that are read"))
        left = max(1, self.limits.elements - self.taken)
        try:
            limits = Limits(size=self.limits.size, elements=left)
            root = xml.parse(xml.content(found.path, self.limits), found.path, limits)
        except LimitError:
            many = f"there are more than {self.limits.elements} elements and attributes in all files"
            raise LimitError(element.told(f"{many}: {self.limits.raised('elements')}")) from None
        self.taken += _size(root)
        return root, found.path

    # how much it becomes

    def _count(self, root: Element) -> None:
        """That there are not more elements and bodies than the limits allow, with what <replicate> and <composite> make."""
        bodies, every = 0, 0
        most = self.limits.elements // COMPILED
        waiting: list[tuple[Element, int]] = [(root, 1)]
        while waiting:
            element, times = waiting.pop()
            if element.tag in DRAWN or element.tag in UNREAD or (element.tag in LINEAR and element.parent is root):
                continue
            if element.tag == "replicate":
                times *= _whole(element, "count", 1)
            if element.tag == "composite":
                times *= max(1, _whole(element, "count", 1))
            every += times * (FRAME if element.tag == "frame" else 1)
            bodies += times if element.tag in ("body", "composite") else 0
            if every > most:
                told = f"there are more than {most} elements to compile, 1 in {COMPILED} of all elements and attributes to read"
                raise LimitError(element.told(f"{told}: {self.limits.raised('elements')}"))
            if bodies > self.limits.links:
                raise LimitError(element.told(f"it makes more than {self.limits.links} bodies: {self.limits.raised('links')}"))
            waiting += [(child, times) for child in element.children]


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _whole(element: Element, key: str, default: int) -> int:
    """The product of the whole numbers in an attribute."""
    found = 1
    for word in element.attributes.get(key, str(default)).split():
        if not word.isascii() or not word.isdigit() or len(word) > 9:
            raise element.error(f"its {key} must be whole numbers, not {shown(word)!r}")
        found *= max(1, int(word))
    if found > LARGEST_COUNT:
        raise LimitError(element.told(f"its {key} is {found}, more than can be meant"))
    return found


def _size(root: Element) -> int:
    count, waiting = 0, [root]
    while waiting:
        element = waiting.pop()
        count += 1 + len(element.attributes)
        waiting += element.children
    return count


def _stem(file: str) -> str:
    """The name that MuJoCo gives to what has none: the file's, without folder and suffix."""
    return os.path.splitext(file.replace("\\", "/").rpartition("/")[2])[0]


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in value)
