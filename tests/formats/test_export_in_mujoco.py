"""What MuJoCo simulates of a file that was exported for it is what is computed here: checked on the motion of
its bodies.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import exported
import linkwork as lw
from linkages import floats
from linkwork.errors import ModelError
from linkwork.joints import Free, Helical, Planar, Revolute, Spherical
from linkwork.mechanism import Keyframe
from linkwork.model import Model, ModelBuilder, PlacedJoint

mujoco = pytest.importorskip("mujoco")
TABLE = exported.table()
TREES = [name for name, _ in exported.joints()]
LOOPS = [name for name, _ in exported.loops()]
ATTACHED = [name for name, _ in exported.attached()]
LOST = ("loops", "armature", "damping", "friction", "actuators", "collision shapes")
HELD = "coupling with one term"  # a joint that cannot move, so that no loop of it can be embedded
ROBOTS = ["arm", "quadruped", "humanoid", "mit_humanoid", "stewart", "delta", "hexapod_leg", "four_bar"]


def written(model: Model, **states: tuple[np.ndarray, np.ndarray]) -> tuple[str, list[str]]:
    """The file of a model with these keyframes, and what had to be lost for it: only what is known to be
    refused.
    """
    keys = {name: Keyframe(q, v) for name, (q, v) in states.items()}
    text, losses = exported.as_mjcf(replace(model, keyframes=keys, kernels={}))
    assert set(losses) <= set(LOST)
    return text, losses


def compiled(text: str, *off: str) -> tuple[Any, Any]:
    """MuJoCo's model and data, without limits, contacts and friction, and what else is switched off."""
    peer = mujoco.MjModel.from_xml_string(text)
    for flag in ("CONTACT", "LIMIT", "FRICTIONLOSS", *off):
        peer.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}"))
    peer.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return peer, mujoco.MjData(peer)


def accelerations(peer: Any, data: Any, name: str, gravity: np.ndarray) -> np.ndarray:
    """The angular acceleration of a body, and the linear one of its origin, in its own axes."""
    found = np.zeros(6)
    body = data.body(name)
    mujoco.mj_objectAcceleration(peer, data, mujoco.mjtObj.mjOBJ_XBODY, body.id, found, 1)
    found[3:] += body.xmat.reshape(3, 3).T @ gravity  # it counts gravity as an acceleration upwards
    return found


def simulated(joint: PlacedJoint) -> PlacedJoint:
    """A joint without the damping and armature that MuJoCo cannot have as they are here."""
    turning = {Free: slice(3, 6), Planar: slice(0, 2)}.get(type(joint.kind), slice(0))
    one = isinstance(joint.kind, (Free, Spherical))
    odd = [len({*joint.damping[turning]}) > 1 or (one and len({*joint.damping}) > 1)]
    odd += [any(joint.armature[turning]) or (one and len({*joint.armature}) > 1)]
    return replace(
        joint, **{word: (0.0,) * joint.nv for word, lost in zip(("damping", "armature"), odd) if lost}
    )


def check_tree(model: Model) -> list[str]:
    """Bodies are where they are here, move and accelerate as here; what was lost for it."""
    tree = replace(model, embedded=(), constrained_loops=(), kernels={})
    rng = np.random.default_rng(3)
    q = tree.tree_random(rng)
    v = rng.normal(size=tree.nv)
    tau = rng.normal(size=tree.nv)
    units = {f"unit {k}": (q, unit) for k, unit in enumerate(np.eye(tree.nv))}
    text, losses = written(tree, state=(q, v), **units)
    peer, data = compiled(text, "EQUALITY")
    keys = {peer.key(k).name: k for k in range(peer.nkey)}
    E = np.array([peer.key_qvel[keys[name]] for name in units]).T.reshape(peer.nv, tree.nv)
    mujoco.mj_resetDataKeyframe(peer, data, keys["state"])
    data.qfrc_applied[:] = np.linalg.pinv(E.T) @ tau
    mujoco.mj_forward(peer, data)
    mujoco.mj_rnePostConstraint(peer, data)
    frames = [
        body.name for body in tree.bodies if mujoco.mj_name2id(peer, mujoco.mjtObj.mjOBJ_BODY, body.name) >= 0
    ]
    tree = (
        replace(tree, joints=tuple(simulated(joint) for joint in tree.joints), kernels={}) if losses else tree
    )
    a = floats(lw.forward_dynamics, tree, q, v, tau)
    speed = np.zeros(6)
    helical = any(isinstance(joint.kind, Helical) for joint in tree.joints)
    for name in frames:
        there = data.body(name)
        X = floats(lw.frame_pose, tree, q, frame=name)
        assert np.allclose(X[:3, 3], there.xpos, rtol=0, atol=1e-13 * (1 + np.abs(X).max())), name
        assert np.allclose(X[:3, :3], there.xmat.reshape(3, 3), rtol=0, atol=1e-13), name
        mujoco.mj_objectVelocity(peer, data, mujoco.mjtObj.mjOBJ_XBODY, there.id, speed, 1)
        V = floats(lw.frame_velocity, tree, q, v, frame=name)
        assert np.allclose(V, speed, rtol=0, atol=1e-12 * (1 + np.abs(V).max())), name
        if helical:
            continue
        A = floats(lw.frame_acceleration, tree, q, v, a, frame=name)
        A[3:] += np.cross(V[:3], V[3:])
        found = accelerations(peer, data, name, np.array(tree.gravity))
        assert np.allclose(A, found, rtol=0, atol=1e-11 * (1 + np.abs(A).max())), name
    if helical:  # a hinge and a slide, which an equality couples: their constant ratio projects the equations
        full = np.zeros((peer.nv, peer.nv))
        for k, unit in enumerate(np.eye(peer.nv)):
            mujoco.mj_mulM(peer, data, full[k], unit)
        rest = data.qfrc_bias - data.qfrc_passive - data.qfrc_applied
        left = E.T @ (full @ E @ a + rest)
        constant = not any(isinstance(joint.kind, (Free, Planar)) for joint in tree.joints)
        assert not constant or np.allclose(left, 0.0, rtol=0, atol=1e-11 * (1 + np.abs(a).max()))
    return losses


