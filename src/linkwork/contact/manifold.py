"""Contact manifolds: up to four points where the features of two shapes overlap, seen along the contact
normal.

A feature is a convex polygon (a face), a segment or a point of each shape. Both are projected along the
normal. The vertices of their overlap are the points that may touch, each with the distance between the two
shapes there. Four of them are kept, and no gap is smaller than the distance of the shapes. Their order
follows directions that are fixed to the second shape, so that a manifold is stable from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum, minimum, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.contact.surfaces import axes_along
from linkwork.spatial.constants import product

# relative to the size of the shapes: points that are this far outside of a polygon count as inside
EDGE_TOL = 1e-6
# the same: a point that is deeper by this than all that were chosen replaces one of them
DEEPER_MARGIN = 1e-6
# the same: a point that is this near to the nearest points of the shapes is replaced by these
NEAREST_TOL = 1e-5
FIRST_DIRECTION = (
    0.75,
    0.55,
    0.36,
)  # the direction, in the frame of the second shape, in which the first point is farthest
NO_SCORE = -1e30  # a score below all others


class Meeting(NamedTuple):
    """A point where two shapes may touch: on the first shape and on the second, (3,) each, in the frame of
    the second.

    `gap` [m] is the distance from the second to the first along the normal, negative where they overlap.
    """

    gap: Any
    point: np.ndarray
    other_point: np.ndarray


class Patch(NamedTuple):
    """Vertices (k, 3) of a feature, in order, and the condition that it is what looks at the other shape."""

    vertices: np.ndarray
    present: Any = True


class _Spot(NamedTuple):
    """A point of the overlap: its place across the normal, the heights of both shapes there, and whether it
    exists.
    """

    x: Any
    y: Any
    z: Any
    other_z: Any
    valid: Any

    @property
    def gap(self) -> Any:
        return self.z - self.other_z


def _either(condition: Any, a: _Spot, b: _Spot, valid: Any) -> _Spot:
    """Return the spot a where the condition holds, else b."""
    x, y, z, other_z = (where(condition, p, q) for p, q in zip(a[:4], b[:4]))
    return _Spot(x, y, z, other_z, valid)


class _Outline:
    """A feature in axes t1, t2, n: its vertices (k, 3), and the plane through it as z = z0 + slope (x, y)."""

    def __init__(self, vertices: np.ndarray) -> None:
        self.vertices = vertices
        self.closed = len(vertices) > 2
        ends = [*vertices, vertices[0]] if self.closed else list(vertices)
        self.edges = list(pairwise(ends))
        if not self.closed:
            return
        normal: Any = np.zeros(3)
        for p, q in self.edges:  # Newell's sum, twice the area
            d = q - p
            m = q + p
            normal = normal + np.array(
                [m[1] * d[2] - m[2] * d[1], m[2] * d[0] - m[0] * d[2], m[0] * d[1] - m[1] * d[0]]
            )
        self.turn = where(normal[2] < 0.0, -1.0, 1.0)
        thin = absolute(normal[2]) < 1e-30
        scale = where(thin, 0.0, -1.0 / where(thin, 1.0, normal[2]))
        self.slope = (normal[0] * scale, normal[1] * scale)

    def height(self, x: Any, y: Any) -> Any:
        """Return the height of the plane through the polygon at a place."""
        x0, y0, z0 = self.vertices[0]
        return z0 + self.slope[0] * (x - x0) + self.slope[1] * (y - y0)

    def within(self, x: Any, y: Any, slack: Any) -> list[Any]:
        """Return, for each edge, the distance of a place inside it times the edge's length, with `slack` [m]
        added.
        """
        result = []
        for (x0, y0, _), (x1, y1, _) in self.edges:
            across = x1 - x0
            up = y1 - y0
            inside = self.turn * (across * (y - y0) - up * (x - x0))
            result.append(inside + slack * (absolute(across) + absolute(up)))
        return result


def _of_vertices(one: _Outline, other: _Outline, slack: Any, *, first: bool) -> list[_Spot]:
    """Return the vertices of one feature that are inside of the other, a polygon; `first`: one is of the
    first shape.
    """
    result = []
    for x, y, z in one.vertices:
        inside = [each >= 0.0 for each in other.within(x, y, slack)]
        valid = inside[0]
        for each in inside[1:]:
            valid = valid & each
        other_height = other.height(x, y)
        result.append(_Spot(x, y, z, other_height, valid) if first else _Spot(x, y, other_height, z, valid))
    return result


def _of_edges(one: _Outline, other: _Outline, slack: Any, *, first: bool) -> list[_Spot]:
    """Return both ends of the parts of edges that are inside of the other feature, a polygon (Cyrus and
    Beck).
    """
    result = []
    for start, end in one.edges:
        step = end - start
        low: Any = 0.0
        high: Any = 1.0
        valid: Any = None
        for at_start, at_end in zip(
            other.within(start[0], start[1], slack), other.within(end[0], end[1], slack)
        ):
            change = at_end - at_start
            crossing = (at_start < 0.0) | (at_end < 0.0)
            share = -at_start / where(crossing, where(change == 0.0, 1.0, change), 1.0)
            low = where(crossing & (at_end > at_start), maximum(low, share), low)
            high = where(crossing & (at_start > at_end), minimum(high, share), high)
            subset = (at_start >= 0.0) | (at_end >= 0.0)
            valid = subset if valid is None else valid & subset
        valid = valid & (low <= high)
        for share in (low, high):
            x, y, z = (p + share * d for p, d in zip(start, step))
            other_height = other.height(x, y)
            result.append(
                _Spot(x, y, z, other_height, valid) if first else _Spot(x, y, other_height, z, valid)
            )
    return result


def _overlap(one: _Outline, other: _Outline, slack: Any) -> list[_Spot]:
    """Return the vertices of the overlap of two features, some of them more than once."""
    if one.closed and other.closed:
        return [*_of_edges(one, other, slack, first=True), *_of_vertices(other, one, slack, first=False)]
    if other.closed:
        ends = len(one.vertices) > 1
        return _of_edges(one, other, slack, first=True) if ends else []
    if one.closed:
        ends = len(other.vertices) > 1
        return _of_edges(other, one, slack, first=False) if ends else []
    return []


def negated(condition: Any) -> Any:
    """Return the opposite of a condition, over numbers or symbols."""
    return ~condition if isinstance(condition, Symbol) else not condition


def _apart(a: _Spot, b: _Spot) -> Any:
    """Return the squared distance of two spots across the normal."""
    return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)


def _best(spots: Sequence[_Spot], score: Callable[[_Spot], Any], start: _Spot) -> tuple[_Spot, Any]:
    """Return the spot with the highest score, and that score; `start` where none exists."""
    best = start
    highest = score(start) if start.valid is True else NO_SCORE
    for spot in spots:
        value = where(spot.valid, score(spot), NO_SCORE)
        higher = value > highest
        highest = where(higher, value, highest)
        best = _either(higher, spot, best, True)
    return best, highest


def _chosen(
    spots: list[_Spot], witness: _Spot, along: np.ndarray, scale: Any, *, sharp: Any, count: int
) -> list[_Spot]:
    """Return two or four spots that span the overlap, including the deepest; `valid` flags distinct ones.

    The first one is farthest in the direction `along`. The witness counts where the shapes are sharp there,
    where it is deeper than all vertices, or where there are none.
    """
    near = 1e-6 * scale
    none = witness._replace(valid=False)
    first, found_values = _best(spots, lambda s: along[0] * s.x + along[1] * s.y, none)
    subset = found_values > NO_SCORE
    second, apart = _best(spots, lambda s: _apart(s, first), first)
    dx = second.x - first.x
    dy = second.y - first.y

    def side(s: _Spot) -> Any:
        return dx * (s.y - first.y) - dy * (s.x - first.x)

    two = subset & (apart > near * near)
    selected = [first._replace(valid=subset), second._replace(valid=two)]
    if count > 2:
        remaining, above = _best(spots, side, first)
        right, below = _best(spots, lambda s: -side(s), first)
        wide = near * (absolute(dx) + absolute(dy))
        selected += [
            remaining._replace(valid=two & (above > wide)),
            right._replace(valid=two & (below > wide)),
        ]
    beside = selected[0]
    least = selected[0].gap
    for each in selected[1:]:
        beside = _either(_apart(each, witness) < _apart(beside, witness), each, beside, True)
        least = minimum(least, each.gap)
    sharp = sharp | (subset & (_apart(beside, witness) < NEAREST_TOL * NEAREST_TOL * scale * scale))
    deep, _ = _best([*spots, witness], lambda s: -s.gap, none)
    deep = _either(sharp, witness, deep, True)
    replaced = sharp | negated(subset) | (deep.gap < least - DEEPER_MARGIN * scale)
    away = [_apart(s, deep) for s in selected]
    nearest = away[0]
    for distance in away[1:]:
        nearest = minimum(nearest, distance)
    taken: Any = None
    result = []
    for s, distance in zip(selected, away):
        is_replaced = replaced & (distance <= nearest)
        if taken is not None:
            is_replaced = is_replaced & negated(taken)
        taken = is_replaced if taken is None else taken | is_replaced
        result.append(_either(is_replaced, deep, s, is_replaced | s.valid))
    return result


def manifold(
    n: np.ndarray,
    patches: Sequence[Patch],
    other_patches: Sequence[Patch],
    witness: Meeting,
    scale: Any,
    *,
    sharp: Any = False,
    count: int = 4,
) -> tuple[np.ndarray, list[Meeting]]:
    """Return axes (3, 3), rows n, t1, t2, and up to four points at which two shapes may touch along n, in the
    frame of the second.

    `patches` are features that look at the other shape, `witness` the nearest points of the shapes, and
    `scale` [m] the size of the smaller shape. `sharp`: the nearest points are unique, and so among the
    points. Points that repeat others have gaps that are larger by the scale, so that they carry nothing.
    """
    axes = axes_along(list(n))
    if count == 1:
        return axes, [witness]
    frame = axes[[1, 2, 0]]
    spots: list[_Spot] = []
    for one in patches:
        for other in other_patches:
            outlines = [_Outline(product(each.vertices, frame.T)) for each in (one, other)]
            result = _overlap(outlines[0], outlines[1], EDGE_TOL * scale)
            for present in (each.present for each in (one, other) if each.present is not True):
                result = [spot._replace(valid=spot.valid & present) for spot in result]
            spots += result
    x, y, z = product(frame, witness.point)
    at_witness = _Spot(x, y, z, product(n, witness.other_point), True)
    meetings = []
    for spot in _chosen(
        spots, at_witness, product(frame, np.array(FIRST_DIRECTION)), scale, sharp=sharp, count=count
    ):
        place = spot.x * frame[0] + spot.y * frame[1]
        apart = maximum(spot.gap, witness.gap) + where(spot.valid, 0.0, scale)
        meetings.append(Meeting(apart, place + spot.z * n, place + spot.other_z * n))
    return axes, meetings
