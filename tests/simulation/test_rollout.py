"""Rollouts: what they are defined as, energy through turning points and flat positions, and reports at dead
points.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from andrews import END, START, force, squeezer
from linkwork.joints import Free, Revolute, Spherical
from linkwork.model import WORLD
from linkwork.simulation.charts import Charts
from linkwork.simulation.stepping import SMOOTH_TOL, Stepping
from planar_bars import crank_states, four_bar, parallelograms
from planar_mechanisms import folding_dyad, peaucellier


def energy(model: lw.Model, q: Any, v: Any) -> np.ndarray:
    return np.asarray(lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q))


def drift(model: lw.Model, found: lw.Rollout) -> float:
    """The largest change of energy, relative to the largest kinetic one."""
    total = energy(model, found.q, found.v)
    return float(np.abs(total - total[..., :1]).max() / lw.kinetic_energy(model, found.q, found.v).max())


def unlimited(model: lw.Model) -> lw.Model:
    """The same without limits of joints: choices of independent velocities see the whole range."""
    free = tuple(replace(j, lower=(-np.inf,) * j.nq, upper=(np.inf,) * j.nq) for j in model.joints)
    return replace(model, joints=free, kernels={})


# what a rollout is


def spinning_arm() -> lw.Model:
    """A top on a hinge: one joint with a quaternion, so coordinates are no vector space."""
    builder = lw.ModelBuilder("top")
    builder.add_body("arm", mass=2.0, center=(0.2, 0.0, 0.1), inertia=(0.1, 0.2, 0.15))
    builder.add_joint("hinge", Revolute((0.0, 1.0, 0.0)), parent="world", child="arm", damping=0.1)
    builder.add_body("top", mass=1.0, center=(0.05, 0.1, 0.2), inertia=(0.03, 0.05, 0.02))
    return builder.add_joint("ball", Spherical(), parent="arm", child="top", xyz=(0.4, 0.0, 0.0)).build()


@pytest.mark.parametrize(
    "model", [spinning_arm(), lw.robots.watt(), four_bar(0.3, 1.0, 0.8, 1.0)], ids=lambda m: m.name
)
def test_semi_implicit_euler_is_as_defined(model: lw.Model) -> None:
    q, v = model.random_state(1)
    tau = np.random.default_rng(2).normal(size=(6, model.nv))
    found = lw.rollout(model, q, v, tau, dt=0.003, steps=6)
    assert found.status == lw.Status.OK and found.steps == 6
    for k in range(6):
        assert np.allclose(found.q[k], q, rtol=0.0, atol=1e-13) and np.allclose(
            found.v[k], v, rtol=0.0, atol=1e-13
        )
        v = v + 0.003 * lw.forward_dynamics(model, q, v, tau[k])
        q = lw.integrate(model, q, 0.003 * v)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_rows_times_and_shapes(integrator: str) -> None:
    model = lw.robots.watt()
    how = {"dt": 0.002, "integrator": integrator}
    states = [model.random_state(k) for k in range(6)]
    q, v = (np.array(x).reshape(2, 3, -1) for x in zip(*states))
    q, v, status = whole = lw.rollout(model, q, v, steps=7, **how)  # type: ignore[arg-type]
    assert q.shape == (2, 3, 8, 5) and v.shape == (2, 3, 8, 1) and status.shape == whole.steps.shape == (2, 3)
    thin = lw.rollout(model, q[:, :, 0], v[:, :, 0], steps=7, record_every=3, **how)  # type: ignore[arg-type]
    assert np.array_equal(thin.q, q[:, :, ::3]) and np.array_equal(thin.v, v[:, :, ::3])
    alone = lw.rollout(model, q[1, 2, 0], v[1, 2, 0], steps=7, **how)  # type: ignore[arg-type]
    assert np.array_equal(alone.q, q[1, 2]) and np.array_equal(alone.v, v[1, 2])
    assert np.array_equal(q[:, :, 0], np.array([s[0] for s in states]).reshape(2, 3, -1))
    empty = lw.rollout(model, q[:, :0, 0], v[:, :0, 0], steps=3, **how)  # type: ignore[arg-type]
    assert empty.q.shape == (2, 0, 4, 5) and empty.status.shape == (2, 0)
    none = lw.rollout(model, q[0, 0, 0], v[0, 0, 0], steps=0, **how)  # type: ignore[arg-type]
    assert none.q.shape == (1, 5)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_forces_of_every_form(integrator: str) -> None:
    model, rng = lw.robots.five_bar(), np.random.default_rng(0)
    states = [model.random_state(k) for k in range(3)]
    q, v = np.array([s[0] for s in states]), np.array([s[1] for s in states])
    how: dict[str, Any] = {"dt": 0.001, "steps": 5, "integrator": integrator}
    tau = rng.normal(size=2)
    constant = lw.rollout(model, q, v, tau, **how)
    for other in (
        np.tile(tau, (3, 1)),
        np.tile(tau, (3, 5, 1)),
        np.tile(tau, (1, 5, 1)),
        lambda q, v, t: tau + 0.0 * v,
    ):
        assert np.array_equal(lw.rollout(model, q, v, other, **how).q, constant.q)
    assert np.array_equal(lw.rollout(model, q[0], v[0], np.tile(tau, (5, 1)), **how).q, constant.q[0])
    asked: list[float] = []

    def force(q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        assert q.shape == (3, model.nq) and v.shape == (3, 2)
        asked.append(t)
        return -3.0 * v

    damped = lw.rollout(model, q, v, force, **how)
    stages = [0.0, 0.0005, 0.0005, 0.001] if integrator == "rk4" else [0.0]
    assert np.allclose(asked, [k * 0.001 + s for k in range(5) for s in stages])
    joints = tuple(replace(j, damping=(3.0,)) if j.name in model.v_names else j for j in model.joints)
    same = lw.rollout(replace(model, joints=joints, kernels={}), q, v, **how)
    assert np.allclose(damped.q, same.q, rtol=0.0, atol=1e-12)


def test_parameters_are_those_of_each_row() -> None:
    model = lw.robots.watt()
    q = lw.robots.watt().neutral()
    masses = model.parameters()["mass"] * np.array([[1.0], [2.0]])
    both = lw.rollout(model, q, [1.0], dt=0.001, steps=5, integrator="rk4", parameters={"mass": masses})
    heavy = lw.rollout(
        model.with_parameters({"mass": masses[1]}), q, [1.0], dt=0.001, steps=5, integrator="rk4"
    )
    assert both.q.shape == (2, 6, 5) and not np.allclose(both.v[0, -1], both.v[1, -1], rtol=1e-6)
    assert np.allclose(both.q[1], heavy.q, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("model", [spinning_arm(), four_bar(0.6, 0.8, 0.7, 1.3)], ids=lambda m: m.name)
def test_rk4_has_order_four(model: lw.Model) -> None:
    q, v = model.random_state(4)
    ends = [
        lw.rollout(model, q, v, dt=0.16 / n, steps=n, record_every=n, integrator="rk4").q[-1]
        for n in (16, 32, 64, 512)
    ]
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    assert 12.0 < errors[0] / errors[1] < 21.0 and 12.0 < errors[1] / errors[2] < 21.0


# constrained loops


def unforced(model: lw.Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v without what opens loops: v - M⁻¹ Jᵀ (J M⁻¹ Jᵀ)⁺ J v."""
    J = lw.constraint_jacobian(model, q, constraints=())
    M = lw.mass_matrix(model, q)
    X = np.linalg.solve(M, J.T)
    return v - X @ (np.linalg.pinv(J @ X) @ (J @ v))


