"""Mesh files, read as hostile input: STL, OBJ and COLLADA, only from folders that the user named, bounded in size."""

from __future__ import annotations

import io
import re
import struct
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.collada import collada_mesh
from linkwork.formats.mesh import Mesh
from linkwork.formats.xml import other_kind
from linkwork.parts.names import shown

LARGEST = 64 << 20  # bytes of a mesh file
MOST = 1_000_000  # triangles of one
LINE = 2**16  # bytes of a line of an OBJ file


def read_mesh(path: Path) -> Mesh:
    """The triangles of an STL, OBJ or COLLADA file; ModelError where it is none, or too large."""
    what = shown(path.name)
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ModelError(
            f"mesh {what}: files named {shown(suffix) or 'without a suffix'} are not read: {', '.join(READERS)} are"
        )
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ModelError(f"mesh {what}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise ModelError(f"mesh {what}: it is larger than {LARGEST} bytes")
    try:
        mesh = READERS[suffix](data)
    except (ValueError, IndexError, KeyError, StopIteration, OverflowError, struct.error) as error:
        raise ModelError(f"mesh {what}: it cannot be read: {shown(error)}{other_kind(data)}") from None
    if not len(mesh.faces) or not np.isfinite(mesh.vertices).all() or np.abs(mesh.vertices).max() > 1e6:
        raise ModelError(f"mesh {what}: it has no triangles, or points that are not finite{other_kind(data)}")
    return mesh


def _stl(data: bytes) -> Mesh:
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + 50 * count:
        if count > MOST:
            raise ValueError(f"it has more than {MOST} triangles")
        rows = np.frombuffer(data, dtype=np.uint8, offset=84).reshape(count, 50)[:, 12:48]
        points = np.ascontiguousarray(rows).view("<f4").reshape(-1, 3).astype(float)
    else:
        if data.count(b"vertex") > 3 * MOST:
            raise ValueError(f"it has more than {MOST} triangles")
        numbers = array("d")  # words take much more memory than numbers
        for row in re.finditer(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", data):
            numbers.extend(map(float, row.groups()))
        points = np.array(numbers).reshape(-1, 3)
    if len(points) % 3:
        raise ValueError("its triangles are not whole")
    return _merged(points)


def _merged(points: np.ndarray) -> Mesh:
    """Triangles whose corners are given one after the other, with equal corners as one vertex."""
    if not len(points):
        return Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=int))
    vertices, places = np.unique(points, axis=0, return_inverse=True)
    return Mesh(vertices, places.reshape(-1, 3))


def _obj(data: bytes) -> Mesh:
    vertices, faces = array("d"), array("q")
    for line in io.BytesIO(data):
        if len(line) > LINE:
            raise ValueError(f"a line of it is longer than {LINE} bytes")
        word, _, rest = line.strip().partition(b" ")
        if word == b"v":
            x, y, z = map(float, rest.split()[:3])
            vertices.extend((x, y, z))
        elif word == b"f":
            count = len(vertices) // 3
            corners = [int(corner.partition(b"/")[0]) for corner in rest.split()]
            corners = [c - 1 if c > 0 else count + c for c in corners]
            if min(corners, default=0) < 0 or max(corners, default=0) >= count:
                raise ValueError("a face names a vertex that is not there")
            for k in range(1, len(corners) - 1):
                faces.extend((corners[0], corners[k], corners[k + 1]))
        if len(faces) > 3 * MOST or len(vertices) > 9 * MOST:
            raise ValueError(f"it has more than {MOST} triangles")
    return Mesh(np.array(vertices, dtype=float).reshape(-1, 3), np.array(faces, dtype=int).reshape(-1, 3))


def _dae(data: bytes) -> Mesh:
    return collada_mesh(data, MOST)


READERS: dict[str, Callable[[bytes], Mesh]] = {".stl": _stl, ".obj": _obj, ".dae": _dae}
