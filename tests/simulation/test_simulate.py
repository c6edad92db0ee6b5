"""Simulations: what steps are, controllers, forces from outside, sensors, events, logs, and going on with the
same bits.
"""

from __future__ import annotations

import csv
import io
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.cli.cli import main
from linkwork.joints import Free, Prismatic, Revolute
from linkwork.mechanism import Geometry
from linkwork.simulation import (
    IMU,
    Clock,
    ContactForce,
    Event,
    FramePose,
    FrameVelocity,
    JointPosition,
    JointTorque,
    JointVelocity,
)
from linkwork.simulation.rollout_arguments import IMPLICIT
from linkwork.spatial import Pose
from linkwork.visualization.log import as_log
from planar_bars import crank_states, four_bar
from waiting import wait_until


def pendulum(damping: float = 0.0) -> lw.Model:
    """A point of 2 kg on a rod of 0.5 m that swings about y, hanging down at zero."""
    builder = lw.ModelBuilder("pendulum")
    builder.add_body("rod", mass=2.0, center=(0.0, 0.0, -0.5), inertia=(1e-9, 1e-9, 1e-9))
    builder.add_joint("hinge", Revolute((0.0, 1.0, 0.0)), parent="world", child="rod", damping=damping)
    return builder.add_frame("tip", body="rod", xyz=(0.0, 0.0, -0.5)).build()


def brick() -> lw.Model:
    builder = lw.ModelBuilder("brick").add_body(
        "box", mass=3.0, center=(0.1, 0.0, 0.0), inertia=(0.1, 0.2, 0.3)
    )
    return builder.add_joint("free", Free(), parent="world", child="box").build()


def same(a: lw.Log, b: lw.Log, start: int = 0) -> None:
    """Log b has the bits of log a from a state on."""
    assert np.array_equal(a.t[start:], b.t)
    for word in ("q", "v", "a", "tau"):
        assert np.array_equal(getattr(a, word)[..., start:, :], getattr(b, word), equal_nan=True), word
    for name, x in a.sensors.items():
        assert np.array_equal(x[..., start:, :], b.sensors[name], equal_nan=True), name


# what a simulation is


@pytest.mark.parametrize("model", [pendulum(), brick(), four_bar(0.3, 1.0, 0.8, 1.0)], ids=lambda m: m.name)
@pytest.mark.parametrize(
    "integrator",
    [
        "semi_implicit_euler",
        "rk4",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("implicit_midpoint", "rk45", IMPLICIT)),
    ],
)
@pytest.mark.sweep(2)
def test_simulations_have_the_bits_of_rollouts(model: lw.Model, integrator: str) -> None:
    q, v = model.random_state(3)
    tau = np.full(model.nv, 0.3)
    log = lw.simulate(model, q, v, 0.02, tau, record_every=6, integrator=integrator)
    found = lw.rollout(model, q, v, tau, dt=1e-3, steps=20, record_every=1, integrator=integrator)
    assert (
        log.status == lw.Status.OK
        and log.steps == 20
        and np.allclose(log.t, [0.0, 0.006, 0.012, 0.018, 0.02])
    )
    assert np.array_equal(log.q, found.q[[0, 6, 12, 18, 20]]) and np.array_equal(
        log.v, found.v[[0, 6, 12, 18, 20]]
    )
    assert np.array_equal(log.a[1:], (found.v[[6, 12, 18, 20]] - found.v[[5, 11, 17, 19]]) / 1e-3)
    assert np.array_equal(log.tau[1:], np.tile(tau, (4, 1))) and not log.tau[0].any()


def test_a_controller_is_sampled_at_the_begin_of_each_step() -> None:
    model = pendulum()
    seen = []

    def controller(q: Any, v: Any, t: float) -> Any:
        seen.append((float(q[0]), float(v[0]), t))
        return -3.0 * q + np.sin(40.0 * t)

    log = lw.simulate(model, [0.4], [0.0], 0.05, controller, dt=0.01, integrator="rk4")
    assert seen == [(log.q[k, 0], log.v[k, 0], log.t[k]) for k in range(5)]
    q, v = np.array([0.4]), np.array([0.0])
    for k in range(5):
        step = lw.rollout(model, q, v, -3.0 * q + np.sin(0.4 * k), dt=0.01, steps=1, integrator="rk4")
        q = step.q[1]
        v = step.v[1]
    assert np.array_equal(log.q[-1], q) and np.array_equal(log.v[-1], v)


