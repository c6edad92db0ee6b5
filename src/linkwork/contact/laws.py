"""How two shapes touch: gap, point and normal from the pose of one in the other, over numbers or symbols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.contact.surfaces import PLANE, Box, Plane, Surface, axes_along
from linkwork.ir.functions import absolute, maximum, minimum, sqrt, where
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

TINY = 1e-18  # added to squares, so that directions that vanish are no division by zero


class Nearest(NamedTuple):
    """Where a shape comes nearest to another one.

    `gap` [m] is negative where they overlap. `axes`, (3, 3), are rows n, t1, t2 in the frame of the other shape, n pointing
    away from that. The contact point is `centre` - `along` n; `centre` [m], (3,), is in the frame of the first shape, so that
    it stays a constant where it does not move on the body.
    """

    gap: Any
    centre: np.ndarray
    along: Any
    axes: np.ndarray


class Law(ABC):
    """A frozen value that says how a shape touches another; it is compared, hashed and printed by its numbers."""

    @abstractmethod
    def nearest(self, T: Pose) -> Nearest:
        """The contact of the two, `T` being the pose of the first shape's frame in the other's."""


@final
@dataclass(frozen=True)
class Ball(Law):
    """A ball around the origin, or with a radius [m] of zero a point, on a surface."""

    radius: float = 0.0
    surface: Surface = PLANE

    def nearest(self, T: Pose) -> Nearest:
        distance, axes = self.surface.at(T.p)
        return Nearest(distance - self.radius, np.zeros(3), self.radius, axes)


class Facing(Law):
    """A point of a shape that is chosen by how the shape faces a surface; between choices it is fixed to the shape.

    The normal of the surface is taken where the shape's centre is.
    """

    surface: Surface

    @abstractmethod
    def point(self, n: np.ndarray) -> np.ndarray:
        """The point, (3,), n being the normal in the shape's own frame."""

    def nearest(self, T: Pose) -> Nearest:
        _, axes = self.surface.at(T.p)
        x = self.point(product(axes[0], T.R))
        distance, axes = self.surface.at(T.point(x))
        return Nearest(distance, x, 0.0, axes)


@final
@dataclass(frozen=True)
class LowerCorner(Facing):
    """A corner of that face of a box which faces the surface most; `half` [m] is half its edges, `signs` say which corner."""

    half: tuple[float, float, float]
    signs: tuple[float, float]
    surface: Surface = PLANE

    def point(self, n: np.ndarray) -> np.ndarray:
        tilt = [absolute(each) for each in n]
        faces = [(tilt[0] > tilt[1]) & (tilt[0] > tilt[2]), tilt[1] > tilt[2]]  # along x; or else along y; or else along z
        a, b = self.signs
        found = []
        for i, h in enumerate(self.half):
            down = where(n[i] < 0.0, h, -h)
            along = [(down, a * h, b * h)[(i - face) % 3] for face in range(3)]
            found.append(where(faces[0], along[0], where(faces[1], along[1], along[2])))
        return np.array(found, dtype=object)


@final
@dataclass(frozen=True)
class LowerRim(Facing):
    """A fixed point of that rim of a cylinder which is nearer: at x and y in the rim's plane, `half` [m] from the middle."""

    x: float
    y: float
    half: float
    surface: Surface = PLANE

    def point(self, n: np.ndarray) -> np.ndarray:
        return np.array([self.x, self.y, where(n[2] < 0.0, self.half, -self.half)], dtype=object)


class Round(Law):
    """A shape that touches a surface with the point that is farthest against the surface's normal.

    On a plane that is exact. On other surfaces the point of the shape is found for the normal at the shape's centre, then the
    tangent plane of the surface there: exact on flat pieces, and not at the edges of a box.
    """

    surface: Surface

    @abstractmethod
    def support(self, n: np.ndarray) -> np.ndarray:
        """The point that is farthest along -n, (3,), n being in the shape's own frame."""

    def nearest(self, T: Pose) -> Nearest:
        if isinstance(self.surface, Plane):
            x = self.support(T.R[2])
            return Nearest(product(T.R[2], x) + T.p[2], x, 0.0, self.surface.at(T.p)[1])
        _, axes = self.surface.at(T.point(self.centre))
        first = self.support(product(axes[0], T.R))
        distance, axes = self.surface.at(T.point(first))
        n = product(axes[0], T.R)
        x = self.support(n)
        if isinstance(
            self.surface, Box
        ):  # never deeper than the point really is: a tangent plane cuts off what is behind an edge
            distance, axes = self.surface.at(T.point(x))
            return Nearest(distance, x, 0.0, axes)
        return Nearest(distance + product(n, x - first), x, 0.0, axes)

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(3)


