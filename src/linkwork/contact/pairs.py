"""Which points of two shapes are looked at: one function for each pair of kinds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from linkwork.contact.laws import BallOnPlane, Law
from linkwork.parts import Geometry
from linkwork.spatial import Pose


class Contact(NamedTuple):
    """One point of a pair of shapes: the law, and the frames that it is about, in those of the shapes."""

    label: str
    law: Law
    at: Pose = Pose.identity()
    other_at: Pose = Pose.identity()


class Ball(NamedTuple):
    """A ball, or a point, of a shape: its centre in the frame of the shape [m], and its radius [m]."""

    label: str
    centre: tuple[float, ...]
    radius: float = 0.0


def balls(shape: Geometry) -> list[Ball]:
    """The balls or points whose convex hull a shape is."""
    if shape.shape == "point":
        return [Ball("", (0.0, 0.0, 0.0))]
    if shape.shape == "sphere":
        return [Ball("", (0.0, 0.0, 0.0), shape.size[0])]
    if shape.shape == "capsule":
        radius, half = shape.size[0], 0.5 * shape.size[1]
        return [Ball(label, (0.0, 0.0, z), radius) for label, z in (("+z", half), ("-z", -half))]
    assert shape.shape == "box"
    half_edges = [0.5 * x for x in shape.size]
    corners = product((1.0, -1.0), repeat=3)
    return [
        Ball("".join("+" if s > 0 else "-" for s in sign), tuple(s * h for s, h in zip(sign, half_edges))) for sign in corners
    ]


def _balls_on_plane(shape: Geometry, plane: Geometry) -> list[Contact]:
    return [Contact(b.label, BallOnPlane(b.radius), Pose.translation(np.array(b.centre))) for b in balls(shape)]


PAIRS: dict[tuple[str, str], Callable[[Geometry, Geometry], list[Contact]]] = {
    ("point", "plane"): _balls_on_plane,
    ("sphere", "plane"): _balls_on_plane,
    ("capsule", "plane"): _balls_on_plane,
    ("box", "plane"): _balls_on_plane,
}
