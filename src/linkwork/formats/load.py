"""From a file, or from a text, to a model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linkwork.errors import ModelError
from linkwork.formats import mjcf, sdf, urdf, xml
from linkwork.formats.folders import checked_folders
from linkwork.formats.installed import installed_robot
from linkwork.formats.xacro_files import expanded
from linkwork.formats.xml import Element
from linkwork.model import Model
from linkwork.model.builder import GRAVITY
from linkwork.model.loop_joints import AS_THE_FILE_SAYS, LoopOptions
from linkwork.parts.limits import Limits, checked_limits
from linkwork.parts.names import shown

READ = "linkwork reads URDF (root <robot>), MJCF (<mujoco>) and SDF (<sdf>), in files named .urdf, .xml or .sdf"
SUFFIXES = (".urdf", ".xml", ".mjcf", ".sdf", ".world")
_NAME = re.compile(r"(?:[A-Za-z0-9_.-]+/)?[A-Za-z0-9_-]+")
BASES = (None, "fixed", "free")


def load(
    path: str | os.PathLike[str],
    *,
    base: str | None = None,
    gravity: Sequence[float] | None = None,
    strict: bool = False,
    limits: Limits | None = None,
    loops: LoopOptions = AS_THE_FILE_SAYS,
    folders: Iterable[Any] = (),
    arguments: Mapping[str, Any] | None = None,
) -> Model:
    """The model that a file or an XML text describes; see `linkwork.load`."""
    limits = checked_limits(limits)
    if base not in BASES:
        raise ModelError(f'base must be "fixed" or "free", not {base!r}')
    root, file, own = _root(path, limits, arguments)
    more: dict[str, Any] = {"file": file, "folders": [*checked_folders(folders), *own], "limits": limits, "loops": loops}
    if root.tag == "mujoco":
        return mjcf.model(root, base=base, gravity=gravity, strict=strict, **more)
    if root.tag == "sdf":
        return sdf.model(root, base=base, gravity=gravity, strict=strict, **more)
    if root.tag == "mujocoinclude":
        raise root.error("this is a part of MJCF that other files include: load one of them")
    if root.tag != "robot":
        raise root.error(f"this is no robot; {READ}")
    pull = GRAVITY if gravity is None else gravity
    return urdf.model(root, base=base or "fixed", gravity=pull, strict=strict, limits=limits, loops=loops)


def _root(path: Any, limits: Limits, arguments: Mapping[str, Any] | None) -> tuple[Element, str | None, tuple[str, ...]]:
    """The root element, the file that it is from (None where it is from a text), and further folders that are its own."""
    if is_xml(path):
        return xml.parse(path, "<text>", limits), None, ()
    try:
        name = os.fspath(path)
    except TypeError:
        raise ModelError(f"path must be a text or a path, not {path!r}") from None
    if not isinstance(name, str):  # a path can also be bytes
        raise ModelError(f"path must be a text or a path, not {path!r}")
    suffix = os.path.splitext(name)[1].lower()
    if suffix == ".xacro":
        return xml.parse(expanded(name, arguments), name, limits), name, ()
    own: tuple[str, ...] = ()
    if not suffix and _NAME.fullmatch(name) and not os.path.exists(name):
        name, package = installed_robot(name)
        own = (package,)
        suffix = os.path.splitext(name)[1].lower()
    if os.path.isdir(name):
        raise ModelError(f"{shown(name, xml.PATH)}: this is a folder: name a file in it; {READ}")
    if suffix not in SUFFIXES:
        raise ModelError(f"{shown(name, xml.PATH)}: files named {shown(suffix) or 'without a suffix'} are not read; {READ}")
    return xml.parse(xml.content(name, limits), name, limits), name, own


def is_xml(path: Any) -> bool:
    """Whether this is an XML text, and no path: it begins with <, after space or a byte-order mark."""
    if isinstance(path, str):
        return path[:1000].lstrip("\ufeff \t\r\n").startswith("<")
    return isinstance(path, (bytes, bytearray)) and bytes(path[:1000]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
