"""Models of other files that SDF files include, from allowed folders only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from linkwork.errors import LimitError
from linkwork.formats import xml
from linkwork.formats.elements import check
from linkwork.formats.elements_sdf import sdf
from linkwork.formats.folders import Folders
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.mechanism import WORLD
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable

MAX_NESTING = 20  # nested models
MAX_INCLUDES = 200  # included files
MIN_VERSION = (1, 2)
MAX_VERSION = (1, 12)
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})*")


def model_element(root: Element) -> Element:
    """Return the single model or world of a file."""
    if root.tag in ("model", WORLD):
        return root
    candidates = [child for child in root.children if child.tag in ("model", WORLD)]
    if not candidates:
        raise root.error("no <model> or <world>")
    if len(candidates) > 1:
        first = f"second model or world; the first is in line {candidates[0].line}"
        raise candidates[1].error(f"{first}: use one <world> for several models")
    return candidates[0]


def version_of(element: Element) -> tuple[int, ...]:
    """Return the SDF version of an element's file, by default 1.7."""
    file = element
    while file.tag != "sdf" and file.parent is not None:
        file = file.parent
    version = file.attributes.get("version", "1.7")
    if not _VERSION.fullmatch(version):
        raise file.error(f"version: expected one such as 1.9, got {printable(version)!r}")
    return tuple(map(int, version.split(".")))


def check_version(root: Element) -> None:
    """Raise ModelError if the version of a file is not supported."""
    version = version_of(root)
    if version < MIN_VERSION:
        message = f"SDF {root.attributes['version']} is not supported"
        raise root.error(f"{message}: convert it first with `gz sdf -p`")
    if version > MAX_VERSION:
        newest = ".".join(map(str, MAX_VERSION))
        raise root.error(
            f"SDF {root.attributes['version']} is not supported; the newest supported is {newest}"
        )


class Includes:
    """Replaces each <include> by the model of its file, from allowed folders only."""

    def __init__(self, folders: Folders, limits: Limits, notes: Notes) -> None:
        self.folders = folders
        self.limits = limits
        self.notes = notes
        self.opened = self.taken = 0

    def expand(self, root: Element) -> None:
        stack: list[tuple[Element, tuple[str, ...]]] = [(root, ())]
        while stack:
            element, ancestors = stack.pop()
            for k, child in enumerate(element.children):
                if child.tag == "include" and element.tag in ("sdf", "world", "model"):
                    included, path = self._included(child, ancestors)
                    file = included.parent
                    assert file is not None
                    file.parent = element  # so that parts of the model know the version of their own file
                    element.children[k] = included
                    stack.append((included, (*ancestors, path)))
                elif child.tag in ("world", "model"):
                    stack.append((child, ancestors))

    def _included(self, include: Element, ancestors: tuple[str, ...]) -> tuple[Element, str]:
        row = sdf().rows["model"][0].find("include")
        assert row is not None
        check(include, row, self.notes, "SDF", strict=self.notes.strict, version_of=version_of)
        uri = include.needed("uri").content()
        path = self._find(include, uri)
        if path in ancestors or len(ancestors) >= MAX_NESTING:
            raise include.error(f"{printable(uri)!r} includes itself, or includes are nested too deep")
        self.opened += 1
        if self.opened > MAX_INCLUDES:
            raise LimitError(include.message(f"more than {MAX_INCLUDES} included files, the limit"))
        remaining = Limits(size=self.limits.size, elements=max(1, self.limits.elements - self.taken))
        root = xml.parse(xml.content(path, self.limits), path, remaining)
        self.taken += sum(1 + len(e.attributes) for e in _every(root))
        check_version(root)
        included = model_element(root)
        if included.tag != "model":
            raise include.error(f"{printable(uri)!r} contains a <world>; only a model can be included")
        for tag in ("name", "pose", "static"):
            override = include.one(tag)
            if override is None:
                continue
            if tag == "name":
                included.attributes["name"] = override.content()
            else:
                included.children = [override, *(child for child in included.children if child.tag != tag)]
        if include.one("placement_frame") is not None:
            included.attributes["placement_frame"] = include.needed("placement_frame").content()
        return included, path

    def _find(self, include: Element, uri: str) -> str:
        name = uri.split("://", 1)[1] if "://" in uri else uri
        if "://" in uri and not uri.startswith(("model://", "file://", "package://")):
            raise include.error(f"{printable(uri)!r} is not a local file: nothing is downloaded")
        candidates = (
            [name] if name.lower().endswith((".sdf", ".xml")) else [f"{name}/model.sdf", f"{name}.sdf", name]
        )
        reason = ""
        for candidate in candidates:
            result = self.folders.find(candidate)
            if result.path:
                return result.path
            reason = reason or result.why
        raise include.error(f"file {printable(uri)!r}: {reason}")


def _every(root: Element) -> Iterable[Element]:
    waiting = [root]
    while waiting:
        element = waiting.pop()
        yield element
        waiting += element.children


def check_size(top: Element, limits: Limits) -> None:
    """Raise for models that are nested too deep or have too many links or joints."""
    counts = {"link": 0, "joint": 0}
    stack = [(top, 0)]
    while stack:
        element, depth = stack.pop()
        if depth > MAX_NESTING:
            raise element.error(f"models are nested deeper than the limit of {MAX_NESTING}")
        for child in element.children:
            if child.tag in counts:
                counts[child.tag] += 1
                if counts[child.tag] > limits.links:
                    message = f"more than {limits.links} {child.tag}s: {limits.raised('links')}"
                    raise LimitError(child.message(message))
            if child.tag == "model":
                stack.append((child, depth + 1))
