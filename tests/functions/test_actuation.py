"""Actuators and tendons of MJCF act as in MuJoCo: joint forces, activations, steps; what does not act is
reported by name.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.mechanism import Actuator
from linkwork.mechanism.actuator_laws import muscle_bias, muscle_gain, next_activation
from product_models import case

mujoco = pytest.importorskip("mujoco")

BODIES = """
<body name="trunk"><freejoint name="root"/><geom type="capsule" size="0.1 0.2"/>
  <body name="a" pos="0 0.2 0"><joint name="j1" axis="0 1 0" damping="0.1" armature="0.01" stiffness="2" ref="20"/>
    <geom type="capsule" size="0.1 0.2" pos="0 0 -0.3"/>
    <body name="b" pos="0 0 -0.6"><joint name="j2" axis="0 1 0" ref="-30" {}/>
      <geom type="capsule" size="0.1 0.2" pos="0 0 -0.3"/><site name="s" pos="0.1 0 -0.1" euler="10 20 30"/>
    </body>
  </body>
</body>
<body name="c" pos="1 0 0"><joint name="ball" type="ball"/><geom type="capsule" size="0.1 0.2" pos="0 0 -0.3"/>
  <body name="d" pos="1 0 0"><joint name="j3" type="slide" axis="0 1 1"/><geom type="capsule" size="0.1 0.2"/></body>
