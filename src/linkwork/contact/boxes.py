"""Boxes against boxes: the axis of least overlap of 15, or the nearest points where they are apart, and a
manifold.

Gottschalk, Lin, Manocha, OBBTree (1996), Sec. 5, for the axes. The nearest points of boxes that are apart are
those of `gjk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum, minimum, sqrt, where
from linkwork.compiler.ir.precision import by_precision
from linkwork.contact.collision_functions import Collision
from linkwork.contact.gjk import nearest_points
from linkwork.contact.manifold import Meeting, Patch, manifold, negated
from linkwork.spatial import Pose
from linkwork.spatial.constants import product

PARALLEL_TOL = 1e-10  # squared sine of the angle of edges that have no axis across
# relative to the size: by so much an axis must be better than those before, faces first
PREFERENCE_MARGIN = 3e-11
SINGLE_MARGIN = 3e-6  # the same for distances in single precision
# the same: corners that are nearer than this to touching have the normal of the best axis
SHARP_DISTANCE = 1e-6

EXACT_DISTANCE = 1e-9  # the same: of boxes farther apart the nearest points give the normal
SINGLE_EXACT_DISTANCE = 1e-4  # the same in single precision
# relative to the larger size: where the nearest points are this near to the best axis, it is the normal
EXACT_NORMAL = 1e-14
FLUSH_SINE = 1e-4  # of the angle between a face or edge and the plane of contact, where they are flush
SINGLE_FLUSH_SINE = 3e-2  # the same in single precision


class _Axis(NamedTuple):
    """A unit axis in the frame of the second box, from this to the first, and the distance along it
    (negative: overlap).

    `edges` is 0 for the normal of a face of the second box, -1 for one of the first, and 1 + 3 i + k for the
    axis across edge i of the second box and k of the first.
    """

    distance: Any
    n: Sequence[Any]
    edges: Any = 0.0


@final
@dataclass(frozen=True)
class Boxes(Collision):
    """Two boxes around their origins; `half` and `other_half` [m] are half their edges."""

    half: tuple[float, float, float]
    other_half: tuple[float, float, float]
    size: int = 4

    @property
    def scale(self) -> float:
        """The size of the smaller box [m]."""
        return min(sum(self.half), sum(self.other_half))

    @property
    def reach(self) -> float:
        return float(np.linalg.norm(self.half) + np.linalg.norm(self.other_half))

    def meetings(self, T: Pose) -> tuple[np.ndarray, list[Meeting]]:
        """Return axes (3, 3), rows n, t1, t2, and the points of the manifold,
        in the frame of the second box.
        """
        return self._manifold(T, *self._closest(T))

    def witness(self, T: Pose, *, thorough: bool = False) -> tuple[np.ndarray, Meeting]:
        """Return the normal, from the second box to the first, and the nearest points, in the frame of the
        second box.
        """
        n, witness, sharp = self._closest(T, exact=thorough)
        count: Any = 0.0
        middle: Any = np.zeros(3)
        margin = _margin(T) * self.scale
        for each in self._manifold(T, n, witness, sharp)[1]:
            nearest = where(each.gap <= witness.gap + margin, 1.0, 0.0)
            count = count + nearest
            middle = middle + nearest * (0.5 * (each.point + each.other_point))
        # points of faces, edges or corners that look at the other box: what lies between them may be
        # outside of a box that is thin
        normal = product(n, T.R)
        flat = by_precision(T.p[0], FLUSH_SINE, SINGLE_FLUSH_SINE)
        middle = middle / where(count > 0.5, count, 1.0)
        b = _on_feature(middle - 0.5 * witness.gap * n, n, self.other_half, flat)
        a = product(b + witness.gap * n - T.p, T.R)
        a = T.p + product(T.R, _on_feature(a, -normal, self.half, flat))
        flush = (a, a - witness.gap * n)
        of_faces = (witness.gap <= 0.0) & negated(sharp) & (count > 0.5)
        return n, Meeting(witness.gap, *_either(of_faces, flush, witness[1:]))

    def _manifold(
        self, T: Pose, n: np.ndarray, witness: Meeting, sharp: Any
    ) -> tuple[np.ndarray, list[Meeting]]:
        normal = product(n, T.R)
        faces = [Patch(T.p + product(face(-normal, self.half), T.R.T)), Patch(face(n, self.other_half))]
        return manifold(n, faces[:1], faces[1:], witness, self.scale, sharp=sharp)

    def _closest(self, T: Pose, *, exact: bool = False) -> tuple[np.ndarray, Meeting, Any]:
        """Return the normal, the nearest points, and whether these are unique. `exact`: the normal is that of
        the nearest points of boxes that are apart, which may be noise where they are flush.
        """
        margin: Any = _margin(T) if exact else PREFERENCE_MARGIN
        best = self._best_axis(T, margin * self.scale)
        nearest, square = self._nearest(T)
        away = sqrt(where(square > 0.0, square, 1.0))
        apart = where(square > 0.0, away, 0.0)
        inside = best.distance <= 0.0
        rounded = (best.distance > 0.0) & (apart - best.distance > SHARP_DISTANCE * self.scale)
        if exact:
            across = nearest[0] - nearest[1] - best.distance * np.array(best.n, dtype=object)
            largest = EXACT_NORMAL * max(sum(self.half), sum(self.other_half))
            least = by_precision(T.p[0], EXACT_DISTANCE, SINGLE_EXACT_DISTANCE) * self.scale
            rounded = (best.distance > least) & (square > 0.0)
            rounded = rounded & (product(across, across) > largest * largest)
        n = np.array([where(rounded, (a - b) / away, e) for a, b, e in zip(*nearest, best.n)], dtype=object)
        deepest = self._deepest(T, best, n)
        a, b = (
            np.array([where(inside, x, y) for x, y in zip(one, other)], dtype=object)
            for one, other in zip(deepest, nearest)
        )
        return n, Meeting(where(inside, best.distance, apart), a, b), rounded | (best.edges > 0.0)

    def _best_axis(self, T: Pose, margin: Any) -> _Axis:
        """Return the axis along which the boxes overlap least, or are farthest apart: normals of faces, then
        across two edges, each by more than a margin [m] better than those before.
        """
        R = T.R
        p = T.p
        best: _Axis | None = None

        def tried(axis: _Axis, usable: Any = None) -> None:
            nonlocal best
            if best is None:
                best = axis
                return
            better = axis.distance > best.distance + margin
            if usable is not None:
                better = better & usable
            mixed = [where(better, x, y) for x, y in zip(axis.n, best.n)]
            distance = where(better, axis.distance, best.distance)
            best = _Axis(distance, mixed, where(better, axis.edges, best.edges))

        for i in range(3):
            sign = where(p[i] < 0.0, -1.0, 1.0)
            reach = sum(h * absolute(R[i, k]) for k, h in enumerate(self.half))
            tried(
                _Axis(
                    absolute(p[i]) - reach - self.other_half[i], [sign if k == i else 0.0 for k in range(3)]
                )
            )
        for k in range(3):
            along = product(p, R[:, k])
            sign = where(along < 0.0, -1.0, 1.0)
            reach = sum(h * absolute(R[i, k]) for i, h in enumerate(self.other_half))
            tried(_Axis(absolute(along) - reach - self.half[k], [sign * x for x in R[:, k]], -1.0))
        for i, k in combinations(range(3), range(3)):
            n, square = _across(i, R[:, k])
            usable = square > PARALLEL_TOL
            scale = 1.0 / sqrt(where(usable, square, 1.0))
            along = product(p, n) * scale
            sign = where(along < 0.0, -scale, scale)
            extent: Any = 0.0
            for j in range(3):
                if j != i:
                    extent = extent + self.other_half[j] * absolute(n[j])
                extent = extent + self.half[j] * absolute(product(n, R[:, j]))
            tried(_Axis(absolute(along) - extent * scale, [sign * x for x in n], 1.0 + 3 * i + k), usable)
        assert best is not None
        return best

    def _nearest(self, T: Pose) -> tuple[tuple[np.ndarray, np.ndarray], Any]:
        """Return nearest points of two boxes that are apart, on the first and on the second, and their
        squared distance.
        """

        def support(d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            first_point = T.p + product(T.R, _support(product(d, T.R), self.half))
            return first_point - _support(-d, self.other_half), first_point

        y, first_point = nearest_points(support, T.p)
        return (first_point, first_point - y), product(y, y)

    def _deepest(self, T: Pose, axis: _Axis, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points of both boxes that are opposite each other along an axis, where the boxes overlap.

        On an axis across two edges these are the nearest points of the edges; elsewhere the manifold has
        better ones.
        """
        crossing = axis.edges > 0.0
        ours = [_any_of(axis.edges, [1.0 + 3 * i + k for i in range(3)]) for k in range(3)]
        theirs = [_any_of(axis.edges, [1.0 + 3 * i + k for k in range(3)]) for i in range(3)]
        first_middle = [
            where(is_axis, 0.0, x) for is_axis, x in zip(ours, _support(-product(n, T.R), self.half))
        ]
        others = np.array(
            [where(is_axis, 0.0, x) for is_axis, x in zip(theirs, _support(n, self.other_half))], dtype=object
        )
        middle = T.p + product(T.R, np.array(first_middle, dtype=object))
        d = np.array([_chosen(ours, row) for row in T.R], dtype=object)
        e = np.array([where(is_axis, 1.0, 0.0) for is_axis in theirs], dtype=object)
        s, t = _on_lines(middle - others, d, e, _chosen(ours, self.half), _chosen(theirs, self.other_half))
        corner = T.p + product(T.R, _support(-product(n, T.R), self.half))
        facing = _support(n, self.other_half)
        of_first = axis.edges < 0.0
        ends = [
            np.array([where(of_first, x, y) for x, y in zip(a, b)], dtype=object)
            for a, b in ((facing + axis.distance * n, corner), (facing, corner - axis.distance * n))
        ]
        pair = (middle + s * d, others + t * e)
        result = [
            np.array([where(crossing, x, y) for x, y in zip(a, b)], dtype=object) for a, b in zip(pair, ends)
        ]
        return result[0], result[1]


