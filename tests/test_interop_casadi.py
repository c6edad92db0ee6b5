"""Functions in CasADi: the numbers of our kernels, and derivatives that are ours."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
import mechanisms

casadi = pytest.importorskip("casadi")
function = lw.interop.casadi.function if casadi else None


def model() -> lw.Model:
    return mechanisms.make(np.random.default_rng(2), [-1, 0, 1], ["free", "spherical", "revolute"], fixed=False)


def close(found: object, wanted: np.ndarray) -> None:
    wanted = np.asarray(wanted)
    shape = (int(np.prod(wanted.shape[:-1])), wanted.shape[-1]) if wanted.ndim > 1 else (wanted.size, 1)
    np.testing.assert_allclose(np.array(found), wanted.reshape(shape), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics", "integrate", "mass_matrix", "forward_kinematics"])
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
    wanted = lw.hybrid_dynamics(crank, q, v, v, v, prescribed=[crank.v_names[0]], parameters={"mass": 2 * mass})
    for a, b in zip(f(q, v, v, v, 2 * mass), wanted):
        close(a, b)
    made = lw.jacobian(lw.forward_dynamics, crank, wrt="q")
    close(function(made)(q, v, v), made(q, v, v))


def test_what_iterates_is_refused() -> None:
    with pytest.raises(lw.TargetError, match="integrate iterates .* CasADi's SX has no loops"):
        function(lw.integrate, lw.robots.slider_crank())
