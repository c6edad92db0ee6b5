"""What SDF files include: models of other files, in named folders only."""

from __future__ import annotations

from collections.abc import Iterable

from linkwork.errors import LimitError
from linkwork.formats import xml
from linkwork.formats.folders import Folders
from linkwork.formats.xml import Element
from linkwork.parts import WORLD
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown

NESTED = 20  # models within models
INCLUDED = 200  # further files


def whole_of(root: Element) -> Element:
    """The one model or world of a file."""
    if root.tag in ("model", WORLD):
        return root
    found = [child for child in root.children if child.tag in ("model", WORLD)]
    if not found:
        raise root.error("there is no <model> and no <world> in it")
    if len(found) > 1:
        first = f"there is already a <{found[0].tag}> in line {found[0].line}"
        raise found[1].error(f"{first}: put several models into one <world>")
    return found[0]


class Includes:
    """Puts the models of other files in the places of <include>, from named folders only."""

    def __init__(self, folders: Folders, limits: Limits) -> None:
        self.folders, self.limits = folders, limits
        self.opened = self.taken = 0

    def expand(self, root: Element) -> None:
        waiting: list[tuple[Element, tuple[str, ...]]] = [(root, ())]
        while waiting:
            element, within = waiting.pop()
            for k, child in enumerate(element.children):
                if child.tag == "include" and element.tag in ("sdf", "world", "model"):
                    made, path = self._included(child, within)
                    made.parent = element
                    element.children[k] = made
                    waiting.append((made, (*within, path)))
                elif child.tag in ("world", "model"):
                    waiting.append((child, within))

    def _included(self, include: Element, within: tuple[str, ...]) -> tuple[Element, str]:
        uri = include.needed("uri").content()
        if include.attributes.get("merge", "false") in ("true", "1"):
            raise include.error("models are not merged: give the parts themselves, or nest the model")
        path = self._find(include, uri)
        if path in within or len(within) >= NESTED:
            raise include.error(f"{shown(uri)!r} includes itself, or too many others in turn")
        self.opened += 1
        if self.opened > INCLUDED:
            raise LimitError(include.told(f"more than {INCLUDED} files are included, the most that are read"))
        left = Limits(size=self.limits.size, elements=max(1, self.limits.elements - self.taken))
        root = xml.parse(xml.content(path, self.limits), path, left)
        self.taken += sum(1 + len(e.attributes) for e in _every(root))
        whole = whole_of(root)
        if whole.tag != "model":
            raise include.error(f"{shown(uri)!r} holds a <world>, and only a model can be included")
        for tag in ("name", "pose", "static"):
            given = include.one(tag)
            if given is None:
                continue
            if tag == "name":
                whole.attributes["name"] = given.content()
            else:
                whole.children = [given, *(child for child in whole.children if child.tag != tag)]
        if include.one("placement_frame") is not None:
            whole.attributes["placement_frame"] = include.needed("placement_frame").content()
        return whole, path

    def _find(self, include: Element, uri: str) -> str:
        name = uri.split("://", 1)[1] if "://" in uri else uri
        if "://" in uri and not uri.startswith(("model://", "file://", "package://")):
            raise include.error(f"{shown(uri)!r} is not a file in a named folder: nothing is fetched")
        tried = [name] if name.lower().endswith((".sdf", ".xml")) else [f"{name}/model.sdf", f"{name}.sdf", name]
        why = ""
        for each in tried:
            found = self.folders.find(each)
            if found.path:
                return found.path
            why = why or found.why
        raise include.error(f"its file {shown(uri)!r} is not opened: {why}")


def _every(root: Element) -> Iterable[Element]:
    waiting = [root]
    while waiting:
        element = waiting.pop()
        yield element
        waiting += element.children