def test_pd_and_policies_are_those_of_rollouts() -> None:
    model = lw.robots.chain(2)
    q, v = model.random_state(0)
    pd = lw.PD(20.0, 2.0, np.ones(2), tau=[0.1, 0.2])
    how = {"dt": 0.002, "record_every": 5}
    log = lw.simulate(model, q, v, 0.02, pd, **how)
    found = lw.rollout(model, q, v, pd, steps=10, **how)
    assert np.array_equal(log.q, found.q)
    before = lw.rollout(model, q, v, pd, steps=4, dt=0.002)
    wanted = 20.0 * lw.difference(model, before.q[4], np.ones(2)) - 2.0 * before.v[4] + [0.1, 0.2]
    assert np.allclose(log.tau[1], wanted, rtol=1e-13)

    def policy(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return -inputs["gain"] * v + lw.sin(30.0 * t)

    given = {"policy": policy, "inputs": {"gain": np.array([0.1, 0.2])}}
    log = lw.simulate(model, q, v, 0.02, **given, **how)
    found = lw.rollout(model, q, v, steps=10, **given, **how)
    assert np.array_equal(log.q, found.q)


def test_a_batch_has_the_bits_of_its_rows() -> None:
    model = lw.robots.chain(2)
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, 3, 2))
    v = rng.normal(size=(2, 3, 2))
    mass = rng.uniform(1.0, 2.0, (2, 3, 2))
    how: dict[str, Any] = {"sensors": {"imu": IMU(model.bodies[1].name)}, "record_every": 4}
    many = lw.simulate(model, q, v, 0.02, lambda q, v, t: -0.5 * v, parameters={"mass": mass}, **how)
    assert (
        many.q.shape == (2, 3, 6, 2)
        and many.sensors["imu"].shape == (2, 3, 6, 6)
        and many.status.shape == (2, 3)
    )
    one = lw.simulate(
        model, q[1, 2], v[1, 2], 0.02, lambda q, v, t: -0.5 * v, parameters={"mass": mass[1, 2]}, **how
    )
    assert np.array_equal(many.q[1, 2], one.q) and np.array_equal(
        many.sensors["imu"][1, 2], one.sensors["imu"]
    )


# going on


class Integral:
    """A PI controller, whose memory is the integral of the error."""

    def __call__(self, q: Any, v: Any, t: float, sensors: Any, memory: Any) -> Any:
        error = 0.3 - q[..., -1:]
        return 4.0 * error + memory - 0.1 * sensors["spin"][..., 1:2] + np.sin(9.0 * t), memory + 0.01 * error


@pytest.mark.parametrize("every", [1, 7])
def test_simulations_resume_from_any_logged_state_with_the_same_bits(every: int, tmp_path: Path) -> None:
    model = pendulum(0.1)
    how: dict[str, Any] = {
        "controller": Integral(), "sensors": {"spin": IMU("tip"), "torque": JointTorque("hinge")}, "record_every": every,
        "f_ext": {"tip": lambda t: [0.0, 0.0, 0.0, np.cos(5.0 * t), 0.0, 0.0]}, "dt": 0.004, "integrator": "rk4",
    }  # fmt: skip
    whole = lw.simulate(model, [0.1], [2.0], 70 * 0.004, memory=np.zeros(1), **how)
    for log in (whole, lw.Log.load(whole.save(tmp_path / "log.npz"))):
        for k in (1, 5, len(whole) - 1):
            state = log.state(k)
            same(whole, lw.simulate(model, duration=0.28 - state.step * 0.004, start=state, **how), k)
    assert whole.state(3).memory != whole.state(4).memory


@pytest.mark.parametrize("case", ["tree", "adaptive", "loop", "loop in Python", "contact"])
def test_time_goes_on_where_dt_changes(case: str, tmp_path: Path) -> None:
    """As a simulation of its own does whose forces are told a later time; and with the same bits from there
    on.
    """
    loop = case.startswith("loop")
    contact = case == "contact"
    model = four_bar(0.3, 1.0, 0.8, 1.0) if loop else ball() if contact else pendulum()
    q, v = (
        (crank_states(np.array([1.0]))[0], [3.0])
        if loop
        else resting(0.02, 1.0)
        if contact
        else ([0.1], [2.0])
    )
    integrator = {"adaptive": "rk45", "loop in Python": "implicit_midpoint"}.get(case, "semi_implicit_euler")
    seen: list[float] = []

    def how(late: float) -> dict[str, Any]:
        def push(q: Any, v: Any, t: Any, inputs: Any) -> Any:
            return np.array([0.3 * lw.sin(20.0 * (t + late)), *np.zeros(model.nv - 1)])

        def watch(q: Any, v: Any, t: float) -> float:
            seen.append(t + late)
            return t + late

        found: dict[str, Any] = {"policy": push, "sensors": {"t": watch}, "integrator": integrator}
        return found | ({"contacts": lw.Contacts(friction=0.4)} if contact else {})

    first = lw.simulate(model, q, v, 0.02, dt=1e-3, record_every=5, **how(0.0))
    first = lw.Log.load(first.save(tmp_path / "log.npz"))
    for dt in (2e-3, 3e-4, 1e-3):
        seen.clear()
        start = first.state(2)
        assert start.t == 0.01
        whole = lw.simulate(model, start=start, duration=0.06, dt=dt, record_every=20, **how(0.0))
        assert np.allclose(whole.t, 0.01 + dt * (whole.step - 10), rtol=1e-14) and np.array_equal(
            whole.t, seen
        )
        assert np.array_equal(whole["t.0"], whole.t)
        alone = lw.simulate(model, start.q, start.v, 0.06, dt=dt, record_every=20, **how(0.01))
        assert np.allclose(whole.q, alone.q, rtol=0.0, atol=1e-9) and (whole.status == lw.Status.OK).all()
        assert not np.allclose(
            alone.q,
            lw.simulate(model, start.q, start.v, 0.06, dt=dt, record_every=20, **how(0.0)).q,
            atol=1e-7,
        )
        rest = whole.t[-1] - whole.t[1]
        later = lw.Log.load(whole.save(tmp_path / "log.npz")).state(1)
        same(whole, lw.simulate(model, start=later, duration=rest, dt=dt, record_every=20, **how(0.0)), 1)


