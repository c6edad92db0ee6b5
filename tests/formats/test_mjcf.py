"""MJCF through MuJoCo's compiler: the same dynamics as MuJoCo's own, equalities as loops, and the rest as
data or notes.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LimitError, ModelError
from linkwork.formats import mjcf_process
from linkwork.formats.folders import Folders
from linkwork.formats.mjcf_source import Preparation
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import parse
from linkwork.interop.mujoco import States
from linkwork.model import Model

mujoco = pytest.importorskip("mujoco")

ROBOT = """<mujoco model="every joint">
  <compiler angle="degree" boundmass="0.01"/>
  <option gravity="0.5 -1 -9"/>
  <default>
    <joint damping="0.3" armature="0.02"/>
    <default class="stiff"><joint stiffness="7" springref="12"/></default>
    <geom density="700"/>
  </default>
  <asset><material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="2 3 .1" friction="0.8 0.01 0.002"/>
    <site name="marker" pos="1 2 3"/>
    <body name="torso" pos="0.1 0.2 1.5" euler="10 20 30">
      <freejoint name="root"/>
      <geom name="trunk" type="capsule" size=".1 .2" material="red"/>
      <geom name="lump" type="box" size=".1 .05 .02" pos=".1 .2 .05" euler="20 0 10" contype="0" conaffinity="0"/>
      <site name="imu" pos="0 0 .1" euler="0 90 0"/>
      <body name="arm" pos="0 .2 0" euler="0 0 40">
        <joint name="swing" axis="1 .5 0" pos="0 .01 .03" ref="20" range="-30 60" frictionloss="0.4"/>
        <joint name="slide" type="slide" axis="0 1 1" pos=".3 .1 0" ref="0.1" range="-0.2 0.4"/>
        <joint name="twist" axis="0 1 0" pos=".02 0 .01" class="stiff"/>
        <geom type="capsule" fromto="0 0 0 0 .3 0" size=".04"/>
        <body pos="0 .3 0">
          <joint type="ball" pos="0 .02 .03" stiffness="3" armature="0.1"/>
          <geom size=".05"/>
          <body name="plate" pos=".1 0 0" euler="5 6 7"><geom type="ellipsoid" size=".1 .05 .02"/></body>
        </body>
      </body>
      <body name="leg" pos="0 -.2 -.1"><joint axis="0 1 0" pos="0 0 .04"/><geom type="cylinder" size=".03 .2"/></body>
    </body>
    <body name="cart" pos="2 0 0"><joint type="slide" axis="1 0 0"/><geom type="box" size=".2 .1 .1"/></body>
  </worldbody>
  <contact><pair geom1="trunk" geom2="floor" friction="1 1 .1 .1 .1"/><exclude body1="arm" body2="torso"/></contact>
  <tendon><fixed name="strap"><joint joint="swing" coef="2"/><joint joint="twist" coef="-1"/></fixed></tendon>
  <actuator>
    <motor name="push" joint="swing" gear="20" ctrlrange="-1 1" forcerange="-5 5"/>
    <position name="pull" tendon="strap" kp="30"/>
  </actuator>
  <keyframe><key name="home" qpos="0 0 2 0 1 0 0 .4 .2 .3 1 0 0 0 .5 .6" qvel="1 2 3 4 5 6 7 8 9 10 11 12 13 14"/></keyframe>
</mujoco>"""


def peer_of(xml: str) -> Any:
    """MuJoCo's own model, with constraints and actuation off."""
    peer = mujoco.MjModel.from_xml_string(xml)
    off = mujoco.mjtDisableBit
    peer.opt.disableflags |= int(off.mjDSBL_CONSTRAINT) | int(off.mjDSBL_ACTUATION)
    return peer