def test_velocities_of_constrained_loops_are_projected() -> None:
    bars = four_bar(0.3, 1.0, 0.8, 1.0)
    model = bars.with_loops(constrain=[loop.name for loop in bars.loops])
    q, v = model.random_state(3)
    found = lw.rollout(model, q, v, dt=0.01, steps=30)
    assert found.status == lw.Status.OK
    free = v + 0.01 * lw.forward_dynamics(model, q, v, np.zeros(model.nv))
    assert np.abs(free - unforced(model, found.q[1], free)).max() > 1e-4, "there is something to project"
    assert np.allclose(found.v[1], unforced(model, found.q[1], free), rtol=0.0, atol=1e-9)
    for k in range(31):
        J = lw.constraint_jacobian(model, found.q[k], constraints=())
        assert np.abs(J @ found.v[k]).max() < 1e-8
    for integrator in ("semi_implicit_euler", "rk4"):
        how: dict[str, Any] = {"dt": 0.01, "steps": 3, "integrator": integrator}
        stepped = lw.rollout(model, q, v, **how)
        one_kernel = lw.rollout(model, q, v, policy=lambda q, v, t, inputs: 0.0 * v, **how)
        assert np.allclose(stepped.v, one_kernel.v, rtol=0.0, atol=1e-8)
        J = lw.constraint_jacobian(model, one_kernel.q[-1], constraints=())
        assert np.abs(J @ one_kernel.v[-1]).max() < 1e-8


