"""MJCF text for the compiler, without includes, in which only meshes in allowed folders are opened.

MuJoCo's compiler would open any file that the text names. Therefore includes are expanded here, elements for
drawing and sensing are removed, and generated names replace those of mesh and model files. Each element is on
its own line, so that an error with a line number can be reported with its place in the user's file.
"""

from __future__ import annotations

import os
import re

import numpy as np

from linkwork.errors import LimitError
from linkwork.formats import xml
from linkwork.formats.elements import check
from linkwork.formats.elements_mjcf import mjcf
from linkwork.formats.folders import Folders
from linkwork.formats.mjcf_document import Document
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable

MAX_FILES = 200  # includes and attached models
DRAWN = {"texture", "skin", "light", "camera", "visual", "statistic"}  # appearance only
UNREAD = {  # unsupported elements, not passed to the compiler
    "sensor": "sensors are ignored",
    "custom": "<custom> is ignored",
    "extension": "plugins are not supported and ignored",
    "plugin": "plugins are not supported and ignored",
}
NAMES = {  # attributes with arbitrary text
    "name", "class", "childclass", "file", "model", "prefix", "suffix", "joint", "joint1", "joint2",
    "jointinparent", "body",
    "body1", "body2", "site", "site1", "site2", "geom", "geom1", "geom2", "mesh", "material", "hfield",
    "tendon", "tendon1",
    "tendon2", "actuator", "target", "refsite", "slidersite", "cranksite", "sidesite", "texture", "layer",
    "frame",
}  # fmt: skip
DIRECTORIES = ("meshdir", "texturedir", "assetdir", "strippath")
MAX_COUNT = 10**7
# Compilation takes more than linear time, so that fewer elements may be compiled than read, by this factor.
COMPILE_RATIO = 10
LINEAR = {"actuator", "tendon", "contact"}  # these compile in linear time and are not limited further
FRAME_COST = 2  # elements as which one <frame> counts, since it takes longest
MAX_HEIGHTS = 10**6  # of a height field
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


