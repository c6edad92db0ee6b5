"""All pairs of convex shapes: distances and normals against Coal, manifolds, and scenes with curved shapes
and hulls.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from c_target_programs import Case, build, compiler
from coal_distances import coal_distance, random_rotation
from linkwork.compiler.passes import lower
from linkwork.compiler.targets.c import export_c
from linkwork.contact.pairs import collision_of
from linkwork.contact.separation import ConvexPair
from linkwork.spatial import Pose

KINDS = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull")
NUMBERS = {"sphere": 1, "capsule": 2, "box": 3, "cylinder": 2, "ellipsoid": 3}
CURVED = {"cylinder", "ellipsoid"}
PAIRS = [
    pair
    for pair in combinations_with_replacement(KINDS, 2)
    if pair not in (("box", "box"), ("sphere", "box"))
]


def random_shape(kind: str, rng: np.random.Generator, size: float, most: int = 20) -> lw.Geometry:
    """A shape whose sizes differ by at most a factor of ten; a hull is around its centre, with 6 vertices or
    more.
    """
    if kind != "hull":
        return lw.Geometry("a", shape=kind, size=tuple(size * rng.uniform(0.1, 1.0, NUMBERS[kind])))
    around = rng.normal(size=(rng.integers(6, most + 1), 3))
    points = size * rng.uniform(0.3, 1.0, 3) * around / np.linalg.norm(around, axis=1)[:, None]
    return lw.Geometry("a", shape="hull", vertices=tuple(map(tuple, (points - points.mean(axis=0)).tolist())))


def poses(rng: np.random.Generator, size: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Generic rotations and such by quarter turns, apart and deep inside of each other."""
    R = np.array([random_rotation(rng) if k % 4 else quarter_turn(rng) for k in range(count)])
    return R, size * rng.normal(size=(count, 3)) * rng.choice([0.2, 0.6, 1.0], (count, 1))


def quarter_turn(rng: np.random.Generator) -> np.ndarray:
    R = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
    return R * np.sign(np.linalg.det(R))


def kernel_of(one: lw.Geometry, other: lw.Geometry) -> Any:
    """Gap, normal, both points, and the least gap of the manifold, from the pose of one shape in the other's
    frame.
    """
    pair, *_ = collision_of(one, other)
    assert isinstance(pair, ConvexPair)

    def found(R: Any, p: Any) -> Any:
        n, witness = pair.witness(Pose(R, p))
        _, meetings = pair.meetings(Pose(R, p))
        return (
            witness.gap,
            n,
            witness.point,
            witness.other_point,
            np.array([each.gap for each in meetings], dtype=object),
        )

    return lw.compile(lw.trace(found, {"R": (3, 3), "p": 3}), wait=True)


def numbers_of(shape: lw.Geometry) -> Any:
    return shape.vertices if shape.shape == "hull" else shape.size


