"""Second derivatives of inverse dynamics and Hessian-vector products, against differences of differences with
60 digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_dynamics_derivatives import in_60_digits, off

import linkwork as lw
from linkwork.algorithms.loops.closing import integrate_tree, tree_motion
from linkwork.errors import DifferentiationError
from mechanisms import make, state_of
from mp_interpret import mpf

H = mpf(10) ** -12


class InDigits:
    """A function of a model in 60 digits, and its changes along straight motions."""

    def __init__(self, fn: lw.ModelFunction, model: lw.Model, **options: Any) -> None:
        self.program = fn.program(model, **options)
        self.move = lw.trace(
            lambda q, v: integrate_tree(model, q, tree_motion(model, q, v)), {"q": model.nq, "v": model.nv}
        )  # loops stay closed to O(H²) of each step, which central differences do not see

    def moved(self, args: list[Any], place: int, d: Any) -> list[Any]:
        x = list(args)
        x[place] = in_60_digits(self.move, x[0], d) if place == 0 else x[place] + d
        return x

    def second(self, args: list[Any], x: tuple[int, Any], y: tuple[int, Any]) -> np.ndarray:
        """∂/∂y of (∂/∂x): y moves first."""
        total: Any = 0
        for s in (H, -H):
            there = self.moved(args, y[0], s * y[1])
            for t in (H, -H):
                total = total + (s * t / H**2) * in_60_digits(
                    self.program, *self.moved(there, x[0], t * x[1])
                )
        return (total / (4 * H * H)).astype(float)


def by_differences(at: InDigits, args: list[Any], x: int, y: int, nv: int) -> np.ndarray:
    """∂²/∂x∂y, (outputs, nv, nv)."""
    E = np.eye(nv)
    return np.array([[at.second(args, (x, e), (y, d)) for d in E] for e in E]).transpose(2, 0, 1)


MODELS = {
    "skew revolute, universal, prismatic": lambda: make(
        np.random.default_rng(7), [-1, 0, 0], ["skew revolute", "universal", "skew prismatic"], fixed=False
    ),
    "spherical": lambda: make(np.random.default_rng(8), [-1, 0], ["spherical", "skew revolute"], fixed=False),
    "four bar": lw.robots.four_bar,
    "planar leg": lw.robots.planar_leg_linkage,
}


@pytest.mark.parametrize("name", MODELS)
def test_second_derivatives_of_inverse_dynamics(name: str) -> None:
    model = MODELS[name]()
    q, v, a, _, f_ext = state_of(model, np.random.default_rng(1))
    program = lw.inverse_dynamics_second_derivatives.program(model, optional="f_ext")
    found = lw.interpret(lw.lower(program), q, v, a, f_ext)
    at = InDigits(lw.inverse_dynamics, model, optional="f_ext")
    args = [q, v, a, f_ext]
    right = [by_differences(at, args, x, y, model.nv) for x, y in ((0, 0), (1, 1), (0, 1), (2, 0))]
    assert off(found, right) < 1e-9
    assert off([found[1]], [np.swapaxes(found[1], 1, 2)]) < 1e-12
    if name == "spherical":
        assert off([found[0]], [np.swapaxes(found[0], 1, 2)]) > 1e-3  # turns do not commute


def test_compiled_and_batched() -> None:
    model = lw.robots.chain(3)
    rng = np.random.default_rng(2)
    q, v, a = rng.normal(size=(3, 4, 5, model.nv))
    found = lw.inverse_dynamics_second_derivatives(model, q, v, a)
    assert all(x.shape == (4, 5, 3, 3, 3) for x in found)
    program = lw.lower(lw.inverse_dynamics_second_derivatives.program(model))
    one = lw.interpret(program, q[2, 3], v[2, 3], a[2, 3])
    assert all(np.array_equal(x[2, 3], y) for x, y in zip(found, one, strict=True))


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lw.inverse_dynamics, "skew revolute, universal, prismatic"),
        (lw.forward_dynamics, "spherical"),
        (lw.forward_dynamics, "four bar"),
        (lw.kinetic_energy, "spherical"),
        (lw.potential_energy, "planar leg"),
    ],
)
def test_hessian_vector_products(fn: lw.ModelFunction, name: str) -> None:
    """By a direction in which all arrays change at once, for each unit of what the gradient is by."""
    model = MODELS[name]()
    rng = np.random.default_rng(3)
    q, v, a, *_ = state_of(model, rng)
    args: list[Any] = [q, v, a][: len(fn.required)]
    directions = rng.normal(size=(len(args), model.nv))
    hvp = lw.hvp(fn, model)
    at = InDigits(fn, model)
    weights = rng.normal(size=at.program.outputs[0].shape)
    found = np.atleast_2d(lw.interpret(lw.lower(hvp.program()), *args, weights, *directions))
    for x in range(len(args)):
        for k, e in enumerate(np.eye(model.nv)):
            right = sum(at.second(args, (x, e), (y, d)) for y, d in enumerate(directions))
            assert abs(found[x][k] - np.ravel(weights) @ right) < 1e-9 * max(1.0, np.abs(right).max())


def test_hessian_vector_products_of_programs_and_by_parameters() -> None:
    program = lw.trace(lambda x, y: {"z": x[0] ** 2 * x[1] * y}, {"x": 2, "y": ()})
    made = lw.hvp(program, "x")
    assert [a.name for a in made.inputs] == ["x", "y", "bar_z", "d_x"] and [a.name for a in made.outputs] == [
        "d_bar_x"
    ]
    found = lw.interpret(lw.lower(made), np.array([2.0, 3.0]), 5.0, 7.0, np.array([0.5, -1.0]))
    assert np.allclose(found, 35.0 * np.array([2 * 3.0 * 0.5 + 2 * 2.0 * -1.0, 2 * 2.0 * 0.5]))
    assert [a.name for a in lw.hvp(program).outputs] == ["d_bar_x", "d_bar_y"]

    model = lw.robots.chain(2)
    q, v, a, *_ = state_of(model, np.random.default_rng(4))
    by = lw.hvp(lw.inverse_dynamics, model, wrt=("v", "mass"))
    bar = np.ones(2)
    d_v = np.array([0.3, -0.2])
    d_mass = np.array([0.5, 0.1])
    mass = model.parameters()["mass"]
    _, by_mass = lw.interpret(lw.lower(by.program()), q, v, a, mass, bar, d_v, d_mass)
    kernel = lw.jacobian(
        lw.inverse_dynamics, model, wrt="mass"
    )  # linear in mass: only d_v changes the gradient
    ends = [bar @ lw.interpret(lw.lower(kernel.program()), q, v + s * d_v, a, mass) for s in (1e-5, -1e-5)]
    assert np.allclose(by_mass, (ends[0] - ends[1]) / 2e-5, atol=1e-8)
    assert np.array_equal(by(q, v, a, mass, bar, d_v, d_mass)[1], by_mass)


def test_cost_is_linear_in_bodies() -> None:
    one, two, three = (
        lw.count_operations(lw.hvp(lw.inverse_dynamics, lw.robots.chain(n)))["total"] for n in (5, 10, 15)
    )
    assert three - two < 1.05 * (two - one)
    assert one < 12 * lw.count_operations(lw.inverse_dynamics, lw.robots.chain(5))["total"]


def test_along_straight_motions() -> None:
    """d²/dt² of tau at integrate(q, t δ), also where turns do not commute."""
    model = make(np.random.default_rng(9), [-1, 0], ["free", "spherical"], fixed=False)
    q, v, a, *_ = state_of(model, np.random.default_rng(5))
    qq = lw.interpret(lw.lower(lw.inverse_dynamics_second_derivatives.program(model)), q, v, a)[0]
    d = np.random.default_rng(6).normal(size=model.nv)
    at = InDigits(lw.inverse_dynamics, model)
    ends = [in_60_digits(at.program, *at.moved([q, v, a], 0, step * d)) for step in (H, 0 * H, -H)]
    right = ((ends[0] - 2 * ends[1] + ends[2]) / H**2).astype(float)
    assert off([qq @ d @ d], [right]) < 1e-9


def test_refused() -> None:
    model = lw.robots.chain(2)
    with pytest.raises(DifferentiationError, match="no array or parameter 'tau'"):
        lw.hvp(lw.inverse_dynamics, model, wrt="tau")
    with pytest.raises(DifferentiationError, match="takes a program, or a function of a model"):
        lw.hvp(lambda x: x, model)  # type: ignore[call-overload]