</body>"""
OPTION = (
    '<option timestep="0.002">'
    '<flag contact="disable" limit="disable" frictionloss="disable" eulerdamp="disable"/></option>'
)
FILE = "<mujoco>" + OPTION + "<worldbody>{}</worldbody><tendon>{}</tendon><actuator>{}</actuator></mujoco>"
TENDON = '<fixed name="t"{}><joint joint="j1" coef="1"/><joint joint="j2" coef="-2"/><joint joint="j3" coef="0.5"/></fixed>'
LAWS = {
    "motor": '<motor name="m" joint="j1" gear="5" ctrlrange="-1 1"/>',
    "position": '<position name="m" joint="j2" kp="20" kv="1" forcerange="-3 3"/>',
    "velocity": '<velocity name="m" joint="j3" kv="2"/>',
    "damper": '<damper name="m" joint="j1" kv="1" ctrlrange="0 1"/>',
    "general": '<general name="m" joint="j2" gear="2" gaintype="affine" gainprm="3 0.5 -0.2" '
    'biastype="affine" biasprm="1 -1 -0.1"/>',
    "tendon": '<general name="m" tendon="t" gear="2" gainprm="3" biastype="affine" biasprm="0 -1 -0.1"/>',
    "site": '<motor name="m" site="s" gear="0.3 -1 1 0.1 0 0.2"/>',
    "ball": '<general name="m" joint="ball" gear="1 1 0.5" gainprm="2" biastype="affine" biasprm="0.1 -2 -0.1"/>',
    "ball in parent": '<general name="m" jointinparent="ball" gear="1 2 0.5" biastype="affine" biasprm="0.1 -2 -0.1"/>',
    "free": '<motor name="m" joint="root" gear="1 2 3 4 5 6"/>',
    "free in parent": '<motor name="m" jointinparent="root" gear="1 2 3 4 5 6"/>',
    "muscle": '<muscle name="m" joint="j1" range="0.8 1.1" lengthrange="-1 1"/>',
    "smooth muscle": '<muscle name="m" joint="j2" lengthrange="-2 1" tausmooth="0.3" force="40"/>',
    "integrator": '<intvelocity name="m" joint="j2" kp="5" actrange="-0.1 0.1"/>',
    "cylinder": '<cylinder name="m" joint="j1" timeconst="0.1" area="0.4" bias="1 2 3"/>',
    "filter": '<position name="m" joint="j3" kp="3" timeconst="0.05"/>',
}
EVERY = "".join(text.replace('"m"', f'"{name}"') for name, text in LAWS.items())


def both(text: str) -> tuple[lw.Model, Any, Any, Any]:
    """Return a model here and there, its data there, and the map of states."""
    model = lw.load(text)
    theirs = mujoco.MjModel.from_xml_string(text)
    return model, theirs, mujoco.MjData(theirs), lw.interop.mujoco.States(model, theirs)


def random_state(theirs: Any, data: Any, rng: np.random.Generator) -> None:
    data.qpos[:], data.qvel[:] = rng.normal(size=theirs.nq), rng.normal(size=theirs.nv)
    mujoco.mj_normalizeQuat(theirs, data.qpos)
    data.ctrl[:], data.act[:] = 2.0 * rng.normal(size=theirs.nu), rng.uniform(size=theirs.na)


def activations(theirs: Any, data: Any) -> np.ndarray:
    return np.array([data.act[at] if at >= 0 else 0.0 for at in theirs.actuator_actadr])


@pytest.mark.parametrize("law", [*LAWS, "all", "all within joint limits"])
def test_joint_forces(law: str) -> None:
    limit = 'actuatorfrcrange="-4 4"' if "within" in law else ""
    text = FILE.format(BODIES.format(limit), TENDON.format(""), EVERY if "all" in law else LAWS[law])
    model, theirs, data, states = both(text)
    assert "does not act" not in model.report()
    rng = np.random.default_rng(1)
    for _ in range(6):
        random_state(theirs, data, rng)
        mujoco.mj_forward(theirs, data)
        q = states.q_from(data.qpos)
        v = states.v_from(q, data.qvel)
        tau = lw.actuation(model, q, v, data.ctrl.copy(), activations(theirs, data))
        np.testing.assert_allclose(
            states.tau_to(q, tau), data.qfrc_actuator, rtol=0.0, atol=1e-12 * (1.0 + np.abs(tau).max())
        )


def test_steps_are_those_of_mujoco() -> None:
    """On a fixed base, since free joints move along screws here."""
    motors = "".join(text.replace('"m"', f'"{name}"') for name, text in LAWS.items() if "free" not in name)
    bodies = BODIES.format("").replace('<freejoint name="root"/>', "")
    model, theirs, data, states = both(FILE.format(bodies, TENDON.format(""), motors))
    rng = np.random.default_rng(2)
    random_state(theirs, data, rng)
    amplitude, mean = rng.uniform(-1.0, 1.0, size=(2, theirs.nu))

    def controls(q: Any, v: Any, t: float) -> np.ndarray:
        return amplitude * np.sin(9.0 * t) + mean

    q = states.q_from(data.qpos)
    v = states.v_from(q, data.qvel)
    start = activations(theirs, data)
    log = lw.simulate(model, q, v, 0.3, lw.Controls(controls, activations=start), dt=0.002)
    half = lw.simulate(model, q, v, 0.14, lw.Controls(controls, activations=start), dt=0.002)
    rest = lw.simulate(model, None, None, 0.16, lw.Controls(controls), dt=0.002, start=half.state(-1))
    for k in range(150):
        data.ctrl[:] = controls(None, None, k * 0.002)
        mujoco.mj_step(theirs, data)
    np.testing.assert_allclose(states.q_to(log.q[-1]), data.qpos, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(states.v_to(log.q[-1], log.v[-1]), data.qvel, rtol=0.0, atol=1e-9)
    assert np.array_equal(rest.q[-1], log.q[-1])


SLOW = (
    '<general name="a" joint="j1" dyntype="integrator" gainprm="2" actlimited="true" actrange="-.05 .04"/>'
    '<intvelocity name="b" joint="j2" kp="3" kv=".2" actrange="-2 2"/>'
    '<position name="c" joint="j1" kp="4" timeconst="0.05"/>'
    '<motor name="d" joint="j2"/>'
)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_activations_in_rollouts(integrator: str) -> None:
    """Of integrators and exact filters they are those of MuJoCo, at every stage of a step."""
    bodies = BODIES.format("").replace('<freejoint name="root"/>', "")
    model, theirs, data, states = both(FILE.format(bodies, TENDON.format(""), SLOW))
    rng = np.random.default_rng(5)
    random_state(theirs, data, rng)
    data.ctrl[:] = u = rng.normal(size=theirs.nu)
    data.act[:] = rng.uniform(-0.03, 0.03, size=theirs.na)
    start = activations(theirs, data)
    q = states.q_from(data.qpos)
    v = states.v_from(q, data.qvel)
    drive = lw.Controls(np.array([u, -u]), activations=start)
    path = lw.rollout(model, q, v, drive, dt=0.002, steps=100, integrator=integrator)
    at = drive.activations_at(model, 0.2)
    for _ in range(100):
        mujoco.mj_step(theirs, data)
    np.testing.assert_allclose(at[0], activations(theirs, data), rtol=0.0, atol=1e-13)
    if integrator == "semi_implicit_euler":
        np.testing.assert_allclose(states.q_to(path.q[0, -1]), data.qpos, rtol=0.0, atol=1e-11)
        log = lw.simulate(model, np.tile(q, (2, 1)), np.tile(v, (2, 1)), 0.2, drive, dt=0.002)
        np.testing.assert_allclose(np.asarray(log.q)[..., -1, :], path.q[:, -1], rtol=0.0, atol=1e-12)
        return
    half = lw.rollout(model, q, v, drive, dt=0.004, steps=50, integrator="rk4")
    np.testing.assert_allclose(half.q[:, -1], path.q[:, -1], rtol=0.0, atol=1e-7)  # with kinks at the ranges


def test_filters_in_rollouts_are_exact() -> None:
    """Where MuJoCo and `lw.simulate` take steps of Euler's, from which they differ by O(dt)."""
    motor = '<general name="m" joint="j1" dyntype="filter" dynprm="0.05" ctrlrange="-1 1"/>'
    model = lw.load(FILE.format(BODIES.format(""), "", motor))
    q, v = model.random_state(4)
    drive = lw.Controls([3.0], activations=[-0.5])
    np.testing.assert_allclose(drive.activations_at(model, 0.02), [1.0 - 1.5 * np.exp(-0.4)], rtol=1e-14)
    errors = []
    for dt in (1e-3, 5e-4):
        path = lw.rollout(model, q, v, drive, dt=dt, steps=round(0.02 / dt))
        log = lw.simulate(model, q, v, 0.02, drive, dt=dt)
        errors.append(np.abs(path.v[-1] - log.v[-1]).max())
    assert 0.0 < errors[0] < 0.02 and 0.4 < errors[1] / errors[0] < 0.6
    assert drive.activations_at(model, 0.0) == [-0.5]


