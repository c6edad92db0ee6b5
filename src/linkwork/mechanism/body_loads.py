"""Forces that depend on the poses and velocities of bodies: compensated weights and spatial tendons."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

Point = tuple[int, tuple[float, float, float]]  # a body or GROUND, and a point in its frame [m]


@dataclass(frozen=True)
class WeightCompensation:
    """A force at the centre of mass of body `body` against a part of its weight, in the world's axes.

    `fraction` of the weight is compensated, whatever the body's mass is; or that of `mass` [kg] with first
    moment `first_moment` [kg m] in the body frame, if its links differ.
    """

    body: int
    fraction: float = 1.0
    mass: float | None = None
    first_moment: tuple[float, ...] = ()


@dataclass(frozen=True)
class Around:
    """A sphere or a cylinder of infinite length around which a tendon passes between two of its points.

    `center` and `axis`, a unit vector or () for a sphere, are in the frame of `body`. With `side`, a position
    there outside of the shape, the tendon passes it on that side; else it touches the shape only where this
    is in its way.
    """

    body: int
    center: tuple[float, float, float]
    radius: float  # [m]
    axis: tuple[float, ...] = ()
    side: tuple[float, ...] = ()


class Wrap(NamedTuple):
    """A sphere, or a cylinder along `axis`, that a tendon wraps around; for `ModelBuilder.add_tendon`.

    `xyz` [m], `axis` and `side` are in the frame of `link`, which is a link or a frame, or "world". `side` is
    a position outside of the shape, on the side on which the tendon passes it.
    """

    link: str
    radius: float  # [m]
    xyz: tuple[float, ...] = (0.0, 0.0, 0.0)
    axis: tuple[float, ...] = ()
    side: tuple[float, ...] = ()


@dataclass(frozen=True)
class SpatialTendon:
    """A massless string along the shortest path through points of bodies, with a spring and a damper.

    Between two points the path is straight or, with an `Around` between them, around that shape. Its length
    is the sum of the lengths of its `branches`, each divided by a divisor (of pulleys). The tension is
    `stiffness` [N/m] times what the length exceeds `rest[1]`, or is less than `rest[0]` [m], plus `damping`
    [N s/m] times the rate of the length. Negative tension pushes. In time steps, the length also stays within
    `range` [m], and dry friction of at most `friction` [N] acts against its rate.
    """

    name: str
    branches: tuple[tuple[float, tuple[Point | Around, ...]], ...]
    stiffness: float = 0.0
    damping: float = 0.0
    rest: tuple[float, float] = (0.0, 0.0)
    range: tuple[float, float] = field(default=(-math.inf, math.inf), metadata={"later": True})
    friction: float = field(default=0.0, metadata={"later": True})

    @property
    def bodies(self) -> tuple[int, ...]:
        """The bodies of its points, GROUND included."""
        every = (point for _, points in self.branches for point in points)
        return tuple(dict.fromkeys(x.body if isinstance(x, Around) else x[0] for x in every))

    @property
    def acts(self) -> bool:
        """True if it has a spring or a damper."""
        return bool(self.stiffness or self.damping)

    @property
    def limited(self) -> bool:
        """True if its length has a limit."""
        return math.isfinite(self.range[0]) or math.isfinite(self.range[1])

    @property
    def connects(self) -> bool:
        """True if it transmits forces between its bodies, actuators apart."""
        return self.acts or self.limited or bool(self.friction)
