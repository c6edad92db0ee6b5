"""Convex hulls of meshes for contact, with few corners."""

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
from linkwork.mechanism import Geometry
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model
from linkwork.spatial.constants import set_frozen

MAX_CORNERS = 64
DIRECTIONS = 1000
DIRECTIONS_PER_PASS = 16  # limits memory for large meshes


def with_hulls(model: Model, folders: Iterable[str | os.PathLike[str]], *, corners: int = 16) -> Model:
    """Return the model with a convex hull of at most `corners` corners in place of each colliding mesh.

    Mesh files (STL, OBJ, COLLADA) are opened only inside `folders`; package://NAME/rest is searched as
    NAME/rest and as rest in each. Corners are vertices of the mesh; a note gives the largest distance by
    which hulls miss the meshes. Meshes remain for drawing.
    """
    if not isinstance(model, Model):
        raise ModelError(f"with_hulls: first argument: expected a model, got {type(model).__name__}")
    search_folders = Folders(None, folders)
    geometries = list[Geometry]()
    max_error = 0.0
    read: dict[Any, tuple[tuple[tuple[float, ...], ...], float]] = {}
    for geometry in model.geometries:
        if geometry.shape != "mesh" or not geometry.collision:
            geometries.append(geometry)
            continue
        if (key := (geometry.mesh, geometry.scale)) not in read:
            read[key] = _read(geometry, search_folders, corners)
        vertices, error = read[key]
        max_error = max(max_error, error)
        geometries += [replace(geometry, collision=False)] if geometry.visual else []
        name = f"{geometry.name} hull" if geometry.visual else geometry.name
        geometries.append(
            replace(geometry, name=name, shape="hull", mesh="", visual=False, vertices=vertices)
        )
    changed = replace(model, geometries=tuple(geometries), kernels={})
    set_frozen(changed, "clusters_override", model.clusters_override)
    set_frozen(changed, "clusters", model.clusters)  # they are the same, and take time to find
    if read:
        summary = f"have at most {corners} corners and miss the meshes by up to {1000.0 * max_error:.2g} mm"
        files = {mesh for mesh, _ in read}
        drawn = sorted({geometry.mesh for geometry in geometries if geometry.shape == "mesh"} - files)
        subject = f"{len(drawn)} mesh files are" if len(drawn) > 1 else "1 mesh file is"
        drawn_notes = (
            [f"{subject} only drawn, and not opened: {join_names([printable(mesh) for mesh in drawn], 3)}"]
            if drawn
            else []
        )
        other_notes = (note for note in model.notes if f" {UNOPENED}: " not in note)
        set_frozen(
            changed,
            "notes",
            (*other_notes, f"hulls of {len(read)} meshes, whose files were opened, {summary}", *drawn_notes),
        )
    else:
        set_frozen(changed, "notes", model.notes)
    return changed


def _read(each: Geometry, folders: Folders, corners: int) -> tuple[tuple[tuple[float, ...], ...], float]:
    try:
        mesh = read_mesh(find_mesh(each.mesh, folders)).scaled(np.array(each.scale, dtype=float))
    except ModelError as error:
        raise ModelError(f"with_hulls: shape {printable(each.name)!r}: {error}") from None
    selected, deviation = _select_corners(mesh.vertices, corners)
    return tuple(tuple(row) for row in selected.tolist()), deviation


def hull_corners(vertices: Any, corners: int = 16) -> np.ndarray:
    """Return at most `corners` of the points [m], (n, 3), whose convex hull approximates that of all."""
    return _select_corners(vertices, corners)[0]


def _select_corners(vertices: Any, corners: int) -> tuple[np.ndarray, float]:
    """Return the corners, and the largest distance by which their hull misses the points [m].

    Candidates are the points that are extreme in one of many directions. The candidate farthest outside the
    hull of those selected is added repeatedly.
    """
    if isinstance(corners, bool) or not isinstance(corners, int) or not 4 <= corners <= MAX_CORNERS:
        raise ModelError(f"corners: expected an integer from 4 to {MAX_CORNERS}, got {corners!r}")
    try:
        points = np.asarray(vertices, dtype=float)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points) or not np.isfinite(points).all():
        raise ModelError("vertices: expected finite numbers of shape (n, 3)")
    directions = _directions()
    extreme = np.unique(
        [
            int(k)
            for i in range(0, len(directions), DIRECTIONS_PER_PASS)
            for k in np.argmax(points @ directions[i : i + DIRECTIONS_PER_PASS].T, axis=0)
        ]
    )
    points = points[extreme]
    projections = points @ directions.T  # (points, directions)
    support = projections.max(axis=0)
    selected = [int(np.argmax(projections[:, 0]))]
    while True:
        missing = support - projections[selected].max(axis=0)
        k = int(np.argmax(missing))
        if len(selected) == min(corners, len(points)) or missing[k] <= 1e-9 * float(np.abs(points).max()):
            return points[sorted(selected)], float(max(missing[k], 0.0))
        selected.append(int(np.argmax(projections[:, k])))


def _directions() -> np.ndarray:
    """Return unit vectors in all directions: along axes, to corners of a cube, and on a spiral."""
    k = np.arange(DIRECTIONS) + 0.5
    z = 1.0 - 2.0 * k / DIRECTIONS
    turn = np.pi * (1.0 + sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    spiral = np.column_stack([r * np.cos(turn), r * np.sin(turn), z])
    cube = np.array(
        [
            [x, y, z]
            for x in (-1.0, 0.0, 1.0)
            for y in (-1.0, 0.0, 1.0)
            for z in (-1.0, 0.0, 1.0)
            if x or y or z
        ]
    )
    return np.concatenate([cube / np.linalg.norm(cube, axis=1)[:, None], spiral])
