"""The distance of any two convex shapes, or the depth of their overlap, with nearest points, normal and
manifold.

The distance along a unit vector n is n · (a - b), a being the point of the first shape that is farthest
against n, and b that of the second along n. The largest one over all n is the signed distance of the shapes:
where they overlap, minus the length of the shortest translation that parts them.

First the best of some directions is taken: normals of faces, directions across edges, and that between the
centres. Then the first shape is moved along this until the shapes are a little apart, the nearest points are
found there, and their direction is the next one. The distance grows in each such pass, and it is the largest
one nearby where the direction repeats. Where shapes overlap deeply, this is done from three directions, and
for distances from directions all around. At last Newton's method solves for the normal and the nearest points
of the features found (`active_features`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Any, final

import numpy as np

from linkwork.compiler.ir.functions import absolute, loop, maximum, minimum, sqrt, where
from linkwork.compiler.ir.precision import by_precision
from linkwork.contact.active_features import ActiveFeatures, NearestPoints, SupportPair
from linkwork.contact.collision_functions import Collision
from linkwork.contact.convex import TINY, Convex, unit
from linkwork.contact.gjk import nearest_simplex
from linkwork.contact.manifold import Meeting, Patch, manifold
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

MAX_PASSES = 16
START_DIRECTIONS = 3  # directions from which deep overlaps are searched
DEEP_OVERLAP = 1e-2  # relative to the size of the smaller shape: overlaps of more than this are deep
# relative to the size of the smaller shape: how far the shapes are parted to find their nearest points
PASS_SEPARATION = 3e-3
LEAST_CORE_RATIO = 0.05  # of the size of the larger core, for the same
SAMPLED_STARTS = 16  # two in each octant, where shapes overlap deeply
SAMPLES = 24  # directions in each octant, of which the best is a start
LEAST_SPREAD = 1e-6  # of the extents, squared and relative to their sum
PLASTIC_STEPS = (0.7548776662466927, 0.5698402909980532)  # of Roberts' sequence R2
SINGLE_PASS_SEPARATION = 5e-2  # the same in single precision
MAX_START_COST = 300  # operations, in tens, for directions of one shape's faces
MAX_EDGE_COST = 600  # the same for directions across edges of both shapes
# the largest ratio of successive changes of the normal by which the next ones are foreseen
MAX_EXTRAPOLATION = 0.9
CONVERGED_CHANGE = 1e-18  # squared change of the normal by the last pass
TIE_CHANGE = 1e-4  # squared change of the normal between directions that count as the same
ROUNDING_TOL = 1e-9  # relative to the size: distances that differ by less are the same
DOUBLE_TOL = 1e-12  # relative to the size: how much worse Newton's solution may be than where it began
SINGLE_TOL = 1e-5  # the same in single precision
SINGLE_ROUNDING_TOL = 1e-6  # the same in single precision
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
    def reach(self) -> float:
        return self.one.reach + self.other.reach

    @property
    def scale(self) -> float:
        """The size of the smaller shape [m]."""
        return min(x for x in (self.one.size, self.other.size) if x > 0.0)

    @property
    def core_scale(self) -> float:
        """The size of the smaller core [m] that is no point, and at least a part of the larger one's."""
        small, large = sorted((self.one.core_size, self.other.core_size))
        return max(small, LEAST_CORE_RATIO * large) if small else large

    def meetings(self, T: Pose) -> tuple[np.ndarray, list[Meeting]]:
        n, witness = self.witness(T)
        r = self.one.rounding
        s = self.other.rounding
        own_features = self.one.features(-product(n, T.R))
        patches = [Patch(T.p + product(each.vertices, T.R.T) - r * n, each.present) for each in own_features]
        others = [Patch(each.vertices + s * n, each.present) for each in self.other.features(n)]
        return manifold(n, patches, others, witness, self.scale, count=self.size)

    def witness(self, T: Pose, *, thorough: bool = False) -> tuple[np.ndarray, Meeting]:
        """Return the normal, from the second shape to the first, and the nearest points, in the frame of the
        second shape. `thorough`: deep overlaps are searched from directions all around.
        """
        state = self._search(T, thorough=thorough)
        n = state[:3]
        pairs = [SupportPair(state[k : k + 3], state[k + 3 : k + 6]) for k in (4, 10, 16)]
        weights = (1.0 - state[22] - state[23], state[22], state[23])
        features = ActiveFeatures.of(self.one, self.other, T, n, pairs, weights)
        rough = _means(T, n, pairs, weights)
        fine = features.solve(n)
        along = self._along(T, n)
        fine_along = self._along(T, fine.n)
        slack = _tolerance(T) * self.scale
        sound = (absolute(fine.gap - fine_along) <= slack) & (fine_along >= along - slack)
        inside = sound & (fine.miss <= rough.miss + slack * slack)
        for weight in fine.weights:
            inside = inside & (weight > -_tolerance(T))
        if thorough:
            rough = self._nearer(rough, features.along(n), along, slack)
        n = np.array([where(sound, x, y) for x, y in zip(fine.n, n)], dtype=object)
        a, b = (
            np.array([where(inside, x, y) for x, y in zip(one, other)], dtype=object)
            for one, other in zip(fine[1:3], rough[1:3])
        )
        exact = absolute(rough.gap - along) <= ROUNDING_TOL * self.scale  # this one has derivatives
        gap = where(sound, fine.gap, where(exact, rough.gap, along))
        r = self.one.rounding
        s = self.other.rounding
        gap = gap - (r + s) if r + s else gap
        return n, Meeting(gap, a - r * n if r else a, b + s * n if s else b)

    def _nearer(self, rough: NearestPoints, other: NearestPoints, along: Any, slack: Any) -> NearestPoints:
        """Return other points for the same normal if they are nearer to its line, and not farther from the
        distance along it.
        """
        error = maximum(absolute(rough.gap - along), slack)
        taken = (absolute(other.gap - along) <= error) & (other.miss < rough.miss)
        for weight in other.weights:
            taken = taken & (weight > -slack)
        own, others = (
            np.array([where(taken, x, y) for x, y in zip(a, b)], dtype=object)
            for a, b in zip(other[1:3], rough[1:3])
        )
        return NearestPoints(rough.n, own, others, rough.weights)

    def _search(self, T: Pose, *, thorough: bool) -> np.ndarray:
        """Return normal, distance and features of the nearest points, (24,), without derivatives."""
        starts = self._starts(T, thorough=thorough)
        deep = -DEEP_OVERLAP * self.scale
        count = len(starts) + (SAMPLED_STARTS if thorough else 0)

        def tried(state: np.ndarray) -> tuple[np.ndarray, Any]:
            """Return the next start, and the largest distance so far with its normal and features."""
            k = state[2]
            known = state[3:]
            start = np.array(starts[0], dtype=object)
            for i, other in enumerate(starts[1:], 1):
                start = np.array([where(k == float(i), x, y) for x, y in zip(other, start)], dtype=object)
            if thorough:
                sampled = self._sampled(T, k - float(len(starts)))
                around = k > len(starts) - 0.5
                start = np.array([where(around, x, y) for x, y in zip(sampled, start)], dtype=object)
            result = self._ascent(T, start)
            better = (result[3] > known[3]) | (k < 0.5)
            best = [where(better, x, y) for x, y in zip(result, known)]
            return np.array([*state[:2], k + 1.0, *best], dtype=object), (best[3] < deep) & (k < count - 1.5)

        # as if by Newton's method for a number that is zero: so nothing else has derivatives
        last: np.ndarray = loop(tried, np.zeros(27, dtype=object), limit=count, newton=1)
        return last[3:]

    def _sampled(self, T: Pose, octant: Any) -> np.ndarray:
        """Return the best of some directions in an octant, by number (from 8 on: others), with the distance
        along it, (4,).
        """
        L = self._spread(T)
        again = octant > 7.5
        signs = []
        remainder = octant - where(again, 8.0, 0.0)
        for value in (4.0, 2.0, 1.0):
            upper = remainder > value - 0.5
            signs.append(where(upper, -1.0, 1.0))
            remainder = remainder - where(upper, value, 0.0)

        def sample(state: np.ndarray) -> tuple[np.ndarray, Any]:
            """Return the next point of Roberts' sequence in a triangle, and the best direction so far."""
            x, y = state[4:6]
            folded = x + y > 1.0
            u = where(folded, 1.0 - x, x)
            w = where(folded, 1.0 - y, y)
            sphere = unit(np.array([a * b for a, b in zip(signs, (u, w, 1.0 - u - w))], dtype=object))
            n = unit(_solved(L, sphere))
            result = self._along(T, n)
            better = result > state[3]
            best = [where(better, a, b) for a, b in zip([*n, result], state)]
            following = [a + b for a, b in zip((x, y), PLASTIC_STEPS)]
            following = [where(a >= 1.0, a - 1.0, a) for a in following]
            return np.array([*best, *following, state[6] + 1.0], dtype=object), state[6] < SAMPLES - 1.5

        offset = where(again, 0.25, 0.5)
        first = np.array([0.0, 0.0, 1.0, -1e30, offset, offset, 0.0], dtype=object)
        result: np.ndarray = loop(sample, first, limit=SAMPLES)
        return result[:4]

    def _spread(self, T: Pose) -> np.ndarray:
        """Return the Cholesky factor L of a matrix with about the extents of the difference of the cores.

        Of directions L^-T u, with u all around, many are those along which this is thin.
        """
        spread = self.one.spread
        Q = product(product(T.R, spread), T.R.T) + self.other.spread
        Q = Q + LEAST_SPREAD * (float(np.trace(spread)) + float(np.trace(self.other.spread))) * np.eye(3)
        L = np.zeros((3, 3), dtype=object)
        for i in range(3):
            for j in range(i + 1):
                remainder = Q[i, j] - product(L[i, :j], L[j, :j]) if j else Q[i, j]
                L[i, j] = sqrt(maximum(remainder, TINY)) if i == j else remainder / L[j, j]
        return L

    def _ascent(self, T: Pose, start: np.ndarray) -> np.ndarray:
        """Return normal, distance and features of the nearest points of the cores, (24,), from a direction
        (and more numbers) to begin with.
        """
        rounding = by_precision(T.p[0], ROUNDING_TOL, SINGLE_ROUNDING_TOL)
        apart = by_precision(T.p[0], PASS_SEPARATION, SINGLE_PASS_SEPARATION)

        def ascend(state: np.ndarray) -> tuple[np.ndarray, Any]:
            n = state[:3]
            before = state[3]
            moved = maximum(apart * self.core_scale - before, 0.0)
            y, simplex = nearest_simplex(lambda d: self._difference(T, d, moved * n), n)
            after = unit(y)
            result = self._along(T, after)
            better = result >= before - rounding * self.scale
            change = after - n
            square = product(change, change)
            last = state[25]
            ratio = sqrt(
                minimum(square / where(last > 0.0, last, 1.0), MAX_EXTRAPOLATION * MAX_EXTRAPOLATION)
            )
            further = unit(after + where(last > 0.0, ratio / (1.0 - ratio), 0.0) * change)
            farther = self._along(T, further)
            ahead = farther > result
            after = np.array([where(ahead, a, b) for a, b in zip(further, after)], dtype=object)
            result = where(ahead, farther, result)
            # of directions that are as good, only those nearby: else features of another one would be taken
            taken = (result > before) | (better & (square < TIE_CHANGE))
            again = taken & (square > CONVERGED_CHANGE) & (moved > 0.0)
            first = state[24] < 0.5  # of directions that are as good the nearest points are still to be taken
            features: list[Any] = []
            for vertex in simplex.vertices:
                features += [*product(vertex.own - moved * n - T.p, T.R), *(vertex.own - vertex.y)]
            features += [*simplex.weights[1:], 1.0, square]
            direction = [where(taken, a, b) for a, b in zip([*after, result], state[:4])]
            return np.array(
                [*direction, *(where(taken | first, a, b) for a, b in zip(features, state[4:]))]
            ), again

        result: np.ndarray = loop(
            ascend, np.array([*start[:3], self._along(T, start[:3]), *np.zeros(22)]), limit=MAX_PASSES
        )
        return result[:24]

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

    def _starts(self, T: Pose, *, thorough: bool) -> list[list[Any]]:
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
        edges = list(combinations(self.one.edges, self.other.edges)) if thorough or symmetric else []
        tried += [
            (unit(np.cross(product(T.R, np.array(d)), e)), False)
            for d, e in edges[: MAX_EDGE_COST // (self.one.cost + self.other.cost)]
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


def _means(
    T: Pose, n: np.ndarray, pairs: Sequence[SupportPair], weights: tuple[Any, Any, Any]
) -> NearestPoints:
    """Return the means of support points, which stay in place on the shapes."""
    own = sum(weight * pair.own for weight, pair in zip(weights, pairs))
    other = sum(weight * pair.other for weight, pair in zip(weights, pairs))
    return NearestPoints(n, T.p + product(T.R, own), other, weights)


def _tolerance(T: Pose) -> Any:
    """Return by how much numbers that are the same may differ, in the precision in which a program runs."""
    return by_precision(T.p[0], DOUBLE_TOL, SINGLE_TOL)


def _solved(L: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return L^-T u."""
    z = u[2] / L[2, 2]
    y = (u[1] - L[2, 1] * z) / L[1, 1]
    return np.array([(u[0] - L[1, 0] * y - L[2, 0] * z) / L[0, 0], y, z], dtype=object)
