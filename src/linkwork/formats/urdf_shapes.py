"""What URDF files draw of links, and what can touch."""

from __future__ import annotations

from typing import Any

from linkwork.formats.urdf_parts import LARGEST, Notes, at, origin
from linkwork.formats.xml import Element
from linkwork.parts import GROUND, Geometry
from linkwork.parts.names import shown
from linkwork.spatial import Pose

ONE = (1.0, 1.0, 1.0)
UNOPENED = "named, none opened"  # what is noted of mesh files until something opens them


def shapes(link: Element, name: str, notes: Notes) -> list[Geometry]:
    """The shapes of a link; what is wrong with one only loses the shape, and is noted."""
    found = []
    for k, element in enumerate(child for child in link.children if child.tag in ("visual", "collision")):
        geometry = next(iter(element.all("geometry")), None)
        shape = next(iter(geometry.children), None) if geometry is not None else None
        if shape is None:
            continue
        try:
            sized = _size(shape)
            place = origin(element, Notes())
        except ValueError:  # also what the reader says is wrong: drawings are not worth an error
            sized = None
        if sized is None:
            notes.add(f"a shape <{shown(shape.tag)}> is passed over", at(link))
            continue
        found.append(geometry_of(element, k, name, place, shape.tag, sized, rgba=_colour(element)))
    return found


def geometry_of(
    element: Element, k: int, link: str, place: Pose, shape: str, sized: tuple[Any, str, tuple[float, ...]], **more: Any
) -> Geometry:
    """The k-th <visual> or <collision> of a link, of a shape that is `sized`: its size, file and scale."""
    size, mesh, scale = sized
    called = element.attributes.get("name") or f"{element.tag}{k}"
    more |= {"visual": element.tag == "visual", "collision": element.tag == "collision", "link": link}
    return Geometry(f"{link}::{called}", GROUND, place, shape, size, mesh, scale, **more)


def _size(shape: Element) -> tuple[tuple[float, ...], str, tuple[float, ...]] | None:
    """Size, file and scale; None for a shape that URDF has not."""
    if shape.tag == "box":
        return shape.numbers("size", 3, largest=LARGEST), "", ONE
    if shape.tag == "sphere":
        return (shape.number("radius", largest=LARGEST),), "", ONE
    if shape.tag in ("cylinder", "capsule"):
        return tuple(shape.number(key, largest=LARGEST) for key in ("radius", "length")), "", ONE
    if shape.tag == "mesh":
        return (), shape.word("filename"), shape.numbers("scale", 3, ONE, largest=LARGEST)
    return None


def _colour(element: Element) -> tuple[float, ...] | None:
    material = next(iter(element.all("material")), None)
    colour = next(iter(material.all("color")), None) if material is not None else None
    try:
        return None if colour is None else colour.numbers("rgba", 4, (0.5, 0.5, 0.5, 1.0))
    except ValueError:
        return None