def face(n: np.ndarray, half: tuple[float, float, float]) -> np.ndarray:
    """Return the corners (4, 3), in order, of the face of a box that looks along n most."""
    x, y, z = (absolute(each) for each in n)
    of_x = (x > y) & (x > z)
    of_y = y > z
    corners = []
    for a, b in ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)):
        corner = []
        for i, h in enumerate(half):
            out = where(n[i] < 0.0, -h, h)
            along = [(out, a * h, b * h)[(i - normal) % 3] for normal in range(3)]
            corner.append(where(of_x, along[0], where(of_y, along[1], along[2])))
        corners.append(corner)
    return np.array(corners, dtype=object)


def _across(i: int, d: np.ndarray) -> tuple[np.ndarray, Any]:
    """Return the cross product of axis i and a unit vector, and its square."""
    j = (i + 1) % 3
    k = (i + 2) % 3
    n = np.zeros(3, dtype=object)
    n[i] = 0.0
    n[j] = -d[k]
    n[k] = d[j]
    return n, d[k] * d[k] + d[j] * d[j]


def _support(d: np.ndarray, half: tuple[float, float, float]) -> np.ndarray:
    """Return the corner of a box that is farthest along d."""
    return np.array([where(each < 0.0, -h, h) for each, h in zip(d, half)], dtype=object)


