"""Equations in SymPy: what a textbook has, and the numbers of our kernels."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw

sympy = pytest.importorskip("sympy")


def pendulum() -> lw.Model:
    builder = lw.ModelBuilder("pendulum").add_body(
        "bob", mass=2.0, center=(0.0, 0.0, -0.5), inertia=(0.3, 0.1, 0.3)
    )
    return builder.add_joint(
        "pivot", lw.joints.Revolute((0.0, 1.0, 0.0)), parent="world", child="bob"
    ).build()


def test_a_pendulum_is_that_of_the_textbook() -> None:
    found = lw.interop.sympy.equations(lw.inverse_dynamics, pendulum(), parameters=("mass", "gravity"))
    q, a, m, g = (found.inputs[n] for n in ("q", "a", "mass", "gravity"))
    by_hand = (sympy.Rational(1, 10) + m[0] / 4) * a[0] - m[0] / 2 * (
        g[2] * sympy.sin(q[0]) - g[0] * sympy.cos(q[0])
    )
    assert sympy.simplify(found.outputs["out"][0] - by_hand) == 0
    assert str(found).startswith("out = Matrix([[") and "\\cos" in found.latex() and "mass" in found.latex()


def test_the_numbers_of_our_kernels() -> None:
    chain = lw.robots.chain(2)
    q, v = chain.random_state(0)
    found = lw.interop.sympy.equations(lw.forward_dynamics, chain, simplify=False)
    symbols = [s for x in found.inputs.values() for s in x]
    numbers = sympy.lambdify(symbols, found.outputs["out"])(*q, *v, *v)
    np.testing.assert_allclose(np.ravel(numbers), lw.forward_dynamics(chain, q, v, v), rtol=1e-11)


def test_on_expressions_of_ones_own() -> None:
    t = sympy.Symbol("t")
    pose = lw.interop.sympy.function(lw.frame_pose, pendulum(), frame="bob")([t**2])
    assert pose.shape == (4, 4) and sympy.simplify(pose[0, 0] - sympy.cos(t**2)) == 0
    crank = lw.robots.four_bar()
    q, v = crank.random_state(0)
    energy = lw.interop.sympy.function(lw.kinetic_energy, crank)(q, v)
    assert abs(energy - lw.kinetic_energy(crank, q, v)) < 1e-10


def test_a_crank_with_its_loop_can_be_read() -> None:
    """No cases for pivots that are zero: a fraction says itself where it has no value. Then it is short soon,
    too.
    """
    crank = lw.robots.slider_crank()
    found = lw.interop.sympy.equations(lw.mass_matrix, crank)
    inertia = found.outputs["out"][0]
    assert not inertia.has(sympy.Piecewise, sympy.nan) and sympy.count_ops(inertia) < 100
    q, _ = crank.random_state(0)
    named = lw.interop.sympy.function(lw.mass_matrix, crank)(q=q)[0]
    for number in (inertia.subs(dict(zip(found.inputs["q"], q))), named):
        assert abs(number - lw.mass_matrix(crank, q)[0, 0]) < 1e-9


def test_errors() -> None:
    with pytest.raises(
        lw.LimitError, match=r"forward_dynamics has \d+ operations for this model: too many to be readable"
    ):
        lw.interop.sympy.equations(lw.forward_dynamics, lw.robots.mit_humanoid_leg())
    with pytest.raises(lw.ShapeError, match=r"frame_pose: q\b.* shape \(1,\),.* \(2,\)"):
        lw.interop.sympy.function(lw.frame_pose, pendulum(), frame="bob")([1, 2])
    with pytest.raises(TypeError, match="frame_pose: missing a required argument: 'q'; expected q"):
        lw.interop.sympy.function(lw.frame_pose, pendulum(), frame="bob")()
