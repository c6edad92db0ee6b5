"""Models with every feature, written as files and read again, are the same, or the feature that is refused is
named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import exported
import linkwork as lw
from linkages import CATALOGUE, floats, linkage
from linkwork.errors import ModelError
from linkwork.formats import description
from linkwork.formats.mjcf_equalities import polynomial
from linkwork.joints import Revolute, Universal
from linkwork.mechanism import Coupling, ImplicitConstraint
from linkwork.model import Model
from linkwork.spatial import Pose
from polar_joint import Polar

TABLE = exported.table()
REFUSED = {
    "geared across": "implicit constraint",
    "through a function": "implicit constraint",
    "tello": "implicit constraint",
}
REFUSED |= dict.fromkeys(
    ("flexible_arm", "flexible_slider_crank", "boom_satellite", "flexible_stewart"), "flexible body"
)


REFUSED_BY_MUJOCO = {
    "mini_cheetah": "body 'FR_hip_link': principal moment .* exceeds the sum",
    "jvrc1": "body 'left-elbow-yaw-rotor': principal moment .* exceeds the sum",
    "mit_humanoid_leg": "body 'knee_rotor': MuJoCo supports massless moving bodies only",
    "planar_leg_linkage": "body 'thigh': MuJoCo requires mass and principal moments",
    "tello": "is an implicit constraint, which MJCF does not support",
}


def check_round_trip(
    model: Model, name: str, write: Callable[[Model], str], refused: dict[str, str] = REFUSED
) -> None:
    """The model of what is written has no differences; or writing is refused for what is known to be refused."""
    if name in refused:
        with pytest.raises(ModelError, match=refused[name]):
            write(model)
        return
    again = lw.load(write(model))
    assert exported.differences(model, again) == []
    assert again.report().count("ignored") == 0


@pytest.mark.sweep(7)
@pytest.mark.parametrize("name", TABLE)
def test_every_feature_as_urdf(name: str) -> None:
    check_round_trip(TABLE[name](), name, lw.export_urdf)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("own joint", "one body")])
def test_every_linkage(name: str) -> None:
    """Also with some loops constrained, and with other independent joints."""
    model = linkage(name)
    if any(isinstance(c, ImplicitConstraint) for c in model.loops):
        return
    rng = np.random.default_rng(0)
    loops = [c.name for c in model.loops]
    check_round_trip(model, "", lw.export_urdf)
    check_round_trip(model.with_loops(constrain=loops[: len(loops) // 2 + 1]), "", lw.export_urdf)
    looped = [c for c in model.clusters if c.constraints]
    names = [name for c in looped for k in c.bodies for name in model.joints[k].v_names]
    for _ in range(20):
        try:
            other = model.with_independent(
                *map(str, rng.permutation(names)[: sum(len(c.independent) for c in looped)])
            )
        except ModelError:
            continue
        check_round_trip(other, "", lw.export_urdf)
        break


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", exported.robots())
def test_every_robot_as_urdf(name: str) -> None:
    check_round_trip(exported.robots()[name](), name, lw.export_urdf)


def as_mjcf(model: Model) -> str:
    """With what MuJoCo cannot have; linkwork's description has it."""
    text, losses = exported.as_mjcf(model)
    assert "implicit constraints" not in losses, "they are lost in both"
    return text


def across(model: Model) -> str:
    """Written as URDF, read, written as MJCF, read, and written as URDF."""
    return lw.export_urdf(lw.load(as_mjcf(lw.load(lw.export_urdf(model)))))


@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", [name for name in TABLE if name not in REFUSED])
@pytest.mark.parametrize("write", [as_mjcf, across])
def test_every_feature_as_mjcf(name: str, write: Callable[[Model], str]) -> None:
    check_round_trip(TABLE[name](), name, write)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", [name for name in exported.robots() if name not in REFUSED])
@pytest.mark.parametrize("write", [as_mjcf, across])
def test_every_robot_as_mjcf(name: str, write: Callable[[Model], str]) -> None:
    check_round_trip(exported.robots()[name](), name, write, REFUSED_BY_MUJOCO)


