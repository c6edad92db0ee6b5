"""Stiff springs and dampers of joints in rollouts: implicit steps are stable, and explicit ones that are not
say why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Revolute
from planar_bars import four_bar as bars

IMPLICIT = "linearly_implicit_euler"


def swing(**how: Any) -> lw.Model:
    """A point mass of 1 kg on a rod of 1 m."""
    builder = lw.ModelBuilder("swing")
    builder.add_body("rod", mass=1.0, center=(0.0, 0.0, -1.0))
    builder.add_joint("pin", Revolute((0.0, 1.0, 0.0)), parent="world", child="rod", **how)
    return builder.build()


def four_bar(**how: float) -> lw.Model:
    """Crank, coupler and rocker, with a spring at rest or a damper at the coupler's joint, which the loop
    determines.
    """
    model = bars(0.3, 1.0, 0.8, 1.0)
    coupler = model.joint("coupler")
    numbers: dict[str, Any] = {word: (value,) for word, value in how.items()}
    sprung = replace(coupler, rest=tuple(model.neutral()[coupler.q_slice].tolist()), **numbers)
    return replace(model, joints=tuple(sprung if j is coupler else j for j in model.joints), kernels={})


@pytest.mark.parametrize(
    "given", [{}, {"stiffness": [900.0]}, {"damping@pin": [40.0], "stiffness@pin": [[7.0], [8.0]]}]
)
def test_a_step_is_a_linearised_implicit_euler_step(given: dict[str, Any]) -> None:
    dt = 0.01
    model = swing(stiffness=300.0, damping=25.0, rest=0.2, armature=0.5)
    k = np.ravel(given.get("stiffness", given.get("stiffness@pin", 300.0)))
    d = given.get("damping@pin", [25.0])[0]
    found = lw.rollout(model, [0.4], [1.5], [2.0], dt=dt, steps=1, integrator=IMPLICIT, parameters=given)
    force = 2.0 - 9.81 * np.sin(0.4) - d * 1.5 - k * (0.4 + dt * 1.5 - 0.2)
    v = 1.5 + dt * force / (1.0 + 0.5 + dt * d + dt * dt * k)
    assert np.allclose(found.v[..., 1, 0], v, rtol=1e-13) and np.allclose(
        found.q[..., 1, 0], 0.4 + dt * v, rtol=1e-13
    )


@pytest.mark.parametrize("how", [{"damping": 100.0}, {"stiffness": 3e4}])
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_explicit_steps_that_are_too_long_say_so(how: dict[str, float], integrator: str) -> None:
    model = four_bar(**how)
    q = model.neutral()
    told = lw.rollout(model, q, [0.1], dt=0.01, steps=500, record_every=500, integrator=integrator)
    assert told.status == lw.Status.STIFF
    fine = lw.rollout(model, q, [0.1], dt=0.01, steps=500, record_every=500, integrator=IMPLICIT)
    assert fine.status == lw.Status.OK and lw.close_loops(model, fine.q[-1])[1] < 1e-12


def test_trees_say_so_too() -> None:
    found = lw.rollout(swing(stiffness=1e6), [[0.1], [np.nan]], [0.0], dt=0.01, steps=2000, record_every=2000)
    assert found.status.tolist() == [lw.Status.STIFF, lw.Status.NOT_FINITE]
    # nothing is stiff here: the force is no number
    assert (
        lw.rollout(swing(stiffness=1.0), [0.1], [0.0], [[0.0], [np.inf]], dt=0.01, steps=2).status
        == lw.Status.NOT_FINITE
    )


def test_implicit_steps_have_order_one_in_loops() -> None:
    model = four_bar(stiffness=2.0, damping=0.05)
    q = model.neutral()
    fine = lw.rollout(model, q, [1.0], dt=2e-3, steps=100, record_every=100, integrator="rk4").q[-1]
    ends = [
        lw.rollout(model, q, [1.0], dt=0.2 / n, steps=n, record_every=n, integrator=IMPLICIT).q[-1]
        for n in (100, 200)
    ]
    errors = [np.abs(end - fine).max() for end in ends]
    assert 1.7 < errors[0] / errors[1] < 2.4 and errors[1] < 1e-3
