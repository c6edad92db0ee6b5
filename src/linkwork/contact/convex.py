"""Convex shapes by their support functions, over numbers or symbols: what the general collision routine needs
of a shape.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin
from typing import Any, ClassVar, final

import numpy as np

from linkwork.compiler.ir.functions import sqrt, where
from linkwork.contact.boxes import face
from linkwork.contact.hull_faces import Face
from linkwork.contact.manifold import Patch, negated
from linkwork.spatial.constants import product

SAME_CORNER_TOL = 1e-9  # relative to the size: points that are nearer are the same corner
LEVEL_TOL = 1e-12  # squared sine of the angle to the axis: caps of cylinders look along nearer directions
RIM_CORNERS = 8  # corners of the polygon that stands for a cap of a cylinder in manifolds
TINY = 1e-30


class Convex(ABC):
    """A convex shape around its origin: its core, and `rounding` [m], a radius by which that is blown up.

    `axes` are unit normals of faces, `edges` directions along which the shape is straight. `symmetric`: it is
    so about the origin.
    """

    symmetric: ClassVar[bool] = True
    points: ClassVar[int] = 4  # of a manifold with a large face

    @property
    def rounding(self) -> float:
        """The radius [m] by which the core is blown up."""
        return 0.0

    @property
    @abstractmethod
    def size(self) -> float:
        """A length [m] that is typical of it, of its thinnest part."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest distance of its points from its origin [m]."""

    @property
    def core_size(self) -> float:
        """The same of the core."""
        return self.size - self.rounding

    @property
    @abstractmethod
    def spread(self) -> np.ndarray:
        """A matrix (3, 3) whose eigenvalues are about the squared extents of the core [m²]."""

    @abstractmethod
    def support(self, d: np.ndarray) -> np.ndarray:
        """Return the point of the core that is farthest along d, (3,), which need not be a unit vector."""

    @property
    def axes(self) -> Sequence[tuple[float, ...]]:
        """Normals of faces; of opposite faces of symmetric shapes one."""
        return ()

    @property
    def edges(self) -> Sequence[tuple[float, ...]]:
        """Directions of edges."""
        return ()

    @property
    def cost(self) -> int:
        """About how many operations its support function takes, in tens."""
        return 4

    def features(self, n: np.ndarray) -> list[Patch]:
        """Return faces and edges that face n; none for round shapes."""
        return []

    def moving_support(self, anchor: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the support point along d on the smooth piece of the surface that a point belongs to, and
        its derivative with respect to d, (3, 3). Corners do not move.
        """
        return anchor, np.zeros((3, 3))

    def same_piece(self, a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Any:
        """Return whether support points for directions near d are on one smooth piece of the surface."""
        return product(a - b, a - b) < (SAME_CORNER_TOL * self.size) ** 2


@final
@dataclass(frozen=True)
class Ball(Convex):
    """A sphere, or with a radius [m] of zero a point."""

    radius: float = 0.0
    points: ClassVar[int] = 1

    @property
    def rounding(self) -> float:
        return self.radius

    @property
    def size(self) -> float:
        return self.radius

    @property
    def reach(self) -> float:
        return self.radius

    @property
    def spread(self) -> np.ndarray:
        return np.zeros((3, 3))

    def support(self, d: np.ndarray) -> np.ndarray:
        return np.zeros(3)

    def moving_support(self, anchor: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(3), np.zeros((3, 3))

    def same_piece(self, a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Any:
        return True


X = (1.0, 0.0, 0.0)
Y = (0.0, 1.0, 0.0)
Z = (0.0, 0.0, 1.0)


@final
@dataclass(frozen=True)
class Capsule(Convex):
    """A segment along z, `half` [m] to both sides, with a radius [m]."""

    radius: float
    half: float
    points: ClassVar[int] = 2

    @property
    def rounding(self) -> float:
        return self.radius

    @property
    def size(self) -> float:
        return self.radius + self.half

    @property
    def reach(self) -> float:
        return self.radius + self.half

    @property
    def edges(self) -> Sequence[tuple[float, ...]]:
        return (Z,)

    @property
    def spread(self) -> np.ndarray:
        return np.diag([0.0, 0.0, self.half**2])

    def support(self, d: np.ndarray) -> np.ndarray:
        return np.array([0.0, 0.0, where(d[2] < 0.0, -self.half, self.half)], dtype=object)

    def features(self, n: np.ndarray) -> list[Patch]:
        return [Patch(np.array([[0.0, 0.0, self.half], [0.0, 0.0, -self.half]], dtype=object))]


@final
@dataclass(frozen=True)
class Box(Convex):
    """A box; `half` [m] are half its edges."""

    half: tuple[float, float, float]

    @property
    def size(self) -> float:
        return sum(self.half)

    @property
    def reach(self) -> float:
        return float(np.linalg.norm(self.half))

    @property
    def axes(self) -> Sequence[tuple[float, ...]]:
        return X, Y, Z

    @property
    def edges(self) -> Sequence[tuple[float, ...]]:
        return X, Y, Z

    @property
    def spread(self) -> np.ndarray:
        return np.diag(np.square(self.half))

    def support(self, d: np.ndarray) -> np.ndarray:
        return np.array([where(x < 0.0, -h, h) for x, h in zip(d, self.half)], dtype=object)

    def features(self, n: np.ndarray) -> list[Patch]:
        return [Patch(face(n, self.half))]


@final
@dataclass(frozen=True)
class Cylinder(Convex):
    """A cylinder about z: its radius and half its length [m]."""

    across: float
    half: float

    @property
    def size(self) -> float:
        return self.across + self.half

    @property
    def reach(self) -> float:
        return hypot(self.across, self.half)

    @property
    def axes(self) -> Sequence[tuple[float, ...]]:
        return (Z,)

    @property
    def edges(self) -> Sequence[tuple[float, ...]]:
        return (Z,)

    @property
    def spread(self) -> np.ndarray:
        return np.diag(np.square([self.across, self.across, self.half]))

    def support(self, d: np.ndarray) -> np.ndarray:
        x, y, z = d
        square = x * x + y * y
        level = square > 1e-28 * z * z
        scale = where(level, self.across / sqrt(where(level, square, 1.0)), 0.0)
        return np.array([scale * x, scale * y, where(z < 0.0, -self.half, self.half)], dtype=object)

    def moving_support(self, anchor: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a point of the rim, which moves with d; a point of a cap that looks along d stays."""
        x, y, z = d
        square = x * x + y * y
        level = square < LEVEL_TOL * z * z
        scale = where(level, 0.0, 1.0 / sqrt(where(level, 1.0, square)))
        u = scale * x
        v = scale * y
        point = [
            where(level, anchor[0], self.across * u),
            where(level, anchor[1], self.across * v),
            anchor[2],
        ]
        turn = self.across * scale
        slope = [[turn * (v * v), -turn * (u * v), 0.0], [-turn * (u * v), turn * (u * u), 0.0], [0.0] * 3]
        return np.array(point, dtype=object), np.array(slope, dtype=object)

    def same_piece(self, a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Any:
        x, y, z = d
        level = x * x + y * y < LEVEL_TOL * z * z
        same_rim = a[2] * b[2] > 0.0
        return (level & super().same_piece(a, b, d)) | (negated(level) & same_rim)

    def features(self, n: np.ndarray) -> list[Patch]:
        """Return a cap, as a polygon; or a straight line of the side."""
        x, y, z = n
        cap = z * z > x * x + y * y
        top = where(z < 0.0, -self.half, self.half)
        turns = [2.0 * pi * (k + 0.5) / RIM_CORNERS for k in range(RIM_CORNERS)]
        rim = [[self.across * cos(turn), self.across * sin(turn), top] for turn in turns]
        scale = self.across / sqrt(x * x + y * y + TINY)
        line = [[scale * x, scale * y, self.half], [scale * x, scale * y, -self.half]]
        flat = where(cap, 1.0, 0.0)
        return [
            Patch(np.array(rim, dtype=object), flat > 0.5),
            Patch(np.array(line, dtype=object), flat < 0.5),
        ]


@final
@dataclass(frozen=True)
class Ellipsoid(Convex):
    """An ellipsoid with radii [m] along its axes."""

    radii: tuple[float, float, float]
    points: ClassVar[int] = 1

    @property
    def size(self) -> float:
        return sum(self.radii)

    @property
    def reach(self) -> float:
        return max(self.radii)

    @property
    def axes(self) -> Sequence[tuple[float, ...]]:
        return X, Y, Z

    @property
    def spread(self) -> np.ndarray:
        return np.diag(np.square(self.radii))

    def support(self, d: np.ndarray) -> np.ndarray:
        scaled = np.array(self.radii) * d
        return np.array(self.radii) * scaled * (1.0 / sqrt(product(scaled, scaled) + TINY))

    def moving_support(self, anchor: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        radii = np.array(self.radii)
        scaled = radii * d
        scale = 1.0 / sqrt(product(scaled, scaled) + TINY)
        point = radii * scaled * scale
        return point, scale * (np.diag(radii * radii) - np.outer(point, point))

    def same_piece(self, a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Any:
        return True


@final
@dataclass(frozen=True)
class Hull(Convex):
    """The convex hull of vertices [m], around a point inside, with its faces."""

    vertices: tuple[tuple[float, ...], ...]
    faces: tuple[Face, ...]
    symmetric: ClassVar[bool] = False

    def __repr__(self) -> str:
        digest = hashlib.sha256(np.array(self.vertices).tobytes()).hexdigest()
        return f"Hull({len(self.vertices)} vertices, {digest})"

    @property
    def size(self) -> float:
        return 0.5 * float(np.ptp(np.array(self.vertices), axis=0).sum())

    @property
    def reach(self) -> float:
        return float(np.linalg.norm(self.vertices, axis=1).max())

    @property
    def axes(self) -> Sequence[tuple[float, ...]]:
        return [face.normal for face in self.faces]

    @property
    def edges(self) -> Sequence[tuple[float, ...]]:
        """Directions of edges, parallel ones once."""
        result: list[np.ndarray] = []
        for each in self.faces:
            corners = np.array(each.corners)
            for d in np.roll(corners, -1, axis=0) - corners:
                length = np.linalg.norm(d)
                if length > SAME_CORNER_TOL * self.size:
                    d = d / length
                    if all(np.linalg.norm(np.cross(d, e)) > SAME_CORNER_TOL for e in result):
                        result.append(d)
        return [tuple(d.tolist()) for d in result]

    @property
    def cost(self) -> int:
        return len(self.vertices)

    @property
    def spread(self) -> np.ndarray:
        vertices = np.array(self.vertices)
        return 3.0 * vertices.T @ vertices / len(vertices)

    def support(self, d: np.ndarray) -> np.ndarray:
        result: Sequence[Any] = self.vertices[0]
        most = product(d, np.array(result))
        for vertex in self.vertices[1:]:
            along = product(d, np.array(vertex))
            farther = along > most
            most = where(farther, along, most)
            result = [where(farther, x, y) for x, y in zip(vertex, result)]
        return np.array(result, dtype=object)

    def features(self, n: np.ndarray) -> list[Patch]:
        result: Any = np.array(self.faces[0].corners)
        most = product(n, np.array(self.faces[0].normal))
        for each in self.faces[1:]:
            along = product(n, np.array(each.normal))
            nearer = along > most
            most = where(nearer, along, most)
            result = np.array(
                [[where(nearer, x, y) for x, y in zip(*rows)] for rows in zip(each.corners, result)],
                dtype=object,
            )
        return [Patch(result)]


def unit(n: np.ndarray) -> np.ndarray:
    """Return a vector scaled to a length of 1; z where it vanishes."""
    square = product(n, n)
    usable = square > TINY
    scale = where(usable, 1.0 / sqrt(where(usable, square, 1.0)), 0.0)
    return np.array([scale * n[0], scale * n[1], where(usable, scale * n[2], 1.0)], dtype=object)
