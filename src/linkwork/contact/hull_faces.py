"""The faces of a convex hull of a few vertices, by looking at all triples of them."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

FACE_TOL = 1e-9  # relative to the size of the hull: how far vertices of a face are from its plane
MAX_FACE_CORNERS = 8  # of a face that count for manifolds


class Face(NamedTuple):
    """A face: its outward unit normal, and its corners in order, as many for all faces of a hull; some may
    repeat.
    """

    normal: tuple[float, ...]
    corners: tuple[tuple[float, ...], ...]


@lru_cache(maxsize=256)
def hull_faces(vertices: tuple[tuple[float, ...], ...]) -> tuple[Face, ...]:
    """Return the faces of the convex hull of vertices (n, 3), the largest first; none where these are on a
    line.

    Vertices in a plane have the two sides of that as faces.
    """
    points = np.array(vertices)
    size = float(np.ptp(points, axis=0).max())
    triples = np.array(list(combinations(range(len(points)), 3)))
    a, b, c = (points[triples[:, k]] for k in range(3))
    n = np.cross(b - a, c - a)
    lengths = np.linalg.norm(n, axis=1)
    usable = lengths > 1e-9 * size * size
    n = n[usable] / lengths[usable, None]
    a = a[usable]
    above = points @ n.T - np.einsum("ij,ij->i", n, a)  # (vertices, triples)
    result: dict[frozenset[int], tuple[float, Face]] = {}
    for sign in (1.0, -1.0):
        for k in np.flatnonzero((sign * above).max(axis=0) < FACE_TOL * size):
            on_it = np.flatnonzero(np.abs(above[:, k]) < FACE_TOL * size)
            key = frozenset([*on_it.tolist(), -1 if sign < 0.0 and len(on_it) == len(points) else -2])
            if key not in result:
                result[key] = _face(points[on_it], sign * n[k])
    ordered = sorted(result.values(), key=lambda each: -each[0])
    most = max((len(face.corners) for _, face in ordered), default=0)
    return tuple(
        face._replace(corners=(*face.corners, *(most - len(face.corners)) * face.corners[-1:]))
        for _, face in ordered
    )


def _face(points: np.ndarray, n: np.ndarray) -> tuple[float, Face]:
    """Return the area and the face of coplanar points: the corners of their hull in the plane,
    counterclockwise.
    """
    u = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    u /= np.linalg.norm(u)
    flat = np.column_stack([points @ u, points @ np.cross(n, u)])
    rim = _around(flat)
    x, y = flat[rim].T
    area = 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
    if len(rim) > MAX_FACE_CORNERS:
        rim = [rim[k * len(rim) // MAX_FACE_CORNERS] for k in range(MAX_FACE_CORNERS)]
    corners = tuple(tuple(row) for row in points[rim].tolist())
    return area, Face(tuple(n.tolist()), corners)


def _around(points: np.ndarray) -> list[int]:
    """Return the convex hull of points in a plane, counterclockwise (Andrew's monotone chain)."""
    order = sorted(range(len(points)), key=lambda k: tuple(points[k]))
    size = float(np.ptp(points, axis=0).max())

    def half(indices: list[int]) -> list[int]:
        chain: list[int] = []
        for k in indices:
            while len(chain) > 1:
                (x0, y0), (x1, y1), (x, y) = points[chain[-2]], points[chain[-1]], points[k]
                if (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) > 1e-12 * size * size:
                    break
                chain.pop()
            chain.append(k)
        return chain[:-1]

    return half(order) + half(order[::-1])