# charts


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_turning_points_are_passed_and_rows_have_the_same_bits_alone(integrator: str) -> None:
    rocker = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker", gravity=0.5)
    crank = rocker.with_independent("crank")
    q = crank_states(np.array([1.0, -1.5, 2.5]))
    speed = np.array([[8.0], [-7.0], [0.0]])
    v = lw.spanning_velocity(crank, q, speed)[:, [rocker.joint("rocker").v_start]]
    found = lw.rollout(rocker, q, v, dt=0.002, steps=400, integrator=integrator)
    assert (found.status == lw.Status.OK).all()
    turned = np.abs(
        found.q[:2, -1, crank.joint("crank").q_start] - found.q[:2, 0, crank.joint("crank").q_start]
    )
    assert turned.min() > np.pi, "the crank must have passed both turning points of the rocker"
    assert lw.loop_conditioning(rocker, found.q[:2]).min() < 0.02
    for k in range(3):
        alone = lw.rollout(rocker, q[k], v[k], dt=0.002, steps=400, integrator=integrator)
        assert np.array_equal(alone.q, found.q[k]) and np.array_equal(alone.v, found.v[k])
    if integrator == "rk4":
        other = lw.rollout(crank, q, speed, dt=0.002, steps=400, integrator="rk4")
        assert np.allclose(other.q, found.q, rtol=0.0, atol=1e-6)
        assert np.allclose(
            lw.spanning_velocity(crank, other.q, other.v)[..., [2]], found.v, rtol=0.0, atol=1e-5
        )


def test_forces_act_at_the_models_own_joints_in_every_chart() -> None:
    rocker = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker", gravity=0.0)
    crank = rocker.with_independent("crank")
    q = crank.neutral()
    v = lw.spanning_velocity(crank, q, [5.0])[[rocker.joint("rocker").v_start]]
    found = lw.rollout(rocker, q, v, lambda q, v, t: 0.5 - 0.2 * v, dt=0.001, steps=900, integrator="rk4")
    turned = rocker.joint("rocker").q_start
    work = 0.5 * (found.q[:, turned] - found.q[0, turned])
    speeds = found.v[:, 0] ** 2
    work -= 0.2 * 0.001 * np.concatenate([[0.0], np.cumsum(0.5 * (speeds[1:] + speeds[:-1]))])
    by_crank = np.gradient(found.q[:, 0], 0.001)[:, None]
    gained = lw.kinetic_energy(crank, found.q, by_crank) - lw.kinetic_energy(crank, q, [5.0])
    assert found.status == lw.Status.OK and np.abs(work).max() > 0.15
    assert np.abs((gained - work)[5:-5]).max() < 1e-4


