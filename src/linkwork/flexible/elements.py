"""Finite elements of straight beams: stretch, torsion, and bending in two planes.

The four do not couple in a straight beam whose section has principal axes along y and z; each is a `Family`
with its own matrices. Stretch and torsion use quadratic elements. Bending (Euler-Bernoulli or Timoshenko)
uses cubic elements whose slope and deflection are coupled by the shear stiffness (Przemieniecki; Friedman and
Kosmatka 1993), which become Hermite elements for infinite shear stiffness. With this coupling an element
bends only as under forces at its ends, so that short elements of thick beams would be too stiff in vibration.
Therefore elements with shear have three more degrees of freedom, which vanish at their ends: deflections are
complete cubics and rotations complete quadratics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from linkwork.flexible.eigen import solve

# Gauss-Legendre quadrature with six points on [0, 1].
_X = (0.033765242898423975, 0.16939530676686775, 0.38069040695840156)
_W = (0.08566224618958517, 0.1803807865240693, 0.23395696728634552)
POINTS = np.array([*_X, *(1.0 - x for x in reversed(_X))])
WEIGHTS = np.array([*_W, *reversed(_W)])
# Gauss-Legendre quadrature with three points, for squares of slopes.
SLOPE_POINTS = np.array([0.1127016653792583, 0.5, 0.8872983346207417])
SLOPE_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0

Along = Callable[[float], float]  # a quantity at x [m]
# Degrees of freedom, and rows with their stiffness and mass.
Terms = tuple[list[int], list[tuple[np.ndarray, float, float]]]


class Field(NamedTuple):
    """A mode at x: its `value` (deflection, stretch or twist), `turn` of the section, `slope` of the axis."""

    value: float
    turn: float
    slope: float


class Family(ABC):
    """One type of beam deformation, with `elements` of equal length.

    `root` and `tip` are the degrees of freedom of its ends, `pins` those that pins constrain.
    """

    name: str
    root: list[int]
    tip: list[int]
    pins: list[int]
    rigid: int  # number of rigid motions

    def __init__(self, length: float, elements: int) -> None:
        self.length = length
        self.elements = elements
        self.h = length / elements

    def place(self, x: float) -> tuple[int, float]:
        """Return the element at x, and the relative position in it."""
        e = min(max(int(x / self.h), 0), self.elements - 1)
        return e, min(max(x / self.h - e, 0.0), 1.0)

    def points(self) -> list[tuple[float, float]]:
        """Return x of all integration points, and their weights [m]."""
        return [
            ((e + float(s)) * self.h, float(w) * self.h)
            for e in range(self.elements)
            for s, w in zip(POINTS, WEIGHTS)
        ]

    @property
    @abstractmethod
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness K and mass M, (n, n)."""

    @abstractmethod
    def field(self, d: np.ndarray, x: float) -> Field:
        """Return a mode, given by its degrees of freedom (n,), at x."""

    def softness(self, K: np.ndarray, M: np.ndarray) -> float:
        """Estimate the square of the lowest natural frequency when clamped at the root (Dunkerley)."""
        free = [k for k in range(len(K)) if k not in self.root]
        flexibility = np.diag(solve(K[np.ix_(free, free)], M[np.ix_(free, free)]))
        return 1.0 / float(flexibility.sum())

    @abstractmethod
    def grounded(self, d: np.ndarray) -> np.ndarray:
        """Return a mode without the rigid motion of its root."""

    def _assembled(self, n: int, terms_of: Callable[[int, float], Terms]) -> tuple[np.ndarray, np.ndarray]:
        """Return K and M, (n, n), assembled from the terms of each element and point."""
        K = np.zeros((n, n))
        M = np.zeros((n, n))
        for e in range(self.elements):
            for s, w in zip(POINTS.tolist(), WEIGHTS.tolist()):
                dofs, terms = terms_of(e, s)
                block = np.ix_(dofs, dofs)
                for row, k, m in terms:
                    square = row[:, None] * row[None]
                    K[block] = K[block] + (w * self.h * k) * square
                    M[block] = M[block] + (w * self.h * m) * square
        return K, M


class Rod(Family):
    """Stretch or torsion: c f'' = ρ f̈, with stiffness c and mass ρ along x."""

    rigid = 1

    def __init__(self, name: str, length: float, elements: int, stiffness: Along, mass: Along) -> None:
        super().__init__(length, elements)
        self.name = name
        self._c = stiffness
        self._m = mass
        self.root = [0]
        self.tip = [2 * elements]
        self.pins = [0]

    def _rows(self, s: float) -> tuple[np.ndarray, np.ndarray]:
        value = np.array([(1.0 - s) * (1.0 - 2.0 * s), 4.0 * s * (1.0 - s), s * (2.0 * s - 1.0)])
        slope = np.array([4.0 * s - 3.0, 4.0 - 8.0 * s, 4.0 * s - 1.0]) / self.h
        return value, slope

    @property
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        def terms_of(e: int, s: float) -> Terms:
            value, slope = self._rows(s)
            x = (e + s) * self.h
            return [2 * e, 2 * e + 1, 2 * e + 2], [(slope, self._c(x), 0.0), (value, 0.0, self._m(x))]

        return self._assembled(2 * self.elements + 1, terms_of)

    def field(self, d: np.ndarray, x: float) -> Field:
        e, s = self.place(x)
        value = _dot(self._rows(s)[0], d[2 * e : 2 * e + 3])
        return Field(value, value, 0.0)

    def grounded(self, d: np.ndarray) -> np.ndarray:
        return d - d[0]


