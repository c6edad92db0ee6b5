"""The viewer and films: sliders keep loops closed, logs play, meshes stay in their folders, and it works in a
real browser.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.dom import minidom

import numpy as np
import pytest
from PIL import Image, ImageSequence

import chromium
import linkwork as lw
from linkwork.cli.cli import main
from linkwork.formats import collada, mesh_files
from linkwork.formats.folders import Folders, find_mesh
from linkwork.formats.mesh import Mesh
from linkwork.formats.mesh_files import read_mesh
from linkwork.visualization.images import write_gif, write_png
from linkwork.visualization.log import as_log
from linkwork.visualization.scene import inertia_ellipsoid, scene
from linkwork.visualization.shapes import box, cylinder, ellipsoid
from linkwork.visualization.sliders import Sliders
from linkwork.visualization.visuals import geometry_meshes


def four_bar(crank: float = 0.2, **more: float) -> lw.Model:
    """A crank that turns all the way round, unless it is longer than 0.5."""
    bar = lw.ModelBuilder("four bar")
    for name, length in (("crank", crank), ("coupler", 0.6), ("rocker", 0.5)):
        across = length**3 / 12 + 1e-3
        bar.add_body(name, mass=length, center=(length / 2, 0, 0), inertia=(1e-3, across, across))
    hinge = lw.joints.Revolute((0, 1, 0))
    bar.add_joint("a", hinge, parent="world", child="crank", **more)
    bar.add_joint("b", hinge, parent="crank", child="coupler", xyz=(crank, 0, 0))
    bar.add_joint("d", hinge, parent="world", child="rocker", xyz=(0.6, 0, 0))
    bar.add_loop(
        "c", hinge, predecessor="coupler", successor="rocker", xyz=(0.6, 0, 0), successor_xyz=(0.5, 0, 0)
    )
    return bar.build().with_independent("a")


def gap(model: lw.Model, q: np.ndarray) -> float:
    """How far the ends of coupler and rocker are apart, from the poses of the bodies."""
    poses = lw.forward_kinematics(model, q)
    ends = [
        (poses[model.body(name).index] @ [length, 0.0, 0.0, 1.0])[:3]
        for name, length in (("coupler", 0.6), ("rocker", 0.5))
    ]
    return float(np.linalg.norm(ends[0] - ends[1]))


# sliders


def test_a_slider_moves_all_and_keeps_loops_closed() -> None:
    model = four_bar()
    sliders = Sliders(model)
    assert [slider.name for slider in sliders.sliders] == ["a"]
    for value in (0.3, 2.0, -2.5, 3.1):
        before = sliders.q
        assert sliders.move("a", value) == "" and sliders.value("a") == pytest.approx(value, abs=1e-12)
        assert gap(model, sliders.q) < 1e-9 and np.abs(sliders.q - before).min() > 1e-3  # b and d moved too


def test_a_move_that_cannot_be_made_stays_put_and_says_so() -> None:
    sliders = Sliders(four_bar(0.9))
    sliders.move("a", 1.0)
    before = sliders.q
    said = sliders.move("a", 3.0)  # beyond the dead point at 1.61, where coupler and rocker are stretched
    assert "'c'" in said and "cannot be closed" in said and np.array_equal(sliders.q, before)
    for value in (np.nan, 99.0):
        assert sliders.move("a", value) and np.array_equal(sliders.q, before)
    with pytest.raises(lw.ModelError, match="did you mean"):
        Sliders(lw.robots.arm()).move("elbow_ptich", 0.1)


def test_constrained_loops_have_sliders_of_independent_coordinates() -> None:
    model = lw.choose_loops(four_bar(), "constrain")
    assert model.nv == 3
    sliders = Sliders(model)
    assert (
        len(sliders.sliders) == 1
        and sliders.move(sliders.sliders[0].name, sliders.value(sliders.sliders[0].name) + 0.4) == ""
    )
    assert gap(model, sliders.q) < 1e-9


def test_every_shipped_robot_can_be_moved() -> None:
    for name in ("arm", "four_bar", "slider_crank", "five_bar"):
        sliders = Sliders(getattr(lw.robots, name)())
        moved = 0
        for slider in sliders.sliders:
            here = sliders.value(slider.name)
            step = 0.02 * (slider.upper - slider.lower)
            goal = here + step if here + step <= slider.upper else here - step
            before = sliders.q
            if sliders.move(slider.name, goal) == "":
                moved += 1
                assert sliders.value(slider.name) == pytest.approx(goal, abs=1e-9) and not np.array_equal(
                    sliders.q, before
                )
            assert sliders.openness() < 1e-9
        assert moved == len(sliders.sliders), name


def test_a_free_base_has_six_sliders_within_limits_of_joints() -> None:
    builder = (
        lw.ModelBuilder("free")
        .add_body("b", mass=1.0, inertia=(1, 1, 1))
        .add_body("c", mass=1.0, inertia=(1, 1, 1))
    )
    builder.add_joint("base", lw.joints.Free(), parent="world", child="b")
    builder.add_joint("j", lw.joints.Prismatic(), parent="b", child="c", lower=-0.25, upper=0.5)
    sliders = Sliders(builder.build())
    assert len(sliders.sliders) == 7
    last = sliders.sliders[-1]
    assert (last.lower, last.upper) == (-0.25, 0.5) and "-0.25 to 0.5" in sliders.move("j", 0.6)
    for slider in sliders.sliders[:6]:
        assert sliders.move(slider.name, 0.1) == ""
    assert np.isclose(np.linalg.norm(sliders.q[3:7]), 1.0)


# logs


def test_logs_of_every_origin(tmp_path: Path) -> None:
    model = four_bar()
    q, v = model.random_state(0)
    made = lw.rollout(model, np.stack([q, q]), np.stack([v, 2 * v]), dt=1e-3, steps=20)
    t = 1e-3 * np.arange(21)
    np.savez(tmp_path / "log.npz", t=t, q=made.q, tau=np.zeros((2, 21, 1)))
    for given, row in ((made, 1), ({"t": t, "q": made.q[1]}, 0), (tmp_path / "log.npz", 1)):
        log = as_log(model, given, row=row)
        assert np.array_equal(log.q, made.q[1]) and len(log.t) == 21
    assert as_log(model, tmp_path / "log.npz").at(0.0105) == 10 and as_log(model, made).at(-1.0) == 0
    stopped = made.q[0].copy()
    stopped[7:] = np.nan
    assert len(as_log(model, {"q": stopped}).q) == 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "expected 'q'"),
        ({"q": np.zeros((3, 2))}, "shape \\(n, 3\\)"),
        ({"q": np.zeros((3, 3)), "t": [0.0, 2.0, 1.0]}, "increasing"),
        ({"q": np.zeros((3, 3)), "tau": np.zeros((2, 1))}, "tau"),
        ({"q": np.zeros((3, 3)), "points": np.zeros((3, 1, 3))}, "of the same shape"),
        ({"q": np.full((3, 3), np.nan)}, "not finite"),
        (17, "a mapping"),
    ],
)
def test_logs_that_are_none(given: object, words: str) -> None:
    with pytest.raises(lw.LinkworkError, match=words):
        as_log(four_bar(), given)


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    for content in (b"", b"no zip", zlib.compress(b"x" * 99)):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(lw.ModelError, match="is not a log"):
            as_log(four_bar(), tmp_path / "bad.npz")
    np.savez(tmp_path / "evil.npz", q=np.array([object()]))  # pickles are never read
    with pytest.raises(lw.ModelError, match="is not a log"):
        as_log(four_bar(), tmp_path / "evil.npz")


# meshes


def stl(folder: Path, name: str = "part.stl") -> Path:
    mesh = box(np.array([1.0, 2.0, 3.0]))
    rows = b"".join(struct.pack("<12fH", 0, 0, 0, *mesh.vertices[face].ravel(), 0) for face in mesh.faces)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"\0" * 80 + struct.pack("<I", len(mesh.faces)) + rows)
    return folder / name


def test_meshes_are_read(tmp_path: Path) -> None:
    mesh = read_mesh(stl(tmp_path))
    assert (
        len(mesh.faces) == 12
        and len(mesh.vertices) == 8
        and np.ptp(mesh.vertices, axis=0).tolist() == [1.0, 2.0, 3.0]
    )
    text = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1/1/1 2/2/2 3/3/3 -1\n"
    (tmp_path / "a.obj").write_text(text)
    assert read_mesh(tmp_path / "a.obj").faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    (tmp_path / "b.stl").write_text(
        "solid x\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
    )
    assert len(read_mesh(tmp_path / "b.stl").faces) == 1


def swollen() -> dict[str, bytes]:
    """Files of meshes that would become much more than they are: copies of copies, and words that are held
    all at once.
    """
    corners = " ".join(f"{k} 0 0" for k in range(600))
    faces = " ".join(map(str, range(600)))
    triangles = '<triangles><input semantic="VERTEX" source="#v" offset="0"/><p>{}</p></triangles>'
    source = f'<source id="v"><float_array>{corners}</float_array></source>'

    def dae(inside: str, instances: int = 1) -> bytes:
        scene = (
            "<visual_scene><node>" + '<instance_geometry url="#g"/>' * instances + "</node></visual_scene>"
        )
        shape = f'<library_geometries><geometry id="g"><mesh>{source}{inside}</mesh></geometry></library_geometries>'
        return f"<COLLADA>{shape}<library_visual_scenes>{scene}</library_visual_scenes></COLLADA>".encode()

    return {
        "instances.dae": dae(triangles.format(faces), 4000),
        "vertices.dae": dae(triangles.format("0 1 2") * 900),
        "tags.dae": b"<COLLADA>" + b"<a/>" * 40_000 + b"</COLLADA>",
        "numbers.dae": dae(triangles.format("1111 " * 60_000)),
        "polygon.obj": b"v 0 0 0\n" * 3 + b"f " + b"1 2 " * 100_000,
        "words.stl": b"vertex 0.25 0.25 0.25\n" * 40_000,
    }


@pytest.mark.parametrize("name", swollen())
def test_meshes_do_not_become_much_more_than_their_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_files, "MAX_TRIANGLES", 1000)
    monkeypatch.setattr(collada, "MAX_TAGS", 20_000)
    monkeypatch.setattr(collada, "CHUNK", 1000)
    data = swollen()[name]
    tracemalloc.start()
    try:
        with suppress(ValueError):
            assert not len(mesh_files.READERS[Path(name).suffix](data).faces)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(data) + 1.5e6
    finally:
        tracemalloc.stop()


LFS = b"version https://git-lfs.github.com/spec/v1\noid"


@pytest.mark.parametrize("begin, told", [(LFS, "git lfs pull"), (b"PK\3\4", "zip")])
def test_files_that_are_others_in_truth_are_told(begin: bytes, told: str, tmp_path: Path) -> None:
    for name in ("a.stl", "a.obj", "a.dae"):
        (tmp_path / name).write_bytes(begin)
        with pytest.raises(lw.ModelError, match=told):
            read_mesh(tmp_path / name)
    (tmp_path / "a.urdf").write_bytes(begin)
    with pytest.raises(lw.ModelError, match=rf"a.urdf:1:\d: not XML: .*; .*{told}"):
        lw.load(tmp_path / "a.urdf")


DAE = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema"><asset><unit meter="0.01"/></asset>
<library_geometries><geometry id="g"><mesh><source id="s"><float_array id="f" count="12">0 0 0 1 0 0 1 1 0 0 1 0</float_array>
<technique_common><accessor source="#f" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><input semantic="NORMAL" source="#n" offset="1"/>
<p>0 0 1 0 2 0</p></triangles>
<polylist count="1"><input semantic="VERTEX" source="#v" offset="0"/><vcount>4</vcount><p>0 1 2 3</p></polylist>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene><node><translate>10 0 0</translate><node><scale>1 2 1</scale><rotate>0 0 1 90</rotate>
<instance_geometry url="#g"/></node></node></visual_scene></library_visual_scenes></COLLADA>"""