def test_a_changed_file_is_read_as_any_other() -> None:
    """What linkwork knew of it would be wrong; comments and white space change nothing."""
    pytest.importorskip("mujoco")
    model = exported.chain(Universal(), exported.PLACES["moved"]).build()
    text = lw.export_mjcf(model)
    assert exported.differences(model, lw.load(text.replace("  <", "<!-- heavier -->\n <"))) == []
    for changed in (
        text.replace('mass="0.7"', 'mass="0.8"'),
        text.replace("<option ", '<option timestep="0.001" '),
    ):
        assert changed != text
        again = lw.load(changed)
        assert again.v_names == ("j_x", "j_y", "k")
        assert "ignored: the file was modified after the export" in again.report()
    assert lw.load(text.replace('mass="0.7"', 'mass="0.8"')).mass == pytest.approx(model.mass + 0.1)
    held = lw.load(text, base="fixed")
    assert held.v_names == ("j_x", "j_y", "k") and "base='fixed' is given" in held.report()
    assert "description of linkwork" not in lw.load(exported.undescribed(text)).report()


def test_a_long_description_is_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "MAX_TEXT", 300)
    model = exported.arms().build()
    text = lw.export_mjcf(model)
    assert '<text name="linkwork 5"' in text and exported.differences(model, lw.load(text)) == []


def test_differences_are_found() -> None:
    """What the laws here stand on: each change of a model is a difference."""
    b = exported.arms(damping=0.1, lower=-1.0, max_effort=3.0)
    b.add_coupling("gear", {"j0": 1.0, "j1": -2.0}).add_keyframe("k", {"j0": 0.1}).add_frame("f", body="b0")
    model = (
        b.add_geometry("g", "box", (1, 1, 1), link="b0").add_actuator(exported.ACTUATORS["cylinder"]).build()
    )
    (first, *others), (shape,), (motor,) = model.joints, model.geometries, model.actuators
    words = {"upper": 9.0, "lower": -2.0, "max_effort": 4.0, "max_velocity": 9.0, "damping": 0.2, "rest": 0.1}
    changed = [replace(first, **{word: (value,)}) for word, value in words.items()]
    changed += [
        replace(first, name="other"),
        replace(first, base="b3"),
        replace(first, place=Pose.translation(np.array([0, 1e-9, 0]))),
    ]
    models = [replace(model, joints=(joint, *others)) for joint in changed]
    models += [
        model.with_parameters({name: value})
        for name, value in (("mass@b1", 2.000001), ("gravity", [0, 0, -9.8]))
    ]
    models += [
        model.with_independent("j0"),
        model.with_independent("j1"),
        model.with_loops(constrain=["gear"]),
    ]
    models += [
        model.spanning_tree(),
        replace(model, name="other"),
        replace(model, tolerance=1e-3),
        replace(model, keyframes={}),
    ]
    models += [
        replace(model, geometries=(replace(shape, **{word: value}),))
        for word, value in (("size", (1, 1, 2)), ("condim", 4))
    ]
    models += [
        replace(model, actuators=(replace(motor, gear=(2.0,)),)),
        replace(model, frames=model.frames[:-1]),
    ]
    same = [other for other in models if not exported.differences(model, other)]
    assert len(same) == 1 and same[0].v_names == model.v_names  # one of the choices is the model's own


# what is refused


def test_losses_are_named_and_needed() -> None:
    model = lw.robots.tello()
    with pytest.raises(
        ModelError, match=r"'left hip differential' is an implicit.*allow_loss=\['implicit constraints'\]"
    ):
        lw.export_urdf(model)
    again = lw.load(lw.export_urdf(model, allow_loss=["implicit constraints"]))
    assert again.nv > model.nv and again.nq == model.nq
    with pytest.raises(
        ModelError, match="allow_loss: expected some of implicit constraints, partition, got 'loops'"
    ):
        lw.export_urdf(model, allow_loss=["loops"])
    with pytest.raises(ModelError, match="allow_loss: no implicit constraints of this model would be lost"):
        lw.export_urdf(lw.robots.arm(), allow_loss="implicit constraints")
    own = exported.chain(Universal()).build().partitioned(splits={"j": [(0, 1)]})
    with pytest.raises(ModelError, match="joint 'j' has a partition that is not the default"):
        lw.export_urdf(own)
    assert not lw.load(lw.export_urdf(own, allow_loss="partition")).partition


