"""Two capsules: the nearest points of their segments, and both ends of where these lie beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum, minimum, sqrt, where
from linkwork.contact.collision_functions import Collision, Segments, clamped
from linkwork.contact.manifold import Meeting, negated
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

# relative to the size: nearest points that are nearer than both ends by this replace one of them
DEEPER_MARGIN = 1e-9
DISTINCT_DISTANCE = 1e-6  # the same: ends that are nearer to each other are one point


@final
@dataclass(frozen=True)
class Capsules(Collision):
    """Two capsules along z around their origins: radii, and half the lengths of their straight parts [m].

    Parallel capsules touch at two points. Where they cross, one of the two is the nearest point.
    """

    radius: float
    half: float
    other_radius: float
    other_half: float
    size: int = 2

    @property
    def scale(self) -> float:
        """The size of the smaller capsule [m]."""
        return min(self.radius + self.half, self.other_radius + self.other_half)

    def witness(self, T: Pose, *, thorough: bool = False) -> tuple[np.ndarray, Meeting]:
        axes, s = self._nearest(T)
        return axes[0], self._at(T, axes[0], s)

    def meetings(self, T: Pose) -> tuple[np.ndarray, list[Meeting]]:
        axes, s = self._nearest(T)
        n = axes[0]
        nearest = self._at(T, n, s)
        away = product(T.p, T.R[:, 2])
        reach = absolute(T.R[2, 2]) * self.other_half
        ends = [clamped(-away - reach, self.half), clamped(reach - away, self.half)]
        end_meetings = [self._at(T, n, end) for end in ends]
        end_meetings = [each._replace(gap=maximum(each.gap, nearest.gap)) for each in end_meetings]
        least = minimum(end_meetings[0].gap, end_meetings[1].gap)
        sharp = nearest.gap < least - DEEPER_MARGIN * self.scale
        first = absolute(s - ends[0]) <= absolute(s - ends[1])
        alone = ends[1] - ends[0] < DISTINCT_DISTANCE * self.scale
        repeated = end_meetings[1]._replace(gap=end_meetings[1].gap + where(alone, self.scale, 0.0))
        return axes, [
            _either(sharp & first, nearest, end_meetings[0]),
            _either(sharp & negated(first), nearest, repeated),
        ]

    def _nearest(self, T: Pose) -> tuple[np.ndarray, Any]:
        """Return the axes, and the position along the first segment that is nearest to the other."""
        law = Segments(self.radius, self.half, self.other_radius, self.other_half)
        segment_meeting = law.nearest(T)
        return segment_meeting.axes, segment_meeting.centre[2]

    def _at(self, T: Pose, n: np.ndarray, s: Any) -> Meeting:
        """Return the distance of a place of the first segment from the other, and points of both capsules
        along n.
        """
        a = T.p + s * T.R[:, 2]
        b = np.array([0.0, 0.0, clamped(a[2], self.other_half)], dtype=object)
        square = product(a - b, a - b)
        apart = square > 0.0
        distance = where(apart, sqrt(where(apart, square, 1.0)), 0.0)
        gap = distance - (self.radius + self.other_radius)
        return Meeting(gap, a - self.radius * n, b + self.other_radius * n)


def _either(condition: Any, one: Meeting, other: Meeting) -> Meeting:
    points = [
        np.array([where(condition, x, y) for x, y in zip(a, b)], dtype=object)
        for a, b in ((one.point, other.point), (one.other_point, other.other_point))
    ]
    return Meeting(where(condition, one.gap, other.gap), *points)
