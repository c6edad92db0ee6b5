"""Mechanisms of every kind that end in every kind of joint: what is special about the last joint, or the
first after a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import flexible, joints
from linkwork.robots.flexible import STEEL

Z = joints.Revolute((0.0, 0.0, 1.0))
LAST = {
    "revolute": joints.Revolute((0.0, 0.6, 0.8)), "prismatic": joints.Prismatic((0.6, 0.0, 0.8)),
    "helical": joints.Helical(0.2, (0.0, 1.0, 0.0)), "cylindrical": joints.Cylindrical((1.0, 0.0, 0.0)),
    "universal": joints.Universal(), "gimbal": joints.Gimbal(), "spherical": joints.Spherical(), "planar": joints.Planar(),
    "free": joints.Free(), "fixed": joints.Fixed(),
}  # fmt: skip


def bar(builder: lw.ModelBuilder, name: str, on: str, joint: Any = Z, x: float = 0.0, **how: Any) -> None:
    builder.add_body(name, mass=0.7, center=(0.3, 0.1, 0.05), inertia=(0.02, 0.05, 0.06))
    builder.add_joint(name, joint, parent=on, child=name, xyz=(x, 0.0, 0.0), **how)


def tree(last: joints.Joint) -> lw.ModelBuilder:
    builder = lw.ModelBuilder("tree")
    bar(builder, "arm", "world")
    bar(builder, "tip", "arm", last, 0.6, **springs(last))
    return builder


def springs(last: joints.Joint) -> dict[str, Any]:
    return {"armature": 0.1, "damping": 0.2} if last.nv else {}


def four_bar(last: joints.Joint) -> lw.ModelBuilder:
    """The last joint is on the coupler of a four-bar linkage."""
    builder = lw.ModelBuilder("four bar")
    bar(builder, "crank", "world", independent=True)
    bar(builder, "coupler", "crank", x=0.4, independent=False)
    bar(builder, "rocker", "world", x=1.0, independent=False)
    ends = {"xyz": (0.9, 0.0, 0.0), "successor_xyz": (0.7, 0.0, 0.0)}
    builder.add_loop("pin", Z, predecessor="coupler", successor="rocker", **ends)
    bar(builder, "tip", "coupler", last, 0.5, **springs(last))
    return builder


def geared(last: joints.Joint) -> lw.ModelBuilder:
    builder = lw.ModelBuilder("geared")
    bar(builder, "arm", "world")
    bar(builder, "wheel", "world", joints.Revolute((0.0, 1.0, 0.0)), 0.2, armature=0.05)
    builder.add_coupling("gear", {"wheel": 1.0, "arm": -3.0})
    bar(builder, "tip", "wheel", last, 0.6, **springs(last))
    return builder


def bending(last: joints.Joint) -> lw.ModelBuilder:
    """The last joint is at the end of a flexible link."""
    builder = lw.ModelBuilder("bending")
    section = flexible.Rectangle(0.006, 0.02)
    builder.add_body(
        flexible=flexible.beam("link", length=0.8, section=section, material=STEEL, modes={"bending_y": 1})
    )
    builder.add_joint("link", joints.Revolute((0.0, 1.0, 0.0)), parent="world", child="link")
    bar(builder, "tip", "link", last, 0.8, **springs(last))
    return builder


KINDS = {"tree": tree, "four bar": four_bar, "geared": geared, "bending": bending}
every = pytest.mark.parametrize("last", LAST)
each = pytest.mark.parametrize("kind", KINDS)


def state(model: lw.Model, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng)
    return q, v, rng.normal(size=model.nv)


def off(x: Any, y: Any) -> float:
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    return float(np.abs(x - y).max(initial=0.0) / (1.0 + np.abs(y).max(initial=0.0)))


@every
@each
def test_dynamics_of_the_reference(kind: str, last: str) -> None:
    """M a + h, its inverse by articulated bodies, and the kinetic energy, in plain floats."""
    model = KINDS[kind](LAST[last]).build()
    q, v, a = state(model)
    M, h = (
        np.asarray(x, dtype=float) for x in (lw.mass_matrix.body(model, q), lw.bias_force.body(model, q, v))
    )
    tau = lw.inverse_dynamics.body(model, q, v, a)
    assert off(tau, M @ a + h) < 1e-11
    assert off(M, M.T) < 1e-12 and np.linalg.eigvalsh(M)[0] > 0.0
    for method in ("articulated_body", "mass_matrix", "partitioned"):
        assert off(lw.forward_dynamics.body(model, q, v, np.asarray(tau), method=method), a) < 1e-9
    assert off(lw.kinetic_energy.body(model, q, v), 0.5 * v @ M @ v) < 1e-11
    assert off(lw.mass_matrix_inverse.body(model, q) @ M, np.eye(model.nv)) < 1e-9


@pytest.mark.sweep(4)
@every
@each
def test_coriolis_matrix(kind: str, last: str) -> None:
    """C v is the bias force without gravity and springs, and C + Cᵀ the rate of the mass matrix along the
    motion.
    """
    model = KINDS[kind](LAST[last]).build()
    model = model.with_parameters({"damping": 0.0 * model.parameters()["damping"]}).without_passive_forces()
    q, v, _ = state(model)
    C = lw.coriolis_matrix(model, q, v)
    h = 1e-5
    still = lw.bias_force.body(model, q, 0.0 * v)  # springs of flexible bodies
    even = 0.5 * (np.asarray(lw.bias_force.body(model, q, v)) + lw.bias_force.body(model, q, -v)) - still
    assert off(C @ v, even.astype(float)) < 1e-10
    ahead, behind = (
        np.asarray(lw.mass_matrix.body(model, moved(model, q, s * v)), dtype=float) for s in (h, -h)
    )
    assert off(C + C.T, (ahead - behind) / (2.0 * h)) < 1e-6


def moved(model: lw.Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    found = lw.integrate(model, q, v)
    return lw.close_loops(model, found)[0] if model.loops else found


@pytest.mark.sweep(4)
@every
def test_constrained_loops_move_as_embedded_ones(last: str) -> None:
    model = four_bar(LAST[last]).build()
    held = model.with_loops(constrain=["pin"])
    q, v, _ = state(model)
    order = [[name for joint in model.joints for name in joint.v_names].index(name) for name in held.v_names]
    w = lw.spanning_velocity(model, q, v)[order]
    wanted = lw.spanning_acceleration(model, q, v, lw.forward_dynamics(model, q, v, np.zeros(model.nv)))[
        order
    ]
    assert off(lw.forward_dynamics(held, q, w, np.zeros(held.nv)), wanted) < 1e-5
