"""Surfaces that points and balls can touch: signed distance and normal at a point,
over numbers or symbols.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum, sqrt, where

FLAT = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


class Surface(ABC):
    """A frozen value: the surface of a shape in that shape's frame."""

    @abstractmethod
    def at(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the signed distance of a point x [m], (3,), negative inside, and the axes there, (3, 3):
        rows n (outward), t1, t2.
        """


@final
@dataclass(frozen=True)
class Plane(Surface):
    """The half space z < 0."""

    def at(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        return x[2], FLAT


PLANE = Plane()


@final
@dataclass(frozen=True)
class Box(Surface):
    """A box around the origin, `half` [m] being half its edges."""

    half: tuple[float, float, float]

    def at(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        sign = [where(each < 0.0, -1.0, 1.0) for each in x]
        over = [absolute(each) - half for each, half in zip(x, self.half)]  # beyond each pair of faces
        out = [maximum(each, 0.0) for each in over]
        square = out[0] * out[0] + out[1] * out[1] + out[2] * out[2]
        outside = square > 0.0
        away = sqrt(where(outside, square, 1.0))
        x_face = (over[0] >= over[1]) & (over[0] >= over[2])
        y_face = over[1] >= over[2]
        face = [where(x_face, 1.0, 0.0), where(x_face, 0.0, where(y_face, 1.0, 0.0))]
        face.append(1.0 - face[0] - face[1])
        n = [s * where(outside, o / away, f) for s, o, f in zip(sign, out, face)]
        inside = maximum(over[0], maximum(over[1], over[2]))
        return where(outside, away, inside), axes_along(n)


@final
@dataclass(frozen=True)
class HeightField(Surface):
    """Heights [m] over a grid around the origin: `heights`, (rows, columns), rows along y and columns along
    x.

    `x` and `y` [m] are the whole edges of the grid. Each cell is two triangles that meet along its diagonal
    from the corner with the lowest x and y; beyond the grid the triangles at its rim go on. The distance is
    that from the plane of the triangle that is above or below the point. To select a triangle takes about
    twice as many operations as there are heights.
    """

    x: float
    y: float
    heights: tuple[tuple[float, ...], ...]

    def __repr__(self) -> str:  # kernels are found by it: short, and another one for other heights
        digest = hashlib.sha256(np.array(self.heights).tobytes()).hexdigest()
        return f"HeightField(x={self.x!r}, y={self.y!r}, heights={np.shape(self.heights)} {digest})"

    def at(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        h = self.heights
        rows = len(self.heights)
        columns = len(self.heights[0])
        dx = self.x / (columns - 1)
        dy = self.y / (rows - 1)
        u = (x[0] + 0.5 * self.x) * (1.0 / dx)
        w = (x[1] + 0.5 * self.y) * (1.0 / dy)
        right = [u >= float(k) for k in range(1, columns - 1)]
        up = [w >= float(k) for k in range(1, rows - 1)]
        near = [_selected(up, [h[i][j] for i in range(rows - 1)]) for j in range(columns)]
        far = [_selected(up, [h[i + 1][j] for i in range(rows - 1)]) for j in range(columns)]
        h00 = _selected(right, near[:-1])
        h01 = _selected(right, near[1:])
        h10 = _selected(right, far[:-1])
        h11 = _selected(right, far[1:])
        # in the cell, 0 to 1
        a = u - _selected(right, range(columns - 1))
        b = w - _selected(up, range(rows - 1))
        upper = b > a
        along_x = where(upper, h11 - h10, h01 - h00)
        along_y = where(upper, h10 - h00, h11 - h01)
        height = h00 + a * along_x + b * along_y
        slope_x = along_x * (1.0 / dx)
        slope_y = along_y * (1.0 / dy)
        nz = 1.0 / sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
        return (x[2] - height) * nz, axes_along([-slope_x * nz, -slope_y * nz, nz], upward=True)


def _selected(passed: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the value behind the last condition that holds; the first where none does."""
    result: Any = float(values[0]) if isinstance(values[0], int) else values[0]
    for condition, value in zip(passed, values[1:]):
        result = (
            value
            if result is value
            else where(condition, float(value) if isinstance(value, int) else value, result)
        )
    return result


def axes_along(n: Sequence[Any], *, upward: bool = False) -> np.ndarray:
    """Return rows n, t1, t2 of a right-handed orthonormal frame, (3, 3), without a division by zero for any
    unit vector n.

    Duff et al., Building an orthonormal basis, revisited (2017). `upward`: z is known to be above zero.
    """
    x, y, z = n
    s = 1.0 if upward else where(z < 0.0, -1.0, 1.0)
    a = -1.0 / (s + z)
    b = x * y * a
    return np.array([[x, y, z], [1.0 + s * x * x * a, s * b, -s * x], [b, s + y * y * a, -y]], dtype=object)
