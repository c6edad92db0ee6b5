"""MJCF, by way of MuJoCo's own compiler (mujoco.readthedocs.io/en/stable/XMLreference.html).

The compiler resolves defaults, includes, angles, inertias from shapes and attached models; what it gives goes to a builder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from linkwork.formats.finish import built
from linkwork.formats.folders import Folders
from linkwork.formats.mjcf_equalities import add_equalities
from linkwork.formats.mjcf_reader import REFERENCE, Reader
from linkwork.formats.mjcf_scene import add_scene
from linkwork.formats.mjcf_source import Preparation
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.model import Model
from linkwork.model.loop_joints import AS_THE_FILE_SAYS, LoopOptions
from linkwork.parts.limits import Limits


def model(
    root: Element,
    *,
    file: str | None,
    folders: Iterable[Any],
    base: str | None,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions = AS_THE_FILE_SAYS,
) -> Model:
    """The model of a <mujoco> element from `file`, or from a text where that is None; the rest is as for `load`."""
    notes = Notes()
    prepared = Preparation(Folders(file, folders, limits), limits, notes).document(root)
    with prepared.places_told():
        reader = Reader(prepared.compiled(), root, notes, base=base, gravity=gravity, strict=strict, limits=limits)
        reader.add_bodies()
        add_equalities(reader)
        add_scene(reader, prepared.files, prepared.unread)
        reader.note_rest()
    closing = {
        e.attributes["name"]: e for equality in root.all("equality") for e in equality.children if "name" in e.attributes
    }
    start = REFERENCE if reader.moved else None
    return built(reader.builder, root, notes, loops, limits, closing=closing, start=start)
