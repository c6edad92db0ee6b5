"""Check distances of convex shapes without another program: by their support functions and by duality.

Along a unit vector n, from the second shape to the first, two shapes are s(n) = -h1(-n) - h2(n) apart, with the
support functions h. Shapes that are apart are at least s(n) and at most |a - b| apart, for all points a and b of
them: a result that meets both is exact. The depth of an overlap is the least of -s(n): for a result, s must
have its value at its normal, and no other direction that is sampled and refined may have a larger one.
"""

from __future__ import annotations

from itertools import product as combinations
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw

KINDS = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull")
CURVED = ("cylinder", "ellipsoid")
NUMBERS = {"sphere": 1, "capsule": 2, "box": 3, "cylinder": 2, "ellipsoid": 3}
SAMPLES = 800
REFINED = 4  # directions of which the neighbourhood is searched
ROUNDS = 14
NEIGHBOURS = 12
SPECIAL_TURNS = (
    (1, 0, 0, 0),
    (0, 1, 0, 0),
    (0, 0, 0, 1),
    (1, 1, 0, 0),
    (1, 0, 1, 0),
    (0, 1, 1, 0),
    (0, 0, 1, 1),
    (1, 1, 1, 1),
    (1, -1, 1, 1),
)
Array = np.ndarray


class Solid(NamedTuple):
    """A convex shape: its kind, and its size as `Geometry` has it, of a hull its vertices."""

    kind: str
    size: Any

    @property
    def reach(self) -> float:
        """The largest extent from the origin along an axis [m]."""
        size = np.asarray(self.size)
        if self.kind == "hull":
            return float(np.abs(size).max())
        if self.kind == "capsule":
            return float(size[0] + 0.5 * size[1])
        if self.kind == "cylinder":
            return float(max(size[0], 0.5 * size[1]))
        return float(size.max()) * (0.5 if self.kind == "box" else 1.0)

    def support(self, d: Array) -> Array:
        """Return the points that are farthest along directions, (..., 3)."""
        size = np.asarray(self.size)
        lengths = np.maximum(np.linalg.norm(d, axis=-1, keepdims=True), 1e-300)
        ends = np.where(d < 0.0, -1.0, 1.0)
        if self.kind == "hull":
            return size[np.argmax(d @ size.T, axis=-1)]  # type: ignore[no-any-return]
        if self.kind == "box":
            return 0.5 * ends * size
        if self.kind == "ellipsoid":
            scaled = size * d
            return size * scaled / np.maximum(np.linalg.norm(scaled, axis=-1, keepdims=True), 1e-300)
        if self.kind == "cylinder":
            across = np.hypot(d[..., 0], d[..., 1])
            scale = np.where(across > 0.0, size[0] / np.where(across > 0.0, across, 1.0), 0.0)
            return np.stack([scale * d[..., 0], scale * d[..., 1], 0.5 * size[1] * ends[..., 2]], -1)
        result = size[0] * d / lengths
        if self.kind == "capsule":
            result[..., 2] += 0.5 * size[1] * ends[..., 2]
        return result

    def outside(self, x: Array) -> Array:
        """Return how far points (..., 3) are outside [m], of ellipsoids about; zero inside."""
        size = np.asarray(self.size)
        if self.kind == "hull":
            normals, offsets = hull_planes(self)
            return np.maximum((x @ normals.T + offsets).max(-1), 0.0)
        if self.kind == "box":
            return np.linalg.norm(np.maximum(np.abs(x) - 0.5 * size, 0.0), axis=-1)
        if self.kind == "cylinder":
            beyond = np.maximum(np.abs(x[..., 2]) - 0.5 * size[1], 0.0)
            return np.hypot(np.maximum(np.hypot(x[..., 0], x[..., 1]) - size[0], 0.0), beyond)
        if self.kind == "ellipsoid":
            scaled = x / size
            value = np.linalg.norm(scaled, axis=-1)
            slope = np.maximum(np.linalg.norm(scaled / size, axis=-1), 1e-300)
            return np.maximum(value * (value - 1.0) / slope, 0.0)
        core = x.copy()
        if self.kind == "capsule":
            core[..., 2] -= np.clip(x[..., 2], -0.5 * size[1], 0.5 * size[1])
        return np.maximum(np.linalg.norm(core, axis=-1) - size[0], 0.0)

    def geometry(self, name: str, link: str) -> lw.Geometry:
        if self.kind == "hull":
            return lw.Geometry(name, shape="hull", vertices=self.size, link=link)
        return lw.Geometry(name, shape=self.kind, size=self.size, link=link)


def hull_planes(solid: Solid) -> tuple[Array, Array]:
    from scipy.spatial import ConvexHull

    equations = ConvexHull(np.asarray(solid.size)).equations
    return equations[:, :3], equations[:, 3]