def difference(model: Model, peer: Any, states: int = 5) -> float:
    """How much mass matrices, and joint forces for MuJoCo's own accelerations, differ, relative to the
    largest.
    """
    convert = States(model, peer)
    data = mujoco.MjData(peer)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(states):
        q, v = model.random_state(rng)
        tau = rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = (
            convert.q_to(q),
            convert.v_to(q, v),
            convert.tau_to(q, tau),
        )
        mujoco.mj_forward(peer, data)
        M = np.zeros((peer.nv, peer.nv))
        try:
            mujoco.mj_fullM(peer, data, M)
        except TypeError:  # before 4.0
            mujoco.mj_fullM(peer, M, data.qM)
        ours = convert.matrix_to(q, lw.mass_matrix(model, q))
        a = lw.forward_dynamics(model, q, v, tau)
        there = convert.a_from(q, v, data.qacc)
        worst = max(
            worst, np.abs(ours - M).max() / np.abs(M).max(), np.abs(a - there).max() / np.abs(there).max()
        )
    return worst


@pytest.fixture(scope="module")
def robot() -> Model:
    return lw.load(ROBOT)


def test_dynamics_are_those_of_mujoco(robot: Model) -> None:
    assert [j.name for j in robot.joints] == [
        "root",
        "swing",
        "slide",
        "twist",
        "body3_joint",
        "leg_joint",
        "cart_joint",
    ]
    assert difference(robot, peer_of(ROBOT)) < 1e-12


def test_poses_are_those_of_mujoco(robot: Model) -> None:
    peer = peer_of(ROBOT)
    convert = States(robot, peer)
    data = mujoco.MjData(peer)
    q, _ = robot.random_state(3)
    data.qpos[:] = convert.q_to(q)
    mujoco.mj_kinematics(peer, data)
    for name in ("torso", "arm", "body3", "plate", "leg", "cart"):
        T = lw.frame_pose(robot, q, frame=name)
        there = data.body(name) if name != "body3" else data.body(3)
        assert np.allclose(T[:3, :3], there.xmat.reshape(3, 3), atol=1e-13) and np.allclose(
            T[:3, 3], there.xpos, atol=1e-13
        )
    for name in ("imu", "marker"):
        T = lw.frame_pose(robot, q, frame=name)
        there = data.site(name)
        assert np.allclose(T[:3, :3], there.xmat.reshape(3, 3), atol=1e-13) and np.allclose(
            T[:3, 3], there.xpos, atol=1e-13
        )
    for k, shape in enumerate(robot.geometries):
        T = lw.frame_pose(robot, q, frame=robot.joints[shape.body].name if shape.body >= 0 else "world")
        assert np.allclose(T[:3, 3] + T[:3, :3] @ shape.place.p, data.geom_xpos[k], atol=1e-13), shape.name


def test_neutral_is_the_reference_configuration(robot: Model) -> None:
    peer = peer_of(ROBOT)
    assert np.allclose(States(robot, peer).q_to(robot.neutral()), peer.qpos0, atol=1e-15)
    assert np.allclose(robot.gravity, (0.5, -1, -9))


def test_joints_have_their_parts(robot: Model) -> None:
    swing = robot.joint("swing")
    twist = robot.joint("twist")
    assert swing.friction == (0.4,) and swing.damping == (0.3,) and swing.armature == (0.02,)
    assert np.allclose([swing.lower[0], swing.upper[0]], np.radians([-50.0, 40.0]))
    assert twist.stiffness == (7.0,) and np.isclose(twist.rest[0], np.radians(12.0))


def test_a_keyframe_is_a_state(robot: Model) -> None:
    peer = peer_of(ROBOT)
    convert = States(robot, peer)
    q, v = robot.keyframes["home"]
    assert np.allclose(convert.q_to(q), peer.key_qpos[0]) and np.allclose(
        convert.v_to(q, v), peer.key_qvel[0]
    )
    home = lw.load(ROBOT, start="home")
    assert np.allclose(home.neutral(), q)
    with pytest.raises(ModelError, match="start: .*'hom'.*did you mean 'home'"):
        lw.load(ROBOT, start="hom")
    again = pickle.loads(pickle.dumps(robot))
    assert again == robot and np.array_equal(again.keyframes["home"].q, q)
    assert [shape.size for shape in again.geometries] == [shape.size for shape in robot.geometries]


