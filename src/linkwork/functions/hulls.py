"""Convex hulls of meshes, for contact: a few corners of each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.folders import Folders, find_mesh
from linkwork.formats.mesh_files import read_mesh
from linkwork.formats.urdf_shapes import UNOPENED
from linkwork.model import Model
from linkwork.parts import Geometry
from linkwork.parts.names import shown, some
from linkwork.spatial.constants import put

CORNERS = 64  # the most
DIRECTIONS = 1000
AT_ONCE = 16  # directions, so that large meshes need little memory


def with_hulls(model: Model, folders: Iterable[str | os.PathLike[str]], *, corners: int = 16) -> Model:
    """The same model with a convex hull of at most so many `corners` in the place of each mesh that can collide.

    Their files (STL, OBJ, COLLADA) are opened only inside of `folders`; package://NAME/rest is looked for as NAME/rest and as
    rest in each. Corners are vertices of the mesh; a note says by how much the hulls miss the meshes. Meshes stay to be drawn.
    """
    if not isinstance(model, Model):
        raise ModelError(f"with_hulls: the first argument must be a model, not {type(model).__name__}")
    allowed, found, worst = Folders(None, folders), list[Geometry](), 0.0
    read: dict[Any, tuple[tuple[tuple[float, ...], ...], float]] = {}
    for each in model.geometries:
        if each.shape != "mesh" or not each.collision:
            found.append(each)
            continue
        if (key := (each.mesh, each.scale)) not in read:
            read[key] = _read(each, allowed, corners)
        vertices, missed = read[key]
        worst = max(worst, missed)
        found += [replace(each, collision=False)] if each.visual else []
        name = f"{each.name} hull" if each.visual else each.name
        found.append(replace(each, name=name, shape="hull", mesh="", visual=False, vertices=vertices))
    changed = replace(model, geometries=tuple(found), kernels={})
    put(changed, "given_clusters", model.given_clusters)
    put(changed, "clusters", model.clusters)  # they are the same, and take time to find
    if read:
        miss = f"have at most {corners} corners and miss the meshes by up to {1000.0 * worst:.2g} mm"
        files = {mesh for mesh, _ in read}
        drawn = sorted({each.mesh for each in found if each.shape == "mesh"} - files)
        are = f"{len(drawn)} mesh files are" if len(drawn) > 1 else "1 mesh file is"
        rest = [f"{are} only drawn, and not opened: {some([shown(mesh) for mesh in drawn], 3)}"] if drawn else []
        before = (note for note in model.notes if f" {UNOPENED}: " not in note)
        put(changed, "notes", (*before, f"hulls of {len(read)} meshes, whose files were opened, {miss}", *rest))
    else:
        put(changed, "notes", model.notes)
    return changed


def _read(each: Geometry, folders: Folders, corners: int) -> tuple[tuple[tuple[float, ...], ...], float]:
    try:
        mesh = read_mesh(find_mesh(each.mesh, folders)).scaled(np.array(each.scale, dtype=float))
    except ModelError as error:
        raise ModelError(f"with_hulls: shape {shown(each.name)!r}: {error}") from None
    kept, missed = _chosen(mesh.vertices, corners)
    return tuple(tuple(row) for row in kept.tolist()), missed


def hull_corners(vertices: Any, corners: int = 16) -> np.ndarray:
    """At most so many of some points [m], (n, 3), whose convex hull is about that of all, (corners, 3)."""
    return _chosen(vertices, corners)[0]


def _chosen(vertices: Any, corners: int) -> tuple[np.ndarray, float]:
    """The corners, and by how much their hull misses the points [m].

    Of the points that are farthest in one of many directions, the one is added again and again that is farthest outside of
    the hull of those before.
    """
    if isinstance(corners, bool) or not isinstance(corners, int) or not 4 <= corners <= CORNERS:
        raise ModelError(f"corners must be a whole number from 4 to {CORNERS}, not {corners!r}")
    try:
        points = np.asarray(vertices, dtype=float)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points) or not np.isfinite(points).all():
        raise ModelError("vertices must be finite numbers of shape (n, 3)")
    around = _directions()
    extreme = np.unique(
        [int(k) for i in range(0, len(around), AT_ONCE) for k in np.argmax(points @ around[i : i + AT_ONCE].T, axis=0)]
    )
    points = points[extreme]
    reach = points @ around.T  # (points, directions)
    most = reach.max(axis=0)
    kept = [int(np.argmax(reach[:, 0]))]
    while True:
        short = most - reach[kept].max(axis=0)
        k = int(np.argmax(short))
        if len(kept) == min(corners, len(points)) or short[k] <= 1e-9 * float(np.abs(points).max()):
            return points[sorted(kept)], float(max(short[k], 0.0))
        kept.append(int(np.argmax(reach[:, k])))


def _directions() -> np.ndarray:
    """Unit vectors all around: along axes, to corners of a cube, and on a spiral."""
    k = np.arange(DIRECTIONS) + 0.5
    z = 1.0 - 2.0 * k / DIRECTIONS
    turn, r = np.pi * (1.0 + sqrt(5.0)) * k, np.sqrt(1.0 - z * z)
    spiral = np.column_stack([r * np.cos(turn), r * np.sin(turn), z])
    cube = np.array([[x, y, z] for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0) for z in (-1.0, 0.0, 1.0) if x or y or z])
    return np.concatenate([cube / np.linalg.norm(cube, axis=1)[:, None], spiral])
