"""MJCF, element by element: what decides masses, flags, and what actuators add to joints, against MuJoCo
itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.interop.mujoco import States
from linkwork.model import Model

mujoco = pytest.importorskip("mujoco")

WEDGE = "v 0 0 0\nv .3 0 0\nv 0 .2 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
ASSET = '<asset><mesh name="wedge" file="wedge.obj"/>{}</asset>'
MESH = '<geom type="mesh" mesh="wedge" group="2"/>'
INERTIAL = '<inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>'


def difference(model: Model, peer: Any) -> float:
    """How much mass matrices and accelerations differ from MuJoCo's without constraints, relative to the
    largest.
    """
    off = mujoco.mjtDisableBit
    peer.opt.disableflags |= int(off.mjDSBL_CONSTRAINT) | int(off.mjDSBL_ACTUATION)
    convert = States(model, peer)
    data = mujoco.MjData(peer)
    rng = np.random.default_rng(0)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = (
        convert.q_to(q),
        convert.v_to(q, v),
        convert.tau_to(q, tau),
    )
    mujoco.mj_forward(peer, data)
    M = np.zeros((peer.nv, peer.nv))
    for row, unit in zip(M, np.eye(peer.nv)):
        mujoco.mj_mulM(peer, data, row, unit)
    ours = convert.matrix_to(q, lw.mass_matrix(model, q))
    a = lw.forward_dynamics(model, q, v, tau)
    there = convert.a_from(q, v, data.qacc)
    return max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in ((ours, M), (a, there)))


# masses


def scene(folder: Path, text: str, **parts: str) -> Path:
    """A scene in a folder with the mesh, and with further files."""
    (folder / "wedge.obj").write_text(WEDGE)
    for name, part in parts.items():
        (folder / f"{name}.xml").write_text(part)
    (folder / "scene.xml").write_text(text)
    return folder / "scene.xml"


BODY = f'<worldbody><body name="k"><joint/>{INERTIAL}{MESH}</body></worldbody>'
KID = f'<mujoco model="kid">{{}}{ASSET.format("")}{BODY}</mujoco>'
PARENT = (
    "<mujoco>{}"
    + ASSET.format('<model name="kid" file="kid.xml"/>')
    + '<worldbody><body name="b"><attach model="kid" body="k" prefix="p_"/></body></worldbody></mujoco>'
)
ALWAYS, NEVER = (f'<compiler inertiafromgeom="{word}"/>' for word in ("true", "false"))


@pytest.mark.parametrize("ours", ["", ALWAYS, NEVER])
@pytest.mark.parametrize("kids", ["", ALWAYS, NEVER])
def test_each_models_own_compiler_infers_its_masses(tmp_path: Path, ours: str, kids: str) -> None:
    path = scene(tmp_path, PARENT.format(ours), kid=KID.format(kids))
    assert difference(lw.load(path), mujoco.MjModel.from_xml_path(str(path))) < 1e-12


@pytest.mark.parametrize("strips", ["", "ours", "theirs"])
def test_the_main_model_strips_paths_of_meshes(tmp_path: Path, strips: str) -> None:
    """Also those of attached models; which of two files is opened shows in the mass."""
    strip = '<compiler strippath="true"/>'
    kid = KID.format(strip + ALWAYS if strips == "theirs" else ALWAYS).replace("wedge.obj", "in/wedge.obj")
    main = PARENT.format(strip if strips == "ours" else "").replace("wedge.obj", "in/wedge.obj")
    path = scene(tmp_path, main, kid=kid)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "wedge.obj").write_text(WEDGE.replace("0 0 1", "0 0 2"))
    assert difference(lw.load(path), mujoco.MjModel.from_xml_path(str(path))) < 1e-12


def test_a_body_that_is_freed_has_the_mass_of_its_mesh(tmp_path: Path) -> None:
    still = f'<mujoco>{ASSET.format("")}<worldbody><body name="b">{{}}{MESH}</body></worldbody></mujoco>'
    path = scene(tmp_path, still.format("<freejoint/>"))
    free = lw.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    freed = lw.load(scene(tmp_path, still.format("")), base="free")
    assert difference(free, peer) < 1e-12
    q, _ = free.random_state(1)
    assert np.array_equal(lw.mass_matrix(freed, q), lw.mass_matrix(free, q)) and freed.mass == free.mass
    (tmp_path / "wedge.obj").unlink()
    assert lw.load(tmp_path / "scene.xml").nv == 0
    with pytest.raises(
        ModelError, match="mesh 'wedge' is required .the inertia of body 'b' is inferred from it"
    ):
        lw.load(tmp_path / "scene.xml", base="free")


@pytest.mark.parametrize(
    "compiler", ['settotalmass="10"', 'settotalmass="9" inertiagrouprange="0 1"', 'inertiafromgeom="true"']
)
def test_masses_are_scaled_with_those_of_meshes_at_rest(tmp_path: Path, compiler: str) -> None:
    bodies = f'<body name="b">{MESH}</body><body name="c"><joint/><geom size=".1"/>{MESH}</body>'
    path = scene(
        tmp_path, f"<mujoco><compiler {compiler}/>{ASSET.format('')}<worldbody>{bodies}</worldbody></mujoco>"
    )
    assert difference(lw.load(path), mujoco.MjModel.from_xml_path(str(path))) < 1e-12


def test_a_mesh_at_rest_that_is_not_opened_weighs_nothing(tmp_path: Path) -> None:
    path = scene(
        tmp_path, f"<mujoco>{ASSET.format('')}<worldbody><body name='b'>{MESH}</body></worldbody></mujoco>"
    )
    assert all(body.mass == 0.0 for body in lw.load(path).bodies)


# flags

FLAGGED = """<mujoco><compiler angle="radian"/><option><flag {}/></option>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="a"><joint name="j" axis="0 1 0" stiffness="5" damping="2" frictionloss="0.3" range="-1 1" limited="true"/>
      <geom name="ball" size=".1" pos="0 0 -1"/>
      <body name="b" pos="0 0 -1"><joint name="k" axis="0 1 0" stiffness="3" damping="1"/><geom size=".1" pos=".1 0 -1"/></body>
    </body></worldbody>
  <contact><pair geom1="floor" geom2="ball"/></contact>
  <equality><joint joint1="j" joint2="k" polycoef="0 2 0 0 0"/></equality>
  <actuator><motor joint="j" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>"""
FLAGS = {
    "": {},
    "gravity": {},
    "spring": {"stiffness": 0.0},
    "damper": {"damping": 0.0},
    "frictionloss": {"friction": 0.0},
    "limit": {"upper": np.inf, "lower": -np.inf},
    "contact": {"touching": 0, "pairs": 0},
    "equality": {"loops": 0},
    "constraint": {"friction": 0.0, "upper": np.inf, "lower": -np.inf, "touching": 0, "pairs": 0, "loops": 0},
    "clampctrl": {"control": (-np.inf, np.inf)},
}


@pytest.mark.parametrize("flag", FLAGS)
def test_flags_switch_off_what_they_name(flag: str) -> None:
    text = FLAGGED.format(f'{flag}="disable"' if flag else "")
    model = lw.load(text)
    joint = model.joint("j")
    found = {"stiffness": joint.stiffness[0], "damping": joint.damping[0], "friction": joint.friction[0],
             "upper": joint.upper[0], "lower": joint.lower[0], "touching": sum(shape.collision for shape in model.geometries),
             "pairs": len(model.contact_pairs), "loops": model.nv_spanning - model.nv,
             "control": model.actuators[0].control_range}  # fmt: skip
    usual = {"stiffness": 5.0, "damping": 2.0, "friction": 0.3, "upper": 1.0, "lower": -1.0, "touching": 3, "pairs": 1,
             "loops": 1, "control": (-1.0, 1.0)}  # fmt: skip
    assert found == usual | FLAGS[flag]
    assert difference(model.spanning_tree(), mujoco.MjModel.from_xml_string(text)) < 1e-12


def test_keyframes_of_a_model_with_a_plugin_actuator_are_read() -> None:
    """Their controls include that of the plugin, which is reported and left out."""
    model = lw.load(
        '<mujoco><extension><plugin plugin="mujoco.pid"><instance name="p"/></plugin></extension>'
        '<worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" pos="0 0 -1"/></body></worldbody>'
        '<actuator><plugin joint="j" plugin="mujoco.pid" instance="p"/><motor joint="j"/></actuator>'
        '<keyframe><key name="up" qpos=".3" ctrl="1 2" act=""/></keyframe></mujoco>'
    )
    assert model.keyframes["up"].q == [0.3] and "plugins are not supported" in model.report()


MUSCLE = """<mujoco>
  <compiler>{}</compiler>
  <worldbody>
    <body><joint name="j" axis="0 1 0" range="-40 60" ref="10"/><geom size=".1" pos="0 0 -1"/>
      <body><joint name="k" axis="1 0 0" range="-20 30"/><geom size=".1" pos="0 .2 -1"/></body></body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="j" coef="1.5"/><joint joint="k" coef="-.5"/></fixed></tendon>
  <actuator><muscle name="m" {}="{}" gear=".7"{}/></actuator>
