"""Nearest points of two convex shapes by Newton's method, from the features that are near each other.

The distance along n is the least of n · (a - b) over all points a and b of the shapes. At the normal with
the largest one, up to three pairs of support points share it; a mean of these pairs, with weights that are
not negative, is the pair of nearest points. Each support point is a corner, which stays where it is, or
moves with n on a smooth piece of its surface. So the normal and the weights solve a few equations that are
smooth, and derivatives of the solution follow from these by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.compiler.ir.functions import loop, where
from linkwork.contact.convex import Convex, unit
from linkwork.contact.manifold import negated
from linkwork.contact.surfaces import axes_along
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

MAX_NEWTON_STEPS = 6
CONVERGED_STEP = 1e-26  # squared change of the normal by the last step
LEAST_WEIGHT = 1e-9  # pairs of points with less are no part of the nearest points


class SupportPair(NamedTuple):
    """Support points of two shapes that face each other, (3,) each, in the frames of the shapes."""

    own: np.ndarray
    other: np.ndarray


class NearestPoints(NamedTuple):
    """The normal, and the nearest points of both shapes, (3,) each, in the frame of the second shape."""

    n: np.ndarray
    point: np.ndarray
    other_point: np.ndarray
    weights: tuple[Any, Any, Any]

    @property
    def gap(self) -> Any:
        """The distance along the normal [m]."""
        return product(self.n, self.point - self.other_point)

    @property
    def miss(self) -> Any:
        """The squared distance of the points across the normal [m²]."""
        apart = self.point - self.other_point
        across = apart - product(self.n, apart) * self.n
        return product(across, across)


@final
@dataclass(frozen=True)
class ActiveFeatures:
    """Up to three pairs of support points, in a relative pose; `several` says whether there are two and
    three.
    """

    one: Convex
    other: Convex
    T: Pose
    pairs: tuple[SupportPair, SupportPair, SupportPair]
    several: tuple[Any, Any]

    @classmethod
    def of(
        cls, one: Convex, other: Convex, T: Pose, n: np.ndarray, pairs: Sequence[SupportPair], weights: Any
    ) -> ActiveFeatures:
        """Keep pairs that have a weight, one for each smooth piece of the surfaces, in order."""
        d = -product(n, T.R)

        def same(a: SupportPair, b: SupportPair) -> Any:
            return one.same_piece(a.own, b.own, d) & other.same_piece(a.other, b.other, n)

        active = [weight > LEAST_WEIGHT for weight in weights]
        active[1] = active[1] & negated(active[0] & same(pairs[0], pairs[1]))
        active[2] = active[2] & negated(active[0] & same(pairs[0], pairs[2]))
        active[2] = active[2] & negated(active[1] & same(pairs[1], pairs[2]))
        first = _either(active[0], pairs[0], _either(active[1], pairs[1], pairs[2]))
        second = _either(active[0] & active[1], pairs[1], pairs[2])
        two = (active[0] & active[1]) | (active[0] & active[2]) | (active[1] & active[2])
        three = active[0] & active[1] & active[2]
        return cls(one, other, T, (first, second, pairs[2]), (two, three))

    def solve(self, n: np.ndarray) -> NearestPoints:
        """Return the solution of Newton's method from a normal."""
        two, three = self.several
        shares = [where(three, 1.0 / 3.0, where(two, 0.5, 0.0)), where(three, 1.0 / 3.0, 0.0)]
        solution = loop(self._step, np.array([*n, *shares], dtype=object), limit=MAX_NEWTON_STEPS, newton=5)
        return self.at(solution[:3], _weights(solution))

    def along(self, n: np.ndarray) -> NearestPoints:
        """Return the mean of the pairs that is nearest to the line along a normal, which stays as it is.

        Where the distance hardly depends on the normal, as for one cylinder inside of another, Newton's steps
        lead away from the points that they began with.
        """
        two, three = self.several
        points, _, _ = self._supports(n, (1.0, 0.0, 0.0))
        y = [own - other for own, other in points]
        t1, t2 = self._tangents(n, y[1] - y[0])
        f1, f2 = product(np.array([t1, t2]), y[0])
        b1, b2 = product(np.array([t1, t2]), y[2] - y[0])
        last = where(three, -f2 * _inverse(b2), 0.0)
        middle = where(two, -(f1 + b1 * last) * _inverse(product(t1, y[1] - y[0])), 0.0)
        return self.at(n, (1.0 - middle - last, middle, last))

    def _tangents(self, n: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return unit tangents of n, (3,) each: the first along the way from the first pair to the second, if
        there are two.
        """
        two, _ = self.several
        along = second - product(n, second) * n
        tangents = axes_along(list(n))[1]
        t1 = unit(np.array([where(two, a, b) for a, b in zip(along, tangents)], dtype=object))
        return t1, np.cross(n, t1)

    def at(self, n: np.ndarray, weights: tuple[Any, Any, Any]) -> NearestPoints:
        """Return the mean of the pairs for a normal and weights."""
        points, _, _ = self._supports(n, weights)
        a = sum(weight * own for weight, (own, _) in zip(weights, points))
        b = sum(weight * other for weight, (_, other) in zip(weights, points))
        return NearestPoints(n, a, b, weights)

    def _supports(
        self, n: np.ndarray, weights: tuple[Any, Any, Any]
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
        """Return the points in the frame of the second shape, and the mean derivatives of both shapes' points
        with respect to their directions.
        """
        d = -product(n, self.T.R)
        result = []
        turn: Any = np.zeros((3, 3))
        other_turn: Any = np.zeros((3, 3))
        for pair, weight in zip(self.pairs, weights):
            own, slope = self.one.moving_support(pair.own, d)
            other, other_slope = self.other.moving_support(pair.other, n)
            result.append((self.T.p + product(self.T.R, own), other))
            turn = turn + weight * slope
            other_turn = other_turn + weight * other_slope
        return result, turn, other_turn

    def _step(self, state: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the next normal and weights.

        With the pairs' differences y and tangents t of n: the means of t · y vanish, and n · y are equal.
        """
        two, three = self.several
        n = state[:3]
        points, turn, other_turn = self._supports(n, _weights(state))
        y = [own - other for own, other in points]
        second = y[1] - y[0]
        third = y[2] - y[0]
        t1, t2 = self._tangents(n, second)
        t = np.array([t1, t2])
        own_t = product(t, self.T.R)
        K = -product(product(own_t, turn), own_t.T) - product(product(t, other_turn), t.T)
        mean = y[0] + state[3] * second + state[4] * third
        distance = product(n, mean)
        k11 = K[0, 0] - distance
        k12 = K[0, 1]
        k22 = K[1, 1] - distance
        f1, f2 = product(t, y[0])
        a1 = product(t1, second)
        b1, b2 = product(t, third)
        # one pair: the normal by curvatures; two: along the line through both; three: by their plane
        scale = _inverse(k11 * k22 - k12 * k12)
        x = where(two, -product(n, second) * _inverse(a1), (f2 * k12 - f1 * k22) * scale)
        ahead = where(two, -(f2 + k12 * x) * _inverse(k22), (f1 * k12 - f2 * k11) * scale)
        z = where(three, -(product(n, third) + b1 * x) * _inverse(b2), ahead)
        last = where(three, -(f2 + k12 * x + k22 * z) * _inverse(b2), 0.0)
        middle = where(two, -(f1 + k11 * x + k12 * z + b1 * last) * _inverse(a1), 0.0)
        after = unit(n + x * t1 + z * t2)
        return np.array([*after, middle, last], dtype=object), x * x + z * z > CONVERGED_STEP


def _weights(state: np.ndarray) -> tuple[Any, Any, Any]:
    return 1.0 - state[3] - state[4], state[3], state[4]


def _inverse(x: Any) -> Any:
    return 1.0 / where(x == 0.0, 1.0, x)


def _either(condition: Any, a: SupportPair, b: SupportPair) -> SupportPair:
    return SupportPair(
        *(
            np.array([where(condition, x, y) for x, y in zip(one, other)], dtype=object)
            for one, other in zip(a, b)
        )
    )