def test_non_grashof_and_bricard_keep_their_energy() -> None:
    bars = four_bar(0.6, 0.8, 0.7, 1.3)
    found = lw.rollout(bars, bars.neutral(), [2.0], dt=0.001, steps=1500, record_every=1, integrator="rk4")
    assert found.status == lw.Status.OK and len(bars.cache[Charts]) >= 1
    good = lw.loop_conditioning(bars, found.q)[:, 0] > 0.05  # energies by these coordinates are exact there
    total = energy(bars, found.q[good], found.v[good])
    assert np.abs(total - total[0]).max() < 1e-6 * lw.kinetic_energy(bars, found.q[good], found.v[good]).max()
    assert lw.loop_conditioning(bars, found.q).min() < 0.01


def test_parallelograms_pass_their_flat_position_on_one_branch() -> None:
    model = parallelograms(2)
    cranks = [model.joint(f"crank_{k}").q_start for k in range(3)]
    found = lw.rollout(model, np.zeros(model.nq), [-1.0], dt=0.001, steps=1700, integrator="rk4")
    assert found.status == lw.Status.OK and drift(model, found) < 1e-7
    assert np.abs(found.q[-1, cranks[0]]) > 2.0, "the flat position is at pi / 2"
    assert np.abs(found.q[:, cranks] - found.q[:, cranks[:1]]).max() < 1e-9


def lasting(model: lw.Model, q: Any, v: float, seconds: int) -> tuple[lw.Rollout, float]:
    """A rollout by RK4 in steps of 1 ms, and its relative drift of energy where the model's own coordinates
    are good.
    """
    found = lw.rollout(model, q, [v], dt=0.001, steps=1000 * seconds, record_every=10, integrator="rk4")
    last = int(found.steps) // 10 + 1
    q = found.q[:last]
    v = found.v[:last]
    good = lw.loop_conditioning(model, q).min(axis=1) > 0.05
    total = energy(model, q[good], v[good])
    return found, float(np.abs(total - total[0]).max() / lw.kinetic_energy(model, q[good], v[good]).max())


@pytest.mark.slow
def test_bricard_for_ten_seconds() -> None:
    model = unlimited(lw.robots.bricard())
    found, change = lasting(model, model.neutral(), 2.0, 10)
    assert found.status == lw.Status.OK and change < 1e-6
    assert lw.loop_conditioning(model, found.q).min() < 0.01, "its own hinge turns back"


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(0.6, 0.8, 0.7, 1.3), (0.9, 0.5, 0.6, 1.2)])
def test_non_grashof_four_bars_for_a_minute(lengths: tuple[float, float, float, float]) -> None:
    model = four_bar(*lengths)
    found, change = lasting(model, model.neutral(), 2.0, 60)
    assert found.status == lw.Status.OK and change < 1e-6


@pytest.mark.slow
def test_a_dyad_on_two_bodies_is_stretched() -> None:
    """Its joints follow these bodies except where it is: there they turn back, and it leads."""
    model = folding_dyad().builder.build().with_independent("to crank")
    assert any(cluster.below for cluster in model.clusters)
    found, change = lasting(model, model.neutral(), -3.0, 2)
    assert found.status == lw.Status.OK and change < 1e-7
    assert lw.loop_conditioning(model, found.q).min() < 0.02, "it was nearly stretched"


@pytest.mark.slow
@pytest.mark.parametrize("independent", ["crank", "rocker"])
def test_a_crank_rocker_for_a_minute(independent: str) -> None:
    crank = four_bar(0.3, 1.0, 0.8, 1.0, gravity=1.0)
    q = crank.neutral()
    model = crank.with_independent(independent)
    v = lw.spanning_velocity(crank, q, [4.0])[model.joint(independent).v_start]
    found, change = lasting(model, q, float(v), 60)
    assert found.status == lw.Status.OK and change < 1e-6
    assert np.ptp(found.q[:, 0]) > 100.0, "the crank goes round and round"


@pytest.mark.slow
def test_five_parallelograms_for_ten_seconds() -> None:
    model = parallelograms(5)
    found, change = lasting(model, np.zeros(model.nq), -1.0, 10)
    assert change < 1e-6 and found.status in (lw.Status.OK, lw.Status.DEAD_POINT)
    assert found.steps > 2000, "the flat position was passed"


