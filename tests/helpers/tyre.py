"""A collision function: a tyre, the torus of a tube around a ring, on a plane or a height field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

import linkwork as lw
from linkwork.contact.collision_functions import MIN_SQUARE, Round
from linkwork.contact.pairs import Contact
from linkwork.contact.surfaces import PLANE, Surface
from linkwork.mechanism import Geometry


@final
@dataclass(frozen=True)
class Tyre(Round):
    """Torus about z: a tube of radius `tube` [m] around a ring of radius `ring` [m]."""

    ring: float
    tube: float
    surface: Surface = PLANE

    def support(self, n: np.ndarray) -> np.ndarray:
        """Return the point that is farthest along -n."""
        scale = self.ring / lw.sqrt(n[0] * n[0] + n[1] * n[1] + MIN_SQUARE)
        return -np.array([scale * n[0], scale * n[1], 0.0], dtype=object) - self.tube * n


def tyre(shape: Geometry, surface: Surface) -> list[Contact]:
    """Return the contact of a cylinder, whose radius and length are those of a tyre, with a surface."""
    radius, width = shape.size
    return [Contact("", Tyre(radius - 0.5 * width, 0.5 * width, surface))]
