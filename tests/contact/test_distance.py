"""`lw.distance`: signed distances, nearest points and normals of pairs of shapes, against Coal, samples and
differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from coal_distances import coal_distance
from contact_scenes import SHAPES, nearby, two_shapes

PAIRS = [
    ("box", "box"),
    ("capsule", "box"),
    ("ellipsoid", "cylinder"),
    ("stone", "box"),
    ("capsule", "capsule"),
    ("sphere", "box"),
]


def numbers(shape: str) -> Any:
    return SHAPES[shape].get("vertices") or SHAPES[shape]["size"]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_distance_agrees_with_coal(pair: tuple[str, str], fixed: bool) -> None:
    rng = np.random.default_rng(2)
    model = two_shapes(*pair, rng, fixed=fixed)
    q = np.array([nearby(model, rng)[0] for _ in range(10)])
    distance, a, b, n = lw.distance(model, q)
    assert distance.shape == (10, 1) and a.shape == b.shape == n.shape == (10, 1, 3)
    np.testing.assert_allclose(np.linalg.norm(n, axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(a - b, distance[..., None] * n, atol=1e-6)
    for k, T in enumerate(lw.forward_kinematics(model, q)):
        frames = []
        for shape in model.geometries:
            frames.append(
                shape.place
                if shape.body < 0
                else lw.spatial.Pose(T[shape.body, :3, :3], T[shape.body, :3, 3]).then(shape.place)
            )
        seen = frames[1].inverse().then(frames[0])
        kinds = [shape.shape for shape in model.geometries]
        wanted, normal = coal_distance(kinds[0], numbers(pair[0]), kinds[1], numbers(pair[1]), seen.R, seen.p)
        assert distance[k, 0] == pytest.approx(wanted, abs=1e-7)
        np.testing.assert_allclose(n[k, 0], frames[1].R @ normal, atol=1e-4)


def test_distance_is_the_least_between_samples() -> None:
    """Points on two ellipsoids are nowhere nearer than the distance, and some are nearly as near."""
    rng = np.random.default_rng(5)
    model = two_shapes("ellipsoid", "ellipsoid", rng, fixed=False)
    around = rng.normal(size=(3000, 3))
    around *= np.array(SHAPES["ellipsoid"]["size"]) / np.linalg.norm(around, axis=1)[:, None]
    q = np.array(model.neutral(), dtype=float)
    q[:3] = 0.9, 0.5, -0.3
    distance = lw.distance(model, q)[0]
    T = lw.forward_kinematics(model, q)
    clouds = [
        (around @ s.place.R.T + s.place.p) @ T[s.body, :3, :3].T + T[s.body, :3, 3] for s in model.geometries
    ]
    nearest = np.linalg.norm(clouds[0][:, None] - clouds[1], axis=2).min()
    assert distance[0] <= nearest <= distance[0] + 0.02


@pytest.mark.parametrize("pair", [*PAIRS, ("cylinder", "plane")], ids="-".join)
def test_derivatives(pair: tuple[str, str]) -> None:
    """By differences; and that of the distance is the relative velocity of the nearest points along the
    normal.
    """
    rng = np.random.default_rng(3)
    model = two_shapes(*pair, rng, fixed=pair[1] == "plane")
    q, v = nearby(model, rng)
    q[:3] += 0.7  # apart
    J = lw.jacobian(lw.distance, model, wrt="q")(q)
    ends = [lw.distance(model, lw.integrate(model, q, h * v)) for h in (-1e-6, 1e-6)]
    for by_q, before, after in zip(J, *ends):
        np.testing.assert_allclose(np.asarray(by_q) @ v, (np.asarray(after) - before) / 2e-6, atol=1e-5)
    pulled = lw.vjp(lw.distance, model, wrt="q")(q, np.ones(1), *np.zeros((3, 1, 3)))[-1]
    np.testing.assert_allclose(pulled, J[0][0], atol=1e-12)


@pytest.fixture(scope="module")
def arm() -> lw.Model:
    builder = lw.ModelBuilder("arm")
    for k, parent in enumerate(("world", "upper")):
        name = ("upper", "lower")[k]
        builder.add_body(name, mass=1.0, center=(0.0, 0.0, 0.2), inertia=(0.02, 0.02, 0.01))
        joint = lw.joints.Revolute((0.0, 1.0, 0.0))
        builder.add_joint(f"joint{k}", joint, parent=parent, child=name, xyz=(0.0, 0.0, 0.4 * k))
        builder.add_geometry(f"{name} tube", "capsule", (0.05, 0.3), link=name, xyz=(0.0, 0.0, 0.2))
        builder.add_geometry(f"{name} knob", "sphere", 0.06, link=name, xyz=(0.0, 0.0, 0.4))
    builder.add_frame("tip", body="lower", xyz=(0.0, 0.0, 0.4))
    builder.add_geometry("wall", "box", (0.1, 2.0, 2.0), link="world", xyz=(0.9, 0.0, 0.0))
    return builder.add_geometry(
        lw.Geometry("sketch", shape="mesh", mesh="a.stl", link="lower", collision=False)
    ).build()


def test_pairs_are_shapes_links_frames_and_geometries(arm: lw.Model) -> None:
    assert lw.distance_pairs(arm, ("lower", "wall")) == (("lower tube", "wall"), ("lower knob", "wall"))
    every = lw.distance_pairs(arm)
    assert ("upper knob", "wall") in every and not any("sketch" in pair for pair in every)
    ball = lw.Geometry("ball", shape="sphere", size=0.1, place=lw.spatial.Pose.from_xyz_rpy((0.0, 0.0, 1.5)))
    pairs = [("tip", "wall"), ("lower knob", ball), ("tip", "upper knob")]
    q = np.array([[0.0, 0.0], [np.pi / 2, 0.0]])
    distance, point, other_point, normal = lw.distance(arm, q, pairs=pairs)
    np.testing.assert_allclose(
        distance, [[0.85, 0.54, 0.34], [0.05, np.hypot(0.8, 1.5) - 0.16, 0.34]], atol=1e-12
    )
    np.testing.assert_allclose(point[:, 0], [[0.0, 0.0, 0.8], [0.8, 0.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(other_point[:, 0], [[0.85, 0.0, 0.8], [0.85, 0.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(normal[0, 1], [0.0, 0.0, -1.0], atol=1e-12)
    small = lw.distance(arm, q.astype("float32"), pairs=pairs, dtype="float32")[0]
    np.testing.assert_allclose(small, distance, atol=1e-6)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("lower", "door")], "no shape, link or frame named 'door'"),
        ("wall", "pairs: expected pairs of names"),
        ([("lower",)], "pairs: expected pairs of names"),
        ([("sketch", "wall")], "the mesh has no hull"),
    ],
)
def test_pairs_that_cannot_be_tested(arm: lw.Model, pairs: Any, message: str) -> None:
    with pytest.raises(lw.ModelError, match=message):
        lw.distance(arm, np.zeros(2), pairs=pairs)


def test_default_needs_shapes() -> None:
    with pytest.raises(lw.ModelError, match="no two shapes that can collide"):
        lw.distance(lw.robots.chain(2), np.zeros(2))
