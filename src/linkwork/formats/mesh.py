"""Triangle meshes: vertices (n, 3) [m] and faces (m, 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Mesh(NamedTuple):
    """Vertices, (n, 3) [m], and faces, (m, 3): vertex indices, counter-clockwise seen from outside."""

    vertices: np.ndarray
    faces: np.ndarray

    def moved(self, R: np.ndarray, p: np.ndarray) -> Mesh:
        """Return the mesh rotated by R and translated by p [m]."""
        return Mesh(self.vertices @ np.asarray(R, dtype=float).T + np.asarray(p, dtype=float), self.faces)

    def scaled(self, scale: np.ndarray | float) -> Mesh:
        """Return the mesh scaled along each axis; faces are flipped by an odd number of negative factors."""
        factors = np.broadcast_to(np.asarray(scale, dtype=float), (3,))
        return Mesh(self.vertices * factors, self.faces[:, ::-1] if np.prod(factors) < 0 else self.faces)

    def simplified(self, max_faces: int) -> Mesh:
        """Return an approximation with at most `max_faces` faces.

        Vertices in one cell of a grid are merged, and degenerate faces are removed.
        """
        mesh = self
        cells = 64
        while len(mesh.faces) > max_faces and cells > 1:
            low = self.vertices.min(axis=0)
            size = max(float(np.ptp(self.vertices, axis=0).max()), 1e-12)
            keys = np.floor((self.vertices - low) / size * cells).astype(int)
            _, first, merged_indices = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            faces = merged_indices.reshape(-1)[self.faces]
            nondegenerate = (
                (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
            )
            mesh = Mesh(self.vertices[first], np.unique(faces[nondegenerate], axis=0))
            cells = cells // 2
        return mesh


def check_size(meshes: Iterable[Mesh], max_faces: int) -> None:
    """Raise ValueError for more than `max_faces` triangles in all, or more vertices than these can use."""
    faces = vertices = 0
    for mesh in meshes:
        faces = faces + len(mesh.faces)
        vertices = vertices + len(mesh.vertices)
        if faces > max_faces or vertices > 3 * max_faces:
            raise ValueError(f"more than {max_faces} triangles, or more vertices than these can use")


def together(meshes: list[Mesh]) -> Mesh:
    """Return several meshes as one."""
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts)]
    empty = np.zeros((0, 3))
    return Mesh(
        np.concatenate([empty, *(mesh.vertices for mesh in meshes)]),
        np.concatenate([empty, *faces]).astype(int),
    )