def test_muscles_in_rollouts_are_exact() -> None:
    """Their activations obey MuJoCo's differential equation on all its branches; Euler's steps differ by O(dt)."""
    motor = LAWS["muscle"].replace("/>", ' timeconst="0.03 0.07"/>')
    model = lw.load(FILE.format(BODIES.format(""), "", motor))
    times = np.array([0.03, 0.07, 0.0])[:, None]
    u, start = (x.ravel() for x in np.meshgrid([-0.2, 0.0, 0.4, 1.0], [-0.3, 0.0, 0.39, 0.8, 1.4]))
    drive = lw.Controls(u[:, None], activations=start[:, None])
    for t in (1e-3, 0.04, 0.3):
        h = 1e-6
        before, at, after = (drive.activations_at(model, x)[:, 0] for x in (t - h, t, t + h))
        rates = [mujoco.mju_muscleDynamics(*row, times) for row in zip(u, at)]
        size = 1e-6 * (1.0 + np.abs(rates))
        assert (np.abs((after - before) / (2.0 * h) - rates) < size).all()
    np.testing.assert_allclose(drive.activations_at(model, 0.0)[:, 0], start, atol=1e-15)
    q, v = model.random_state(4)
    errors = []
    for dt in (1e-3, 5e-4):
        some = lw.Controls([[0.9], [0.0]], activations=[[0.1], [0.9]])
        path = lw.rollout(model, q, v, some, dt=dt, steps=round(0.05 / dt))
        log = lw.simulate(model, np.tile(q, (2, 1)), np.tile(v, (2, 1)), 0.05, some, dt=dt)
        errors.append(np.abs(path.v[:, -1] - log.v[:, -1]).max(axis=-1))
    assert (errors[0] > 0.0).all() and (np.abs(errors[1] / errors[0] - 0.5) < 0.1).all()


