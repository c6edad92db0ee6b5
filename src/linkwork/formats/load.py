"""From a file to a model."""

from __future__ import annotations

import os
from collections.abc import Sequence

from linkwork.errors import ModelError
from linkwork.formats import urdf, xml
from linkwork.model import Model
from linkwork.model.builder import GRAVITY
from linkwork.model.loop_joints import AS_THE_FILE_SAYS, LoopOptions
from linkwork.parts.limits import Limits, checked_limits
from linkwork.parts.names import shown

READ = "linkwork reads URDF today: files with root <robot>, named .urdf or .xml"


def load(
    path: str | os.PathLike[str],
    *,
    base: str = "fixed",
    gravity: Sequence[float] = GRAVITY,
    strict: bool = False,
    limits: Limits | None = None,
    loops: LoopOptions = AS_THE_FILE_SAYS,
) -> Model:
    """The model that a file describes; see `linkwork.load`."""
    try:
        name = os.fspath(path)
    except TypeError:
        raise ModelError(f"path must be a text or a path, not {path!r}") from None
    if not isinstance(name, str):  # a path can also be bytes
        raise ModelError(f"path must be a text or a path, not {path!r}")
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in (".urdf", ".xml"):
        raise ModelError(f"{shown(name, xml.PATH)}: files named {shown(suffix) or 'without a suffix'} are not read; {READ}")
    limits = checked_limits(limits)
    root = xml.parse(xml.content(name, limits), name, limits)
    if root.tag != "robot":
        raise root.error(f"this is not a URDF, whose root is <robot>; {READ}")
    return urdf.model(root, base=base, gravity=gravity, strict=strict, limits=limits, loops=loops)
