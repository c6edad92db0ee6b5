"""Joints that move no mass of their own but are determined by a loop or another constraint: embedded, and
held by forces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import linkwork as lw
from holding import METHODS, close, solved
from linkages import equations, floats
from linkwork.errors import ModelError
from linkwork.joints import Free, Revolute, Spherical, Universal
from linkwork.model import Model, ModelBuilder

HINGE = Revolute((0, 0, 1))


def standing(name: str, free: bool) -> tuple[ModelBuilder, str]:
    b = ModelBuilder(name)
    if free:
        b.add_body("base", mass=3.0, inertia=(0.1, 0.1, 0.1)).add_joint(
            "root", Free(), parent="world", child="base"
        )
    return b, "base" if free else "world"


def four_bar(masses: tuple[float, ...], embed: bool, *, free: bool = False) -> Model:
    b, ground = standing("four bar", free)
    for (name, length), mass in zip((("crank", 0.2), ("rod", 0.6), ("rocker", 0.5)), masses):
        moment = mass * length**2 / 12
        b.add_body(
            name,
            mass=mass,
            center=(0.5 * length if mass else 0.0, 0, 0),
            inertia=(1e-3 * mass, moment, moment),
        )
    b.add_joint("a", HINGE, parent=ground, child="crank")
    b.add_joint("b", HINGE, parent="crank", child="rod", xyz=(0.2, 0, 0))
    b.add_joint("d", HINGE, parent=ground, child="rocker", xyz=(0.6, 0, 0))
    places = {"xyz": (0.6, 0, 0), "successor_xyz": (0.5, 0, 0)}
    return b.add_loop("c", HINGE, predecessor="rod", successor="rocker", **places, embed=embed).build()


def pushed_plate(
    cross: float, rod: float, embed: bool, *, free: bool = False, universal: bool = False
) -> Model:
    """A crank pushes a plate by a rod, on a cross of two hinges or a universal joint, and with a ball at its
    end.
    """
    b, ground = standing("pushed plate", free)
    b.add_body("crank", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.add_joint("motor", Revolute((0, 1, 0)), parent=ground, child="crank")
    b.add_body("rod", mass=rod, inertia=(rod, rod, rod))
    if universal:
        b.add_joint("u", Universal(), parent="crank", child="rod", xyz=(0.2, 0, 0))
    else:
        b.add_body("cross", mass=cross, inertia=(cross, cross, cross))
        b.add_joint("u1", Revolute((1, 0, 0)), parent="crank", child="cross", xyz=(0.2, 0, 0))
        b.add_joint("u2", Revolute((0, 1, 0)), parent="cross", child="rod")
    b.add_body("plate", mass=2.0, center=(0.2, 0, 0.05), inertia=(0.05, 0.06, 0.07))
    b.add_joint("p", Revolute((0.2, 1.0, 0.1)), parent=ground, child="plate", xyz=(0, 0, 0.5))
    places = {"xyz": (0, 0, 0.5), "successor_xyz": (0.2, 0.02, 0)}
    return b.add_loop(
        "ball", Spherical(), predecessor="rod", successor="plate", **places, embed=embed
    ).build()


CASES: dict[str, Callable[[bool], Model]] = {
    "rod": lambda embed: four_bar((1.0, 0.0, 1.0), embed),
    "rocker": lambda embed: four_bar((1.0, 1.0, 0.0), embed),
    "rod and rocker": lambda embed: four_bar((1.0, 0.0, 0.0), embed),
    "crank and rod": lambda embed: four_bar((0.0, 0.0, 1.0), embed),
    "rod on a free base": lambda embed: four_bar((1.0, 0.0, 1.0), embed, free=True),
    "cross and rod": lambda embed: pushed_plate(0.0, 0.0, embed),
    "cross": lambda embed: pushed_plate(0.0, 0.1, embed),
    "universal": lambda embed: pushed_plate(0.0, 0.0, embed, universal=True),
    "universal on a free base": lambda embed: pushed_plate(0.0, 0.0, embed, free=True, universal=True),
}


def kkt(model: Model, q: np.ndarray, V: np.ndarray, force: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accelerations of all joints and the loops' generalised forces, from one dense system; M alone may be
    singular.
    """
    cut = replace(model, embedded=(), constrained_loops=(), kernels={})
    M = floats(lw.mass_matrix, cut, q)
    b = floats(lw.bias_force, cut, q, V)
    _, K, k = equations(model, q, V)
    size = len(M)
    system = np.block([[M, -K.T], [K, np.zeros((len(K), len(K)))]])
    x = np.linalg.lstsq(system, np.concatenate([force - b, k]), rcond=1e-12)[0]
    return x[:size], K.T @ x[size:]