def test_keyframes_have_controls_and_activations() -> None:
    slow = '<general name="slow" joint="swing" dyntype="filter" dynprm=".1"/><position name="pull"'
    text = ROBOT.replace('<position name="pull"', slow)
    text = text.replace('name="home"', 'name="home" ctrl="1 -2 .5" act=".25"')
    model = lw.load(text, strict=True)
    key = model.keyframes["home"]
    assert key.controls.tolist() == [1.0, -2.0, 0.5] and key.activations.tolist() == [0.0, 0.25, 0.0]
    lw.rollout(model, key.q, key.v, lw.Controls(key.controls, activations=key.activations), dt=1e-3, steps=1)
    peer = mujoco.MjModel.from_xml_string(lw.export_mjcf(model))
    assert peer.key_ctrl[0].tolist() == [1.0, -2.0, 0.5] and peer.key_act[0].tolist() == [0.25]
    for again in (lw.load(lw.export_urdf(model)), pickle.loads(pickle.dumps(model))):
        again_key = again.keyframes["home"]
        assert again_key.controls.tolist() == [1.0, -2.0, 0.5] and again_key.activations[1] == 0.25
    text = lw.export_urdf(model).replace('name="slow" control=', 'name="slwo" control=')
    with pytest.raises(ModelError, match="actuator 'slwo': .*did you mean 'slow'"):
        lw.load(text)


def test_keyframes_have_coordinates_of_tendons() -> None:
    text = """<mujoco><option><flag energy="enable"/></option><worldbody>
      <body><joint name="turn" axis="0 1 0" ref="0.5"/><geom size="0.1" pos="0.1 0 0.2"/>
        <body><joint name="slide" type="slide"/><geom size="0.1"/></body></body></worldbody>
      <tendon><fixed name="rope" stiffness="5" springlength="0.1" damping="0.2">
        <joint joint="turn" coef="1.5"/><joint joint="slide" coef="-2"/></fixed></tendon>
      <keyframe><key name="bent" qpos="0.6 -0.1" qvel="1 2"/></keyframe></mujoco>"""
    model = lw.load(text)
    q, v = model.keyframes["bent"]
    assert np.allclose(lw.closure_error(model, q), 0.0)
    assert np.allclose(v, lw.spanning_velocity(model, q, v[: model.nv]))
    peer = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(peer)
    mujoco.mj_resetDataKeyframe(peer, data, 0)
    mujoco.mj_forward(peer, data)
    assert np.isclose(lw.potential_energy(model, q), data.energy[0])


def test_actuators_and_shapes_are_kept_as_data(robot: Model) -> None:
    push, pull = robot.actuators
    assert (
        push.joints == (("swing", 20.0),)
        and push.control_range == (-1.0, 1.0)
        and push.force_range == (-5.0, 5.0)
    )
    assert (
        pull.joints == (("swing", 2.0), ("twist", -1.0))
        and pull.gain[1][0] == 30.0
        and pull.bias[1][1] == -30.0
    )
    by_name = {shape.name: shape for shape in robot.geometries}
    assert by_name["trunk"].shape == "capsule" and by_name["trunk"].size == (0.1, 0.4)
    assert by_name["trunk"].rgba == (1.0, 0.0, 0.0, 1.0)
    assert by_name["lump"].size == (0.2, 0.1, 0.04) and not by_name["lump"].collision
    assert by_name["floor"].friction == (0.8, 0.01, 0.002) and by_name["floor"].body == -1
    touching, apart = robot.contact_pairs
    assert {touching.first, touching.second} == {"trunk", "floor"} and touching.friction[2] == 0.1
    assert apart.excluded and {apart.first, apart.second} == {"arm", "torso"}


def test_the_base_can_be_held_or_freed() -> None:
    fixed = lw.load(ROBOT, base="fixed")
    assert fixed.nv == 8
    assert np.allclose(fixed.frame("torso").place.p, (0.1, 0.2, 1.5))
    arm = '<mujoco><worldbody><body name="a" pos="1 2 3"><geom size=".1"/></body></worldbody></mujoco>'
    free = lw.load(arm, base="free")
    assert free.nv == 6 and np.allclose(free.neutral(), [1, 2, 3, 0, 0, 0, 1])
    with pytest.raises(ModelError, match="freejoint"):
        lw.load('<mujoco><worldbody><body><joint/><geom size=".1"/></body></worldbody></mujoco>', base="free")


