"""Functions in CasADi: the numbers of our kernels, and derivatives that are ours."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
import mechanisms

casadi = pytest.importorskip("casadi")
function = lw.interop.casadi.function if casadi else None


def model() -> lw.Model:
    return mechanisms.make(
        np.random.default_rng(2), [-1, 0, 1], ["free", "spherical", "revolute"], fixed=False
    )


def close(found: object, wanted: np.ndarray) -> None:
    wanted = np.asarray(wanted)
    shape = (int(np.prod(wanted.shape[:-1])), wanted.shape[-1]) if wanted.ndim > 1 else (wanted.size, 1)
    np.testing.assert_allclose(np.array(found), wanted.reshape(shape), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "name", ["forward_dynamics", "inverse_dynamics", "integrate", "mass_matrix", "forward_kinematics"]
)
def test_the_numbers_of_our_kernels(name: str) -> None:
    tree = model()
    ours = getattr(lw, name)
    f = function(ours, tree)
    q, v = tree.random_state(0)
    for start in (q, tree.neutral()):
        args = [start if n == "q" else v for n in ours.required]
        close(f(*args), ours(tree, *args))
    assert f.name_in() == list(ours.required) and f.name_out() == ["out"]


def test_derivatives_by_casadi() -> None:
    tree = model()
    q, v = tree.random_state(0)
    J = function(lw.inverse_dynamics, tree).jacobian()(q, v, v, 0)[0]
    wanted = lw.interpret(lw.lower(lw.jacobian(lw.inverse_dynamics.program(tree), "out", "q")), q, v, v)[1]
    close(J, wanted)


def test_embedded_loops_parameters_and_several_outputs() -> None:
    crank = lw.robots.slider_crank()
    q, v = crank.random_state(0)
    mass = crank.parameters()["mass"]
    f = function(lw.hybrid_dynamics, crank, prescribed=[crank.v_names[0]], parameters=("mass",))
    wanted = lw.hybrid_dynamics(
        crank, q, v, v, v, prescribed=[crank.v_names[0]], parameters={"mass": 2 * mass}
    )
    for a, b in zip(f(q, v, v, v, 2 * mass), wanted):
        close(a, b)
    made = lw.jacobian(lw.forward_dynamics, crank, wrt="q")
    close(function(made)(q, v, v), made(q, v, v))


def test_what_iterates_calls_our_kernels() -> None:
    crank = lw.robots.slider_crank()
    q, v = crank.random_state(0)
    f = function(lw.integrate, crank)
    assert f.name_in() == ["q", "v"] and not f.is_a("SXFunction")
    close(f(q, 0.1 * v), lw.integrate(crank, q, 0.1 * v))
    close(
        f.map(2)(np.tile(q, (2, 1)).T, np.array([0.1 * v, 0.2 * v]).T).T,
        lw.integrate(crank, q, np.array([0.1 * v, 0.2 * v])),
    )
    wanted = lw.interpret(lw.lower(lw.jacobian(lw.integrate.program(crank), "out", "q")), q, 0.1 * v)[1]
    close(f.jacobian()(q, 0.1 * v, 0)[0], wanted)
    # second derivatives, and both modes, in an expression of CasADi's own
    x = casadi.MX.sym("x", 1)
    end = f(q, casadi.sin(x))
    cost = casadi.Function(
        "cost", [x], [casadi.hessian(casadi.sumsqr(end), x)[0], casadi.jtimes(end, x, 2.0)]
    )
    h = 1e-4

    def squares(y: float) -> float:
        return float(np.sum(lw.integrate(crank, q, np.sin([y])) ** 2))

    there = (lw.integrate(crank, q, np.sin([0.2 + h])) - lw.integrate(crank, q, np.sin([0.2 - h]))) / (2 * h)
    hessian, moved = cost(0.2)
    second = (squares(0.2 + h) - 2 * squares(0.2) + squares(0.2 - h)) / h**2
    assert abs(float(hessian) - second) < 1e-5 * max(1.0, abs(second))
    np.testing.assert_allclose(np.array(moved)[:, 0], 2.0 * there, rtol=1e-6, atol=1e-7)


def test_constrained_dynamics_in_an_optimisation() -> None:
    arm = lw.robots.arm()
    q, v = arm.random_state(0)
    tip = arm.frames[-1].name
    f = function(lw.constrained_dynamics, arm, constraints=[lw.Connect(tip)])
    tau = casadi.MX.sym("tau", arm.nv)
    a, forces = f(q, v, tau)
    gradient = casadi.Function("g", [tau], [casadi.gradient(casadi.sumsqr(a) + casadi.sumsqr(forces), tau)])
    found = np.array(gradient(np.ones(arm.nv)))[:, 0]

    def value(x: np.ndarray) -> float:
        a, forces = lw.constrained_dynamics(arm, q, v, x, constraints=[lw.Connect(tip)])
        return float(np.sum(a**2) + np.sum(forces**2))

    h = 1e-4
    wanted = [
        (value(np.ones(arm.nv) + h * e) - value(np.ones(arm.nv) - h * e)) / (2 * h) for e in np.eye(arm.nv)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