class Preparation:
    """Converts the elements of a file to a document."""

    def __init__(self, folders: Folders, limits: Limits, notes: Notes) -> None:
        self.folders = folders
        self.limits = limits
        self.notes = notes
        self.opened = 0
        self.taken = 0  # elements and attributes of included files
        self.meshes: dict[str, list[str]] = {}
        self.models: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.unread: set[str] = set()
        self._has_plugins = False  # whether actuators are plugins
        self.strip = False  # whether meshes are found by their names without folders

    def document(self, root: Element) -> Document:
        text, elements = self._text(root, ())
        return Document(text, elements, self.meshes, self.models, self.files, self.unread)

    def _text(self, root: Element, ancestors: tuple[str, ...]) -> tuple[str, list[Element]]:
        """Return the text without includes, one element per line, and the elements."""
        self._include(root, ancestors)
        self._has_plugins = any(each.tag == "plugin" for x in root.all("actuator") for each in x.children)
        self._count(root)
        check(root, mjcf(), self.notes, "MJCF", strict=self.notes.strict)
        self._leave_out_missing_materials(root)
        meshdir = ""
        assetdir = ""
        for compiler in root.all("compiler"):
            meshdir = compiler.attributes.get("meshdir", meshdir)
            assetdir = compiler.attributes.get("assetdir", assetdir)
            if not ancestors:  # the main model's strippath is also that of attached models
                self.strip = compiler.attributes.get("strippath", str(self.strip)).lower() == "true"
        self.below = meshdir or assetdir
        lines: list[str] = []
        elements: list[Element] = []
        stack: list[Element | str] = [root]
        while stack:
            element = stack.pop()
            if isinstance(element, str):
                lines[-1] += element
                continue
            attributes = self._compiler_attributes(element, ancestors)
            if attributes is None:
                continue
            attributes_text = "".join(f' {key}="{_escaped(value)}"' for key, value in attributes.items())
            elements.append(element)
            lines.append(f"<{element.tag}{attributes_text}>")
            stack.append(f"</{element.tag}>")
            if element is root:
                stack.append('<compiler><lengthrange mode="none"/></compiler>')
            stack += reversed(element.children)
        return "\n".join(lines), elements

    def _leave_out_missing_materials(self, root: Element) -> None:
        """Remove references to undefined materials.

        Parts of scenes name materials of their scenes, which affect appearance only.
        """
        every = [root]
        for element in every:
            every += element.children
        if any(element.tag == "attach" for element in every):  # an attached model may define materials
            return
        defined = {element.attributes.get("name") for element in every if element.tag == "material"}
        for element in every:
            name = element.attributes.get("material", "")
            if name and name not in defined:
                self.notes.add("undefined material is ignored", f"{printable(name)} (line {element.line})")
                del element.attributes["material"]

    # attributes and files

    def _compiler_attributes(self, element: Element, within: tuple[str, ...]) -> dict[str, str] | None:
        """Return the attributes of an element for the compiler, or None if the element is removed."""
        tag = element.tag
        attributes = dict(element.attributes)
        if not _NAME.fullmatch(tag):
            raise element.error("unknown element in MJCF")
        for key, value in attributes.items():
            if key not in NAMES and "nan" in value.lower().replace("-", " ").replace("+", " ").split():
                raise element.error(f"{printable(key)}={printable(value)!r}: expected finite numbers")
        if tag in UNREAD:
            count = len(element.children) if tag in ("sensor", "custom") else 1
            # Sensors and <custom> do not affect motion.
            add_note = self.notes.add if tag in ("sensor", "custom") else self.notes.missing
            add_note(UNREAD[tag], f"line {element.line}" + (f" ({count})" if count > 1 else ""))
            return None
        if tag in DRAWN or tag == "size":
            return None
        if tag == "actuator":
            element.children = [child for child in element.children if self._is_plain(child)]
        if tag == "compiler":
            return {key: value for key, value in attributes.items() if key not in DIRECTORIES}
        if tag == "key" and self._has_plugins:
            self._leave_out_controls(element, attributes)
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
            raise element.error("unexpected attribute file")
        return attributes

    def _leave_out_controls(self, key: Element, attributes: dict[str, str]) -> None:
        """Remove controls and activations: their sizes count plugins, which the compiler does not get."""
        for word in ("act", "ctrl"):
            if attributes.pop(word, "").strip():
                message = f"{word} of a keyframe of a file with plugin actuators is not supported and ignored"
                self.notes.missing(message, f"line {key.line}")

    def _is_plain(self, actuator: Element) -> bool:
        if actuator.tag != "plugin":
            return True
        self.notes.missing(UNREAD["plugin"], f"line {actuator.line}")
        return False

    def _mesh(self, mesh: Element, attributes: dict[str, str], within: tuple[str, ...]) -> None:
        attributes.pop("content_type", None)
        for word in attributes.get("params", "").split():
            if word.isdigit() and int(word) > 200:
                raise mesh.error(f"params={printable(attributes['params'])!r}: expected at most 200")
        if "file" not in attributes:
            return
        file = attributes["file"]
        if self.strip:
            file = file.replace("\\", "/").rpartition("/")[2]
        attributes.setdefault("name", _stem(file))
        name = f"linkwork{len(self.files)}{os.path.splitext(file)[1].lower()}"
        file_folders = [os.path.dirname(os.path.abspath(path)) for path in (*within[-1:], mesh.source)]
        nearby = [*(os.path.join(folder, self.below) for folder in file_folders), *file_folders]
        result = (
            self.folders.find(file, *((*nearby, self.below) if within else (self.below, *nearby)))
            if file
            else None
        )
        self.meshes[name] = list(result) if result else ["", "the name is empty"]
        self.files[name] = (
            self.folders.inside(result.path) if result and result.path else os.path.join(self.below, file)
        )
        attributes["file"] = name

    def _height_field(self, element: Element, attributes: dict[str, str]) -> dict[str, str]:
        """Return the attributes of a height field, with the heights of the text or of a binary file.

        Images are not supported.
        """
        field_attributes = {
            key: value
            for key, value in attributes.items()
            if key in ("name", "size", "nrow", "ncol", "elevation")
        }
        if "file" in attributes:
            field_attributes.setdefault("name", _stem(attributes["file"]))
            field_attributes |= self._heights_of(element, attributes["file"]) or {"nrow": "2", "ncol": "2"}
            if "elevation" not in field_attributes:
                self.unread.add(field_attributes["name"])
        elif _integer_product(element, "nrow", 1) * _integer_product(element, "ncol", 1) > MAX_HEIGHTS:
            raise LimitError(element.message(f"more than {MAX_HEIGHTS} heights, the limit"))
        return field_attributes

    def _heights_of(self, element: Element, file: str) -> dict[str, str]:
        """Return the grid of a file in MuJoCo's format: two integers, and one height per point."""
        result = self.folders.find(file, self.below)
        if file.lower().endswith(".png") or not result.path:
            why = "images are not supported" if result.path else result.why
            self.notes.missing(f"height field file is ignored: {why}", f"line {element.line}")
            return {}
        with open(result.path, "rb") as opened:
            data = opened.read(8 + 4 * MAX_HEIGHTS + 1)
        rows, columns = np.frombuffer(data[:8].ljust(8, b"\0"), "<i4").tolist()
        if rows < 2 or columns < 2 or len(data) != 8 + 4 * rows * columns:
            raise element.error(
                f"file {printable(file)!r}: expected a height field of at most {MAX_HEIGHTS} heights"
            )
        # Texts begin with the last row.
        heights = np.frombuffer(data, "<f4", offset=8).reshape(rows, columns)[::-1]
        return {
            "nrow": str(rows),
            "ncol": str(columns),
            "elevation": " ".join(repr(float(x)) for x in heights.ravel()),
        }

    # included files

    def _include(self, root: Element, within: tuple[str, ...]) -> None:
        """Replace each <include> by the elements of its file."""
        stack = [(root, within)]
        while stack:
            element, ancestors = stack.pop()
            children: list[Element] = []
            for child in element.children:
                if child.tag != "include":
                    children.append(child)
                    stack.append((child, ancestors))
                    continue
                included, path = self._opened(child, ancestors)
                if included.tag not in ("mujoco", "mujocoinclude"):
                    raise child.error(
                        f"unsupported root element <{printable(included.tag)}> of the included file; "
                        "expected <mujoco> or <mujocoinclude>"
                    )
                holder = Element(element.tag, {}, child.line, child.source, element)
                holder.children = included.children
                for grandchild in holder.children:
                    grandchild.parent = element
                child_ancestors = (*ancestors, path)
                self._include(holder, child_ancestors)
                children += holder.children
            element.children = children

    def _model(self, element: Element, attributes: dict[str, str], within: tuple[str, ...]) -> None:
        """Convert a model to attach to a separate text."""
        root, path = self._opened(element, within)
        if root.tag != "mujoco":
            raise element.error(
                f"unsupported root element <{printable(root.tag)}> of an attached model; expected <mujoco>"
            )
        below = self.below
        text, _ = self._text(root, (*within, path))
        self.below = below
        name = f"linkwork{len(self.files)}.xml"
        self.files[name] = attributes["file"]
        self.models[name] = text
        attributes.setdefault("name", root.attributes.get("model", _stem(attributes["file"])))
        attributes["file"] = name

    def _opened(self, element: Element, within: tuple[str, ...]) -> tuple[Element, str]:
        """Return the root of a file that an element names, and its path."""
        file = element.word("file")
        nearby = [os.path.dirname(path) for path in within[-1:]]
        result = self.folders.find(file, "", *nearby)
        if not result.path:
            raise element.error(f"file {printable(file)!r}: {result.why}")
        if result.path in within:
            raise element.error(f"file {printable(file)!r} includes itself")
        self.opened += 1
        if self.opened > MAX_FILES:
            raise LimitError(element.message(f"more than {MAX_FILES} included files, the limit"))
        remaining = max(1, self.limits.elements - self.taken)
        try:
            limits = Limits(size=self.limits.size, elements=remaining)
            root = xml.parse(xml.content(result.path, self.limits), result.path, limits)
        except LimitError:
            message = f"more than {self.limits.elements} elements and attributes in all files"
            raise LimitError(element.message(f"{message}: {self.limits.raised('elements')}")) from None
        self.taken += _size(root)
        return root, result.path

    # size limits

    def _count(self, root: Element) -> None:
        """Raise LimitError for too many elements or bodies, with those of <replicate> and <composite>."""
        bodies = 0
        count = 0
        max_count = self.limits.elements // COMPILE_RATIO
        stack: list[tuple[Element, int, int]] = [(root, 1, 1)]
        while stack:
            element, times, depth = stack.pop()
            if depth > xml.MAX_DEPTH_BY_ROOT["mujoco"]:
                raise element.error(
                    f"elements are nested deeper than the limit of {xml.MAX_DEPTH_BY_ROOT['mujoco']}"
                )
            if (
                element.tag in DRAWN
                or element.tag in UNREAD
                or (element.tag in LINEAR and element.parent is root)
            ):
                continue
            if element.tag == "replicate":
                times *= _integer_product(element, "count", 1)
            if element.tag == "composite":
                times *= max(1, _integer_product(element, "count", 1))
            count += times * (FRAME_COST if element.tag == "frame" else 1)
            bodies += times if element.tag in ("body", "composite") else 0
            if count > max_count:
                message = (
                    f"more than {max_count} elements to compile, 1/{COMPILE_RATIO} of the limit for reading"
                )
                raise LimitError(element.message(f"{message}: {self.limits.raised('elements')}"))
            if bodies > self.limits.links:
                raise LimitError(
                    element.message(f"more than {self.limits.links} bodies: {self.limits.raised('links')}")
                )
            stack += [(child, times, depth + 1) for child in element.children]


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _integer_product(element: Element, key: str, default: int) -> int:
    """Return the product of the integers in an attribute."""
    product = 1
    for word in element.attributes.get(key, str(default)).split():
        if not word.isascii() or not word.isdigit() or len(word) > 9:
            raise element.error(f"{key}: expected non-negative integers, got {printable(word)!r}")
        product *= max(1, int(word))
    if product > MAX_COUNT:
        raise LimitError(element.message(f"{key}: expected at most {MAX_COUNT}, got {product}"))
    return product


def _size(root: Element) -> int:
    count = 0
    stack = [root]
    while stack:
        element = stack.pop()
        count += 1 + len(element.attributes)
        stack += element.children
    return count


def _stem(file: str) -> str:
    """Return MuJoCo's default name of an asset: the file name without folder and suffix."""
    return os.path.splitext(file.replace("\\", "/").rpartition("/")[2])[0]


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in value)
