"""Untrusted mesh files: STL, OBJ and COLLADA, bounded in size."""

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
from linkwork.mechanism.names import printable

MAX_SIZE = 64 << 20  # bytes of a mesh file
MAX_TRIANGLES = 1_000_000
MAX_LINE = 2**16  # bytes of a line of an OBJ file


def read_mesh(path: Path) -> Mesh:
    """Return the triangles of an STL, OBJ or COLLADA file; raise ModelError if it is invalid or too large."""
    name = printable(path.name)
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ModelError(
            f"mesh {name}: unsupported suffix {printable(suffix) or '(none)'}; "
            f"expected one of {', '.join(READERS)}"
        )
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise ModelError(f"mesh {name}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_SIZE:
        raise ModelError(f"mesh {name}: larger than the limit of {MAX_SIZE} bytes")
    try:
        mesh = READERS[suffix](data)
    except (ValueError, IndexError, KeyError, StopIteration, OverflowError, struct.error) as error:
        raise ModelError(f"mesh {name}: cannot be read: {printable(error)}{other_kind(data)}") from None
    if not len(mesh.faces) or not np.isfinite(mesh.vertices).all() or np.abs(mesh.vertices).max() > 1e6:
        raise ModelError(f"mesh {name}: no triangles, or vertices that are not finite{other_kind(data)}")
    return mesh


def _stl(data: bytes) -> Mesh:
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + 50 * count:
        if count > MAX_TRIANGLES:
            raise ValueError(f"more than {MAX_TRIANGLES} triangles")
        rows = np.frombuffer(data, dtype=np.uint8, offset=84).reshape(count, 50)[:, 12:48]
        points = np.ascontiguousarray(rows).view("<f4").reshape(-1, 3).astype(float)
    else:
        if data.count(b"vertex") > 3 * MAX_TRIANGLES:
            raise ValueError(f"more than {MAX_TRIANGLES} triangles")
        numbers = array("d")  # strings take much more memory than numbers
        for row in re.finditer(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", data):
            numbers.extend(map(float, row.groups()))
        points = np.array(numbers).reshape(-1, 3)
    if len(points) % 3:
        raise ValueError("incomplete triangle")
    return _merged(points)


def _merged(points: np.ndarray) -> Mesh:
    """Return the mesh of triangle corners, with equal corners as one vertex."""
    if not len(points):
        return Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=int))
    vertices, places = np.unique(points, axis=0, return_inverse=True)
    return Mesh(vertices, places.reshape(-1, 3))


def _obj(data: bytes) -> Mesh:
    vertices = array("d")
    faces = array("q")
    for line in io.BytesIO(data):
        if len(line) > MAX_LINE:
            raise ValueError(f"a line is longer than {MAX_LINE} bytes")
        word, _, values = line.strip().partition(b" ")
        if word == b"v":
            x, y, z = map(float, values.split()[:3])
            vertices.extend((x, y, z))
        elif word == b"f":
            count = len(vertices) // 3
            corners = [int(corner.partition(b"/")[0]) for corner in values.split()]
            corners = [c - 1 if c > 0 else count + c for c in corners]
            if min(corners, default=0) < 0 or max(corners, default=0) >= count:
                raise ValueError("a face has an invalid vertex index")
            for k in range(1, len(corners) - 1):
                faces.extend((corners[0], corners[k], corners[k + 1]))
        if len(faces) > 3 * MAX_TRIANGLES or len(vertices) > 9 * MAX_TRIANGLES:
            raise ValueError(f"more than {MAX_TRIANGLES} triangles")
    return Mesh(np.array(vertices, dtype=float).reshape(-1, 3), np.array(faces, dtype=int).reshape(-1, 3))


def _dae(data: bytes) -> Mesh:
    return collada_mesh(data, MAX_TRIANGLES)


READERS: dict[str, Callable[[bytes], Mesh]] = {".stl": _stl, ".obj": _obj, ".dae": _dae}