def test_rollouts_and_simulations_agree() -> None:
    motors = LAWS["motor"] + LAWS["position"].replace('"m"', '"p"')
    model = lw.load(FILE.format(BODIES.format(""), "", motors))
    rng = np.random.default_rng(3)
    q, v = model.random_state(rng)
    u = rng.normal(size=(3, 2))
    path = lw.rollout(model, q, v, lw.Controls(u), dt=1e-3, steps=30)
    log = lw.simulate(model, q, v, 0.03, lw.Controls(u), dt=1e-3)
    assert path.q.shape == (3, 31, model.nq) and np.array_equal(
        path.q[:, -1], np.asarray(log.q)[..., -1, :].reshape(3, -1)
    )
    one = lw.rollout(model, q, v, lw.Controls(u[1]), dt=1e-3, steps=30)
    assert np.array_equal(one.q, path.q[1])
    policy = lw.rollout(
        model,
        q,
        v,
        policy=lambda q, v, t, given: lw.actuation(model, q, v, given["u"]),
        inputs={"u": u},
        dt=1e-3,
        steps=30,
    )
    assert np.array_equal(policy.q, path.q)
    some = lw.actuation(model, q, v, u[0, :1], actuators="p")
    assert np.array_equal(some, lw.actuation(model, q, v, [0.0, u[0, 0]]))


