"""Last step of every reader: build the model and close its loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linkwork.errors import ModelError
from linkwork.formats.digits import tolerance_of
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.mechanism.limits import Limits
from linkwork.model import Model, ModelBuilder
from linkwork.model.loop_joints import LoopOptions


def built(
    builder: ModelBuilder,
    root: Element,
    notes: Notes,
    loops: LoopOptions,
    limits: Limits,
    *,
    closing: Mapping[str, Element],
    start: Any = None,
    digits: bool = True,
) -> Model:
    """Build the model, and close its loops from `start` (coordinates or a keyframe) unless `loops` differs.

    If `loops` has no tolerance, it follows from the `digits` of the file's numbers. An error names the
    element of `closing` (by name) that it concerns, or else `root`.
    """
    builder.notes += notes.lines()
    options = builder.add(loops)
    if options["tolerance"] is None and digits:
        options["tolerance"] = tolerance_of(root)
    if options["start"] is None:
        options["start"] = start
    try:
        return builder.build(limits=limits, **options)
    except ModelError as error:
        element_in_error = next(
            (element for name, element in closing.items() if repr(name) in str(error)), root
        )
        raise type(error)(element_in_error.message(str(error))) from None