def random_solid(kind: str, rng: np.random.Generator, sizes: str) -> Solid:
    """Return a shape with sizes that are "similar", "mixed" (1 mm to 10 m), or "rounded" numbers."""

    def number() -> float:
        if sizes == "mixed":
            return float(10.0 ** rng.uniform(-3.0, 1.0))
        return float(rng.uniform(0.1, 0.5) if sizes == "similar" else rng.choice([0.1, 0.2, 0.5, 1.0]))

    if kind != "hull":
        return Solid(kind, tuple(number() for _ in range(NUMBERS[kind])))
    count = int(rng.choice([4, 6, 8, 12, 24, 64]))
    if sizes == "rounded":
        vertices = rng.integers(-2, 3, size=(count, 3)) * 0.1  # with repeated and coplanar ones
        if np.linalg.matrix_rank(vertices - vertices.mean(axis=0)) < 3:
            vertices = np.array(list(combinations((0.0, 0.1), repeat=3)))
    else:
        vertices = rng.normal(size=(count, 3))
        vertices /= np.linalg.norm(vertices, axis=1)[:, None] ** rng.choice([0, 1])
        vertices = vertices * [number() for _ in range(3)]
    return Solid(kind, tuple(map(tuple, vertices.tolist())))


def random_turns(rng: np.random.Generator, count: int) -> Array:
    """Return quaternions (count, 4), x y z w: any, such that axes are parallel, and nearly so."""
    result = rng.normal(size=(count, 4))
    way = rng.integers(0, 5, count)[:, None]
    special = np.array([np.array(turn) / np.linalg.norm(turn) for turn in SPECIAL_TURNS])
    special = special[rng.integers(0, len(special), count)]
    result = np.where(way == 1, special, result)
    nearly = special + 10.0 ** rng.uniform(-12.0, -2.0, (count, 1)) * rng.normal(size=(count, 4))
    result = np.where(way == 2, nearly, result)
    angle = rng.choice([np.pi / 8, np.pi / 12, 0.3], count)
    about_axis = np.zeros((count, 4))
    about_axis[:, 3] = np.cos(angle)
    about_axis[np.arange(count), rng.integers(0, 3, count)] = np.sin(angle)
    result = np.where(way == 3, about_axis, result)
    return result / np.linalg.norm(result, axis=1)[:, None]


def random_poses(one: Solid, other: Solid, rng: np.random.Generator, count: int) -> Array:
    """Return poses of the first shape for the second at the origin, (count, 7).

    Apart, touching, a little and deeply overlapping, along any direction and along axes, and concentric.
    """
    turns = random_turns(rng, count)
    R = rotations(turns)
    d = rng.normal(size=(count, 3))
    d = np.where(rng.random((count, 1)) < 0.3, d * rng.integers(0, 2, (count, 3)), d)
    d /= np.maximum(np.linalg.norm(d, axis=1), 1e-9)[:, None]
    meeting = separation(one, other, R, np.zeros((count, 3)), d)
    small = min(one.reach, other.reach)
    gaps = [
        np.zeros(count),
        small * rng.normal(size=count),
        small * 10.0 ** rng.uniform(-8.0, 0.0, count),
        -small * 10.0 ** rng.uniform(-8.0, 0.0, count),
        (one.reach + other.reach) * rng.uniform(0.0, 2.0, count),
        meeting * rng.uniform(0.0, 1.0, count),
    ]
    p = d * (np.choose(rng.integers(0, 6, count), gaps) - meeting)[:, None]
    aside = rng.normal(size=(count, 3)) * rng.choice([0.0, one.reach, other.reach, small], count)[:, None]
    p += np.where(rng.random((count, 1)) < 0.5, aside * rng.integers(0, 2, (count, 3)), 0.0)
    p = np.where(rng.random((count, 1)) < 0.3, np.round(p, 2), p)
    p = np.where(rng.random((count, 1)) < 0.03, 0.0, p)
    return np.concatenate([p, turns], axis=1)


def rotations(turns: Array) -> Array:
    x, y, z, w = turns.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def separation(one: Solid, other: Solid, R: Array, p: Array, n: Array) -> Array:
    """Return s(n) for poses R (N, 3, 3), p (N, 3) and directions n (N, 3) or (N, k, 3)."""
    several = n if n.ndim == 3 else n[:, None]
    d = -np.einsum("nij,nki->nkj", R, several)
    result = np.einsum("nki,ni->nk", several, p)
    result -= np.sum(one.support(d) * d, axis=-1) + np.sum(other.support(several) * several, axis=-1)
    return result if n.ndim == 3 else result[:, 0]


def directions_around(count: int) -> Array:
    """Return unit vectors on a Fibonacci lattice, (count, 3)."""
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * k
    return np.stack([np.sqrt(1.0 - z * z) * np.cos(angle), np.sqrt(1.0 - z * z) * np.sin(angle), z], -1)