# equalities


BARS = """<mujoco>
  <worldbody>
    <body name="crank"><joint name="crank" axis="0 1 0" ref="10"/><geom type="capsule" fromto="0 0 0 0 0 .2" size=".02"/>
      <body name="rod" pos="0 0 .2"><joint name="rod" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .6 0 .3" size=".02"/>
        <site name="tip" pos=".6 0 .3" euler="0 0 20"/>
      </body>
    </body>
    <body name="rocker" pos=".6 0 0"><joint name="rocker" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .5" size=".02"/>
      <site name="pin" pos="0 0 .5"/>
    </body>
    <body name="motor" pos="0 1 0"><joint name="motor" axis="0 1 0" ref="5"/><geom size=".05"/></body>
    <body name="wheel" pos="0 2 0"><joint name="wheel" axis="0 1 0"/><geom size=".05"/></body>
  </worldbody>
  <tendon><fixed name="belt"><joint joint="motor" coef="2"/><joint joint="wheel" coef="-3"/></fixed></tendon>
  <equality>{}</equality>
</mujoco>"""


def settled(xml: str, model: Model, q: np.ndarray) -> float:
    """How much MuJoCo's equalities are violated in a state of ours."""
    peer = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(peer)
    data.qpos[:] = States(model, peer).q_to(q)
    mujoco.mj_forward(peer, data)
    rows = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    assert rows.any()
    return float(np.abs(data.efc_pos[rows]).max())


@pytest.mark.parametrize(
    ("equality", "nv"),
    [
        ('<connect body1="rod" body2="rocker" anchor=".6 0 .3"/>', 3),
        ('<connect site1="tip" site2="pin"/>', 3),
        ('<weld body1="rod" body2="rocker" relpose=".6 0 -.2 1 0 0 0" anchor="0 0 .5" torquescale="0"/>', 3),
        ('<weld body1="motor" body2="wheel" relpose="0 1 0 1 0 0 0"/>', 4),
        ('<joint joint1="motor" joint2="wheel" polycoef="0.1 -2 0 0 0"/>', 4),
        ('<joint joint1="motor" polycoef="0.3 0 0 0 0"/>', 4),
        ('<joint joint1="motor" joint2="wheel" polycoef="0.1 0.5 0.2 -0.1 0.05"/>', 4),
        ('<tendon tendon1="belt"/>', 4),
        ('<joint joint1="motor" joint2="wheel"/><connect body1="rod" body2="rocker" anchor=".6 0 .3"/>', 2),
    ],
)
def test_equalities_hold_in_mujoco(equality: str, nv: int) -> None:
    """States that are closed here satisfy MuJoCo's own equalities; the tree's dynamics agree."""
    xml = BARS.format(equality)
    model = lw.load(xml)
    assert model.nv == nv
    rng = np.random.default_rng(1)
    for _ in range(3):
        q, _ = model.random_state(rng)
        assert settled(xml, model, q) < 1e-12


def test_an_unnamed_equality_of_a_stiff_tendon_has_a_name_of_its_own() -> None:
    """The joint that stands for the tendon is coupled by the tendon's name."""
    xml = BARS.format('<tendon tendon1="belt"/>').replace('name="belt"', 'name="belt" stiffness="7"')
    model = lw.load(xml)
    assert model.nv == 4 and {loop.name for loop in model.loops} == {"tendon belt", "tendon belt'"}
    q, _ = model.random_state(1)
    assert settled(xml, model, q) < 1e-12


def test_what_is_inactive_or_unknown_is_told() -> None:
    xml = BARS.format('<connect name="later" active="false" body1="rod" body2="rocker" anchor="0 0 0"/>')
    model = lw.load(xml.replace("<tendon>", '<sensor><jointpos joint="motor"/></sensor><tendon>'))
    assert model.nv == 5 and any("inactive equality" in note and "later" in note for note in model.notes)
    assert any("sensors are ignored" in note for note in model.notes)


