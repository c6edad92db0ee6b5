"""Limits of joints and dry friction act in every kind of step without contacts, unless they are switched off."""

from __future__ import annotations

import inspect
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Cylindrical, Planar, Prismatic, Revolute, Universal

DT = 1e-3
FRICTION = 0.2  # [N m]
NONE = (-np.inf, np.inf)  # no limits


def door(upper: float = 1.6, friction: float = 0.0) -> lw.Model:
    """A door about the vertical, at 2 rad/s in the tests."""
    builder = lw.ModelBuilder("door")
    builder.add_body("leaf", mass=10.0, center=(0.4, 0.0, 0.0), inertia=(0.1, 1.0, 1.0))
    builder.add_joint(
        "hinge", Revolute((0.0, 0.0, 1.0)), parent="world", child="leaf", upper=upper, friction=friction
    )
    return builder.build()


def arm(rng: np.random.Generator, limit: float = 0.3) -> lw.Model:
    """Three links with limits and dry friction."""
    builder = lw.ModelBuilder("arm")
    parent = "world"
    for k in range(3):
        builder.add_body(f"link{k}", mass=1.0, center=(0.1, 0.0, -0.3), inertia=(0.1, 0.1, 0.1))
        axis = rng.normal(size=3)
        own: dict[str, Any] = {"lower": -limit, "upper": limit, "friction": FRICTION}
        builder.add_joint(f"turn{k}", Revolute(tuple(axis)), parent=parent, child=f"link{k}", **own)
        parent = f"link{k}"
    return builder.build()


