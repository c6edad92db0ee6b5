"""Visuals of bodies from the geometries of a model: primitives, and meshes of allowed folders."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.folders import Folders, find_mesh
from linkwork.formats.mesh import Mesh, together
from linkwork.formats.mesh_files import read_mesh
from linkwork.mechanism.attached import Geometry
from linkwork.visualization.shapes import box, cylinder, ellipsoid

MAX_VISUALS = 2000  # visuals of a file


def geometry_meshes(
    geometries: Iterable[Geometry], folders: Folders
) -> tuple[dict[int, list[Mesh]], list[str]]:
    """Return the meshes of a model's visual geometries by body, in its frame, and a sentence for each that
    cannot be shown.
    """
    result: dict[int, list[Mesh]] = {}
    notes: list[str] = []
    read: dict[str, Mesh] = {}
    for each in [one for one in geometries if one.visual][:MAX_VISUALS]:
        try:
            mesh = _shape(each, folders, read)
        except (ModelError, ValueError, IndexError) as error:
            notes.append(str(error))
            continue
        if mesh is not None:
            result.setdefault(each.body, []).append(mesh.moved(each.place.R, each.place.p))
    return result, list(dict.fromkeys(notes))


def _shape(each: Geometry, folders: Folders, read: dict[str, Mesh]) -> Mesh | None:
    """Return the mesh of one geometry; None for shapes that are not drawn, such as planes."""
    size = np.array(each.size, dtype=float)
    if each.shape == "box":
        return box(size)
    if each.shape == "sphere":
        return ellipsoid(float(size[0]))
    if each.shape == "ellipsoid":
        return ellipsoid(size)
    if each.shape == "cylinder":
        return cylinder(float(size[0]), float(size[1]))
    if each.shape == "capsule":
        radius = float(size[0])
        length = float(size[1])
        ends = [
            ellipsoid(radius).moved(np.eye(3), np.array([0.0, 0.0, z])) for z in (-length / 2, length / 2)
        ]
        return together([cylinder(radius, length), *ends])
    if each.shape == "mesh":
        if each.mesh not in read:
            read[each.mesh] = read_mesh(find_mesh(each.mesh, folders))
        return read[each.mesh].scaled(np.array(each.scale, dtype=float))
    return None