</mujoco>"""


@pytest.mark.parametrize(
    "how", ["", '<lengthrange uselimit="true"/>', '<lengthrange timestep=".005" tolrange=".1"/>']
)
@pytest.mark.parametrize("target", ["joint", "jointinparent", "tendon"])
def test_muscles_without_length_ranges_have_those_of_mujoco(how: str, target: str) -> None:
    """It computes them by a simulation, or from limits; a range that is given is kept."""
    for given in ("", ' lengthrange="-.2 .3"'):
        text = MUSCLE.format(how, target, "t" if target == "tendon" else "j", given)
        peer = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(peer)
        data.qpos[:], data.qvel[:], data.act[:] = (0.3, -0.2), (0.5, 0.1), 0.4
        mujoco.mj_forward(peer, data)
        model = lw.load(text)
        assert model.actuators[0].length_range == tuple(peer.actuator_lengthrange[0])
        states = States(model, peer)
        q = states.q_from(data.qpos)
        tau = lw.actuation(model, q, states.v_from(q, data.qvel), [0.0], data.act)
        np.testing.assert_allclose(tau, states.tau_from(q, data.qfrc_actuator), rtol=1e-10)


def test_a_length_range_whose_simulation_diverges_is_told() -> None:
    """MuJoCo's own compiler would begin it anew for ever."""
    text = """<mujoco><compiler><lengthrange timestep="1" accel="1e9"/></compiler><worldbody>
      <body><joint name="j" axis="0 1 0" armature=".1"/><geom size=".1" pos="0 0 -1"/>
        <body pos="0 0 -1"><joint axis="1 0 0" armature="1"/><geom size=".3" pos=".3 .2 -1"/></body></body>
      </worldbody><actuator><muscle joint="j"/></actuator></mujoco>"""
    with pytest.raises(
        ModelError, match="lengthrange of actuator 0 cannot be computed: the simulation diverges"
    ):
        lw.load(text)


