"""The distance of any two convex shapes, or the depth of their overlap, with nearest points, normal and
manifold.

The distance along a unit vector n is n · (a - b), a being the point of the first shape that is farthest
against n, and b that of the second along n. The largest one over all n is the signed distance of the shapes:
where they overlap, minus the length of the shortest translation that parts them.

First the best of some directions is taken: normals of faces, directions across edges, and that between the
centres. Then the first shape is moved along this until the shapes are a little apart, the nearest points are
found there, and their direction is the next one. The distance grows in each such pass, and it is the largest
one nearby where the direction repeats. Where shapes overlap deeply, this is done from three directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.compiler.ir.functions import loop, maximum, minimum, sqrt, where
from linkwork.contact.collision_functions import Collision
from linkwork.contact.convex import Convex, unit
from linkwork.contact.gjk import nearest_points
from linkwork.contact.manifold import Meeting, Patch, manifold
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

MAX_PASSES = 16
START_DIRECTIONS = 3  # directions from which deep overlaps are searched
DEEP_OVERLAP = 1e-2  # relative to the size of the smaller shape: overlaps of more than this are deep
# relative to the size of the smaller shape: how far the shapes are parted to find their nearest points
PASS_SEPARATION = 3e-3
MAX_START_COST = 300  # operations, in tens, for directions of one shape's faces
# the largest ratio of successive changes of the normal by which the next ones are foreseen
MAX_EXTRAPOLATION = 0.9
CONVERGED_CHANGE = 1e-18  # squared change of the normal by the last pass
ROUNDING_TOL = 1e-9  # relative to the size: distances that differ by less are the same
IMPROVEMENT_MARGIN = 1e-9  # relative to the size: by so much a direction must be better than those before


@final
@dataclass(frozen=True)
class ConvexPair(Collision):
    """Two convex shapes around their origins."""

    one: Convex
    other: Convex

    @property
    def size(self) -> int:  # type: ignore[override]
        return min(self.one.points, self.other.points)

    @property
    def scale(self) -> float:
        """The size of the smaller shape [m]."""
        return min(x for x in (self.one.size, self.other.size) if x > 0.0)

    def meetings(self, T: Pose) -> tuple[np.ndarray, list[Meeting]]:
        n, witness = self.witness(T)
        r = self.one.rounding
        s = self.other.rounding
        own_features = self.one.features(-product(n, T.R))
        patches = [Patch(T.p + product(each.vertices, T.R.T) - r * n, each.present) for each in own_features]
        others = [Patch(each.vertices + s * n, each.present) for each in self.other.features(n)]
        return manifold(n, patches, others, witness, self.scale, count=self.size)

    def witness(self, T: Pose) -> tuple[np.ndarray, Meeting]:
        """Return the normal, from the second shape to the first, and the nearest points, in the frame of the
        second shape.
        """
        starts = self._starts(T)
        deep = -DEEP_OVERLAP * self.scale

        def tried(state: np.ndarray) -> tuple[np.ndarray, Any]:
            """Return the next start, and the largest distance so far with its normal and points."""
            k = state[0]
            known = state[1:]
            start = np.array(starts[0], dtype=object)
            for i, other in enumerate(starts[1:], 1):
                start = np.array([where(k == float(i), x, y) for x, y in zip(other, start)], dtype=object)
            result = self._ascent(T, start)
            better = (result[3] > known[3]) | (k < 0.5)
            best = [where(better, x, y) for x, y in zip(result, known)]
            return np.array([k + 1.0, *best], dtype=object), (best[3] < deep) & (k < len(starts) - 1.5)

        last = loop(tried, np.zeros(11, dtype=object), limit=len(starts))[1:]
        n = last[:3]
        gap = last[3]
        a = last[4:7]
        b = last[7:10]
        r = self.one.rounding
        s = self.other.rounding
        gap = gap - (r + s) if r + s else gap
        return n, Meeting(gap, a - r * n if r else a, b + s * n if s else b)

    def _ascent(self, T: Pose, start: np.ndarray) -> np.ndarray:
        """Return normal, distance and nearest points of the cores, (10,), from a direction (and more numbers)
        to begin with.
        """

        def ascend(state: np.ndarray) -> tuple[np.ndarray, Any]:
            n = state[:3]
            before = state[3]
            moved = maximum(PASS_SEPARATION * self.scale - before, 0.0)
            y, first_point = nearest_points(lambda d: self._difference(T, d, moved * n), n)
            after = unit(y)
            result = self._along(T, after)
            better = result >= before - ROUNDING_TOL * self.scale
            change = after - n
            square = product(change, change)
            last = state[11]
            ratio = sqrt(
                minimum(square / where(last > 0.0, last, 1.0), MAX_EXTRAPOLATION * MAX_EXTRAPOLATION)
            )
            further = unit(after + where(last > 0.0, ratio / (1.0 - ratio), 0.0) * change)
            farther = self._along(T, further)
            ahead = farther > result
            after = np.array([where(ahead, a, b) for a, b in zip(further, after)], dtype=object)
            result = where(ahead, farther, result)
            again = better & (square > CONVERGED_CHANGE) & (moved > 0.0)
            first = state[10] < 0.5  # of directions that are as good the nearest points are still to be taken
            points = [*(first_point - moved * n), *(first_point - y), 1.0, square]
            higher = (result > before) | first
            direction = [where(higher, a, b) for a, b in zip([*after, result], state[:4])]
            return np.array(
                [*direction, *(where(better | first, a, b) for a, b in zip(points, state[4:]))]
            ), again

        result: np.ndarray = loop(
            ascend, np.array([*start[:3], self._along(T, start[:3]), *np.zeros(8)]), limit=MAX_PASSES
        )
        return result[:10]

    def _difference(self, T: Pose, d: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the farthest point along d of the first core, moved by a shift, less the second; and the
        point of the first.
        """
        a = T.p + product(T.R, self.one.support(product(d, T.R))) + shift
        return a - self.other.support(-d), a

    def _along(self, T: Pose, n: np.ndarray) -> Any:
        """Return the distance of the cores along n."""
        first_distance = product(n, T.p) + product(product(n, T.R), self.one.support(-product(n, T.R)))
        return first_distance - product(n, self.other.support(n))

    def _starts(self, T: Pose) -> list[list[Any]]:
        """Return the best of some directions, and the distances along them, (4,) each, the best one first."""
        none = [0.0, 0.0, 1.0, -1e30]
        best = [none] * START_DIRECTIONS
        symmetric = self.one.symmetric and self.other.symmetric
        tried = [(unit(T.p), True)]
        tried += [
            (np.array(n), not self.other.symmetric)
            for n in self.other.axes[: MAX_START_COST // self.one.cost]
        ]
        own_axes = self.one.axes[: MAX_START_COST // self.other.cost]
        tried += [(-product(T.R, np.array(n)), not self.one.symmetric) for n in own_axes]
        tried += [
            (unit(np.cross(product(T.R, np.array(d)), e)), False)
            for d in self.one.edges
            for e in self.other.edges
        ]
        for n, signed in tried:
            if signed:
                directions = [n]
            elif symmetric:
                directions = [where(product(T.p, n) < 0.0, -1.0, 1.0) * n]
            else:
                directions = [n, -n]
            for direction in directions:
                candidate = [*direction, self._along(T, direction)]
                for k, known in enumerate(best):
                    better = candidate[3] > known[3] + IMPROVEMENT_MARGIN * self.scale
                    best[k] = [where(better, x, y) for x, y in zip(candidate, known)]
                    candidate = [where(better, y, x) for x, y in zip(candidate, known)]
        return best
