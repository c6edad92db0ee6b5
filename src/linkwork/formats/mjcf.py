"""MJCF files, read by MuJoCo's own compiler (mujoco.readthedocs.io/en/stable/XMLreference.html).

The compiler resolves defaults, includes, angles, inertias from shapes and attached models; its result goes to
a builder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from linkwork.formats import urdf
from linkwork.formats.description import described
from linkwork.formats.finish import built
from linkwork.formats.folders import Folders
from linkwork.formats.mjcf_equalities import add_equalities
from linkwork.formats.mjcf_reader import REFERENCE, Reader
from linkwork.formats.mjcf_scene import add_scene
from linkwork.formats.mjcf_source import Preparation
from linkwork.formats.mjcf_tendons import add_tendons
from linkwork.formats.mjcf_unsupported import note_unsupported
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.mechanism.limits import Limits
from linkwork.model import Model
from linkwork.model.loop_joints import DEFAULT_OPTIONS, LoopOptions


def model(
    root: Element,
    *,
    file: str | None,
    folders: Iterable[Any],
    base: str | None,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions = DEFAULT_OPTIONS,
) -> Model:
    """Return the model of a <mujoco> element from `file` (None for text); other arguments as in `load`."""
    notes = Notes(strict=strict)
    robot = described(root, limits, notes, base=base)
    if robot is not None:
        return urdf.model(robot, base="fixed", gravity=gravity, strict=strict, limits=limits, loops=loops)
    prepared = Preparation(Folders(file, folders, limits), limits, notes).document(root)
    with prepared.errors_located():
        compiled = prepared.compiled(free=base == "free")
        reader = Reader(compiled, root, notes, base=base, gravity=gravity, strict=strict, limits=limits)
        reader.add_bodies()
        add_tendons(reader)
        add_equalities(reader)
        add_scene(reader, prepared.files, prepared.unread)
        note_unsupported(reader)
    closing = {
        e.attributes["name"]: e
        for equality in root.all("equality")
        for e in equality.children
        if "name" in e.attributes
    }
    start = REFERENCE if reader.moved else None
    return built(reader.builder, root, notes, loops, limits, closing=closing, start=start)