def test_collada_meshes_are_read_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.dae"
    path.write_text(DAE)
    mesh = read_mesh(path)
    assert (
        len(mesh.faces) == 3
        and np.allclose(mesh.vertices[1], [0.1, 0.02, 0.0])
        and np.allclose(mesh.vertices[3], [0.09, 0.0, 0.0])
    )
    wrong = [("0 1 2 3</p>", "0 1 2 9</p>"), ("<vcount>4", "<vcount>400"), ('source="#v"', 'source="#x"'), ("COLLADA", "OTHER"),
             ("0 0 1 0 2 0", "0 0 1 0"), ("10 0 0", "ten"), ("<COLLADA", "<!DOCTYPE x [<!ENTITY a 'b'>]><COLLADA"),
             ("</node></node>", ""), ('stride="3"', 'stride="x"'), ("0 1 0</float", "0 1 nan</float")]  # fmt: skip
    for old, new in wrong:
        path.write_text(DAE.replace(old, new))
        with pytest.raises(lw.ModelError, match="mesh a.dae"):
            read_mesh(path)
    path.write_text(DAE.replace("<instance_geometry", "<node>" * 99 + "</node>" * 99 + "<instance_geometry"))
    with pytest.raises(lw.ModelError, match="nested deeper"):
        read_mesh(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.stl", b""), ("a.stl", b"\0" * 80 + struct.pack("<I", 1 << 31)), ("a.stl", b"vertex 0 0 nan vertex 1 0 0 vertex 0 1 0"),
     ("a.stl", b"vertex 0 0"), ("a.obj", b"f 1 2 3"), ("a.obj", b"v 1 2 x\n"), ("a.dae", b"<x/>"), ("a", b""),
     ("a.obj", b"v 1e99 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3")],
)  # fmt: skip
def test_broken_meshes_are_named(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(lw.ModelError, match="mesh a"):
        read_mesh(tmp_path / name)


def test_meshes_outside_the_named_folders_are_never_opened(tmp_path: Path) -> None:
    own = tmp_path / "robot"
    other = tmp_path / "robots_of_others"
    stl(own / "meshes")
    secret = stl(other)
    (own / "link.stl").symlink_to(secret)
    (own / "up").symlink_to(tmp_path)
    file = own / "r.urdf"
    file.write_text("<robot/>")
    folders = Folders(str(file))
    assert find_mesh("meshes/part.stl", folders) == (own / "meshes/part.stl").resolve()
    assert find_mesh("package://robot/meshes/part.stl", folders).name == "part.stl"
    for uri in ("../robots_of_others/part.stl", str(secret), f"file://{secret}", "link.stl", "up/robots_of_others/part.stl",
                "package://../robots_of_others/part.stl", "meshes/../../robots_of_others/part.stl"):  # fmt: skip
        with pytest.raises(lw.ModelError, match="outside the folder"):
            find_mesh(uri, folders)
    for uri in ("nowhere.stl", "", "\0", "package://", "a" * 10000):
        with pytest.raises(lw.ModelError, match="mesh"):
            find_mesh(uri, folders)
    assert find_mesh("link.stl", Folders(str(file), [other])) == secret.resolve()
    with pytest.raises(lw.ModelError, match="is not a folder"):
        Folders(str(file), [tmp_path / "gone"])


def test_visuals_of_a_urdf(tmp_path: Path) -> None:
    stl(tmp_path)
    visual = '<visual><origin xyz="{}"/><geometry>{}</geometry></visual>'
    shapes = [("0 0 1", '<box size="0.1 0.2 0.3"/>'), ("0 0 0", '<mesh filename="part.stl" scale="0.1 0.1 0.1"/>'),
              ("0 0 0", '<mesh filename="../gone.stl"/>'), ("0 0 0", "<capsule/>")]  # fmt: skip
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    (tmp_path / "r.urdf").write_text(
        f'<robot name="r"><link name="w">{visual.format("0 0 0", shapes[0][1])}</link><link name="b">{inertial}'
        f'{"".join(visual.format(*shape) for shape in shapes)}</link><link name="c">{inertial}</link>'
        '<joint name="j" type="continuous"><parent link="w"/><child link="b"/></joint>'
        '<joint name="k" type="continuous"><parent link="b"/><child link="c"/><origin xyz="1 0 0"/></joint></robot>'
    )
    model = lw.load(tmp_path / "r.urdf")
    seen = scene(model, file=tmp_path / "r.urdf")
    vertices = seen.meshes[0].vertices
    assert (
        len(vertices) == 16
        and vertices[:, 2].max() == pytest.approx(1.15)
        and vertices[:, 2].min() == pytest.approx(-0.15)
    )
    assert len(seen.meshes[-1].vertices) == 8  # of the world
    assert any("gone.stl" in note for note in seen.notes) and len(seen.meshes[1].faces)  # an ellipsoid


def test_geometries_of_a_model(tmp_path: Path) -> None:
    """As readers of files give them: every shape with its size, where it is; what cannot be shown is said."""
    stl(tmp_path)
    place = lw.spatial.Pose.translation(np.array([0.0, 0.0, 1.0]))
    sizes = {
        "box": (1.0, 2.0, 3.0),
        "sphere": (0.5,),
        "ellipsoid": (0.5, 1.0, 1.5),
        "cylinder": (0.5, 3.0),
        "capsule": (0.5, 2.0),
    }
    words = {"place": place, "mesh": "", "scale": (1.0, 1.0, 1.0), "visual": True}
    given = [
        SimpleNamespace(body=k, shape=shape, size=size, **words)
        for k, (shape, size) in enumerate(sizes.items())
    ]
    given.append(
        SimpleNamespace(
            body=5, shape="mesh", size=(), **{**words, "mesh": "part.stl", "scale": (2.0, 1.0, 1.0)}
        )
    )
    given.append(SimpleNamespace(body=6, shape="mesh", size=(), **{**words, "mesh": "../gone.stl"}))
    given.append(SimpleNamespace(body=7, shape="plane", size=(0.0, 0.0), **words))
    given.append(SimpleNamespace(body=8, shape="box", size=(1.0, 1.0, 1.0), **{**words, "visual": False}))
    found, notes = geometry_meshes(given, Folders(str(tmp_path / "r.xml")))
    assert sorted(found) == [0, 1, 2, 3, 4, 5] and len(notes) == 1 and "gone.stl" in notes[0]
    for body, wide in enumerate([(1, 2, 3), (1, 1, 1), (1, 2, 3), (1, 1, 3), (1, 1, 3), (2, 2, 3)]):
        (mesh,) = found[body]
        assert np.allclose(np.ptp(mesh.vertices, axis=0), wide, rtol=0.1)
        assert np.allclose(
            0.5 * (mesh.vertices.max(axis=0) + mesh.vertices.min(axis=0)), [0, 0, 1], atol=0.05
        )


# shapes and pictures


def test_solids_are_closed_and_outward() -> None:
    for mesh, volume in (
        (box(np.array([1.0, 2.0, 3.0])), 6.0),
        (cylinder(1.0, 2.0), 2 * np.pi),
        (ellipsoid(np.array([1.0, 2.0, 3.0])), 8 * np.pi),
    ):
        a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
        assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0 == pytest.approx(volume, rel=0.25)
        edges = [
            tuple(sorted(edge)) for face in mesh.faces.tolist() for edge in zip(face, (*face[1:], face[0]))
        ]
        assert all(edges.count(edge) == 2 for edge in set(edges))
        flipped = mesh.scaled(np.array([-1.0, 1.0, 1.0]))
        a, b, c = (flipped.vertices[flipped.faces[:, k]] for k in range(3))
        assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() > 0


def test_meshes_with_many_faces_are_simplified() -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    grid = np.array(
        [[np.cos(a) * np.sin(b), np.sin(a) * np.sin(b), np.cos(b)] for a in angle for b in angle / 2.0]
    )
    corner = (200 * np.arange(199)[:, None] + np.arange(199)).ravel()
    halves = [(corner, corner + 1, corner + 200), (corner + 1, corner + 201, corner + 200)]
    ball = Mesh(grid, np.concatenate([np.stack(half, axis=1) for half in halves]))
    less = ball.simplified(3000)
    assert 300 < len(less.faces) <= 3000 and np.allclose(np.ptp(less.vertices, axis=0), 2.0, atol=0.15)
    assert ball.simplified(10**6) is ball


def test_the_ellipsoid_has_the_inertia_of_its_body() -> None:
    rng = np.random.default_rng(0)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    semi = np.array([0.3, 0.5, 0.9])
    mass = 2.0
    center = rng.normal(size=3)
    moment = R @ np.diag(mass / 5.0 * (np.sum(semi**2) - semi**2)) @ R.T
    body = lw.ModelBuilder("m").add_body("b", mass=mass, center=center, inertia=moment)
    model = body.add_joint("j", lw.joints.Free(), parent="world", child="b").build()
    points = (inertia_ellipsoid(model.bodies[0], 1e-6).vertices - center) @ R
    assert np.allclose(np.sum((points / semi) ** 2, axis=1), 1.0) and np.allclose(
        np.abs(points).max(axis=0), semi, rtol=0.1
    )


def test_films_and_pictures(tmp_path: Path) -> None:
    model = four_bar()
    sliders = Sliders(model)
    qs = []
    for angle in np.linspace(0.5, 1.5, 8):
        sliders.move("a", float(angle))
        qs.append(sliders.q)
    made = lw.visualization.film(model, qs, np.arange(8) / 20.0, tmp_path / "a.gif", size=(120, 90))
    frames = gif_frames(made)
    assert len(frames) == 8 and frames[0].shape == (90, 120, 3)
    assert all(np.any(one != other) for one, other in pairwise(frames))
    svg = lw.visualization.film(model, np.array(qs), None, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert len(minidom.parseString(svg).getElementsByTagName("polygon")) > 100 and "nan" not in svg
    assert lw.visualization.film(model, qs[0], None, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for given, words in (((qs[0][:2],), "shape"), ((qs, [0.0]), "shape"), ((np.full(3, np.nan),), "finite")):
        with pytest.raises(lw.LinkworkError, match=words):
            lw.visualization.film(model, *given, **{"path": tmp_path / "b.gif"})
    with pytest.raises(lw.ModelError, match=r"\.gif, \.mp4, \.svg or \.png"):
        lw.visualization.film(model, qs[0], None, tmp_path / "b.mov")


def test_gifs_are_what_was_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    colours = np.array([[4, 4, 4], [252, 12, 20], [100, 204, 52], [20, 60, 244]], dtype=np.uint8)
    pictures = [colours[rng.integers(0, 4, (70, 90))] for _ in range(3)]
    pictures += [pictures[-1].copy(), pictures[-1].copy()]
    pictures[-1][10:20, 30:50] = colours[0]
    write_gif(tmp_path / "x.gif", pictures, 0.05)
    for read, drawn in zip(gif_frames(tmp_path / "x.gif"), pictures, strict=True):
        assert np.array_equal(read, drawn)


def test_pngs_are_what_was_drawn(tmp_path: Path) -> None:
    colours = np.array([[4, 4, 4], [252, 12, 20], [100, 204, 52]], dtype=np.uint8)
    picture = colours[np.random.default_rng(0).integers(0, 3, (70, 90))]
    write_png(tmp_path / "x.png", picture)
    with Image.open(tmp_path / "x.png") as image:
        assert np.array_equal(np.asarray(image.convert("RGB")), picture)


def gif_frames(path: Path, milliseconds: int = 50) -> list[np.ndarray]:
    """Return the pictures of a GIF, (height, width, 3), one for each span of time."""
    frames = []
    with Image.open(path) as film:
        assert film.info["loop"] == 0
        for frame in ImageSequence.Iterator(film):
            picture = np.asarray(frame.convert("RGB"))
            frames += [picture] * round(frame.info["duration"] / milliseconds)
    return frames


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
def test_without_pillow_there_are_only_svg_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = four_bar()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(lw.MissingPackageError, match=r"pip install 'linkwork\[film\]'"):
        lw.visualization.film(
            model, model.neutral(), path=tmp_path / name, progress=lambda part: pytest.fail("drawn")
        )
    assert lw.visualization.film(model, model.neutral(), path=tmp_path / "a.svg").exists()


def test_a_film_as_mp4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read back by ffmpeg itself: size (made even), rate, and the first picture. Without the package, nothing
    is drawn.
    """
    model = four_bar()
    qs = np.array([model.neutral()] * 6)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "imageio_ffmpeg", None)
        with pytest.raises(
            lw.MissingPackageError, match=r"pip install 'linkwork\[film\]'; an .svg needs no package"
        ):
            lw.visualization.film(
                model, qs, path=tmp_path / "a.mp4", progress=lambda part: pytest.fail("drawn")
            )
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    made = lw.visualization.film(model, qs, None, tmp_path / "a.mp4", size=(121, 91))
    read = subprocess.run(
        [ffmpeg, "-i", made, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True
    )
    assert b"122x92" in read.stderr and b"20 fps" in read.stderr
    pictures = np.frombuffer(read.stdout, dtype=np.uint8).reshape(6, 92, 122, 3).astype(int)
    assert pictures[0].std() > 10.0 and np.abs(pictures[0] - pictures[-1]).mean() < 3.0
    with pytest.raises(lw.LinkworkError, match="ffmpeg cannot write .*No such file or directory"):
        lw.visualization.film(model, qs, None, tmp_path / "nowhere" / "a.mp4", size=(120, 90))


def test_a_film_that_cannot_be_written_is_told_before_the_simulation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "arm", "--duration", "1e9", "--film", "a.mov"]) == 3
    assert "expected a .gif, .mp4, .svg or .png" in capsys.readouterr().err


def test_simulate_writes_a_film(tmp_path: Path) -> None:
    assert (
        main(
            [
                "simulate",
                "arm",
                "--duration",
                "0.1",
                "--dt",
                "0.01",
                "--film",
                str(tmp_path / "new" / "a.gif"),
            ]
        )
        == 0
    )
    assert len(gif_frames(tmp_path / "new" / "a.gif")) == 3


# the browser


@pytest.fixture
def viser() -> object:
    return pytest.importorskip("viser")


def test_the_handle(viser: object, tmp_path: Path) -> None:
    model = four_bar()
    q = model.random_state(0)[0]
    n = 5
    log = {"q": np.tile(q, (n, 1)), "t": 0.1 * np.arange(n), "tau": np.ones((n, 1)), "points": np.zeros((n, 2, 3)),
           "forces": np.ones((n, 2, 3))}  # fmt: skip
    with lw.view(model, log, port=9300) as viewer:
        assert (
            np.array_equal(viewer.q, q) and viewer.url in viewer._repr_html_() and "four bar" in repr(viewer)
        )
        viewer.scrub(0.25)
        viewer._shown = dict.fromkeys(viewer._shown, True)
        assert viewer.move("a", viewer.sliders.value("a") + 0.2) == "" and gap(model, viewer.q) < 1e-9
        assert set(viewer._arrows) == {"joint torques", "contact forces"}
        assert (
            "expected a value from" in viewer.move("a", 99.0)
            and "expected a value from" in viewer._status.content
        )
        viewer.show(q)
        assert np.array_equal(viewer.q, q)
        with pytest.raises(lw.ModelError, match="no independent coordinate"):
            viewer.move("b", 0.1)
    with lw.view(lw.robots.arm(), port=9310) as viewer, pytest.raises(lw.LinkworkError, match="no log"):
        viewer.scrub(0.0)


def test_the_command_serves_a_file_with_its_log(
    viser: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(tmp_path / "log.npz")
    assert main(["simulate", "arm", "--duration", "0.05", "--dt", "0.01", "--out", log]) == 0
    assert main(["view", "arm", "--log", log, "--seconds", "0.2", "--port", "9340"]) == 0
    assert "http://localhost:93" in capsys.readouterr().out
    assert main(["view", "four_bar", "--log", log, "--seconds", "0.2"]) == 3  # of another robot
    assert "log: q: expected shape" in capsys.readouterr().err


def test_playing_goes_on_in_the_log_and_pauses(viser: object) -> None:
    model = four_bar()
    sliders = Sliders(model)
    qs = []
    for angle in np.linspace(0.5, 1.5, 50):
        sliders.move("a", float(angle))
        qs.append(sliders.q)
    with lw.view(model, {"t": 0.02 * np.arange(50), "q": qs}, port=9350) as viewer:
        viewer._playing.value = True
        chromium.until(lambda: viewer.q[0] > 0.7)
        viewer._playing.value = False
        viewer.scrub(0.4)
        assert np.array_equal(viewer.q, qs[20])


def test_without_viser_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(lw.MissingPackageError, match=r"linkwork\[view\]"):
        lw.view(four_bar())
    assert main(["view", "arm"]) == 3 and "linkwork[view]" in capsys.readouterr().err


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[chromium.Chromium]:
    if chromium.path() is None:
        pytest.skip("there is no Chromium")
    pytest.importorskip("websockets")
    made = chromium.Chromium(tmp_path / "profile")
    yield made
    made.close()


@pytest.mark.slow
def test_in_a_real_browser(viser: object, browser: chromium.Chromium) -> None:
    """The page loads, a slider is moved by keys, the four-bar moves and stays closed, and the picture changes
    with it.
    """
    model = four_bar()
    with lw.view(model, port=9320) as viewer:
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=960, height=540, deviceScaleFactor=1, mobile=False
        )
        browser.go(viewer.url)
        sliders = "document.querySelectorAll('[role=slider]')"
        chromium.until(
            lambda: (
                browser.ask(f"{sliders}.length") == 1 and browser.ask("!!document.querySelector('canvas')")
            )
        )
        before, first = viewer.q, chromium.until(lambda: _settled(browser))
        browser.ask(f"{sliders}[0].focus()")
        browser.press("ArrowRight", 40)
        chromium.until(lambda: abs(viewer.q[0] - before[0]) > 0.1)
        chromium.until(
            lambda: (
                abs(float(browser.ask(f"{sliders}[0].getAttribute('aria-valuenow')")) - viewer.q[0]) < 1e-3
            )
        )
        assert gap(model, viewer.q) < 1e-9 and np.abs(viewer.q - before).min() > 1e-3
        second = chromium.until(lambda: _settled(browser))
        assert first != second
        folder = os.environ.get("LINKWORK_SCREENSHOT")
        if folder:
            Path(folder, "viewer.png").write_bytes(second)


def _settled(browser: chromium.Chromium) -> bytes | None:
    """The picture, as soon as it does not change any more."""
    one = browser.screenshot()
    return one if browser.screenshot() == one else None


def test_a_host_that_is_not_this_machine_is_told() -> None:
    for host in ("not a host", "203.0.113.7"):  # the second is of a network that is kept for documentation
        with pytest.raises(
            lw.ModelError, match=r"host '.*' is not an address of this machine, such as 127.0.0.1"
        ):
            lw.view(lw.robots.arm(), host=host)
