"""Spatial inertias, rigid and articulated, kept as blocks so that what is symmetric or constant is computed once or never."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwork.ir.symbol import Symbol
from linkwork.spatial.constants import Immutable, frozen, product, put
from linkwork.spatial.factor import is_zero
from linkwork.spatial.vectors import axial, cross, skew


class Inertia(Immutable):
    """The symmetric matrix [[A, B], [Bᵀ, D]] that takes motions to forces.

    Of a rigid body (Lie Eq. 22), `mass` [kg] is known, B = [h] with h = mass * centre [kg m], D = mass * 1, and A is the
    moment of inertia about the frame's origin [kg m²]. An articulated inertia has no `mass` but all 21 numbers. `J` are the
    second moments ∫ r rᵀ dm of a rigid body [kg m²], (3, 3), where they are known and A comes from them.
    """

    __slots__ = ("A", "B", "D", "J", "mass")

    A: np.ndarray
    B: np.ndarray
    D: np.ndarray
    J: np.ndarray | None
    mass: float | None

    def __init__(
        self, A: np.ndarray, B: np.ndarray, D: np.ndarray, mass: float | None = None, J: np.ndarray | None = None
    ) -> None:
        put(self, "A", A)
        put(self, "B", B)
        put(self, "D", D)
        put(self, "mass", mass)
        put(self, "J", J)

    def __reduce__(self) -> Any:  # slots alone are not pickled by every protocol
        return (_restored if self.is_frozen else Inertia), (self.A, self.B, self.D, self.mass)

    def __repr__(self) -> str:
        return f"Inertia(A={self.A.tolist()}, B={self.B.tolist()}, D={self.D.tolist()}, mass={self.mass})"

    @property
    def is_frozen(self) -> bool:
        """Whether its arrays cannot be written either."""
        return all(type(block.base) is bytes for block in (self.A, self.B, self.D))

    def frozen(self) -> Inertia:
        """The same constant inertia with arrays of floats that nobody can write; one that holds symbols stays as it is."""
        return (
            self if self.is_frozen or self.is_symbolic else Inertia(frozen(self.A), frozen(self.B), frozen(self.D), self.mass)
        )

    @classmethod
    def rigid(cls, mass: float, centre: np.ndarray, moment: np.ndarray) -> Inertia:
        """Of a body with mass [kg], centre of mass [m], and moment of inertia about that centre [kg m²], (3, 3)."""
        if any(isinstance(x, Symbol) for x in (mass, *np.ravel(centre), *np.ravel(moment))):
            c, h = np.asarray(centre), mass * np.asarray(centre)
            half = 0.5 * (moment[0, 0] + moment[1, 1] + moment[2, 2])
            J = symmetric(lambda i, j: (half if i == j else 0.0) - moment[i, j] + c[i] * h[j])
            return cls.of_moments(mass, h, J)
        c = skew(np.asarray(centre, dtype=float))
        return cls(np.asarray(moment, dtype=float) + product(mass * c, c.T), mass * c, mass * np.eye(3), mass)

    @classmethod
    def of_moments(cls, mass: Any, h: np.ndarray, J: np.ndarray) -> Inertia:
        """Of a rigid body with mass [kg], first moments h [kg m], (3,), and second moments J [kg m²], (3, 3)."""
        return cls(_moment_of(J), skew(h), mass * np.eye(3), mass, J)

    @classmethod
    def massless(cls, moment: np.ndarray) -> Inertia:
        """A moment of inertia [kg m²], (3, 3), and nothing else."""
        return cls(moment, np.zeros((3, 3)), np.zeros((3, 3)), 0.0)

    @classmethod
    def of(cls, M: np.ndarray) -> Inertia:
        """From a symmetric (6, 6) matrix."""
        return cls(M[:3, :3], M[:3, 3:], M[3:, 3:])

    @property
    def is_massless(self) -> bool:
        """Whether it is known to have a moment of inertia and nothing else."""
        return is_zero(self.mass) and all(is_zero(x) for x in self.B.ravel())

    def constant(self) -> Inertia:
        """The same inertia with arrays of floats, and exact zeros where rounding missed them."""
        A, B, D = (np.asarray(block, dtype=float) for block in (self.A, self.B, self.D))
        A = np.where(np.abs(A) < 1e-16 * np.abs(A).max(initial=0.0), 0.0, A)
        return Inertia(A, B, D, self.mass)

    @property
    def is_symbolic(self) -> bool:
        """Whether it holds symbols."""
        entries = (self.mass, *self.A.ravel(), *self.B.ravel(), *self.D.ravel())
        return any(isinstance(x, Symbol) for x in entries)

    def settled(self) -> Inertia:
        """As `constant` and frozen, or itself where it holds symbols."""
        return self if self.is_symbolic else self.constant().frozen()

    @property
    def h(self) -> np.ndarray:
        """mass * centre of a rigid body [kg m]."""
        return axial(self.B)

    def __add__(self, other: Inertia) -> Inertia:
        mass = None if self.mass is None or other.mass is None else self.mass + other.mass
        known = mass is not None and (self.J is not None or other.J is not None)
        if known and all(x.J is not None or not x.is_symbolic for x in (self, other)):
            J = self.second_moments() + other.second_moments()
            return Inertia.of_moments(mass, self.h + other.h, J)
        return Inertia(self.A + other.A, self.B + other.B, self.D + other.D, mass)

    def times(self, factor: float) -> Inertia:
        """Of so many such bodies at one place, or of one in another unit of mass."""
        mass = None if self.mass is None else factor * self.mass
        J = None if self.J is None else factor * self.J
        return Inertia(factor * self.A, factor * self.B, factor * self.D, mass, J)

    def __matmul__(self, X: np.ndarray) -> np.ndarray:
        """The force (or momentum) that belongs to a motion."""
        return np.concatenate(
            [
                product(self.A, X[:3]) + product(self.B, X[3:]),
                product(self.B.T, X[:3]) + product(self.D, X[3:]),
            ]
        )

    def column(self, k: int) -> np.ndarray:
        """Column k of the matrix: what belongs to a unit motion along one coordinate."""
        return np.concatenate([self.A[:, k], self.B[k]] if k < 3 else [self.B[:, k - 3], self.D[:, k - 3]])

    def dense(self) -> np.ndarray:
        """The (6, 6) matrix."""
        return np.block([[self.A, self.B], [self.B.T, self.D]])

    def second_moments(self) -> np.ndarray:
        """∫ r rᵀ dm of a rigid body [kg m²], (3, 3)."""
        if self.J is not None:
            return self.J
        x, y, z = np.diag(self.A)
        return np.where(np.eye(3), np.diag([0.5 * (y + z - x), 0.5 * (z + x - y), 0.5 * (x + y - z)]), -self.A)

    def point_force(self, a: np.ndarray, W: np.ndarray) -> np.ndarray:
        """The force that accelerates the points at r of a rigid body by a + W r, as an observer at rest sees it.

        With W = [ẇ] + [w][w] this is I V̇ - ad*_V I V (Lie Eq. 31) for fewer operations, and needs no linear velocity.
        """
        h, J = self.h, self.second_moments()
        moment = [product(W[i], J[:, j]) - product(W[j], J[:, i]) for i, j in ((2, 1), (0, 2), (1, 0))]
        return np.concatenate([moment + cross(h, a), self.mass * a + product(W, h)])

    def turning_force(self, alpha: np.ndarray, w: np.ndarray) -> np.ndarray:
        """`point_force` of a body without mass, by Euler's equation: A ẇ + w × A w."""
        return np.concatenate([product(self.A, alpha) + cross(w, product(self.A, w)), np.zeros(3)])

    def without(self, G: np.ndarray, U: np.ndarray, D: Any = None, gone: Sequence[int] = ()) -> Inertia:
        """I - G Uᵀ, a symmetric low-rank downdate: the articulated inertia behind a free joint. G and U are (6, m).

        Rows and columns `gone` are known to vanish, and become structural zeros.
        """

        def entry(i: int, j: int) -> Any:
            if i in gone or j in gone:
                return 0.0
            block = self.A if j < 3 else self.B if i < 3 else self.D
            return block[i % 3, j % 3] - product(G[i], U[j])

        B = np.array([[entry(i, j) for j in range(3, 6)] for i in range(3)])
        return Inertia(symmetric(entry), B, symmetric(lambda i, j: entry(i + 3, j + 3)))


