"""Triangle meshes: vertices (n, 3) [m] and faces (m, 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Mesh(NamedTuple):
    """Vertices, (n, 3) [m], and faces, (m, 3): the numbers of three vertices each, counter-clockwise seen from outside."""

    vertices: np.ndarray
    faces: np.ndarray

    def moved(self, R: np.ndarray, p: np.ndarray) -> Mesh:
        """The same, turned and moved."""
        return Mesh(self.vertices @ np.asarray(R, dtype=float).T + np.asarray(p, dtype=float), self.faces)

    def scaled(self, scale: np.ndarray | float) -> Mesh:
        """The same, longer along each axis; turned inside out where an odd number of factors is negative."""
        factors = np.broadcast_to(np.asarray(scale, dtype=float), (3,))
        return Mesh(self.vertices * factors, self.faces[:, ::-1] if np.prod(factors) < 0 else self.faces)

    def simplified(self, most: int) -> Mesh:
        """About the same with at most so many faces: vertices in one cell of a grid become one, and faces that vanish go."""
        mesh, cells = self, 64
        while len(mesh.faces) > most and cells > 1:
            low, size = self.vertices.min(axis=0), max(float(np.ptp(self.vertices, axis=0).max()), 1e-12)
            keys = np.floor((self.vertices - low) / size * cells).astype(int)
            _, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            faces = places.reshape(-1)[self.faces]
            whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
            mesh, cells = Mesh(self.vertices[first], np.unique(faces[whole], axis=0)), cells // 2
        return mesh


def check_size(meshes: Iterable[Mesh], most: int) -> None:
    """That several meshes have at most so many triangles in all, and no more vertices than these can use; else ValueError."""
    faces = vertices = 0
    for mesh in meshes:
        faces, vertices = faces + len(mesh.faces), vertices + len(mesh.vertices)
        if faces > most or vertices > 3 * most:
            raise ValueError(f"it has more than {most} triangles, or more vertices than these can use")


def together(meshes: list[Mesh]) -> Mesh:
    """Several meshes as one."""
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts)]
    empty = np.zeros((0, 3))
    return Mesh(np.concatenate([empty, *(mesh.vertices for mesh in meshes)]), np.concatenate([empty, *faces]).astype(int))
