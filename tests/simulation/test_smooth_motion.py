"""Smooth motion over time: the symplectic midpoint rule, and adaptive steps with error control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import ModelBuilder, ModelError, Status
from linkwork.joints import Free, Prismatic, Revolute, Spherical
from linkwork.model import Model
from mechanisms import random_model
from planar_bars import four_bar, parallelograms

MIDPOINT = {"integrator": "implicit_midpoint"}


def energy(model: Model, q: Any, v: Any) -> np.ndarray:
    return np.asarray(lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q))


def top() -> Model:
    """A body that spins in free space, of three different moments of inertia."""
    builder = ModelBuilder("top", gravity=(0.0, 0.0, 0.0))
    builder.add_body("body", mass=2.0, center=(0.1, -0.2, 0.05), inertia=(0.2, 0.3, 0.4))
    builder.add_joint("free", Free(), parent="world", child="body")
    return builder.build()


def distances(
    model: Model, q: Any, v: Any, dts: tuple[float, ...], duration: float, **how: Any
) -> list[float]:
    """How far rollouts with steps of some lengths end from one that is exact."""
    right = lw.rollout(model, q, v, dt=duration, steps=1, integrator="rk45", rtol=1e-12, atol=1e-13)
    assert right.status == Status.OK
    found = []
    for dt in dts:
        n = round(duration / dt)
        end = lw.rollout(model, q, v, dt=dt, steps=n, record_every=n, **how)
        assert end.status == Status.OK
        away = np.abs(lw.difference(model, end.q[-1], right.q[-1])).max()
        found.append(float(max(away, np.abs(end.v[-1] - right.v[-1]).max())))
    return found


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "which", ["pendulum", "slider", pytest.param("top", marks=SLOW), pytest.param("balls", marks=SLOW)]
)
def test_the_midpoint_rule_is_of_order_two(which: str) -> None:
    model = {
        "pendulum": lambda: lw.robots.chain(2),
        "top": top,
        "balls": lambda: lw.robots.chain(2, joint=Spherical()),
        "slider": lambda: lw.robots.chain(2, joint=(Prismatic((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0)))),
    }[which]()
    q, v = model.random_state(1)
    coarse, fine = distances(model, q, 0.5 * v, (1.0 / 200, 1.0 / 400), 0.5, **MIDPOINT)
    assert 3.5 < coarse / fine < 4.5


def step_in_momenta(model: Model, q0: np.ndarray, z: np.ndarray, dt: float) -> np.ndarray:
    """One step from q0 ⊞ z[:nv] with canonical momenta z[nv:] of these coordinates, in the same coordinates
    around q0.
    """
    nv = model.nv

    def frame(x: np.ndarray) -> np.ndarray:
        """∂(tangent at q0 ⊞ x)/∂x."""
        return np.asarray(lw.integrate_derivatives(model, q0, x)[1])

    q = lw.integrate(model, q0, z[:nv])
    body = np.linalg.solve(frame(z[:nv]).T, z[nv:])
    v = np.linalg.solve(lw.mass_matrix(model, q), body)
    end = lw.rollout(model, q, v, dt=dt, steps=1, **MIDPOINT)
    x = lw.difference(model, q0, end.q[-1])
    return np.concatenate([x, frame(x).T @ (lw.mass_matrix(model, end.q[-1]) @ end.v[-1])])


@pytest.mark.parametrize("make", [lambda: lw.robots.chain(2), top], ids=["chain", "top"])
def test_the_midpoint_rule_is_symplectic(make: Any) -> None:
    model = make()
    nv = model.nv
    q, v = model.random_state(2)
    z = np.concatenate([np.zeros(nv), lw.mass_matrix(model, q) @ v])
    e = 1e-4
    n = 2 * nv
    # differences of order 4
    D = np.zeros((n, n))
    for k, unit in enumerate(np.eye(n)):
        a, b, c, d = (step_in_momenta(model, q, z + x * e * unit, 0.05) for x in (-2.0, -1.0, 1.0, 2.0))
        D[:, k] = (a - 8.0 * b + 8.0 * c - d) / (12.0 * e)
    J = np.block([[np.zeros((nv, nv)), np.eye(nv)], [-np.eye(nv), np.zeros((nv, nv))]])
    assert np.abs(D.T @ J @ D - J).max() < 1e-9
    euler = np.abs(D - np.eye(n)).max()
    assert euler > 1e-3  # the step is long enough to tell


@pytest.mark.parametrize(
    "which", ["pendulum", "double pendulum", "top", pytest.param("balls", marks=SLOW), "four bar"]
)
def test_energy_stays_where_it_is_over_long_times(which: str) -> None:
    model = {
        "pendulum": lambda: lw.robots.chain(1),
        "double pendulum": lambda: lw.robots.chain(2),
        "top": top,
        "balls": lambda: lw.robots.chain(1, joint=Spherical()),
        "four bar": lw.robots.four_bar,
    }[which]()
    q, v = model.random_state(3)
    steps = 1000 if model.loops else 20_000
    path = lw.rollout(model, q, v, dt=0.005, steps=steps, record_every=steps // 200, **MIDPOINT)
    assert path.status == Status.OK
    off = energy(model, path.q, path.v) - energy(model, q, v)
    early = off[:100]
    late = off[100:]
    assert np.abs(late).max() < 2.0 * np.abs(early).max() + 1e-9
    assert abs(late.mean() - early.mean()) < np.abs(early).max() + 1e-9
    assert np.abs(off).max() < 0.01 * max(1.0, abs(float(energy(model, q, v))))


def test_momentum_of_a_free_body_is_exact() -> None:
    model = top()
    q, v = model.random_state(4)
    path = lw.rollout(model, q, v, dt=0.02, steps=500, record_every=100, **MIDPOINT)
    l, p = np.split(lw.momentum(model, path.q, path.v), 2, axis=-1)
    l = l + np.cross(lw.center_of_mass(model, path.q), p)  # about the world's origin
    assert np.abs(l - l[0]).max() < 1e-10 and np.abs(p - p[0]).max() < 1e-10


def test_a_spring_and_a_damper() -> None:
    """The midpoint rule of a damped oscillator has a closed form, also where the spring is stiff."""
    builder = ModelBuilder("oscillator", gravity=(0.0, 0.0, 0.0))
    builder.add_body("mass", mass=2.0)
    builder.add_joint(
        "slide", Prismatic((1.0, 0.0, 0.0)), parent="world", child="mass", stiffness=3e5, damping=40.0
    )
    model = builder.build()
    dt = 0.01
    A = np.array([[0.0, 1.0], [-1.5e5, -20.0]])
    path = lw.rollout(model, [0.1], [0.0], [1.0], dt=dt, steps=50, **MIDPOINT)
    rest = np.array([1.0 / 3e5, 0.0])
    step = np.linalg.solve(np.eye(2) - 0.5 * dt * A, np.eye(2) + 0.5 * dt * A)
    x = np.array([0.1, 0.0])
    for k in range(51):
        assert np.abs([path.q[k, 0] - x[0], (path.v[k, 0] - x[1]) / 400.0]).max() < 1e-10
        x = rest + step @ (x - rest)


@pytest.mark.parametrize("integrator", ["implicit_midpoint", "rk45"])
def test_a_row_has_the_bits_that_it_has_alone(integrator: str) -> None:
    model = lw.robots.chain(2)
    rng = np.random.default_rng(5)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(5))))
    v *= np.array([0.0, 0.1, 1.0, 5.0, 20.0])[:, None]
    path = lw.rollout(model, q, v, dt=0.02, steps=20, integrator=integrator)
    for k in range(5):
        alone = lw.rollout(model, q[k], v[k], dt=0.02, steps=20, record_every=4, integrator=integrator)
        assert np.array_equal(alone.q, path.q[k, ::4], equal_nan=True)
        called = lw.rollout(
            model, q[k], v[k], lambda q, v, t: 0.0 * v, dt=0.02, steps=20, integrator=integrator
        )
        assert np.allclose(called.q, path.q[k], rtol=0.0, atol=1e-7, equal_nan=True)


def test_adaptive_steps_keep_their_tolerance() -> None:
    model = lw.robots.chain(3)
    q, v = model.random_state(6)
    loose, tight = (
        distances(model, q, v, (0.5,), 1.0, integrator="rk45", rtol=r, atol=r)[0] for r in (1e-4, 1e-8)
    )
    assert tight < 1e-6 < loose < 0.1


def test_adaptive_steps_through_a_kink_and_with_policies() -> None:
    """Forces that change from step to step, and a policy of time, which is asked at the times of all stages."""
    builder = ModelBuilder("cart", gravity=(0.0, 0.0, 0.0))
    builder.add_body("mass", mass=2.0)
    builder.add_joint("slide", Prismatic((1.0, 0.0, 0.0)), parent="world", child="mass")
    model = builder.build()
    forces = np.array([[2.0], [-2.0]])
    path = lw.rollout(model, [0.0], [0.0], forces, dt=1.0, steps=2, integrator="rk45")
    assert path.q[:, 0] == pytest.approx([0.0, 0.5, 1.0]) and path.v[:, 0] == pytest.approx(
        [0.0, 1.0, 0.0], abs=1e-12
    )
    how: dict[str, Any] = {"dt": 2.0, "steps": 3, "integrator": "rk45", "rtol": 1e-10, "atol": 1e-12}
    waves = lw.rollout(
        model, [0.0], [0.0], policy=lambda q, v, t, _: np.array([2.0 * lw.cos(3.0 * t)]), **how
    )
    t = 2.0 * np.arange(4)
    assert waves.v[:, 0] == pytest.approx(np.sin(3.0 * t) / 3.0, abs=1e-8)
    rows = lw.rollout(
        model, [[0.0], [0.0]], [0.0], lambda q, v, t: 2.0 * np.cos(3.0 * t)[:, None] * [[1.0], [0.0]], **how
    )
    assert rows.v[0, :, 0] == pytest.approx(waves.v[:, 0], abs=1e-8) and not rows.v[1].any()


@pytest.mark.parametrize("how", [{"integrator": "rk45", "rtol": 1e-9}, MIDPOINT], ids=["rk45", "midpoint"])
def test_loops_stay_closed_and_keep_their_energy(how: dict[str, Any]) -> None:
    model = lw.robots.four_bar()
    q = np.array([model.random_state(k)[0] for k in range(2)])
    v = np.array([[4.0], [-2.0]])
    path = lw.rollout(model, q, v, dt=0.005, steps=200, record_every=50, **how)
    assert (path.status == Status.OK).all()
    assert lw.close_loops(model, path.q)[1].max() < 1e-9
    off = energy(model, path.q, path.v) - energy(model, q, v)[:, None]
    assert np.abs(off).max() < (1e-6 if how["integrator"] == "rk45" else 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_trees(seed: int) -> None:
    """Both agree with each other as steps get shorter, for all kinds of joints, springs, dampers and
    armatures.
    """
    model = random_model(np.random.default_rng(seed), 4)
    q, v = model.random_state(seed)
    coarse, fine = distances(model, q, 0.3 * v, (1e-3, 5e-4), 0.05, **MIDPOINT)
    assert fine < 1e-9 or 3.0 < coarse / fine < 5.0


def test_errors_say_what_would_be_right() -> None:
    model = lw.robots.chain(1)
    q, v = model.random_state(0)
    with pytest.raises(ModelError, match="rtol= is for integrator='rk45'"):
        lw.rollout(model, q, v, dt=0.1, steps=1, rtol=1e-3)
    with pytest.raises(ModelError, match=r"atol\b.* a number.* at least 1e-14.*0\.0"):
        lw.rollout(model, q, v, dt=0.1, steps=1, integrator="rk45", atol=0.0)
    closed = lw.robots.four_bar()
    held = closed.with_loops(constrain=[loop.name for loop in closed.embedded])
    with pytest.raises(ModelError, match="implicit_midpoint requires embedded loops"):
        lw.rollout(held, *held.random_state(0), dt=0.1, steps=1, **MIDPOINT)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"integrator": "rk45", "rtol": 1e-8}, marks=SLOW, id="rk45"),
        pytest.param(MIDPOINT, id="midpoint"),
    ],
)
def test_turning_and_flat_positions_are_passed_or_told(how: dict[str, Any]) -> None:
    """A rocker that turns back, and parallelograms through the position where all bars are in one line."""
    rocker = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker", gravity=0.0)
    crank = rocker.with_independent("crank")
    q = crank.neutral()
    v = lw.spanning_velocity(crank, q, [8.0])[[rocker.joint("rocker").v_start]]
    path = lw.rollout(rocker, q, v, dt=0.002, steps=300, **how)
    assert path.status == Status.OK and abs(path.q[-1, 0] - path.q[0, 0]) > np.pi
    good = lw.loop_conditioning(rocker, path.q)[:, 0] > 0.05
    kept = energy(rocker, path.q[good], path.v[good])
    assert np.abs(kept - kept[0]).max() < 1e-3 * kept[0]
    flat = parallelograms(2)
    path = lw.rollout(flat, np.zeros(flat.nq), [-1.0], dt=0.002, steps=850, **how)
    last = int(path.steps) + 1
    assert path.status in (Status.OK, Status.DEAD_POINT) and last > 700
    good = lw.loop_conditioning(flat, path.q[:last])[:, 0] > 0.05
    total = energy(flat, path.q[:last][good], path.v[:last][good])
    assert (
        np.abs(total - total[0]).max()
        < 1e-3 * np.abs(lw.kinetic_energy(flat, path.q[:last], path.v[:last])).max()
    )


def test_a_state_that_is_not_closed_is_noticed() -> None:
    model = lw.robots.four_bar()
    q = model.neutral()
    q[-1] += 0.1
    for integrator in ("semi_implicit_euler", "rk4", "rk45", "implicit_midpoint"):
        path = lw.rollout(model, q, [1.0], dt=0.002, steps=3, integrator=integrator)
        assert path.status == Status.NOT_CLOSED and path.steps == 0