def test_what_no_file_can_have_is_named() -> None:
    custom = exported.chain(Polar()).build()
    with pytest.raises(ModelError, match=r"joint 'j': custom joints \(Polar\) cannot be exported"):
        lw.export_urdf(custom)
    screw = replace(
        exported.chain(Universal()).build(), embedded=(Coupling("screw", ((0, 1, 1.0), (1, 0, 2.0)), 0.0),)
    )
    for write in (lw.export_urdf, lw.export_mjcf):
        with pytest.raises(
            ModelError, match="coupling 'screw': coordinates of joint 'j', which has several, cannot"
        ):
            write(screw)
    light = (
        exported.arms()
        .add_body("less", mass=-1.0, check=False)
        .add_joint("k", Revolute(), parent="world", child="less")
    )
    with pytest.raises(ModelError, match="body 'less': expected a finite non-negative mass, got -1 kg"):
        lw.export_urdf(light.build())
    b = exported.arms(1).add_body("nul\0 body", mass=1, inertia=(1, 1, 1))
    b.add_joint("k", Revolute(), parent="world", child="nul\0 body")
    with pytest.raises(
        ModelError, match="name: cannot be written: .nul.* has characters that XML does not allow"
    ):
        lw.export_urdf(b.build())
    with pytest.raises(ModelError, match="stiffness: cannot be written: expected a number of at most 1e"):
        lw.export_urdf(exported.chain(Revolute(), stiffness=1e31).build())


def test_what_linkwork_elements_say_is_checked() -> None:
    text = lw.export_urdf(exported.arms(1, lower=-1.0).build())
    for old, new, told in (
        (
            '<linkwork upper="inf"',
            '<linkwork uper="inf"',
            "unknown to this version of linkwork: uper",
        ),
        ('<linkwork upper="inf"', '<linkwork upper="1 2"', 'upper="1 2": expected one number, got 2'),
        (
            '<linkwork upper="inf"',
            '<linkwork upper="inf" lower="-2"',
            "lower contradicts <limit> in line",
        ),
        ('<linkwork upper="inf"', '<linkwork frame="yes"', "frame: expected true or false, got 'yes'"),
        (
            '<linkwork upper="inf"',
            '<linkwork frame="true"',
            "frame: expected a fixed joint whose child link has no children",
        ),
        ('gravity="0 0 -9.81"', 'gravity="0 0 inf"', "gravity=.*is not a finite"),
        (
            'gravity="0 0 -9.81"/>',
            'gravity="0 0 -9.81"><order constraint="x"/></linkwork>',
            "expected the name of a loop, coupling or constraint, got 'x'",
        ),
        (
            'gravity="0 0 -9.81"/>',
            'gravity="0 0 -9.81"><cable/></linkwork>',
            "unknown to this version of linkwork: <cable>",
        ),
    ):
        assert old in text, old
        with pytest.raises(ModelError, match=told):
            lw.load(text.replace(old, new))


def test_gravity_of_a_file_gives_way_to_a_callers() -> None:
    text = lw.export_urdf(exported.chain(Revolute()).build())
    assert lw.load(text).gravity == (0.3, -0.2, -9.0) and lw.load(text, gravity=(0, 0, -1)).gravity == (
        0.0,
        0.0,
        -1.0,
    )


def test_polynomials_of_several_joints() -> None:
    """Of fixed tendons, as MJCF couples them: y and x are sums of coordinates."""
    b = exported.arms()
    weights = ((1.0, 0.0), (0.5, 0.0), (0.0, 2.0), (0.0, -1.0))
    b.add_implicit_constraint(
        "cam", partial(polynomial, (0.1, 0.5, 0.2), weights), joints=["j1", "j0", "j2", "j3"]
    )
    model = b.build()
    assert exported.differences(model, lw.load(lw.export_urdf(model))) == []


# Pinocchio


PLAIN: dict[str, Any] = {
    name: make
    for name, make in exported.joints()
    if name.startswith(("revolute", "prismatic", "free")) and "spring" not in name and "armature" not in name
}


@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", [name for name in PLAIN if "all" not in name.split()])
def test_pinocchio_reads_the_same(name: str) -> None:
    """What it can express has the same mass matrix, bias and limits there."""
    pin = pytest.importorskip("pinocchio")
    model = PLAIN[name]().with_parameters({"gravity": [0.0, 0.0, -9.81]})
    peer = pin.buildModelFromXML(lw.export_urdf(model))
    states = lw.interop.pinocchio.States(model, peer)
    q = model.tree_random(np.random.default_rng(1))
    v = np.random.default_rng(2).normal(size=model.nv)
    there = states.q_to(q)
    data = peer.createData()
    M = pin.crba(peer, data, there)
    M = np.triu(M) + np.triu(M, 1).T
    own = floats(lw.mass_matrix, model, q)
    assert np.allclose(states.matrix_from(M), own, rtol=0, atol=1e-12)
    bias = states.tau_from(pin.nonLinearEffects(peer, data, there, states.v_to(v)))
    passive = np.concatenate([np.array(j.damping) for j in model.joints]) * v
    assert np.allclose(bias, floats(lw.bias_force, model, q, v) - passive, rtol=0, atol=1e-11)