@pytest.mark.sweep(7)
@pytest.mark.parametrize(
    "name", [*TREES, "a link without mass", "odd names", "parameters", "base link", "keyframes"]
)
def test_trees_move_as_here(name: str) -> None:
    """All joints, at all places, with all passive elements: positions, velocities and accelerations of all
    bodies.
    """
    losses = check_tree(TABLE[name]())
    several = name.startswith(("free", "spherical", "planar"))
    assert not losses or (several and set(losses) <= {"armature", "damping", "friction"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["arm", "quadruped", "humanoid", "mit_humanoid", "stewart", "delta", "hexapod_leg", "four_bar"]
)
def test_robots_move_as_here(name: str) -> None:
    assert not check_tree(getattr(lw.robots, name)())


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", [name for name in LOOPS if name != HELD])
def test_loops_are_closed_as_here(name: str) -> None:
    """Equalities hold at closed states, and leave MuJoCo the same velocities."""
    model = TABLE[name]()
    if any("implicit" in type(c).__name__.lower() and "polynomial" not in name for c in model.loops):
        with pytest.raises(ModelError, match="is an implicit constraint"):
            lw.export_mjcf(model, allow_loss=["damping"] if name == "through a function" else [])
        return
    if model.constrained_loops:
        model = model.with_loops(embed=[c.name for c in model.constrained_loops])
    q, _ = model.random_state(2)
    units = {
        f"unit {k}": (q, floats(lw.spanning_velocity, model, q, unit))
        for k, unit in enumerate(np.eye(model.nv))
    }
    text, losses = written(model, state=(q, np.zeros(model.nv_spanning)), **units)
    if "loops" in losses:
        return
    peer, data = compiled(text)
    keys = {peer.key(k).name: k for k in range(peer.nkey)}
    mujoco.mj_resetDataKeyframe(peer, data, keys["state"])
    mujoco.mj_forward(peer, data)
    rows = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    J = data.efc_J.reshape(-1, peer.nv)[rows]
    exact = 1e-9 if model.tolerance is None else 1e-2
    assert rows.any() and np.abs(data.efc_pos[rows]).max() < exact
    assert np.linalg.matrix_rank(J, tol=1e-7 if model.tolerance is None else 1e-2) == peer.nv - model.nv
    for unit in units:
        assert np.abs(J @ peer.key_qvel[keys[unit]]).max() < exact


def test_a_joint_is_held_where_its_coupling_says() -> None:
    peer, data = compiled(lw.export_mjcf(TABLE[HELD]()))
    for q, missed in ((0.0, -0.3), (0.3, 0.0), (0.5, 0.2)):
        data.qpos[0] = q
        mujoco.mj_forward(peer, data)
        assert np.isclose(data.efc_pos[0], missed, atol=1e-15)


@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", ATTACHED)
def test_what_goes_along_compiles(name: str) -> None:
    model = TABLE[name]()
    text, losses = written(model)
    peer = mujoco.MjModel.from_xml_string(text)
    assert peer.nu == len(model.actuators) * ("actuators" not in losses)
    collision = [
        g
        for g in model.geometries
        if g.shape != "mesh" and not (g.shape in ("plane", "point") and g.body >= 0)
    ]
    assert peer.ngeom == len(collision)


def test_actuators_act_as_in_mujocos_own_words() -> None:
    """intvelocity and cylinder, read from MJCF, written and compiled again, have the same force and
    activation rate.
    """
    text = """<mujoco><worldbody><body><joint name="j" type="hinge"/><geom size="0.1" mass="1"/></body></worldbody><actuator>
      <intvelocity name="a" joint="j" kp="3" actrange="-1 1" gear="2"/>
      <cylinder name="b" joint="j" timeconst="2" area="3" bias="1 2 3"/>
      <position name="c" joint="j" kp="4" kv="0.5" ctrlrange="-1 1" forcerange="-2 3"/> <motor name="d" joint="j" gear="5"/>
      <damper name="e" joint="j" kv="3" ctrlrange="0 1"/> <velocity name="f" joint="j" kv="3"/></actuator></mujoco>"""
    one = mujoco.MjModel.from_xml_string(text)
    two = mujoco.MjModel.from_xml_string(lw.export_mjcf(lw.load(text)))
    found = []
    for peer in (one, two):
        data = mujoco.MjData(peer)
        data.qpos[0], data.qvel[0] = 0.3, -0.4
        data.ctrl[:], data.act[:] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.7, 0.8]
        mujoco.mj_forward(peer, data)
        found.append([*data.actuator_force, *data.act_dot, *data.qfrc_actuator])
    assert np.allclose(*found, rtol=1e-14)


