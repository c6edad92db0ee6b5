"""Rollouts as one kernel: the same bits however many steps a call takes, every way to drive them, and rows
that stop alone.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.passes import Arrangement, lower
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.passes.schedule import Scheduling
from linkwork.compiler.targets.cpu import Machine, compile_assembly, module_texts
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.conditioning import KINDS, loop_conditioning
from linkwork.simulation import one_kernel
from linkwork.simulation.control import force_control
from linkwork.simulation.failure import classify_stopped
from linkwork.simulation.stepping import Stepping
from linkwork.simulation.traced import rollout_program
from linkwork.spatial import Pose
from planar_bars import crank_states, four_bar

ARM = lw.robots.arm()


def bodies_on(*kinds: lw.joints.Joint) -> lw.Model:
    """A body on each of some joints, all on the world."""
    builder = lw.ModelBuilder("bodies")
    for k, kind in enumerate(kinds):
        builder.add_body(f"b{k}", mass=1.0, inertia=np.eye(3))
        builder.add_joint(f"j{k}", kind, parent="world", child=f"b{k}")
    return builder.build()


def states(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    found = [ARM.random_state(seed + k) for k in range(rows)]
    return np.array([q for q, _ in found]), np.array([v for _, v in found])


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_same_bits_as_stepping_in_python(integrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, v = states(3)
    tau = np.full(ARM.nv, 0.1)
    how: dict[str, Any] = {"dt": 0.002, "integrator": integrator}
    whole = lw.rollout(ARM, q, v, tau, steps=7, record_every=3, **how)
    for k in range(7):
        if k % 3 == 0:
            assert np.array_equal(whole.q[:, k // 3], q) and np.array_equal(whole.v[:, k // 3], v)
        one = lw.rollout(ARM, q, v, tau, steps=1, **how)
        q = one.q[:, 1]
        v = one.v[:, 1]
    monkeypatch.setattr(one_kernel, "CHUNK_ROWS", 2)
    each = np.broadcast_to(tau, (3, 7, ARM.nv))  # forces of each step: no loop inside of the kernel
    other = lw.rollout(ARM, whole.q[:, 0], whole.v[:, 0], each, steps=7, record_every=3, **how)
    assert np.array_equal(other.q, whole.q) and np.array_equal(other.v, whole.v)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
@pytest.mark.parametrize("names", [(), ("mass", "center"), ("placement",), ("damping", "gravity")])
def test_forces_of_each_step_have_the_bits_of_constant_ones(integrator: str, names: tuple[str, ...]) -> None:
    """What no step changes, such as masses or dt / 6, is rounded in the same way whether a call takes one
    step or many.
    """
    model = ARM
    q, v = (np.array(x) for x in zip(*(model.random_state(k) for k in range(20))))
    own = {name: np.repeat(model.parameters()[name][None], 20, axis=0) for name in names}
    tau = np.full(model.nv, 0.1)
    how: dict[str, Any] = {"dt": 0.002, "steps": 3, "integrator": integrator, "parameters": own}
    whole = lw.rollout(model, q, v, tau, **how)
    each = lw.rollout(model, q, v, np.broadcast_to(tau, (20, 3, model.nv)), **how)
    assert np.array_equal(each.q, whole.q) and np.array_equal(each.v, whole.v)


def test_single_precision() -> None:
    q, v = states(3)
    tau = np.full((3, 6, ARM.nv), 0.1)
    tau[1, 4] = np.inf
    how: dict[str, Any] = {"dt": 0.002, "steps": 6, "record_every": 3}
    found = lw.rollout(ARM, q, v, tau, dtype="float32", **how)
    assert found.q.dtype == found.v.dtype == np.float32 and list(found.steps) == [6, 4, 6]
    assert list(found.status) == [lw.Status.OK, lw.Status.NOT_FINITE, lw.Status.OK]
    wanted = lw.rollout(ARM, q, v, tau[0, 0], **how)
    assert np.abs(found.q[::2] - wanted.q[::2]).max() < 1e-5 and not np.array_equal(found.q[0], wanted.q[0])
    whole = lw.rollout(ARM, q, v, tau[0, 0], dtype="float32", **how)  # all steps in one call
    assert np.array_equal(whole.q[::2], found.q[::2]) and np.array_equal(whole.v[::2], found.v[::2])
    bars = four_bar(0.3, 1.0, 0.8, 1.0)
    at = crank_states(np.array([0.3, 1.2]))
    turning = np.ones((2, 1))
    turned = lw.rollout(bars, at, turning, dt=1e-3, steps=20, record_every=20, dtype="float32")
    exact = lw.rollout(bars, at, turning, dt=1e-3, steps=20, record_every=20)
    assert (turned.status == lw.Status.OK).all() and np.abs(turned.q - exact.q).max() < 1e-4
    for wrong, told in (
        ("float16", "dtype: expected one of"),
        ("float32", "in float32 tau cannot be a function"),
    ):
        with pytest.raises(lw.LinkworkError, match=told):
            lw.rollout(ARM, q, v, lambda q, v, t: 0.0 * v, dtype=wrong, **how)


def test_a_step_is_that_of_a_rollout() -> None:
    q, v = states(3)
    tau = np.full(ARM.nv, 0.1)
    many = lw.rollout(ARM, q, v, tau, dt=0.002, steps=1)
    ends = lw.step(ARM, q, v, tau, dt=0.002)
    assert np.array_equal(many.q[:, 1], ends[0]) and np.array_equal(many.v[:, 1], ends[1])
    by_v = lw.jacobian(lw.step, ARM, wrt=("v",))(q, v, tau, 0.002)
    e = 1e-6
    ahead = lw.step(ARM, q, v + e * np.eye(ARM.nv)[0], tau, dt=0.002)
    assert np.allclose(by_v[1][..., 0], (ahead[1] - ends[1]) / e, atol=1e-6)
    with pytest.raises(lw.ModelError, match="details= requires contacts="):
        lw.step(ARM, q, v, tau, dt=0.002, details=True)


def test_a_step_projects_velocities_of_constrained_loops_as_a_rollout_does() -> None:
    bars = four_bar(0.3, 1.0, 0.8, 1.0)
    model = bars.with_loops(constrain=[loop.name for loop in bars.loops])
    q, v = model.random_state(3)
    tau = np.full(model.nv, 0.1)
    many = lw.rollout(model, q, v, tau, dt=0.01, steps=3)
    for k in range(3):
        q, v = lw.step(model, q, v, tau, 0.01)
        assert np.array_equal(many.q[k + 1], q) and np.array_equal(many.v[k + 1], v)
    assert np.abs(lw.constraint_jacobian(model, q, constraints=()) @ v).max() < 1e-9
    by_v = lw.jacobian(lw.step, model, wrt=("v",))(q, v, tau, 0.01)[1]
    e = 1e-6
    moved = [lw.step(model, q, v + s * e * np.eye(model.nv), tau, 0.01)[1] for s in (1.0, -1.0)]
    assert np.allclose(by_v, ((moved[0] - moved[1]) / (2.0 * e)).T, atol=1e-6)


def test_a_model_that_cannot_move() -> None:
    builder = lw.ModelBuilder("nail").add_body("x", mass=1.0, inertia=(1.0, 1.0, 1.0))
    nail = builder.add_joint("held", lw.joints.Fixed(), parent="world", child="x").build()
    none = np.zeros((3, 0))
    assert [x.shape for x in lw.step(nail, none, none, none, 1e-3)] == [(3, 0), (3, 0)]
    for tau in (None, lambda q, v, t: v):
        with pytest.raises(ModelError, match="rollout: nail has no degrees of freedom"):
            lw.rollout(nail, none, none, tau, dt=1e-3, steps=2)


def test_pd_control_and_policies_are_what_a_function_gives() -> None:
    q, v = states(2)
    kp = np.linspace(1.0, 2.0, ARM.nv)
    target = q[::-1] + 0.1

    def called(q: Any, v: Any, t: float) -> Any:
        return kp * (target - q) - 0.5 * v + 0.3 * np.sin(t)

    def policy(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return kp * (inputs["target"] - q) - 0.5 * v + 0.3 * lw.sin(t)

    how: dict[str, Any] = {"dt": 0.01, "steps": 9, "integrator": "rk4"}
    wanted = lw.rollout(ARM, q, v, called, **how)
    found = lw.rollout(ARM, q, v, policy=policy, inputs={"target": target}, **how)
    assert np.allclose(found.q, wanted.q, rtol=0.0, atol=1e-12) and np.abs(wanted.q[:, -1] - q).max() > 1e-3
    gains = lw.rollout(ARM, q, v, lw.PD(kp, 0.5, target, tau=0.2), **how)
    wanted = lw.rollout(ARM, q, v, lambda q, v, t: kp * (target - q) - 0.5 * v + 0.2, **how)
    assert np.allclose(gains.q, wanted.q, rtol=0.0, atol=1e-12)


def test_rows_stop_alone_and_say_when() -> None:
    q, v = states(4)
    tau = np.zeros((4, 8, ARM.nv))
    tau[1, 5, 0] = np.inf
    v[3, 0] = np.nan
    found = lw.rollout(ARM, q, v, tau, dt=1e-3, steps=8, record_every=2)
    assert list(found.status) == [lw.Status.OK, lw.Status.NOT_FINITE, lw.Status.OK, lw.Status.NOT_FINITE]
    assert list(found.steps) == [8, 5, 8, 0]
    assert (
        np.isfinite(found.q[1, :3]).all()
        and np.isnan(found.q[1, 3:]).all()
        and np.isnan(found.v[3, 1:]).all()
    )
    alone = lw.rollout(ARM, q[0], v[0], dt=1e-3, steps=8, record_every=2)
    assert np.array_equal(alone.q, found.q[0])


def test_parameters_of_each_row() -> None:
    q, v = states(2)
    mass = np.array([ARM.parameters()["mass"], 2.0 * ARM.parameters()["mass"]])
    found = lw.rollout(ARM, q, v, dt=1e-3, steps=5, parameters={"mass": mass})
    for k in range(2):
        alone = lw.rollout(ARM, q[k], v[k], dt=1e-3, steps=5, parameters={"mass": mass[k]})
        assert np.array_equal(alone.q, found.q[k])
    assert not np.array_equal(found.q[1], lw.rollout(ARM, q[1], v[1], dt=1e-3, steps=5).q)


def test_policies_that_cannot_be_traced() -> None:
    q, v = states(1)

    def decides(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return np.ones(ARM.nv) if q[0] > 0.0 else np.zeros(ARM.nv)

    with pytest.raises(lw.TraceError):
        lw.rollout(ARM, q, v, policy=decides, dt=1e-3, steps=2)
    with pytest.raises(lw.TraceError, match="policy cannot be traced"):
        lw.rollout(ARM, q, v, policy=lambda q, v, t, inputs: inputs["unknown"], dt=1e-3, steps=2)
    with pytest.raises(lw.ShapeError, match="policy: expected returned"):
        lw.rollout(ARM, q, v, policy=lambda q, v, t, inputs: q[:2], dt=1e-3, steps=2)
    for what, told in (("a", "str"), (None, "NoneType"), (1j, "complex"), (True, "bool")):
        with pytest.raises(
            lw.TraceError, match=f"policy: expected returned forces that are real numbers, got {told}"
        ):
            lw.rollout(ARM, q, v, policy=lambda q, v, t, inputs, what=what: [what] * ARM.nv, dt=1e-3, steps=2)
    with pytest.raises(lw.ModelError, match="either tau or policy"):
        lw.rollout(ARM, q, v, np.zeros(ARM.nv), policy=decides, dt=1e-3, steps=2)


# loops


def counted_takes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows took a step outside of the kernel, step by step."""
    found: list[int] = []
    take = Stepping.take

    def counted(stepping: Stepping, *args: Any) -> None:
        found.append(int(stepping.active.sum()))
        take(stepping, *args)

    monkeypatch.setattr(Stepping, "take", counted)
    return found


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", pytest.param("rk4", marks=pytest.mark.slow)])
def test_loops_are_stepped_in_the_kernel_while_their_chart_is_good(
    integrator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = lw.robots.planar_leg_linkage()
    found = [model.random_state(k) for k in range(5)]
    q = np.array([q for q, _ in found])
    v = 0.2 * np.array([v for _, v in found])
    tau = np.linspace(-0.1, 0.1, model.nv)
    how: dict[str, Any] = {"dt": 1e-3, "steps": 60, "integrator": integrator}
    called = lw.rollout(model, q, v, lambda q, v, t: np.broadcast_to(tau, v.shape), record_every=20, **how)
    takes = counted_takes(monkeypatch)
    whole = lw.rollout(model, q, v, tau, record_every=20, **how)
    assert set(takes) == {1} and len(takes) < 20, (
        "the last row passes its flat position, and leaves the kernel near to it"
    )
    assert np.abs(whole.q - called.q).max() < 1e-11 and np.abs(whole.v - called.v).max() < 1e-9
    for other in (
        lw.rollout(model, q, v, tau, record_every=7, **how),
        lw.rollout(model, q, v, np.broadcast_to(tau, (5, 60, model.nv)), **how),
    ):
        last = lw.rollout(model, q, v, tau, record_every=60 // (other.q.shape[1] - 1), **how)
        assert np.array_equal(other.q, last.q) and np.array_equal(other.v, last.v)
    one = lw.rollout(model, q[2], v[2], tau, record_every=20, **how)
    assert np.array_equal(one.q, whole.q[2]) and np.array_equal(one.v, whole.v[2])
    heavy = lw.rollout(
        model, q, v, tau, record_every=20, parameters={"gravity": np.array([1.0, -3.0, 2.0])}, **how
    )
    assert np.isfinite(heavy.q).all() and not np.array_equal(heavy.q, whole.q)


def test_rows_leave_the_kernel_for_the_steps_in_which_they_change_charts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rocker that is the independent joint turns back: near its turning points others are, and rows are the
    same alone.
    """
    model = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker", gravity=0.5)
    crank = model.with_independent("crank")
    q = crank_states(np.array([1.0, -1.5, 2.5]))
    v = lw.spanning_velocity(crank, q, np.array([[8.0], [-7.0], [0.0]]))[:, [model.joint("rocker").v_start]]
    takes = counted_takes(monkeypatch)
    found = lw.rollout(model, q, v, dt=2e-3, steps=400, record_every=100)
    assert set(found.status) == {0}
    assert 0 < sum(takes) < 0.6 * 3 * 400
    alone = lw.rollout(model, q[1], v[1], dt=2e-3, steps=400, record_every=50)
    assert np.array_equal(alone.q[::2], found.q[1]) and np.array_equal(alone.v[::2], found.v[1])


ROCKER = four_bar(0.3, 1.0, 0.8, 1.0, gravity=0.0).with_independent("rocker")
NO_GAIN = lw.PD(0.0, 0.0, np.zeros(3))


def rockers(angles: Any, speeds: Any) -> tuple[np.ndarray, np.ndarray]:
    """States of `ROCKER` by angles and speeds of its crank; it turns back where crank and coupler are in one
    line.
    """
    q = crank_states(np.asarray(angles, dtype=float))
    w = lw.spanning_velocity(ROCKER.with_independent("crank"), q, np.asarray(speeds, dtype=float)[:, None])
    return q, w[:, [ROCKER.joint("rocker").v_start]]


@pytest.mark.parametrize("every", [1, 40])
def test_rows_in_one_chart_say_why_they_stopped(every: int) -> None:
    """A rocker that is independent turns back where crank and coupler are in one line: there it no longer
    tells the motion.
    """
    how: dict[str, Any] = {"contacts": lw.Contacts(ground=None)}
    regular, v = rockers([1.5, 2.0], [6.0, 1e-3])
    q = np.array([regular[0], regular[1], regular[1] + 0.01, regular[1] * np.nan])
    found = lw.rollout(ROCKER, q, v[[0, 1, 1, 1]], dt=2e-3, steps=800, record_every=every, **how)
    assert found.status.tolist() == [
        lw.Status.SINGULAR_COORDINATES,
        lw.Status.OK,
        lw.Status.NOT_CLOSED,
        lw.Status.NOT_FINITE,
    ]
    assert 0 < found.steps[0] < 800 and found.steps[1:].tolist() == [800, 0, 0]
    last = found.steps[0] // every
    assert np.isfinite(found.q[0, : last + 1]).all() and np.isnan(found.q[0, last + 1 :]).all()
    assert np.array_equal(found.q[2, 0], q[2]) and np.isnan(found.q[2, 1:]).all()
    flat = lw.rollout(lw.robots.four_bar(), np.zeros(3), [1.0], dt=1e-3, steps=20, **how)
    assert flat.status == lw.Status.DEAD_POINT and flat.steps < 3


def test_why_rows_stopped_does_not_depend_on_what_is_recorded() -> None:
    """Rows whose loop cannot be closed after a step far across the turning point, with a ball that touches
    nothing.
    """
    ball = lw.Geometry(
        "ball", shape="sphere", size=(0.1,), link="coupler", place=Pose(np.eye(3), np.array([0.0, 0.0, 1.0]))
    )
    q, v = rockers(np.linspace(0.0, 6.2, 64), np.full(64, 300.0))
    how: dict[str, Any] = {"dt": 2e-3, "steps": 40, "contacts": lw.Contacts(shapes=[ball])}
    often, seldom = (lw.rollout(ROCKER, q, v, record_every=every, **how) for every in (1, 20))
    assert {lw.Status.NOT_CLOSED, lw.Status.SINGULAR_COORDINATES} <= set(often.status) and (
        often.steps < 20
    ).any()
    assert lw.Status.NOT_FINITE not in often.status and np.array_equal(often.status, seldom.status)
    assert np.array_equal(often.residual, seldom.residual) and np.isfinite(often.residual).all()
    assert np.array_equal(often.impulses, seldom.impulses) and np.array_equal(
        often.iterations, seldom.iterations
    )


def test_only_a_mechanism_that_becomes_singular_has_a_dead_point() -> None:
    """Tello's rotors stop telling how its legs move while the legs' loops stay regular: told so also some way
    from there.
    """
    model = lw.robots.tello()
    path = []
    q = np.array(model.neutral(), dtype=float)[None]
    move = np.zeros(model.nv)
    move[7:9] = -0.005  # both rotors of a hip
    while np.isfinite(q).all():
        path.append(q[0])
        q = lw.integrate(model, q, move)
    q = np.array(path)
    own, whole = (loop_conditioning(model, q, of=kind).min(axis=1) for kind in KINDS)
    assert whole.min() > 0.05
    some = (own < 0.1) & (whole < 3.0 * own)
    assert some.sum() > 5
    v = np.tile(40.0 * move / 2e-3, (some.sum(), 1))  # 0.2 rad in a step
    assert set(classify_stopped(model, q[some], v, 2e-3, {}, np.zeros(some.sum(), dtype=bool))) == {
        lw.Status.SINGULAR_COORDINATES
    }
    q = np.outer(np.linspace(0.0, 0.05, 6), [1.0, -1.0, 1.0])  # a parallelogram that is nearly flat
    found = classify_stopped(
        lw.robots.four_bar(), q, np.full((6, 1), -100.0), 2e-3, {}, np.zeros(6, dtype=bool)
    )
    assert set(found) == {lw.Status.DEAD_POINT}


@pytest.mark.parametrize("contacts", [None, lw.Contacts(ground=None)], ids=["charts", "one kernel"])
def test_rows_that_had_stopped_stay_so(contacts: Any) -> None:
    """A rollout that goes on from another, with its status, is the longer rollout."""
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    tau = None
    q = crank_states(np.array([0.7, 2.0, 1.0, 2.5]))
    v = np.array([[6.0], [0.1], [np.inf], [1.0]])
    first = lw.rollout(model, q, v, tau, dt=2e-3, contacts=contacts, steps=20, record_every=20)
    codes = np.where(np.arange(4) == 3, int(lw.Status.STOPPED), first.status)
    # what stopped has no state to go on from
    last_q = np.nan_to_num(first.q[:, -1])
    last_v = np.nan_to_num(first.v[:, -1])
    then = lw.rollout(
        model, last_q, last_v, tau, dt=2e-3, contacts=contacts, steps=20, record_every=20, status=codes
    )
    assert then.status.tolist() == [lw.Status.OK, lw.Status.OK, lw.Status.NOT_FINITE, lw.Status.STOPPED]
    assert (
        then.steps.tolist() == [20, 20, 0, 0]
        and np.isnan(then.q[2:, 1]).all()
        and np.array_equal(then.q[:, 0], last_q)
    )
    assert np.array_equal(
        then.q[:2, 1],
        lw.rollout(model, q, v, tau, dt=2e-3, contacts=contacts, steps=40, record_every=40).q[:2, 1],
    )
    assert lw.rollout(
        model, q[:2], v[:2], tau, dt=2e-3, contacts=contacts, steps=1, status=6
    ).status.tolist() == [6, 6]
    with pytest.raises(ModelError, match="numbers of lw.Status"):
        lw.rollout(model, q, v, tau, dt=2e-3, contacts=contacts, steps=1, status=[0, 0, 0, 77])
    with pytest.raises(ShapeError, match=r"status: expected shape \(4,\), got \(3,\)"):
        lw.rollout(model, q, v, tau, dt=2e-3, contacts=contacts, steps=1, status=[0, 0, 0])


def test_rows_in_one_chart_stop_before_they_lose_their_speed() -> None:
    """Semi-implicit Euler creeps towards a turning point of its coordinate, and would stay there with no
    energy left.
    """
    q, v = rockers([1.5, 1.5, 2.0, 2.0, 1.0, 2.5], [1.0, 3.0, -6.0, 20.0, 40.0, -1.0])
    contacts = lw.Contacts(ground=None)
    found = lw.rollout(ROCKER, q, v, dt=1e-3, steps=6000, contacts=contacts)
    assert set(found.status) == {lw.Status.SINGULAR_COORDINATES}
    energy = lw.kinetic_energy(ROCKER, found.q, found.v)
    for row, steps in zip(energy, found.steps):
        assert 0 < steps < 6000 and np.abs(row[: steps + 1] / row[0] - 1.0).max() < 0.15
    alone = lw.rollout(ROCKER, q[3], v[3], dt=1e-3, steps=6000, record_every=100, contacts=contacts)
    assert alone.steps == found.steps[3] and np.array_equal(alone.q, found.q[3, ::100], equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_policies_and_pd_pass_turning_points_in_other_charts(integrator: str) -> None:
    q, v = rockers([1.5, 2.0, 2.5], [3.0, -6.0, 0.1])
    how: dict[str, Any] = {"dt": 2e-3, "steps": 500, "integrator": integrator}

    def pushes(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return np.array([0.02 * lw.sin(30.0 * t) - inputs["damping"] * v[0]])

    free = lw.rollout(ROCKER, q, v, **how)
    pd = lw.rollout(ROCKER, q, v, NO_GAIN, **how)
    assert set(pd.status) == {lw.Status.OK} and np.allclose(pd.q, free.q, rtol=0.0, atol=1e-9)
    assert np.array_equal(pd.q, lw.rollout(ROCKER, q, v, policy=lambda q, v, t, inputs: 0.0 * v, **how).q)
    policy = lw.rollout(ROCKER, q, v, policy=pushes, inputs={"damping": 0.01}, **how)
    called = lw.rollout(
        ROCKER, q, v, lambda q, v, t: 0.02 * np.sin(30.0 * np.full(v.shape, t)) - 0.01 * v, **how
    )
    assert set(policy.status) == {lw.Status.OK} and np.allclose(policy.q, called.q, rtol=0.0, atol=1e-8)
    assert np.abs(policy.q - free.q).max() > 0.01, "what the policy does is seen"
    alone = lw.rollout(ROCKER, q[1], v[1], policy=pushes, inputs={"damping": 0.01}, record_every=50, **how)
    assert np.array_equal(alone.q, policy.q[1, ::50]) and np.array_equal(alone.v, policy.v[1, ::50])


def test_a_policy_without_inputs_moves_a_mechanism_with_loops() -> None:
    q, v = rockers([2.2], [1.0])
    how: dict[str, Any] = {"dt": 1e-3, "steps": 3}
    found = lw.rollout(ROCKER, q, v, policy=lambda q, v, t, inputs: np.array([3.0]) + 0.0 * v, **how)
    assert np.allclose(found.v, lw.rollout(ROCKER, q, v, [3.0], **how).v, rtol=1e-12)


def _step_in(program: Program) -> Program:
    """One step: the body of a rollout's loop."""
    return next(attr.body for _, _, attr in program.code if isinstance(attr, BoundedLoop))


def _operations(program: Program) -> int:
    return sum(op not in ("const", "input", "neg", "result") for op, _, _ in program.code)


@pytest.mark.parametrize(
    ("model", "more"), [(ARM, 6), (bodies_on(lw.joints.Free()), 135)], ids=["arm", "free body"]
)
def test_a_step_is_little_more_than_its_forward_dynamics(model: lw.Model, more: int) -> None:
    """v + dt a, q + dt v, and whether that is finite: three operations a joint. A free body has one sine and
    one cosine.
    """
    step = _step_in(lower(rollout_program(model, force_control(model)), arranged=None))
    dynamics = lower(lw.forward_dynamics.program(model), arranged=None)
    assert _operations(step) <= _operations(dynamics) + 3 * model.nv + more


@pytest.mark.parametrize("where", ["q", "v"])
def test_every_number_of_a_state_is_looked_at(where: str) -> None:
    """A step in which a single number stops being finite is not taken: joints that turn, slide and are free."""
    model = bodies_on(
        lw.joints.Free(), lw.joints.Revolute((0, 0, 1)), lw.joints.Prismatic((1, 0, 0)), lw.joints.Spherical()
    )
    size = {"q": model.nq, "v": model.nv}[where]
    q, v = (np.array([x] * 2 * size) for x in (model.neutral(), np.zeros(model.nv)))
    rows = {"q": q, "v": v}[where]
    rows[np.arange(size), np.arange(size)], rows[size + np.arange(size), np.arange(size)] = np.inf, 1e308
    found = lw.rollout(model, q, v, dt=1e3, steps=1)
    finite = np.isfinite(np.concatenate([found.q[:, 1], found.v[:, 1]], axis=1)).all(axis=1)
    assert np.array_equal(found.steps, finite) and not finite[:size].any()
    assert (
        finite[size:].all() if where == "q" else not finite[size:].any()
    )  # a quaternion may have any length


def test_the_end_of_a_step_stands_as_soon_as_it_is_known() -> None:
    """With the same bits. The first joint's acceleration is known long before the last one's."""
    programs = [rollout_program(ARM, force_control(ARM), early=early) for early in (True, False)]
    early, late = (_step_in(program) for program in programs)
    assert Counter(op for op, _, _ in early.code) == Counter(op for op, _, _ in late.code)
    assert early.results[0][0] < len(early) - 40 < late.results[0][0]
    q, v = ARM.random_state(0)
    found = [
        interpret(lower(p), q, v, 0.0, np.array([1e-3, 3.0, 0.0, 0.0]), np.zeros(ARM.nv)) for p in programs
    ]
    assert all(np.array_equal(x, y) and np.isfinite(x).all() for x, y in zip(*found))


def test_addresses_of_spilled_values_are_short() -> None:
    """The scratch array of a step that is cut is in a register whose instructions take a byte less: a fifth
    of the time.
    """
    machine = Machine("x86_64-unknown-linux-gnu", "znver3", "+avx2,+fma,+bmi2")
    arranged = Arrangement(Scheduling(), Cutting(max_uncut=200, part_size=100, cut_bodies=True))
    program = lower(rollout_program(ARM, force_control(ARM)), arranged=arranged)
    texts = [
        text
        for text in module_texts(program, 4, machine)
        if re.search(r"define void @lw.many\.v\d+\.1\(", text)
    ]
    assembly = compile_assembly(texts[0], machine, level=1)
    far, near = (
        len(re.findall(rf"\((%r{names})\)", assembly)) for names in (r"(?:8|9|1\d)", r"(?:di|si|ax|dx|cx|bx)")
    )
    assert near > 10 * far


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"q": np.zeros(ARM.nq) + 1j},
            "rollout: q: expected an array of real numbers, but it has dtype complex128",
        ),
        ({"q": ["a"] * ARM.nq}, "q: .* has dtype <U1"),
        ({"q": np.array([None] * ARM.nq)}, "q: .* holds NoneType"),
        ({"q": [[1.0, 2.0], [3.0]]}, r"q: .* cannot be read as an array \(rows of different lengths\)"),
        ({"v": np.ma.masked_array(np.zeros(ARM.nv), [True] * ARM.nv)}, "v: .* is a masked array"),
        ({"v": np.zeros(ARM.nv, dtype="m8[s]")}, "v: .* has dtype timedelta64"),
        ({"tau": np.zeros(ARM.nv) + 1j}, "tau: .* has dtype complex128"),
        ({"tau": lambda q, v, t: "x"}, r"tau\(q, v, t\): .* has dtype <U1"),
        ({"tau": lw.PD("x", 1.0, np.zeros(ARM.nq))}, "pd_kp: .* has dtype <U1"),
        (
            {"policy": lambda q, v, t, inputs: v, "inputs": 3},
            "inputs: expected a dict of arrays by name, got int",
        ),
        (
            {"policy": lambda q, v, t, inputs: v, "inputs": {"a": [[1.0], [1.0, 2.0]]}},
            "input a: .* cannot be read as an array",
        ),
        ({"parameters": [1]}, "parameters: expected a dict of arrays by name, got list"),
        ({"steps": 10**14}, "rollout: too little memory .* record_every="),
    ],
)
def test_what_is_no_array_of_real_numbers_is_told_in_one_sentence(given: dict[str, Any], told: str) -> None:
    """Nothing is lost without a word: no imaginary parts, no masks."""
    arguments: dict[str, Any] = {"q": ARM.neutral(), "v": np.zeros(ARM.nv), "dt": 1e-3, "steps": 1}
    with pytest.raises(lw.LinkworkError, match=told) as error:
        lw.rollout(ARM, **(arguments | given))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"steps": 2**24 + 1, "record_every": 2**25, "dtype": "float32"},
            "steps: expected at most 16777216 in one call in float32, got 16777217",
        ),
        ({"steps": 2**70, "record_every": 2**71}, "at most 9007199254740992 in one call in float64"),
        ({"dt": 1e-50, "dtype": "float32"}, "positive number of seconds in float32, got 1e-50"),
        ({"dt": 1e50, "dtype": "float32"}, r"positive number of seconds in float32, got 1e\+50"),
        (
            {"policy": lambda q, v, t, inputs: v, "inputs": {"a": np.zeros(0)}},
            "'input_a' of shape .* is empty",
        ),
    ],
)
def test_what_numbers_cannot_count_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(lw.LinkworkError, match=told):
        lw.rollout(ARM, ARM.neutral(), np.zeros(ARM.nv), **({"dt": 1e-3, "steps": 1} | given))


