"""How two shapes touch: gap, point and normal from the pose of one in the other, over numbers or symbols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.ir.functions import where
from linkwork.spatial import Pose


class Nearest(NamedTuple):
    """Where a shape comes nearest to another one.

    `gap` [m] is negative where they overlap. `axes`, (3, 3), are rows n, t1, t2 in the frame of the other shape, n pointing
    away from that. The contact point is at `centre` - `along` n, `centre` [m], (3,), being in the frame of the first shape: so it
    stays a constant where it does not move on the body.
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
class BallOnPlane(Law):
    """A ball around the origin, or with a radius [m] of zero a point, on the half space z < 0."""

    radius: float = 0.0

    def nearest(self, T: Pose) -> Nearest:
        return Nearest(T.p[2] - self.radius, np.zeros(3), self.radius, PLANE_AXES)


PLANE_AXES = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def axes_along(n: np.ndarray) -> np.ndarray:
    """Rows n, t1, t2 of a right-handed orthonormal frame, (3, 3), without a division by zero for any unit vector n.

    Duff et al., Building an orthonormal basis, revisited (2017).
    """
    x, y, z = n
    s = where(z < 0.0, -1.0, 1.0)
    a = -1.0 / (s + z)
    b = x * y * a
    rows = [[x, y, z], [1.0 + s * x * x * a, s * b, -s * x], [b, s + y * y * a, -y]]
    return np.array(rows, dtype=object)