# files


def test_includes_and_meshes_stay_inside_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "robot"
    outside = tmp_path / "secret.xml"
    (inside / "parts").mkdir(parents=True)
    outside.write_text("<mujocoinclude/>")
    (inside / "parts" / "arm.xml").write_text(
        '<mujocoinclude><body name="arm"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        '<geom type="mesh" mesh="hull"/></body></mujocoinclude>'
    )
    main = '<mujoco><asset><mesh name="hull" file="absent.stl"/></asset><worldbody><include file="{}"/></worldbody></mujoco>'
    (inside / "robot.xml").write_text(main.format("parts/arm.xml"))
    model = lw.load(inside / "robot.xml")  # its mesh is not needed, and not there
    assert model.nv == 1 and model.geometries[0].mesh == "absent.stl"
    for name in ("../secret.xml", str(outside)):
        (inside / "robot.xml").write_text(main.format(name))
        with pytest.raises(
            ModelError,
            match=r"robot.xml:1: <include> in <worldbody>: file .*secret.xml': outside the folder .*folders=",
        ):
            lw.load(inside / "robot.xml")
        assert lw.load(inside / "robot.xml", folders=[tmp_path]).nv == 0


CUBE = (
    "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1))
    + "f 1 2 4 3\nf 5 7 8 6\nf 1 5 6 2\nf 3 4 8 7\nf 1 3 7 5\nf 2 6 8 4\n"
)


def test_files_named_on_windows_and_beside_the_folder(tmp_path: Path) -> None:
    """A backslash separates folders, as in MuJoCo; of a file beside the folder, it is told which folder to
    name.
    """
    (tmp_path / "robots/parts").mkdir(parents=True)
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes/arm.xml").write_text(
        '<mujocoinclude><body name="arm"><joint/><geom size="1"/></body></mujocoinclude>'
    )
    (tmp_path / "robots/parts/hand.xml").write_text(
        '<mujocoinclude><include file="..\\..\\shapes\\arm.xml"/></mujocoinclude>'
    )
    main = '<mujoco><worldbody><include file="parts\\hand.xml"/></worldbody></mujoco>'
    (tmp_path / "robots/robot.xml").write_text(main)
    with pytest.raises(
        ModelError, match=r"hand.xml:1: <include>.*outside the folder .*robots.*, such as folders="
    ) as told:
        lw.load(tmp_path / "robots/robot.xml")
    assert str(told.value).endswith(f"folders=[{os.path.realpath(tmp_path)!r}]")
    assert lw.load(tmp_path / "robots/robot.xml", folders=[tmp_path]).nv == 1