def _either(condition: Any, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [
        np.array([where(condition, x, y) for x, y in zip(one, other)], dtype=object)
        for one, other in zip(a, b)
    ]


def _any_of(code: Any, values: Sequence[float]) -> Any:
    result = code == values[0]
    for value in values[1:]:
        result = result | (code == value)
    return result


def _chosen(flags: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the value whose flag is set, the last one where none is."""
    return where(flags[0], values[0], where(flags[1], values[1], values[2]))


def _on_lines(r: np.ndarray, d: np.ndarray, e: np.ndarray, half: Any, other_half: Any) -> tuple[Any, Any]:
    """Return the nearest positions on two segments along unit vectors d and e, from their midpoints; r leads
    from the second to the first.
    """
    along = product(r, d)
    against = product(r, e)
    cosine = product(d, e)
    square = 1.0 - cosine * cosine
    usable = square > PARALLEL_TOL
    s = _within(where(usable, (cosine * against - along) / where(usable, square, 1.0), 0.0), half)
    t = _within(against + s * cosine, other_half)
    return _within(cosine * t - along, half), t


def _on_feature(x: np.ndarray, d: np.ndarray, half: tuple[float, float, float], flat: Any) -> np.ndarray:
    """Return the point nearest to x of the corner, edge or face of a box that is farthest along d; edges and
    faces are across d where the sine of their angle is at most `flat`.
    """
    return np.array(
        [
            where(absolute(along) > flat, where(along < 0.0, -h, h), _within(each, h))
            for each, along, h in zip(x, d, half)
        ],
        dtype=object,
    )


def _margin(T: Pose) -> Any:
    return by_precision(T.p[0], PREFERENCE_MARGIN, SINGLE_MARGIN)


def _within(x: Any, half: Any) -> Any:
    return minimum(maximum(x, -half), half)
