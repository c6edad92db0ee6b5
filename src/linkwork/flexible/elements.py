"""Finite elements of straight beams: stretch, torsion, and bending in two planes (Euler and Bernoulli, or Timoshenko).

The four do not couple in a straight beam whose section has its principal axes along y and z. Each is a `Family` with matrices
of its own. Stretch and torsion have quadratic elements; bending has cubic ones, whose slope and deflection are coupled by the
shear stiffness (Przemieniecki; Friedman and Kosmatka 1993), and which are Hermite's where that is infinite. Coupled in this way
an element bends only as it does under forces at its ends; short ones of thick beams would vibrate too stiffly. So elements with
shear have three degrees of freedom more, which move nothing at their ends: deflections are all cubic ones, turnings all
quadratic ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from linkwork.flexible.eigen import solve

# six points of Gauss and Legendre on [0, 1], and their weights
_X = (0.033765242898423975, 0.16939530676686775, 0.38069040695840156)
_W = (0.08566224618958517, 0.1803807865240693, 0.23395696728634552)
POINTS = np.array([*_X, *(1.0 - x for x in reversed(_X))])
WEIGHTS = np.array([*_W, *reversed(_W)])
THREE = np.array([0.1127016653792583, 0.5, 0.8872983346207417])  # the same of three points, for squares of slopes
THREE_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0

Along = Callable[[float], float]  # a quantity at x [m]
Terms = tuple[list[int], list[tuple[np.ndarray, float, float]]]  # degrees of freedom; rows with their stiffness and mass


class Field(NamedTuple):
    """Of one mode at x: its `value` (deflection, stretch or turning), `turn` of the section, and `slope` of the axis."""

    value: float
    turn: float
    slope: float


class Family(ABC):
    """One way in which a beam deforms, with `elements` of equal length: stiffness `K` and mass `M`, (n, n).

    `root` and `tip` are the degrees of freedom of its ends, `pins` those that a pin holds.
    """

    name: str
    root: list[int]
    tip: list[int]
    pins: list[int]
    rigid: int  # motions without strain

    def __init__(self, length: float, elements: int) -> None:
        self.length, self.elements, self.h = length, elements, length / elements

    def place(self, x: float) -> tuple[int, float]:
        """The element at x, and the part of its length there."""
        e = min(max(int(x / self.h), 0), self.elements - 1)
        return e, min(max(x / self.h - e, 0.0), 1.0)

    def points(self) -> list[tuple[float, float]]:
        """x of all points of integration, and their weights [m]."""
        return [((e + float(s)) * self.h, float(w) * self.h) for e in range(self.elements) for s, w in zip(POINTS, WEIGHTS)]

    @property
    @abstractmethod
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """K and M."""

    @abstractmethod
    def field(self, d: np.ndarray, x: float) -> Field:
        """A mode, given by its degrees of freedom (n,), at x."""

    def softness(self, K: np.ndarray, M: np.ndarray) -> float:
        """About the square of its lowest natural frequency, where it is held at its root (Dunkerley)."""
        kept = [k for k in range(len(K)) if k not in self.root]
        flexibility = np.diag(solve(K[np.ix_(kept, kept)], M[np.ix_(kept, kept)]))
        return 1.0 / float(flexibility.sum())

    @abstractmethod
    def grounded(self, d: np.ndarray) -> np.ndarray:
        """The same mode less the rigid motion by which its root moves."""

    def _assembled(self, n: int, own: Callable[[int, float], Terms]) -> tuple[np.ndarray, np.ndarray]:
        """K and M, (n, n), of the terms that `own` gives for each element and point."""
        K, M = np.zeros((n, n)), np.zeros((n, n))
        for e in range(self.elements):
            for s, w in zip(POINTS.tolist(), WEIGHTS.tolist()):
                dofs, terms = own(e, s)
                at = np.ix_(dofs, dofs)
                for row, k, m in terms:
                    square = row[:, None] * row[None]
                    K[at], M[at] = K[at] + (w * self.h * k) * square, M[at] + (w * self.h * m) * square
        return K, M


class Rod(Family):
    """Stretch or torsion: c f'' = ρ f̈, with the stiffness c and the mass ρ along x."""

    rigid = 1

    def __init__(self, name: str, length: float, elements: int, stiffness: Along, mass: Along) -> None:
        super().__init__(length, elements)
        self.name, self._c, self._m = name, stiffness, mass
        self.root, self.tip, self.pins = [0], [2 * elements], [0]

    def _rows(self, s: float) -> tuple[np.ndarray, np.ndarray]:
        value = np.array([(1.0 - s) * (1.0 - 2.0 * s), 4.0 * s * (1.0 - s), s * (2.0 * s - 1.0)])
        slope = np.array([4.0 * s - 3.0, 4.0 - 8.0 * s, 4.0 * s - 1.0]) / self.h
        return value, slope

    @property
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        def own(e: int, s: float) -> Terms:
            value, slope = self._rows(s)
            x = (e + s) * self.h
            return [2 * e, 2 * e + 1, 2 * e + 2], [(slope, self._c(x), 0.0), (value, 0.0, self._m(x))]

        return self._assembled(2 * self.elements + 1, own)

    def field(self, d: np.ndarray, x: float) -> Field:
        e, s = self.place(x)
        value = _dot(self._rows(s)[0], d[2 * e : 2 * e + 3])
        return Field(value, value, 0.0)

    def grounded(self, d: np.ndarray) -> np.ndarray:
        return d - d[0]


class Bending(Family):
    """Bending in one plane: EI, shear stiffness κGA (None: infinite) and mass ρA along x; `rotary`: ρI of turning sections."""

    rigid = 2

    def __init__(
        self, name: str, length: float, elements: int, stiffness: Along, shear: Along | None, mass: Along, rotary: Along | None
    ) -> None:
        super().__init__(length, elements)
        self.name, self._EI, self._shear, self._m, self._rotary = name, stiffness, shear, mass, rotary
        last = 2 * elements
        self.root, self.tip, self.pins = [0, 1], [last, last + 1], [0, last]
        self._inner = 0 if shear is None else 3  # degrees of freedom of each element alone, after those of all nodes
        middle = [(e + 0.5) * self.h for e in range(elements)]
        self._phi = [0.0 if shear is None else 12.0 * stiffness(x) / (shear(x) * self.h * self.h) for x in middle]

    def _rows(self, e: int, s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Deflection, turning and curvature of the section, and slope of the axis, by the element's degrees of freedom."""
        h, p = self.h, self._phi[e]
        m, t, u = 1.0 / (1.0 + p), s * s, s * s * s
        value = m * np.array([
            1.0 - 3.0 * t + 2.0 * u + p * (1.0 - s), h * (s - 2.0 * t + u + 0.5 * p * (s - t)),
            3.0 * t - 2.0 * u + p * s, h * (u - t - 0.5 * p * (s - t)),
        ])  # fmt: skip
        bow, steep = 6.0 * (s - t) / h, 6.0 * (1.0 - 2.0 * s) / h
        turn = m * np.array([-bow, 1.0 - 4.0 * s + 3.0 * t + p * (1.0 - s), bow, 3.0 * t - 2.0 * s + p * s])
        curvature = (m / h) * np.array([-steep, 6.0 * s - 4.0 - p, steep, 6.0 * s - 2.0 + p])
        slope = (m / h) * np.array([
            6.0 * (t - s) - p, h * (1.0 - 4.0 * s + 3.0 * t + 0.5 * p * (1.0 - 2.0 * s)),
            6.0 * (s - t) + p, h * (3.0 * t - 2.0 * s - 0.5 * p * (1.0 - 2.0 * s)),
        ])  # fmt: skip
        if not self._inner:
            return value, turn, curvature, slope
        bow, tilt = s - t, 1.0 - 2.0 * s
        return (
            np.array([*value, h * bow, h * bow * tilt, 0.0]),
            np.array([*turn, 0.0, 0.0, bow]),
            np.array([*curvature, 0.0, 0.0, tilt / h]),
            np.array([*slope, tilt, 1.0 - 6.0 * bow, 0.0]),
        )

    def _dofs(self, e: int) -> list[int]:
        """The degrees of freedom of an element."""
        first = 2 * self.elements + 2 + self._inner * e
        return [*range(2 * e, 2 * e + 4), *range(first, first + self._inner)]

    @property
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        def own(e: int, s: float) -> Terms:
            value, turn, curvature, slope = self._rows(e, s)
            x = (e + s) * self.h
            terms = [(curvature, self._EI(x), 0.0), (value, 0.0, self._m(x))]
            if self._shear is not None:
                terms.append((slope - turn, self._shear(x), 0.0))
            if self._rotary is not None:
                terms.append((turn, 0.0, self._rotary(x)))
            return self._dofs(e), terms

        return self._assembled(2 * self.elements + 2 + self._inner * self.elements, own)

    def field(self, d: np.ndarray, x: float) -> Field:
        e, s = self.place(x)
        value, turn, _, slope = self._rows(e, s)
        own = d[self._dofs(e)]
        return Field(_dot(value, own), _dot(turn, own), _dot(slope, own))

    def grounded(self, d: np.ndarray) -> np.ndarray:
        at, ends = self.h * np.arange(self.elements + 1), 2 * self.elements + 2
        found = d.copy()
        found[0:ends:2] = d[0:ends:2] - d[0] - d[1] * at
        found[1:ends:2] = d[1:ends:2] - d[1]
        return found


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """The sum of products from the first to the last."""
    total = 0.0
    for x, y in zip(a.tolist(), b.tolist()):
        total += x * y
    return total