@pytest.mark.slow
def test_andrews_squeezer_ends_where_published() -> None:
    model = squeezer()
    q, end = np.zeros(7), np.zeros(7)
    for joint in model.joints:
        q[joint.q_start], end[joint.q_start] = START[joint.name], END[joint.name]
    found = lw.rollout(
        model,
        q,
        [0.0],
        lambda q, v, t: force(model, q),
        dt=0.03 / 3000,
        steps=3000,
        record_every=3000,
        integrator="rk4",
    )
    assert found.status == lw.Status.OK
    assert np.abs(found.q[-1] - end).max() < 1e-8


# reports


def test_dead_points_of_the_mechanism_stop_their_rows_only() -> None:
    model = lw.robots.four_bar()
    regular = model.random_state(0)[0]
    flat = np.zeros(3)
    found = lw.rollout(model, np.array([flat, regular]), [[1.0], [1.0]], dt=0.001, steps=20, record_every=10)
    assert found.status.tolist() == [lw.Status.DEAD_POINT, lw.Status.OK] and found.steps.tolist() == [0, 20]
    assert (
        np.array_equal(found.q[0, 0], flat)
        and np.isnan(found.q[0, 1:]).all()
        and np.isnan(found.v[0, 1:]).all()
    )
    assert np.isfinite(found.q[1]).all()
    alone = lw.rollout(model, regular, [1.0], dt=0.001, steps=20, record_every=10)
    assert np.array_equal(alone.q, found.q[1])


def test_a_step_that_ends_at_a_dead_point_says_so() -> None:
    model = lw.robots.four_bar().without_passive_forces()
    q = np.array([-0.01, 0.01, -0.01])  # ten steps before it is flat; it turns at a constant speed
    found = lw.rollout(model, q, [1.0], dt=0.001, steps=20)
    assert found.status == lw.Status.DEAD_POINT and 9 <= found.steps <= 10
    assert np.isfinite(found.q[: found.steps + 1]).all() and np.isnan(found.q[found.steps + 1 :]).all()
    passed = lw.rollout(model, q, [1.0], dt=0.0011, steps=20)
    assert passed.status == lw.Status.OK and np.allclose(
        passed.q[-1], [0.012, -0.012, 0.012], rtol=0.0, atol=1e-8
    )


def kept_energy(model: lw.Model, found: lw.Rollout) -> np.ndarray:
    """The largest change of energy of each row until it stopped, relative to its largest kinetic one,
    (rows,).
    """
    total = energy(model, found.q, found.v)
    moving = lw.kinetic_energy(model, found.q, found.v)
    return np.asarray(np.nanmax(np.abs(total - total[:, :1]), axis=1) / np.nanmax(moving, axis=1))


@pytest.mark.parametrize("driven", [False, True], ids=["kernel", "function"])
def test_a_bifurcation_within_a_step_is_passed_without_losing_energy(driven: bool) -> None:
    """The longest bar and the shortest are as long as the others: at an angle of pi all are in one line.

    The motion goes on as that of finer steps does.
    """
    model = four_bar(0.5, 0.7, 0.6, 0.8)
    angles = np.array([2.95, 2.9, 2.95])
    speeds = np.array([[3.3], [2.0], [-2.0]])
    q = crank_states(angles, 0.5, 0.7, 0.6, 0.8)
    tau = (lambda q, v, t: 0.0 * v) if driven else None
    found = lw.rollout(model, q, speeds, tau, dt=0.001, steps=150, integrator="rk4")
    assert found.status.tolist() == [lw.Status.OK] * 3
    assert kept_energy(model, found).max() < 5e-7
    assert np.all(found.q[:2, -1, 0] > np.pi + 0.2), "it went on beyond where it is"
    fine = lw.rollout(model, q, speeds, tau, dt=0.00025, steps=600, integrator="rk4")
    assert np.abs(fine.q[:, -1] - found.q[:, -1]).max() < 2e-6
    alone = lw.rollout(model, q[1], speeds[1], tau, dt=0.001, steps=150, integrator="rk4")
    assert alone.steps == found.steps[1] and np.array_equal(alone.q, found.q[1], equal_nan=True)