@pytest.mark.parametrize("case", CASES)
def test_massless_links_in_loops(case: str) -> None:
    model = CASES[case](True)
    held = CASES[case](False)
    assert not any("massless" in m.report() for m in (model, held))
    q, v = model.random_state(1)
    V = floats(lw.spanning_velocity, model, q, v)
    force = np.random.default_rng(0).normal(size=model.nv_spanning)
    right, forces = kkt(model, q, V, force)
    tau = floats(lw.independent_force, model, q, force)
    for method in ("articulated_body", "mass_matrix"):
        a = floats(lw.forward_dynamics, model, q, v, tau, method=method)
        assert close(floats(lw.spanning_acceleration, model, q, v, a), right, 1e-11), method
    cut = replace(held, constrained_loops=(), kernels={})
    for method in METHODS:
        found, rows, residual, _ = solved(held, q, V, force, [], compliance=1e-6, method=method)
        assert close(found, right, 1e-7) and residual < 1e-8, method
        left = floats(lw.inverse_dynamics, cut, q, V, found) - force  # what the loop's forces do
        assert close(left, forces, 1e-7) and np.isfinite(rows).all()


@pytest.mark.parametrize("case", ["rod and rocker", "universal"])
def test_massless_links_compiled(case: str) -> None:
    """Which joints move no mass is seen in the symbols; in a batch, and by the method that is chosen."""
    held = CASES[case](False)
    states = [held.random_state(k) for k in range(3)]
    q = np.array([q for q, _ in states])
    V = np.array([V for _, V in states])
    force = np.random.default_rng(0).normal(size=V.shape)
    found = lw.forward_dynamics(held, q, V, force)
    model = CASES[case](True)
    for k in range(3):
        assert close(found[k], kkt(model, q[k], V[k], force[k])[0], 1e-7)


def test_a_massless_rod_that_spins_is_refused() -> None:
    """Between two balls, nothing determines its spin: no numbers of 1e17, but an error; with some inertia it
    is fine.
    """
    for inertia, embed in ((0.0, True), (0.0, False), (1e-4, True)):
        b = ModelBuilder("balls")
        b.add_body("crank", mass=0.5, inertia=(0.01, 0.01, 0.01)).add_body(
            "rod", inertia=(inertia,) * 3, mass=inertia
        )
        b.add_body("plate", mass=2.0, center=(0.2, 0, 0.05), inertia=(0.05, 0.06, 0.07))
        b.add_joint("motor", Revolute((0, 1, 0)), parent="world", child="crank")
        b.add_joint("u", Spherical(), parent="crank", child="rod", xyz=(0.2, 0, 0))
        b.add_joint("p", Revolute((0.2, 1.0, 0.1)), parent="world", child="plate", xyz=(0, 0, 0.5))
        places = {"xyz": (0, 0, 0.5), "successor_xyz": (0.2, 0.02, 0)}
        m = b.add_loop(
            "ball", Spherical(), predecessor="rod", successor="plate", **places, embed=embed
        ).build()
        q, v = m.random_state(1)
        if inertia:
            assert (
                np.abs(floats(lw.forward_dynamics, m, q, v, 0.0 * v, method="articulated_body")).max() < 1e4
            )
            continue
        for method in ("articulated_body", "mass_matrix"):
            with pytest.raises(ModelError, match=r"massless degree of freedom 'u\.w.'"):
                lw.forward_dynamics(m, q, v, 0.0 * v, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_massless_foot_that_is_held(method: str) -> None:
    """Its joint moves no mass; a weld determines it. Where nothing does, it is an error that names the joint."""
    b = ModelBuilder("leg")
    for name, on, mass in (("thigh", "world", 2.0), ("shank", "thigh", 1.0), ("foot", "shank", 0.0)):
        b.add_body(name, mass=mass, center=(0, 0, -0.2 if mass else 0.0), inertia=(0.1 * mass,) * 3)
        b.add_joint(
            f"to {name}",
            Revolute((0, 1, 0)),
            parent=on,
            child=name,
            xyz=(0, 0, -0.4 if on != "world" else 0.0),
        )
    leg = b.build()
    q = np.array([0.3, -0.7, 0.2])
    v = np.array([1.0, -0.5, 0.3])
    tau = np.array([3.0, 1.0, 0.4])
    sole = lw.Hold("foot", "wy x")
    a, f, *_ = solved(leg, q, v, tau, [sole], compliance=1e-6, method=method)
    M = floats(lw.mass_matrix, leg, q)
    bias = floats(lw.bias_force, leg, q, v)
    axes = {"frame": "foot", "reference": "world_aligned"}
    J = floats(lw.frame_jacobian, leg, q, **axes)[[1, 3]]
    drift = floats(lw.frame_acceleration, leg, q, v, 0.0 * v, **axes, classical=True)[[1, 3]]
    right = np.linalg.solve(
        np.block([[M, -J.T], [J, np.zeros((2, 2))]]), np.concatenate([tau - bias, -drift])
    )
    assert close(a, right[:3], 1e-7) and close(f, right[3:], 1e-7)
    with pytest.raises(ModelError, match="massless"):
        lw.constrained_dynamics(leg, q, v, tau, constraints=lw.Locked("to thigh"), method=method)
