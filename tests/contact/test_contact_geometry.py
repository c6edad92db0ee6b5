"""Gaps, points and normals of shapes that may touch, and the rows that belong to them."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from contact_scenes import PAIRS, SHAPES, gaps_and_rates, nearby, random_pose, two_shapes
from linkwork.algorithms.tree.kinematics import node_velocities
from linkwork.constraints import BodyKinematics
from linkwork.contact import Contacts, contact_rows
from linkwork.contact.collision_functions import PointOf
from linkwork.contact.names import named_shapes
from linkwork.errors import ModelError
from linkwork.functions.contact_points import nodes_with
from linkwork.spatial import Pose

ITERATED = {"ellipsoid", "cylinder", "hull", "stone"}  # against convex shapes their distances are iterated


def rate_tolerance(pair: tuple[str, str]) -> float:
    """What rates may differ by from differences, whose step divides the error of an iterated distance [m/s].

    Of a capsule across an edge of a box, two points 1e-6 of the size apart have the same gap.
    """
    if set(pair) == {"box", "capsule"}:
        return 1e-6
    return 2e-6 if set(pair) & ITERATED and not set(pair) & {"plane", "heightfield"} else 2e-8


def check_rates(
    model: lw.Model,
    contacts: Contacts,
    q: np.ndarray,
    v: np.ndarray,
    h: float = 1e-6,
    tolerance: float = 2e-8,
) -> None:
    """d gap / dt is the velocity along the normal, by finite differences."""
    before, after = (gaps_and_rates(model, contacts, lw.integrate(model, q, s * v), v)[0] for s in (-h, h))
    rate = (after - before) / (2.0 * h)
    _, expected = gaps_and_rates(model, contacts, q, v)
    rest = np.array([not leads(model, contacts, k, q) for k in range(len(rate))])
    np.testing.assert_allclose(rate[~rest], expected[~rest], atol=tolerance)


def leads(model: lw.Model, contacts: Contacts, k: int, q: np.ndarray) -> bool:
    """Whether a point of a manifold is the nearest one; the others move along slopes, which changes their
    gaps too.
    """
    found = contacts.candidates(model)
    if not isinstance(law := found[k].law, PointOf):
        return True
    kinematics = BodyKinematics(nodes_with(model, found, q))
    gaps = [
        each.touch(kinematics).gap
        for each in found
        if isinstance(each.law, PointOf) and each.law.collision == law.collision
    ]
    return int(np.argmin(gaps)) == law.index


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_gap_rate_is_the_velocity_along_the_normal(pair: tuple[str, str], fixed: bool) -> None:
    rng = np.random.default_rng(5)
    contacts = Contacts(pairs="auto", ground="plane" if fixed else None)
    for _ in range(3):
        model = two_shapes(*pair, rng, fixed=fixed)
        q, v = nearby(model, rng)
        check_rates(model, contacts, q, v, tolerance=rate_tolerance(pair))


def mujoco_scene(mujoco: Any, model: lw.Model) -> Any:
    """The same two shapes for MuJoCo, to be placed later."""
    text = ["<mujoco><worldbody>"]
    for shape in model.geometries:
        sizes = {"box": 0.5, "capsule": (1.0, 0.5), "cylinder": (1.0, 0.5)}.get(shape.shape, 1.0)
        size = (
            "5 5 1" if shape.shape == "plane" else " ".join(f"{x:.17g}" for x in np.array(shape.size) * sizes)
        )
        text.append(f'<geom name="{shape.name}" type="{shape.shape}" size="{size}"/>')
    return mujoco.MjModel.from_xml_string("\n".join([*text, "</worldbody></mujoco>"]))


EXACT = [(shape, "plane") for shape in ("sphere", "capsule", "box", "ellipsoid", "cylinder")]
EXACT += [("sphere", "box"), ("capsule", "box"), ("box", "capsule")]
EXACT += [(a, b) for a in ("sphere", "capsule") for b in ("sphere", "capsule")]


@pytest.mark.parametrize("pair", EXACT, ids="-".join)
def test_distance_agrees_with_mujoco(pair: tuple[str, str]) -> None:
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(7)
    model = two_shapes(*pair, rng, fixed=False)
    contacts = Contacts(ground=None)
    scene = mujoco_scene(mujoco, model)
    data = mujoco.MjData(scene)
    compared = 0
    for _ in range(20):
        q, _ = nearby(model, rng)
        gaps, points, normals = lw.contact_points.body(model, q, contacts=contacts)
        T = lw.forward_kinematics(model, q)
        mujoco.mj_kinematics(scene, data)
        for k, shape in enumerate(model.geometries):
            data.geom_xpos[k] = T[k, :3, :3] @ shape.place.p + T[k, :3, 3]
            data.geom_xmat[k] = (T[k, :3, :3] @ shape.place.R).ravel()
        where = np.zeros(6)
        distance = mujoco.mj_geomDistance(scene, data, 0, 1, 5.0, where)
        k = int(np.argmin(gaps))
        if distance < 0.02 and "plane" not in pair:  # where shapes overlap, depths mean different things
            assert gaps[k] < 0.03
            continue
        compared += 1
        assert gaps[k] == pytest.approx(distance, abs=2e-6)
        away = (where[:3] - where[3:]) / np.linalg.norm(where[:3] - where[3:])
        np.testing.assert_allclose(normals[k].astype(float) * np.sign(distance), away, atol=2e-3)
        if not {"cylinder", "box"} & {pair[0]}:  # which may be as far at several places
            middle = pair == ("capsule", "box") or pair[1] in ("sphere", "capsule")
            np.testing.assert_allclose(
                points[k].astype(float), 0.5 * (where[:3] + where[3:]) if middle else where[:3], atol=2e-3
            )
    assert compared > 4


def still(**shape: Any) -> lw.Model:
    """A shape on a free body, with its axes."""
    builder = lw.ModelBuilder("still").add_body("a", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("floats", lw.joints.Free(), parent="world", child="a")
    return builder.add_geometry(lw.Geometry("shape", link="a", **shape)).build()


def at(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    return np.array([x, y, z, 0.0, 0.0, 0.0, 1.0])


def on_world(shape: str, **more: Any) -> lw.Geometry:
    return lw.Geometry("fixed", shape=shape, **{**SHAPES[shape], **more})


DEGENERATE = [
    ("cylinder", "plane", 0.2, [0.4, *[0.0] * 4]),  # upright
    ("sphere", "sphere", 0.0, [-0.4]),  # one in the other
    ("capsule", "capsule", 0.0, [-0.2, -0.2]),
    ("sphere", "capsule", 0.0, [-0.3]),
    ("sphere", "box", 0.0, [-0.3]),
    ("point", "box", 0.1, [0.0]),  # on the surface
]


@pytest.mark.parametrize(("shape", "other", "height", "expected"), DEGENERATE)
def test_no_number_is_lost_where_directions_vanish(
    shape: str, other: str, height: float, expected: list[float]
) -> None:
    model = still(shape=shape, **SHAPES[shape])
    contacts = Contacts(ground=on_world(other))
    for dtype in ("float64", "float32"):
        gap, point, normal = lw.contact_points(
            model, at(z=height).astype(dtype), contacts=contacts, dtype=dtype
        )
        assert np.isfinite(point).all()
        np.testing.assert_allclose(np.linalg.norm(normal, axis=-1), 1.0, atol=1e-6)
        np.testing.assert_allclose(gap, expected, atol=1e-6)


def test_a_cylinder_lies_on_two_points_and_stands_on_more() -> None:
    model = still(shape="cylinder", size=(0.1, 0.6))
    half = np.sqrt(0.5)
    lying = np.array([0.0, 0.0, 0.1, half, 0.0, 0.0, half])
    for q, count in ((lying, 2), (at(z=0.3), 4)):
        gap, point, _ = lw.contact_points(model, q, contacts=Contacts())
        assert np.sum(np.abs(gap) < 1e-9) == count and gap.min() > -1e-9
        own = point[np.abs(gap) < 1e-9]
        assert np.linalg.norm(own.mean(axis=0)) < 0.3 / np.sqrt(count) and np.ptp(own, axis=0).max() > 0.1


def test_parallel_capsules_are_as_far_as_their_axes() -> None:
    model = still(shape="capsule", size=(0.1, 0.5))
    fixed = on_world("capsule")
    for along in (0.0, 0.3, -0.7):
        gap, _, normal = lw.contact_points(model, at(x=0.5, z=along), contacts=Contacts(ground=fixed))
        assert gap[0] == pytest.approx(np.hypot(0.5, max(abs(along) - 0.5, 0.0)) - 0.2, abs=1e-12)
        assert normal[0, 0] > 0.9


def test_height_field_is_met_at_its_triangles() -> None:
    """Against the plane through the corners of the triangle below, found by looking at all of them."""
    field = on_world("heightfield", place=Pose.from_xyz_rpy((0.3, -0.2, 0.1), (0.2, -0.1, 0.5)))
    heights = np.array(field.heights)
    rows, columns = heights.shape
    X = np.linspace(-1.5, 1.5, columns)
    Y = np.linspace(-2.0, 2.0, rows)
    triangles = []
    for i in range(rows - 1):
        for j in range(columns - 1):
            corner = [
                np.array([X[j + b], Y[i + a], heights[i + a, j + b]])
                for a, b in ((0, 0), (0, 1), (1, 1), (1, 0))
            ]
            triangles += [(corner[0], corner[1], corner[2]), (corner[0], corner[2], corner[3])]
    model = still(shape="sphere", size=(0.05,))
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(30):
        q = at(*rng.uniform(-1.0, 1.0, 2), rng.uniform(-0.2, 0.6))
        gap, _, normal = lw.contact_points(model, q, contacts=Contacts(ground=field))
        x = field.place.R.T @ (q[:3] - field.place.p)
        for a, b, c in triangles:
            share = np.linalg.solve(np.column_stack([(b - a)[:2], (c - a)[:2]]), (x - a)[:2])
            if share.min() < 1e-9 or share.sum() > 1.0 - 1e-9:
                continue
            n = np.cross(b - a, c - a)
            n *= np.sign(n[2]) / np.linalg.norm(n)
            found += 1
            assert gap[0] == pytest.approx(n @ (x - a) - 0.05, abs=1e-12)
            np.testing.assert_allclose(normal[0], field.place.R @ n, atol=1e-12)
    assert found > 20


def test_boxes_touch_with_the_corners_of_the_smaller_face() -> None:
    """A large plate on a small box, and the reverse."""
    for size, other in (((2.0, 2.0, 0.2), (0.2, 0.3, 0.4)), ((0.2, 0.3, 0.4), (2.0, 2.0, 0.2))):
        model = still(shape="box", size=size)
        ground = lw.Geometry("fixed", shape="box", size=other)
        gap, point, normal = lw.contact_points(model, at(z=0.3 - 1e-3), contacts=Contacts(ground=ground))
        corners = np.array([[x, y] for x in (-0.1, 0.1) for y in (-0.15, 0.15)])
        apart = np.linalg.norm(point[:, None, :2] - corners, axis=2)
        np.testing.assert_allclose(np.sort(apart, axis=1)[:, 0], 0.0, atol=1e-6)
        assert set(apart.argmin(axis=1)) == {0, 1, 2, 3}
        np.testing.assert_allclose(gap, -1e-3, atol=1e-12)
        np.testing.assert_allclose(normal, np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-12)


@pytest.mark.parametrize(
    "pair",
    [("sphere", "plane"), ("capsule", "capsule"), ("ellipsoid", "heightfield"), ("box", "sphere")],
    ids="-".join,
)
def test_rows_are_velocities_of_one_point_on_both_bodies(pair: tuple[str, str]) -> None:
    """Along normal and tangents by finite differences of where the point on each body goes; about these by
    their spins.
    """
    rng = np.random.default_rng(12)
    model = two_shapes(*pair, rng, fixed=False)
    q, v = nearby(model, rng)
    found = Contacts(ground=None, rolling=0.1).candidates(model)
    kinematics = BodyKinematics(nodes_with(model, found, q, v))
    V = node_velocities(kinematics.nodes, v)
    h = 1e-6
    before, after = (lw.forward_kinematics(model, lw.integrate(model, q, s * v)) for s in (-h, h))
    now = lw.forward_kinematics(model, q)
    for each in found:
        touch = each.touch(kinematics)
        rows = sum(
            K @ V[node][block] for node, block, K in contact_rows(kinematics, each, touch).nodes
        ).astype(float)
        frames = [kinematics.nodes[body].C for body in (each.body, each.other)]
        sides = ((touch.point, touch.axes), (touch.other_point, touch.other_axes))
        points = [
            frame.point(point).astype(float) for frame, (point, _) in zip(frames, sides)
        ]  # in the bodies' own frames
        one = each.body
        other = each.other
        axes = [
            axes.astype(float) @ frame.R.T.astype(float) @ now[k, :3, :3].T
            for k, frame, (_, axes) in zip((one, other), frames, sides)
        ]
        np.testing.assert_allclose(axes[0], axes[1], atol=1e-12)
        np.testing.assert_allclose(axes[0] @ axes[0].T, np.eye(3), atol=1e-12)
        places = [now[k, :3, :3] @ x + now[k, :3, 3] for k, x in zip((one, other), points)]
        np.testing.assert_allclose(places[0], places[1], atol=1e-12)
        speeds = [
            ((after - before)[k, :3, :3] @ x + (after - before)[k, :3, 3]) / (2.0 * h)
            for k, x in zip((one, other), points)
        ]
        spins = [((after - before)[k, :3, :3] / (2.0 * h)) @ now[k, :3, :3].T for k in (one, other)]
        turning = spins[0] - spins[1]
        w = np.array([turning[2, 1], turning[0, 2], turning[1, 0]])
        np.testing.assert_allclose(rows, [*(axes[0] @ (speeds[0] - speeds[1])), *(axes[0] @ w)], atol=1e-7)


def test_a_box_touches_a_plane_with_the_face_that_looks_down() -> None:
    size = np.array([0.3, 0.4, 0.2])
    rng = np.random.default_rng(4)
    model = still(shape="box", size=size)
    corners = 0.5 * size * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    for _ in range(20):
        q, _ = model.random_state(rng)
        T = lw.forward_kinematics(model, q)[0]
        heights = (corners @ T[:3, :3].T + T[:3, 3])[:, 2]
        down = int(np.argmax(np.abs(T[2, :3])))  # the face across this axis, on the side that looks down
        face = np.sign(corners[:, down]) == -np.sign(T[2, down])
        gap, point, _ = lw.contact_points.body(model, q, contacts=Contacts().on(model))
        np.testing.assert_allclose(np.sort(gap.astype(float)), np.sort(heights[face]), atol=1e-12)
        assert np.min(heights) == pytest.approx(float(gap.min()), abs=1e-12)
        own = (point.astype(float) - T[:3, 3]) @ T[:3, :3]
        np.testing.assert_allclose(np.abs(own), np.tile(0.5 * size, (4, 1)), atol=1e-12)


def test_a_hull_of_many_corners_touches_with_the_lowest_and_stands_on_its_face() -> None:
    stone = still(**SHAPES["stone"])
    vertices = np.array(SHAPES["stone"]["vertices"])
    rng = np.random.default_rng(6)
    for _ in range(20):
        q, _ = stone.random_state(rng)
        T = lw.forward_kinematics(stone, q)[0]
        gap, point, _ = lw.contact_points.body(stone, q, contacts=Contacts().on(stone))
        assert len(gap) == 5
        assert (
            float(gap[0])
            == pytest.approx((vertices @ T[2, :3]).min() + T[2, 3], abs=1e-12)
            == float(gap.min())
        )
        own = (point.astype(float) - T[:3, 3]) @ T[:3, :3]
        assert np.abs(own[:, None] - vertices).max(axis=2).min(axis=1).max() < 1e-12
    turns = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
    drum = np.array([[np.cos(turn), np.sin(turn), z] for turn in turns for z in (-0.3, 0.3)])
    standing = still(shape="hull", vertices=drum)
    gap, point, _ = lw.contact_points.body(standing, at(z=0.3), contacts=Contacts().on(standing))
    np.testing.assert_allclose(gap.astype(float), 0.0, atol=1e-12)
    around = np.sort(np.arctan2(*point[1:, :2].astype(float).T))
    assert (
        np.diff([*around, around[0] + 2.0 * np.pi]).max() < np.pi - 0.1
    )  # its middle is well inside of what it stands on


def test_a_margin_makes_shapes_larger() -> None:
    model = still(shape="sphere", size=0.1)
    q = at(z=0.5)
    gaps = [
        lw.contact_points.body(model, q, contacts=Contacts(margin=margin))[0][0] for margin in (0.0, 0.02)
    ]
    np.testing.assert_allclose(np.array(gaps, dtype=float), [0.4, 0.38])


ROBOTS = ["mini_cheetah", "flexible_slider_crank", "link_rotor_chain"]
LONG = [
    pytest.param(robot, marks=pytest.mark.slow)
    for robot in ("tello", "delta", "flexible_arm", "boom_satellite")
]


@pytest.mark.parametrize("robot", [*ROBOTS, *LONG])
def test_gap_rates_in_loops_on_rotors_and_on_what_deforms(robot: str) -> None:
    """Spheres on every body, against a tilted plane and, some of them, against each other."""
    model = getattr(lw.robots, robot)(*([2] if robot == "link_rotor_chain" else []))
    rng = np.random.default_rng(8)
    bodies = [body.name for body in model.bodies]
    balls = [
        lw.Geometry(f"on {name}", shape="sphere", size=0.05, link=name, place=random_pose(rng, 0.1))
        for name in bodies
    ]
    model = dataclasses.replace(
        model, geometries=tuple(named_shapes(model, ball)[0] for ball in balls), kernels={}
    )
    tilted = lw.Geometry("slope", shape="plane", place=random_pose(rng, 0.3))
    pairs = [(f"on {a}", f"on {b}") for a, b in pairwise(bodies[:9])]
    contacts = Contacts(ground=tilted, pairs=pairs)
    q, v = model.random_state(rng)
    assert len(contacts.candidates(model)) == len(bodies) + len(pairs)
    check_rates(model, contacts, q, v)
    held = model.with_loops(constrain=[loop.name for loop in model.loops]) if robot == "delta" else None
    if held:
        check_rates(held, contacts, *held.random_state(rng))


def test_shapes_may_all_be_given_by_contacts() -> None:
    """A model without shapes of its own has no contacts by default, and those that are given."""
    builder = lw.ModelBuilder("bare").add_body("a", mass=1.0, center=np.zeros(3), inertia=0.1 * np.eye(3))
    model = builder.add_joint("free", lw.joints.Free(), parent="world", child="a").build()
    contacts = lw.Contacts(
        shapes=[lw.Geometry("ball", shape="sphere", size=0.1, link="a")], limits=False, joint_friction=False
    )
    q = np.array(model.neutral(), dtype=float)
    assert lw.contact_points(model, q, contacts=contacts)[0].shape == (1,)
    assert lw.step(model, q, np.zeros(model.nv), np.zeros(model.nv), 1e-3, contacts=contacts)[0].shape == (
        model.nq,
    )
    with pytest.raises(ModelError, match="no shape that may touch"):
        lw.contact_points(model, q)
