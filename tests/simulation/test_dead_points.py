"""Dead points are where the rank of all loop equations drops: for every integrator and step, and nowhere
else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.simulation.rank_drop import find_rank_drop
from linkwork.simulation.rollout_result import Rollout
from planar_bars import crank_states, four_bar
from planar_mechanisms import satellite

INTEGRATORS = ["semi_implicit_euler", "rk4", "implicit_midpoint", "rk45"]


def driven_four_bar() -> lw.Model:
    """The four-bar of README: a crank that turns fully, whose loop is regular everywhere."""
    builder = lw.ModelBuilder("four bar")
    for name, length in (("crank", 0.2), ("coupler", 0.6), ("rocker", 0.5)):
        inertia = (0.0, length**3 / 12, length**3 / 12)
        builder.add_body(name, mass=length, center=(length / 2, 0, 0), inertia=inertia)
    hinge = lw.joints.Revolute((0, 0, 1))
    builder.add_joint("a", hinge, parent="world", child="crank")
    builder.add_joint("b", hinge, parent="crank", child="coupler", xyz=(0.2, 0, 0))
    builder.add_joint("d", hinge, parent="world", child="rocker", xyz=(0.6, 0, 0))
    builder.add_loop(
        "c", hinge, predecessor="coupler", successor="rocker", xyz=(0.6, 0, 0), successor_xyz=(0.5, 0, 0)
    )
    return builder.build().with_independent("a")


def constrained(model: lw.Model) -> lw.Model:
    return model.with_loops(constrain=[loop.name for loop in model.embedded])


def gained(model: lw.Model, found: Rollout, tau: float) -> float:
    """The energy that a rollout ends with beyond the work of a torque, relative to that work."""
    q = found.q[[0, -1]]
    v = found.v[[0, -1]]
    energy = lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q)
    work = tau * (q[1, 0] - q[0, 0])
    return float((energy[1] - energy[0] - work) / work)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_regular_mechanism_has_no_dead_point_in_coarse_steps(integrator: str) -> None:
    """In steps of 10 ms the crank turns by up to 0.9 rad; each step is taken, in parts where it is too wide."""
    model = driven_four_bar()
    q, _ = model.random_state(0)
    limits = {"semi_implicit_euler": 1.1, "rk4": 0.05, "implicit_midpoint": 0.15, "rk45": 1e-3}
    for tau, steps in ((0.5, 250), (10.0, 15)):
        found = lw.rollout(model, q, [0.0], [tau], dt=0.01, steps=steps, integrator=integrator)
        assert found.status == lw.Status.OK
        assert abs(gained(model, found, tau)) < limits[integrator]
        assert (lw.closure_error(model, found.q) <= model.closure_tolerance).all()
        assert lw.loop_conditioning(model, found.q, of="mechanism").min() > 0.2


@pytest.mark.parametrize(
    ("integrator", "held"),
    [*((name, False) for name in INTEGRATORS), ("semi_implicit_euler", True), ("rk4", True)],
)
@pytest.mark.parametrize("driven", [False, True], ids=["kernel", "function"])
def test_a_rank_drop_within_a_step_is_noticed(integrator: str, held: bool, driven: bool) -> None:
    """Longest and shortest bar are as long as the others: at an angle of pi all are in one line, and branches
    meet.

    The second row turns back before that. Where the first row goes on, finer steps agreed.
    """
    model = four_bar(0.5, 0.7, 0.6, 0.8, gravity=0.0)
    q = crank_states(np.array([2.9, 2.9]), 0.5, 0.7, 0.6, 0.8)
    v = np.array([[3.0], [-3.0]])
    if held:
        v, model = lw.spanning_velocity(model, q, v), constrained(model)
    tau = (lambda q, v, t: 0.0 * v) if driven else None
    for dt, steps in ((1e-2, 12), (1e-3, 120)):
        found = lw.rollout(model, q, v, tau, dt=dt, steps=steps, integrator=integrator)
        assert found.status[1] == lw.Status.OK
        assert found.status[0] in (lw.Status.DEAD_POINT, lw.Status.OK)
        last = int(found.steps[0])
        energy = lw.kinetic_energy(model, found.q[0, : last + 1], found.v[0, : last + 1])
        assert np.ptp(energy) < 0.2 * energy[0], "no step loses the energy of the motion"
        if found.status[0] == lw.Status.DEAD_POINT:
            assert abs(found.q[0, last, 0] - np.pi) < 4.0 * dt, "the singular state is in the next step"


@pytest.mark.parametrize(
    "how", [{"contacts": lw.Contacts(ground=None)}, {"dtype": "float32"}], ids=["contacts", "float32"]
)
@pytest.mark.parametrize("dt", [1e-2, 1e-3])
def test_a_rank_drop_is_not_passed_where_all_steps_are_one_kernel(dt: float, how: dict[str, Any]) -> None:
    """The map G stays finite where all bars are in one line; a row cannot be refined there, and stops before."""
    model = four_bar(0.5, 0.7, 0.6, 0.8, gravity=0.0)
    q = crank_states(np.array([2.9, 2.9]), 0.5, 0.7, 0.6, 0.8)
    found = lw.rollout(model, q, [[3.0], [-3.0]], dt=dt, steps=round(0.16 / dt), **how)
    assert found.status.tolist() == [lw.Status.DEAD_POINT, lw.Status.OK]
    last = int(found.steps[0])
    assert abs(found.q[0, last, 0] - np.pi) < 4.0 * dt
    state = np.asarray(found.q[0, : last + 1], dtype=float), np.asarray(found.v[0, : last + 1], dtype=float)
    energy = lw.kinetic_energy(model, *state)
    assert np.ptp(energy) < 0.02 * energy[0]


@pytest.mark.slow
@pytest.mark.parametrize("held", [False, True], ids=["embedded", "constrained"])
@pytest.mark.parametrize("integrator", ["rk4", "rk45"])
def test_arms_of_a_satellite_pass_states_where_branches_meet(integrator: str, held: bool) -> None:
    """No step gains energy there, of whatever length; and the motion goes on, since it is smooth."""
    model = satellite().builder.build()
    q = model.neutral()
    v = np.random.default_rng(0).normal(size=model.nv)
    if held:
        v, model = lw.spanning_velocity(model, q, v), constrained(model)
    passed = []
    for dt in (2e-3, 1e-3, 5e-4):
        found = lw.rollout(model, q, v, dt=dt, steps=round(4.0 / dt), integrator=integrator, limits=False)
        last = int(found.steps)
        energy = lw.kinetic_energy(model, found.q[: last + 1], found.v[: last + 1])
        assert np.abs(np.diff(energy)).max() < 5e-5 * energy[0]
        lowest = lw.loop_conditioning(model, found.q[: last + 1], of="mechanism").min()
        assert lowest < 1e-3
        assert found.status in (lw.Status.OK, lw.Status.DEAD_POINT)
        passed.append(last * dt > 2.5)
    assert sum(passed) >= 2


def test_a_passage_is_that_of_the_singular_values_on_the_way() -> None:
    """Lines in the plane of singular values: crossing zero anywhere, touching it, and passing it at a
    distance.
    """

    def way(start: float, end: float, apart: float) -> Any:
        def equations(q: np.ndarray) -> list[np.ndarray]:
            s = start + q[:, 0] * (end - start)
            small = np.hypot(s, apart) if apart else s
            return [
                np.stack([np.stack([np.ones_like(s), 0 * s, s], -1), np.stack([0 * s, small, 0 * s], -1)], -2)
            ]

        return find_rank_drop(lambda at: at[:, None], equations, [2], abs(end - start))

    rng = np.random.default_rng(0)
    for start, end in rng.uniform(0.0, 0.1, (20, 2)):
        assert way(-start, end, 0.0).drops
        assert not way(start + 1e-3, end + 1e-3, 0.0).drops
        found = way(-start, end, 0.05)
        assert not found.drops and found.conditioning > 0.04


# closedness


@pytest.mark.parametrize("how", [{}, {"contacts": lw.Contacts(ground=None)}, {"dtype": "float32"}], ids=str)
@pytest.mark.parametrize("make", [lambda model: model, constrained], ids=["embedded", "constrained"])
def test_open_starts_take_no_step_unless_they_shall_be_closed(make: Any, how: dict[str, Any]) -> None:
    model = make(four_bar(0.3, 1.0, 0.8, 1.0))
    closed = crank_states(np.array([1.0, 2.0]))
    q = closed.copy()
    v = np.zeros((2, model.nv))
    q[0, 1] += 0.2
    found = lw.rollout(model, q, v, dt=1e-3, steps=5, **how)
    assert found.status.tolist() == [lw.Status.NOT_CLOSED, lw.Status.OK] and found.steps.tolist() == [0, 5]
    found = lw.rollout(model, q, v, dt=1e-3, steps=5, close=True, **how)
    assert (found.status == lw.Status.OK).all()
    far = 1e-4 if "dtype" in how else 1e-9
    assert np.abs(lw.closure_error(model, np.asarray(found.q, dtype=float))).max() < far
    if "dtype" not in how:
        log = lw.simulate(model, q, v, 0.005, progress=False, **how)
        assert log.status.tolist() == [lw.Status.NOT_CLOSED, lw.Status.OK]
        log = lw.simulate(model, q, v, 0.005, progress=False, close=True, **how)
        assert (log.status == lw.Status.OK).all()


def test_close_is_refused_where_it_has_no_meaning() -> None:
    arm = lw.robots.arm()
    q = np.zeros(arm.nq)
    with pytest.raises(lw.ModelError, match="rollout: close=True has no effect"):
        lw.rollout(arm, q, q, dt=1e-3, steps=1, close=True)
    with pytest.raises(lw.ModelError, match="rollout: close: expected True or False, got 'yes'"):
        lw.rollout(arm, q, q, dt=1e-3, steps=1, close="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [{}, {"contacts": lw.Contacts(ground=None)}, {"dtype": "float32"}])
def test_inputs_that_are_not_finite_are_named(how: dict[str, Any]) -> None:
    """The row stops with NOT_FINITE where the number comes in, and neither a loop nor a joint is blamed."""
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    q = crank_states(np.ones(3))
    v = np.zeros((3, 1))
    forces = np.zeros((3, 1))
    forces[1] = np.inf
    late = np.zeros((3, 4, 1))
    late[1, 2] = np.nan
    mass = np.array([model.parameters()["mass"]] * 3)
    mass[1, 1] = np.nan
    gains = np.array([[1.0], [np.nan], [1.0]]) * np.ones(model.nv)
    cases = [
        ({"tau": forces}, "input 'tau' is not finite at t = 0 s"),
        ({"tau": late}, "input 'tau' is not finite at t = 0.002 s"),
        ({"parameters": {"mass": mass}}, "parameter 'mass' is not finite at t = 0 s"),
        ({"tau": lw.PD(gains, 0.0, q[0])}, "input 'pd_kp' is not finite at t = 0 s"),
    ]
    for given, cause in cases:
        found = lw.rollout(model, q, v, dt=1e-3, steps=4, **given, **how)
        assert found.status.tolist() == [0, int(lw.Status.NOT_FINITE), 0]
        assert found.causes.tolist() == ["", cause, ""]
    fast = lw.rollout(model, q[0], [1e30], dt=1e-3, steps=2, dtype="float32")
    assert fast.causes.item().startswith("joint ")  # its loops were closed, and could not be in the next step


def test_rows_that_stop_name_the_first_cause() -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    closed = crank_states(np.array([1.0, 1.0, 1.0, 1.0]))
    q = closed.copy()
    v = np.zeros((4, 1))
    q[1, 1] += 0.2
    q[2, 1] = np.nan
    v[3] = np.inf
    for how in ({}, {"contacts": lw.Contacts(ground=None)}, {"dtype": "float32"}):
        found = lw.rollout(model, q, v, dt=1e-3, steps=4, **how)
        assert found.causes[0] == "" and found.causes.shape == (4,)
        assert found.causes[1].startswith("loop 'pin' is open by 0.2 m") and found.causes[1].endswith(
            "at t = 0 s"
        )
        assert found.causes[2] == "joint 'coupler': q is not finite at t = 0 s"
        assert found.causes[3].startswith("joint 'crank' moves at inf")
    flat = four_bar(0.5, 0.7, 0.6, 0.8, gravity=0.0)
    dead = lw.rollout(
        flat, crank_states(np.array(2.9), 0.5, 0.7, 0.6, 0.8), [3.0], dt=1e-3, steps=160, dtype="float32"
    )
    assert dead.causes.item().startswith("loops 'pin': mechanism near singular at t = 0.08")
    q = crank_states(np.array(2.9), 0.5, 0.7, 0.6, 0.8)
    held = constrained(flat)
    fast = lw.spanning_velocity(flat, q, [3.0])
    dead = lw.rollout(held, q, fast, dt=1e-2, steps=20, integrator="rk4")
    assert (dead.status == lw.Status.DEAD_POINT) == dead.causes.item().startswith(
        "loops 'pin': mechanism near singular"
    )
    arm = lw.robots.arm()
    huge = lw.rollout(arm, np.zeros(arm.nq), [0.0, 1e200, *np.zeros(arm.nv - 2)], dt=1e-3, steps=3)
    assert f"joint {arm.v_names[1]!r} moves at 1e+200" in huge.causes.item()


@pytest.mark.parametrize(
    "how", [{"contacts": lw.Contacts(ground=None)}, {"dtype": "float32"}], ids=["contacts", "float32"]
)
def test_constrained_loops_in_one_kernel_stop_near_a_rank_drop(how: dict[str, Any]) -> None:
    """At 3.14 rad all bars are in line; in single precision nothing tells branches apart there."""
    model = constrained(four_bar(0.5, 0.7, 0.6, 0.8, gravity=0.0))
    q = crank_states(np.array([2.9, 2.9]), 0.5, 0.7, 0.6, 0.8)
    v = lw.spanning_velocity(four_bar(0.5, 0.7, 0.6, 0.8, gravity=0.0), q, np.array([[3.0], [-3.0]]))
    found = lw.rollout(model, q, v, dt=1e-3, steps=160, **how)
    assert found.status.tolist() == [lw.Status.DEAD_POINT, lw.Status.OK]
    last = int(found.steps[0])
    assert abs(found.q[0, last, 0] - np.pi) < 0.02
