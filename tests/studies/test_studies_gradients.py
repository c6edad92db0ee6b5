"""Gradients of means by reverse mode, against differences of studies with the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import studies

STEPS = 30
DT = 5e-3
SAMPLES = 64


@lw.model_function(q="nq", v="nv")
def cost(model: lw.Model, q: Any, v: Any) -> Any:
    """A cost that depends on everything."""
    return lw.kinetic_energy(model, q, v) + 2.0 * lw.potential_energy(model, q)


def make(model: lw.Model, quantities: dict[str, Any], wrt: Any, start: Any = None, **task: Any) -> lw.Study:
    how: dict[str, Any] = {"dt": DT, "steps": STEPS, "record_every": 1, "q": start} | task
    outputs: dict[str, Any] = {"cost": studies.Final(cost), "slope": studies.Gradient(cost, wrt)}
    reductions = [studies.Mean("cost"), studies.Mean("slope")]
    sampler = studies.Random(quantities)
    return lw.Study(
        model, sampler, studies.RolloutTask(**how), samples=SAMPLES, outputs=outputs, reductions=reductions
    )


@pytest.mark.parametrize("name", ["chain", "four bar", pytest.param("free body", marks=pytest.mark.slow)])
def test_gradients_of_means_are_differences_of_means(name: str) -> None:
    """All samples are moved together: the mean changes by its gradient."""
    model, start = {
        "chain": (lw.robots.chain(3), None),
        "free body": (lw.robots.quadruped(), None),
        "four bar": (lw.robots.four_bar(), lw.robots.four_bar().random_state(3)[0]),
    }[name]
    options = {"options": {"limits": False, "friction": False}}
    base = {"mass": studies.Scale(studies.Uniform(0.9, 1.1)), "dq": studies.Uniform(-0.05, 0.05)}
    wrt = ("q", "v", "tau", "mass", "gravity")
    slope = make(model, base, wrt, start, **options).run(progress=False)["mean(slope)"]
    assert slope.count == SAMPLES
    parts = np.split(slope.mean, np.cumsum([model.nv] * 3 + [len(model.bodies)]))
    rng = np.random.default_rng(0)
    by_v, by_tau = rng.normal(size=(2, model.nv))
    by_mass, by_gravity = rng.normal(size=len(model.bodies)), rng.normal(size=3)
    h = 1e-5

    def moved(part: str, size: float) -> float:
        changes: dict[str, Any] = dict(base)
        if part == "v":
            changes["v"] = studies.Constant(size * by_v)
        elif part == "tau":
            changes["tau"] = studies.Constant(size * by_tau)
        elif part == "gravity":
            changes["gravity"] = studies.Constant(model.parameters()["gravity"] + size * by_gravity)
        else:
            values = make(model, base, wrt, start, **options).evaluate(0, SAMPLES).values["mass"]
            drawn = make(model, base, wrt, start, **options).evaluate(0, SAMPLES).values["dq"]
            table = values + size * by_mass
            sampler = studies.FromFunction(
                ["mass", "dq"], lambda i, s: {"mass": table[i], "dq": drawn[i]}, vectorized=True
            )
            task = studies.RolloutTask(dt=DT, steps=STEPS, q=start, **options)
            study = lw.Study(model, sampler, task, samples=SAMPLES, outputs={"cost": studies.Final(cost)})
            return float(study.evaluate(0, SAMPLES).outputs["cost"].mean())
        return float(make(model, changes, "v", start, **options).run(progress=False)["mean(cost)"].mean)

    directions = {
        "v": (parts[1], by_v),
        "tau": (parts[2], by_tau),
        "mass": (parts[3], by_mass),
        "gravity": (parts[4], by_gravity),
    }
    for part, (gradient, direction) in directions.items():
        difference = (moved(part, h) - moved(part, -h)) / (2 * h)
        np.testing.assert_allclose(gradient @ direction, difference, rtol=2e-5, atol=1e-6)


def test_gradients_by_q_are_on_the_tangent_space() -> None:
    model = lw.robots.quadruped()
    options = {"options": {"limits": False, "friction": False}}
    slope = (
        make(model, {"v": studies.Normal(0.0, 0.1)}, "q", **options).run(progress=False)["mean(slope)"].mean
    )
    direction = np.random.default_rng(1).normal(size=model.nv)
    h = 1e-5
    means = []
    for size in (h, -h):
        start = lw.integrate(model, model.neutral(), size * direction)
        means.append(
            make(model, {"v": studies.Normal(0.0, 0.1)}, "v", start, **options)
            .run(progress=False)["mean(cost)"]
            .mean
        )
    np.testing.assert_allclose(slope @ direction, (means[0] - means[1]) / (2 * h), rtol=1e-5, atol=1e-6)


def test_rows_in_which_limits_act_have_no_gradient() -> None:
    builder = lw.ModelBuilder("door")
    builder.add_body("leaf", mass=1.0, center=(0.0, 0.3, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint(
        "hinge", lw.joints.Revolute((0, 0, 1)), parent="world", child="leaf", lower=-0.1, upper=0.1
    )
    model = builder.build()
    study = make(model, {"v": studies.Uniform(-2.0, 2.0)}, "v")
    rows = study.evaluate(0, SAMPLES)
    stopped = np.isnan(rows.outputs["slope"][:, 0])
    assert 0 < stopped.sum() < SAMPLES
    assert (np.abs(rows.values["v"][stopped, 0]) > np.abs(rows.values["v"][~stopped, 0]).max()).all()
    result = study.run(progress=False)["mean(slope)"]
    assert result.excluded == stopped.sum()


FORCES = {"tau": np.zeros((STEPS, 2))}
OTHER_TASKS = [
    ({"record_every": 2}, "every step"),
    ({"integrator": "rk4"}, "semi_implicit_euler"),
    (FORCES, "constant"),
]


@pytest.mark.parametrize(("task", "message"), OTHER_TASKS)
def test_other_tasks_have_no_gradient(task: dict[str, Any], message: str) -> None:
    with pytest.raises(lw.StudyError, match=message):
        make(lw.robots.chain(2), {"v": studies.Normal()}, "v", **task).run(progress=False)
    with pytest.raises(lw.StudyError, match="cost"):
        studies.Gradient(lw.forward_dynamics, "v")
