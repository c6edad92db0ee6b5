"""Shapes that may touch, from files: URDF, MJCF and SDF; meshes by their hulls."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from exported import undescribed
from linkwork import Contacts

INERTIA = (
    '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
)
URDF = f"""<robot name="r"><link name="base">{INERTIA}
  <visual><geometry><sphere radius="9"/></geometry></visual>
  <collision><origin xyz="0 0 0.1" rpy="0 1.5707963267948966 0"/>
  <geometry><cylinder radius="0.1" length="0.4"/></geometry></collision>
  <collision name="shell"><geometry><mesh filename="package://it/block.stl" scale="0.5 1 1"/></geometry></collision></link>
  <link name="foot">{INERTIA}<collision><geometry><box size="0.2 0.1 0.05"/></geometry></collision>
  <collision><geometry><sphere radius="0.03"/></geometry></collision></link>
  <joint name="ankle" type="revolute"><parent link="base"/><child link="foot"/><origin xyz="0 0 -0.5"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def block(corners: np.ndarray) -> bytes:
    """A binary STL whose triangles have these points as corners."""
    points = corners[np.arange(3 * ((len(corners) + 2) // 3)) % len(corners)].reshape(-1, 3, 3)
    rows = b"".join(struct.pack("<12fH", 0, 0, 0, *triangle.ravel(), 0) for triangle in points)
    return b"\0" * 80 + struct.pack("<I", len(points)) + rows


CUBE = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def test_primitives_of_urdf_touch_the_ground() -> None:
    model = lw.load(URDF, base="free")
    kinds = [each.kind for each in lw.contact_candidates(model)]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "cylinder on plane": 5,
        "box on plane": 4,
        "sphere on plane": 1,
    }
    gap, point, _ = lw.contact_points(
        model, np.array([0, 0, 1.0, 0, 0, 0, 1, 0]), contacts=Contacts(shapes=["base::collision1"])
    )
    np.testing.assert_allclose(gap.min(), 1.0, atol=1e-9)  # a cylinder that lies, 0.1 above the base's origin
    np.testing.assert_allclose(np.sort(point[:, 0])[[0, -1]], [-0.2, 0.2])


def test_meshes_of_urdf_are_named_until_they_have_hulls(tmp_path: Path) -> None:
    model = lw.load(URDF, base="free")
    assert "1 mesh has no hull and can touch nothing: lw.with_hulls(model, folders=[...])" in model.report()
    (tmp_path / "it").mkdir()
    inside = np.random.default_rng(0).uniform(-0.9, 0.9, (200, 3))
    (tmp_path / "it" / "block.stl").write_bytes(block(np.concatenate([inside, CUBE])))
    solid = lw.with_hulls(model, [tmp_path], corners=12)
    (hull,) = [each for each in solid.geometries if each.shape == "hull"]
    assert sorted(hull.vertices) == sorted(map(tuple, (CUBE * [0.5, 1.0, 1.0]).tolist()))
    assert sum(each.kind == "hull on plane" for each in lw.contact_candidates(solid)) == 8
    assert "no hull" not in solid.report() and any("miss the meshes by up to" in note for note in solid.notes)
    assert "none opened" in model.report() and "opened:" not in solid.report()


def test_a_report_after_hulls_names_the_files_that_are_still_not_opened(tmp_path: Path) -> None:
    drawn = URDF.replace('<sphere radius="9"/>', '<mesh filename="package://it/paint.dae"/>')
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "block.stl").write_bytes(block(CUBE))
    told = lw.with_hulls(lw.load(drawn, base="free"), [tmp_path]).report()
    assert (
        "1 mesh file is only drawn, and not opened: package://it/paint.dae" in told
        and "none opened" not in told
    )


def test_meshes_are_opened_only_in_the_folders_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "outside.stl").write_bytes(block(CUBE))
    (tmp_path / "robot").mkdir()
    model = lw.load(URDF.replace("package://it/block.stl", "../outside.stl"), base="free")
    with pytest.raises(
        lw.ModelError, match="with_hulls: shape 'base::shell': mesh '../outside.stl': outside the folder"
    ):
        lw.with_hulls(model, [tmp_path / "robot"])