def test_a_peaucellier_linkage_keeps_its_energy_or_reports_a_dead_point() -> None:
    model = peaucellier(1.0).builder.build()
    states = np.tile(model.neutral(), (2, 1))
    found = lw.rollout(
        model,
        states,
        [[2.0], [-2.0]],
        lambda q, v, t: 0.0 * v,
        dt=0.001,
        steps=120,
        integrator="rk4",
        limits=False,
    )
    assert found.status[0] in (lw.Status.OK, lw.Status.DEAD_POINT) and found.status[1] == lw.Status.OK
    assert found.steps[0] > 10
    energy = kept_energy(model, found)
    passed = 2.0 * SMOOTH_TOL  # of the velocity, in the step that passes the singular state
    assert energy[0] < passed and energy[1] < 5e-7


@pytest.mark.slow
def test_peaucellier_linkages_keep_their_energy_or_report_a_dead_point() -> None:
    model = peaucellier().builder.build().with_independent("to crank")
    states = np.tile(model.neutral(), (12, 1))
    found = lw.rollout(
        model,
        states,
        np.linspace(-4.0, 4.0, 12)[:, None],
        dt=0.001,
        steps=1500,
        record_every=5,
        integrator="rk4",
        limits=False,
    )
    good = np.nan_to_num(lw.loop_conditioning(model, found.q).min(axis=-1)) > 0.03  # energies are exact there
    total = np.where(good, energy(model, found.q, found.v), np.nan)
    change = np.nanmax(np.abs(total - total[:, :1]), axis=1) / np.nanmax(
        lw.kinetic_energy(model, found.q, found.v), axis=1
    )
    passed = 2.0 * SMOOTH_TOL  # of the velocity, in a step that passes a singular state
    assert change.max() < passed and set(found.status) <= {lw.Status.OK, lw.Status.DEAD_POINT}


def test_other_reports() -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    q = model.neutral()
    turning = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker")
    angle = np.arccos((1.0 + 1.3**2 - 0.8**2) / 2.6)  # crank and coupler in one line
    far = np.array([angle, 0.0, 0.0])
    far[2] = np.arctan2(1.3 * np.sin(angle), 1.3 * np.cos(angle) - 1.0)
    assert lw.rollout(turning, far, [1.0], dt=0.001, steps=3).status == lw.Status.SINGULAR_COORDINATES
    for bad, status in ((q + 0.01, lw.Status.NOT_CLOSED), (q * np.nan, lw.Status.NOT_FINITE)):
        found = lw.rollout(model, np.array([bad, q]), [1.0], dt=0.001, steps=3)
        assert found.status.tolist() == [status, lw.Status.OK] and found.steps.tolist() == [0, 3]
    huge = lw.rollout(
        model, q, [1.0], lambda q, v, t: np.where(t > 0.0015, np.inf, 0.0) + 0.0 * v, dt=0.001, steps=5
    )
    assert huge.status == lw.Status.NOT_FINITE and huge.steps == 2
    endless = lw.rollout(model, q, [1e200], dt=0.001, steps=3, integrator="rk4")
    assert endless.status != lw.Status.OK and np.isnan(endless.q[1:]).all()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"integrator": "euler"},
            "expected one of semi_implicit_euler, rk4, implicit_midpoint, rk45, ",
        ),
        ({"steps": -1}, "steps: expected an integer of at least 0"),
        ({"steps": 1.5}, "steps: expected an integer"),
        ({"record_every": 0}, "record_every: expected an integer of at least 1"),
        ({"dt": 0.0}, "dt: expected a positive number"),
        ({"dt": np.nan}, "dt: expected a positive number"),
        ({"q": np.zeros(4)}, r"q: expected shape \(..., 5\), got shape \(4,\)"),
        ({"v": np.zeros((3, 1)), "q": np.zeros((2, 5))}, "cannot be broadcast"),
        ({"tau": np.zeros((4, 1))}, r"tau: expected .* got shape \(4, 1\)"),
        ({"tau": np.zeros(2)}, r"tau: expected .* got shape \(2,\)"),
        ({"tau": lambda q, v, t: np.zeros(2)}, r"tau\(q, v, t\): expected .* got shape \(2,\)"),
        ({"parameters": {"mass": np.zeros(2)}}, r"mass: expected shape \(..., 5\), got shape \(2,\)"),
        ({"parameters": {"weight": np.zeros(2)}}, "weight"),
    ],
)
def test_mistakes_are_told(wrong: dict[str, Any], told: str) -> None:
    model = lw.robots.watt()
    call: dict[str, Any] = {"q": model.neutral(), "v": [0.0], "dt": 0.001, "steps": 3, **wrong}
    with pytest.raises(lw.LinkworkError, match=told):
        lw.rollout(model, **call)


