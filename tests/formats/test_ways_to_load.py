"""Ways to load: XML texts, names of robots in installed packages, xacro; shapes of URDF; tolerances from
digits.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import linkwork as lw
from linkwork.errors import MissingPackageError, ModelError
from linkwork.formats.digits import tolerance_of
from linkwork.formats.xml import parse

ROBOT = """<robot name="arm"><link name="base"/><link name="hand">
  <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><origin xyz="0 0 1"/><geometry><mesh filename="package://a/hand.stl" scale="2 2 2"/></geometry>
    <material name="red"><color rgba="1 0 0 1"/></material></visual>
  <collision name="ball"><geometry><sphere radius="0.1"/></geometry></collision>
  <collision><geometry><box size="1 2"/></geometry></collision>
  </link><joint name="j" type="continuous"><parent link="base"/><child link="hand"/></joint></robot>"""


def test_a_text_is_read_as_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ROBOT)
    model = lw.load(tmp_path / "arm.urdf")
    assert lw.load(ROBOT) == lw.load("\ufeff \n" + ROBOT) == lw.load(ROBOT.encode()) == model
    with pytest.raises(
        ModelError, match=r'<text>:1: <robot name="x">: no <link>: a robot needs at least one'
    ):
        lw.load('<robot name="x"/>')


def test_shapes_of_urdf_are_kept_as_data() -> None:
    model = lw.load(ROBOT)
    mesh, ball = model.geometries
    assert (mesh.mesh, mesh.scale, mesh.visual, mesh.collision) == (
        "package://a/hand.stl",
        (2.0, 2.0, 2.0),
        True,
        False,
    )
    assert mesh.rgba == (1.0, 0.0, 0.0, 1.0) and mesh.place.p.tolist() == [0.0, 0.0, 1.0] and mesh.body == 0
    assert (ball.name, ball.shape, ball.size, ball.collision) == ("hand::ball", "sphere", (0.1,), True)
    assert any("<box> is not supported and ignored" in note for note in model.notes)


def package(folder: Path, name: str, *files: str) -> None:
    """An installed package with these files."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(ROBOT)
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_robots_of_installed_packages_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "example-robot-data", "share/g1_description/urdf/g1_29.urdf", "share/g1_description/urdf/g1_hands.urdf",
            "share/two_description/a.urdf", "share/two_description/b.urdf", "share/package.xml")  # fmt: skip
    package(tmp_path, "mjlab", "mjlab/g1/g1.urdf", "mjlab/yam.urdf")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert lw.load("g1") == lw.load("G1_hands") == lw.load("yam") == lw.load("mjlab/g1") == lw.load(ROBOT)
    with pytest.raises(
        ModelError,
        match="file not found: 'g1_hand', and no robot .*in the packages .*did you mean 'g1_hands'",
    ):
        lw.load("g1_hand")
    with pytest.raises(ModelError, match="'two' is ambiguous"):
        lw.load("two")


def test_a_robot_by_name_may_use_the_files_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco")
    package(tmp_path, "mjlab", "mjlab/a/robot.xml", "mjlab/b/part.xml")
    (tmp_path / "mjlab/a/robot.xml").write_text(
        '<mujoco><worldbody><include file="../b/part.xml"/></worldbody></mujoco>'
    )
    (tmp_path / "mjlab/b/part.xml").write_text('<mujoco><body name="part"><geom size="0.1"/></body></mujoco>')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert lw.load("mjlab/robot").frame("part").name == "part"
    with pytest.raises(ModelError, match="folders="):
        lw.load(tmp_path / "mjlab/a/robot.xml")


def test_xacro(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf.xacro"
    start = (
        '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arg name="mass" default="1"/>'
    )
    path.write_text(
        ROBOT.replace('<robot name="arm">', start).replace(
            'mass value="1"', 'mass value="${2 * $(arg mass)}"'
        )
    )
    if importlib.util.find_spec("xacro") is None:
        with pytest.raises(MissingPackageError, match=r"pip install 'linkwork\[xacro\]'"):
            lw.load(path)
        pytest.skip("xacro is not installed")
    assert lw.load(path).mass == 2.0 and lw.load(path, arguments={"mass": 3}).mass == 6.0
    path.write_text(start + "<xacro:nothing/></robot>")
    with pytest.raises(ModelError, match="xacro failed: XacroException: unknown macro name: xacro:nothing"):
        lw.load(path)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ('<r><origin xyz="0.25 0.1 3" rpy="0 0 0.5"/></r>', None, None),  # short numbers may be exact
        ('<r><origin xyz="0.123456789 0.1 3" rpy="1.5707963267948966 0 0"/></r>', None, None),
        ('<r><origin rpy="1.5708 0 0"/></r>', 1e-4, 5e-4),
        ('<r><origin rpy="-1.57 0 3.1415926535897931"/></r>', 1e-3, 2e-3),
        ("<r><pose>0.1234 0.4321 0.1357 0 0 0</pose></r>", 1e-3, 2e-3),
        ('<r><pose degrees="true">0 0 0 1.57 0 0</pose></r>', None, None),
        ('<r><link mass="1.234"/></r>', None, None),  # no place
    ],
)
def test_the_tolerance_comes_from_the_digits(text: str, least: float | None, most: float | None) -> None:
    found = tolerance_of(parse(text, "<text>"))
    assert found is None if least is None or most is None else found is not None and least <= found <= most
