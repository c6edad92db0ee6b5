"""Forward dynamics of embedded loops on the spanning tree: as the cluster's own joint map gives it, and
linear in bodies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_closed_mechanisms import check_dynamics

import leg_mechanisms as legs
import linkwork as lw
import planar_mechanisms as planar
from closed_mechanisms import CATALOGUE
from linkages import floats
from linkwork.compiler.passes.count import count_operations
from linkwork.joints import Revolute
from linkwork.model import Model


def spanning(function: Any, *args: Any, **options: Any) -> Any:
    """Over numbers, by this method."""
    if function is lw.forward_dynamics:
        return np.asarray(function.body(*args, method="spanning_tree", **options), dtype=float)
    return floats(function, *args, **options)


def operations(model: Model, **options: Any) -> int:
    return lw.count_operations(lw.forward_dynamics, model, **options)["total"]


@pytest.mark.parametrize(
    "name",
    [
        "Stephenson III",
        "RSSR",
        "geared five-bar",
        "truss in a linkage",
        "leg",
        "turned four-bar with 4 digits",
    ],
)
def test_dynamics_to_40_digits(name: str) -> None:
    check_dynamics(CATALOGUE[name], 2, 5, spanning)


@pytest.mark.parametrize(
    "model", [lw.robots.stewart(), lw.robots.tello(), lw.robots.flexible_stewart()], ids=lambda m: m.name
)
def test_it_is_as_by_articulated_bodies(model: Model) -> None:
    """Also with loads, springs, armature, rotors and flexible legs."""
    rng = np.random.default_rng(1)
    q, v = model.random_state(1)
    tau = rng.normal(size=model.nv)
    loads = rng.normal(size=(len(model.bodies), 6))
    found = spanning(lw.forward_dynamics, model, q, v, tau, loads)
    right = np.asarray(
        lw.forward_dynamics.body(model, q, v, tau, loads, method="articulated_body"), dtype=float
    )
    assert np.abs(found - right).max() < 1e-9 * np.abs(right).max()


def test_parameters_may_be_inputs() -> None:
    model = planar.ring(8).builder.build()
    q, v = model.random_state(2)
    masses = 1.5 * model.parameters()["mass"]
    tau = np.linspace(-1.0, 1.0, model.nv)
    found = lw.forward_dynamics(model, q, v, tau, parameters={"mass": masses}, method="spanning_tree")
    right = lw.forward_dynamics(model.with_parameters({"mass": masses}), q, v, tau, method="articulated_body")
    assert np.allclose(found, right, rtol=1e-10, atol=1e-10)


def test_operations_grow_linearly_with_the_bars_of_a_loop() -> None:
    few, many = (planar.ring(n).builder.build() for n in (8, 22))
    assert operations(many) < 1.1 * (21 / 7) * operations(few)
    assert operations(many) < 130 * 21


def test_the_cheapest_method_is_taken() -> None:
    for model in (lw.robots.five_bar(), planar.ring(8).builder.build()):
        methods = ("articulated_body", "mass_matrix", "spanning_tree")
        assert operations(model) == min(operations(model, method=method) for method in methods)


def test_a_foot_of_rods_costs_what_forces_cost() -> None:
    check_foot(legs.foot_of_rods(6, bones=5).builder.build())


@pytest.mark.slow
def test_a_foot_of_50_rods_costs_what_forces_cost() -> None:
    check_foot(CATALOGUE["foot of 50 rods"].model())


def check_foot(model: Model) -> None:
    held = model.with_loops(constrain=[c.name for c in model.embedded])
    program = lw.constrained_dynamics.program(
        held, constraints=(), iterations=2, tolerance=None, method="caba"
    )
    assert operations(model) < 1.5 * count_operations(program)["total"]
    q, v = model.random_state(0)
    tau = np.random.default_rng(0).normal(size=model.nv)
    found = spanning(lw.forward_dynamics, model, q, v, tau)
    right = np.asarray(lw.forward_dynamics.body(model, q, v, tau, method="articulated_body"), dtype=float)
    assert (
        np.abs(found - right).max() < 1e-8 * np.abs(right).max()
    )  # the coordinates of a large one are not good everywhere


def test_singular_coordinates_are_nan() -> None:
    drawing = planar.four_bar(0.3, 0.8, 0.6, 0.9, keeps="pin")
    model = drawing.builder.build()
    rocker = next(joint.name for joint in model.joints if "rocker" in joint.name)
    turning = model.with_independent(rocker)
    q = at_dead_centre(turning)
    assert np.isnan(spanning(lw.forward_dynamics, turning, q, np.ones(1), np.zeros(1))).all()


def at_dead_centre(model: Model) -> np.ndarray:
    """Crank and coupler in one line: the rocker turns back."""
    crank = model.with_independent(next(joint.name for joint in model.joints if "crank" in joint.name))
    slope = lambda q: lw.spanning_velocity(crank, q, [1.0])[model.joint(model.v_names[0]).v_start]  # noqa: E731
    low = crank.neutral()
    high = None
    for _ in range(2000):
        after = lw.integrate(crank, low, [0.01])
        if slope(after) * slope(low) < 0.0:
            high = after
            break
        low = after
    assert high is not None
    step = 0.01
    for _ in range(60):
        step *= 0.5
        middle = lw.integrate(crank, low, [step])
        low = middle if slope(middle) * slope(low) > 0.0 else low
    return low


def test_what_moves_no_mass_is_told() -> None:
    builder = lw.ModelBuilder("bars")
    for name, at in (("crank", 0.0), ("rocker", 1.0)):
        builder.add_body(name, mass=1.0, center=(0.0, 0.0, 0.2), inertia=(0.1, 0.1, 0.1))
        builder.add_joint(name, Revolute((0.0, 1.0, 0.0)), parent="world", child=name, xyz=(at, 0.0, 0.0))
    builder.add_body("coupler", mass=0.0)
    builder.add_joint("pin", Revolute((0.0, 1.0, 0.0)), parent="crank", child="coupler", xyz=(0.0, 0.0, 0.5))
    builder.add_loop(
        "end",
        Revolute((0.0, 1.0, 0.0)),
        predecessor="coupler",
        successor="rocker",
        xyz=(1.0, 0.0, 0.0),
        successor_xyz=(0, 0, 0.5),
    )
    model = builder.build()
    q, v = model.random_state(0)
    assert np.isfinite(lw.forward_dynamics(model, q, v, [0.0])).all()
    with pytest.raises(lw.ModelError, match="'coupler' has no inertia in some direction"):
        lw.forward_dynamics(model, q, v, [0.0], method="spanning_tree")
