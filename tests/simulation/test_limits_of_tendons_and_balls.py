"""Limits of spatial tendons and of ball joints, and dry friction of tendons, act in steps of all kinds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_joint_limits_act import WAYS

import linkwork as lw
from file_checks import compiled_here, value
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.contact.joint_rows import limited, with_friction
from linkwork.constraints import BodyKinematics
from linkwork.errors import ModelError
from linkwork.joints import Free, Revolute, Spherical
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.spatial import rotation

BODY = {"mass": 1.0, "center": (0.1, 0.0, 0.3), "inertia": (0.02, 0.03, 0.04)}
FILE = """<mujoco><option gravity="0 0 0"/><worldbody><site name="s0" pos="1 2 3"/>
  <body name="a" pos="0 0 1"><joint name="j1" axis="0 1 0.2"/><geom size=".1" pos=".1 0 0"/>
    <site name="s1" pos=".3 0 .1"/>
    <body name="b" pos=".5 0 0"><joint name="j2" axis="0 0 1" pos="0 .1 0"/>
      <joint name="ball" type="ball" {ball}/><geom type="capsule" fromto="0 0 0 .4 0 0" size=".04"/>
      <site name="s2" pos=".2 .1 0"/></body></body></worldbody>
  <tendon><spatial name="t" {tendon}><site site="s0"/><site site="s1"/><pulley divisor="2"/>
    <site site="s1"/><site site="s2"/></spatial></tendon></mujoco>"""
FILES = {
    "tendon, upper": FILE.format(ball="", tendon='range="0 1"'),
    "tendon, lower": FILE.format(ball="", tendon='range="9 99"'),
    "tendon, friction": FILE.format(ball="", tendon='frictionloss="2.5"'),
    "ball": FILE.format(ball='range="0 0.001"', tendon='width="0.01"'),
}


def rows_of(model: lw.Model, q: Any) -> tuple[np.ndarray, list[Any]]:
    """Return the Jacobian of all limits and frictions, and limited values with their bounds."""
    nodes = hinge_tree(model, q, all_bodies=True)
    kinematics = BodyKinematics(nodes)
    limits = [(limit.at(kinematics), limit.bounds) for limit in limited(model)]
    rows = [each.rows for each, _ in limits] + [each.at(kinematics) for each in with_friction(model)]
    J = np.array(ConstraintRows.of(nodes, rows).jacobian(), dtype=float)
    return J, [(each.value, *bounds) for each, bounds in limits]


@pytest.mark.parametrize("label", FILES)
def test_rows_are_those_of_mujoco(label: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    with compiled_here():
        model = lw.load(FILES[label], strict=True)
    theirs = mujoco.MjModel.from_xml_string(FILES[label].replace("<option", '<option jacobian="dense"'))
    data = mujoco.MjData(theirs)
    states = lw.interop.mujoco.States(model, theirs)
    rng = np.random.default_rng(0)
    for _ in range(3):
        q, v = model.random_state(rng)[0], rng.normal(size=model.nv)
        if label == "ball":
            q[2:] = rng.normal(size=4)  # beyond its limit
        data.qpos[:] = states.q_to(q)
        data.qvel[:] = states.v_to(q, v)
        mujoco.mj_forward(theirs, data)
        assert data.nefc == 1
        J, values = rows_of(model, q)
        expected = states.tau_from(q, data.efc_J.reshape(1, -1)[0])
        sign = 1.0 if label in ("tendon, lower", "tendon, friction") else -1.0
        np.testing.assert_allclose(J[0], sign * expected, atol=1e-10)
        for x, low, high in values:
            gap = float(x - low if label == "tendon, lower" else high - x)
            assert abs(gap - data.efc_pos[0]) < 1e-10
        assert label != "tendon, friction" or with_friction(model)[0].force == data.efc_frictionloss[0]


@pytest.mark.parametrize("label", FILES)
def test_exports_keep_them(label: str) -> None:
    with compiled_here():
        model = lw.load(FILES[label])
        for text in (lw.export_urdf(model), lw.export_mjcf(model)):
            again = lw.load(text)
            assert again == model and again.tendons == model.tendons
        without = lw.export_mjcf(model).partition("<custom>")  # as MuJoCo sees it
        again = lw.load(without[0] + without[2].partition("</custom>")[2], strict=True)
    assert [x.range for x in again.tendons] == [x.range for x in model.tendons]
    assert [x.friction for x in again.tendons] == [x.friction for x in model.tendons]
    assert [x.max_angle for x in again.joints] == [x.max_angle for x in model.joints]


def roped(friction: float = 0.0, upper: float = 1.2) -> lw.Model:
    """A body that floats without gravity, on a rope from the world, and an arm on it."""
    builder = lw.ModelBuilder("roped", gravity=(0.0, 0.0, 0.0))
    builder.add_body("ball", **BODY).add_body("arm", **BODY)
    builder.add_joint("free", Free(), parent="world", child="ball")
    builder.add_joint("hinge", Revolute((0, 1, 0.3)), parent="ball", child="arm", xyz=(0.2, 0, 0))
    points = [("world", (0.1, 0.2, 0.3)), ("ball", (0.0, 0.3, 0.1)), ("arm", (0.1, 0.0, 0.3))]
    builder.add_tendon("rope", points, range=(0.1, upper), friction=friction)
    return builder.build()


def test_steps_are_complementary_and_momentum_is_that_of_the_rope() -> None:
    """v' = v + dt a + M⁻¹ Jᵀ λ with 0 >= λ ⊥ gap / dt - J v' >= 0 by dense algebra, with friction of the rope."""
    rng = np.random.default_rng(4)
    dt = 1e-3
    friction = 3.0
    for _ in range(4):
        q, v = roped().random_state(rng)
        q[:3] *= 0.4
        J, ((length, _, _),) = rows_of(roped(), q)
        v *= 4.0 * np.sign(J[0] @ v)
        for gap in (1e-4, 10.0):
            model = roped(friction=friction, upper=float(length) + gap)
            M = value(lw.mass_matrix, model, q)
            free = v + dt * np.linalg.solve(M, -value(lw.bias_force, model, q, v))
            end = lw.step(model, q, v, np.zeros(model.nv), dt)[1]
            impulse = M @ (end - free)
            size = float(impulse @ J[0] / (J[0] @ J[0]))  # the rows of both laws are the same
            np.testing.assert_allclose(impulse, size * J[0], atol=1e-9)
            rubbed = J[0] @ (free - np.linalg.solve(M, J[0]) * dt * friction)
            expected = min(rubbed, gap / dt)
            assert abs(J[0] @ end - expected) < 1e-7
            assert (rubbed > gap / dt) == (gap < 1.0)


def pendulum(**limits: Any) -> lw.Model:
    builder = lw.ModelBuilder("pendulum")
    builder.add_body("bob", mass=1.0, center=(0.0, 0.0, -0.5), inertia=(0.01, 0.01, 0.01))
    if "upper" in limits:
        builder.add_joint("ball", Spherical(), parent="world", child="bob", **limits)
    else:
        builder.add_joint("hinge", Revolute((0, 1, 0)), parent="world", child="bob")
        builder.add_tendon("rope", [("world", (1, 0, 0)), ("bob", (0, 0, -1))], **limits)
    return builder.build()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_step_keeps_them(way: str) -> None:
    run = WAYS[way]
    hinge = pendulum(range=(0.0, 1.5), damping=1.0)
    q, _ = run(hinge, np.zeros(1), np.array([3.0]), 1200)
    tip = np.array([-np.sin(q[0]), 0.0, -np.cos(q[0])])
    assert abs(np.linalg.norm(tip - [1.0, 0.0, 0.0])) <= 1.5 + 1e-5
    ball = pendulum(upper=0.4)
    q, _ = run(ball, ball.neutral(), np.array([2.0, 3.0, 0.0]), 200)
    assert np.linalg.norm(np.asarray(rotation.log(q), dtype=float)) <= 0.4 + 1e-5
    q, _ = run(ball, ball.neutral(), np.array([2.0, 3.0, 0.0]), 200, limits=False)
    assert np.linalg.norm(np.asarray(rotation.log(q), dtype=float)) > 0.45


def test_a_limited_rope_is_a_limited_slide() -> None:
    """A rope along a slide stops it as the slide's own limit does, by every integrator and in float32."""
    from linkwork.joints import Prismatic

    def weight(*, rope: bool) -> lw.Model:
        builder = lw.ModelBuilder("weight")
        builder.add_body("block", mass=2.0, inertia=(0.01, 0.01, 0.01))
        own = {} if rope else {"lower": -0.3, "friction": 4.0}
        builder.add_joint("slide", Prismatic((0, 0, 1)), parent="world", child="block", **own)
        if rope:
            builder.add_tendon("rope", [("world", (0, 0, 1)), "block"], range=(0.0, 1.3), friction=4.0)
        return builder.build()

    for integrator in ("semi_implicit_euler", "rk4"):
        for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
            paths = [
                lw.rollout(
                    weight(rope=rope), [[0.1], [0.2]], [[-1.0], [1.0]],
                    dt=1e-3, steps=400, integrator=integrator, dtype=dtype,
                )
                for rope in (False, True)
            ]  # fmt: skip
            np.testing.assert_allclose(paths[1].q, paths[0].q, atol=tolerance)
            assert (paths[1].status == lw.Status.OK).all() and paths[1].q.min() > -0.3 - 1e-6