def test_rows_of_adaptive_steps_do_not_slow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many states are computed for a batch as for its rows one by one, whatever attempts some need; with
    the same bits.
    """
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    computed: list[int] = []
    called = Stepping._called

    def counted(self: Stepping, function: Any, chart: Any, rows: Any, arrays: Any) -> Any:
        computed.append(len(arrays[0][rows]) if function is lw.forward_dynamics else 0)
        return called(self, function, chart, rows, arrays)

    monkeypatch.setattr(Stepping, "_called", counted)
    v = np.array([[-0.3], [0.1], [40.0]])
    how: dict[str, Any] = {"dt": 0.02, "steps": 2, "integrator": "rk45"}
    alone = [lw.rollout(model, model.neutral(), speed, **how) for speed in v]
    one_by_one = sum(computed)
    computed.clear()
    found = lw.rollout(model, np.tile(model.neutral(), (3, 1)), v, **how)
    assert sum(computed) == one_by_one > 200
    for k, other in enumerate(alone):
        assert np.array_equal(found.q[k], other.q, equal_nan=True) and found.status[k] == other.status


@pytest.mark.parametrize("integrator", ["linearly_implicit_euler", "semi_implicit_euler", "rk4"])
def test_loops_at_rest_on_a_fast_base_meet_no_dead_point(integrator: str) -> None:
    """How fast the base moves brings its loops no nearer to a singular state."""
    builder = lw.ModelBuilder("falling four-bar")
    builder.add_body("base", mass=5.0, inertia=(1.0, 1.0, 1.0)).add_joint(
        "float", Free(), parent=WORLD, child="base"
    )
    for link, on, x in (("a", "base", 0.0), ("b", "a", 0.5), ("c", "base", 1.0)):
        builder.add_body(link, mass=1.0, center=(0.2, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
        builder.add_joint(f"hinge of {link}", Revolute(), parent=on, child=link, xyz=(x, 0.0, 0.0))
    ends: dict[str, Any] = {"xyz": (0.9, 0.0, 0.0), "successor_xyz": (0.6, 0.0, 0.0)}
    model = builder.add_loop("loop", Revolute(), predecessor="b", successor="c", **ends).build()
    q, v = model.random_state(np.random.default_rng(0))
    v[:] = 0.0
    v[3:6] = 1e3
    found = lw.rollout(model, q, v, np.zeros(model.nv), dt=1e-3, steps=50, integrator=integrator)
    assert found.status == lw.Status.OK and np.abs(found.v[-1, 6:]).max() < 1e-9


def test_a_rollout_without_contacts_has_no_impulses() -> None:
    model = lw.robots.arm()
    still = np.zeros((2, lw.robots.arm().nv))
    motion = lw.rollout(model, *still, dt=1e-3, steps=2, limits=False)
    assert motion.impulses is None and motion.residual is None and motion.iterations is None
    motion = lw.rollout(model, *still, dt=1e-3, steps=2)  # with the laws of joint limits
    assert motion.impulses is None and motion.residual < 1e-9 and motion.iterations == 1