class Bending(Family):
    """Bending in one plane.

    EI, shear stiffness κGA (None: infinite) and mass ρA along x; `rotary`: ρI of rotating sections.
    """

    rigid = 2

    def __init__(
        self,
        name: str,
        length: float,
        elements: int,
        stiffness: Along,
        shear: Along | None,
        mass: Along,
        rotary: Along | None,
    ) -> None:
        super().__init__(length, elements)
        self.name = name
        self._EI = stiffness
        self._shear = shear
        self._m = mass
        self._rotary = rotary
        last = 2 * elements
        self.root = [0, 1]
        self.tip = [last, last + 1]
        self.pins = [0, last]
        # Internal degrees of freedom per element, after those of all nodes.
        self._inner = 0 if shear is None else 3
        middle = [(e + 0.5) * self.h for e in range(elements)]
        self._phi = [
            0.0 if shear is None else 12.0 * stiffness(x) / (shear(x) * self.h * self.h) for x in middle
        ]

    def _rows(self, e: int, s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return deflection, rotation and curvature of the section, and axis slope, per element DoF."""
        h = self.h
        p = self._phi[e]
        m = 1.0 / (1.0 + p)
        t = s * s
        u = s * s * s
        value = m * np.array([
            1.0 - 3.0 * t + 2.0 * u + p * (1.0 - s), h * (s - 2.0 * t + u + 0.5 * p * (s - t)),
            3.0 * t - 2.0 * u + p * s, h * (u - t - 0.5 * p * (s - t)),
        ])  # fmt: skip
        bow = 6.0 * (s - t) / h
        steep = 6.0 * (1.0 - 2.0 * s) / h
        turn = m * np.array([-bow, 1.0 - 4.0 * s + 3.0 * t + p * (1.0 - s), bow, 3.0 * t - 2.0 * s + p * s])
        curvature = (m / h) * np.array([-steep, 6.0 * s - 4.0 - p, steep, 6.0 * s - 2.0 + p])
        slope = (m / h) * np.array([
            6.0 * (t - s) - p, h * (1.0 - 4.0 * s + 3.0 * t + 0.5 * p * (1.0 - 2.0 * s)),
            6.0 * (s - t) + p, h * (3.0 * t - 2.0 * s - 0.5 * p * (1.0 - 2.0 * s)),
        ])  # fmt: skip
        if not self._inner:
            return value, turn, curvature, slope
        bow = s - t
        tilt = 1.0 - 2.0 * s
        return (
            np.array([*value, h * bow, h * bow * tilt, 0.0]),
            np.array([*turn, 0.0, 0.0, bow]),
            np.array([*curvature, 0.0, 0.0, tilt / h]),
            np.array([*slope, tilt, 1.0 - 6.0 * bow, 0.0]),
        )

    def _dofs(self, e: int) -> list[int]:
        """Return the degrees of freedom of an element."""
        first = 2 * self.elements + 2 + self._inner * e
        return [*range(2 * e, 2 * e + 4), *range(first, first + self._inner)]

    @property
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        def terms_of(e: int, s: float) -> Terms:
            value, turn, curvature, slope = self._rows(e, s)
            x = (e + s) * self.h
            terms = [(curvature, self._EI(x), 0.0), (value, 0.0, self._m(x))]
            if self._shear is not None:
                terms.append((slope - turn, self._shear(x), 0.0))
            if self._rotary is not None:
                terms.append((turn, 0.0, self._rotary(x)))
            return self._dofs(e), terms

        return self._assembled(2 * self.elements + 2 + self._inner * self.elements, terms_of)

    def field(self, d: np.ndarray, x: float) -> Field:
        e, s = self.place(x)
        value, turn, _, slope = self._rows(e, s)
        dofs = d[self._dofs(e)]
        return Field(_dot(value, dofs), _dot(turn, dofs), _dot(slope, dofs))

    def grounded(self, d: np.ndarray) -> np.ndarray:
        x = self.h * np.arange(self.elements + 1)
        ends = 2 * self.elements + 2
        grounded = d.copy()
        grounded[0:ends:2] = d[0:ends:2] - d[0] - d[1] * x
        grounded[1:ends:2] = d[1:ends:2] - d[1]
        return grounded


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return the dot product, summed from first to last term."""
    total = 0.0
    for x, y in zip(a.tolist(), b.tolist()):
        total += x * y
    return total
