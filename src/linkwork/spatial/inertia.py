"""Spatial inertias, rigid and articulated, as blocks that exploit symmetry and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.spatial.constants import Immutable, frozen, product, set_frozen
from linkwork.spatial.factor import is_zero
from linkwork.spatial.vectors import axial, cross, skew


class Inertia(Immutable):
    """A symmetric matrix [[A, B], [Bᵀ, D]] from motions to forces.

    For a rigid body (Lie Eq. 22), `mass` [kg] is known, B = [h] with h = mass * center [kg m], D = mass * 1,
    and A is the moment of inertia about the frame's origin [kg m²]. An articulated inertia has no `mass` but
    all 21 numbers. `J` are the second moments ∫ r rᵀ dm of a rigid body [kg m²], (3, 3), if A was computed
    from them.
    """

    __slots__ = ("A", "B", "D", "J", "mass")

    A: np.ndarray
    B: np.ndarray
    D: np.ndarray
    J: np.ndarray | None
    mass: float | None

    def __init__(
        self,
        A: np.ndarray,
        B: np.ndarray,
        D: np.ndarray,
        mass: float | None = None,
        J: np.ndarray | None = None,
    ) -> None:
        set_frozen(self, "A", A)
        set_frozen(self, "B", B)
        set_frozen(self, "D", D)
        set_frozen(self, "mass", mass)
        set_frozen(self, "J", J)

    def __reduce__(self) -> Any:  # not all protocols pickle slots
        return (_restored if self.is_frozen else Inertia), (self.A, self.B, self.D, self.mass)

    def __repr__(self) -> str:
        return f"Inertia(A={self.A.tolist()}, B={self.B.tolist()}, D={self.D.tolist()}, mass={self.mass})"

    @property
    def is_frozen(self) -> bool:
        """True if its arrays are immutable too."""
        return all(isinstance(block.base, bytes) for block in (self.A, self.B, self.D))

    def frozen(self) -> Inertia:
        """Return a constant inertia with immutable float arrays; a symbolic one is returned unchanged."""
        return (
            self
            if self.is_frozen or self.is_symbolic
            else Inertia(frozen(self.A), frozen(self.B), frozen(self.D), self.mass)
        )

    @classmethod
    def rigid(cls, mass: float, center: np.ndarray, moment: np.ndarray) -> Inertia:
        """Return the inertia of a rigid body.

        Mass [kg], center of mass [m], and moment of inertia about it [kg m²], (3, 3).
        """
        if any(isinstance(x, Symbol) for x in (mass, *np.ravel(center), *np.ravel(moment))):
            c = np.asarray(center)
            h = mass * np.asarray(center)
            half = 0.5 * (moment[0, 0] + moment[1, 1] + moment[2, 2])
            J = symmetric(lambda i, j: (half if i == j else 0.0) - moment[i, j] + c[i] * h[j])
            return cls.from_moments(mass, h, J)
        c = skew(np.asarray(center, dtype=float))
        return cls(np.asarray(moment, dtype=float) + product(mass * c, c.T), mass * c, mass * np.eye(3), mass)

    @classmethod
    def from_moments(cls, mass: Any, h: np.ndarray, J: np.ndarray) -> Inertia:
        """Return a rigid-body inertia from mass [kg], first moments h [kg m] and second moments J [kg m²]."""
        return cls(_moment_of(J), skew(h), mass * np.eye(3), mass, J)

    @classmethod
    def massless(cls, moment: np.ndarray) -> Inertia:
        """Return the inertia of a moment of inertia [kg m²], (3, 3), without mass."""
        return cls(moment, np.zeros((3, 3)), np.zeros((3, 3)), 0.0)

    @classmethod
    def from_matrix(cls, M: np.ndarray) -> Inertia:
        """Return the inertia of a symmetric (6, 6) matrix."""
        return cls(M[:3, :3], M[:3, 3:], M[3:, 3:])

    @property
    def is_massless(self) -> bool:
        """True if it is known to be a moment of inertia without mass."""
        return is_zero(self.mass) and all(is_zero(x) for x in self.B.ravel())

    def constant(self) -> Inertia:
        """Return the inertia with float arrays, in which entries of A below rounding are exact zeros."""
        A, B, D = (np.asarray(block, dtype=float) for block in (self.A, self.B, self.D))
        A = np.where(np.abs(A) < 1e-16 * np.abs(A).max(initial=0.0), 0.0, A)
        return Inertia(A, B, D, self.mass)

    @property
    def is_symbolic(self) -> bool:
        """True if any entry is a symbol."""
        entries = (self.mass, *self.A.ravel(), *self.B.ravel(), *self.D.ravel())
        return any(isinstance(x, Symbol) for x in entries)

    def frozen_constant(self) -> Inertia:
        """Return `constant().frozen()`, or itself if it is symbolic."""
        return self if self.is_symbolic else self.constant().frozen()

    @property
    def h(self) -> np.ndarray:
        """First moments mass * center of a rigid body [kg m]."""
        return axial(self.B)

    def __add__(self, other: Inertia) -> Inertia:
        mass = None if self.mass is None or other.mass is None else self.mass + other.mass
        known = mass is not None and (self.J is not None or other.J is not None)
        if known and all(x.J is not None or not x.is_symbolic for x in (self, other)):
            J = self.second_moments() + other.second_moments()
            return Inertia.from_moments(mass, self.h + other.h, J)
        return Inertia(self.A + other.A, self.B + other.B, self.D + other.D, mass)

    def times(self, factor: float) -> Inertia:
        """Return the inertia scaled by a factor, such as a number of bodies or a unit of mass."""
        mass = None if self.mass is None else factor * self.mass
        J = None if self.J is None else factor * self.J
        return Inertia(factor * self.A, factor * self.B, factor * self.D, mass, J)

    def __matmul__(self, X: np.ndarray) -> np.ndarray:
        """Return the force (or momentum) of a motion."""
        return np.concatenate(
            [
                product(self.A, X[:3]) + product(self.B, X[3:]),
                product(self.B.T, X[:3]) + product(self.D, X[3:]),
            ]
        )

    def column(self, k: int) -> np.ndarray:
        """Return column k of the matrix: the force of a unit motion along one coordinate."""
        return np.concatenate([self.A[:, k], self.B[k]] if k < 3 else [self.B[:, k - 3], self.D[:, k - 3]])

    def dense(self) -> np.ndarray:
        """Return the (6, 6) matrix."""
        return np.block([[self.A, self.B], [self.B.T, self.D]])

    def second_moments(self) -> np.ndarray:
        """Return ∫ r rᵀ dm of a rigid body [kg m²], (3, 3)."""
        if self.J is not None:
            return self.J
        x, y, z = np.diag(self.A)
        return np.where(
            np.eye(3), np.diag([0.5 * (y + z - x), 0.5 * (z + x - y), 0.5 * (x + y - z)]), -self.A
        )

    def point_force(self, a: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the force that accelerates the points r of a rigid body by a + W r in an inertial frame.

        With W = [ω̇] + [ω][ω] this is I V̇ - ad*_V I V (Lie Eq. 31) with fewer operations, and without linear
        velocity.
        """
        h = self.h
        J = self.second_moments()
        moment = [product(W[i], J[:, j]) - product(W[j], J[:, i]) for i, j in ((2, 1), (0, 2), (1, 0))]
        return np.concatenate([moment + cross(h, a), self.mass * a + product(W, h)])

    def turning_force(self, alpha: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return `point_force` of a massless body by Euler's equation: A ω̇ + ω × A ω."""
        return np.concatenate([product(self.A, alpha) + cross(w, product(self.A, w)), np.zeros(3)])

    def projected(
        self, G: np.ndarray, U: np.ndarray, D: Any = None, zero_rows: Sequence[int] = ()
    ) -> Inertia:
        """Return I - G Uᵀ, the articulated inertia with a joint projected out; G and U are (6, m).

        Rows and columns in `zero_rows` are known to vanish and become structural zeros. D is used by inertias
        of clusters only.
        """

        def entry(i: int, j: int) -> Any:
            if i in zero_rows or j in zero_rows:
                return 0.0
            block = self.A if j < 3 else self.B if i < 3 else self.D
            return block[i % 3, j % 3] - product(G[i], U[j])

        B = np.array([[entry(i, j) for j in range(3, 6)] for i in range(3)])
        return Inertia(symmetric(entry), B, symmetric(lambda i, j: entry(i + 3, j + 3)))


def _restored(A: np.ndarray, B: np.ndarray, D: np.ndarray, mass: float | None) -> Inertia:
    return Inertia(A, B, D, mass).frozen()


def _moment_of(J: np.ndarray) -> np.ndarray:
    """Return the moment of inertia of second moments J, (3, 3)."""
    return symmetric(lambda i, j: J[i - 2, i - 2] + J[i - 1, i - 1] if i == j else -J[i, j])


def symmetric(entry: Callable[[int, int], Any]) -> np.ndarray:
    """Return the symmetric (3, 3) matrix of a function, called once per pair of equal entries."""
    M = np.empty((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            M[i, j] = M[j, i] = entry(i, j)
    return M


def physical_problems(mass: float, moment: np.ndarray, *, tolerance: float = 1e-9) -> list[str]:
    """Return why mass [kg] and inertia about the center of mass [kg m²] are inconsistent; empty if valid.

    A moment of inertia is physically consistent if it is symmetric, positive semidefinite, and satisfies the
    triangle inequality: no principal moment exceeds the sum of the others. `tolerance` is relative to the
    largest principal moment.
    """
    moment = np.asarray(moment, dtype=float)
    if not (np.isfinite(mass) and np.isfinite(moment).all()):
        return ["mass and moment of inertia: expected finite numbers"]
    problems = [f"the mass {mass:g} kg is negative"] if mass < 0 else []
    scale = np.abs(moment).max()
    if np.abs(moment - moment.T).max() > tolerance * scale:
        return [*problems, "the moment of inertia is not symmetric"]
    a, b, c = np.linalg.eigvalsh(moment)
    if a < -tolerance * scale:
        problems.append(f"the principal moment {a:g} kg m² is negative")
    elif c > a + b + tolerance * scale:
        problems.append(
            f"the principal moment {c:g} kg m² is larger than the sum of the others, {a:g} and {b:g}"
        )
    if mass == 0 and scale > 0:
        problems.append("the mass is zero, but the moment of inertia is not")
    return problems
