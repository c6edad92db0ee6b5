"""Shapes of a URDF: <visual> and <collision>, and <linkwork> for what these do not support."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from linkwork.formats.export_text import Tag, place
from linkwork.formats.extension import SHAPE, TAG
from linkwork.mechanism import Geometry
from linkwork.model import GROUND, WORLD, Model
from linkwork.spatial import Pose

DEFAULTS = {field.name: field.default for field in fields(Geometry)}


class Shapes:
    """The shapes of a model by the links in which they are written."""

    def __init__(self, model: Model) -> None:
        self.model = model
        links = {WORLD: (GROUND, Pose.identity())} | {
            frame.name: (frame.body, frame.place) for frame in model.frames
        }
        self.by_link: dict[str, list[tuple[int, Geometry]]] = {}
        self.places: dict[str, Pose] = {}
        for k, shape in enumerate(model.geometries):
            body, at = links.get(shape.link, (None, Pose.identity()))
            link = (
                shape.link
                if body == shape.body
                else WORLD
                if shape.body == GROUND
                else model.bodies[shape.body].name
            )
            self.by_link.setdefault(link, []).append((k, shape))
            self.places[link] = at if link == shape.link else Pose.identity()
        link_order = [WORLD, *(frame.name for frame in model.frames)]
        order = [k for link in link_order for k in self._order(link)]
        self.indexed = order != sorted(order)

    def _order(self, link: str) -> list[int]:
        """Return the shapes of a link in the order of reading: those of URDF, then the others."""
        shapes = self.by_link.get(link, ())
        return [
            k
            for standard in (True, False)
            for k, shape in shapes
            if (_standard(shape) is not None) is standard
        ]

    def write(self, tag: Tag, link: str) -> None:
        """Add the shapes of a link."""
        others = Tag(TAG)
        back = self.places.get(link, Pose.identity()).inverse()
        for k, shape in self.by_link.get(link, ()):
            words = _standard(shape)
            at = back.then(shape.place)
            index = k if self.indexed else None
            if words is None:
                _nonstandard(others, shape, at, index)
                continue
            _visual_or_collision(tag, shape, at, words, link, index)
        if others.children:
            tag.children.append(others)


def _standard(shape: Geometry) -> dict[str, Any] | None:
    """Return the attributes of a shape that URDF supports, or None."""
    if (
        not (shape.visual or shape.collision)
        or shape.vertices
        or shape.heights
        or (shape.mesh and shape.shape != "mesh")
    ):
        return None
    unscaled = shape.scale == DEFAULTS["scale"]
    if shape.shape == "box" and len(shape.size) == 3 and unscaled:
        return {"size": shape.size}
    if shape.shape == "sphere" and len(shape.size) == 1 and unscaled:
        return {"radius": shape.size[0]}
    if shape.shape == "cylinder" and len(shape.size) == 2 and unscaled:
        return {"radius": shape.size[0], "length": shape.size[1]}
    if shape.shape == "mesh" and shape.mesh and not shape.size and len(shape.scale) == 3:
        return {"filename": shape.mesh, "scale": shape.scale}
    return None


def _visual_or_collision(
    tag: Tag, shape: Geometry, at: Pose, words: dict[str, Any], link: str, index: int | None
) -> None:
    """Add one element, or two for a shape that is both."""
    first, *second = [word for word in ("visual", "collision") if getattr(shape, word)]
    name = shape.name.removeprefix(f"{link}::")
    element = tag.add(first, name=name)
    place(element, at)
    element.add("geometry").add(shape.shape, **words)
    extras: dict[str, Any] = {"index": index}
    if not name or shape.name != f"{link}::{name}":
        extras["name"] = shape.name
    if second:
        extras["collision"] = True
    if shape.rgba is not None and len(shape.rgba) == 4 and shape.visual:
        element.add("material", name=f"{name} colour").add("color", rgba=shape.rgba)
    elif shape.rgba is not None:
        extras["rgba"] = shape.rgba
    extras |= _contact_attributes(shape)
    if any(value is not None for value in extras.values()):
        element.add(TAG, **extras)
    for word in second:
        copy = tag.add(word, name=name)
        place(copy, at)
        copy.add("geometry").add(shape.shape, **words)
        copy.add(TAG, same=first)


def _contact_attributes(shape: Geometry) -> dict[str, Any]:
    """Return contact attributes that differ from their defaults."""
    words = [word for word in SHAPE if word not in ("name", "visual", "collision", "rgba")]
    return {word: getattr(shape, word) for word in words if getattr(shape, word) != DEFAULTS[word]}


def _nonstandard(others: Tag, shape: Geometry, at: Pose, index: int | None) -> None:
    """Add a shape that URDF does not support."""
    words = {
        "name": shape.name,
        "shape": shape.shape,
        "index": index,
        "mesh": shape.mesh or None,
        "rgba": shape.rgba,
    }
    words |= {"size": shape.size or None, "scale": shape.scale if shape.scale != DEFAULTS["scale"] else None}
    words |= {word: getattr(shape, word) for word in ("visual", "collision") if not getattr(shape, word)}
    element = others.add("shape", **(words | _contact_attributes(shape)))
    place(element, at)
    for vertex in shape.vertices:
        element.add("vertex", xyz=vertex)
    for row in shape.heights:
        element.add("row", z=row)