def test_a_mesh_that_is_not_found_says_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "other").mkdir()
    with pytest.raises(
        lw.ModelError,
        match=r"it/block.stl': file not found: no it/block.stl or block.stl in .*other",
    ):
        lw.with_hulls(lw.load(URDF, base="free"), [tmp_path / "other"])


def test_corners_of_a_hull_are_bounded_and_near() -> None:
    rng = np.random.default_rng(1)
    ball = rng.normal(size=(5000, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    few, more = (lw.hull_corners(ball, n) for n in (8, 60))
    assert len(few) == 8 and len(more) == 60
    direction = rng.normal(size=(200, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    assert (1.0 - (direction @ more.T).max(axis=1)).max() < 0.12  # inside by what so many points leave
    foot = np.concatenate([CUBE * [0.1, 0.05, 0.02], rng.uniform(-0.02, 0.02, (500, 3))])
    np.testing.assert_allclose(
        sorted(lw.hull_corners(foot, 8).tolist()), sorted((CUBE * [0.1, 0.05, 0.02]).tolist())
    )
    with pytest.raises(lw.ModelError, match="corners: expected an integer from 4 to 64"):
        lw.hull_corners(ball, 3)


MJCF = """<mujoco><default><geom friction="0.7 0.02 0.001" condim="4"/></default>
<asset><hfield name="hills" size="2 3 0.5 0.1" nrow="3" ncol="2" elevation="0 1 2 3 4 5"/></asset>
<worldbody><geom name="floor" type="plane" size="5 5 1" pos="0 0 0.1" {floor}/>{more}
<body name="a" pos="0 0 1"><freejoint/><geom name="ball" type="sphere" size="0.1" margin="0.01"/>
<body name="b" pos="1 0 0"><joint name="hinge" axis="0 1 0"/>
<geom name="rod" type="capsule" size="0.05 0.3" friction="0.9 0.1 0.1"/>
<body name="c" pos="1 0 0"><joint name="other" axis="0 1 0"/>
<geom name="egg" type="ellipsoid" size="0.1 0.2 0.3"/></body></body></body>
</worldbody><contact><pair geom1="ball" geom2="rod" condim="6" friction="0.1 0.1 0.2 0.3 0.3"/>
<exclude body1="a" body2="c"/></contact>
</mujoco>"""


def test_mjcf_says_what_touches_and_how() -> None:
    pytest.importorskip("mujoco")
    found = {each.name: each for each in lw.contact_candidates(lw.load(MJCF.format(floor="", more="")))}
    assert list(found) == ["ball", "rod+z", "rod-z", "egg", "ball-rod"]
    assert found["ball"].other_place.point == (0.0, 0.0, 0.1) and found["ball"].margin == 0.01
    assert (found["ball"].friction, found["ball"].dimension) == ((0.7, 0.02, 0.001), 4)
    assert found["rod+z"].friction == (0.9, 0.1, 0.1)
    assert (found["ball-rod"].friction, found["ball-rod"].dimension) == ((0.1, 0.2, 0.3), 6)
    ghost = lw.load(MJCF.format(floor='contype="2" conaffinity="2"', more=""))
    assert [each.name for each in lw.contact_candidates(ghost)] == ["ball-rod"]


def test_height_fields_of_mjcf_are_where_mujoco_has_them(tmp_path: Path) -> None:
    """Against the height at which MuJoCo's ray meets the field."""
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.format(
        floor='contype="0" conaffinity="0"',
        more='<geom name="h" type="hfield" hfield="hills" pos="0.1 0 0.2"/>',
    )
    model = lw.load(text)
    (ground,) = [each for each in model.geometries if each.shape == "heightfield"]
    scene = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(scene)
    mujoco.mj_forward(scene, data)
    rng = np.random.default_rng(2)
    for x, y in rng.uniform(-1.8, 1.8, (10, 2)):
        start = np.array([x, y, 9.0])
        distance = mujoco.mj_rayHfield(
            scene,
            data,
            mujoco.mj_name2id(scene, mujoco.mjtObj.mjOBJ_GEOM, "h"),
            start,
            np.array([0, 0, -1.0]),
        )
        q = np.concatenate([[x, y, 0.0], [0.0, 0.0, 0.0, 1.0], np.zeros(2)])
        gap, _, normal = lw.contact_points.body(model, q, contacts=Contacts(shapes="ball", margin=0.0))
        assert float((gap[0] + 0.1) / normal[0, 2]) == pytest.approx(distance - 9.0, abs=1e-6)
    heights = np.array(ground.heights, dtype=np.float32)
    (tmp_path / "hills.bin").write_bytes(struct.pack("<2i", *heights.shape) + heights.astype("<f4").tobytes())
    (tmp_path / "it.xml").write_text(
        text.replace('nrow="3" ncol="2" elevation="0 1 2 3 4 5"', 'file="hills.bin"')
    )
    (again,) = [each for each in lw.load(tmp_path / "it.xml").geometries if each.shape == "heightfield"]
    np.testing.assert_allclose(again.heights, ground.heights, atol=1e-6)


def test_a_mesh_of_mjcf_has_its_scale(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "cube.stl").write_bytes(block(CUBE))
    text = """<mujoco><asset><mesh name="m" file="cube.stl" scale="0.1 0.2 0.3"/></asset><worldbody>
    <geom type="plane" size="5 5 1"/><body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    (tmp_path / "it.xml").write_text(text)
    model = lw.with_hulls(lw.load(tmp_path / "it.xml"), [tmp_path])
    gap, _, _ = lw.contact_points.body(
        model, np.array([0, 0, 1.0, 0, 0, 0, 1]), contacts=Contacts().on(model)
    )
    np.testing.assert_allclose(np.sort(gap.astype(float)), [0.7] * 4 + [1.3] * 4, atol=1e-6)


def test_sdf_gives_shapes_and_friction() -> None:
    surface = "<surface><friction><ode><mu>0.3</mu></ode></friction></surface>"
    text = f"""<sdf version="1.9"><world name="w"><model name="floor"><static>true</static><link name="l">
    <collision name="f">{surface}<geometry><plane><normal>0 3 4</normal><size>9 9</size></plane></geometry></collision>
    </link></model>
    <model name="m"><pose>0 0 1 0 0 0</pose><link name="l"><inertial><mass>1</mass></inertial><collision name="c">
    <geometry><ellipsoid><radii>0.1 0.2 0.3</radii></ellipsoid></geometry></collision></link></model></world></sdf>"""
    model = lw.load(text)
    (found,) = lw.contact_candidates(model)
    assert (found.kind, found.friction[0]) == ("ellipsoid on plane", 0.3)
    _, _, normal = lw.contact_points.body(model, model.neutral(), contacts=Contacts().on(model))
    np.testing.assert_allclose(normal.astype(float), [[0.0, 0.6, 0.8]], atol=1e-12)


def test_info_lists_what_may_touch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from linkwork.cli.cli import main

    (tmp_path / "r.urdf").write_text(URDF)
    main(["info", str(tmp_path / "r.urdf"), "--quick"])
    told = capsys.readouterr().out
    assert "box on plane: 4: foot::collision0[0]," in told and "1 mesh has no hull" in told


def test_shapes_and_pairs_go_to_mjcf_and_back() -> None:
    mujoco = pytest.importorskip("mujoco")
    model = lw.load(
        MJCF.format(floor="", more='<geom name="h" type="hfield" hfield="hills" pos="0.1 0 0.2"/>')
    )
    hull = lw.Geometry("stone", 0, shape="hull", vertices=CUBE * 0.1)
    model = dataclasses.replace(model, geometries=(*model.geometries, hull), kernels={})
    text = lw.export_mjcf(model)
    again = lw.load(undescribed(text))
    ours, theirs = (
        [each for each in lw.contact_candidates(m) if "hull" not in each.kind] for m in (model, again)
    )
    assert [(x.name, x.kind, x.friction, x.dimension, x.margin) for x in ours] == [
        (x.name, x.kind, x.friction, x.dimension, x.margin) for x in theirs
    ]
    (was,), (now,) = ([each for each in m.geometries if each.shape == "heightfield"] for m in (model, again))
    np.testing.assert_allclose(
        np.array(now.heights) + now.place.p[2], np.array(was.heights) + was.place.p[2], atol=1e-6
    )
    scene = mujoco.MjModel.from_xml_string(text)
    assert scene.npair == 1 and scene.nexclude == 1 and scene.nmeshvert == 8