def test_armature_of_a_free_joint() -> None:
    """At rest MuJoCo's acts as here; in motion it differs by a ω × v, so that it is refused."""
    b = ModelBuilder("free").add_body("a", mass=1, center=(0.1, 0.2, 0), inertia=(1, 1, 1))
    model = b.add_joint("j", Free(), parent="world", child="a", armature=0.5).build()
    with pytest.raises(ModelError, match="joint 'j': armature acts along axes that rotate"):
        lw.export_mjcf(model)
    text = lw.export_mjcf(model, allow_loss=["armature"])
    assert exported.differences(model, lw.load(text)) == []  # linkwork's own description has it
    text = exported.undescribed(text)
    assert "armature" not in text
    peer = mujoco.MjModel.from_xml_string(text.replace('type="free"', 'type="free" armature="0.5"'))
    states = lw.interop.mujoco.States(model, peer)
    data = mujoco.MjData(peer)
    for v, same in (
        (np.zeros(6), True),
        (np.array([0.0, 0, 0, 1, 2, 3]), True),
        (np.array([1.0, 2, 3, 0.3, 0.2, 0.1]), False),
    ):
        q = model.neutral()
        data.qpos[:], data.qvel[:] = states.q_to(q), states.v_to(q, v)
        mujoco.mj_forward(peer, data)
        a = states.a_from(q, v, data.qacc)
        ours = floats(lw.forward_dynamics, model, q, v, np.zeros(6))
        assert np.allclose(a, ours, rtol=0, atol=1e-12) is same
        M = floats(lw.mass_matrix, model, q)
        assert np.allclose(M @ (ours - a), [0, 0, 0, *0.5 * np.cross(v[:3], v[3:])], rtol=0, atol=1e-12)


def test_inertias_that_mujoco_refuses_are_refused_by_name() -> None:
    for inertia, told in (
        (
            (1, 2, 3.1),
            "body 'heavy': principal moment 3.1 kg m² exceeds the sum of the others, 1 and 2",
        ),
        ((0, 1, 1), "body 'heavy': MuJoCo requires mass and principal moments above 1e-15"),
        ((0, 0, 0), "body 'heavy': MuJoCo requires mass and principal moments"),
    ):
        b = ModelBuilder("one").add_body("heavy", mass=1, inertia=inertia, check=False)
        with pytest.raises(ModelError, match=re.escape(told)):
            lw.export_mjcf(b.add_joint("j", Revolute(), parent="world", child="heavy").build())


@pytest.mark.parametrize("turned", [False, True])
def test_flat_bodies_are_written_with_all_digits(turned: bool) -> None:
    """Their largest moment is the sum of the others, which rounding must not exceed."""
    rng = np.random.default_rng(1)
    for a, b in rng.uniform(0.01, 1.0, (20, 2)):
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0] if turned else np.eye(3)
        R = R * np.linalg.det(R)
        moment = R @ np.diag([a, b, a + b]) @ R.T
        model = ModelBuilder("one").add_body("flat", mass=1, inertia=0.5 * (moment + moment.T))
        text = lw.export_mjcf(model.add_joint("j", Revolute(), parent="world", child="flat").build())
        peer = mujoco.MjModel.from_xml_string(text)
        there = np.zeros(9)
        mujoco.mju_quat2Mat(there, peer.body_iquat[1])
        axes = there.reshape(3, 3)
        assert np.allclose(axes @ np.diag(peer.body_inertia[1]) @ axes.T, moment, rtol=0, atol=1e-15 * 8)


def test_equal_limits_hold_a_joint() -> None:
    """A joint between equal limits stays there, also in MuJoCo, which has no such limits."""
    builder = ModelBuilder("held")
    for k, limit in enumerate((0.3, None)):
        builder.add_body(f"link{k}", mass=1.0, center=(0.0, 0.0, -0.3), inertia=(0.1, 0.1, 0.1))
        parent = "world" if k == 0 else f"link{k - 1}"
        axis = Revolute((0.0, 1.0, 0.0))
        builder.add_joint(f"turn{k}", axis, parent=parent, child=f"link{k}", lower=limit, upper=limit)
    text = lw.export_mjcf(builder.build())
    peer = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(peer)
    data.qpos[:] = 0.3, 1.0
    mujoco.mj_step(peer, data, 500)
    assert abs(data.qpos[0] - 0.3) < 0.02 < abs(data.qpos[1] - 1.0)
    joint = lw.load(text).joint("turn0")
    assert joint.lower == joint.upper == (0.3,)
