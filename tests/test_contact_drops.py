"""Random drops of robots with random parameters: no NaN, no gain of energy, every row converged or marked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.spatial import Pose

DROPS = int(os.environ.get("LINKWORK_DROPS", "2000"))  # of each robot in the long test: 100000 for a million in all


def one_body(shape: str, size: tuple[float, ...]) -> lw.Model:
    b = lw.ModelBuilder(shape)
    b.add_body("body", mass=1.0, inertia=np.diag([0.004, 0.005, 0.006]))
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    b.add_geometry(lw.Geometry("shape", -1, Pose.identity(), shape, size, link="body"))
    return b.build()


def drop(model: lw.Model, contacts: lw.Contacts, rows: int, *, steps: int, seed: int, speed: float) -> float:
    """The part of steps' rows that are marked; the rest is asserted."""
    rng = np.random.default_rng(seed)
    q = np.array([model.random_state(rng)[0] for _ in range(min(rows, 64))])[rng.integers(0, min(rows, 64), rows)]
    q[:, :2] = 0.0
    gaps = lw.contact_points(model, q, contacts=contacts)[0]
    q[:, 2] += rng.uniform(0.0, 0.3, rows) - gaps.min(axis=-1)
    v = speed * rng.standard_normal((rows, model.nv))
    numbers: dict[str, Any] = {
        "mass": model.parameters()["mass"] * rng.uniform(0.7, 1.4, (rows, len(model.bodies))),
        "contact_friction": rng.uniform(0.0, 1.5, (rows, gaps.shape[-1])),
    }
    found = lw.rollout(model, q, v, dt=2e-3, steps=steps, every=10, contacts=contacts, parameters=numbers)
    going = np.isin(found.status, (lw.Status.OK, lw.Status.CONTACT_NOT_CONVERGED))
    assert going.all() or model.loops  # a row stops where coordinates of loops turn singular
    assert np.isfinite(found.q[going]).all() and np.isfinite(found.v[going]).all() and np.isfinite(found.impulses[going]).all()
    fine = found.status == lw.Status.OK
    assert (found.residual[fine] <= 1e-8).all()
    mass = {"mass": numbers["mass"][:, None]}
    kinetic = lw.kinetic_energy(model, found.q, found.v, parameters=mass)
    energy = kinetic + lw.potential_energy(model, found.q, parameters=mass)
    weight = 9.81 * numbers["mass"].sum(axis=1)
    gained = energy.max(axis=1) - energy[:, 0]
    least = 1e-2 * kinetic[:, 0] + 1e-3 * weight  # a millimetre of height
    assert (gained <= least)[going].all(), (gained - least)[going].max()
    return float(np.mean(~fine))


@pytest.mark.parametrize(("shape", "size"), [("box", (0.2, 0.2, 0.1)), ("capsule", (0.05, 0.2))])
def test_bodies_fall(shape: str, size: tuple[float, ...]) -> None:
    assert drop(one_body(shape, size), lw.Contacts(), 60, steps=300, seed=0, speed=1.0) < 0.2


ROBOTS = {
    "mini_cheetah": [f"{leg}_knee_link" for leg in ("FR", "FL", "HR", "HL")],
    "mit_humanoid": ["right_ankle_link", "left_ankle_link", "right_elbow_link", "left_elbow_link"],
    "tello": ["left-foot", "right-foot"],
    "quadruped": None,
    "humanoid": None,
    "jvrc1": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_robots_fall(name: str) -> None:
    model = getattr(lw.robots, name)()
    shapes = ROBOTS[name] or [body.name for body in model.bodies if not any(j.parent == body.index for j in model.joints)][:6]
    contacts = lw.Contacts(shapes=shapes, limits=False)
    for part in range(0, DROPS, 500):
        assert drop(model, contacts, min(500, DROPS - part), steps=150, seed=part, speed=0.5) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "size"), [("box", (0.2, 0.2, 0.1)), ("capsule", (0.05, 0.2)), ("sphere", (0.1,)), ("cylinder", (0.05, 0.2))]
)
def test_many_bodies_fall(shape: str, size: tuple[float, ...]) -> None:
    for part in range(0, DROPS, 1000):
        assert drop(one_body(shape, size), lw.Contacts(), min(1000, DROPS - part), steps=400, seed=part, speed=1.0) < 0.2
