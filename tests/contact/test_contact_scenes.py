"""Scenes with many contacts that stand, roll, fall and are held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.spatial import Pose

DEPTH = 1e-4  # [m]


def free_bodies(count: int, mass: float, inertia: Any, **shape: Any) -> lw.Model:
    """Equal free bodies, each with a shape named after it: "shape0", ..."""
    builder = lw.ModelBuilder("bodies")
    for k in range(count):
        builder.add_body(f"body{k}", mass=mass, inertia=inertia)
        builder.add_joint(f"free{k}", lw.joints.Free(), parent="world", child=f"body{k}")
        builder.add_geometry(f"shape{k}", link=f"body{k}", **shape)
    return builder.build()


def in_a_row(count: int) -> list[tuple[str, str]]:
    return [(f"shape{k}", f"shape{k + 1}") for k in range(count - 1)]


def placed(model: lw.Model, places: Any) -> np.ndarray:
    q = np.array(model.neutral(), dtype=float)
    for k, place in enumerate(places):
        q[7 * k : 7 * k + 3] = place
    return q


@pytest.mark.slow
def test_ten_crates_stand_for_a_minute() -> None:
    model = free_bodies(10, 1.0, (0.4 / 60,) * 3, shape="box", size=(0.2, 0.2, 0.2))
    q = placed(model, [(0.0, 0.0, 0.1 + 0.2 * k) for k in range(10)])
    contacts = lw.Contacts(pairs=in_a_row(10))
    found = lw.rollout(model, q, np.zeros(60), dt=5e-3, steps=12_000, record_every=1000, contacts=contacts)
    assert found.status == lw.Status.OK
    np.testing.assert_allclose(found.q, np.broadcast_to(q, found.q.shape), atol=1e-5)


@pytest.mark.slow
def test_a_row_of_dominoes_falls() -> None:
    count = 5
    model = free_bodies(count, 0.1, (3.5e-4, 3.4e-4, 9e-5), shape="box", size=(0.02, 0.1, 0.2))
    q = placed(model, [(0.1 * k, 0.0, 0.1) for k in range(count)])
    v = np.zeros(model.nv)
    v[1], v[3] = 3.0, 0.3  # about the lower edge
    contacts = lw.Contacts(pairs=in_a_row(count), friction=0.4)
    found = lw.rollout(model, q, v, dt=2e-3, steps=1000, record_every=10, contacts=contacts)
    assert found.status == lw.Status.OK
    for k in range(count):
        assert lw.frame_pose(model, found.q[-1], frame=f"body{k}")[2, 2] < 0.6
    assert lw.contact_points(model, found.q, contacts=contacts)[0].min() > -DEPTH


@pytest.mark.slow
def test_an_arch_stands() -> None:
    """Seven stones of a half ring, with faces flush; friction and shape carry it."""
    count = 7
    builder = lw.ModelBuilder("arch")
    q = []
    for k in range(count):
        a, b = np.pi * k / count, np.pi * (k + 1) / count
        corners = np.array(
            [[r * np.cos(t), y, r * np.sin(t)] for r in (1.0, 1.3) for t in (a, b) for y in (-0.2, 0.2)]
        )
        middle = corners.mean(axis=0)
        builder.add_body(f"body{k}", mass=100.0, inertia=(3.0, 3.0, 3.0))
        builder.add_joint(f"free{k}", lw.joints.Free(), parent="world", child=f"body{k}")
        builder.add_geometry(f"shape{k}", "hull", link=f"body{k}", vertices=corners - middle)
        q += [*middle, 0.0, 0.0, 0.0, 1.0]
    model = builder.build()
    contacts = lw.Contacts(pairs=in_a_row(count), shapes=[f"shape{k}" for k in range(count)], friction=0.8)
    start = np.array(q)
    found = lw.rollout(
        model, start, np.zeros(model.nv), dt=2e-3, steps=2500, record_every=250, contacts=contacts
    )
    assert found.status == lw.Status.OK
    np.testing.assert_allclose(found.q[-1], start, atol=2e-3)


def test_a_spinning_ellipsoid_rolls_on_a_box_and_off_its_edge() -> None:
    model = free_bodies(1, 1.0, (0.004, 0.005, 0.006), shape="ellipsoid", size=(0.12, 0.1, 0.08))
    table = lw.Geometry(
        "table", shape="box", size=(1.0, 1.0, 0.1), place=Pose.from_xyz_rpy((0.0, 0.0, -0.05))
    )
    rng = np.random.default_rng(4)
    rows = 8
    q = np.tile(placed(model, [(0.2, 0.0, 0.1)]), (rows, 1))
    turn = rng.normal(size=(rows, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    contacts = lw.Contacts(ground=table, friction=0.5)
    q[:, 2] -= lw.contact_points(model, q, contacts=contacts)[0].min(axis=-1)
    R = lw.frame_pose(model, q, frame="body0")[:, :3, :3]
    v = np.zeros((rows, 6))
    v[:, :3] = np.einsum("nji,nj->ni", R, rng.normal((0.0, 15.0, 10.0), 3.0, (rows, 3)))
    v[:, 3:] = np.einsum("nji,j->ni", R, [1.5, 0.0, 0.0])
    found = lw.rollout(model, q, v, dt=2e-3, steps=400, contacts=contacts)
    assert not found.status.any()
    assert (found.q[:, -1, 2] < -0.2).all() and (found.q[:, -1, 0] > 0.5).all()
    assert lw.contact_points(model, found.q, contacts=contacts)[0].min() > -DEPTH
    energy = np.asarray(lw.kinetic_energy(model, found.q, found.v) + lw.potential_energy(model, found.q))
    assert (np.diff(energy, axis=1) < 9.81 * DEPTH).all()
    assert (energy[:, -1] <= energy[:, 0]).all()


@pytest.mark.slow
def test_a_gripper_holds_a_cube_for_a_minute() -> None:
    builder = lw.ModelBuilder("gripper")
    for name, sign in (("left", 1.0), ("right", -1.0)):
        builder.add_body(name, mass=0.2, inertia=(1e-4,) * 3)
        builder.add_joint(
            f"{name} slide",
            lw.joints.Prismatic((sign, 0.0, 0.0)),
            parent="world",
            child=name,
            xyz=(-0.06 * sign, 0.0, 0.0),
        )
        builder.add_geometry(f"{name} pad", "box", (0.02, 0.04, 0.04), link=name)
    builder.add_body("cube", mass=1.0, inertia=(0.01 / 6,) * 3)
    builder.add_joint("free", lw.joints.Free(), parent="world", child="cube")
    builder.add_geometry("faces", "box", (0.1, 0.1, 0.1), link="cube")
    model = builder.build()
    contacts = lw.Contacts(ground=None, pairs=[("left pad", "faces"), ("right pad", "faces")], friction=0.6)
    tau = np.array([20.0, 20.0, *np.zeros(6)])
    q = np.array(model.neutral(), dtype=float)
    found = lw.rollout(model, q, np.zeros(8), tau, dt=5e-3, steps=12_000, record_every=500, contacts=contacts)
    assert found.status == lw.Status.OK
    np.testing.assert_allclose(found.q[-1], q, atol=1e-4)


@pytest.mark.parametrize("restitution", [0.0, 1.0])
@pytest.mark.parametrize("speed", [0.5, 150.0])
def test_boxes_struck_within_a_step_strike_the_next_box(speed: float, restitution: float) -> None:
    """Points of boxes that are far apart are not searched for: the second one is at rest, and in reach of the
    third only once the first has struck it.
    """
    model = free_bodies(3, 1.0, (2e-3,) * 3, shape="box", size=(0.1, 0.1, 0.1)).without_passive_forces()
    q = placed(model, [(0.2 * k, 0.0, 5.0) for k in range(3)])
    v = np.zeros(model.nv)
    v[3] = speed
    contacts = lw.Contacts(pairs=in_a_row(3), restitution=restitution)
    found = lw.rollout(model, q, v, dt=2e-3, steps=4 if speed > 1.0 else 500, contacts=contacts)
    assert found.status == lw.Status.OK
    x, after = found.q[..., ::7], found.v[..., 3::6]
    np.testing.assert_allclose(after.sum(axis=-1), speed, rtol=1e-9)
    assert (np.diff(x, axis=-1) > 0.1 - DEPTH).all()
    assert after[-1, 2] == pytest.approx(speed / 3.0 if restitution == 0.0 else speed, rel=1e-6)
    assert ((after**2).sum(axis=-1) <= speed**2 * (1.0 + 1e-9)).all()
