"""Laws of contact and friction at the velocity level, one block of rows each: solved locally, linearised, and
measured.

A block's impulses λ and velocities w = G λ + g are tied by its law. `update` solves the law for one block
while all other impulses stay (what block Gauss-Seidel does); `linearised` is Newton's step for the branch of
the law that holds there; `violation` is the natural map of the law in units of velocity: zero where, and only
where, the law holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum, minimum, sqrt, where

TINY = 1e-30  # below any impulse that counts
IMMOBILE = 1e-20  # [1/kg] a row that impulses move by less is taken to be fixed: it carries none
SLIP_STEPS = 2  # projections of a sliding contact in one update
STEEPEST = 1e8  # the largest ratio of sliding velocity to friction impulse, relative to G


class Linear(NamedTuple):
    """Equations of one Newton step: P (G λ + g) + N λ + Σ column λ[other] = r, on the block's rows."""

    P: np.ndarray
    N: np.ndarray
    r: np.ndarray
    other: int | None = None
    column: Any = 0.0


class Proximal(NamedTuple):
    """Impulses, what they lose by a velocity (rows, rows), gain by the impulse in row `other`, and the change
    as a velocity.
    """

    impulses: np.ndarray
    slope: np.ndarray
    moved: Any
    other: int | None = None
    column: Any = 0.0