COMPENSATED = """<mujoco>
  <option gravity="1 -2 -9"/>
  <worldbody>
    <body name="stand"><geom size=".1"/>
      <body name="a"{}><joint name="j" axis="0 1 0"/><geom size=".1" pos="0 .2 -1"/>
        <body name="b" pos="0 0 -1"{}><joint type="ball"/><geom size=".1 .2 .3" type="box" pos=".1 .2 0"/></body>
      </body></body></worldbody>
</mujoco>"""


@pytest.mark.parametrize("part", ["1", "0.4", "2"])
def test_gravity_that_is_compensated_everywhere_is_scaled(part: str) -> None:
    text = COMPENSATED.format(*(f' gravcomp="{part}"' for _ in range(2)))
    model = lw.load(text, strict=True)
    assert difference(model, mujoco.MjModel.from_xml_string(text)) < 1e-12
    assert f"gravcomp is {float(part):g} in all moving bodies" in model.report()
    assert np.allclose(lw.load(text, gravity=(0, 0, 1)).gravity, (0, 0, 1 - float(part)))


def test_gravity_is_not_scaled_where_mujoco_does_not() -> None:
    """A negative gravcomp acts only where another one is positive."""
    text = COMPENSATED.format(*(' gravcomp="-2"' for _ in range(2)))
    assert difference(lw.load(text, strict=True), mujoco.MjModel.from_xml_string(text)) < 1e-12