@pytest.mark.parametrize("angle", [0.0, -1.0, np.nan])
def test_angles_that_are_not_positive_are_refused(angle: float) -> None:
    with pytest.raises(ModelError, match="upper"):
        pendulum(upper=angle)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_exported_rollouts_keep_them(tmp_path: Path) -> None:
    model = roped(friction=0.5)
    made = lw.export_c(lw.rollout, model, tmp_path)
    check = tmp_path / "check"
    subprocess.run(["gcc", "-std=c99", "-O1", made.source, made.test, "-o", check, "-lm"], check=True)
    told = subprocess.run([check], check=True, capture_output=True, text=True).stdout
    assert told == "8 passed, 0 failed\n"


@pytest.mark.parametrize("integrator, embed", [("semi_implicit_euler", True), ("rk4", False)])
def test_a_rope_stops_a_linkage(integrator: str, embed: bool) -> None:
    builder = lw.ModelBuilder("crank and rocker", gravity=(0.0, 0.0, 0.0))
    for name, parent, length, at in (
        ("a", "world", 0.3, 0.0),
        ("b", "a", 0.8, 0.3),
        ("c", "world", 0.7, 0.8),
    ):
        builder.add_body(name, mass=1.0, center=(length / 2, 0, 0), inertia=(0.01, 0.02, 0.02))
        builder.add_joint(name, Revolute((0, 0, 1)), parent=parent, child=name, xyz=(at, 0, 0))
    ends = {"xyz": (0.8, 0, 0), "successor_xyz": (0.7, 0, 0)}
    builder.add_loop("pin", Revolute((0, 0, 1)), predecessor="b", successor="c", embed=embed, **ends)
    anchor = np.array([0.4, -1.0, 0.0])
    own = {"range": (0.0, 1.46), "friction": 0.05 if integrator == "semi_implicit_euler" else 0.0}
    builder.add_tendon("rope", [("world", anchor), ("b", (0.4, 0.0, 0.0))], **own)
    model = builder.build(start={"a": 1.0, "b": 0.3, "c": 1.8})
    q = model.neutral()
    v = np.ones(1) if embed else model.random_state(0)[1]
    v = 3.0 * v / v[0]  # turns the crank
    options = {"dt": 1e-3, "steps": 700, "integrator": integrator}
    lengths = []
    for limits in (True, False):
        motion = lw.rollout(model, q, v, limits=limits, **options)
        assert (motion.status == lw.Status.OK).all()
        place = lw.frame_pose(model, motion.q, frame="b")
        lengths.append(np.linalg.norm(place[:, :3, 3] + 0.4 * place[:, :3, 0] - anchor, axis=-1).max())
    assert lengths[0] <= 1.46 + 1e-4 and lengths[1] > 1.47
