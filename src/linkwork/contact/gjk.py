"""Nearest points of two convex sets that are apart: Gilbert, Johnson and Keerthi (1988), as a bounded loop.

The simplex has up to three points, since the origin is outside of the difference of the sets; points that are
not in use repeat others. Each step adds the support point against the nearest point so far, and keeps the
edge or triangle at the new point that is nearest to the origin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import loop, maximum, minimum, where
from linkwork.spatial.constants import product

MAX_STEPS = 48
CONVERGED_TOL = 1e-13  # relative to the squared distance: how much nearer another point may be at the end
FLAT_TOL = 1e-26  # squared height of a triangle that is none, relative to the edge that it is of

LAST_MARGIN = 1e-10  # by how much nearer an edge must be that ends in no vertex

Support = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Vertex(NamedTuple):
    """A point y of the difference of two sets, and the point of the first set that it is made of."""

    y: np.ndarray
    own: np.ndarray


class Pick(NamedTuple):
    """A point of an edge or triangle (w, first, second) by its coordinates, and its squared distance from the
    origin.
    """

    square: Any
    s: Any
    t: Any
    first: Vertex
    second: Vertex


def _either(condition: Any, a: Pick, b: Pick) -> Pick:
    def mixed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.array([where(condition, p, q) for p, q in zip(x, y)], dtype=object)

    vertices = [
        Vertex(mixed(x.y, y.y), mixed(x.own, y.own)) for x, y in ((a.first, b.first), (a.second, b.second))
    ]
    square, s, t = (where(condition, p, q) for p, q in zip(a[:3], b[:3]))
    return Pick(square, s, t, vertices[0], vertices[1])


def _nearest(w: Vertex, others: list[Vertex], before: Vertex) -> Pick:
    """Return the point nearest to the origin on the edges and triangles at w.

    The nearest point before is an end of another edge: where triangles are too thin for numbers, that one
    still leads on.
    """
    d = before.y - w.y
    square = product(d, d)
    s = minimum(maximum(-product(d, w.y) / where(square > 0.0, square, 1.0), 0.0), 1.0)
    q = w.y + s * d
    along_last = Pick(product(q, q), s, 0.0, before, w)
    best = Pick(product(w.y, w.y), 0.0, 0.0, w, w)
    e = [each.y - w.y for each in others]
    against = [-product(each, w.y) for each in e]
    squares = [product(each, each) for each in e]
    for k, each in enumerate(others):
        s = minimum(maximum(against[k] / where(squares[k] > 0.0, squares[k], 1.0), 0.0), 1.0)
        q = w.y + s * e[k]
        result = Pick(product(q, q), s, 0.0, each, w)
        best = _either(result.square < best.square, result, best)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        # by the part of one edge that is across the other: thin triangles keep their digits
        share = product(e[i], e[j]) / where(squares[i] > 0.0, squares[i], 1.0)
        across = e[j] - share * e[i]
        height = product(across, across)
        usable = (height > FLAT_TOL * squares[j]) & (squares[i] > 0.0)
        t = -product(across, w.y) / where(usable, height, 1.0)
        s = against[i] / where(usable, squares[i], 1.0) - t * share
        q = w.y + s * e[i] + t * e[j]
        result = Pick(product(q, q), s, t, others[i], others[j])
        inside = usable & (s > 0.0) & (t > 0.0) & (s + t < 1.0)
        best = _either(inside & (result.square < best.square), result, best)
    return _either(along_last.square < (1.0 - LAST_MARGIN) * best.square, along_last, best)


class Simplex(NamedTuple):
    """Up to three points of the difference of two sets, whose mean by `weights` is nearest to the origin."""

    vertices: tuple[Vertex, Vertex, Vertex]
    weights: tuple[Any, Any, Any]


def nearest_points(support: Support, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the point of the difference of two sets that is nearest to the origin, and the point of the
    first set there.

    `support` gives for a direction d the point of the difference that is farthest along it, and the point of
    the first set that it is made of; `start` is a direction from the second set to the first.
    """
    last = _search(support, start, weighted=False)
    return last[:3], last[3:6]


def nearest_simplex(support: Support, start: np.ndarray) -> tuple[np.ndarray, Simplex]:
    """Return the point of the difference of two sets that is nearest to the origin, and the points of the
    difference around it.
    """
    last = _search(support, start, weighted=True)
    vertices = tuple(Vertex(last[k : k + 3], last[k + 3 : k + 6]) for k in (6, 12, 18))
    s, t = last[24:]
    return last[:3], Simplex(vertices, (1.0 - s - t, s, t))  # type: ignore[arg-type]


def _search(support: Support, start: np.ndarray, *, weighted: bool) -> np.ndarray:
    y, first_point = support(-start)

    def step(state: np.ndarray) -> tuple[np.ndarray, Any]:
        v = state[:3]
        at = state[3:6]
        others = [Vertex(state[k : k + 3], state[k + 3 : k + 6]) for k in (6, 12, 18)]
        w = Vertex(*support(-v))
        square = product(v, v)
        result = _nearest(w, others, Vertex(v, at))
        v1 = w.y + result.s * (result.first.y - w.y) + result.t * (result.second.y - w.y)
        at1 = w.own + result.s * (result.first.own - w.own) + result.t * (result.second.own - w.own)
        better = (result.square < square) & (square - product(v, w.y) > CONVERGED_TOL * square)
        after = [
            *v1,
            *at1,
            *w.y,
            *w.own,
            *result.first.y,
            *result.first.own,
            *result.second.y,
            *result.second.own,
            *((result.s, result.t) if weighted else ()),
        ]
        return np.array([where(better, a, b) for a, b in zip(after, state)], dtype=object), better

    first = [*y, *first_point, *y, *first_point, *y, *first_point, *y, *first_point]
    first += [0.0, 0.0] if weighted else []
    last: np.ndarray = loop(step, np.array(first, dtype=object), limit=MAX_STEPS)
    return last