class Block(ABC):
    """Rows of one law; `prepare` is called once, with G."""

    rows: tuple[int, ...]
    small: Any

    def prepare(self, G: np.ndarray, small: Any) -> None:
        """Take what the block needs of G, (m, m).

        `small` is a part of G that is added to its blocks where they are inverted, in case some direction
        cannot move, and to its diagonal in Newton's steps (proximal: so that redundant contacts share what
        they carry).
        """
        self.small = small
        self._prepare(G)

    @abstractmethod
    def _prepare(self, G: np.ndarray) -> None:
        """Take what the block needs of G."""

    @abstractmethod
    def update(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the block's impulses, where w are its velocities without them; and the branch of the law."""

    def branch(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray, G: np.ndarray) -> Any:
        """Return the branch of the law at a solution, w being the velocities with all impulses, and G the
        block's own part.

        What does not slide sticks, also where the block is at the edge of its cone: redundant contacts may be
        there by chance.
        """
        return self.update(w - G @ impulse, impulse, lam)[1]

    @abstractmethod
    def linearised(self, impulse: np.ndarray, branch: Any) -> Linear:
        """Return Newton's equations on this branch."""

    @abstractmethod
    def proximal(
        self, w: np.ndarray, impulse: np.ndarray, rate: Any, soft: np.ndarray, normal: Any
    ) -> Proximal:
        """Return impulses on the law's set nearest to λ - ρ w, with ρ = rate / G and w without the compliance
        of rows, `soft`.

        `normal` is the impulse in the normal row of another block. A fixed point, where w belongs to λ,
        satisfies the law.
        """

    @abstractmethod
    def violation(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> Any:
        """Return the distance of impulses and velocities from the law [m/s or rad/s]."""


def reciprocal(x: Any) -> Any:
    return where(x > IMMOBILE, 1.0 / where(x > IMMOBILE, x, 1.0), 0.0)


def length(x: Any, y: Any) -> Any:
    """Return √(x² + y²), with a derivative of zero at zero."""
    square = x * x + y * y
    return where(square > 0.0, sqrt(where(square > 0.0, square, 1.0)), 0.0)


def largest_eigenvalue(T: np.ndarray) -> Any:
    """Return the largest eigenvalue of a symmetric (2, 2) matrix."""
    half = 0.5 * (T[0, 0] + T[1, 1])
    away = 0.5 * (T[0, 0] - T[1, 1])
    return half + length(away, T[0, 1])


def block_inverse(T: np.ndarray, size: Any, small: Any) -> np.ndarray:
    """Return the inverse of a symmetric positive (2, 2) matrix, finite if it is singular relative to a
    `size`; zero if that is zero.
    """
    a = T[0, 0] + small * size
    b = T[1, 1] + small * size
    c = T[0, 1]
    det = a * b - c * c
    scale = where(size > IMMOBILE, 1.0 / where(size > IMMOBILE, det, 1.0), 0.0)
    return np.array([[b * scale, -c * scale], [-c * scale, a * scale]], dtype=object)


class _Scalar(Block):
    """One row, of which G has the diagonal entry d."""

    row: int

    @property
    def rows(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.row,)

    def _prepare(self, G: np.ndarray) -> None:
        self.d = G[self.row, self.row]
        self.inverse = reciprocal(self.d)

    def _linear(self, free: Any, w: Any, bound: Any, impulse: Any) -> Linear:
        """Return w where it is `free`, an impulse `bound` elsewhere."""
        P = where(free, 1.0, 0.0)
        N = where(free, self.small * self.d, self.d)
        r = where(free, w + self.small * self.d * impulse, self.d * bound)
        return Linear(np.array([[P]]), np.array([[N]]), np.array([r]))

    def _near(
        self, new: Any, slope: Any, impulse: Any, rate: Any, column: Any = None, other: int | None = None
    ) -> Proximal:
        moved = self.d * absolute(new - impulse) / rate
        return Proximal(
            np.array([new]), np.array([[slope]]), moved, other, 0.0 if column is None else np.array([column])
        )


@dataclass(eq=False)
class Interval(_Scalar):
    """A velocity that stays between `lower` and `upper` (None: no bound): impulses act at the bounds, away
    from them.
    """

    row: int
    lower: Any = 0.0
    upper: Any = None
    normal: int | None = None  # its own row, if this is a contact without friction

    def _clipped(self, w: Any) -> Any:
        if self.lower is not None:
            w = maximum(w, self.lower)
        return w if self.upper is None else minimum(w, self.upper)

    def update(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, Any]:
        inside = self._clipped(w[0])
        new = (inside - w[0]) * self.inverse
        return np.array([new]), (absolute(new) > 0.0, inside)

    def linearised(self, impulse: np.ndarray, branch: Any) -> Linear:
        touching, bound = branch
        return self._linear(touching, bound, 0.0, impulse[0])

    def proximal(
        self, w: np.ndarray, impulse: np.ndarray, rate: Any, soft: np.ndarray, normal: Any
    ) -> Proximal:
        rho = rate * self.inverse
        new = 0.0
        slope = rho / (1.0 + rho * soft[0])
        if self.lower is not None:
            new = maximum((impulse[0] - rho * (w[0] - self.lower)) / (1.0 + rho * soft[0]), 0.0)
        if self.upper is not None:
            new = new + minimum((impulse[0] - rho * (w[0] - self.upper)) / (1.0 + rho * soft[0]), 0.0)
        return self._near(new, where(absolute(new) > 0.0, slope, 0.0), impulse[0], rate)

    def violation(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> Any:
        free = w[0] - self.d * impulse[0]
        return absolute(self._clipped(free) - w[0])


@dataclass(eq=False)
class Bounded(_Scalar):
    """Dry friction: an impulse that holds w at zero, or opposes it with `bound`, or with `bound` times that
    in row `normal`.
    """

    row: int
    bound: Any
    normal: int | None = None

    def _bound(self, lam: np.ndarray) -> Any:
        return self.bound if self.normal is None else self.bound * lam[self.normal]

    def update(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, Any]:
        most = self._bound(lam)
        expected = -w[0] * self.inverse
        new = minimum(maximum(expected, -most), most)
        return np.array([new]), (absolute(expected) < most, where(expected < 0.0, -1.0, 1.0))

    def branch(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray, G: np.ndarray) -> Any:
        sticks, sign = super().branch(w, impulse, lam, G)
        return sticks | (absolute(w[0]) <= self.small), sign

    def linearised(self, impulse: np.ndarray, branch: Any) -> Linear:
        sticks, sign = branch
        if self.normal is None:
            return self._linear(sticks, 0.0, sign * self.bound, impulse[0])
        result = self._linear(sticks, 0.0, 0.0, impulse[0])
        column = where(sticks, 0.0, -self.d * sign * self.bound)
        return result._replace(other=self.normal, column=np.array([column]))

    def proximal(
        self, w: np.ndarray, impulse: np.ndarray, rate: Any, soft: np.ndarray, normal: Any
    ) -> Proximal:
        most = self.bound if self.normal is None else self.bound * normal
        rho = rate * self.inverse
        expected = impulse[0] - rho * w[0]
        new = minimum(maximum(expected, -most), most)
        sticks = absolute(expected) < most
        column = where(sticks, 0.0, where(expected < 0.0, -self.bound, self.bound))
        return self._near(new, where(sticks, rho, 0.0), impulse[0], rate, column, self.normal)

    def violation(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> Any:
        most = self.d * self._bound(lam)
        return absolute(self.d * impulse[0] - minimum(maximum(self.d * impulse[0] - w[0], -most), most))
