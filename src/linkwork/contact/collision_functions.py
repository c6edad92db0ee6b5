"""Collision functions of pairs of shapes: gap, point and normal from the relative pose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.compiler.ir.functions import absolute, loop, maximum, minimum, sqrt, where
from linkwork.contact.manifold import Meeting
from linkwork.contact.surfaces import PLANE, Plane, Surface, axes_along
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

MIN_SQUARE = 1e-18  # added to squares, so that directions that vanish are no division by zero


class Nearest(NamedTuple):
    """Nearest point of a shape to another one.

    `gap` [m] is negative where they overlap. `axes`, (3, 3), are rows n, t1, t2 in the frame of the other
    shape, n pointing away from it. The contact point is `centre` - `along` n; `centre` [m], (3,), is in the
    frame of the first shape, so that it remains constant where it does not move on the body.
    """

    gap: Any
    centre: np.ndarray
    along: Any
    axes: np.ndarray


class CollisionFunction(ABC):
    """Frozen value that computes the contact of two shapes; compared, hashed and printed by its fields."""

    @abstractmethod
    def nearest(self, T: Pose) -> Nearest:
        """Return the contact of the two; `T` is the pose of the first shape in the frame of the other."""

    @property
    def part(self) -> float:
        """Position of the contact point in the gap: 0 on the first shape, 1 on the other."""
        return 0.0


@final
@dataclass(frozen=True)
class Ball(CollisionFunction):
    """Ball around the origin (a point if its radius [m] is zero) on a surface."""

    radius: float = 0.0
    surface: Surface = PLANE

    def nearest(self, T: Pose) -> Nearest:
        distance, axes = self.surface.at(T.p)
        return Nearest(distance - self.radius, np.zeros(3), self.radius, axes)


class Facing(CollisionFunction):
    """Point of a shape, chosen by how the shape faces a surface; between changes it is fixed to the shape.

    The normal of the surface is that at the centre of the shape.
    """

    surface: Surface

    @abstractmethod
    def point(self, axes: np.ndarray) -> np.ndarray:
        """Return the point, (3,); the rows of `axes` are normal and tangents in the frame of the shape."""

    def nearest(self, T: Pose) -> Nearest:
        _, axes = self.surface.at(T.p)
        x = self.point(product(axes, T.R))
        distance, axes = self.surface.at(T.point(x))
        return Nearest(distance, x, 0.0, axes)


@final
@dataclass(frozen=True)
class LowerCorner(Facing):
    """Corner of the face of a box that faces the surface most.

    `half` [m] is half the edges; `signs` select the corner.
    """

    half: tuple[float, float, float]
    signs: tuple[float, float]
    surface: Surface = PLANE

    def point(self, axes: np.ndarray) -> np.ndarray:
        n = axes[0]
        tilt = [absolute(each) for each in n]
        faces = [
            (tilt[0] > tilt[1]) & (tilt[0] > tilt[2]),
            tilt[1] > tilt[2],
        ]  # along x; or else along y; or else along z
        a, b = self.signs
        result = []
        for i, h in enumerate(self.half):
            down = where(n[i] < 0.0, h, -h)
            along = [(down, a * h, b * h)[(i - face) % 3] for face in range(3)]
            result.append(where(faces[0], along[0], where(faces[1], along[1], along[2])))
        return np.array(result, dtype=object)


@final
@dataclass(frozen=True)
class LowerRim(Facing):
    """Fixed point of the nearer rim of a cylinder: at x and y in the plane of the rim.

    `half` [m] is half the height.
    """

    x: float
    y: float
    half: float
    surface: Surface = PLANE

    def point(self, axes: np.ndarray) -> np.ndarray:
        return np.array([self.x, self.y, where(axes[0, 2] < 0.0, self.half, -self.half)], dtype=object)


@final
@dataclass(frozen=True)
class LowerVertex(Facing):
    """Corner of a hull that is farthest against a direction.

    The direction is the normal, tilted by `tilt` along both tangents.
    """

    vertices: tuple[tuple[float, ...], ...]
    tilt: tuple[float, float]
    surface: Surface = PLANE

    def point(self, axes: np.ndarray) -> np.ndarray:
        a, b = self.tilt
        d = axes[0] + a * axes[1] + b * axes[2]
        result = np.array(self.vertices[0], dtype=object)
        least = product(d, np.array(self.vertices[0]))
        for vertex in self.vertices[1:]:
            along = product(d, np.array(vertex))
            lower = along < least
            least = where(lower, along, least)
            result = np.array([where(lower, x, y) for x, y in zip(vertex, result)], dtype=object)
        return result


class Round(CollisionFunction):
    """Shape that touches a surface with the point that is farthest against the normal of the surface.

    Exact on planes. On other surfaces the support point for the normal at the centre of the shape is found,
    then that for the tangent plane of the surface there: exact on flat pieces.
    """

    surface: Surface

    @abstractmethod
    def support(self, n: np.ndarray) -> np.ndarray:
        """Return the point that is farthest along -n, (3,), with n in the frame of the shape."""

    def nearest(self, T: Pose) -> Nearest:
        if isinstance(self.surface, Plane):
            x = self.support(T.R[2])
            return Nearest(product(T.R[2], x) + T.p[2], x, 0.0, self.surface.at(T.p)[1])
        _, axes = self.surface.at(T.point(self.centre))
        first = self.support(product(axes[0], T.R))
        distance, axes = self.surface.at(T.point(first))
        n = product(axes[0], T.R)
        x = self.support(n)
        return Nearest(distance + product(n, x - first), x, 0.0, axes)

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(3)


@final
@dataclass(frozen=True)
class Ellipsoid(Round):
    """Ellipsoid around the origin, with radii [m] along its axes."""

    radii: tuple[float, float, float]
    surface: Surface = PLANE

    def support(self, n: np.ndarray) -> np.ndarray:
        scaled = np.array(self.radii) * n
        return -np.array(self.radii) * scaled * (1.0 / sqrt(product(scaled, scaled)))


@final
@dataclass(frozen=True)
class Rim(Round):
    """Circle of a radius [m] about z at a height [m]: the rim of a cylinder.

    Where it is parallel to the surface all its points are equally far, and its centre is used: a few fixed
    points on the rim carry the load there.
    """

    radius: float
    height: float
    surface: Surface = PLANE

    def support(self, n: np.ndarray) -> np.ndarray:
        x = n[0]
        y = n[1]
        scale = self.radius / sqrt(x * x + y * y + MIN_SQUARE)
        return np.array([-scale * x, -scale * y, self.height], dtype=object)

    @property
    def centre(self) -> np.ndarray:
        return np.array([0.0, 0.0, self.height])


@final
@dataclass(frozen=True)
class Segments(CollisionFunction):
    """Two capsules along z around the origin.

    Radii and half lengths of their straight parts [m]; zero length for spheres.
    """

    radius: float
    half: float
    other_radius: float
    other_half: float

    @property
    def part(self) -> float:
        return 0.5

    def nearest(self, T: Pose) -> Nearest:
        s, d = self._apart(T)
        square = product(d, d)
        touching = square < MIN_SQUARE  # the segments meet: along what is across both
        fallback = self._across(T)
        distance = sqrt(where(touching, 1.0, square))
        n = [where(touching, e, x / distance) for e, x in zip(fallback, d)]
        gap = where(touching, 0.0, distance) - (self.radius + self.other_radius)
        return Nearest(gap, np.array([0.0, 0.0, s], dtype=object), self.radius + 0.5 * gap, axes_along(n))

    def _across(self, T: Pose) -> Sequence[Any]:
        """Return a unit vector across both segments."""
        if not (self.half and self.other_half):
            return list(axes_along(list(T.R[:, 2]))[1]) if self.half else [1.0, 0.0, 0.0]
        across = np.array([T.R[1, 2] + 0.0, -T.R[0, 2], 0.0], dtype=object)
        square = product(across, across)
        parallel = square < MIN_SQUARE
        across = across / sqrt(where(parallel, 1.0, square))
        return [where(parallel, e, x) for e, x in zip((1.0, 0.0, 0.0), across)]

    def _apart(self, T: Pose) -> tuple[Any, np.ndarray]:
        """Return the nearest point along the first segment [m], and the vector to it from the other's."""
        p = T.p
        along = T.R[:, 2]
        if not self.half:
            t = clamped(p[2], self.other_half)
            return 0.0, np.array([p[0], p[1], p[2] - t], dtype=object)
        away = product(p, along)
        if not self.other_half:
            s = clamped(-away, self.half)
        else:
            x, y, cosine = along
            s = clamped(-(p[0] * x + p[1] * y) / (x * x + y * y + MIN_SQUARE), self.half)
            t = clamped(p[2] + cosine * s, self.other_half)
            s = clamped(cosine * t - away, self.half)
        at = p + s * along
        t = clamped(at[2], self.other_half)
        return s, np.array([at[0], at[1], at[2] - t], dtype=object)


