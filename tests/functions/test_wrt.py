"""Derivatives of dynamics by parameters, external forces and targets (`wrt=`), against differences with 60
digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_constrained_derivatives import SOLVED, walker
from test_dynamics_derivatives import H, in_60_digits, off

import linkwork as lw
from linkwork import Connect, DifferentiationError, Hold, ModelError
from mechanisms import make, state_of


def by_differences(
    fn: lw.ModelFunction, model: lw.Model, name: str, *args: Any, **options: Any
) -> np.ndarray:
    """∂fn/∂parameter or ∂fn/∂optional array, outputs stacked, (rows, *shape)."""
    array = name in fn.optional
    program = fn.program(model, **({"optional": name} if array else {"parameters": name}), **options)
    shape = program.inputs[-1].shape
    kind, _, who = name.partition("@")
    at = np.zeros(shape) if array else model.parameters()[kind] if not who else own(model, kind, who)
    columns = []
    for e in np.eye(at.size):
        ends = [in_60_digits(program, *args, at + (step * e).reshape(shape)) for step in (H, -H)]
        columns.append((ends[0] - ends[1]) / (2 * H))
    return np.array(columns).astype(float).T.reshape(-1, *shape)


def own(model: lw.Model, kind: str, who: str) -> np.ndarray:
    """One body's or joint's parameter."""
    every = model.parameters()[kind]
    if kind in ("mass", "center", "inertia"):
        return np.asarray(every[[body.name for body in model.bodies].index(who)])
    return np.asarray(
        every[model.joint(who).v_slice] if kind != "placement" else every[model.joint(who).child]
    )


def tree() -> lw.Model:
    return make(
        np.random.default_rng(7),
        [-1, 0, 1, 1],
        ["free", "skew revolute", "universal", "skew prismatic"],
        fixed=False,
    )


NAMES = (
    "mass@body2",
    "center@body3",
    "inertia@body1",
    "gravity",
    "armature",
    "damping@joint2",
    "placement@joint2",
    "f_ext",
)


def test_inverse_and_forward_dynamics_of_a_tree() -> None:
    model = tree()
    q, v, a, tau, _ = state_of(model, np.random.default_rng(1))
    for fn, made, x in (
        (lw.inverse_dynamics, lw.inverse_dynamics_derivatives, a),
        (lw.forward_dynamics, lw.forward_dynamics_derivatives, tau),
    ):
        found = lw.interpret(lw.lower(made.program(model, wrt=NAMES)), q, v, x)
        for name, J in zip(NAMES, found, strict=True):
            right = by_differences(fn, model, name, q, v, x)
            assert J.shape == right.shape and off([J], [right]) < 1e-9, (fn, name)


@pytest.mark.parametrize("robot", ["four_bar", "mit_humanoid_leg"])
def test_through_embedded_loops(robot: str) -> None:
    model = getattr(lw.robots, robot)()
    names = (
        "mass",
        "placement@" + model.joints[1].name,
        "ratio" if robot != "four_bar" else "loop_placement",
    )
    q, v, _, tau, _ = state_of(model, np.random.default_rng(2))
    found = lw.interpret(lw.lower(lw.forward_dynamics_derivatives.program(model, wrt=names)), q, v, tau)
    for name, J in zip(names, found, strict=True):
        assert off([J], [by_differences(lw.forward_dynamics, model, name, q, v, tau)]) < 1e-9, name


def test_hybrid_dynamics() -> None:
    model = tree()
    q, v, a, tau, _ = state_of(model, np.random.default_rng(3))
    prescribed = ["joint1", "joint3"]
    names = ("mass", "f_ext")
    program = lw.hybrid_dynamics_derivatives.program(model, wrt=names, prescribed=prescribed)
    found = lw.interpret(lw.lower(program), q, v, a, tau)
    mask = np.array([n.startswith(("joint1", "joint3")) for n in model.v_names])
    for name, J in zip(names, found, strict=True):
        both = by_differences(lw.hybrid_dynamics, model, name, q, v, a, tau, prescribed=prescribed)
        right = np.where(mask.reshape(-1, *[1] * (J.ndim - 1)), both[model.nv :], both[: model.nv])
        assert off([J], [right]) < 1e-9, name


CONSTRAINED = {
    "walker": (walker, [Connect("body2"), Hold("body4", "wx", "body1")]),
    "planar leg": (lw.robots.planar_leg_linkage, [Hold("foot", "x")]),
}


@pytest.mark.parametrize("which", CONSTRAINED)
@pytest.mark.sweep(3)
def test_constrained_dynamics(which: str) -> None:
    model = CONSTRAINED[which][0]()
    constraints = CONSTRAINED[which][1]
    q, v, _, tau, _ = state_of(model, np.random.default_rng(4))
    names = ("mass", "placement", "f_ext", "targets")
    found = lw.interpret(
        lw.lower(lw.constrained_dynamics_derivatives.program(model, wrt=names, constraints=constraints)),
        q,
        v,
        tau,
    )
    for k, name in enumerate(names):
        right = by_differences(
            lw.constrained_dynamics, model, name, q, v, tau, constraints=constraints, **SOLVED
        )
        assert off([np.concatenate([found[k], found[len(names) + k]])], [right]) < 1e-8, name


def test_parameters_have_the_values_that_are_given() -> None:
    """Also where one name stands for all bodies and the other for one of them; in batches."""
    model = lw.robots.arm()
    last = model.bodies[-1].name
    q, v, a, *_ = state_of(model, np.random.default_rng(5))
    mass = model.parameters()["mass"] * np.array([[1.5], [2.0]])
    by = lw.forward_dynamics_derivatives(model, q, v, a, wrt=f"mass@{last}", parameters={"mass": mass})
    assert by.shape == (2, model.nv)
    for row, numbers in zip(by, mass):
        other = model.with_parameters({"mass": numbers})
        assert off([row], [by_differences(lw.forward_dynamics, other, f"mass@{last}", q, v, a)]) < 1e-9
    every = lw.forward_dynamics_derivatives(
        model, q, v, a, wrt=["mass"], parameters={f"mass@{last}": mass[:, -1]}
    )
    changed = model.with_parameters({f"mass@{last}": mass[1, -1]})
    assert off([every[1]], [by_differences(lw.forward_dynamics, changed, "mass", q, v, a)]) < 1e-9


def test_order_and_one_name() -> None:
    model = lw.robots.arm()
    q, v, a, *_ = state_of(model, np.random.default_rng(6))
    usual = lw.interpret(lw.lower(lw.inverse_dynamics_derivatives.program(model)), q, v, a)
    turned = lw.interpret(lw.lower(lw.inverse_dynamics_derivatives.program(model, wrt=("a", "q"))), q, v, a)
    alone = lw.interpret(lw.lower(lw.inverse_dynamics_derivatives.program(model, wrt="v")), q, v, a)
    assert off([*turned, alone], [usual[2], usual[0], usual[1]]) < 1e-14


@pytest.mark.parametrize(
    ("wrt", "words"),
    [
        ((), "expected a name or several"),
        (("q", "q"), "expected different names"),
        ("mas", "no array or parameter 'mas'.*mass"),
        ("mas@forearm", "no array or parameter 'mas@forearm' \\(did you mean 'mass'"),
        (("q", 3), "no array or parameter 3"),
        ([["q"]], "no array or parameter \\['q'\\]"),
        ("tau", "arrays are q, v, a, f_ext"),
        (3, "expected a name or several"),
        ("mass@nobody", "no body named 'nobody'"),
    ],
)
def test_refused(wrt: Any, words: str) -> None:
    model = lw.robots.arm()
    Z = np.zeros(model.nv)
    with pytest.raises((DifferentiationError, ModelError), match=words):
        lw.inverse_dynamics_derivatives(model, np.zeros(model.nq), Z, Z, wrt=wrt)
    if wrt != ("q", "q"):  # which is taken once there
        with pytest.raises((DifferentiationError, ModelError), match=words):
            lw.jacobian(lw.inverse_dynamics, model, wrt=wrt)


def test_loops_that_forces_hold() -> None:
    model = lw.robots.four_bar()
    held = model.with_loops(constrain=[c.name for c in model.embedded])
    q, v, _, tau, _ = state_of(model, np.random.default_rng(2))
    V = np.zeros(held.nv)
    full = np.zeros(held.nv)
    full[[held.v_names.index(name) for name in model.v_names]] = tau
    found = lw.forward_dynamics_derivatives(held, q, V, full, wrt="mass")
    right = lw.forward_dynamics_derivatives(model, q, 0.0 * v, tau, wrt="mass")
    own = [held.v_names.index(name) for name in model.v_names]
    assert off([found[own]], [right]) < 1e-10
