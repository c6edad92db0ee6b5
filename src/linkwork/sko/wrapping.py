"""Shortest paths of tendons around spheres and cylinders, over numbers or symbols.

The path from a to b lies in the plane through both and the centre of a sphere. That around a cylinder has the
same projection along the axis, and climbs evenly. It leaves the surface on tangents, where a and b see the
circle's centre and the tangent points under the angles acos(r / |a|) and acos(r / |b|).

A point beside the shape decides on which side the path passes it, as a sidesite of MuJoCo 4 does: where the
straight path would pass the centre on the other side, the path goes the long way around.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import absolute, atan2, maximum, sqrt, where
from linkwork.spatial import cross
from linkwork.spatial.constants import product

MIN_LENGTH = 1e-15  # below which lengths count as zero
SIDE_TOL = 1e-12  # sine of the angle to an end below which a sidesite is on neither side of it


class Arc(NamedTuple):
    """A path around a shape: whether it touches it, tangent points, (3,) each, and length between these."""

    touches: Any
    first: np.ndarray
    last: np.ndarray
    length: Any


def around(
    a: np.ndarray, b: np.ndarray, axis: np.ndarray | None, radius: float, side: np.ndarray | None
) -> Arc:
    """Return the path from a to b, (3,) each from the centre, around a sphere, or a cylinder about `axis`.

    With the position `side`, (3,), outside of the shape, the path passes the shape on that side.
    """
    if axis is None:
        return _around_circle(a, b, radius, side)
    flat = [x if x is None else x - product(axis, x) * axis for x in (a, b, side)]
    assert flat[0] is not None and flat[1] is not None
    arc = _around_circle(flat[0], flat[1], radius, flat[2])
    lengths = [_length(flat[0] - arc.first), arc.length, _length(flat[1] - arc.last)]
    low = product(axis, a)
    height = (product(axis, b) - low) / _positive(sum(lengths))
    first = arc.first + (low + height * lengths[0]) * axis
    last = arc.last + (low + height * (lengths[0] + arc.length)) * axis
    climb = height * arc.length
    return Arc(arc.touches, first, last, sqrt(arc.length * arc.length + climb * climb))


class _Ends(NamedTuple):
    """Ends of a path in the plane of a circle: unit vectors `to` them, and `across` these in the plane.

    `angle` is that between the ends, and `tangents` the sum of those between ends and tangent points [rad],
    with `cosines` and `sines`.
    """

    to: tuple[np.ndarray, np.ndarray]
    across: tuple[np.ndarray, np.ndarray]
    cosines: tuple[Any, Any]
    sines: tuple[Any, Any]
    angle: Any
    tangents: Any

    def separates(self, side: np.ndarray) -> Any:
        """Return whether the straight path crosses the plane through the centre opposite to `side`."""
        x, y = product(side, self.to[0]), product(side, self.across[0])
        b_x, b_y = product(self.to[1], self.to[0]), product(self.to[1], self.across[0])
        least = SIDE_TOL * (absolute(x) + absolute(y))  # an end may be the sidesite itself
        return (y < -least) & (y * b_x - x * b_y > least)

    def tangent_points(self, radius: float, turn: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the tangent points of the path along (turn 1) or against (turn -1) the angle."""
        first, last = (
            radius * (c * to + sign * turn * s * across)
            for c, s, to, across, sign in zip(self.cosines, self.sines, self.to, self.across, (1.0, -1.0))
        )
        return first, last


def _around_circle(a: np.ndarray, b: np.ndarray, radius: float, side: np.ndarray | None) -> Arc:
    """Return the path around a circle in the plane through its centre, a and b."""
    l_a, l_b = _length(a), _length(b)
    outside = (l_a >= radius) & (l_b >= radius)
    ends = _ends(a, b, l_a, l_b, radius, outside)
    arc = ends.angle - ends.tangents
    first, last = ends.tangent_points(radius, 1.0)
    if side is None:
        return Arc(outside & (arc > 0.0), first, last, radius * maximum(arc, 0.0))
    other = ends.tangent_points(radius, -1.0)
    far = ends.separates(side)
    arc = where(far, 2.0 * math.pi - ends.angle - ends.tangents, arc)
    first, last = where(far, other[0], first), where(far, other[1], last)
    return Arc(outside & (arc > 0.0), first, last, radius * maximum(arc, 0.0))


def _ends(a: np.ndarray, b: np.ndarray, l_a: Any, l_b: Any, radius: float, outside: Any) -> _Ends:
    to_a, to_b = a / _positive(l_a), b / _positive(l_b)
    normal = cross(to_a, to_b)
    sine = _length(normal)
    parallel = sine < MIN_LENGTH  # then the plane is arbitrary
    other = cross(to_a, where(absolute(to_a[0]) < 0.8, np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])))
    normal = where(parallel, other / _positive(_length(other)), normal / _positive(sine))
    lengths = (where(outside, l_a, 2.0 * radius), where(outside, l_b, 2.0 * radius))
    far = [sqrt(maximum(x * x - radius * radius, 0.0)) for x in lengths]
    return _Ends(
        (to_a, to_b),
        (cross(normal, to_a), cross(normal, to_b)),
        (radius / lengths[0], radius / lengths[1]),
        (far[0] / lengths[0], far[1] / lengths[1]),
        atan2(sine, product(to_a, to_b)),
        atan2(far[0], radius) + atan2(far[1], radius),
    )


def _length(x: np.ndarray) -> Any:
    square = product(x, x)
    positive = square > 0.0
    return where(positive, sqrt(where(positive, square, 1.0)), 0.0)


def _positive(x: Any) -> Any:
    """Return x, or 1 where it is zero."""
    return where(x > 0.0, x, 1.0)
