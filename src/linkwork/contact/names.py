"""Names in contact options: a shape, a link with its shapes, or a frame as a point."""

from __future__ import annotations

from dataclasses import replace

from linkwork.errors import ModelError
from linkwork.mechanism import WORLD, Geometry
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.model import Model


def named_shapes(model: Model, name: str | Geometry) -> list[Geometry]:
    """Return the shapes that a name means, on their bodies; a geometry stands for itself, on its `link`."""
    if isinstance(name, Geometry):
        frame = model.frame(name.link or WORLD)
        return [replace(name, body=frame.body, place=frame.place.then(name.place))]
    same_name = [each for each in model.geometries if each.name == name]
    solid = [each for each in model.geometries if each.collision]
    if same_name:
        return [each for each in same_name if each.collision] or same_name
    of_body = next((body.index for body in model.bodies if body.name == name), None)
    result = [each for each in solid if each.link == name] or [each for each in solid if each.body == of_body]
    return result or [_point(model, name, solid)]


def _point(model: Model, name: str, solid: list[Geometry]) -> Geometry:
    try:
        frame = model.frame(name)
    except ModelError:
        known = [*(each.name for each in solid), *(frame.name for frame in model.frames)]
        message = f"Contacts: {printable(model.name)} has no shape, link or frame named {name!r}"
        message += did_you_mean(name, known)
        raise ModelError(message) from None
    return Geometry(name, frame.body, frame.place, "point", link=name)
