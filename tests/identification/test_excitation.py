"""Motions that excite parameters: `identification.excitation_trajectory`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.identification import Recording, excitation_trajectory
from linkwork.identification.parameters import Parameters

LIMITS: dict[str, Any] = {"lower": -1.0, "upper": 1.5, "max_velocity": 3.0, "max_acceleration": 20.0}


def test_limits_hold_and_information_grows() -> None:
    model = lw.robots.chain(3)
    found = excitation_trajectory(model, ["mass", "damping"], duration=5.0, iterations=40, **LIMITS)
    assert found.q.min() >= -1.0 and found.q.max() <= 1.5
    assert np.abs(found.v).max() <= 3.0 and np.abs(found.a).max() <= 20.0
    assert found.log_determinant > found.initial_log_determinant + 0.5
    np.testing.assert_allclose(np.gradient(found.q, found.t, axis=0)[1:-1], found.v[1:-1], atol=2e-2)
    np.testing.assert_allclose(np.gradient(found.v, found.t, axis=0)[1:-1], found.a[1:-1], atol=0.2)
    np.testing.assert_allclose(lw.inverse_dynamics(model, found.q, found.v, found.a), found.tau)
    again = excitation_trajectory(model, ["mass", "damping"], duration=5.0, iterations=40, **LIMITS)
    assert (again.q == found.q).all()


def test_determinants_are_those_of_linear_least_squares() -> None:
    model = lw.robots.chain(2)
    found = excitation_trajectory(model, "damping", duration=4.0, dt=0.04, iterations=5, **LIMITS)
    # the torque of damping is d v; d is in units of a mass, a length and the period, as the model has none
    sizes = Parameters(model, "damping", 4.0).coordinate_sizes()
    torques = (sizes * found.v) ** 2
    assert found.log_determinant == pytest.approx(np.log(torques.sum(axis=0)).sum(), abs=1e-9)


def test_excited_parameters_are_better_known() -> None:
    model = lw.robots.chain(3).with_parameters({"damping": np.full(3, 0.1)})
    errors = []
    for iterations in (1, 60):
        found = excitation_trajectory(
            model, ["mass", "damping"], duration=3.0, dt=5e-3, iterations=iterations, **LIMITS
        )
        errors.append(found.log_determinant)
    assert errors[1] > errors[0] + 0.5
    motion = lw.rollout(model, found.q[0], found.v[0], found.tau, dt=5e-3, steps=len(found.t))
    log = Recording(motion.q[:-1], motion.v[:-1], found.tau, dt=5e-3, sigma_q=1e-4, sigma_v=1e-3)
    fit = lw.fit_parameters(model, log, ["mass", "damping"])
    assert not fit.unidentifiable and (fit.standard_errors < 1e-2).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration": 0.0}, "duration: expected"),
        ({"harmonics": 0}, "harmonics: expected"),
        ({"lower": 2.0}, "lower < upper"),
        ({"upper": [1.0, 2.0]}, "upper: expected"),
        ({"sigma_tau": -1.0}, "sigma_tau: expected"),
        ({"parameters": "delay"}, "delays"),
        ({"parameters": "frame_placement"}, "no motion is informative"),
        ({"model": lw.robots.four_bar()}, "expected a tree"),
    ],
)
def test_invalid_arguments(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "model": lw.robots.chain(3),
        "parameters": "mass",
        "duration": 2.0,
        **LIMITS,
        **changes,
    }
    with pytest.raises(lw.LinkworkError, match=message):
        excitation_trajectory(arguments.pop("model"), arguments.pop("parameters"), **arguments)
