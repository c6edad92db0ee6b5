"""Uniform solids, of which the bodies of the shipped robots are made. Lengths in m, masses in kg, moments in kg m²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.spatial.constants import product

Point = tuple[float, float, float]
ORIGIN: Point = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Solid:
    """A mass, its centre, (3,), and its moment of inertia about that centre, (3, 3). `a + b` is both as one solid."""

    mass: float
    center: np.ndarray
    moment: np.ndarray

    def __add__(self, other: Solid) -> Solid:
        mass = self.mass + other.mass
        center = (self.mass * self.center + other.mass * other.center) / mass
        return Solid(mass, center, self._about(center) + other._about(center))

    def mirrored(self) -> Solid:
        """The same solid on the other side of the plane y = 0."""
        flip = np.array([1.0, -1.0, 1.0])
        return Solid(self.mass, flip * self.center, np.outer(flip, flip) * self.moment)

    def figures(self) -> dict[str, Any]:
        """The arguments of `ModelBuilder.add_body`."""
        return {"mass": self.mass, "center": self.center.tolist(), "inertia": self.moment}

    def _about(self, point: np.ndarray) -> np.ndarray:
        """The moment of inertia about a point (Steiner), (3, 3)."""
        d = self.center - point
        return self.moment + self.mass * (product(d, d) * np.eye(3) - np.outer(d, d))


def box(mass: float, size: Point, at: Point = ORIGIN) -> Solid:
    """A box with edges `size` along x, y and z, its middle `at` a point."""
    return _solid(mass, np.square(size) / 12.0, at)


def ellipsoid(mass: float, size: Point, at: Point = ORIGIN) -> Solid:
    """An ellipsoid with diameters `size` along x, y and z, its middle `at` a point."""
    return _solid(mass, np.square(size) / 20.0, at)


def cylinder(mass: float, radius: float, length: float, axis: str = "z", at: Point = ORIGIN) -> Solid:
    """A cylinder along an axis, its middle `at` a point."""
    along = np.array([name == axis for name in "xyz"])
    return _solid(mass, np.where(along, length * length / 12.0, radius * radius / 4.0), at)


def _solid(mass: float, spread: np.ndarray, at: Point) -> Solid:
    """From the mean squares `spread` of x, y and z about the middle, (3,)."""
    return Solid(mass, np.array(at, dtype=float), mass * np.diag(spread[0] + spread[1] + spread[2] - spread))