@pytest.mark.parametrize("where", ["parts", "."])
def test_meshes_of_an_included_file_are_found_from_there(where: str, tmp_path: Path) -> None:
    """As MuJoCo does: relative to the main file, or else to the one that names them."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes/box.obj").write_text(CUBE)
    file = "../shapes/box.obj" if where == "parts" else "shapes/box.obj"
    (tmp_path / "parts/assets.xml").write_text(
        f'<mujoco><asset><mesh name="cube" file="{file}"/></asset></mujoco>'
    )
    (tmp_path / "robot.xml").write_text(
        '<mujoco><include file="parts/assets.xml"/><worldbody><body name="a"><freejoint/><geom type="mesh" mesh="cube"/></body>'
        "</worldbody></mujoco>"
    )
    (body,) = lw.load(tmp_path / "robot.xml").bodies
    assert np.isclose(body.mass, mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml")).body_mass[1])


def test_a_mesh_that_gives_the_inertia_is_opened(tmp_path: Path) -> None:
    (tmp_path / "box.obj").write_text(CUBE)
    xml = """<mujoco><asset><mesh name="cube" file="box.obj"/></asset><worldbody>
      <body name="a"><joint axis="0 0 1"/><geom type="mesh" mesh="cube" density="12"/></body></worldbody></mujoco>"""
    (tmp_path / "robot.xml").write_text(xml)
    (body,) = lw.load(tmp_path / "robot.xml").bodies
    assert np.isclose(body.mass, 12.0) and np.allclose(body.center, 0.5)
    (tmp_path / "box.obj").unlink()
    with pytest.raises(
        ModelError, match=r">: mesh 'cube' is required .the inertia of body 'a' is inferred.*box.obj"
    ):
        lw.load(tmp_path / "robot.xml")


def test_an_error_of_the_compiler_names_the_element(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(
        '<mujocoinclude>\n\n<body><joint name="j" axis="0 0 0"/></body></mujocoinclude>'
    )
    (tmp_path / "robot.xml").write_text(
        '<mujoco>\n<worldbody>\n<include file="part.xml"/></worldbody></mujoco>'
    )
    with pytest.raises(ModelError, match=r'part.xml:3: <joint name="j">: MuJoCo\'s compiler: '):
        lw.load(tmp_path / "robot.xml")


def test_a_material_of_another_file_is_not_needed() -> None:
    """As in parts of scenes: MuJoCo refuses them, but no number depends on materials."""
    text = ROBOT.replace('material="red"', 'material="of the scene"')
    with pytest.raises(ValueError, match="material 'of the scene' not found"):
        mujoco.MjModel.from_xml_string(text)
    model = lw.load(text)
    assert "undefined material is ignored: of the scene (line 15)" in model.notes
    assert difference(model, peer_of(ROBOT), 1) < 1e-9


@pytest.mark.parametrize("name", ['name="up"', ""])
def test_an_error_in_a_keyframe_names_it(name: str) -> None:
    keys = f'<keyframe>\n<key name="home" qpos="0"/>\n<key {name} qpos="1 2 3"/>\n</keyframe>'
    text = f'<mujoco><worldbody><body><joint/><geom size="1"/></body></worldbody>{keys}</mujoco>'
    with pytest.raises(
        ModelError, match=r":3: <key.*: MuJoCo.s compiler: .*invalid qpos size, expected 1, got 3"
    ):
        lw.load(text)


def test_a_mesh_that_is_a_pointer_of_git_lfs_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.obj").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    mesh = '<asset><mesh name="m" file="m.obj"/></asset>'
    body = '<worldbody><body name="a"><joint/><geom type="mesh" mesh="m"/></body></worldbody>'
    (tmp_path / "r.xml").write_text(f"<mujoco>{mesh}{body}</mujoco>")
    with pytest.raises(
        ModelError, match=r'<mesh name="m">: .*of body .a. .*file .m.obj. is a Git LFS pointer.*lfs pull'
    ):
        lw.load(tmp_path / "r.xml")


def test_a_model_is_attached(tmp_path: Path) -> None:
    arm = '<body name="arm"><joint name="j" axis="0 0 1"/><geom size="0.1"/><geom type="mesh" mesh="m" mass="0"/></body>'
    mesh = '<asset><mesh name="m" file="absent.stl"/></asset>'
    (tmp_path / "arm.xml").write_text(f"<mujoco>{mesh}<worldbody>{arm}</worldbody></mujoco>")
    (tmp_path / "robot.xml").write_text(
        '<mujoco><asset><model name="s" file="arm.xml"/></asset><worldbody><body name="base"><freejoint/><geom size="0.1"/>'
        '<frame pos="1 2 3"><attach model="s" body="arm" prefix="left_"/></frame></body></worldbody></mujoco>'
    )
    model = lw.load(tmp_path / "robot.xml")
    assert [joint.name for joint in model.joints] == ["base_joint", "left_j"]
    assert np.allclose(model.joint("left_j").place.p, (1, 2, 3))
    assert [shape.mesh for shape in model.geometries] == ["", "", "absent.stl"]


def test_what_takes_too_much_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mjcf_process, "MAX_MEMORY", 0)
    bodies = '<body><freejoint/><geom size="0.1"/></body>' * 300
    with pytest.raises(LimitError, match="<mujoco>: MuJoCo's compiler exceeded its memory of 0 MB"):
        lw.load(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")


def test_a_loop_that_cannot_close_is_told_with_its_element() -> None:
    arm = '<body name="a"><joint axis="0 0 1"/><geom size="0.1"/></body>'
    far = '<equality>\n<connect name="far" site1="s" site2="t"/></equality>'
    sites = '<site name="t" pos="3 0 0"/>' + arm.replace("</body>", '<site name="s" pos="1 0 0"/></body>')
    with pytest.raises(ModelError, match=r'<text>:2: <connect name="far">: .*far'):
        lw.load(f"<mujoco><worldbody>{sites}</worldbody>{far}</mujoco>")


@pytest.mark.slow
def test_large_meshes_may_take_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two megabytes of a sphere, for which the compiler takes more than what is left without them."""
    u = np.linspace(0, np.pi, 101)[:, None]
    w = np.linspace(0, 2 * np.pi, 201)[None, :]
    p = np.stack([np.sin(u) * np.cos(w), np.sin(u) * np.sin(w), np.cos(u) + 0 * w], axis=-1)
    a = p[:-1, :-1]
    b = p[1:, :-1]
    c = p[1:, 1:]
    d = p[:-1, 1:]
    rows = np.zeros(40_000, dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("none", "<u2")])
    rows["corners"] = np.concatenate(
        [np.stack(each, axis=-2).reshape(-1, 3, 3) for each in ((a, b, c), (a, c, d))]
    )
    (tmp_path / "ball.stl").write_bytes(bytes(80) + np.uint32(len(rows)).tobytes() + rows.tobytes())
    (tmp_path / "robot.xml").write_text(
        '<mujoco><asset><mesh name="m" file="ball.stl"/></asset><worldbody><body><freejoint/>'
        '<geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    monkeypatch.setattr(mjcf_process, "MAX_MEMORY", 50 << 20)
    assert np.isclose(lw.load(tmp_path / "robot.xml").mass, 4000 * np.pi / 3, rtol=1e-3)


def test_large_scenes_are_read_and_what_takes_longer_than_linear_time_is_bounded() -> None:
    """Counted are elements, and not their attributes; what MuJoCo compiles in linear time counts for nothing."""
    limits = lw.Limits(elements=2500)
    geom = '<geom type="box" size="1 1 1" pos="0 0 1" quat="1 0 0 0" mass="1" friction="1 1 1"/>'
    motor = '<motor joint="j" gear="1"/>'

    def prepared(geoms: int, motors: int = 0, frames: int = 0) -> str:
        body = f'<body><joint name="j"/>{geom * geoms}{"<frame/>" * frames}</body>'
        text = f"<mujoco><worldbody>{body}</worldbody><actuator>{motor * motors}</actuator></mujoco>"
        return Preparation(Folders(None), limits, Notes()).document(parse(text, "big.xml")).text

    assert prepared(240).count("<geom") == 240  # 1680 elements and attributes
    assert prepared(1, motors=800).count("<motor") == 800
    told = r"more than 250 elements to compile.*Limits\(elements="
    for geoms, frames in ((250, 0), (1, 125)):
        with pytest.raises(LimitError, match=rf"big.xml:1: <\w+> in .*{told}"):
            prepared(geoms, frames=frames)


@pytest.mark.parametrize("count, bodies", [("3 3 2", 18), ("3 3 3", 27), ("19", 19), ("0", 1)])
def test_bodies_of_composites_count_towards_the_limit_of_links(count: str, bodies: int) -> None:
    """Before MuJoCo makes them; the file has one more body."""
    body = f'<body><geom size="1"/><composite type="cable" count="{count}"/></body>'
    text = f"<mujoco><worldbody>{body}</worldbody></mujoco>"

    def prepared(links: int) -> str:
        limits = lw.Limits(links=links)
        return Preparation(Folders(None), limits, Notes()).document(parse(text, "cable.xml")).text

    assert f'count="{count}"' in prepared(bodies + 1)
    with pytest.raises(LimitError, match="links"):
        prepared(bodies)
