"""Visual and collision shapes of URDF files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linkwork.formats import extension
from linkwork.formats.urdf_parts import MAX_VALUE, Notes, at, origin
from linkwork.formats.xml import Element
from linkwork.mechanism import GROUND, Geometry
from linkwork.mechanism.names import printable
from linkwork.spatial import Pose

ONE = (1.0, 1.0, 1.0)
UNOPENED = "named, none opened"  # note on mesh files, which are opened on demand


Indexed = tuple[int | None, Geometry]  # index among all shapes of the model if the file gives it


def shapes(link: Element, name: str, notes: Notes) -> list[Indexed]:
    """Return the shapes of a link; an invalid shape is noted and ignored."""
    indexed: list[Indexed] = []
    for k, element in enumerate(child for child in link.children if child.tag in ("visual", "collision")):
        extras = extension.of(element, {*extension.SHAPE, *extension.PLACES})
        if extras is not None and "same" in extras.attributes:  # described by another element
            continue
        geometry = next(iter(element.all("geometry")), None)
        shape = next(iter(geometry.children), None) if geometry is not None else None
        if shape is None:
            continue
        try:
            sized = _size(shape)
            place = origin(element, Notes())
        except ValueError:  # an invalid drawing is not an error
            sized = None
        if sized is None:
            notes.passed_over(
                shape,
                f"shape <{printable(shape.tag)}> is not supported and ignored",
                at(link),
                acts=element.tag == "collision",
            )
            continue
        made = geometry_of(element, k, name, place, shape.tag, sized, rgba=_colour(element))
        indexed.append(
            (_index(extras), made if extras is None else replace(made, **extension.shape_words(extras)))
        )
    return indexed + _further(link, name)


def _further(link: Element, name: str) -> list[Indexed]:
    """Return shapes that URDF does not support, from the <linkwork> of a link."""
    extras = extension.of(link, set(), {"shape"})
    indexed: list[Indexed] = []
    for element in extras.all("shape") if extras is not None else ():
        keys = {"shape", "size", "mesh", "scale", "index"}
        extension.check(element, {*extension.SHAPE, *keys}, {"origin", "vertex", "row"})
        options = extension.shape_words(element) | {"link": name}
        for key in ("size", "scale"):
            if key in element.attributes:
                options[key] = extension.numbers(element, key)
        options["vertices"] = tuple(
            vertex.numbers("xyz", 3, largest=MAX_VALUE) for vertex in element.all("vertex")
        )
        options["heights"] = tuple(extension.numbers(row, "z") for row in element.all("row"))
        kind = element.word("shape")
        mesh = element.attributes.get("mesh", "")
        geometry = Geometry(body=GROUND, place=origin(element, Notes()), shape=kind, mesh=mesh, **options)
        indexed.append((_index(element), geometry))
    return indexed


def _index(element: Element | None) -> int | None:
    """Return the index of a shape among all shapes if its element has one."""
    indices = () if element is None else extension.integers(element, "index")
    return indices[0] if indices else None


def in_order(indexed: list[Indexed]) -> list[Geometry]:
    """Return shapes by index; those without one come first, in the order of the file."""
    return [shape for _, shape in sorted(indexed, key=lambda pair: -1 if pair[0] is None else pair[0])]


def geometry_of(
    element: Element,
    k: int,
    link: str,
    place: Pose,
    shape: str,
    sized: tuple[Any, str, tuple[float, ...]],
    **options: Any,
) -> Geometry:
    """Return the k-th <visual> or <collision> of a link; `sized` has size, file and scale."""
    size, mesh, scale = sized
    name = element.attributes.get("name") or f"{element.tag}{k}"
    options |= {"visual": element.tag == "visual", "collision": element.tag == "collision", "link": link}
    return Geometry(f"{link}::{name}", GROUND, place, shape, size, mesh, scale, **options)


def _size(shape: Element) -> tuple[tuple[float, ...], str, tuple[float, ...]] | None:
    """Return size, file and scale; None for a shape that URDF does not support."""
    if shape.tag == "box":
        return shape.numbers("size", 3, largest=MAX_VALUE), "", ONE
    if shape.tag == "sphere":
        return (shape.number("radius", largest=MAX_VALUE),), "", ONE
    if shape.tag in ("cylinder", "capsule"):
        return tuple(shape.number(key, largest=MAX_VALUE) for key in ("radius", "length")), "", ONE
    if shape.tag == "mesh":
        return (), shape.word("filename"), shape.numbers("scale", 3, ONE, largest=MAX_VALUE)
    return None


def _colour(element: Element) -> tuple[float, ...] | None:
    material = next(iter(element.all("material")), None)
    colour = next(iter(material.all("color")), None) if material is not None else None
    try:
        return None if colour is None else colour.numbers("rgba", 4, (0.5, 0.5, 0.5, 1.0))
    except ValueError:
        return None