@pytest.mark.parametrize("parts", [(' gravcomp="1"', ""), (' gravcomp="1"', ' gravcomp="0.5"')])
def test_gravity_is_compensated_in_some_bodies(parts: tuple[str, str]) -> None:
    text = COMPENSATED.format(*parts)
    model = lw.load(text, strict=True)
    assert tuple(model.gravity) == (1.0, -2.0, -9.0)
    assert "gravity acts on some bodies less or more" in model.report()
    assert difference(model, mujoco.MjModel.from_xml_string(text)) < 1e-12


NOTED = {
    'equality="disable"': "equalities are disabled",
    'filterparent="disable"': "filterparent",
    'override="enable"': "override",
}


@pytest.mark.parametrize("flag", NOTED)
def test_flags_without_a_counterpart_are_reported(flag: str) -> None:
    assert NOTED[flag] in lw.load(FLAGGED.format(flag)).report()


# actuators

DRIVEN = """<mujoco><worldbody>
    <site name="hook" pos="0 1 1"/>
    <body name="a"><joint name="j" type="{}" axis="1 0 0" armature="0.1"/><geom type="box" size=".1 .2 .3" pos=".1 0 0"/></body>
    <body name="b" pos="3 0 0"><joint name="k" axis="1 0 0"/><geom size=".1" pos="0 1 0"/><site name="s" pos="0 1 0"/></body>
  </worldbody><tendon>{}</tendon><actuator>{}</actuator></mujoco>"""
TWO = '<fixed name="t"><joint joint="j" coef="2"/><joint joint="k" coef="3"/></fixed>'
ONE = '<fixed name="t"><joint joint="k" coef="3"/></fixed>'
ROPE = '<spatial name="t"><site site="hook"/><site site="s"/></spatial>'
GEARS = {
    "hinge": (
        "hinge",
        "",
        '<motor joint="j" gear="3" armature="0.2"/><position joint="j" gear="2" armature="0.4"/>',
    ),
    "slide": ("slide", "", '<velocity jointinparent="j" gear="3" armature="0.2"/>'),
    "ball": ("ball", "", '<motor joint="j" gear="2 0 1" armature="0.5"/>'),
    "ball in its parent": ("ball", "", '<motor jointinparent="j" gear="2 0 1" armature="0.5"/>'),
    "free": ("free", "", '<motor joint="j" gear="2 1 0 0 0 1" armature="0.5"/>'),
    "tendon": ("hinge", TWO, '<motor tendon="t" gear="2" armature="0.5"/>'),
    "tendon of one": (
        "ball",
        ONE,
        '<motor tendon="t" gear="2" armature="0.5"/><motor joint="k" armature="0.25"/>',
    ),
}


