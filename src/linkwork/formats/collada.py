"""Untrusted COLLADA (.dae) meshes: triangles and polygons of the scene, without materials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

from linkwork.formats.mesh import Mesh, check_size, together

MAX_DEPTH = 50  # nested nodes
MAX_NODES = 10_000
MAX_TAGS = 1_000_000  # tags and attributes
CHUNK = 2**20  # characters split into numbers at once, since strings take much more memory than numbers
_SPACE = re.compile(r"\s")
Element = ElementTree.Element


def collada_mesh(data: bytes, max_faces: int) -> Mesh:
    """Return the scene of a file as one mesh [m].

    Raises ValueError if the file is invalid or has more than `max_faces` triangles. As usual for robots, the
    declared up axis is ignored. Document types and entities are rejected.
    """
    if b"\0" in data or re.search(rb"<!(?!--|\[CDATA\[)", data):
        raise ValueError("document types and encodings other than UTF-8 are not supported")
    if data.count(b"<") + data.count(b"=") > MAX_TAGS:
        raise ValueError(f"more than {MAX_TAGS} tags and attributes")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(f"not XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != "COLLADA":
        raise ValueError("unsupported root element; expected <COLLADA>")
    unit = root.find("asset/unit")
    metres = float(unit.get("meter", "1")) if unit is not None else 1.0
    shapes = {
        each.get("id", ""): _geometry(each, max_faces)
        for each in root.iterfind("library_geometries/geometry")
    }
    scenes = root.findall("library_visual_scenes/visual_scene")
    named = [
        (shapes[url], T)
        for scene in scenes[:1]
        for url, T in _placed(scene, np.eye(4), [0], 0)
        if url in shapes
    ]
    if not scenes:
        named = [(shape, np.eye(4)) for shape in shapes.values()]
    check_size([shape for shape, _ in named], max_faces)  # before they are copied
    return together([_moved(shape, T) for shape, T in named]).scaled(metres)


def _moved(mesh: Mesh, T: np.ndarray) -> Mesh:
    return Mesh(
        mesh.vertices @ T[:3, :3].T + T[:3, 3], mesh.faces[:, ::-1] if np.linalg.det(T) < 0 else mesh.faces
    )


def _placed(node: Element, T: np.ndarray, seen: list[int], depth: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names of the geometries at and below a node, with their transforms."""
    seen[0] += 1
    if depth > MAX_DEPTH or seen[0] > MAX_NODES:
        raise ValueError(f"the scene is nested deeper than {MAX_DEPTH}, or has more than {MAX_NODES} nodes")
    for element in node:
        if element.tag in ("matrix", "translate", "rotate", "scale"):
            T = T @ _transform(element)
        elif element.tag == "instance_geometry":
            seen[0] += 1
            yield element.get("url", "").lstrip("#"), T
    for child in node.iterfind("node"):
        yield from _placed(child, T, seen, depth + 1)


def _transform(element: Element) -> np.ndarray:
    x = _numbers(element.text, 16, float)
    T = np.eye(4)
    if element.tag == "matrix":
        return x.reshape(4, 4)
    if element.tag == "translate":
        T[:3, 3] = x
    elif element.tag == "scale":
        T[:3, :3] = np.diag(x)
    else:
        axis = x[:3] / max(float(np.linalg.norm(x[:3])), 1e-12)
        angle = np.radians(x[3])
        cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        T[:3, :3] = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    return T


def _geometry(geometry: Element, max_faces: int) -> Mesh:
    """Return the triangles of a geometry; polygons are cut into fans."""
    parts = []
    for mesh in geometry.iterfind("mesh"):
        points = {source.get("id", ""): _points(source, max_faces) for source in mesh.iterfind("source")}
        for vertices in mesh.iterfind("vertices"):
            for source_input in vertices.iterfind("input"):
                if source_input.get("semantic") == "POSITION":
                    points[vertices.get("id", "")] = points[source_input.get("source", "").lstrip("#")]
        for kind in ("triangles", "polylist", "polygons"):
            parts += [_faces(each, kind, points, max_faces) for each in mesh.iterfind(kind)]
    check_size(parts, max_faces)
    return together(parts)


def _points(source: Element, max_faces: int) -> np.ndarray:
    array = source.find("float_array")
    if array is None:
        return np.zeros((0, 3))
    accessor = source.find("technique_common/accessor")
    stride = int(accessor.get("stride", "3")) if accessor is not None else 3
    numbers = _numbers(array.text, 12 * max_faces, float)
    return (
        numbers[: len(numbers) // stride * stride].reshape(-1, stride)[:, :3]
        if stride >= 3
        else np.zeros((0, 3))
    )


def _faces(element: Element, kind: str, points: dict[str, np.ndarray], max_faces: int) -> Mesh:
    inputs = element.findall("input")
    width = 1 + max((int(each.get("offset", "0")) for each in inputs), default=0)
    vertex = next(each for each in inputs if each.get("semantic") == "VERTEX")
    vertices = points[vertex.get("source", "").lstrip("#")]
    first = int(vertex.get("offset", "0"))
    runs = [_numbers(p.text, 12 * max_faces, int)[first::width] for p in element.iterfind("p")]
    if kind == "triangles":
        faces = np.concatenate([np.zeros(0, dtype=int), *runs]).reshape(-1, 3)
    else:
        counts = [len(run) for run in runs]
        if kind == "polylist":
            counts = _numbers(element.findtext("vcount"), max_faces, int).tolist()
        faces = _fans(np.concatenate([np.zeros(0, dtype=int), *runs]), counts, max_faces)
    if len(faces) and not (faces.min() >= 0 and faces.max() < len(vertices)):
        raise ValueError("a face has an invalid vertex index")
    return Mesh(vertices, faces)


def _fans(corners: np.ndarray, counts: list[int], max_faces: int) -> np.ndarray:
    faces = [np.zeros((0, 3), dtype=int)]
    first = 0
    if sum(counts) > len(corners) or sum(counts) > 4 * max_faces:
        raise ValueError("polygons have more corners than indices")
    for n in counts:
        polygon = corners[first : first + n]
        first += n
        if n >= 3:
            faces.append(np.stack([np.full(n - 2, polygon[0]), polygon[1:-1], polygon[2:]], axis=1))
    return np.concatenate(faces)


def _numbers(text: str | None, max_count: int, kind: type) -> np.ndarray:
    """Return the numbers of a text; raise ValueError for more than `max_count`."""
    chunks: list[np.ndarray] = [np.zeros(0, dtype=kind)]
    characters = text or ""
    begin = 0
    count = 0
    while begin < len(characters):
        space = _SPACE.search(characters, begin + CHUNK)
        end = space.start() if space else len(characters)
        chunks.append(np.array(characters[begin:end].split(), dtype=kind))
        begin = end
        count = count + len(chunks[-1])
        if count > max_count:
            raise ValueError(f"more than {max_count} numbers in one element")
    return np.concatenate(chunks)