def face_directions(one: Solid, other: Solid, R: Array, p: Array) -> Array:
    """Return directions along axes of both shapes, across two of them, and along normals of hulls."""
    own_axes = np.swapaxes(R, 1, 2)
    axes = np.broadcast_to(np.eye(3), R.shape)
    across = np.cross(own_axes[:, :, None], np.eye(3)).reshape(len(R), 9, 3)
    lengths = np.linalg.norm(across, axis=-1, keepdims=True)
    across = np.where(lengths > 1e-6, across / np.maximum(lengths, 1e-6), [0.0, 0.0, 1.0])
    centres = np.linalg.norm(p, axis=1)[:, None]
    line = np.where(centres > 0.0, p / np.maximum(centres, 1e-300), [0.0, 0.0, 1.0])[:, None]
    result = [axes, -axes, own_axes, -own_axes, across, -across, line]
    if other.kind == "hull":
        normals = hull_planes(other)[0]
        result.append(np.broadcast_to(normals, (len(R), *normals.shape)))
    if one.kind == "hull":
        result.append(-np.einsum("nij,mj->nmi", R, hull_planes(one)[0]))
    return np.concatenate(result, axis=1)


def largest_separation(one: Solid, other: Solid, R: Array, p: Array, rng: np.random.Generator) -> Array:
    """Return the largest s(n) of many directions and of the neighbourhoods of the best ones, (N,)."""
    samples = np.broadcast_to(directions_around(SAMPLES), (len(R), SAMPLES, 3))
    n = np.concatenate([samples, face_directions(one, other, R, p)], axis=1)
    s = separation(one, other, R, p, n)
    best = np.argsort(-s, axis=1)[:, :REFINED]
    n = np.take_along_axis(n, best[..., None], axis=1)
    s = np.take_along_axis(s, best, axis=1)
    radius = 0.1
    for _ in range(ROUNDS):
        beside = n[:, :, None] + radius * rng.normal(size=(len(R), REFINED, NEIGHBOURS, 3))
        beside /= np.linalg.norm(beside, axis=-1, keepdims=True)
        found = separation(one, other, R, p, beside.reshape(len(R), -1, 3)).reshape(beside.shape[:3])
        at = np.argmax(found, axis=-1)[..., None]
        higher = np.take_along_axis(found, at, axis=-1)[..., 0]
        n = np.where((higher > s)[..., None], np.take_along_axis(beside, at[..., None], axis=2)[:, :, 0], n)
        s = np.maximum(s, higher)
        radius *= 0.6
    return s.max(axis=1)  # type: ignore[no-any-return]


def two_solids(one: Solid, other: Solid) -> lw.Model:
    """The first shape on a free body, the second one on the world."""
    builder = lw.ModelBuilder("two solids", gravity=(0.0, 0.0, 0.0))
    builder.add_body("link", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("floating", lw.joints.Free(), parent="world", child="link")
    builder.add_geometry(one.geometry("first", "link"))
    builder.add_geometry(other.geometry("second", "world"))
    return builder.build()


def distance_errors(
    one: Solid, other: Solid, q: Array, rng: np.random.Generator, dtype: str = "float64"
) -> tuple[Array, dict[str, Array]]:
    """Return the distances of `lw.distance` for poses (N, 7), and their errors in metres, (N,) each.

    "normal": of its length; "points": their difference is not the distance times the normal; "outside": a
    point is not in its shape; "duality": s at the normal is another distance; "depth": a shorter translation
    separates the shapes.
    """
    options = {} if dtype == "float64" else {"dtype": dtype}
    q = q.astype(dtype)
    results = lw.distance(two_solids(one, other), q, pairs=("first", "second"), **options)
    distance, a, b, n = (np.asarray(each[:, 0], dtype=float) for each in results)
    q = q.astype(float)
    R = rotations(q[:, 3:] / np.linalg.norm(q[:, 3:], axis=1)[:, None])
    p = q[:, :3]
    lengths = np.linalg.norm(n, axis=1)
    outside = one.outside(np.einsum("nij,ni->nj", R, a - p)) + other.outside(b)
    errors = {
        "normal": np.abs(lengths - 1.0),
        "points": np.linalg.norm(a - b - distance[:, None] * n, axis=1),
        "outside": outside,
        "duality": np.abs(separation(one, other, R, p, n / lengths[:, None]) - distance),
        "depth": np.zeros(len(q)),
    }
    overlapping = np.flatnonzero(distance < 0.0)
    for start in range(0, len(overlapping), 100):
        rows = overlapping[start : start + 100]
        longest = largest_separation(one, other, R[rows], p[rows], rng)
        errors["depth"][rows] = np.maximum(longest - distance[rows], 0.0)
    return distance, errors


def allowed(one: Solid, other: Solid, dtype: str = "float64") -> float:
    """Return the error [m] that is allowed: 1e-9, of curved shapes 1e-7, times the size where that is more than
    1 m.
    """
    curved = one.kind in CURVED or other.kind in CURVED
    size = one.reach + other.reach
    if dtype == "float32":
        return (1e-3 if curved else 1e-4) * size
    return (1e-7 if curved else 1e-9) * max(1.0, size)
