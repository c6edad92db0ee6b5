"""Constraints that act in some states and not in others: one kernel for all sets, against kernels of each
set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_constrained_dynamics import random_rows

import linkwork as lw
from holding import FEET, METHODS, close, dense, solved
from linkages import floats
from linkwork import Connect, Coupled, Gains, Hold, Locked, ModelError, OnPlane, Rolling, ShapeError, Weld
from linkwork.constraints import Constraint, total
from linkwork.joints import Free
from linkwork.model import Model
from mechanisms import random_model

methods = pytest.mark.parametrize("method", METHODS)


def held_quadruped() -> tuple[Model, tuple[Constraint, ...]]:
    """A quadruped with constraints of many kinds, some of which depend on others."""
    model = lw.robots.quadruped()
    single = [joint.name for joint in model.joints if joint.nv == 1]
    return model, (
        Connect(FEET[0], gains=Gains(0.0, 5.0)),
        Weld(FEET[1]),
        Hold(FEET[1], "x y", axes="frame"),
        Rolling(FEET[2], 0.05),
        OnPlane(FEET[3]),
        Connect(FEET[0], FEET[3]),
        Locked(single[3]),
        Coupled({single[6]: 1.0, single[7]: -0.5}),
    )


def states(model: Model, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(count))))
    return q, v, rng.normal(size=(count, model.nv))


def places(model: Model, constraints: tuple[Constraint, ...], mask: np.ndarray) -> np.ndarray:
    """The rows of the constraints that a mask chooses."""
    sizes = [total(model, [c]) for c in constraints]
    return np.flatnonzero(np.repeat(mask, sizes))


@methods
def test_inactive_constraints_are_as_if_they_were_not_given(method: str) -> None:
    model, constraints = held_quadruped()
    rng = np.random.default_rng(3)
    m = total(model, constraints)
    how = {"method": method, "tolerance": 1e-12}
    sets = [
        *(rng.random((4, len(constraints))) < 0.5),
        np.full(len(constraints), False),
        np.full(len(constraints), True),
    ]
    sets[0][1:3], sets[1][1:3], sets[2][1:3] = (True, True), (True, False), (False, True)
    for active in sets:
        q, v, tau = (x[0] for x in states(model, 1, rng))
        own = places(model, constraints, active)
        targets, start = np.full((2, m), np.nan)  # of what does not act, nothing is read
        targets[own], start[own] = rng.normal(size=(2, len(own)))
        a, f, left, _ = solved(model, q, v, tau, constraints, None, targets, start, active, **how)
        assert not np.delete(f, own).any()
        if not active.any():
            assert close(a, floats(lw.forward_dynamics, model, q, v, tau), 1e-12)
            continue
        some = tuple(c for c, acts in zip(constraints, active) if acts)
        right = solved(model, q, v, tau, some, None, targets[own], start[own], **how)
        assert close(a, right[0], 1e-9)
        assert close(f[own], right[1], 1e-6)  # redundant forces are shared out in the same way
        assert left == pytest.approx(right[2], abs=1e-9)


@methods
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_mechanisms_and_sets(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng, 6)
    constraints = [c for _ in range(3) for c in random_rows(model, rng, most=5)]
    for _ in range(3):
        active = rng.random(len(constraints)) < 0.4
        some = [c for c, acts in zip(constraints, active) if acts]
        q, v, tau = (x[0] for x in states(model, 1, rng))
        if not some or dense(model, q, v, tau, some).condition > 1e5:
            continue
        a, f, *_ = solved(model, q, v, tau, constraints, None, None, None, active, method=method)
        right = solved(model, q, v, tau, some, method=method)
        assert close(a, right[0], 1e-8)
        assert close(f[places(model, tuple(constraints), active)], right[1], 1e-6)


@methods
def test_all_sets_are_right_to_twelve_digits(method: str) -> None:
    model = lw.robots.quadruped()
    constraints = tuple(Connect(foot) for foot in FEET)
    q, v, tau = states(model, 16, np.random.default_rng(5))
    how: dict[str, Any] = {"method": method, "compliance": 1e-3, "tolerance": 1e-13, "iterations": 40}
    for k in (1, 6, 11, 14):
        active = [bool(k >> foot & 1) for foot in range(4)]
        some = tuple(c for c, acts in zip(constraints, active) if acts)
        found = solved(model, q[k], v[k], tau[k], constraints, None, None, None, active, **how)
        right = solved(model, q[k], v[k], tau[k], some, **how)
        assert close(found[0], right[0], 1e-12)
        assert close(found[1][places(model, constraints, np.array(active))], right[1], 1e-11)


def test_one_kernel_for_all_sets() -> None:
    """Each row of a batch has a set of its own, as numbers or as bool, and the bits that it has alone."""
    model = lw.robots.quadruped()
    constraints = tuple(Connect(foot) for foot in FEET)
    q, v, tau = states(model, 16, np.random.default_rng(5))
    active = (np.arange(16)[:, None] >> np.arange(4)) & 1
    a, f = lw.constrained_dynamics(model, q, v, tau, active=active, constraints=constraints)
    kernels = len(model.kernels)
    for k in range(16):
        alone = lw.constrained_dynamics(
            model, q[k], v[k], tau[k], active=active[k] > 0, constraints=constraints
        )
        assert np.array_equal(a[k], alone[0]) and np.array_equal(f[k], alone[1])
        own = places(model, constraints, active[k] > 0)
        assert not np.delete(f[k], own).any()
        J = floats(lw.constraint_jacobian, model, q[k], constraints=constraints)
        force = floats(lw.inverse_dynamics, model, q[k], v[k], a[k]) - tau[k]
        assert close(J.T @ f[k], force, 1e-8)
        some = tuple(c for c, acts in zip(constraints, active[k]) if acts)
        right = (
            solved(model, q[k], v[k], tau[k], some)[0]
            if some
            else floats(lw.forward_dynamics, model, q[k], v[k], tau[k])
        )
        assert close(a[k], right, 1e-9)
    assert len(model.kernels) == kernels


def test_loops_of_the_model_always_act() -> None:
    closed = lw.robots.four_bar()
    model = closed.with_loops(constrain=[loop.name for loop in closed.embedded])
    rng = np.random.default_rng(0)
    q, v, tau = states(model, 2, rng)
    frame = model.bodies[-1].name
    held = (Connect(frame),)
    a, f = lw.constrained_dynamics(model, q, v, tau, active=[[True], [False]], constraints=held)
    assert close(a[1], lw.forward_dynamics(model, q[1], v[1], tau[1]), 1e-8)
    assert not f[1, :3].any() and f[1, 3:].any()
    assert close(a[0], lw.constrained_dynamics(model, q[0], v[0], tau[0], constraints=held)[0], 1e-8)


@methods
def test_compliance_as_an_input(method: str) -> None:
    """One iteration is a soft constraint: its solution depends on the compliance."""
    model = lw.robots.chain(4)
    constraints = (
        Hold(model.bodies[3].name, "x y wz"),
        Hold(model.bodies[1].name, "y x"),
        OnPlane(model.bodies[2].name),
    )
    rng = np.random.default_rng(7)
    q, v, tau = states(model, 4, rng)
    R = 10.0 ** rng.uniform(-4.0, 0.0, size=(4, 6))
    how: dict[str, Any] = {"constraints": constraints, "method": method, "iterations": 1, "tolerance": None}
    a, f = lw.constrained_dynamics(model, q, v, tau, compliance=R, **how)
    for k in range(4):
        right = dense(model, q[k], v[k], tau[k], constraints).soft(R[k])
        assert close(a[k], right[0], 1e-9) and close(f[k], right[1], 1e-9)
    R[2, 4] = 0.0
    a, f = lw.constrained_dynamics(model, q, v, tau, compliance=R, **how)
    assert np.isnan(f[2]).any() and np.isfinite(f[[0, 1, 3]]).all()
    kernel = lw.compile(lw.constrained_dynamics, model, optional=("active", "compliance"), **how)
    assert [x.name for x in kernel.inputs] == ["q", "v", "tau", "active", "compliance"]


def test_impacts_and_delassus_matrices_of_active_constraints() -> None:
    model = lw.robots.chain(4, base=Free())
    names = [body.name for body in model.bodies]
    constraints = (Connect(names[1]), Weld(names[2]), OnPlane(names[3]))
    rng = np.random.default_rng(11)
    q, v, _ = states(model, 3, rng)
    active = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]])
    R = 10.0 ** rng.uniform(-4.0, -2.0, size=(3, 10))
    x = rng.normal(size=(3, 10))
    for k in range(3):
        own = places(model, constraints, active[k].astype(bool))
        some = tuple(c for c, acts in zip(constraints, active[k]) if acts)
        given: dict[str, Any] = {"active": active[k], "constraints": constraints}
        after, impulse = floats(
            lw.impact, model, q[k], v[k], restitution=np.full(10, 0.5), compliance=np.full(10, 1e-6), **given
        )
        fewer = {"restitution": np.full(len(own), 0.5), "compliance": np.full(len(own), 1e-6)}
        right = floats(lw.impact, model, q[k], v[k], constraints=some, **fewer)
        assert close(after, right[0], 1e-9) and close(impulse[own], right[1], 1e-9)
        assert not np.delete(impulse, own).any()
        whole = np.zeros((10, 10))
        whole[np.ix_(own, own)] = floats(lw.delassus, model, q[k], constraints=some, method="sweeps")
        assert all(
            close(floats(lw.delassus, model, q[k], method=how, **given), whole, 1e-12)
            for how in ("sweeps", "factorisation")
        )
        inverse = np.linalg.inv(whole + np.diag(R[k]))
        given |= {"compliance": R[k]}
        for method in ("caba", "pv", "ltl"):
            assert close(
                floats(lw.damped_delassus_inverse, model, q[k], method=method, **given), inverse, 1e-8
            )
    B, C = lw.damped_delassus_inverse_at_base(model, q, active=active, constraints=constraints, compliance=R)
    Wx = lw.damped_delassus_product(model, q, x, active=active, constraints=constraints, compliance=R)
    assert close(Wx[2], inverse @ x[2], 1e-8) and close(Wx[0, 3:9], (x / R)[0, 3:9], 1e-9)
    assert close(B[2] - C[2] @ C[2].T, inverse, 1e-8)
    assert close((B[0] - C[0] @ C[0].T)[3:9], np.diag(1.0 / R[0])[3:9], 1e-9)


def test_derivatives_of_active_constraints() -> None:
    model = lw.robots.chain(4)
    names = [body.name for body in model.bodies]
    constraints = (OnPlane(names[1], normal=(1.0, 2.0, 3.0)), Connect(names[2]), Hold(names[3], "y"))
    q, v, tau = states(model, 1, np.random.default_rng(2))
    active = np.array([[True, False, True]])
    own = places(model, constraints, active[0])
    wrt = ("q", "v", "tau", "mass")
    found = lw.constrained_dynamics_derivatives(
        model, q, v, tau, active=active, constraints=constraints, wrt=wrt
    )
    right = lw.constrained_dynamics_derivatives(model, q, v, tau, constraints=constraints[::2], wrt=wrt)
    for k in range(4):
        assert close(found[k], right[k], 1e-10)
        assert close(found[4 + k][:, own], right[4 + k], 1e-10)
        assert not np.delete(found[4 + k], own, axis=1).any()
    jacobian = lw.jacobian(
        lw.constrained_dynamics, model, wrt="v", optional=("active",), constraints=constraints
    )
    assert close(jacobian(q, v, tau, active)[0], right[1], 1e-9)
    vjp = lw.vjp(lw.constrained_dynamics, model, wrt="v", optional=("active",), constraints=constraints)
    bar = np.random.default_rng(3).normal(size=(1, model.nv))
    pulled = vjp(q, v, tau, active, bar, np.zeros((1, 5)))[-1]
    assert close(pulled, np.einsum("bi,bij->bj", bar, right[1]), 1e-9)


def test_a_condition_of_a_trace_activates() -> None:
    model = lw.robots.chain(3)
    constraints = tuple(Locked(joint.name) for joint in model.joints)

    def locked(q: Any, v: Any, speed: Any) -> Any:
        slow = np.array([abs(x) < speed for x in v], dtype=object)
        return lw.constrained_dynamics(model, q, v, np.zeros(3), active=slow, constraints=constraints)[0]

    q, _ = model.random_state(1)
    found = lw.compile(locked, {"q": 3, "v": 3, "speed": ()})(q, [0.1, 2.0, -0.2], 0.5)
    assert np.abs(found[[0, 2]]).max() < 1e-9 < np.abs(found[1])


def test_errors_name_what_is_wrong() -> None:
    model = lw.robots.quadruped()
    q, v = model.random_state(0)
    constraints = tuple(Connect(foot) for foot in FEET)
    with pytest.raises(ShapeError, match="active"):
        lw.constrained_dynamics(model, q, v, 0 * v, active=[True, False], constraints=constraints)
    with pytest.raises(ShapeError, match="compliance"):
        lw.constrained_dynamics(model, q, v, 0 * v, compliance=np.ones((2, 5)), constraints=constraints)
    with pytest.raises(ModelError, match="compliance"):
        lw.compile(lw.constrained_dynamics, model, compliance=np.ones((2, 12)), constraints=constraints)