@pytest.mark.skipif(
    not hasattr(mujoco.MjModel.from_xml_string("<mujoco/>"), "actuator_armature"), reason="an older MuJoCo"
)
@pytest.mark.parametrize("case", GEARS)
def test_joints_feel_the_armature_of_actuators(case: str) -> None:
    text = DRIVEN.format(*GEARS[case])
    model = lw.load(text)
    peer = mujoco.MjModel.from_xml_string(text)
    if case != "free":
        assert difference(model, peer) < 1e-12
    convert = States(model, peer)
    data = mujoco.MjData(peer)
    q, _ = model.random_state(3)
    if case == "free":  # along the body's axes here
        q[3:7] = (0.0, 0.0, 0.0, 1.0)
        assert "armature of a free joint" in model.report()
    data.qpos[:] = convert.q_to(q)
    mujoco.mj_forward(peer, data)
    M = np.array([convert.v_to(q, row) for row in lw.mass_matrix(model, q)])
    for row, unit in zip(M, np.eye(peer.nv)):
        there = np.zeros(peer.nv)
        mujoco.mj_mulM(peer, data, there, convert.v_to(q, unit))
        assert np.allclose(row, there, atol=1e-12)


@pytest.mark.skipif(
    not hasattr(mujoco.MjModel.from_xml_string("<mujoco/>"), "actuator_armature"), reason="an older MuJoCo"
)
def test_armature_by_a_spatial_tendon_is_reported() -> None:
    model = lw.load(DRIVEN.format("hinge", ROPE, '<motor tendon="t" gear="2" armature="0.5"/>'))
    assert "armature of an actuator on a spatial tendon" in model.report()


# sizes

WITH = """<mujoco><option gravity="{}"/><worldbody>
  <body name="b" {}><joint name="j" {}/><geom name="g" size=".1"/></body></worldbody></mujoco>"""
TOO_LARGE = {
    "gravity": (("0 0 1e308", "", ""), "<option>: gravity: expected finite numbers of at most 1e+30"),
    "axis": (
        ("0 0 0", "", 'axis="1e160 0 0"'),
        "<joint name=\"j\">: joint 'j': axis: expected finite numbers of at most 1e+30",
    ),
    "turn": (
        ("0 0 0", 'quat="1e160 0 0 0"', ""),
        "<body name=\"b\">: body 'b': quat: expected finite numbers of at most 1e+30",
    ),
    "damping": (
        ("0 0 0", "", 'damping="1e300"'),
        "<joint name=\"j\">: joint 'j': damping: expected finite numbers of at most 1e+30",
    ),
    "place": (
        ("0 0 0", "", 'pos="0 1e40 0"'),
        "<joint name=\"j\">: joint 'j': pos: expected finite numbers of at most 1e+30",
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_numbers_that_are_too_large_are_refused(case: str) -> None:
    words, told = TOO_LARGE[case]
    with pytest.raises(ModelError) as error:
        lw.load(WITH.format(*words))
    assert told in str(error.value)


def test_elements_of_several_files_are_not_nested_too_deep(tmp_path: Path) -> None:
    for k in range(5):
        inside = f'<include file="{k + 1}.xml"/>' if k < 4 else "<geom/>"
        (tmp_path / f"{k}.xml").write_text(
            f"<mujocoinclude>{'<body>' * 400}{inside}{'</body>' * 400}</mujocoinclude>"
        )
    (tmp_path / "all.xml").write_text('<mujoco><worldbody><include file="0.xml"/></worldbody></mujoco>')
    with pytest.raises(
        ModelError, match=r"1.xml:1: <body> in .* in \.\.\.: elements are nested deeper than the limit of 450"
    ):
        lw.load(tmp_path / "all.xml")


@pytest.mark.parametrize("word", ["damping", "armature", "stiffness", "frictionloss"])
def test_negative_properties_of_joints_are_named(word: str) -> None:
    """MuJoCo accepts them: some files of robots have a damping that was fitted."""
    text = f"""<mujoco><worldbody><body><joint name="j" {word}="-0.1"/><geom size=".1" pos=".2 0 0"/></body>
      </worldbody></mujoco>"""
    model = lw.load(text)
    name = word.replace("loss", "")
    assert f"negative {name} is not supported and ignored: joint 'j'" in model.report()
    assert getattr(model.joint("j"), name) == (0.0,)
    with pytest.raises(ModelError, match=f"negative {name}"):
        lw.load(text, strict=True)