@pytest.mark.slow
def test_simulations_resume_in_the_chart_of_each_row() -> None:
    """A crank that passes turning points of its independent joint: the coordinates that rows are in belong to
    the state.
    """
    rocker = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker", gravity=0.5)
    crank = rocker.with_independent("crank")
    how = {"dt": 2e-3, "integrator": "rk4", "record_every": 10}
    q = crank_states(np.array([1.0, -1.5]))
    v = lw.spanning_velocity(crank, q, np.array([[8.0], [-7.0]]))[:, [rocker.joint("rocker").v_start]]
    log = lw.simulate(rocker, q, v, 0.2, [0.1], **how)
    assert (log.status == lw.Status.OK).all() and len(
        np.unique(log.hidden["chart"].reshape(-1, 3), axis=0)
    ) > 1
    for k in (3, 7):
        same(
            log, lw.simulate(rocker, duration=0.2 - k * 0.02, start=log.state(k), controller=[0.1], **how), k
        )


@pytest.mark.slow
def test_a_mechanism_in_contact_says_that_its_coordinates_turn_back() -> None:
    rocker = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker", gravity=0.0)
    crank = rocker.with_independent("crank")
    q = crank_states(np.array([1.5, 2.0]))
    v = lw.spanning_velocity(crank, q, np.array([[3.0], [1e-3]]))[:, [rocker.joint("rocker").v_start]]
    for controller in (None, lambda q, v, t: 0.0 * v):
        log = lw.simulate(rocker, q, v, 3.0, controller, contacts=lw.Contacts(ground=None), record_every=100)
        assert (
            log.status.tolist() == [lw.Status.SINGULAR_COORDINATES, lw.Status.OK] and 0 < log.steps[0] < 3000
        )


