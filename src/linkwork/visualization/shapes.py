"""Triangle meshes of boxes, cylinders, cones and ellipsoids.

Vertices are (n, 3) [m]; faces are (m, 3), with outward normals.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from linkwork.formats.mesh import Mesh

ROUND_SIDES = 20  # sides of cylinders and cones


def box(size: np.ndarray) -> Mesh:
    """Return a box around the origin, with edges of these lengths [m], (3,)."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([face for a, b, c, d in sides for face in ((a, b, c), (a, c, d))])
    return Mesh(corners * np.asarray(size, dtype=float), faces)


def frustum(bottom: float, top: float, length: float, sides: int = ROUND_SIDES) -> Mesh:
    """Return a cylinder, or a cone, along z around the origin: radii [m] of both ends, and its length [m]."""
    angle = 2.0 * np.pi * np.arange(sides) / sides
    ring = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(sides)])
    low = ring * bottom - [0, 0, length / 2]
    high = ring * top + [0, 0, length / 2]
    vertices = np.concatenate([low, high, [[0, 0, -length / 2], [0, 0, length / 2]]])
    faces = []
    for k in range(sides):
        n = (k + 1) % sides
        faces += [
            (k, n, sides + n),
            (k, sides + n, sides + k),
            (2 * sides, n, k),
            (2 * sides + 1, sides + k, sides + n),
        ]
    return Mesh(vertices, np.array(faces))


def cylinder(radius: float, length: float) -> Mesh:
    """Return a cylinder along z around the origin."""
    return frustum(radius, radius, length)


@cache
def _ball() -> Mesh:
    rings = 9
    sides = 16
    vertices: list[tuple[float, float, float]] = [(0.0, 0.0, 1.0)]
    for i in range(1, rings):
        polar = np.pi * i / rings
        vertices += [
            (
                np.sin(polar) * np.cos(2 * np.pi * k / sides),
                np.sin(polar) * np.sin(2 * np.pi * k / sides),
                np.cos(polar),
            )
            for k in range(sides)
        ]
    vertices.append((0.0, 0.0, -1.0))
    faces = []
    for k in range(sides):
        n = (k + 1) % sides
        faces.append((0, 1 + k, 1 + n))
        for i in range(rings - 2):
            a = 1 + i * sides
            b = 1 + (i + 1) * sides
            faces += [(a + k, b + k, b + n), (a + k, b + n, a + n)]
        last = 1 + (rings - 2) * sides
        faces.append((last + k, len(vertices) - 1, last + n))
    return Mesh(np.array(vertices), np.array(faces))


def ellipsoid(semi_axes: np.ndarray | float) -> Mesh:
    """Return an ellipsoid around the origin with these semi-axes [m] along x, y and z."""
    return _ball().scaled(semi_axes)


def rod(a: np.ndarray, b: np.ndarray, radius: float) -> Mesh:
    """Return a round bar from one point to another [m], (3,) each."""
    along = np.asarray(b, dtype=float) - np.asarray(a, dtype=float)
    length = float(np.linalg.norm(along))
    z = along / length
    x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
    x /= np.linalg.norm(x)
    R = np.column_stack([x, np.cross(z, x), z])
    return cylinder(radius, length).moved(R, 0.5 * (np.asarray(a) + np.asarray(b)))
