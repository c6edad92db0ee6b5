"""Each limit of files is met exactly: a file of as many as the limit is read, and refused where the limit is
one less.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError
from linkwork.formats import collada, loop_files, mesh_files, mjcf_source, sdf_frames, urdf_structure, xml

LINK = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
URDF = f"""<robot name="r"><link name="base">{LINK}</link>
<link name="arm">{LINK}</link><link name="rod">{LINK}</link>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/></joint>
<joint name="wrist" type="continuous"><parent link="arm"/><child link="rod"/></joint></robot>"""
URDF_ELEMENTS = 19 + 33  # elements, and their attributes
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype="<f4")
FACES = [(0, 1, 2), (0, 2, 3), (0, 3, 1)]
COLLADA = """<COLLADA><library_geometries><geometry id="g"><mesh>
<source id="s"><float_array id="a" count="12">0 0 0 1 0 0 0 1 0 0 0 1</float_array>
<technique_common><accessor source="#a" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
<triangles count="3"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2 0 2 3 0 3 1</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene><node><node><instance_geometry url="#g"/></node></node></visual_scene>
</library_visual_scenes></COLLADA>"""
OBJ = "".join(f"v {x:g} {y:g} {z:g}\n" for x, y, z in CORNERS.tolist()) + "".join(
    f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES
)
STL = bytes(80) + struct.pack("<I", 3)
STL += b"".join(bytes(12) + CORNERS[list(face)].tobytes() + bytes(2) for face in FACES)
TEXT_STL = "solid s\n" + "".join(
    "facet normal 0 0 0\nouter loop\n"
    + "".join(f"vertex {x} {y} {z}\n" for x, y, z in CORNERS[list(face)].tolist())
    + "endloop\nendfacet\n"
    for face in FACES
)
YAML = "closed_loop: [[arm, rod]]\ntype: [3d]\n"
HEIGHTS = """<mujoco><asset><hfield name="h" size="1 1 1 1" {}/></asset>
<worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>"""


def mesh(name: str, data: str | bytes) -> Callable[[Path], Any]:
    """Return a function that writes a mesh of three triangles and reads it."""

    def read(folder: Path) -> None:
        path = folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        assert len(mesh_files.read_mesh(path).faces) == 3

    return read


def height_file(folder: Path) -> None:
    pytest.importorskip("mujoco")
    (folder / "h.bin").write_bytes(struct.pack("<2i6f", 2, 3, *range(6)))
    (folder / "it.xml").write_text(HEIGHTS.format('file="h.bin"'))
    lw.load(folder / "it.xml")


def height_text(folder: Path) -> None:
    pytest.importorskip("mujoco")
    lw.load(HEIGHTS.format('nrow="2" ncol="3" elevation="0 1 2 3 4 5"'))


def includes(folder: Path) -> None:
    """Two files in a third."""
    pytest.importorskip("mujoco")
    body = (
        '<mujoco><worldbody><body name="{}"><joint/><geom size="0.1" mass="1"/></body></worldbody></mujoco>'
    )
    for name in "ab":
        (folder / f"{name}.xml").write_text(body.format(name))
    (folder / "it.xml").write_text('<mujoco><include file="a.xml"/><include file="b.xml"/></mujoco>')
    assert len(lw.load(folder / "it.xml").bodies) == 2


def sdf_name(folder: Path) -> None:
    lw.load('<sdf version="1.9"><model name="m"><link name="seven77"/></model></sdf>')


def loops(folder: Path) -> None:
    (folder / "r.yaml").write_text(YAML)
    lw.load(URDF, loops=folder / "r.yaml")


def deep_urdf(folder: Path) -> None:
    lw.load(URDF.replace("</robot>", "<gazebo><a><b/></a></gazebo></robot>"))


LIMITS: dict[str, tuple[ModuleType, str, int, Callable[[Path], Any]]] = {
    "bytes of a mesh": (mesh_files, "MAX_SIZE", len(STL), mesh("m.stl", STL)),
    "triangles of a binary STL": (mesh_files, "MAX_TRIANGLES", 3, mesh("m.stl", STL)),
    "triangles of an STL in text": (mesh_files, "MAX_TRIANGLES", 3, mesh("m.stl", TEXT_STL)),
    "triangles of an OBJ": (mesh_files, "MAX_TRIANGLES", 3, mesh("m.obj", OBJ)),
    "a line of an OBJ": (mesh_files, "MAX_LINE", 8, mesh("m.obj", OBJ)),
    "triangles of COLLADA": (mesh_files, "MAX_TRIANGLES", 3, mesh("m.dae", COLLADA)),
    "tags of COLLADA": (collada, "MAX_TAGS", COLLADA.count("<") + COLLADA.count("="), mesh("m.dae", COLLADA)),
    "nodes of COLLADA": (collada, "MAX_NODES", 3, mesh("m.dae", COLLADA)),  # with the scene
    "depth of COLLADA": (collada, "MAX_DEPTH", 2, mesh("m.dae", COLLADA)),
    "heights of a file": (mjcf_source, "MAX_HEIGHTS", 6, height_file),
    "heights in MJCF": (mjcf_source, "MAX_HEIGHTS", 6, height_text),
    "included files": (mjcf_source, "MAX_FILES", 2, includes),
    "a name in SDF": (sdf_frames, "MAX_NAME", 7, sdf_name),
    "a name in URDF": (urdf_structure, "MAX_NAME", len("shoulder"), lambda _: lw.load(URDF)),
    "bytes of a loop file": (loop_files, "MAX_SIZE", len(YAML), loops),
    "depth of a file": (xml, "MAX_DEPTH", 4, deep_urdf),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_modules(limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, size, read = LIMITS[limit]
    monkeypatch.setattr(module, name, size)
    read(tmp_path)
    monkeypatch.setattr(module, name, size - 1)
    with pytest.raises(LinkworkError):
        read(tmp_path)


@pytest.mark.parametrize(("limit", "size"), [("size", len(URDF)), ("elements", URDF_ELEMENTS), ("links", 3)])
def test_limits_of_calls(limit: str, size: int) -> None:
    lw.load(URDF, limits=lw.Limits(**{limit: size}))
    with pytest.raises(lw.LimitError):
        lw.load(URDF, limits=lw.Limits(**{limit: size - 1}))