def check_against_coal(kinds: tuple[str, str], seed: int, count: int, most: int = 20) -> None:
    rng = np.random.default_rng([seed, PAIRS.index(kinds)])
    size = 10.0 ** rng.uniform(-2.0, 1.0)
    one, other = (random_shape(kind, rng, size, most) for kind in kinds)
    R, p = poses(rng, size, count)
    gap, n, a, b, gaps = kernel_of(one, other)(R, p)
    np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, atol=1e-9)
    pair, *_ = collision_of(one, other)
    assert isinstance(pair, ConvexPair)
    curved = bool(CURVED & set(kinds))
    tolerance = size * (1e-7 if curved else 1e-9)
    worse = 0
    deep = 0
    for k in range(count):
        distance, normal = coal_distance(
            *(x for s in (one, other) for x in (s.shape, numbers_of(s))), R[k], p[k]
        )
        if not abs(distance) < 100.0 * size:
            continue  # Coal's own method did not converge
        if distance < 1e-4 * size:  # Coal's depths of curved shapes are a little short: that along its normal
            along = pair._along(Pose(R[k].astype(object), p[k].astype(object)), normal)
            distance = min(distance, float(along) - pair.one.rounding - pair.other.rounding)
        if distance > 1e-4 * size:
            assert gap[k] == pytest.approx(distance, abs=tolerance)
            assert np.abs(n[k] - normal).max() < (1e-3 if curved else 1e-6)
        elif (
            distance < -0.05 * size
        ):  # the shortest of several translations that part them is not always found
            deep += 1
            worse += gap[k] < distance - 10.0 * tolerance
        else:
            assert gap[k] > distance - tolerance  # a translation that parts them, no longer than Coal's
        if distance > -0.05 * size:
            np.testing.assert_allclose(a[k] - b[k], gap[k] * n[k], atol=1e-4 * size)
        assert gap[k] - 1e-12 * size <= gaps[k].min() <= gap[k] + 1e-5 * size
    assert worse <= max(2, 0.15 * deep)


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_distances_agree_with_coal(kinds: tuple[str, str]) -> None:
    check_against_coal(kinds, 0, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_many_distances_agree_with_coal(kinds: tuple[str, str], seed: int) -> None:
    check_against_coal(kinds, seed, 500, most=64)


def on_free_body(shape: lw.Geometry, **inertia: Any) -> lw.Model:
    builder = lw.ModelBuilder("thing").add_body(
        "thing", mass=1.0, **{"inertia": (0.01, 0.01, 0.01), **inertia}
    )
    builder.add_joint("floats", lw.joints.Free(), parent="world", child="thing")
    return builder.add_geometry(replace(shape, link="thing")).build()


def prism(radius: float, height: float, corners: int) -> tuple[tuple[float, ...], ...]:
    turns = 2.0 * np.pi * np.arange(corners) / corners
    rows = [(radius * np.cos(t), radius * np.sin(t), z) for t in turns for z in (-0.5 * height, 0.5 * height)]
    return tuple(tuple(map(float, row)) for row in rows)


TABLE = lw.Geometry("table", shape="box", size=(2.0, 2.0, 0.1), place=Pose.from_xyz_rpy((0.0, 0.0, -0.05)))
POST = lw.Geometry("post", shape="cylinder", size=(0.15, 0.4), place=Pose.from_xyz_rpy((0.0, 0.0, -0.2)))
PLATE = lw.Geometry(
    "plate", shape="hull", vertices=prism(0.5, 0.1, 8), place=Pose.from_xyz_rpy((0.0, 0.0, -0.05))
)
LYING = Pose.from_xyz_rpy(rpy=(0.0, np.pi / 2, 0.0))
STANDING = [
    ("cylinder on a table", lw.Geometry("s", shape="cylinder", size=(0.1, 0.3)), 0.15, TABLE),
    ("cylinder beyond an edge", lw.Geometry("s", shape="cylinder", size=(0.1, 0.3)), 0.15, (TABLE, 0.95)),
    (
        "lying capsule",
        lw.Geometry(
            "s", shape="capsule", size=(0.1, 0.3), place=Pose.from_xyz_rpy(rpy=(0.0, np.pi / 2, 0.0))
        ),
        0.1,
        TABLE,
    ),
    ("prism on a table", lw.Geometry("s", shape="hull", vertices=prism(0.1, 0.3, 8)), 0.15, (TABLE, 0.93)),
    ("cylinder on a cylinder", lw.Geometry("s", shape="cylinder", size=(0.1, 0.3)), 0.15, POST),
    ("box on a cylinder", lw.Geometry("s", shape="box", size=(0.6, 0.6, 0.1)), 0.05, POST),
    ("box on a hull", lw.Geometry("s", shape="box", size=(0.2, 0.2, 0.2)), 0.1, PLATE),
    ("hull on a hull", lw.Geometry("s", shape="hull", vertices=prism(0.2, 0.2, 6)), 0.1, PLATE),
]


@pytest.mark.parametrize(
    ("shape", "height", "ground"), [each[1:] for each in STANDING], ids=[each[0] for each in STANDING]
)
def test_what_stands_stays(shape: lw.Geometry, height: float, ground: Any) -> None:
    ground, x = ground if isinstance(ground, tuple) else (ground, 0.01)
    model = on_free_body(shape)
    q = np.array([x, 0.003, height, 0.0, 0.0, 0.0, 1.0])
    motion = lw.rollout(model, q, np.zeros(6), dt=0.002, steps=200, contacts=lw.Contacts(ground=ground))
    assert motion.status == lw.Status.OK
    np.testing.assert_allclose(motion.q[-1], q, atol=2e-5)


@pytest.mark.parametrize("kind", ["ellipsoid", "cylinder", "capsule"])
def test_gaps_are_continuous_around_a_box(kind: str) -> None:
    """No gap changes by more than the motion: a curved shape passes the edges and corners of a box in small
    steps.
    """
    rng = np.random.default_rng(3)
    shape = random_shape(kind, rng, 0.3)
    kernel = kernel_of(shape, lw.Geometry("b", shape="box", size=(0.5, 0.4, 0.3)))
    reach = float(sum(shape.size))
    for _ in range(5):
        start, end = (
            np.array([0.25, 0.2, 0.15]) * rng.choice([-1.0, 1.0], 3) + 0.3 * reach * rng.normal(size=3)
            for _ in "ab"
        )
        share = np.linspace(0.0, 1.0, 400)[:, None]
        p = (1.0 - share) * start + share * end
        gap = kernel(np.tile(random_rotation(rng), (400, 1, 1)), p)[0]
        step = np.linalg.norm(end - start) / 399
        near = gap > -0.02  # deep inside the nearest surface may be another one
        assert np.abs(np.diff(gap))[near[1:] & near[:-1]].max(initial=0.0) < step * (1.0 + 1e-6) + 1e-9


def test_hulls_that_are_flat_or_on_a_line() -> None:
    square = ((0.1, 0.1, 0.0), (-0.1, 0.1, 0.0), (-0.1, -0.1, 0.0), (0.1, -0.1, 0.0))
    flat = on_free_body(lw.Geometry("flat", shape="hull", vertices=square))
    gap, _, normal = lw.contact_points(
        flat, np.array([0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0]), contacts=lw.Contacts(ground=TABLE)
    )
    assert gap.min() == pytest.approx(0.2, abs=1e-12)
    np.testing.assert_allclose(normal, np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-9)
    line = on_free_body(lw.Geometry("line", shape="hull", vertices=[(float(k), 0.0, 0.0) for k in range(5)]))
    with pytest.raises(lw.ModelError, match="not all on one line"):
        lw.contact_candidates(line)


@pytest.mark.parametrize(
    "kinds", [("box", "box"), ("cylinder", "ellipsoid"), ("hull", "capsule")], ids="-".join
)
def test_bits_are_equal_interpreted_compiled_and_as_c(kinds: tuple[str, str], tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    one, other = (random_shape(kind, rng, 0.3, most=8) for kind in kinds)
    pair, *_ = collision_of(one, other)

    def found(R: Any, p: Any) -> Any:
        axes, meetings = pair.meetings(Pose(R, p))
        return axes, np.array([each.gap for each in meetings]), np.array([each.point for each in meetings])

    program = lower(lw.trace(found, {"R": (3, 3), "p": 3}), "float64", arranged=None)
    R, p = poses(rng, 0.3, 11)
    wanted = lw.interpret(program, R, p)
    for rows in (slice(None), slice(0, 1)):
        for a, b in zip(lw.compile(program, wait=True)(R[rows], p[rows]), wanted, strict=True):
            np.testing.assert_array_equal(a, b[rows])
    case = Case(program, export_c(program, tmp_path), [R, p], list(wanted))
    case.compare(build(compiler("gcc"), ["-O0"], [case], tmp_path / "pair.so"))


SQUARE = [(0.1, 0.1, 0.0), (-0.1, 0.1, 0.0), (-0.1, -0.1, 0.0), (0.1, -0.1, 0.1)]
INVALID = [
    ({"shape": "hull", "vertices": [*SQUARE[:3], (np.nan, 0.0, 0.0)]}, "vertices: expected finite numbers"),
    (
        {"shape": "hull", "vertices": np.random.default_rng(0).normal(size=(100_000, 3))},
        "at most 64 corners, got 100000",
    ),
    ({"shape": "hull", "vertices": SQUARE[:3]}, "vertices: expected finite numbers of shape"),
    ({"shape": "box", "size": (0.1, -0.1, 0.1)}, "in `size` that are not negative"),
    ({"shape": "cylinder", "size": (0.1, np.nan)}, "in `size` that are not negative"),
    ({"shape": "ellipsoid", "size": (0.1, 0.0, 0.1)}, "in `size` that are above zero"),
    ({"shape": "ellipsoid", "size": (0.1, 0.1, 0.1, 0.1)}, "expected 3 numbers in `size`"),
    ({"shape": "sphere", "size": (0.1, 0.2)}, "expected 1 number in `size`"),
]


@pytest.mark.parametrize(("shape", "message"), INVALID, ids=[each[1][:20] for each in INVALID])
def test_invalid_shapes_are_refused_in_one_sentence(shape: dict[str, Any], message: str) -> None:
    model = on_free_body(lw.Geometry("odd", **shape))
    for function in (lw.contact_candidates, lambda m: lw.distance_pairs(m, [("odd", TABLE)])):
        with pytest.raises((lw.ModelError, lw.LimitError), match=message):
            function(model)
