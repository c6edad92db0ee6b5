"""Uniform solids, from which the shipped robots are made; units m, kg and kg m²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.spatial.constants import product

Point = tuple[float, float, float]
ORIGIN: Point = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Solid:
    """A mass, its center, (3,), and its inertia about that center, (3, 3); `a + b` combines two solids."""

    mass: float
    center: np.ndarray
    moment: np.ndarray

    def __add__(self, other: Solid) -> Solid:
        mass = self.mass + other.mass
        center = (self.mass * self.center + other.mass * other.center) / mass
        return Solid(mass, center, self._about(center) + other._about(center))

    def mirrored(self) -> Solid:
        """Return the mirror image in the plane y = 0."""
        flip = np.array([1.0, -1.0, 1.0])
        return Solid(self.mass, flip * self.center, np.outer(flip, flip) * self.moment)

    def body_args(self) -> dict[str, Any]:
        """Return the arguments of `ModelBuilder.add_body`."""
        return {"mass": self.mass, "center": self.center.tolist(), "inertia": self.moment}

    def _about(self, point: np.ndarray) -> np.ndarray:
        """Return the moment of inertia about a point (parallel axis theorem), (3, 3)."""
        d = self.center - point
        return self.moment + self.mass * (product(d, d) * np.eye(3) - np.outer(d, d))


def box(mass: float, size: Point, at: Point = ORIGIN) -> Solid:
    """Return a box with edges `size` along x, y and z, centered `at` a point."""
    return _solid(mass, np.square(size) / 12.0, at)


def ellipsoid(mass: float, size: Point, at: Point = ORIGIN) -> Solid:
    """Return an ellipsoid with diameters `size` along x, y and z, centered `at` a point."""
    return _solid(mass, np.square(size) / 20.0, at)


def cylinder(mass: float, radius: float, length: float, axis: str = "z", at: Point = ORIGIN) -> Solid:
    """Return a cylinder along an axis, centered `at` a point."""
    is_axis = np.array([name == axis for name in "xyz"])
    return _solid(mass, np.where(is_axis, length * length / 12.0, radius * radius / 4.0), at)


def _solid(mass: float, mean_squares: np.ndarray, at: Point) -> Solid:
    """Return a solid from the mean squares of x, y and z about its center, (3,)."""
    return Solid(
        mass,
        np.array(at, dtype=float),
        mass * np.diag(mean_squares[0] + mean_squares[1] + mean_squares[2] - mean_squares),
    )
