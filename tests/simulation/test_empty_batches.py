"""Batches without rows: results of the shapes of other batches, whatever takes the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError

STEPS = 4
OPTIONS: dict[str, dict[str, Any]] = {
    "no forces": {},
    "forces of each step": {"tau": "each"},
    "function": {"tau": lambda q, v, t: -v},
    "rk4": {"integrator": "rk4"},
    "rk45": {"integrator": "rk45"},
    "implicit midpoint": {"integrator": "implicit_midpoint"},
    "float32": {"dtype": "float32"},
    "parameters": {"parameters": {"gravity": np.zeros(3)}},
    "status": {"status": np.zeros((0,), dtype=int)},
    "contacts": {"contacts": lw.Contacts()},
}


CASES = [
    *(
        (name, option)
        for name in ("arm", "quadruped", "four_bar")
        for option in OPTIONS
        if option != "contacts"
    ),
    ("quadruped", "contacts"),
    ("tello", "contacts"),  # loops and contacts
]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_a_rollout_without_rows_has_its_shapes(name: str, option: str) -> None:
    model = getattr(lw.robots, name)()
    options = dict(OPTIONS[option])
    if options.get("tau") == "each":
        options["tau"] = np.zeros((0, STEPS, model.nv))
    q = np.broadcast_to(np.array(model.neutral()), (0, model.nq))
    motion = lw.rollout(model, q, np.zeros((0, model.nv)), dt=1e-3, steps=STEPS, **options)
    assert motion.q.shape == (0, STEPS + 1, model.nq)
    assert motion.v.shape == (0, STEPS + 1, model.nv)
    assert motion.status.shape == motion.steps.shape == motion.causes.shape == (0,)


def test_a_simulation_without_rows_reads_no_sensors() -> None:
    arm = lw.robots.arm()
    q = np.zeros((0, arm.nq))
    log = lw.simulate(arm, q, q, duration=0.003, sensors={"speed": lambda q, v, t: np.abs(v)})
    assert log.q.shape[0] == 0 and log.status.shape == (0,)


@pytest.mark.parametrize("parameters", [[], [1.0], np.ones(2), "mass", 0])
def test_parameters_of_simulations_are_a_mapping(parameters: Any) -> None:
    arm = lw.robots.arm()
    with pytest.raises(ModelError, match="parameters"):
        lw.simulate(arm, arm.neutral(), np.zeros(arm.nv), duration=0.001, parameters=parameters)
