"""Collision functions by kinds of shapes: one function for each pair of kinds."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import sincos
from linkwork.contact import convex
from linkwork.contact.boxes import Boxes
from linkwork.contact.capsules import Capsules
from linkwork.contact.collision_functions import (
    Ball,
    Collision,
    CollisionFunction,
    Ellipsoid,
    LowerCorner,
    LowerRim,
    LowerVertex,
    PointOf,
    Reversed,
    Rim,
    Segments,
)
from linkwork.contact.convex import Convex
from linkwork.contact.hull_faces import hull_faces
from linkwork.contact.separation import ConvexPair
from linkwork.contact.surfaces import PLANE, Box, HeightField, Surface
from linkwork.mechanism import Geometry
from linkwork.spatial import Pose

TILTS = (
    (0.045, 0.022),
    (-0.022, 0.045),
    (-0.045, -0.022),
    (0.022, -0.045),
)  # by 3°, askew to edges that lie along axes
MAX_TESTED_CORNERS = 8  # hulls with more corners are searched for the nearest ones
RIM_POINTS = 3  # fixed points of a cylinder's rim, beside the lowest one


class Contact(NamedTuple):
    """One point of a pair of shapes: the law, and the frames that it is about, in those of the shapes."""

    label: str
    law: CollisionFunction
    at: Pose = Pose.identity()
    other_at: Pose = Pose.identity()


def surface_of(shape: Geometry) -> Surface:
    """Return the surface of a plane or height field."""
    if shape.shape == "plane":
        return PLANE
    return HeightField(shape.size[0], shape.size[1], shape.heights)


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
    """Return both ends."""
    radius = shape.size[0]
    half = 0.5 * shape.size[1]
    return [
        Contact(label, Ball(radius, surface), _at(0.0, 0.0, z)) for label, z in (("+z", half), ("-z", -half))
    ]


def _corners(shape: Geometry, surface: Surface) -> list[Contact]:
    """Return the corners of the face of a box that faces the surface most."""
    sides = [(a, b) for a in (1.0, -1.0) for b in (1.0, -1.0)]
    return [
        Contact(f"[{k}]", LowerCorner(_half_edges(shape), signs, surface)) for k, signs in enumerate(sides)
    ]


def _hull(shape: Geometry, surface: Surface) -> list[Contact]:
    """Return all corners of a hull that has few; of others the lowest one, and the lowest ones as seen a
    little tilted.
    """
    if len(shape.vertices) <= MAX_TESTED_CORNERS:
        return [
            Contact(f"[{k}]", Ball(0.0, surface), _at(*vertex)) for k, vertex in enumerate(shape.vertices)
        ]
    return [
        Contact(f"[{k}]", LowerVertex(shape.vertices, tilt, surface))
        for k, tilt in enumerate(((0.0, 0.0), *TILTS))
    ]


def _ellipsoid(shape: Geometry, surface: Surface) -> list[Contact]:
    x, y, z = shape.size
    return [Contact("", Ellipsoid((x, y, z), surface))]


def _cylinder(shape: Geometry, surface: Surface) -> list[Contact]:
    """Return the lowest point of each rim, on which a cylinder rolls, and fixed points of the lower rim, on
    which it stands.
    """
    radius = shape.size[0]
    half = 0.5 * shape.size[1]
    result = [Contact(label, Rim(radius, z, surface)) for label, z in (("+z", half), ("-z", -half))]
    turns = [sincos(2.0 * pi * k / RIM_POINTS) for k in range(RIM_POINTS)]
    ring = [(radius * float(cosine), radius * float(sine)) for sine, cosine in turns]
    return [*result, *(Contact(f"[{k}]", LowerRim(x, y, half, surface)) for k, (x, y) in enumerate(ring))]


ON_SURFACES: dict[str, Callable[[Geometry, Surface], list[Contact]]] = {
    "point": _point,
    "sphere": _sphere,
    "capsule": _capsule,
    "box": _corners,
    "hull": _hull,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
}
SURFACES = ("plane", "heightfield")


def _on_surface(shape: Geometry, other: Geometry) -> list[Contact]:
    return ON_SURFACES[shape.shape](shape, surface_of(other))


def _convex(shape: Geometry) -> tuple[Convex, Pose]:
    """Return a shape by its support function, and the frame that this is about."""
    if shape.shape in ("point", "sphere"):
        return convex.Ball(shape.size[0] if shape.size else 0.0), Pose.identity()
    if shape.shape == "capsule":
        return convex.Capsule(shape.size[0], 0.5 * shape.size[1]), Pose.identity()
    if shape.shape == "box":
        return convex.Box(_half_edges(shape)), Pose.identity()
    if shape.shape == "cylinder":
        return convex.Cylinder(shape.size[0], 0.5 * shape.size[1]), Pose.identity()
    if shape.shape == "ellipsoid":
        x, y, z = shape.size
        return convex.Ellipsoid((x, y, z)), Pose.identity()
    points = np.array(shape.vertices)
    middle = points.mean(axis=0)
    vertices = tuple(tuple(row) for row in (points - middle).tolist())
    return convex.Hull(vertices, hull_faces(vertices)), Pose.translation(middle)


def collision_of(one: Geometry, other: Geometry) -> tuple[Collision, Pose, Pose]:
    """Return the collision function of two convex shapes, and its frames in those of the shapes."""
    if one.shape == other.shape == "box":
        return Boxes(_half_edges(one), _half_edges(other)), Pose.identity(), Pose.identity()
    (first, at), (second, other_at) = _convex(one), _convex(other)
    return ConvexPair(first, second), at, other_at


def _together(one: Geometry, other: Geometry) -> list[Contact]:
    """Return the points of a manifold."""
    collision, at, other_at = collision_of(one, other)
    labels = [f"[{k}]" for k in range(collision.size)] if collision.size > 1 else [""]
    return [Contact(label, PointOf(collision, k), at, other_at) for k, label in enumerate(labels)]


def _sphere_on_box(sphere: Geometry, box: Geometry) -> list[Contact]:
    return ON_SURFACES[sphere.shape](sphere, Box(_half_edges(box)))


def _segments(one: Geometry, other: Geometry) -> list[Contact]:
    radii = [each.size[0] if each.size else 0.0 for each in (one, other)]  # a point has none
    halves = [0.5 * each.size[1] if each.shape == "capsule" else 0.0 for each in (one, other)]
    if all(halves):
        pair = Capsules(radii[0], halves[0], radii[1], halves[1])
        return [Contact(f"[{k}]", PointOf(pair, k)) for k in range(pair.size)]
    return [Contact("", Segments(radii[0], halves[0], radii[1], halves[1]))]


CONVEX = ("point", "sphere", "capsule", "box", "ellipsoid", "cylinder", "hull")
PAIRS: dict[tuple[str, str], Callable[[Geometry, Geometry], list[Contact]]] = {
    **{(one, other): _together for one in CONVEX for other in CONVEX},
    **{(shape, surface): _on_surface for shape in ON_SURFACES for surface in SURFACES},
    ("point", "box"): _sphere_on_box,
    ("sphere", "box"): _sphere_on_box,
    **{(one, other): _segments for one in ("point", "sphere", "capsule") for other in ("sphere", "capsule")},
}
for pair in (
    ("point", "point"),
    ("box", "point"),
    ("box", "sphere"),
    ("sphere", "point"),
    ("capsule", "point"),
):
    del PAIRS[pair]  # none, or the other way round


def has_law(one: Geometry, other: Geometry) -> bool:
    """Return whether there is a law for two shapes; none for heights that are not known."""
    known = (one.shape, other.shape) in PAIRS or (other.shape, one.shape) in PAIRS
    return known and all(each.heights for each in (one, other) if each.shape == "heightfield")


def contacts_of(one: Geometry, other: Geometry) -> list[Contact]:
    """Return the points of one shape that may touch another, where there is a law for the pair."""
    if (one.shape, other.shape) in PAIRS:
        return PAIRS[one.shape, other.shape](one, other)
    result = PAIRS[other.shape, one.shape](other, one)
    return [Contact(each.label, Reversed(each.law), each.other_at, each.at) for each in result]
