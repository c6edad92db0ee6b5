"""Compliant contact pushes where shapes overlap, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw

K = 1e3
D = 100.0


def ball() -> lw.Model:
    b = lw.ModelBuilder("ball", gravity=(0.0, 0.0, 0.0))
    b.add_body("ball", mass=1.0, inertia=(0.004, 0.004, 0.004))
    b.add_joint("free", lw.joints.Free(), parent="world", child="ball")
    return b.add_geometry("shell", "sphere", 0.1, link="ball").build()


def flight(height: float, speed: float, dt: float, steps: int, **how: Any) -> lw.simulation.Log:
    q = np.array([0.0, 0.0, 0.1 + height, 0.0, 0.0, 0.0, 1.0])
    v = np.array([0.0, 0.0, 0.0, 1.0, 0.0, -speed])
    contacts = lw.Contacts(stiffness=K, damping=D, friction=0.5, **how)
    return lw.simulate(ball(), q, v, steps * dt, dt=dt, contacts=contacts)


@pytest.mark.parametrize("dt", [2e-3, 1e-4])
def test_no_force_at_a_distance(dt: float) -> None:
    """At 5 m/s forces began 0.5 m above the ground, and friction with them."""
    log = flight(0.3, 5.0, dt, round(0.08 / dt))
    apart = log.q[1:, 2] - 0.1 > 0.0
    assert apart.any() and not apart.all()
    assert (log.forces[1:][apart] == 0.0).all()
    np.testing.assert_allclose(
        log.v[1:][apart, 3:], np.broadcast_to([1.0, 0.0, -5.0], (apart.sum(), 3)), atol=1e-12
    )


def test_no_pulling_and_friction_within_its_cone() -> None:
    log = flight(0.01, 2.0, 1e-3, 400)
    x, _, z = log.forces[:, 0].T
    assert (z >= 0.0).all() and z.max() > 0.0
    assert (np.abs(x) <= 0.5 * z * (1.0 + 1e-9) + 1e-12).all()
    assert log.v[-1, 5] > 0.0 and log.q[-1, 2] > 0.1  # it comes back


def test_halving_the_step_converges_to_the_damped_oscillator() -> None:
    """m z'' = -k z - d z' from z = 0 at -2 m/s, for as long as that pushes."""
    z = 0.0
    w = -2.0
    h = 1e-6
    while w < 0.0:
        w += h * (-K * z - D * w)
        z += h * w
    deepest = z
    errors = [
        abs(flight(0.0, 2.0, dt, round(0.04 / dt)).q[:, 2].min() - 0.1 - deepest) for dt in (4e-4, 2e-4, 1e-4)
    ]
    assert errors[2] < 0.3 * errors[0] and errors[2] < 2e-4