@pytest.mark.slow
def test_policies_of_mechanisms_with_loops_are_asked_at_every_stage() -> None:
    """Adaptive steps and the midpoint rule ask at times within a step, of each row its own."""
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    q, v = model.random_state(3)

    def policy(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return lw.sin(80.0 * t) - 0.1 * v

    for integrator, order in (("rk45", 1e-6), ("rk4", 1e-6), ("implicit_midpoint", 1e-2)):
        coarse, fine = (
            lw.simulate(model, q, v, 0.05, policy=policy, dt=dt, integrator=integrator)
            for dt in (5e-3, 2.5e-4)
        )
        assert np.allclose(coarse.q[-1], fine.q[-1], rtol=0.0, atol=order), integrator


@pytest.mark.slow
@pytest.mark.parametrize("held", [False, True])
def test_constrained_loops_and_batches_of_none(held: bool) -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    model = model.with_loops(constrain=[model.loops[0].name]) if held else model
    q, v = model.random_state(1)
    log = lw.simulate(model, q, v, 0.02, lambda q, v, t: -0.1 * v)
    same(log, lw.simulate(model, start=log.state(8), duration=0.012, controller=lambda q, v, t: -0.1 * v), 8)
    none = lw.simulate(
        model, np.zeros((0, model.nq)), np.zeros((0, model.nv)), 0.01, sensors={"clock": Clock()}
    )
    assert (
        none.q.shape == (0, 1, model.nq)
        and none.status.shape == (0,)
        and none.sensors["clock"].shape == (0, 1, 1)
    )


# forces from outside


@pytest.mark.parametrize(
    "model", [brick(), pytest.param(four_bar(0.3, 1.0, 0.8, 1.0), marks=pytest.mark.slow)]
)
def test_forces_from_outside_are_those_of_forward_dynamics(model: lw.Model) -> None:
    rng = np.random.default_rng(5)
    q, v = model.random_state(2)
    f_ext = rng.normal(size=(len(model.bodies), 6))
    tau = rng.normal(size=model.nv)
    log = lw.simulate(model, q, v, 1e-3, tau, f_ext=f_ext)
    assert np.allclose(log.a[1], lw.forward_dynamics(model, q, v, tau, f_ext), rtol=1e-9, atol=1e-9)
    assert np.array_equal(log.tau[1], tau)  # the controller's only
    last = model.bodies[-1].name
    pose = lw.frame_pose(model, q, frame=last)
    wrench = rng.normal(size=6)
    by_name = lw.simulate(model, q, v, 1e-3, tau, f_ext={last: wrench})
    f_ext = np.zeros((len(model.bodies), 6))
    f_ext[-1] = np.concatenate([pose[:3, :3].T @ wrench[:3], pose[:3, :3].T @ wrench[3:]])
    assert np.allclose(by_name.a[1], lw.forward_dynamics(model, q, v, tau, f_ext), rtol=1e-9, atol=1e-9)


def test_a_force_that_is_a_function_of_time() -> None:
    """A brick without gravity that is pushed for a tenth of a second keeps the impulse."""
    model = brick().with_parameters({"gravity": np.zeros(3)})
    q = model.neutral()
    v = np.zeros(6)
    push = {"box": lambda t: [0.1, 0.0, 0.0, 1.0, 0.0, 6.0] if t < 0.0995 else np.zeros(6)}
    log = lw.simulate(model, q, v, 0.2, f_ext=push, record_every=50)
    assert np.allclose(lw.momentum(model, log.q[-2:], log.v[-2:])[:, 3:], [0.1, 0.0, 0.6], atol=1e-3)


# sensors


def test_an_accelerometer_feels_what_holds_it_and_nothing_when_it_falls() -> None:
    model = pendulum()
    still = lw.simulate(model, [0.0], [0.0], 0.003, sensors={"imu": IMU("tip")})
    assert np.allclose(still.sensors["imu"], [0, 0, 0, 0, 0, 9.81], atol=1e-12)
    turned = lw.simulate(model, [np.pi / 2], [0.0], 1e-5, dt=1e-5, sensors={"imu": IMU("tip")})
    assert np.allclose(
        turned.sensors["imu"][1], 0.0, atol=1e-3
    )  # a rod that is let go falls as freely as its mass
    spinning = pendulum().with_parameters({"gravity": np.zeros(3)})
    log = lw.simulate(spinning, [0.3], [4.0], 0.01, sensors={"imu": IMU("tip"), "vel": FrameVelocity("tip")})
    assert np.allclose(
        log.sensors["imu"], [0.0, 4.0, 0.0, 0.0, 0.0, 0.5 * 16.0], atol=1e-9
    )  # the rod pulls inwards
    assert np.allclose(log["vel.vx"], -0.5 * 4.0) and log.sensor_columns["imu"][-1] == "fz"
    tossed = lw.simulate(brick(), brick().neutral(), np.zeros(6), 0.01, sensors={"imu": IMU("box")})
    assert np.allclose(tossed.sensors["imu"][1:], 0.0, atol=1e-9)
    light = lw.simulate(
        pendulum(), [0.0], [0.0], 0.002, sensors={"imu": IMU("tip")}, parameters={"gravity": [0.0, 0.0, -1.6]}
    )
    assert np.allclose(light["imu.fz"], 1.6)


def test_other_sensors() -> None:
    model = lw.robots.slider_crank()
    q, v = model.random_state(0)
    dependent = next(j.name for j in model.joints if j.name not in model.v_names)
    independent = model.v_names[0]
    sensors: dict[str, Any] = {
        "clock": Clock(), "angle": JointPosition(dependent), "rate": JointVelocity(dependent),
        "torque": JointTorque(independent), "twice": lambda q, v, t: 2.0 * q, "pose": FramePose(model.bodies[-1].name),
    }  # fmt: skip
    log = lw.simulate(model, q, v, 0.01, [0.7], sensors=sensors)
    joint = model.joint(dependent)
    assert np.array_equal(log["clock.t"], log.t) and np.array_equal(log.sensors["twice"], 2.0 * log.q)
    assert np.array_equal(log.sensors["angle"], log.q[:, joint.q_slice])
    assert np.array_equal(log.sensors["rate"], lw.spanning_velocity(model, log.q, log.v)[:, joint.v_slice])
    assert np.array_equal(log[f"torque.{independent}"], [0.0] + [0.7] * 10)
    pose = lw.frame_pose(model, log.q, frame=model.bodies[-1].name)
    assert np.allclose(log.sensors["pose"][:, :3], pose[:, :3, 3])
    x, y, z, w = log.sensors["pose"][:, 3:].T
    assert np.allclose(2.0 * (x * y + w * z), pose[:, 1, 0]) and np.allclose(
        1.0 - 2.0 * (x * x + y * y), pose[:, 2, 2]
    )


# events


def falling() -> lw.Model:
    builder = lw.ModelBuilder("weight").add_body("weight", mass=1.0, inertia=(1.0, 1.0, 1.0))
    return builder.add_joint("z", Prismatic((0.0, 0.0, 1.0)), parent="world", child="weight").build()


def test_an_event_stops_where_its_condition_comes_true() -> None:
    model = falling()
    log = lw.simulate(
        model, [1.0], [0.0], 2.0, events={"floor": lambda q, v, t: q[..., 0] < 0.0}, record_every=100
    )
    assert log.status == lw.Status.STOPPED and len(log.events) == 1 and log.events[0].name == "floor"
    assert log.q[-1, 0] < 0.0 < log.q[-1, 0] - 1e-3 * log.v[-1, 0] and log.t[-1] == log.events[0].t
    assert (
        np.isclose(log.t[-1], np.sqrt(2.0 / 9.81), atol=2e-3)
        and log.steps == log.events[0].step == log.step[-1]
    )
    on = lw.simulate(
        model, start=log.state(), duration=0.01, events={"floor": lambda q, v, t: q[..., 0] < 0.0}
    )
    assert on.status == lw.Status.OK  # it is true already


def test_rows_stop_alone_and_events_may_only_be_noted() -> None:
    model = falling()
    events = {
        "floor": lambda q, v, t: q[..., 0] < 0.0,
        "fast": Event(lambda q, v, t: v[..., 0] < -1.0, stop=False),
    }
    log = lw.simulate(model, [[0.1], [5.0], [0.2]], [0.0], 0.5, events=events, record_every=100)
    assert log.status.tolist() == [32, 0, 32] and log.steps[1] == 500
    assert np.isnan(log.q[0, -1]).all() and np.isfinite(log.q[1]).all() and len(log.t) == 6
    noted = {(event.name, event.row): event for event in log.events}
    assert set(noted) == {("floor", 0), ("floor", 2), ("fast", 0), ("fast", 1), ("fast", 2)}
    assert noted["floor", 0].step < noted["floor", 2].step == log.steps[2] and noted["floor", 0].q[0] < 0.0


def test_times_and_indices_of_logs_and_conditions_of_events_are_checked() -> None:
    log = lw.simulate(falling(), [1.0], [0.0], 0.01)
    assert log.at(0.005) == 5 and log.state(np.int64(5)).step == 5
    for mistake in (lambda: log.at(np.nan), lambda: log.state(1.5), lambda: Event(3)):  # type: ignore[arg-type]
        with pytest.raises(lw.ModelError, match="expected"):
            mistake()


def test_a_row_that_leaves_the_finite_numbers_stops_alone() -> None:
    log = lw.simulate(pendulum(), [[0.1], [0.2]], [0.0], 0.01, [[0.0], [np.inf]], record_every=2)
    assert log.status.tolist() == [lw.Status.OK, lw.Status.NOT_FINITE] and log.steps.tolist() == [10, 0]
    assert np.isfinite(log.q[0]).all() and np.isnan(log.q[1, 1:]).all()


# contact


def ball() -> lw.Model:
    """A ball of 0.1 m radius and 2 kg."""
    builder = lw.ModelBuilder("ball").add_body("ball", mass=2.0, inertia=(0.008, 0.008, 0.008))
    builder.add_joint("free", Free(), parent="world", child="ball")
    return builder.add_geometry(Geometry("shell", shape="sphere", size=(0.1,), link="ball")).build()


def resting(height: float = 0.0, speed: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    q = ball().neutral()
    v = np.zeros(6)
    q[2], v[3] = 0.1 + height, speed
    return q, v


def sled() -> lw.Model:
    """A box on four points, more than its freedoms need: which impulses are found depends on where the solver
    begins.
    """
    builder = lw.ModelBuilder("sled").add_body(
        "box", mass=3.0, center=(0.03, 0.01, 0.1), inertia=(0.1, 0.2, 0.3)
    )
    builder.add_joint("free", Free(), parent="world", child="box")
    for k, (x, y) in enumerate(((0.2, 0.1), (-0.2, 0.1), (-0.2, -0.1), (0.2, -0.1))):
        builder.add_geometry(Geometry(f"p{k}", place=Pose.translation(np.array([x, y, -0.1])), link="box"))
    return builder.build()


@pytest.mark.parametrize("model", [ball(), sled()], ids=lambda m: m.name)
def test_simulations_with_contact_have_the_bits_of_rollouts_and_resume(
    model: lw.Model, tmp_path: Path
) -> None:
    contacts = lw.Contacts(friction=0.4)
    how: dict[str, Any] = {
        "contacts": contacts,
        "dt": 2e-3,
        "record_every": 5,
        "sensors": {"felt": ContactForce(model.bodies[0].name)},
    }
    log = lw.simulate(model, *resting(0.02, 1.0), 0.2, **how)
    found = lw.rollout(model, *resting(0.02, 1.0), dt=2e-3, steps=100, record_every=5, contacts=contacts)
    assert (
        np.array_equal(log.q, found.q)
        and np.array_equal(log.v, found.v)
        and np.abs(log.forces[-1]).max() > 1.0
    )
    assert log.contacts == tuple(shape.name for shape in model.geometries)
    log.save(tmp_path / "log.npz")
    for k in (0, 9, 15):
        again = lw.simulate(
            model, start=lw.Log.load(tmp_path / "log.npz").state(k), duration=0.2 - 0.01 * k, **how
        )
        same(log, again, k)
        assert np.array_equal(again.forces, log.forces[k:]) and np.array_equal(again.points, log.points[k:])
    played = as_log(model, log)
    assert np.array_equal(played.forces, log.forces)
    with pytest.raises(
        lw.ModelError, match=r"start= is a state with \d+ impulses of contacts, and contacts= has 6"
    ):
        two = lw.Contacts(shapes=[Geometry(name, link=model.bodies[0].name) for name in "ab"])
        lw.simulate(model, start=log.state(3), duration=0.02, contacts=two, dt=2e-3)


def test_logged_contact_forces_are_what_changes_momentum() -> None:
    """Newton's and Euler's laws hold in every step with its force at its point; sliding friction is at the
    cone's edge.
    """
    model = ball()
    how: dict[str, Any] = {
        "contacts": lw.Contacts(friction=0.3),
        "dt": 1e-3,
        "sensors": {"felt": ContactForce("ball")},
    }
    log = lw.simulate(model, *resting(0.0, 2.0), 0.1, lambda q, v, t: np.zeros(6), **how)
    force = log.forces[1:, 0]
    momentum = lw.momentum(model, log.q, log.v)
    assert np.allclose(
        np.diff(momentum[:, 3:], axis=0) / 1e-3, force + np.array([0.0, 0.0, -19.62]), rtol=0.0, atol=1e-8
    )
    moment = np.cross(log.points[1:, 0] - log.q[:-1, :3], force)
    assert np.allclose(np.diff(momentum[:, :3], axis=0) / 1e-3, moment, rtol=0.0, atol=1e-6)
    assert np.allclose(log["felt.x"][2:], -0.3 * log["felt.z"][2:]) and (log["felt.z"][2:] > 19.0).all()
    assert np.array_equal(log.sensors["felt"], log.forces[:, 0]) and not log.forces[0].any()


def test_friction_of_each_row() -> None:
    model, (q, v) = ball(), resting(0.0, 2.0)
    parameters = {"contact_friction": [[0.1], [0.3]], "gravity": [0.0, 0.0, -5.0]}
    how: dict[str, Any] = {"contacts": lw.Contacts(), "dt": 1e-3, "parameters": parameters}
    log = lw.simulate(model, q, v, 0.02, **how)
    assert np.allclose(log["contact.shell.x"][:, 2:], -log["contact.shell.z"][:, 2:] * [[0.1], [0.3]])
    assert np.array_equal(log.q, lw.rollout(model, q, v, steps=20, **how).q)


def test_an_accelerometer_on_the_ground_and_rows_in_contact() -> None:
    model = ball()
    q, v = (np.stack(x) for x in zip(resting(), resting(1.0)))
    log = lw.simulate(
        model, q, v, 0.05, contacts=lw.Contacts(), record_every=50, sensors={"imu": IMU("ball")}
    )
    assert np.allclose(log["imu.fz"][:, -1], [9.81, 0.0], atol=1e-6) and log.forces.shape == (2, 2, 1, 3)
    with pytest.raises(lw.ModelError, match="expected .semi_implicit_euler."):
        lw.simulate(model, q, v, 0.05, contacts=lw.Contacts(), integrator="rk4")


# logs


def some_log() -> lw.Log:
    model = lw.robots.chain(2)
    return lw.simulate(
        model,
        [0.1, 0.2],
        [0.0, 1.0],
        0.01,
        [0.5, 0.0],
        record_every=5,
        sensors={"imu": IMU(model.bodies[1].name)},
    )


def test_columns_have_names() -> None:
    log, (first, second) = some_log(), lw.robots.chain(2).v_names
    assert log.columns[:3] == ("t", f"q.{first}", f"q.{second}") and log.columns[-1] == "imu.fz"
    assert np.array_equal(log[f"tau.{first}"], log.tau[:, 0]) and len(log.columns) == 1 + 8 + 6
    with pytest.raises(lw.ModelError, match=f"did you mean 'q.{first}'"):
        log[f"q.{first}x"]


def test_csv_keeps_every_bit(tmp_path: Path) -> None:
    log = some_log()
    with open(log.to_csv(tmp_path / "log.csv"), newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert tuple(lines[0]) == log.columns and len(lines) == 4
    assert np.array_equal(np.array(lines[1:], dtype=float).T, np.array(list(log.to_dict().values())))


@pytest.mark.parametrize("first, later", [({}, {"sum": 1.0}), ({1: 0.0}, {1: 0.0}), ({"a": 0.0}, {})])
def test_memory_that_a_file_would_lose_is_refused(first: Any, later: Any, tmp_path: Path) -> None:
    def controller(q: Any, v: Any, t: Any, memory: Any) -> Any:
        return 0.0 * v, dict(later)

    log = lw.simulate(pendulum(), [0.1], [0.0], 0.003, controller, memory=first)
    with pytest.raises(lw.ModelError, match="Log.save: memory of the controller"):
        log.save(tmp_path / "log.npz")


def test_a_saved_log_is_the_same_and_is_played(tmp_path: Path) -> None:
    model = falling()
    log = lw.simulate(
        model,
        [[1.0], [2.0]],
        [0.0],
        1.0,
        [0.5],
        events={"floor": lambda q, v, t: q[..., 0] < 0.0},
        record_every=100,
    )
    again = lw.Log.load(log.save(tmp_path / "log.npz"))
    same(log, again)
    assert again.columns == log.columns and [e[:4] for e in again.events] == [e[:4] for e in log.events]
    for given in (log, tmp_path / "log.npz"):
        played = as_log(model, given, row=1)
        assert np.array_equal(played.q, log.q[1]) and np.array_equal(played.tau, log.tau[1])


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    good = some_log().save(tmp_path / "good.npz").read_bytes()
    with np.load(tmp_path / "good.npz") as file:
        arrays = dict(file)
    path = tmp_path / "bad.npz"
    for text in (b"PK nothing", b"", good[: len(good) // 2], good[:60] + bytes(40) + good[100:]):
        path.write_bytes(text)
        with pytest.raises(lw.ModelError, match="is not a log"):
            lw.Log.load(path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(lw.ModelError, match="is not a log"):
        lw.Log.load(tmp_path / "one.npy")
    for change in (
        {"q": None},
        {"v": arrays["v"][:-1]},
        {"t": arrays["q"]},
        {"sensor/imu": np.zeros(2)},
        {"names": np.zeros(1)},
    ):
        wrong = {word: x for word, x in {**arrays, **change}.items() if x is not None}
        np.savez(path, **wrong)  # type: ignore[arg-type]
        if "names" in change:  # what is not known is not read
            same(some_log(), lw.Log.load(path))
            continue
        with pytest.raises(lw.ModelError, match="is not a log of a simulation"):
            lw.Log.load(path)


def test_tables_and_plots(tmp_path: Path) -> None:
    log = some_log()
    pandas = pytest.importorskip("pandas")
    frame = log.to_pandas()
    assert tuple(frame.columns) == log.columns and np.array_equal(frame["imu.fz"], log["imu.fz"])
    batch = lw.simulate(falling(), [[1.0], [2.0]], [0.0], 0.01, record_every=5).to_pandas()
    assert list(batch["row"]) == [0, 0, 0, 1, 1, 1] and batch["q.z"][3] == 2.0
    pytest.importorskip("pyarrow")
    assert np.array_equal(pandas.read_parquet(log.to_parquet(tmp_path / "log.parquet"))["t"], log.t)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    name = lw.robots.chain(2).v_names[0]
    axes = log.plot(name, "imu.fz")
    assert [line.get_label() for line in axes.lines] == [
        *(f"{word}.{name}" for word in ("q", "v", "a", "tau")),
        "imu.fz",
    ]
    matplotlib.pyplot.close(axes.figure)


@pytest.mark.parametrize(
    "package, call", [("pandas", "to_pandas"), ("pyarrow", "to_parquet"), ("matplotlib", "plot")]
)
def test_a_missing_package_is_one_sentence(package: str, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = some_log()
    for word in (package, f"{package}.pyplot"):
        monkeypatch.setitem(sys.modules, word, None)
    with pytest.raises(lw.MissingPackageError, match=f"needs the package {package}.*linkwork\\[log\\]"):
        getattr(log, call)(*("never.parquet",) if call == "to_parquet" else ())


def test_progress_is_told_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINKWORK_PROGRESS", "1")
    monkeypatch.setattr("linkwork.compiler.runtime.progress.FIRST_MESSAGE_SECONDS", 0.01)
    for progress in (True, False):
        told = io.StringIO()
        monkeypatch.setattr(sys, "stderr", told)
        pause = (
            partial(wait_until, lambda told=told: "simulating" in told.getvalue())
            if progress
            else partial(time.sleep, 0.05)
        )
        lw.simulate(falling(), [0.1], [0.0], 0.002, lambda q, v, t: pause() or [0.0], progress=progress)  # noqa: B023
        assert ("linkwork: simulating weight: " in told.getvalue()) == progress


# errors


class Broken:
    """A sensor without readings."""

    def columns(self, model: lw.Model) -> tuple[str, ...]:
        return ("x",)

    def read(self, model: lw.Model, context: Any) -> Any:
        return None


@pytest.mark.parametrize(
    "change, words",
    [
        ({"duration": 0.0105}, "10.5 steps"),
        ({"duration": None}, "duration: expected a number"),
        ({"dt": 0.0}, "expected dt > 0"),
        ({"record_every": 0}, "record_every"),
        ({"integrator": "euler"}, "integrator: expected one of"),
        ({"rtol": 1e-6}, "rtol= is for integrator='rk45'"),
        ({"q": None}, "expected q and v, or start="),
        ({"q": [0.0, 0.0]}, "q: expected shape"),
        ({"controller": [0.0, 1.0]}, "tau: expected shape"),
        (
            {"controller": lambda q, v, t: [1.0, 2.0]},
            r"controller\(q, v, t\): expected a shape that broadcasts to",
        ),
        ({"controller": lambda q, v, t, memory: 0.0}, "returns .tau, memory."),
        ({"memory": 1.0}, "memory= is for a controller"),
        ({"inputs": {"a": 1.0}}, "inputs= requires policy="),
        ({"policy": lambda q, v, t, inputs: v, "controller": [0.0]}, "either controller= or policy="),
        ({"controller": lambda q, v, t: None}, "it holds NoneType"),
        ({"controller": lambda q, v, t: (0.0 * v, 1)}, "rows of different lengths"),
        ({"sensors": {"eye": lambda q, v, t: None}}, "sensor eye: .*it holds NoneType"),
        ({"sensors": {"eye": lambda q, v, t: np.zeros(1 if t < 0.005 else 2)}}, "expected 1 readings"),
        ({"q": None, "v": None, "start": (0.0, 0.0)}, "expected a state of a log"),
        ({"dt": 1e-320}, "are inf steps"),
        ({"f_ext": np.zeros((2, 6))}, "f_ext: expected a shape"),
        ({"f_ext": {"tpi": np.zeros(6)}}, "did you mean 'tip'"),
        ({"f_ext": {"tip": np.zeros(3)}}, "f_ext of tip: expected a shape"),
        ({"sensors": [Clock()]}, "sensors: expected a dict"),
        ({"sensors": {"imu": IMU("tpi")}}, "did you mean 'tip'"),
        ({"sensors": {"imu": IMU}}, "expected a sensor"),
        ({"sensors": {"q": JointVelocity("hinge")}}, "sensor q: the log has another column 'q.hinge'"),
        ({"sensors": {"eye": Broken()}}, r"sensor eye: expected readings of shape \(1, 1\), got \(\)"),
        ({"sensors": {"foot": ContactForce("tip")}}, "contacts= is missing"),
        ({"events": {"now": lambda q, v, t: 1.0}}, "returns bool"),
        ({"events": [1]}, "events: expected a dict"),
        ({"parameters": {"mas": 1.0}}, "did you mean 'mass'"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"q": [0.0], "v": [0.0], "duration": 0.01, **change}
    with pytest.raises((lw.LinkworkError, lw.ShapeError), match=words):
        lw.simulate(pendulum(), **given)


@pytest.mark.parametrize("controller", [None, lw.PD([1.0], [0.1], [0.0]), lambda q, v, t: -v])
def test_external_forces_that_are_not_finite_stop_a_row(controller: Any) -> None:
    forces = {"tip": lambda t: [0.0, np.nan if t > 0.005 else 0.0, 0.0, 0.0, 0.0, 0.0]}
    log = lw.simulate(pendulum(), [0.1], [0.0], 0.01, controller, f_ext=forces)
    assert log.status == lw.Status.NOT_FINITE and log.steps == 6


def test_a_force_in_a_joint_that_depends_on_others_cannot_be_measured() -> None:
    model = lw.robots.slider_crank()
    dependent = next(j.name for j in model.joints if j.name not in model.v_names)
    q, v = model.random_state(0)
    with pytest.raises(lw.ModelError, match="is not independent"):
        lw.simulate(model, q, v, 0.01, sensors={"torque": JointTorque(dependent)})
    with pytest.raises(lw.ModelError, match="either q and v, or start="):
        lw.simulate(model, q, v, 0.01, start=lw.simulate(model, q, v, 0.01).state())


def test_a_log_says_how_it_ended_and_what_to_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A light wrist with a strong damper, as files have it, moved with steps that are too long for it."""
    builder = lw.ModelBuilder("wrist").add_body(
        "hand", mass=0.1, center=(0.1, 0, 0), inertia=(1e-4, 1e-4, 1e-4)
    )
    model = builder.add_joint(
        "turn", lw.joints.Revolute((0, 1, 0)), parent="world", child="hand", damping=10.0
    ).build()
    log = lw.simulate(model, [0.5], [1.0], 0.2, dt=2e-3)
    assert (
        log.status == lw.Status.STIFF
        and "STIFF: unstable springs" in str(log)
        and "linearly_implicit_euler" in str(log)
    )
    fine = lw.simulate(
        model, np.full((3, 1), 0.5), np.ones((3, 1)), 0.2, dt=2e-3, integrator="linearly_implicit_euler"
    )
    assert str(fine) == "log of wrist: 3 rows of 101 states from 0 to 0.2 s; 3 OK"
    (tmp_path / "wrist.urdf").write_text(lw.export_urdf(model), encoding="utf-8")
    words = ["--duration", "0.2", "--dt", "2e-3", "--integrator", "semi_implicit_euler", "--speed", "turn=1"]
    assert main(["simulate", str(tmp_path / "wrist.urdf"), *words]) == 1
    assert "stiff: unstable springs" in capsys.readouterr().out


def test_a_controller_that_cannot_be_called_is_told_before_the_first_step() -> None:
    model = lw.robots.arm()
    for controller in (lambda q: q, lambda q, v, t, more: v, lambda q, v, *, sensors: v):
        with pytest.raises(
            lw.ModelError, match=r"a controller is called with \(q, v, t\), and with sensors= and memory="
        ):
            lw.simulate(model, model.neutral(), np.zeros(model.nv), 0.01, controller)