UNREAD = {
    "adhesion": ('<adhesion name="m" body="b" ctrlrange="0 1"/>', "a transmission by 'body'"),
    "dcmotor": (
        '<dcmotor name="m" joint="j1" motorconst="0.1" resistance="1" inductance="0.1"/>',
        "gain of type 'dcmotor'",
    ),
    "pid": ('<pid name="m" joint="j1" kp="3" ki="1"/>', "of type 'pid'"),
    "orientation": ('<orientation name="m" joint="ball" kp="3"/>', "of type 'so3'"),
    "actearly": ('<general name="m" joint="j1" dyntype="integrator" actearly="true"/>', "actearly"),
    "user": ('<general name="m" joint="j1" gaintype="user"/>', "gain of type 'user'"),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_what_does_not_act_is_reported(kind: str) -> None:
    text, told = UNREAD[kind]
    spatial = '<spatial name="sp"><site site="s"/><geom geom="g"/><site site="s2"/></spatial>'
    around = '<geom name="g" type="sphere" size="0.01"/><site name="s2"/><site name="s"'
    bodies = BODIES.format("").replace('<site name="s"', around)
    model = lw.load(FILE.format(bodies, spatial, text + LAWS["motor"].replace('"m"', '"good" ')))
    (line,) = [line for line in model.report().splitlines() if "actuator 'm'" in line]
    assert told in line and "the actuator is ignored" in line
    q = model.neutral()
    v = np.zeros(model.nv)
    with pytest.raises(ModelError, match=f"has actuators whose forces are not computed: 'm': .*{told}"):
        lw.actuation(model, q, v, np.zeros(2))
    tau = lw.actuation(model, q, v, [0.5], actuators=["good"])  # its gear and range are its own
    assert tau[model.v_names.index("j1")] == 2.5
    assert lw.actuation(model, q, v, [7.0], actuators=["good"])[model.v_names.index("j1")] == 5.0
    with pytest.raises(ModelError, match="the actuator is ignored"):
        lw.load(FILE.format(bodies, spatial, text), strict=True)


@pytest.mark.parametrize("switch", ['<flag actuation="disable"/>', "group"])
def test_actuators_that_are_switched_off(switch: str) -> None:
    motor = LAWS["motor"].replace("/>", ' group="2"/>')
    text = FILE.format(BODIES.format(""), "", motor)
    option = '<option actuatorgroupdisable="2"/>' if switch == "group" else f"<option>{switch}</option>"
    model = lw.load(text.replace("</option>", "</option>" + option))
    assert not lw.actuation(model, model.neutral(), np.zeros(model.nv), [1.0]).any()
    assert not model.actuators[0].enabled and not lw.load(lw.export_urdf(model)).actuators[0].enabled
    with pytest.raises(ModelError, match="'m': disabled"):
        lw.export_mjcf(model)


def test_errors() -> None:
    model = lw.load(
        FILE.format(BODIES.format(""), "", LAWS["motor"] + LAWS["smooth muscle"].replace('"m"', '"slow"'))
    )
    q = model.neutral()
    v = np.zeros(model.nv)
    with pytest.raises(ModelError, match=r"activations= is missing: 'slow' .* has dynamics"):
        lw.actuation(model, q, v, np.zeros(2))
    with pytest.raises(
        ModelError, match="'slow' .* has dynamics with tausmooth, which lw.simulate integrates"
    ):
        lw.rollout(model, q, v, lw.Controls(np.zeros(2)), dt=1e-3, steps=1)
    with pytest.raises(
        ModelError, match="no actuator named 'slwo', did you mean 'slow'|no actuator named 'slwo'"
    ):
        lw.actuation(model, q, v, [0.0], actuators=["slwo"])
    with pytest.raises(ModelError, match="a function in lw.Controls is for lw.simulate"):
        lw.rollout(model, q, v, lw.Controls(lambda q, v, t: [0.0], ["m"]), dt=1e-3, steps=1)
    with pytest.raises(ModelError, match="activations= of lw.Controls is for actuators with dynamics"):
        lw.simulate(model, q, v, 0.01, lw.Controls([0.0], ["m"], activations=[0.0]))
    with pytest.raises(ModelError, match="activations= of lw.Controls is for actuators with dynamics"):
        lw.rollout(model, q, v, lw.Controls([0.0], ["m"], activations=[0.0]), dt=1e-3, steps=1)
    with pytest.raises(lw.ShapeError, match="controls: expected an array that broadcasts to"):
        lw.simulate(model, q, v, 0.01, lw.Controls(np.zeros(3)))
    with pytest.raises(lw.DtypeError, match="lw.Controls: controls: expected an array of real numbers"):
        lw.simulate(model, q, v, 0.01, lw.Controls(lambda q, v, t: None))
    with pytest.raises(ModelError, match="has no actuators"):
        lw.actuation(lw.robots.mini_cheetah(), lw.robots.mini_cheetah().neutral(), np.zeros(18), [])


@pytest.mark.parametrize("who", ["rollout", "simulate"])
def test_servos_that_nobody_commands_are_named_once(who: str) -> None:
    motors = LAWS["motor"] + LAWS["position"].replace('"m"', '"servo"')
    model = lw.load(FILE.format(BODIES.format(""), "", motors))
    q, v = model.neutral(), np.zeros(model.nv)

    def run(tau: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if who == "rollout":
                lw.rollout(model, q, v, tau, dt=1e-3, steps=1)
            else:
                lw.simulate(model, q, v, 1e-3, tau)
        return [str(each.message) for each in found if issubclass(each.category, lw.InactiveActuatorsWarning)]

    assert not run(np.zeros(model.nv)) and not run(lw.Controls(np.zeros(2)))
    (told,) = run(None)
    assert told.startswith(f"{who}: 'servo' of MuJoCo Model is a servo and exerts nothing here") and not run(
        None
    )


def test_actuators_through_loops_do_the_same_work() -> None:
    """τᵀ v = f · velocity of the actuator, and a fixed tendon's force is that of its joints."""
    model = lw.robots.tello()
    rng = np.random.default_rng(4)
    q, v = model.random_state(rng)
    dependent = [joint for joint in model.joints if joint.nv == 1]
    motor = Actuator("m", "tendon", "", tuple((joint.name, 0.3 + k) for k, joint in enumerate(dependent)))
    speeds = dict(zip(model.v_names_spanning, lw.spanning_velocity(model, q, v)))
    tau = lw.actuation(model, q, v, [1.7], actuators=[motor])
    assert tau @ v == pytest.approx(
        1.7 * sum(ratio * speeds[name] for name, ratio in motor.joints), rel=1e-10
    )


# tendons

ACTING = ' stiffness="30" springlength="0.2" damping="0.5" armature="0.3"'
MOTORS = '<motor name="g" tendon="t" gear="3" damping="0.2"/><motor name="h" joint="j1" gear="2" damping="0.3" armature="0.1"/>'


def worst_acceleration(model: lw.Model, theirs: Any, driven: bool = True) -> float:
    """Return the largest relative difference to MuJoCo's accelerations in random states."""
    data = mujoco.MjData(theirs)
    states = lw.interop.mujoco.States(model, theirs)
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(4):
        random_state(theirs, data, rng)
        q = states.q_from(data.qpos)
        v = states.v_from(q, data.qvel)
        tau = rng.normal(size=theirs.nv)
        np.testing.assert_allclose(states.q_to(q), data.qpos, rtol=0.0, atol=1e-14)
        data.qfrc_applied[:] = states.tau_to(q, tau)
        if not driven:
            data.ctrl[:] = 0.0
        mujoco.mj_forward(theirs, data)
        a = lw.forward_dynamics(
            model, q, v, tau + (lw.actuation(model, q, v, data.ctrl.copy()) if driven else 0.0)
        )
        worst = max(worst, float(np.abs(states.a_from(q, v, data.qacc) - a).max() / np.abs(a).max()))
    return worst


@pytest.mark.parametrize("loops", ["embed", "constrain"])
def test_fixed_tendons_act(loops: str) -> None:
    rotor = (
        '<fixed name="u" armature="0.3"><joint joint="j1" coef="1"/><joint joint="j2" coef="0.7"/></fixed>'
    )
    text = FILE.format(
        BODIES.format(""), TENDON.format(ACTING.replace(' armature="0.3"', "")) + rotor, MOTORS
    )
    model = lw.load(text)
    theirs = mujoco.MjModel.from_xml_string(text)
    assert model.nv == theirs.nv and model.nq == theirs.nq + 2 and "nothing unusual" in model.report()
    assert worst_acceleration(model, theirs) < 1e-11
    again = mujoco.MjModel.from_xml_string(lw.export_mjcf(model))
    assert worst_acceleration(model, again) < 1e-11
    rng = np.random.default_rng(6)
    q, v = model.random_state(rng)
    expected = lw.forward_dynamics(model, q, v, np.zeros(model.nv))
    if loops == "embed":
        for written in (lw.export_urdf(model), lw.export_mjcf(model)):
            found = lw.load(written)
            assert (found.v_names, found.actuators) == (model.v_names, model.actuators)
            assert np.array_equal(lw.forward_dynamics(found, q, v, np.zeros(model.nv)), expected)
        return
    apart = lw.load(text, loops="constrain")
    spanning = lw.spanning_acceleration(model, q, v, expected)
    found = lw.forward_dynamics(apart, q, lw.spanning_velocity(model, q, v), np.zeros(apart.nv))
    np.testing.assert_allclose(found, spanning, rtol=0.0, atol=1e-10 * np.abs(spanning).max())


def test_limits_of_tendons_are_those_of_its_joint() -> None:
    model = lw.load(
        FILE.format(BODIES.format(""), TENDON.format(' range="-0.5 1"'), "").replace(' limit="disable"', "")
    )
    zero = np.deg2rad(20.0 + 60.0)
    joint = model.joint("tendon t")
    assert (*joint.lower, *joint.upper) == pytest.approx((-0.5 - zero, 1.0 - zero))
    q, _ = model.random_state(7)
    ratios = {"j1": 1.0, "j2": -2.0, "j3": 0.5}
    length = sum(ratio * q[model.joint(name).q_start] for name, ratio in ratios.items())
    assert q[model.joint("tendon t").q_start] == pytest.approx(length)


def test_armature_of_a_tendon_over_branches_is_told() -> None:
    """MuJoCo's mass matrix has no entries for it: the one here is that of the rotor's energy."""
    text = FILE.format(BODIES.format(""), TENDON.format(' armature="0.3"'), "")
    model = lw.load(text)
    bare = lw.load(text.replace(' armature="0.3"', ""))
    assert "couples joints of different branches here, but not in MuJoCo: tendon 't'" in model.report()
    q, v = model.random_state(8)
    rate = lw.spanning_velocity(model, q, v)[-1]
    assert v @ lw.mass_matrix(model, q) @ v == pytest.approx(
        v @ lw.mass_matrix(bare, q[:-1]) @ v + 0.3 * rate**2
    )
    with pytest.raises(ModelError, match=r"tendon 't': armature couples .*allow_loss=\['armature'\]"):
        lw.export_mjcf(model)
    written = lw.export_mjcf(model, allow_loss=["armature"])
    assert not mujoco.MjModel.from_xml_string(written).tendon_armature.any()
    assert lw.load(written).joint("tendon t").armature == (0.3,)


@pytest.mark.parametrize(
    "words", [' stiffness="30" springlength="0.1 0.2"', ' damping="0 1"', ' stiffness="1 2 3"']
)
def test_what_tendons_cannot_do_is_reported(words: str) -> None:
    model = lw.load(FILE.format(BODIES.format(""), TENDON.format(words), ""))
    assert "not supported and ignored: tendon 't'" in model.report()


def test_flags_switch_tendons_off() -> None:
    text = FILE.format(BODIES.format(""), TENDON.format(ACTING + ' frictionloss="1" range="-1 1"'), "")
    off = text.replace("<flag ", '<flag spring="disable" damper="disable" ')
    joint = lw.load(off).joint("tendon t")
    assert not any((*joint.stiffness, *joint.damping, *joint.friction)) and joint.armature == (0.3,)
    assert joint.upper == (np.inf,)


def test_a_range_of_forces_that_is_not_symmetric_is_told() -> None:
    text = FILE.format(BODIES.format('actuatorfrcrange="-1 5"'), "", LAWS["motor"])
    assert "asymmetric force range" in lw.load(text).report()
    with pytest.raises(ModelError, match="asymmetric force range"):
        lw.load(text, strict=True)


THRUSTERS = """
<mujoco><worldbody><body name="upper">
  <joint name="shoulder" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/>
  <body name="lower" pos=".5 0 0">
    <joint name="elbow" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/>
    <site name="nozzle" pos=".5 0 0"/>
  </body>
</body></worldbody><actuator>
  <general name="thruster" site="nozzle" gear="0 0 1 0 0 0" gainprm="3"/>
  <general name="slow" site="nozzle" gear="0 0 1 0 0 0" gainprm="3" dyntype="filter" dynprm="0.01"/>
</actuator></mujoco>"""


@pytest.mark.parametrize("kind", ["constant", "sampled", "with dynamics"])
def test_actuators_act_on_parameters_of_a_simulation(kind: str) -> None:
    """A thruster whose place is an input, one for each row: forces and logs are those of other models."""
    model = lw.load(THRUSTERS)
    places = np.array([model.parameters()["frame_placement"]] * 3)
    nozzle = [frame.name for frame in model.frames].index("nozzle")
    places[:, nozzle, 0] = [0.5, 0.3, 0.1]
    controls = {
        "constant": lw.Controls([1.0], ["thruster"]),
        "sampled": lw.Controls(lambda q, v, t: np.ones(1), ["thruster"]),
        "with dynamics": lw.Controls([1.0], ["slow"], activations=[0.5]),
    }[kind]
    start = np.zeros(2)
    log = lw.simulate(model, start, start, 0.02, controls, parameters={"frame_placement": places})
    for row, place in enumerate(places):
        other = model.with_parameters({"frame_placement": place})
        alone = lw.simulate(other, start, start, 0.02, controls)
        for name in ("q", "v", "tau"):
            assert np.allclose(getattr(log, name)[row], getattr(alone, name), rtol=1e-10, atol=1e-12), name
    assert np.ptp(log.tau[:, -1, 0]) > 1.0


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk45"])
def test_forces_on_frames_of_loops_act_on_parameters_of_a_simulation(integrator: str) -> None:
    model = case("embedded loop").model
    q, v = model.random_state(2)
    places = model.parameters()["frame_placement"] + 0.1
    how = {"duration": 0.02, "dt": 1e-3, "integrator": integrator, "f_ext": {"tool": np.arange(6.0)}}
    log = lw.simulate(model, q, v, parameters={"frame_placement": places}, **how)
    other = lw.simulate(model.with_parameters({"frame_placement": places}), q, v, **how)
    nominal = lw.simulate(model, q, v, **how)
    assert np.allclose(log.v, other.v, rtol=1e-9, atol=1e-10) and np.abs(log.v - nominal.v).max() > 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_muscle_curves_are_those_of_mujoco(seed: int) -> None:
    """Over all pieces of the curves by length and velocity, and of the activation's rate by the control."""
    rng = np.random.default_rng(seed)
    low, slow = rng.uniform([0.3, 0.2], [0.9, 0.8])
    strength = (-1.0, 30.0)[seed % 2]
    # operating range, force, scale, shortest, longest, fastest, passive force, force where it is stretched
    curve = (low, low + rng.uniform(0.2, 0.8), strength, 200.0, slow, *rng.uniform([1.2, 0.5, 0.3, 1.1], 2.0))
    times = (*rng.uniform(0.01, 0.1, 2), (0.0, 0.0, 0.3, 0.7)[seed])
    first, acceleration = rng.uniform(-2.0, 0.5), rng.uniform(0.5, 2.0)
    muscle = Actuator(
        "m", "joint", "j", gain=("muscle", curve), bias=("muscle", curve), dynamics=("muscle", times),
        length_range=(first, first + rng.uniform(0.5, 2.0)), acceleration=acceleration,
    )  # fmt: skip
    ends = np.array(muscle.length_range)[:, None]
    prm = np.array(curve)[:, None]
    span = ends[1, 0] - ends[0, 0]
    for length in np.linspace(ends[0, 0] - 1.5 * span, ends[1, 0] + 1.5 * span, 61):
        bias = mujoco.mju_muscleBias(length, ends, acceleration, prm)
        assert muscle_bias(muscle, length) == pytest.approx(bias, rel=1e-12, abs=1e-12)
        for velocity in rng.uniform(-3.0, 3.0, 5) * span:
            gain = mujoco.mju_muscleGain(length, velocity, ends, acceleration, prm)
            assert muscle_gain(muscle, length, velocity) == pytest.approx(gain, rel=1e-12, abs=1e-12)
    dt = 1e-3
    for control, activation in rng.uniform(-0.3, 1.3, (100, 2)):
        rate = mujoco.mju_muscleDynamics(control, activation, np.array(times)[:, None])
        assert next_activation(muscle, control, activation, dt) == pytest.approx(
            activation + dt * rate, rel=1e-13
        )
