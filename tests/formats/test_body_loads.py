"""Weights that files switch off or compensate, and spatial tendons, act as in the software of each format."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
from file_checks import compiled_here, dynamics_differ, value
from linkwork.errors import ModelError
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Spherical
from linkwork.mechanism import Wrap
from linkwork.sko.wrapping import around

ARM = """
<body name="a" pos="0 0 1" {a}><joint name="j1" axis="0 1 0.2"/><geom type="box" size=".1 .2 .3" pos=".1 0 0"/>
  <site name="s1" pos=".3 0 .1"/>
  <body name="c" pos=".1 .2 0" {c}><geom type="sphere" size=".1"/></body>
  <body name="b" pos=".5 0 0" {b}><joint name="j2" axis="0 0 1" pos="0 .1 0"/><joint name="j3" type="ball"/>
    <geom type="capsule" fromto="0 0 0 .4 0 0" size=".04"/><site name="s2" pos=".2 .1 0"/></body></body>"""
TENDON = """<tendon><spatial name="t" {words}><site site="s0"/><site site="s1"/><pulley divisor="2"/>
  <site site="s1"/><site site="s2"/></spatial></tendon>"""
ACTUATOR = '<actuator><{words} tendon="t"/></actuator>'


def mjcf(tendon: str = "", actuator: str = "", a: str = "", b: str = "", c: str = "") -> str:
    parts = TENDON.format(words=tendon) if tendon or actuator else ""
    parts += ACTUATOR.format(words=actuator) if actuator else ""
    bodies = ARM.format(a=a, b=b, c=c)
    return f'<mujoco><worldbody><site name="s0" pos="1 2 3"/>{bodies}</worldbody>{parts}</mujoco>'


WITHOUT = '<option><flag {}="disable"/></option>'
GRAVCOMP = mjcf('stiffness="10" damping="3"', b='gravcomp="1"').partition("<mujoco>")[1:]
FILES = {
    "gravcomp of one body": mjcf(b='gravcomp="1"'),
    "gravcomp of a body that is fixed to another": mjcf(a='gravcomp="0.3"', c='gravcomp="1.2"'),
    "gravcomp of some bodies, negative in others": mjcf(
        a='gravcomp="0.3"', b='gravcomp="-0.5"', c='gravcomp="0.3"'
    ),
    "gravcomp without springs": WITHOUT.format("spring").join(GRAVCOMP),
    "gravcomp without springs and dampers": (WITHOUT.format("spring") + WITHOUT.format("damper")).join(
        GRAVCOMP
    ),
    "spring": mjcf('stiffness="10" springlength="0.5"'),
    "spring that is slack": mjcf('stiffness="10" springlength="0 9"'),
    "spring that only pulls": mjcf('stiffness="10" springlength="0 1"'),
    "spring that only pushes": mjcf('stiffness="10" springlength="7 9"'),
    "spring at rest in the file": mjcf('stiffness="10"'),
    "damper": mjcf('damping="3"'),
    "motor": mjcf("width='0.01'", 'motor gear="3"'),
    "servo": mjcf("width='0.01'", 'position gear="3" kp="5" kv="1"'),
    "affine": mjcf(
        'damping="1"', 'general gaintype="affine" gainprm="1 2 3" biastype="affine" biasprm="1 2 3"'
    ),
    "muscle": mjcf("width='0.01'", 'muscle lengthrange="0.1 2"'),
    "DC motor": mjcf("width='0.01'", 'dcmotor motorconst="0.3" resistance="2" gear="3" ctrlrange="-1 1"'),
    "DC motor with saturation": mjcf(
        "width='0.01'", 'dcmotor motorconst="3" resistance="2" saturation="0.1"'
    ),
    "damped motor": mjcf("width='0.01'", 'general damping="0.7" gear="2"'),
}
SITES = """<mujoco><worldbody><site name="s0" pos="1 2 3" euler="10 20 30"/>
  <body name="a" pos="0 0 1"><freejoint/><geom type="box" size=".1 .2 .3" pos=".1 0 0"/>
    <site name="s1" pos=".3 0 .1" euler="40 50 60"/>
    <body name="b" pos=".5 0 0"><joint axis="0 0 1" pos="0 .1 0"/><joint type="ball"/><geom size=".4"/>
      <site name="s2" pos=".2 .1 0" euler="0 30 60"/></body>
    <body name="c" pos="0 .5 0"><joint axis="0 1 1" pos="0 .1 0"/><geom size=".2"/>
      <site name="s3" pos=".2 .1 0" euler="0 30 60"/></body></body></worldbody>
  <actuator><position site="{}" refsite="{}" gear="{}" kp="3" kv="2"/></actuator></mujoco>"""
FILES |= {
    f"{site} relative to {reference}": SITES.format(site, reference, gear)
    for site, reference, gear in (
        ("s2", "s1", "1 2 3 0 0 0"),
        ("s2", "s3", "0 0 0 1 2 3"),
        ("s1", "s2", "1 0 .5 1 2 3"),
        ("s2", "s0", "1 0 .5 1 2 3"),
        ("s0", "s2", "1 0 .5 1 2 3"),
    )
}
WRAPPED = """<mujoco><worldbody><site name="s0" pos="-.1 -.6 .9"/>
  <body name="a" pos="0 0 1"><joint name="j1" axis="0 1 0.2"/><geom type="box" size=".1 .2 .3" pos=".1 0 0"/>
    <geom name="w" type="{shape}" size=".12 .2" pos=".25 0 .05" euler="80 20 10"/><site name="side" pos="{side}"/>
    <site name="s1" pos=".0 -.3 .1"/>
    <body name="b" pos=".5 0 0"><joint name="j2" axis="0 0 1" pos="0 .1 0"/><joint name="j3" type="ball"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".04"/><site name="s2" pos=".2 .2 0"/></body></body></worldbody>
  <tendon><spatial name="t" stiffness="10" damping="2" springlength=".1"><site site="{start}"/>
    <geom geom="w" {words}/><site site="s2"/><pulley divisor="2"/><site site="s0"/><site site="s1"/></spatial></tendon>
  <actuator><position tendon="t" kp="3" gear="2"/></actuator></mujoco>"""
FILES |= {
    f"around a {shape}, {words} {side}": WRAPPED.format(shape=shape, side=side, words=words, start=start)
    for shape, side, words, start in (
        ("sphere", "0 0 9", "", "s1"),
        ("sphere", ".4 -.3 .3", 'sidesite="side"', "s0"),
        ("cylinder", "0 0 9", "", "s0"),
        ("cylinder", ".25 .3 .05", 'sidesite="side"', "s0"),
        ("cylinder", "-.9 .1 .3", 'sidesite="side"', "s1"),
    )
}


def agree_with_mujoco(text: str) -> lw.Model:
    mujoco = pytest.importorskip("mujoco")
    with compiled_here():
        model = lw.load(text, strict=True)
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(0)
    data.ctrl[:] = rng.normal(size=theirs.nu)
    data.act[:] = rng.uniform(0.1, 0.9, size=theirs.na)
    for _ in range(20 if "geom=" in text else 3):
        state = (*model.random_state(rng), rng.normal(size=model.nv))
        assert not dynamics_differ(model, theirs, data, state, text)
    return model


@pytest.mark.parametrize("label", FILES)
def test_mjcf_agrees_with_mujoco(label: str) -> None:
    agree_with_mujoco(FILES[label])


@pytest.mark.parametrize("label", FILES)
def test_exports_keep_loads(label: str) -> None:
    with compiled_here():
        model = lw.load(FILES[label])
        for text in (lw.export_urdf(model), lw.export_mjcf(model, allow_loss=_losses(model))):
            again = lw.load(text)
            assert again.tendons == model.tendons and again.actuators == model.actuators
            assert again.weight_compensations == model.weight_compensations


@pytest.mark.parametrize("label", [label for label in FILES if "fixed to another" not in label])
def test_mujoco_simulates_exported_loads_alike(label: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    with compiled_here():
        model = lw.load(FILES[label])
        text = lw.export_mjcf(model)
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    data.ctrl[:] = 0.3
    data.act[:] = 0.4
    rng = np.random.default_rng(1)
    state = (*model.random_state(rng), rng.normal(size=model.nv))
    assert not dynamics_differ(model, theirs, data, state, text)


def _losses(model: lw.Model) -> list[str]:
    return ["gravity_scale"] if any(each.mass is not None for each in model.weight_compensations) else []


@pytest.mark.parametrize("armature", ['<motor tendon="t" gear="2" armature="0.3"/>', '<motor tendon="t"/>'])
def test_armature_of_a_motor_on_a_fixed_tendon_couples_its_joints(armature: str) -> None:
    bodies = ARM.format(a="", b="", c="").replace('<joint name="j3" type="ball"/>', "")
    joints = '<joint joint="j1" coef="2"/><joint joint="j2" coef="-1.5"/>'
    tendon = f'<tendon><fixed name="t" armature="0.2">{joints}</fixed></tendon>'
    agree_with_mujoco(
        f"<mujoco><worldbody>{bodies}</worldbody>{tendon}<actuator>{armature}</actuator></mujoco>"
    )


def test_a_sidesite_inside_of_a_geom_is_named() -> None:
    pytest.importorskip("mujoco")
    text = WRAPPED.format(shape="sphere", side=".3 0 .05", start="s1", words='sidesite="side"')
    with compiled_here():
        report = lw.load(text).report()
        assert "sidesite inside of a geom is not supported and ignored: tendon 't'" in report
        assert (
            "a tendon with a sidesite inside of a geom has no counterpart: the actuator is ignored" in report
        )
        with pytest.raises(ModelError, match="sidesite inside"):
            lw.load(text, strict=True)


@pytest.mark.parametrize("side", [(), (0.0, 0.0, 1.0)])
@pytest.mark.parametrize("axis", [(), (0.1, 1.0, 0.0)])
def test_tendons_around_shapes_conserve_energy(axis: tuple[float, ...], side: tuple[float, ...]) -> None:
    """The force of a spring is the derivative of its energy by q, on and off the shape; also in float32."""
    builder = lw.ModelBuilder("hoist")
    builder.add_body("drum", mass=1.0, inertia=(0.1, 0.1, 0.1)).add_body("load", mass=1.0)
    builder.add_joint("turn", Revolute((1, 0.2, 0)), parent="world", child="drum")
    builder.add_joint("slide", Prismatic((0, 0.3, 1)), parent="world", child="load", xyz=(1, 0, 0))
    path = [("world", (-1, 0, 0.1)), Wrap("drum", 0.3, axis=axis, side=side), ("load", (0, 0.1, 0))]
    builder.add_tendon("rope", path, stiffness=90.0, rest=(0.0, 1.5))
    model = builder.build()
    v = np.array([1.0, 6.0])
    paths = [
        lw.rollout(model, np.zeros(2), v, np.zeros(2), dt=5e-4, steps=600, integrator="rk4", dtype=dtype)
        for dtype in ("float64", "float32")
    ]
    kinetic = lw.kinetic_energy(model, paths[0].q, paths[0].v)
    energy = kinetic + lw.potential_energy(model, paths[0].q)
    assert np.ptp(energy) < 1e-6 * np.ptp(kinetic)
    np.testing.assert_allclose(paths[1].q, paths[0].q, atol=1e-3)


@pytest.mark.parametrize(
    "wrap", [Wrap("trunk", 0.0), Wrap("trunk", 1.0, side=(0.5, 0, 0)), Wrap("trunk", 1.0, axis=(0, 0, 0))]
)
def test_shapes_that_make_no_sense_are_refused(wrap: Wrap) -> None:
    with pytest.raises(ModelError, match="Wrap on 'trunk'"):
        loaded_robot().add_tendon("bad", ["trunk", wrap, "hand"])
    with pytest.raises(ModelError, match="Wrap between two points"):
        loaded_robot().add_tendon("bad", ["trunk", "hand", Wrap("trunk", 0.1)])


INERTIAL = """<inertial><origin xyz="0.1 0 0.2"/><mass value="{}"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>"""


def urdf(masses: tuple[float, float], gazebo: str = "") -> str:
    a, b = (INERTIAL.format(mass) if mass else "" for mass in masses)
    return f"""<robot name="r"><link name="base"/><link name="a">{a}</link><link name="b">{b}</link>
      <joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/></joint>
      <joint name="k" type="continuous"><parent link="a"/><child link="b"/><origin xyz="0 0.3 1"/>
        <axis xyz="1 0 0"/></joint>{gazebo}</robot>"""


def sdf(masses: tuple[float, float], gravity: str = "") -> str:
    a, b = (
        f"<inertial><pose>0.1 0 0.2 0 0 0</pose><mass>{mass}</mass></inertial>" if mass else "<inertial/>"
        for mass in masses
    )
    return f"""<sdf version="1.9"><model name="m"><link name="a">{a}{gravity}</link>
      <link name="b"><pose>0 0.3 1 0 0 0</pose>{b}</link>
      <joint name="j" type="revolute"><parent>world</parent><child>a</child><axis><xyz>0 1 0</xyz></axis></joint>
      <joint name="k" type="revolute"><parent>a</parent><child>b</child><axis><xyz>1 0 0</xyz></axis></joint>
      </model></sdf>"""


@pytest.mark.parametrize("word", ["<gravity>false</gravity>", "<turnGravityOff>true</turnGravityOff>"])
def test_gazebo_exempts_links_of_urdf_from_gravity(word: str) -> None:
    """Forces against gravity are those of the other links alone; the mass matrix is that of all."""
    text = urdf((2.0, 3.0), f'<gazebo reference="a">{word}</gazebo>')
    model = lw.load(text, strict=True)
    q = np.array([0.3, -0.4])
    only_b = value(lw.gravity_force, lw.load(urdf((0.0, 3.0))), q)
    np.testing.assert_allclose(value(lw.gravity_force, model, q), only_b, atol=1e-13)
    M = value(lw.mass_matrix, lw.load(urdf((2.0, 3.0))), q)
    np.testing.assert_allclose(value(lw.mass_matrix, model, q), M, atol=1e-14)


def test_gravity_false_in_sdf() -> None:
    model = lw.load(sdf((2.0, 3.0), "<gravity>false</gravity>"), strict=True)
    both, a_alone = lw.load(sdf((2.0, 3.0))), lw.load(sdf((2.0, 1e-9)))
    q = np.array([0.3, -0.4])
    expected = value(lw.gravity_force, both, q) - value(lw.gravity_force, a_alone, q)
    np.testing.assert_allclose(value(lw.gravity_force, model, q), expected, atol=1e-7)


def test_gravity_of_what_is_no_link_is_named() -> None:
    text = urdf((2.0, 3.0), '<gazebo reference="k"><gravity>false</gravity></gazebo>')
    assert "<gravity> in <gazebo> is ignored: its reference is not a link" in lw.load(text).report()
    with pytest.raises(ModelError, match="not a link"):
        lw.load(text, strict=True)


def loaded_robot() -> lw.ModelBuilder:
    body = {"mass": 1.0, "center": (0.1, 0.0, 0.2), "inertia": (0.1, 0.1, 0.1)}
    builder = lw.ModelBuilder("loaded")
    builder.add_body("trunk", **body).add_body("plate", **body, gravity_scale=0.2)
    builder.add_body("arm", **body, gravity_scale=0.5).add_body("hand", **body)
    builder.add_joint("base", Free(), parent="world", child="trunk")
    builder.add_joint("fixed", Fixed(), parent="trunk", child="plate", xyz=(0.1, 0.2, 0.3))
    builder.add_joint("shoulder", Revolute((0, 1, 0)), parent="plate", child="arm", xyz=(0.3, 0, 0))
    builder.add_joint("wrist", Spherical(), parent="arm", child="hand", xyz=(0, 0, 0.4))
    builder.add_tendon("rope", ["trunk", ("hand", (0.1, 0.2, 0.0))], stiffness=30.0, rest=0.3)
    return builder


def test_energy_is_conserved_with_links_of_different_gravity_scale() -> None:
    model = loaded_robot().build()
    q, v = model.random_state(0)
    motion = lw.rollout(model, q, v, dt=1e-3, steps=300, integrator="rk4")
    energy = [
        lw.kinetic_energy(model, *x) + lw.potential_energy(model, x[0]) for x in zip(motion.q, motion.v)
    ]
    assert np.ptp(energy) < 1e-7 * max(np.abs(energy))


def test_what_scaled_links_in_one_body_exclude_is_refused() -> None:
    model = loaded_robot().build()
    q, v = model.random_state(0)
    with pytest.raises(ModelError, match="gravity_scale"):
        model.with_parameters({"mass@trunk": 2.0})
    with pytest.raises(ModelError, match="gravity_scale"):
        lw.inverse_dynamics_regressor(model, q, v, v)
    with pytest.raises(ModelError, match="gravity_scale"):
        lw.export_mjcf(model)
    assert lw.load(lw.export_urdf(model)).weight_compensations == model.weight_compensations


@pytest.mark.parametrize("links", [["arm"], ["plate"], ["hand", "palm"]])
def test_one_weight_has_one_compensation(links: list[str]) -> None:
    """Forces and energies once disagreed about the weight of a scaled link that was compensated again."""
    builder = loaded_robot().add_body("palm", mass=0.1)
    builder.add_joint("glue", Fixed(), parent="hand", child="palm")
    for link in links:
        builder.compensate_weight(link, fraction=0.4)
    with pytest.raises(ModelError, match=f"weight of link '{links[-1]}': expected one compensation for body"):
        builder.build()


@pytest.mark.parametrize(
    "words",
    [
        {"points": ["trunk"]},
        {"points": "trunk"},
        {"points": ["trunk", "hand"], "stiffness": -1.0},
        {"points": ["trunk", "hand"], "rest": (2.0, 1.0)},
        {"points": ["trunk", "hand"], "damping": np.nan},
        {"branches": [(0.0, ["trunk", "hand"])]},
        {"points": ["trunk", ("hand", (1.0, 2.0))]},
        {"points": ["trunk", "hnad"]},
    ],
)
def test_tendons_that_make_no_sense_are_refused(words: dict) -> None:
    with pytest.raises(ModelError, match="tendon 'bad'"):
        loaded_robot().add_tendon("bad", **words).build()


def hopper(*, tendon: bool) -> lw.Model:
    """Return a ball with a linkage on a vertical slide with a spring, as a tendon or in the joint."""
    builder = lw.ModelBuilder("hopper")
    builder.add_body("ball", mass=1.0, inertia=(0.01, 0.01, 0.01))
    builder.add_body("arm", mass=0.5, center=(0.2, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))
    spring = {} if tendon else {"stiffness": 40.0, "rest": 0.5}
    builder.add_joint("slide", Prismatic((0, 0, 1)), parent="world", child="ball", **spring)
    builder.add_joint("hinge", Revolute((0, 1, 0)), parent="ball", child="arm")
    builder.add_geometry("foot", "sphere", 0.1, link="ball")
    if tendon:
        builder.add_tendon("spring", [("world", (0, 0, 3)), "ball"], stiffness=40.0, rest=2.5)
    return builder.build()


def test_a_tendon_bounces_off_the_ground_like_a_spring_in_a_joint() -> None:
    paths = []
    for tendon in (False, True):
        contacts = lw.Contacts(friction=0.5)
        motion = lw.rollout(
            hopper(tendon=tendon), [0.4, 0.3], [-6.0, 1.0], dt=1e-3, steps=500, contacts=contacts
        )
        assert motion.status == lw.Status.OK
        paths.append(motion.q)
    assert paths[0][:, 0].min() < 0.11  # it touches the ground
    np.testing.assert_allclose(paths[1], paths[0], atol=1e-9)


@pytest.mark.parametrize("axis", [None, np.array([0.0, 0.0, 1.0])], ids=["sphere", "cylinder"])
def test_a_path_that_ends_where_it_begins_stays_there(axis: np.ndarray | None) -> None:
    """Rounding does not decide on which side of the shape the end lies, if the end is the sidesite."""
    for a in np.random.default_rng(0).normal(size=(200, 3)):
        outside = 2.0 * a / np.linalg.norm(a[:2])
        assert not around(outside, outside, axis, 1.0, outside).touches
