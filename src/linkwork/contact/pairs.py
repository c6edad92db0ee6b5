"""Which points of two shapes are looked at: one function for each pair of kinds."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import NamedTuple

import numpy as np

from linkwork.contact.laws import Ball, Ellipsoid, Law, LowerCorner, LowerRim, Reversed, Rim, SegmentOnBox, Segments
from linkwork.contact.surfaces import PLANE, Box, HeightField, Surface
from linkwork.ir.functions import sincos
from linkwork.parts import Geometry
from linkwork.spatial import Pose

RIM = 3  # fixed points of a cylinder's rim, beside the lowest one


class Contact(NamedTuple):
    """One point of a pair of shapes: the law, and the frames that it is about, in those of the shapes."""

    label: str
    law: Law
    at: Pose = Pose.identity()
    other_at: Pose = Pose.identity()


def surface_of(shape: Geometry) -> Surface:
    """The surface of a plane, box or height field."""
    if shape.shape == "plane":
        return PLANE
    if shape.shape == "heightfield":
        return HeightField(shape.size[0], shape.size[1], shape.heights)
    return Box(_half_edges(shape))


def _half_edges(box: Geometry) -> tuple[float, float, float]:
    x, y, z = box.size
    return 0.5 * x, 0.5 * y, 0.5 * z


def _at(x: float, y: float, z: float) -> Pose:
    return Pose.translation(np.array([x, y, z]))


def _point(shape: Geometry, surface: Surface) -> list[Contact]:
    return [Contact("", Ball(0.0, surface))]


def _sphere(shape: Geometry, surface: Surface) -> list[Contact]:
    return [Contact("", Ball(shape.size[0], surface))]


def _capsule(shape: Geometry, surface: Surface) -> list[Contact]:
    """Both ends; on a box also where it is nearest to that."""
    radius, half = shape.size[0], 0.5 * shape.size[1]
    ends = [Contact(label, Ball(radius, surface), _at(0.0, 0.0, z)) for label, z in (("+z", half), ("-z", -half))]
    return [*ends, Contact("~", SegmentOnBox(radius, half, surface))] if isinstance(surface, Box) else ends


def _corners(shape: Geometry, surface: Surface) -> list[Contact]:
    """Of a box those of the face that faces the surface most."""
    sides = [(a, b) for a in (1.0, -1.0) for b in (1.0, -1.0)]
    return [Contact(f"[{k}]", LowerCorner(_half_edges(shape), signs, surface)) for k, signs in enumerate(sides)]


def _hull(shape: Geometry, surface: Surface) -> list[Contact]:
    return [Contact(f"[{k}]", Ball(0.0, surface), _at(*vertex)) for k, vertex in enumerate(shape.vertices)]


def _ellipsoid(shape: Geometry, surface: Surface) -> list[Contact]:
    x, y, z = shape.size
    return [Contact("", Ellipsoid((x, y, z), surface))]


def _cylinder(shape: Geometry, surface: Surface) -> list[Contact]:
    """Of each rim the lowest point, on which it rolls, and of the lower rim fixed ones, on which it stands."""
    radius, half = shape.size[0], 0.5 * shape.size[1]
    found = [Contact(label, Rim(radius, z, surface)) for label, z in (("+z", half), ("-z", -half))]
    turns = [sincos(2.0 * pi * k / RIM) for k in range(RIM)]
    ring = [(radius * float(cosine), radius * float(sine)) for sine, cosine in turns]
    return [*found, *(Contact(f"[{k}]", LowerRim(x, y, half, surface)) for k, (x, y) in enumerate(ring))]


ON_SURFACES: dict[str, Callable[[Geometry, Surface], list[Contact]]] = {
    "point": _point,
    "sphere": _sphere,
    "capsule": _capsule,
    "box": _corners,
    "hull": _hull,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
}
SURFACES = ("plane", "heightfield", "box")


def _on_surface(shape: Geometry, other: Geometry) -> list[Contact]:
    return ON_SURFACES[shape.shape](shape, surface_of(other))


def _boxes(one: Geometry, other: Geometry) -> list[Contact]:
    """The corners of each on the other."""
    back = [Contact(f"<{c.label}", Reversed(c.law), c.other_at, c.at) for c in _on_surface(other, one)]
    return [*_on_surface(one, other), *back]


def _segments(one: Geometry, other: Geometry) -> list[Contact]:
    radii = [each.size[0] if each.size else 0.0 for each in (one, other)]  # a point has none
    halves = [0.5 * each.size[1] if each.shape == "capsule" else 0.0 for each in (one, other)]
    return [Contact("", Segments(radii[0], halves[0], radii[1], halves[1]))]


PAIRS: dict[tuple[str, str], Callable[[Geometry, Geometry], list[Contact]]] = {
    **{(shape, surface): _on_surface for shape in ON_SURFACES for surface in SURFACES},
    ("box", "box"): _boxes,
    **{(one, other): _segments for one in ("point", "sphere", "capsule") for other in ("sphere", "capsule")},
}


def has_law(one: Geometry, other: Geometry) -> bool:
    """Whether there is a law for two shapes; none for heights that are not known."""
    known = (one.shape, other.shape) in PAIRS or (other.shape, one.shape) in PAIRS
    return known and all(each.heights for each in (one, other) if each.shape == "heightfield")


def contacts_of(one: Geometry, other: Geometry) -> list[Contact]:
    """The points of one shape that may touch another, where there is a law for the pair."""
    if (one.shape, other.shape) in PAIRS:
        return PAIRS[one.shape, other.shape](one, other)
    found = PAIRS[other.shape, one.shape](other, one)
    return [Contact(each.label, Reversed(each.law), each.other_at, each.at) for each in found]