def by_step(model: lw.Model, q: Any, v: Any, steps: int, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(steps):
        q, v = lw.step(model, q, v, np.zeros(model.nv), DT, **how)
    return q, v


def by_rollout(model: lw.Model, q: Any, v: Any, steps: int, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    found = lw.rollout(model, q, v, dt=DT, steps=steps, record_every=steps, **how)
    assert found.status == lw.Status.OK
    return found.q[-1], found.v[-1]


def by_call(model: lw.Model, q: Any, v: Any, steps: int, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    return by_rollout(model, q, v, steps, tau=lambda q, v, t: np.zeros(model.nv), **how)


def by_simulate(model: lw.Model, q: Any, v: Any, steps: int, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    log = lw.simulate(model, q, v, steps * DT, dt=DT, record_every=steps, **how)
    assert log.status == lw.Status.OK
    return log.q[-1], log.v[-1]


def by_environment(model: lw.Model, q: Any, v: Any, steps: int, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    pytest.importorskip("gymnasium")
    env = lw.interop.gymnasium.VectorEnv(
        model,
        1,
        dt=DT,
        decimation=steps,
        action=lw.interop.gymnasium.torques(model, 1.0),
        reset=lambda rng, n: (np.tile(q, (n, 1)), np.tile(v, (n, 1))),
        dtype="float64",
        **how,
    )
    env.reset(seed=0)
    seen = env.step(np.zeros((1, model.nv)))[0][0]
    return seen[: model.nq], seen[model.nq :]


WAYS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "step": by_step,
    "rollout": by_rollout,
    "tau(q, v, t)": by_call,
    "simulate": by_simulate,
    "VectorEnv": by_environment,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_door_stops_at_its_limit_and_passes_it_without(way: str) -> None:
    """The case of the issue: it ended at 3.43 rad with status OK."""
    run = WAYS[way]
    model = door()
    q, v = run(model, np.zeros(1), np.array([2.0]), 1500)
    assert abs(q[0] - 1.6) < 1e-9 and abs(v[0]) < 1e-9
    q, v = run(model, np.zeros(1), np.array([2.0]), 1500, limits=False)
    assert abs(q[0] - 3.0) < 1e-9 and v[0] == 2.0


@pytest.mark.parametrize("way", WAYS)
def test_dry_friction_brakes_at_its_torque_and_holds(way: str) -> None:
    run = WAYS[way]
    model = door(np.inf, 2.6)
    q, v = run(model, np.zeros(1), np.array([1.0]), 500)  # inertia 2.6 kg m²: 1 rad/s² of braking
    assert abs(v[0] - 0.5) < 1e-9
    assert abs(q[0] - 0.375) < 1e-3
    q, v = run(model, np.zeros(1), np.array([1.0]), 1500)
    assert abs(q[0] - 0.5) < 1e-3 and abs(v[0]) < 1e-12
    assert run(model, np.zeros(1), np.array([1.0]), 500, friction=False)[1][0] == 1.0


@pytest.mark.parametrize("integrator", ["rk4", "rk45", "implicit_midpoint", "linearly_implicit_euler"])
@pytest.mark.parametrize("way", ["rollout", "tau(q, v, t)", "simulate"])
def test_every_integrator_honours_limits_and_friction(integrator: str, way: str) -> None:
    run = WAYS[way]
    model = door(0.3, 2.6)
    q, v = run(model, np.zeros(1), np.array([1.0]), 200, integrator=integrator)  # sliding, before the limit
    assert abs(v[0] - 0.8) < 1e-9
    exact = integrator in ("rk4", "rk45", "implicit_midpoint")
    assert abs(q[0] - (0.2 - 0.02)) < (1e-9 if exact else 1e-3)
    q, v = run(model, np.zeros(1), np.array([1.0]), 600, integrator=integrator)
    assert abs(q[0] - 0.3) < 1e-9 and abs(v[0]) < 1e-9
    q, v = run(model, np.zeros(1), np.array([0.5]), 1500, integrator=integrator)
    assert abs(q[0] - 0.125) < 1e-3 and abs(v[0]) < 1e-12


def laws_hold(
    model: lw.Model, q: np.ndarray, v: np.ndarray, free: np.ndarray, v_end: np.ndarray, limit: float
) -> None:
    """Complementarity of limits and dry friction, by dense algebra, for joints with one velocity each."""
    impulses = lw.mass_matrix(model, q) @ (v_end - free)
    low = (-limit - q) / DT
    high = (limit - q) / DT
    size = max(1.0, float(np.abs(free).max()))
    assert (v_end > low - 1e-7 * size).all() and (v_end < high + 1e-7 * size).all()
    for k, p in enumerate(impulses):
        most = DT * FRICTION
        at_low = v_end[k] < low[k] + 1e-7 * size
        at_high = v_end[k] > high[k] - 1e-7 * size
        if not (at_low or at_high):
            assert abs(p) <= most * (1 + 1e-6) + 1e-12
            assert abs(v_end[k]) < 1e-7 * size or abs(p + most * np.sign(v_end[k])) < 1e-9 * size
        assert at_low or p <= most * (1 + 1e-6) + 1e-12
        assert at_high or p >= -most * (1 + 1e-6) - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_steps_satisfy_complementarity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = arm(rng)
    for _ in range(20):
        q = rng.uniform(-0.3, 0.3, 3)
        q[rng.integers(3)] = rng.choice([-0.3, 0.3])
        v = rng.normal(scale=3.0, size=3)
        tau = rng.normal(scale=rng.choice([0.1, 5.0]), size=3)
        free = v + DT * lw.forward_dynamics(model, q, v, tau)
        laws_hold(model, q, v, free, lw.step(model, q, v, tau, DT)[1], 0.3)


def test_bits_do_not_change_where_no_law_acts() -> None:
    rng = np.random.default_rng(0)
    builder = lw.ModelBuilder("arm")
    for k, parent in enumerate(("world", "link0")):
        builder.add_body(f"link{k}", mass=1.0, center=(0.0, 0.0, -0.3), inertia=(0.1, 0.1, 0.1))
        builder.add_joint(
            f"turn{k}", Revolute((0.0, 1.0, 0.0)), parent=parent, child=f"link{k}", lower=-50.0, upper=50.0
        )
    model = builder.build()
    q = rng.normal(size=(4, 2))
    v = rng.normal(size=(4, 2))
    for how in ({}, {"integrator": "rk4"}, {"dtype": "float32"}):
        with_limits, without = (
            lw.rollout(model, q, v, dt=DT, steps=50, limits=on, **how) for on in (True, False)
        )
        assert np.array_equal(with_limits.q, without.q) and np.array_equal(with_limits.v, without.v)


def test_programs_do_not_change_where_a_model_has_none() -> None:
    model = lw.robots.four_bar()
    assert lw.step.program(model).digest == lw.step.program(model, limits=False, friction=False).digest
    limited = door()
    assert lw.step.program(limited).digest == lw.step.program(limited, friction=False).digest
    assert lw.step.program(limited).digest != lw.step.program(limited, limits=False).digest


JOINTS: dict[
    str, tuple[Any, int, int]
] = {  # kind, the coordinate with a limit, and the velocity that leads there
    "revolute": (Revolute((0.0, 0.0, 1.0)), 0, 0),
    "prismatic": (Prismatic((1.0, 0.0, 0.0)), 0, 0),
    "universal": (Universal(), 1, 1),
    "cylindrical": (Cylindrical(), 1, 1),
    "planar": (Planar(), 0, None),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("kind", JOINTS)
def test_all_kinds_of_joints_keep_their_limits(kind: str) -> None:
    joint, i, _ = JOINTS[kind]
    builder = lw.ModelBuilder("one", gravity=(0.0, 0.0, 0.0))
    builder.add_body("body", mass=2.0, center=(0.1, 0.2, 0.0), inertia=(0.2, 0.3, 0.4))
    upper = np.full(joint.nq, np.inf)
    upper[i] = 0.25
    builder.add_joint("joint", joint, parent="world", child="body", upper=tuple(upper))
    model = builder.build()
    rng = np.random.default_rng(1)
    q = model.neutral()
    v = rng.normal(size=model.nv)
    if lw.rollout(model, q, v, dt=DT, steps=1, limits=False).q[-1, i] < q[i]:
        v = -v
    reached = lw.rollout(model, q, 2.0 * v, dt=DT, steps=3000)
    assert reached.q[:, i].max() < 0.25 + 1e-4
    assert reached.q[:, i].max() > 0.2
    assert (lw.rollout(model, q, 2.0 * v, dt=DT, steps=3000, limits=False).q[:, i]).max() > 0.3


def four_bar(embed: bool, joint: str, span: tuple[float, float], friction: float = 0.0) -> lw.Model:
    """A crank and a rocker in the vertical plane; the joint with the limit may be a dependent one."""
    builder = lw.ModelBuilder("four bar", gravity=(0.0, -9.81, 0.0))
    rows = [("crank", "world", 0.0, 0.2), ("coupler", "crank", 0.2, 0.5), ("rocker", "world", 0.5, 0.4)]
    for name, parent, x, length in rows:
        builder.add_body(name, mass=length, center=(0.5 * length, 0.0, 0.0), inertia=(1e-3, 1e-2, 1e-2))
        own: dict[str, Any] = (
            {"lower": span[0], "upper": span[1], "friction": friction} if name == joint else {}
        )
        first = name == "crank" if embed else None
        builder.add_joint(
            name,
            Revolute((0.0, 0.0, 1.0)),
            parent=parent,
            child=name,
            xyz=(x, 0.0, 0.0),
            independent=first,
            **own,
        )
    ends: dict[str, Any] = {"xyz": (0.5, 0.0, 0.0), "successor_xyz": (0.4, 0.0, 0.0), "embed": embed}
    builder.add_loop("loop", Revolute((0.0, 0.0, 1.0)), predecessor="coupler", successor="rocker", **ends)
    return builder.build(start={"crank": 1.0, "coupler": 0.0, "rocker": 1.5})


@pytest.mark.parametrize("way", ["step", "rollout", "tau(q, v, t)", "simulate"])
@pytest.mark.parametrize("joint", ["crank", "rocker"])
@pytest.mark.parametrize("embed", [True, False])
def test_joints_of_loops_keep_their_limits(way: str, joint: str, embed: bool) -> None:
    run = WAYS[way]
    free = four_bar(embed, joint, NONE)
    q = lw.close_loops(free, free.neutral() if embed else np.array([1.0, -0.3, 1.6]))[0]
    still = np.zeros(free.nv)
    place = ["crank", "coupler", "rocker"].index(joint)
    moved = abs(by_rollout(free, q, still, 150)[0][place] - q[place])
    assert moved > 0.004
    model = four_bar(embed, joint, (q[place] - 0.5 * moved, q[place] + 0.5 * moved))
    end, v = run(model, q, still, 150)
    assert abs(abs(end[place] - q[place]) - 0.5 * moved) < 1e-3 * moved + 1e-6
    assert np.abs(v).max() < 0.02
    assert lw.close_loops(model, end)[1] < 1e-8


def wrist(limits: dict[str, tuple[float, float]], gear: str, offset: float) -> lw.Model:
    """A balanced rotor on an arm, alone or geared to a second link; `offset` [m] unbalances it."""
    builder = lw.ModelBuilder("wrist")
    bodies = {
        "arm": ("world", (0.0, 1.0, 0.0)),
        "rotor": ("arm", (0.0, 0.0, 1.0)),
        "link": ("arm", (0.0, 0.0, 1.0)),
    }
    for name, (parent, axis) in list(bodies.items())[: 3 if gear else 2]:
        center = (offset if name == "rotor" else 0.1, 0.0, 0.0)
        builder.add_body(name, mass=0.5, center=center, inertia=(0.01, 0.01, 0.02))
        own = dict(zip(("lower", "upper"), limits.get(name, NONE)))
        builder.add_joint(name, Revolute(axis), parent=parent, child=name, **own)
    if gear:
        builder.add_coupling("gear", {"link": 6.0, "rotor": -1.0}, offset=0.1, embed=gear == "embedded")
    return builder.build()


@pytest.mark.parametrize(
    "gear, link",
    [("", NONE), ("embedded", NONE), ("embedded", (-0.5, 0.05)), ("constrained", (-0.5, 0.5))],
)
def test_limits_of_balanced_bodies_act(gear: str, link: tuple[float, float]) -> None:
    limits = {"rotor": (-2.0, 1.0), "link": link}
    highest = 6.0 * 0.05 - 0.1 if gear and link == (-0.5, 0.05) else 1.0
    paths = []
    for offset in (0.0, 1e-7):  # a balanced body is lumped, another is not
        model = wrist(limits, gear, offset)
        q = lw.close_loops(model, model.neutral())[0]
        v = {"arm": 0.5, "rotor": 6.0, "link": 1.0}
        path = lw.rollout(model, q, [v[name] for name in model.v_names], dt=DT, steps=300)
        assert path.status == lw.Status.OK
        assert abs(path.q[:, 1].max() - highest) < 1e-6
        paths.append(path.q)
    assert np.abs(paths[0] - paths[1]).max() < 1e-4


@pytest.mark.parametrize("embed", [True, False])
def test_dry_friction_holds_a_loop(embed: bool) -> None:
    free = four_bar(embed, "rocker", NONE)
    q = lw.close_loops(free, free.neutral() if embed else np.array([1.0, -0.3, 1.6]))[0]
    model = four_bar(embed, "rocker", NONE, friction=50.0)
    end, v = by_rollout(model, q, np.zeros(model.nv), 300)
    assert np.abs(end - q).max() < 1e-6 and np.abs(v).max() < 1e-6


def test_friction_in_loops_is_refused_by_higher_orders() -> None:
    model = four_bar(True, "rocker", NONE, friction=1.0)
    q = lw.close_loops(model, model.neutral())[0]
    v = np.zeros(1)
    with pytest.raises(lw.ModelError, match="rocker"):
        lw.rollout(model, q, v, dt=DT, steps=2, integrator="rk4")
    lw.rollout(model, q, v, dt=DT, steps=2, integrator="rk4", friction=False)


def test_options_must_be_truth_values_and_reach_contacts() -> None:
    model = door()
    z = np.zeros(1)
    with pytest.raises(lw.ModelError, match="limits"):
        lw.rollout(model, z, z, dt=DT, steps=1, limits="no")  # type: ignore[arg-type]
    contacts = lw.Contacts(ground=None)
    end = lw.rollout(model, z, np.array([2.0]), dt=DT, steps=1500, contacts=contacts, limits=False).q[-1]
    assert abs(end[0] - 3.0) < 1e-9


def test_friction_as_a_parameter_acts_only_where_there_is_a_row() -> None:
    model = door(np.inf, 2.6)
    z = np.zeros((2, 1))
    v = np.ones((2, 1))
    end = lw.rollout(model, z, v, dt=DT, steps=100, parameters={"friction": np.array([[2.6], [0.0]])}).v[
        :, -1, 0
    ]
    assert np.allclose(end, [0.9, 1.0], atol=1e-12)
    with pytest.raises(lw.ModelError, match="hinge"):
        lw.rollout(door(), z, v, dt=DT, steps=1, parameters={"friction": np.array([[2.6], [0.0]])})
    with pytest.raises(lw.ModelError, match="hinge"):
        lw.rollout(
            model, z, v, dt=DT, steps=1, parameters={"friction": np.array([[2.6], [0.0]])}, friction=False
        )


def test_derivatives_are_those_of_the_branch() -> None:
    model, z = door(), np.zeros(1)
    at = (np.array([1.5999]), np.array([2.0]), z, DT)
    for place, way in enumerate((np.array([1.0, 0.0]), np.array([0.0, 1.0]))):
        exact = lw.jacobian(lw.step, model)(*at)
        end = lambda e, way=way: lw.step(model, at[0] + e * way[0], at[1] + e * way[1], z, DT)  # noqa: E731
        by = [(a - b) / 2e-7 for a, b in zip(end(1e-7), end(-1e-7))]
        assert np.allclose(np.concatenate(by), [exact[place][0, 0], exact[4 + place][0, 0]], atol=1e-5)


def test_every_function_that_steps_has_the_switches() -> None:
    for function in (lw.rollout, lw.simulate, lw.step.body):
        own = inspect.signature(function).parameters
        assert own["limits"].default is True and own["friction"].default is True


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_exported_rollouts_have_the_same_bits(integrator: str, tmp_path: Path) -> None:
    """Steps in C reach the limit, and agree with those here in recorded calls."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("needs gcc")
    made = lw.export_c(lw.rollout, door(0.01, 2.6), tmp_path, integrator=integrator)
    check = tmp_path / "check"
    subprocess.run([gcc, "-std=c99", "-O1", made.source, made.test, "-o", check, "-lm"], check=True)
    assert (
        subprocess.run([check], check=True, capture_output=True, text=True).stdout == "8 passed, 0 failed\n"
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_steps_have_the_same_bits_however_they_are_recorded(dtype: str) -> None:
    model = door(0.3, 0.5)
    v = np.array([[1.0], [0.2], [2.0]])
    often, seldom = (
        lw.rollout(model, np.zeros((3, 1)), v, dt=DT, steps=400, record_every=n, dtype=dtype)
        for n in (1, 100)
    )
    assert np.array_equal(often.q[:, ::100], seldom.q) and np.array_equal(often.v[:, ::100], seldom.v)
    alone = lw.rollout(model, np.zeros(1), v[2], dt=DT, steps=400, dtype=dtype)
    assert np.array_equal(alone.q, often.q[2])