@final
@dataclass(frozen=True)
class Reversed(CollisionFunction):
    """Collision function with the two shapes exchanged."""

    law: CollisionFunction

    @property
    def part(self) -> float:
        return 1.0 - self.law.part

    def nearest(self, T: Pose) -> Nearest:
        gap, centre, along, axes = self.law.nearest(T.inverse())
        n, t1, t2 = product(axes, T.R.T)  # in the frame of what is the other shape now
        return Nearest(gap, T.inverse().point(centre), -along, np.array([-n, t2, t1]))


class Collision(ABC):
    """Frozen value that computes all contact points of two shapes together."""

    size: int

    @abstractmethod
    def meetings(self, T: Pose) -> tuple[np.ndarray, list[Meeting]]:
        """Return axes (3, 3), rows n, t1, t2 with n from the second to the first, and `size` points.

        All are in the frame of the second shape.
        """

    @abstractmethod
    def witness(self, T: Pose, *, thorough: bool = False) -> tuple[np.ndarray, Meeting]:
        """Return the normal, from the second to the first, and the nearest points.

        All are in the frame of the second shape. `thorough`: deep overlaps are exact too, which takes longer.
        """

    @property
    def reach(self) -> float:
        """The largest distance of the origins of two shapes that touch [m]; 0 where finding their points
        takes hardly longer than this test.
        """
        return 0.0

    def nearest_if_near(self, T: Pose, near: Any) -> list[Nearest]:
        """Return all contact points; where the shapes are not `near`, others, with gaps that are larger.

        Targets skip the search where no row of a batch is near.
        """
        square = product(T.p, T.p)
        distance = sqrt(where(square > 0.0, square, 1.0))
        axes = axes_along([where(square > 0.0, x / distance, z) for x, z in zip(T.p, (0.0, 0.0, 1.0))])
        far = np.array([*axes.ravel(), *([distance, 0.0, 0.0, 0.0] * self.size)], dtype=object)

        def found(state: np.ndarray) -> tuple[np.ndarray, Any]:
            points = self.nearest(T)
            numbers = [x for each in points for x in (each.gap, *each.centre)]
            return np.array([*points[0].axes.ravel(), *numbers], dtype=object), near & (square < 0.0)

        last = loop(found, far, limit=1, enter=near)
        rows = last[9:].reshape(self.size, 4)
        return [Nearest(row[0], row[1:], 0.0, last[:9].reshape(3, 3)) for row in rows]

    def nearest(self, T: Pose) -> list[Nearest]:
        """Return all contact points."""
        axes, result = self.meetings(T)
        middles = [0.5 * (each.point + each.other_point) for each in result]
        return [Nearest(each.gap, product(x - T.p, T.R), 0.0, axes) for each, x in zip(result, middles)]


@final
@dataclass(frozen=True)
class PointOf(CollisionFunction):
    """One of the contact points that a collision finds."""

    collision: Collision
    index: int

    @property
    def part(self) -> float:
        return 0.5

    def nearest(self, T: Pose) -> Nearest:
        return self.collision.nearest(T)[self.index]


def clamped(x: Any, half: float) -> Any:
    """Return x clamped to ±half."""
    return minimum(maximum(x, -half), half) if half else 0.0
