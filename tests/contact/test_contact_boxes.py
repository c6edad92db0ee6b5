"""Boxes on boxes: distances against independent algebra and Coal, manifolds, and scenes with flush faces."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from coal_distances import coal_distance, random_rotation
from linkwork.contact.boxes import Boxes
from linkwork.spatial import Pose


def box_poses(rng: np.random.Generator, count: int) -> Any:
    """Sizes from 1 mm to 10 m, and poses: generic, parallel to each other, flush along some axes, apart or
    deep inside.
    """
    for k in range(count):
        sizes = rng.uniform(0.1, 1.0, (2, 3)) * 10.0 ** rng.uniform(-2, 1)
        R = random_rotation(rng) if k % 3 else np.eye(3)[rng.permutation(3)]
        R = R * np.sign(np.linalg.det(R))
        reach = sizes.sum(axis=1)
        p = rng.normal(size=3) * reach.sum() * 0.25
        if k % 3 == 0:
            edges = np.abs(R) @ sizes[0]
            flush = np.where(rng.random(3) < 0.5, edges - sizes[1], edges + sizes[1])
            p = np.where(rng.random(3) < 0.5, p, 0.5 * flush)
        yield sizes, R, p


def least_overlap(sizes: np.ndarray, R: np.ndarray, p: np.ndarray) -> float:
    """The largest distance along any of 15 axes, negative where the boxes overlap."""
    axes = [*np.eye(3), *R.T, *(np.cross(e, d) for e, d in product(np.eye(3), R.T))]
    axes = [n / np.linalg.norm(n) for n in axes if np.linalg.norm(n) > 1e-6]
    return max(abs(n @ p) - 0.5 * sizes[0] @ np.abs(n @ R) - 0.5 * sizes[1] @ np.abs(n) for n in axes)


def inside(x: np.ndarray, half: np.ndarray, slack: float) -> bool:
    return bool((np.abs(x) <= half + slack).all())


def check_pair(sizes: np.ndarray, R: np.ndarray, p: np.ndarray, tolerance: float) -> None:
    pair = Boxes(tuple(0.5 * sizes[0]), tuple(0.5 * sizes[1]))
    axes, meetings = pair.meetings(Pose(R.astype(object), p.astype(object)))
    n = axes[0].astype(float)
    gaps = [float(each.gap) for each in meetings]
    size = sizes.max()
    np.testing.assert_allclose(axes.astype(float) @ axes.astype(float).T, np.eye(3), atol=1e-12)
    overlap = least_overlap(sizes, R, p)
    reach = n @ p - 0.5 * sizes[0] @ np.abs(n @ R) - 0.5 * sizes[1] @ np.abs(n)
    if overlap < -1e-6 * size:
        assert min(gaps) == pytest.approx(overlap, abs=tolerance * size)
        assert reach == pytest.approx(overlap, abs=tolerance * size)
    for each in meetings:  # points are on both shapes, opposite each other
        own, other = (x.astype(float) for x in (each.point, each.other_point))
        assert inside(R.T @ (own - p), 0.5 * sizes[0], 1e-5 * size)
        assert inside(other, 0.5 * sizes[1], 1e-5 * size)
    lowest = meetings[int(np.argmin(gaps))]
    between = (lowest.point - lowest.other_point).astype(float)
    np.testing.assert_allclose(between, min(gaps) * n, atol=1e-5 * size)


@pytest.mark.parametrize("seed", range(3))
def test_overlaps_are_the_least_along_all_axes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for sizes, R, p in box_poses(rng, 40):
        check_pair(sizes, R, p, 1e-10)


@pytest.mark.parametrize("seed", [pytest.param(k, marks=pytest.mark.slow) if k else k for k in range(20)])
def test_distances_agree_with_coal(seed: int) -> None:
    rng = np.random.default_rng(10 + seed)
    unlike = 0
    for sizes, R, p in box_poses(rng, 100 if seed == 0 else 1000):
        distance, normal = coal_distance("box", sizes[0], "box", sizes[1], R, p)
        axes, meetings = Boxes(tuple(0.5 * sizes[0]), tuple(0.5 * sizes[1])).meetings(
            Pose(R.astype(object), p.astype(object))
        )
        gap = min(float(each.gap) for each in meetings)
        assert gap == pytest.approx(distance, abs=1e-9 * max(1.0, sizes.max()))
        unlike += np.abs(axes[0].astype(float) - normal).max() > 1e-6  # where two axes are as good
    assert unlike < 0.1 * (100 if seed == 0 else 1000)


def crate(size: tuple[float, float, float], count: int = 1) -> lw.Model:
    builder = lw.ModelBuilder("crates")
    for k in range(count):
        inertia = (
            np.diag([size[1] ** 2 + size[2] ** 2, size[0] ** 2 + size[2] ** 2, size[0] ** 2 + size[1] ** 2])
            / 12.0
        )
        builder.add_body(f"crate{k}", mass=1.0, inertia=inertia)
        builder.add_joint(f"joint{k}", lw.joints.Free(), parent="world", child=f"crate{k}")
        builder.add_geometry(f"box{k}", "box", size, link=f"crate{k}")
    return builder.build()


def placed(model: lw.Model, *places: Any) -> np.ndarray:
    q = np.array(model.neutral(), dtype=float)
    for joint, place in zip(model.joints, places):
        q[joint.q_slice][:3] = place
    return q


OFFSETS = [(0.0, 0.0), (0.003, -0.02), (-0.1, 0.0), (0.1, 0.1), (0.05, 0.0999)]


@pytest.fixture(scope="module")
def two_crates() -> lw.Model:
    return crate((0.2, 0.2, 0.2), 2)


@pytest.mark.parametrize("offset", OFFSETS[:3], ids=str)
def test_equal_crates_stand_on_each_other(two_crates: lw.Model, offset: tuple[float, float]) -> None:
    """Faces, edges and corners are flush, or off by millimetres; with the middle over the edge it rests on
    half of a face.
    """
    q = placed(two_crates, (0.0, 0.0, 0.1), (*(0.99 * np.array(offset)), 0.3))
    motion = lw.rollout(two_crates, q, np.zeros(12), dt=0.002, steps=500, contacts=lw.Contacts())
    assert motion.status == lw.Status.OK
    np.testing.assert_allclose(motion.q[-1], q, atol=1e-6)


TABLE = lw.Geometry("table", shape="box", size=(2.0, 2.0, 0.1), place=Pose.from_xyz_rpy((0.0, 0.0, -0.05)))
OVERHANGS = [(0.9, 0.0), (0.902, 0.0), (0.999, 0.0), (0.9, 0.9), (0.99, -0.9)]


def test_cubes_at_the_edge_of_a_table_stay() -> None:
    """Flush with one edge or two, or with an overhang of 2 mm to nearly a half; with the middle beyond it
    falls.
    """
    model = crate((0.2, 0.2, 0.2))
    q = np.array([placed(model, (*place, 0.1)) for place in [*OVERHANGS, (1.002, 0.0)]])
    motion = lw.rollout(
        model, q, np.zeros((len(q), 6)), dt=0.002, steps=500, contacts=lw.Contacts(ground=TABLE)
    )
    assert (motion.status == lw.Status.OK).all()
    np.testing.assert_allclose(motion.q[:-1, -1], q[:-1], atol=1e-6)
    assert motion.q[-1, -1, 2] < -0.1


def test_a_plate_lies_on_a_smaller_box() -> None:
    """All corners of the plate are far outside; it stands on those of the box."""
    model = crate((1.0, 1.0, 0.05))
    post = lw.Geometry(
        "post",
        shape="box",
        size=(0.2, 0.3, 0.4),
        place=Pose.from_xyz_rpy((0.04, 0.03, -0.2), (0.0, 0.0, 0.3)),
    )
    q = placed(model, (0.0, 0.0, 0.025))
    motion = lw.rollout(model, q, np.zeros(6), dt=0.002, steps=300, contacts=lw.Contacts(ground=post))
    assert motion.status == lw.Status.OK
    np.testing.assert_allclose(motion.q[-1], q, atol=1e-6)


def test_crossing_edges_carry() -> None:
    """A square bar, on its edge, lies across the edges of two others; without contacts of edges it falls
    between them.
    """
    half = np.sqrt(0.5) * 0.1
    rails = [
        lw.Geometry(
            f"rail{x}",
            shape="box",
            size=(0.1, 2.0, 0.1),
            place=Pose.from_xyz_rpy((x, 0.0, -half), (0.0, np.pi / 4, 0.0)),
        )
        for x in (-0.3, 0.3)
    ]
    model = crate((1.0, 0.1, 0.1))
    q = placed(model, (0.0, 0.0, half))
    q[3:7] = np.sin(np.pi / 8), 0.0, 0.0, np.cos(np.pi / 8)
    gap, _, normal = lw.contact_points(model, q, contacts=lw.Contacts(ground=rails))
    assert gap.min() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(normal[np.abs(gap) < 1e-9], [[0.0, 0.0, 1.0]] * 2, atol=1e-12)
    motion = lw.rollout(
        model, q, np.zeros(6), dt=0.002, steps=50, contacts=lw.Contacts(ground=rails, friction=1.0)
    )
    assert motion.status == lw.Status.OK
    assert motion.q[-1, 2] == pytest.approx(half, abs=2e-3)  # it may roll over its edge


def test_a_peg_stays_in_its_hole() -> None:
    """A hole of four boxes, 0.1 mm wider than the peg; the peg falls to the bottom and stands there."""
    walls = [
        lw.Geometry("floor", shape="box", size=(1.0, 1.0, 0.1), place=Pose.from_xyz_rpy((0.0, 0.0, -0.05))),
        *(
            lw.Geometry(f"wall{k}", shape="box", size=size, place=Pose.from_xyz_rpy((*place, 0.1)))
            for k, (size, place) in enumerate(
                [
                    ((0.1, 0.3, 0.2), (0.07505, 0.0)),
                    ((0.1, 0.3, 0.2), (-0.07505, 0.0)),
                    ((0.05, 0.1, 0.2), (0.0, 0.07505)),
                    ((0.05, 0.1, 0.2), (0.0, -0.07505)),
                ]
            )
        ),
    ]
    model = crate((0.05, 0.05, 0.3))
    q = placed(model, (1e-5, -2e-5, 0.2))
    motion = lw.rollout(
        model, q, np.zeros(6), dt=0.002, steps=500, contacts=lw.Contacts(ground=walls, friction=0.1)
    )
    assert motion.status == lw.Status.OK
    assert motion.q[-1, 2] == pytest.approx(0.15, abs=1e-5)
    assert np.abs(motion.q[:, :2]).max() < 1e-4
    assert np.abs(motion.q[:, 3:6]).max() < 1e-3
