"""The contacts of a model in words, for its report."""

from __future__ import annotations

from typing import Any

from linkwork.contact.contacts import Contacts
from linkwork.contact.pair_filter import left_out
from linkwork.errors import ModelError
from linkwork.mechanism.names import join_names
from linkwork.model import Model
from linkwork.model.report import count


def contact_lines(model: Any, contacts: Contacts | None = None) -> list[str]:
    """Return lines on the pairs of shapes that may touch, one for each kind, after an empty line; none for a
    model without shapes.
    """
    solid = [each for each in model.geometries if each.collision]
    if not isinstance(model, Model) or not solid:
        return []
    contact_option = contacts or Contacts()
    try:
        result = contact_option.candidates(model)
        remaining = left_out(model, contact_option)
    except ModelError as error:
        return ["", f"contact: {error}"]
    kinds: dict[str, list[str]] = {}
    for each in result:
        kinds.setdefault(each.kind, []).append(each.name)
    lines = [
        "",
        f"{count(len(result), 'point')} may touch something (lw.contact_candidates lists them):"
        if result
        else "",
    ]
    lines += [f"  {kind}: {len(names)}: {join_names(names)}" for kind, names in kinds.items()]
    if not result:
        lines = ["", "no shape may touch anything by the rule of lw.Contacts()"]
    return [*lines, *(f"  {sentence}" for sentence in remaining)]
