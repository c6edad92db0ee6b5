"""COLLADA (.dae) meshes, read as hostile input: triangles and polygons of the scene, without materials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

from linkwork.formats.mesh import Mesh, check_size, together

DEEPEST, MOST_NODES = 50, 10_000
MOST_TAGS = 1_000_000  # and attributes
PIECE = 2**20  # characters that are split into numbers at once: words take much more memory than numbers
_SPACE = re.compile(r"\s")
Element = ElementTree.Element


def collada_mesh(data: bytes, most: int) -> Mesh:
    """The scene of a file as one mesh in metres; ValueError where it is none, or has more than `most` triangles.

    The direction that it calls up is not looked at, as usual for robots. Document types and entities are refused.
    """
    if b"\0" in data or re.search(rb"<!(?!--|\[CDATA\[)", data):
        raise ValueError("it has a document type, or is not in UTF-8: neither is read")
    if data.count(b"<") + data.count(b"=") > MOST_TAGS:
        raise ValueError(f"it has more than {MOST_TAGS} tags and attributes")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(f"not XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != "COLLADA":
        raise ValueError("its root is not <COLLADA>")
    unit = root.find("asset/unit")
    metres = float(unit.get("meter", "1")) if unit is not None else 1.0
    shapes = {each.get("id", ""): _geometry(each, most) for each in root.iterfind("library_geometries/geometry")}
    scenes = root.findall("library_visual_scenes/visual_scene")
    named = [(shapes[url], T) for scene in scenes[:1] for url, T in _placed(scene, np.eye(4), [0], 0) if url in shapes]
    if not scenes:
        named = [(shape, np.eye(4)) for shape in shapes.values()]
    check_size([shape for shape, _ in named], most)  # before they are copied
    return together([_moved(shape, T) for shape, T in named]).scaled(metres)


def _moved(mesh: Mesh, T: np.ndarray) -> Mesh:
    return Mesh(mesh.vertices @ T[:3, :3].T + T[:3, 3], mesh.faces[:, ::-1] if np.linalg.det(T) < 0 else mesh.faces)


def _placed(node: Element, T: np.ndarray, seen: list[int], depth: int) -> Iterator[tuple[str, np.ndarray]]:
    """The names of the geometries of a node and of those below it, with where they are."""
    seen[0] += 1
    if depth > DEEPEST or seen[0] > MOST_NODES:
        raise ValueError("its scene is nested too deep, or has too many nodes")
    for element in node:
        if element.tag in ("matrix", "translate", "rotate", "scale"):
            T = T @ _transform(element)
        elif element.tag == "instance_geometry":
            seen[0] += 1
            yield element.get("url", "").lstrip("#"), T
    for child in node.iterfind("node"):
        yield from _placed(child, T, seen, depth + 1)


def _transform(element: Element) -> np.ndarray:
    x, T = _numbers(element.text, 16, float), np.eye(4)
    if element.tag == "matrix":
        return x.reshape(4, 4)
    if element.tag == "translate":
        T[:3, 3] = x
    elif element.tag == "scale":
        T[:3, :3] = np.diag(x)
    else:
        axis, angle = x[:3] / max(float(np.linalg.norm(x[:3])), 1e-12), np.radians(x[3])
        cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        T[:3, :3] = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    return T


def _geometry(geometry: Element, most: int) -> Mesh:
    """The triangles of a geometry; polygons are cut into fans."""
    parts = []
    for mesh in geometry.iterfind("mesh"):
        points = {source.get("id", ""): _points(source, most) for source in mesh.iterfind("source")}
        for vertices in mesh.iterfind("vertices"):
            for given in vertices.iterfind("input"):
                if given.get("semantic") == "POSITION":
                    points[vertices.get("id", "")] = points[given.get("source", "").lstrip("#")]
        for kind in ("triangles", "polylist", "polygons"):
            parts += [_faces(each, kind, points, most) for each in mesh.iterfind(kind)]
    check_size(parts, most)
    return together(parts)


def _points(source: Element, most: int) -> np.ndarray:
    array = source.find("float_array")
    if array is None:
        return np.zeros((0, 3))
    accessor = source.find("technique_common/accessor")
    stride = int(accessor.get("stride", "3")) if accessor is not None else 3
    numbers = _numbers(array.text, 12 * most, float)
    return numbers[: len(numbers) // stride * stride].reshape(-1, stride)[:, :3] if stride >= 3 else np.zeros((0, 3))


def _faces(element: Element, kind: str, points: dict[str, np.ndarray], most: int) -> Mesh:
    inputs = element.findall("input")
    width = 1 + max((int(each.get("offset", "0")) for each in inputs), default=0)
    vertex = next(each for each in inputs if each.get("semantic") == "VERTEX")
    own = points[vertex.get("source", "").lstrip("#")]
    first = int(vertex.get("offset", "0"))
    runs = [_numbers(p.text, 12 * most, int)[first::width] for p in element.iterfind("p")]
    if kind == "triangles":
        faces = np.concatenate([np.zeros(0, dtype=int), *runs]).reshape(-1, 3)
    else:
        counts = [len(run) for run in runs]
        if kind == "polylist":
            counts = _numbers(element.findtext("vcount"), most, int).tolist()
        faces = _fans(np.concatenate([np.zeros(0, dtype=int), *runs]), counts, most)
    if len(faces) and not (faces.min() >= 0 and faces.max() < len(own)):
        raise ValueError("a face names a vertex that is not there")
    return Mesh(own, faces)


def _fans(corners: np.ndarray, counts: list[int], most: int) -> np.ndarray:
    faces, at = [np.zeros((0, 3), dtype=int)], 0
    if sum(counts) > len(corners) or sum(counts) > 4 * most:
        raise ValueError("its polygons have more corners than there are numbers")
    for n in counts:
        own = corners[at : at + n]
        at += n
        if n >= 3:
            faces.append(np.stack([np.full(n - 2, own[0]), own[1:-1], own[2:]], axis=1))
    return np.concatenate(faces)


def _numbers(text: str | None, most: int, kind: type) -> np.ndarray:
    """The numbers of a text, at most so many."""
    whole, found, begin, count = text or "", [np.zeros(0, dtype=kind)], 0, 0
    while begin < len(whole):
        space = _SPACE.search(whole, begin + PIECE)
        end = space.start() if space else len(whole)
        found.append(np.array(whole[begin:end].split(), dtype=kind))
        begin, count = end, count + len(found[-1])
        if count > most:
            raise ValueError(f"it has more than {most} numbers in one element")
    return np.concatenate(found)