def _restored(A: np.ndarray, B: np.ndarray, D: np.ndarray, mass: float | None) -> Inertia:
    return Inertia(A, B, D, mass).frozen()


def _moment_of(J: np.ndarray) -> np.ndarray:
    """The moment of inertia of second moments J, (3, 3)."""
    return symmetric(lambda i, j: J[i - 2, i - 2] + J[i - 1, i - 1] if i == j else -J[i, j])


def symmetric(entry: Callable[[int, int], Any]) -> np.ndarray:
    """The symmetric (3, 3) matrix of a function, which is asked for one of two equal entries only."""
    M = np.empty((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            M[i, j] = M[j, i] = entry(i, j)
    return M


def physical_problems(mass: float, moment: np.ndarray, *, tolerance: float = 1e-9) -> list[str]:
    """Why a mass [kg] and moment of inertia about its centre [kg m²] are not physically consistent; empty if they are.

    A moment of inertia is physically consistent if it is symmetric, positive semidefinite, and satisfies the triangle
    inequality: no principal moment is larger than the sum of the others. `tolerance` is relative to the largest principal
    moment.
    """
    moment = np.asarray(moment, dtype=float)
    if not (np.isfinite(mass) and np.isfinite(moment).all()):
        return ["mass and moment of inertia must be finite"]
    problems = [f"the mass {mass:g} kg is negative"] if mass < 0 else []
    scale = np.abs(moment).max()
    if np.abs(moment - moment.T).max() > tolerance * scale:
        return [*problems, "the moment of inertia is not symmetric"]
    a, b, c = np.linalg.eigvalsh(moment)
    if a < -tolerance * scale:
        problems.append(f"the principal moment {a:g} kg m² is negative")
    elif c > a + b + tolerance * scale:
        problems.append(f"the principal moment {c:g} kg m² is larger than the sum of the others, {a:g} and {b:g}")
    if mass == 0 and scale > 0:
        problems.append("there is a moment of inertia without mass")
    return problems
