"""Loading of models from files, XML text and installed packages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from linkwork.errors import ModelError
from linkwork.formats import mjcf, sdf, urdf, xml
from linkwork.formats.folders import checked_folders
from linkwork.formats.installed import installed_robot
from linkwork.formats.xacro_files import expanded
from linkwork.formats.xml import Element
from linkwork.mechanism.limits import Limits, checked_limits
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.model.loop_joints import DEFAULT_OPTIONS, LoopOptions

SUPPORTED = (
    "supported formats are URDF (root <robot>), MJCF (<mujoco>) and SDF (<sdf>), in .urdf, .xml or .sdf files"
)
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
    loops: LoopOptions = DEFAULT_OPTIONS,
    folders: Iterable[Any] = (),
    arguments: Mapping[str, Any] | None = None,
) -> Model:
    """Return the model of a file or an XML text; see `linkwork.load`."""
    limits = checked_limits(limits)
    if base not in BASES:
        raise ModelError(f'base: expected "fixed" or "free", got {base!r}')
    root, file, package_folders = _root(path, limits, arguments)
    options: dict[str, Any] = {
        "file": file,
        "folders": [*checked_folders(folders), *package_folders],
        "limits": limits,
        "loops": loops,
    }
    if root.tag == "mujocoinclude":
        raise root.error(
            "unsupported root element <mujocoinclude>: load the MJCF file that includes this one"
        )
    if root.tag not in READERS:
        *others, last = (f"<{tag}>" for tag in READERS)
        raise root.error(f"unsupported root element; expected {', '.join(others)} or {last}")
    return READERS[root.tag](root, base=base, gravity=gravity, strict=strict, **options)


def _read_urdf(
    root: Element,
    *,
    base: str | None,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions,
    **_: Any,
) -> Model:
    return urdf.model(root, base=base or "fixed", gravity=gravity, strict=strict, limits=limits, loops=loops)


READERS: dict[str, Callable[..., Model]] = {  # by root element; see docs/extending.md
    "robot": _read_urdf,
    "sdf": sdf.model,
    "mujoco": mjcf.model,
}


def _root(
    path: Any, limits: Limits, arguments: Mapping[str, Any] | None
) -> tuple[Element, str | None, tuple[str, ...]]:
    """Return the root element, its file (None for text), and folders of its package."""
    if is_xml(path):
        return xml.parse(path, "<text>", limits), None, ()
    try:
        name = os.fspath(path)
    except TypeError:
        raise ModelError(f"path: expected a path or XML text, got {path!r}") from None
    if not isinstance(name, str):  # os.fspath may return bytes
        raise ModelError(f"path: expected a path or XML text, got {path!r}")
    suffix = os.path.splitext(name)[1].lower()
    if suffix == ".xacro":
        return xml.parse(expanded(name, arguments), name, limits), name, ()
    package_folders: tuple[str, ...] = ()
    if not suffix and _NAME.fullmatch(name) and not os.path.exists(name):
        name, package = installed_robot(name)
        package_folders = (package,)
        suffix = os.path.splitext(name)[1].lower()
    if os.path.isdir(name):
        raise ModelError(f"{printable(name, xml.PATH)}: expected a file, got a folder; {SUPPORTED}")
    if suffix not in SUFFIXES:
        raise ModelError(
            f"{printable(name, xml.PATH)}: unsupported suffix {printable(suffix) or '(none)'}; {SUPPORTED}"
        )
    return xml.parse(xml.content(name, limits), name, limits), name, package_folders


def is_xml(path: Any) -> bool:
    """Return True for XML text: it begins with < after white space or a byte-order mark."""
    if isinstance(path, str):
        return path[:1000].lstrip("\ufeff \t\r\n").startswith("<")
    return isinstance(path, (bytes, bytearray)) and bytes(path[:1000]).lstrip(
        b"\xef\xbb\xbf \t\r\n"
    ).startswith(b"<")
