"""How links look, as a URDF or the geometries of a model say: primitives, and meshes inside the folders that the user named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats import xml
from linkwork.formats.urdf_parts import Notes, origin
from linkwork.parts.limits import Limits
from linkwork.view.meshes import Folders, read_mesh
from linkwork.view.shapes import Mesh, box, cylinder, ellipsoid, together

MOST = 2000  # visuals of a file


def urdf_visuals(
    path: str | os.PathLike[str], folders: Iterable[str | os.PathLike[str]] = ()
) -> tuple[dict[str, list[Mesh]], list[str]]:
    """The meshes of links by name, in their frames, and a sentence for each visual that cannot be shown.

    Empty for a file that is no URDF.
    """
    name = os.fspath(path)
    if not name.lower().endswith((".urdf", ".xml")):
        return {}, []
    limits = Limits()
    root = xml.parse(xml.content(name, limits), name, limits)
    if root.tag != "robot":
        return {}, []
    allowed = Folders(path, folders)
    found: dict[str, list[Mesh]] = {}
    notes: list[str] = []
    read: dict[str, Mesh] = {}
    for link in root.all("link"):
        for visual in link.all("visual")[:MOST]:
            try:
                place = origin(visual, Notes())
                mesh = _geometry(visual.needed("geometry"), allowed, read).moved(place.R, place.p)
                found.setdefault(link.attributes.get("name", ""), []).append(mesh)
            except ModelError as error:
                notes.append(str(error))
    return found, list(dict.fromkeys(notes))


def _geometry(geometry: xml.Element, folders: Folders, read: dict[str, Mesh]) -> Mesh:
    for element in geometry.children:
        if element.tag == "box":
            return box(np.array(element.numbers("size", 3, largest=1e6)))
        if element.tag == "cylinder":
            return cylinder(element.number("radius", largest=1e6), element.number("length", largest=1e6))
        if element.tag == "sphere":
            return ellipsoid(element.number("radius", largest=1e6))
        if element.tag == "mesh":
            name = element.word("filename")
            if name not in read:
                read[name] = read_mesh(folders.find(name))
            return read[name].scaled(np.array(element.numbers("scale", 3, (1.0, 1.0, 1.0), largest=1e6)))
    raise geometry.error("there is no box, cylinder, sphere or mesh in it")


def geometry_meshes(geometries: Iterable[Any], folders: Folders) -> tuple[dict[int, list[Mesh]], list[str]]:
    """The meshes of a model's visual geometries by body, in its frame, and a sentence for each that cannot be shown.

    A geometry has `body`, `place`, `shape`, `size` [m], `mesh`, `scale` and `visual`, as readers of files make them.
    """
    found: dict[int, list[Mesh]] = {}
    notes: list[str] = []
    read: dict[str, Mesh] = {}
    for each in [one for one in geometries if one.visual][:MOST]:
        try:
            mesh = _shape(each, folders, read)
        except (ModelError, ValueError, IndexError) as error:
            notes.append(str(error))
            continue
        if mesh is not None:
            found.setdefault(each.body, []).append(mesh.moved(each.place.R, each.place.p))
    return found, list(dict.fromkeys(notes))


def _shape(each: Any, folders: Folders, read: dict[str, Mesh]) -> Mesh | None:
    """The mesh of one geometry; None of what would hide everything else, such as a plane."""
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
        radius, length = float(size[0]), float(size[1])
        ends = [ellipsoid(radius).moved(np.eye(3), np.array([0.0, 0.0, z])) for z in (-length / 2, length / 2)]
        return together([cylinder(radius, length), *ends])
    if each.shape == "mesh":
        if each.mesh not in read:
            read[each.mesh] = read_mesh(folders.find(each.mesh))
        return read[each.mesh].scaled(np.array(each.scale, dtype=float))
    return None
