"""The linkwork description embedded in an exported MJCF file.

MuJoCo splits joints of several coordinates, places free joints in the world, and supports neither dependent
joints nor most data of a model. Therefore `export_mjcf` adds the output of `export_urdf` in `<custom><text
name="linkwork">`, with a digest of the rest of the file. If the file is unmodified, `load` reads the
description; otherwise it reads the MJCF.
"""

from __future__ import annotations

import hashlib
import re

from linkwork.formats import xml
from linkwork.formats.export_text import Tag
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.mechanism.limits import Limits

NAME = "linkwork"
MAX_TEXT = 2**18  # characters of one <text> before escapes; a tag may have 2**20
_NAMED = re.compile(rf"{NAME}(?: [0-9]+)?")
_LARGE = Limits(size=2**40, elements=2**40)


def describe(root: Tag, robot: str) -> None:
    """Add the description to a complete <mujoco>."""
    data = f"{_digest(xml.parse(root.text(), '<text>', _LARGE))} {robot}"
    custom = root.add("custom")
    for k in range(0, len(data), MAX_TEXT):
        part = k // MAX_TEXT
        custom.add("text", name=f"{NAME} {part + 1}" if part else NAME).set_long(
            "data", data[k : k + MAX_TEXT]
        )


def described(root: Element, limits: Limits, notes: Notes, *, base: str | None) -> Element | None:
    """Remove the description from a <mujoco>; return its <robot>, or None if it is absent or outdated.

    An outdated or unusable description is noted.
    """
    data = _remove_description(root)
    if data is None:
        return None
    digest, _, text = data.partition(" ")
    if digest != _digest(root):
        notes.add(
            "the description of linkwork in <custom> is ignored: the file was modified after the export"
        )
        return None
    if base is not None:
        notes.add(
            f"the description of linkwork in <custom> is ignored: it has a base of its own, and "
            f"base={base!r} is given"
        )
        return None
    return xml.parse(text, root.source, limits)


def _remove_description(root: Element) -> str | None:
    """Remove and return the description; None if there is none."""
    parts = []
    for custom in root.all("custom"):
        texts = [text for text in custom.all("text") if _NAMED.fullmatch(text.attributes.get("name", ""))]
        custom.children = [child for child in custom.children if child not in texts]
        parts += [text.attributes.get("data", "") for text in texts]
    root.children = [child for child in root.children if child.tag != "custom" or child.children]
    return "".join(parts) if parts else None


def _digest(root: Element) -> str:
    """Return a hash of all elements and attributes, independent of comments and white space."""
    digest = hashlib.sha256()
    stack: list[Element | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            digest.update(item.encode())
            continue
        words = repr((item.tag, sorted(item.attributes.items()), item.text.strip()))
        digest.update(words.encode())
        stack.append(")")
        stack += reversed(item.children)
    return digest.hexdigest()
