"""Random drops of robots with random parameters: no NaN, no gain of energy, every row converged or marked."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.spatial import Pose

DROPS = int(
    os.environ.get("LINKWORK_DROPS", "2000")
)  # of each robot in the long test: 100000 for a million in all


def one_body(shape: str, size: tuple[float, ...]) -> lw.Model:
    b = lw.ModelBuilder(shape)
    b.add_body("body", mass=1.0, inertia=np.diag([0.004, 0.005, 0.006]))
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    b.add_geometry(lw.Geometry("shape", -1, Pose.identity(), shape, size, link="body"))
    return b.build()


def gained(model: lw.Model, found: lw.Rollout, numbers: Mapping[str, Any]) -> np.ndarray:
    """The largest gain of energy over the least before, (rows,), as a height [m] to which it would lift the
    robot.
    """
    mass = {"mass": numbers["mass"][:, None]}
    energy = lw.kinetic_energy(model, found.q, found.v, parameters=mass) + lw.potential_energy(
        model, found.q, parameters=mass
    )
    most = (energy[:, 1:] - np.minimum.accumulate(energy, axis=1)[:, :-1]).max(axis=1)
    height: np.ndarray = most / (9.81 * numbers["mass"].sum(axis=1))
    return height


def drop(
    model: lw.Model,
    contacts: lw.Contacts,
    rows: int,
    *,
    steps: int,
    seed: int,
    speed: float,
    bounce: float = 0.0,
) -> float:
    """The part of rows that are marked; the rest is asserted: nothing gains a tenth of a millimetre, or is so
    deep.
    """
    rng = np.random.default_rng(seed)
    q = np.array([model.random_state(rng)[0] for _ in range(min(rows, 64))])[
        rng.integers(0, min(rows, 64), rows)
    ]
    q[:, :2] = 0.0
    gaps = lw.contact_points(model, q, contacts=contacts)[0]
    q[:, 2] += rng.uniform(0.0, 0.3, rows) - gaps.min(axis=-1)
    v = speed * rng.standard_normal((rows, model.nv))
    numbers: dict[str, Any] = {
        "mass": model.parameters()["mass"] * rng.uniform(0.7, 1.4, (rows, len(model.bodies))),
        "contact_friction": rng.uniform(0.0, 1.5, gaps.shape),
    }
    if bounce:
        numbers["contact_restitution"] = rng.uniform(0.0, bounce, gaps.shape)
    found = lw.rollout(
        model, q, v, dt=2e-3, steps=steps, record_every=steps // 15, contacts=contacts, parameters=numbers
    )
    assert np.isin(found.status, (lw.Status.OK, lw.Status.CONTACT_NOT_CONVERGED)).all()
    assert np.isfinite(found.q).all() and np.isfinite(found.v).all() and np.isfinite(found.impulses).all()
    fine = found.status == lw.Status.OK
    assert (found.residual[fine] <= 1e-8).all()
    assert gained(model, found, numbers).max() <= 1e-4
    assert lw.contact_points(model, found.q[fine], contacts=contacts)[0].min(initial=0.0) >= -1e-4
    return float(np.mean(~fine))


@pytest.mark.parametrize(
    ("shape", "size", "bounce"), [("box", (0.2, 0.2, 0.1), 0.9), ("capsule", (0.05, 0.2), 0.0)]
)
def test_bodies_fall(shape: str, size: tuple[float, ...], bounce: float) -> None:
    assert drop(one_body(shape, size), lw.Contacts(), 60, steps=300, seed=0, speed=1.0, bounce=bounce) < 0.3


def slender_rod() -> lw.Model:
    """1 kg and 1 m along x, with a ball at each end, and without gravity."""
    b = lw.ModelBuilder("rod", gravity=(0.0, 0.0, 0.0))
    b.add_body("rod", mass=1.0, inertia=np.diag([0.001, 1.0 / 12.0, 1.0 / 12.0]))
    b.add_joint("float", lw.joints.Free(), parent="world", child="rod")
    for name, x in (("left", -0.5), ("right", 0.5)):
        b.add_geometry(
            lw.Geometry(name, -1, Pose(np.eye(3), np.array([x, 0.0, 0.0])), "sphere", (0.01,), link="rod")
        )
    return b.build()


def test_a_rod_that_lands_on_one_end_while_the_other_lifts_gains_no_energy() -> None:
    """By Newton's law alone it would gain a third: the end that lifts with 0.5 m/s is held, the other bounces
    with 1 m/s.
    """
    model = slender_rod()
    q, v = np.array([0.0, 0.0, 0.01, *model.neutral()[3:]]), np.array([0.0, 1.5, 0.0, 0.0, 0.0, -0.25])
    for friction in (0.0, 0.5):
        contacts = lw.Contacts(restitution=1.0, friction=friction)
        q1, v1, _, _, _, converged = lw.step(model, q, v, np.zeros(6), 1e-4, contacts=contacts, details=True)
        part = lw.kinetic_energy(model, q1, v1) / lw.kinetic_energy(model, q, v)
        assert converged == 1.0 and 0.9 < part <= 1.0


@pytest.mark.parametrize("shape", ["box", "rod"])
def test_bounces_gain_no_energy(shape: str) -> None:
    """Any velocities, restitution and friction where several contacts touch, in one step; one bounce keeps
    what it may.
    """
    model = slender_rod() if shape == "rod" else one_body("box", (0.2, 0.2, 0.1)).without_passive_forces()
    rng = np.random.default_rng(5)
    rows = 400
    contacts = lw.Contacts()
    q = np.tile(model.neutral(), (rows, 1))
    q[:, 2] -= lw.contact_points(model, q, contacts=contacts)[0].min(axis=-1)
    v = rng.standard_normal((rows, 6)) * rng.choice([0.1, 1.0, 5.0], (rows, 6))
    count = len(contacts.candidates(model))
    own = {
        "contact_friction": rng.uniform(0.0, 1.5, (rows, 1)) * np.ones(count),
        "contact_restitution": rng.uniform(0.3, 1.0, (rows, count)),
    }
    v1, _, _, _, converged = lw.step(
        model, q, v, np.zeros(6), 1e-6, contacts=contacts, details=True, parameters=own
    )[1:]
    before, after = (0.5 * np.einsum("ri,ij,rj->r", x, lw.mass_matrix(model, q[0]), x) for x in (v, v1))
    assert converged.mean() > 0.95
    assert (after <= before * (1.0 + 1e-4)).all(), (after / before).max()


def test_one_elastic_bounce_keeps_its_energy() -> None:
    model = one_body("sphere", (0.1,)).without_passive_forces()
    q, v = np.array([0.0, 0.0, 0.1, *model.neutral()[3:]]), np.array([0.0, 0.0, 0.0, 0.3, 0.0, -2.0])
    found = lw.step(model, q, v, np.zeros(6), 1e-3, contacts=lw.Contacts(restitution=1.0, friction=0.0))[1]
    assert np.allclose(found, [0.0, 0.0, 0.0, 0.3, 0.0, 2.0], rtol=0.0, atol=1e-9)


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
    shapes = (
        ROBOTS[name]
        or [body.name for body in model.bodies if not any(j.parent == body.index for j in model.joints)][:6]
    )
    contacts = lw.Contacts(
        shapes=shapes, limits=bool(model.loops)
    )  # beyond limits, coordinates of loops turn singular
    for part in range(0, DROPS, 500):
        bounce = 1.0 if part % 1000 else 0.0
        assert (
            drop(model, contacts, min(500, DROPS - part), steps=150, seed=part, speed=0.5, bounce=bounce)
            < 0.4
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    (
        "shape",
        "size",
        "marked",
    ),  # points of a cylinder's rims may lie next to each other: many rows have a step of 1e-8 m/s
    [
        ("box", (0.2, 0.2, 0.1), 0.4),
        ("capsule", (0.05, 0.2), 0.2),
        ("sphere", (0.1,), 0.0),
        ("cylinder", (0.05, 0.2), 0.6),
    ],
)
def test_many_bodies_fall(shape: str, size: tuple[float, ...], marked: float) -> None:
    for part in range(0, DROPS, 1000):
        bounce = 1.0 if part % 2000 else 0.0
        found = drop(
            one_body(shape, size),
            lw.Contacts(),
            min(1000, DROPS - part),
            steps=405,
            seed=part,
            speed=1.0,
            bounce=bounce,
        )
        assert found <= marked


def test_no_restitution_as_an_input_is_none() -> None:
    """A ball that is 4 mm above the ground comes down to it within the step, whether restitution is an input
    or not.
    """
    model = one_body("sphere", (0.1,))
    contacts = lw.Contacts()
    q, v = np.array([0.0, 0.0, 0.104, *model.neutral()[3:]]), np.array([0.0, 0.0, 0.0, 0.3, 0.0, -3.0])
    own, given = (
        lw.step(model, q, v, np.zeros(6), 2e-3, contacts=contacts, parameters=numbers)
        for numbers in (None, {"contact_restitution": np.zeros(1)})
    )
    assert abs(own[0][2] - 0.1) < 1e-9
    np.testing.assert_allclose(np.concatenate(given), np.concatenate(own), atol=1e-12)


@pytest.mark.slow
def test_a_knee_that_whirls_near_its_singular_posture_does_not_go_deep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Mini Cheetah of the benchmark's drops: the last of the ends that a step had tried was 0.23 m deep."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    bench: Any = importlib.import_module("drops")
    robot = bench.ROBOTS["mini_cheetah"]
    model = robot.model()
    contacts = bench.contacts_of(robot, model)
    q, v, numbers, dt, _ = bench.drops(robot, model, contacts, 0, 2000, 87, 0.9)
    own = {name: x[499:500] for name, x in numbers.items()}
    found = lw.rollout(model, q[499:500], v[499:500], dt=dt, steps=240, contacts=contacts, parameters=own)
    assert lw.contact_points(model, found.q, contacts=contacts)[0][:, 1:].min() > -0.02
