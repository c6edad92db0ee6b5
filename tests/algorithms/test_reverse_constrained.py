"""Reverse mode of constrained dynamics, at the solution, against forward mode through the iterations; in JAX
and PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_constrained_derivatives import walker

import linkwork as lw
from linkages import floats
from linkwork import Connect, Gains, Hold
from linkwork.functions.constraint_options import normalize_constraints
from mechanisms import state_of

CASES: dict[str, tuple[Any, list[Any]]] = {
    "walker": (walker, [Connect("body2", gains=Gains(damping=3.0)), Hold("body4", "wx", "body1")]),
    "redundant": (walker, [Connect("body2"), Hold("body4", "wx x"), Hold("body2", "x y z")]),
    "planar leg": (lw.robots.planar_leg_linkage, [Hold("foot", "x")]),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_times_jacobians(name: str) -> None:
    """Of `constrained_dynamics_derivatives`, which is checked against 60 digits."""
    model = CASES[name][0]()
    constraints = CASES[name][1]
    rng = np.random.default_rng(1)
    q, v, _, tau, f_ext = state_of(model, rng)
    every = normalize_constraints(model, constraints)["constraints"]
    jacobians = floats(lw.constrained_dynamics_derivatives, model, q, v, tau, f_ext, constraints=every)
    bars = [rng.normal(size=len(jacobians[k])) for k in (0, 3)]
    rule = lw.constrained_dynamics.rule
    assert rule is not None and rule.pullback is not None
    _, found = rule.pullback(bars, ("q", "v", "tau"), model, q, v, tau, f_ext=f_ext, constraints=every)
    for x, A, F in zip(found, jacobians[:3], jacobians[3:], strict=True):
        assert np.abs(x - bars[0] @ A - bars[1] @ F).max() < 1e-10 * max(
            1.0, np.abs(A).max(), np.abs(F).max()
        )


def test_forward_and_reverse_mode_agree() -> None:
    """Forward mode goes through the iterations; also by f_ext, targets and parameters."""
    model, constraints = CASES["walker"]
    model = model()
    rng = np.random.default_rng(2)
    q, v, _, tau, f_ext = state_of(model, rng)
    wrt = ("q", "v", "tau", "f_ext", "targets", "mass", "placement@joint2")
    how: dict[str, Any] = {"constraints": constraints, "wrt": wrt}
    back = lw.vjp(lw.constrained_dynamics, model, **how)
    along = lw.jvp(lw.constrained_dynamics, model, **how)
    now = model.parameters()
    args = [q, v, tau, f_ext, rng.normal(size=4), now["mass"], now["placement"][2]]
    bars = [rng.normal(size=array.shape) for array in back.program().outputs[:2]]
    directions = [rng.normal(size=a.shape) for a in along.program().inputs[7:]]
    pulled = lw.interpret(lw.lower(back.program()), *args, *bars)[2:]
    pushed = lw.interpret(lw.lower(along.program()), *args, *directions)[2:]
    one = sum(np.vdot(x, y) for x, y in zip(pulled, directions))
    other = sum(np.vdot(x, y) for x, y in zip(pushed, bars))
    assert abs(one - other) < 1e-8 * max(1.0, abs(one))


def test_what_is_not_solved_is_differentiated_as_it_is() -> None:
    """A fixed number of iterations has no loop: soft constraints keep their own derivative. With details,
    reverse mode goes by Jacobians in forward mode."""
    model, constraints = CASES["planar leg"]
    model = model()
    q, v, _, tau, _ = state_of(model, np.random.default_rng(3))
    soft: dict[str, Any] = {"constraints": constraints, "compliance": 0.5, "iterations": 1, "tolerance": None}
    found = lw.interpret(
        lw.lower(lw.jacobian(lw.constrained_dynamics, model, wrt="tau", **soft).program()), q, v, tau
    )[0]
    program = lw.lower(lw.constrained_dynamics.program(model, **soft))
    ends = [lw.interpret(program, q, v, tau + s * e)[0] for e in 1e-3 * np.eye(model.nv) for s in (1, -1)]
    assert np.allclose(found, (np.array(ends[::2]) - np.array(ends[1::2])).T / 2e-3, atol=1e-7)
    hard = lw.constrained_dynamics_derivatives.program(model, constraints=constraints, wrt="tau")
    assert np.abs(found - lw.interpret(lw.lower(hard), q, v, tau)[0]).max() > 1e-3
    told: dict[str, Any] = {"constraints": constraints, "details": True, "wrt": "tau"}
    back = lw.vjp(lw.constrained_dynamics, model, **told).program()
    bars = [
        np.linspace(0.5, 1.5, a.size).reshape(a.shape) if k == 0 else np.zeros(a.shape)
        for k, a in enumerate(back.inputs[3:])
    ]
    pulled = lw.interpret(lw.lower(back), q, v, tau, *bars)[-1]
    assert np.allclose(pulled, bars[0] @ lw.interpret(lw.lower(hard), q, v, tau)[0], atol=1e-8)


def held_four_bar() -> tuple[lw.Model, np.ndarray, np.ndarray, np.ndarray]:
    model = lw.robots.four_bar()
    held = model.with_loops(constrain=[loop.name for loop in model.embedded])
    q, v, *_ = state_of(model, np.random.default_rng(4))
    V = np.asarray(lw.spanning_velocity.body(model, q, v)).astype(float)
    return held, q, V, np.linspace(-1.0, 1.0, held.nv)


def test_forward_dynamics_with_loops_that_forces_hold() -> None:
    held, q, V, tau = held_four_bar()
    made = lw.vjp(lw.forward_dynamics, held)
    bar = np.linspace(0.5, 1.5, held.nv)
    _, *found = lw.interpret(lw.lower(made.program()), q, V, tau, bar)
    along = lw.lower(lw.jvp(lw.forward_dynamics, held).program())
    rng = np.random.default_rng(5)
    d = rng.normal(size=(3, held.nv))
    assert abs(bar @ lw.interpret(along, q, V, tau, *d)[1] - sum(x @ y for x, y in zip(found, d))) < 1e-7


@pytest.mark.slow
def test_in_jax() -> None:
    """Gradients by the entries of a free base's q, through a step and a constraint that iterates."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    model, constraints = CASES["walker"]
    model = model()
    rng = np.random.default_rng(6)
    q, v, _, tau, _ = state_of(model, rng)
    dynamics = lw.interop.jax.function(lw.constrained_dynamics, model, constraints=constraints)
    bar, weights = rng.normal(size=model.nv), rng.normal(size=4)

    def cost(q: Any, v: Any, tau: Any) -> Any:
        a, forces = dynamics(q, v, tau)
        return a @ bar + forces @ weights

    found = jax.grad(cost, argnums=(0, 1, 2))(q, v, tau)
    made = lw.vjp(lw.constrained_dynamics, model, constraints=constraints)
    right = lw.interpret(lw.lower(made.program()), q, v, tau, bar, weights)
    moved = (
        lw.integrate(model, q, 1e-6 * np.arange(model.nv)),
        lw.integrate(model, q, -1e-6 * np.arange(model.nv)),
    )
    assert np.allclose(found[0] @ (moved[0] - moved[1]) / 2e-6, right[2] @ np.arange(model.nv), rtol=1e-6)
    assert np.allclose(found[1], right[3], rtol=1e-9) and np.allclose(found[2], right[4], rtol=1e-9)
    assert all(
        np.isfinite(x).all() for x in jax.vmap(jax.grad(cost))(*(np.stack([x, x]) for x in (q, v, tau)))
    )


@pytest.mark.slow
def test_in_torch() -> None:
    torch = pytest.importorskip("torch")
    held, q, V, tau = held_four_bar()
    dynamics = lw.interop.torch.function(lw.forward_dynamics, held)
    given = [torch.tensor(x, requires_grad=True) for x in (q, V, tau)]
    dynamics(*given).sum().backward()
    made = lw.vjp(lw.forward_dynamics, held)
    right = lw.interpret(lw.lower(made.program()), q, V, tau, np.ones(held.nv))[1:]
    assert all(np.allclose(x.grad.numpy(), y, rtol=1e-9) for x, y in zip(given, right, strict=True))