def test_a_policy_that_cannot_be_hashed_is_traced_as_it_is_now() -> None:
    @dataclass
    class Damper:
        gain: float

        def __call__(self, q: Any, v: Any, t: Any, inputs: Any) -> Any:
            return -self.gain * v

    q, v = states(2)
    policy = Damper(0.1)
    bars = four_bar(0.3, 1.0, 0.8, 1.0)
    for gain in (0.1, 5.0):
        policy.gain = gain
        found = lw.rollout(ARM, q, v, policy=policy, dt=1e-3, steps=3)
        wanted = lw.rollout(ARM, q, v, lambda q, v, t: -gain * v, dt=1e-3, steps=3)  # noqa: B023
        assert np.allclose(found.v, wanted.v, rtol=0.0, atol=1e-12)
        assert lw.rollout(
            bars, crank_states(np.array([0.3])), [1.0], policy=policy, dt=1e-3, steps=3
        ).status == [lw.Status.OK]


def test_gains_may_be_numbers_of_numpy() -> None:
    q, v = states(1)
    plain = lw.rollout(ARM, q, v, lw.PD(2.0, 0.5, 0.0 * q), dt=1e-3, steps=3)
    found = lw.rollout(ARM, q, v, lw.PD(np.float32(2.0), np.array(0.5), 0.0 * q), dt=1e-3, steps=3)
    assert np.array_equal(found.q, plain.q)
