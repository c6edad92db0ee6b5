"""The end of every reader: from a builder with all parts of a file to a model."""

from __future__ import annotations

from collections.abc import Mapping

from linkwork.errors import ModelError
from linkwork.formats.digits import tolerance_of
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.model import Model, ModelBuilder
from linkwork.model.loop_joints import LoopOptions
from linkwork.parts.limits import Limits


def built(
    builder: ModelBuilder,
    root: Element,
    notes: Notes,
    loops: LoopOptions,
    limits: Limits,
    *,
    closing: Mapping[str, Element],
    start: str | None = None,
) -> Model:
    """The model, its loops closed from the keyframe `start` unless `loops` says otherwise.

    Loops are checked as a whole: an error is told with the element of `closing`, by name, that it names, or with `root`.
    """
    builder.notes += notes.lines()
    more = builder.add(loops)
    if more["tolerance"] is None:
        more["tolerance"] = tolerance_of(root)
    if more["start"] is None:
        more["start"] = start
    try:
        return builder.build(limits=limits, **more)
    except ModelError as error:
        place = next((element for name, element in closing.items() if repr(name) in str(error)), root)
        raise type(error)(place.told(str(error))) from None