@final
@dataclass(frozen=True)
class Ellipsoid(Round):
    """An ellipsoid around the origin, with radii [m] along its axes."""

    radii: tuple[float, float, float]
    surface: Surface = PLANE

    def support(self, n: np.ndarray) -> np.ndarray:
        scaled = np.array(self.radii) * n
        return -np.array(self.radii) * scaled * (1.0 / sqrt(product(scaled, scaled)))


@final
@dataclass(frozen=True)
class Rim(Round):
    """A circle of some radius [m] about z, at a height [m]: the rim of a cylinder.

    Where it is parallel to the surface all its points are as far, and it is the centre then: a few fixed points on
    the rim carry there.
    """

    radius: float
    height: float
    surface: Surface = PLANE

    def support(self, n: np.ndarray) -> np.ndarray:
        x, y = n[0], n[1]
        scale = self.radius / sqrt(x * x + y * y + TINY)
        return np.array([-scale * x, -scale * y, self.height], dtype=object)

    @property
    def centre(self) -> np.ndarray:
        return np.array([0.0, 0.0, self.height])


@final
@dataclass(frozen=True)
class Segments(Law):
    """Two capsules along z around the origin: radii, and half the lengths of their straight parts [m], zero for spheres."""

    radius: float
    half: float
    other_radius: float
    other_half: float

    def nearest(self, T: Pose) -> Nearest:
        s, d = self._apart(T)
        square = product(d, d)
        touching = square < TINY  # the segments meet: along what is across both
        across = np.array([T.R[1, 2] + 0.0, -T.R[0, 2], 0.0], dtype=object) if self.half and self.other_half else np.zeros(3)
        level = product(across, across)
        parallel = level < TINY
        fallback = across / sqrt(where(parallel, 1.0, level))
        fallback = [where(parallel, e, x) for e, x in zip((1.0, 0.0, 0.0), fallback)]
        distance = sqrt(where(touching, 1.0, square))
        n = [where(touching, e, x / distance) for e, x in zip(fallback, d)]
        gap = where(touching, 0.0, distance) - (self.radius + self.other_radius)
        return Nearest(gap, np.array([0.0, 0.0, s], dtype=object), self.radius + 0.5 * gap, axes_along(n))

    def _apart(self, T: Pose) -> tuple[Any, np.ndarray]:
        """Where along the first segment [m] it is nearest to the other, and from the other's nearest point to there."""
        p, along = T.p, T.R[:, 2]
        if not self.half:
            t = clamped(p[2], self.other_half)
            return 0.0, np.array([p[0], p[1], p[2] - t], dtype=object)
        away = product(p, along)
        if not self.other_half:
            s = clamped(-away, self.half)
        else:
            x, y, cosine = along
            s = clamped(-(p[0] * x + p[1] * y) / (x * x + y * y + TINY), self.half)
            t = clamped(p[2] + cosine * s, self.other_half)
            s = clamped(cosine * t - away, self.half)
        at = p + s * along
        t = clamped(at[2], self.other_half)
        return s, np.array([at[0], at[1], at[2] - t], dtype=object)


@final
@dataclass(frozen=True)
class SegmentOnBox(Law):
    """A capsule along z around the origin on a box, where it is nearest to that; its radius and half its straight part [m]."""

    radius: float
    half: float
    surface: Box

    def nearest(self, T: Pose) -> Nearest:
        s = self.surface.nearest_on_segment(T.p, T.R[:, 2], self.half)
        centre = np.array([0.0, 0.0, s], dtype=object)
        distance, axes = self.surface.at(T.point(centre))
        return Nearest(distance - self.radius, centre, self.radius, axes)


@final
@dataclass(frozen=True)
class Reversed(Law):
    """A law with the two shapes exchanged."""

    law: Law

    def nearest(self, T: Pose) -> Nearest:
        gap, centre, along, axes = self.law.nearest(T.inverse())
        n, t1, t2 = product(axes, T.R.T)  # in the frame of what is the other shape now
        return Nearest(gap, T.inverse().point(centre), -along, np.array([-n, t2, t1]))


def clamped(x: Any, half: float) -> Any:
    """x, but not beyond ±half."""
    return minimum(maximum(x, -half), half) if half else 0.0
