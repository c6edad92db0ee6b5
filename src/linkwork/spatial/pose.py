"""Poses: where a frame stands in another, and how motions, forces and inertias are carried between the two."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.ir.functions import sincos
from linkwork.ir.symbol import Symbol
from linkwork.spatial import rotation
from linkwork.spatial.constants import Immutable, frozen, product, put
from linkwork.spatial.factor import is_zero
from linkwork.spatial.inertia import Inertia, symmetric
from linkwork.spatial.vectors import cross, skew


class Turn(NamedTuple):
    """A rotation as a constant one, `before`, followed by an elementary rotation about coordinate axis k of the child.

    `short`: matrices may be rotated by the double angle. That needs half the operations, but where a body's own inertia is
    negligible against what it carries, small entries lose digits to cancellation.
    """

    before: np.ndarray
    k: int
    c: Any
    s: Any
    short: bool = True


class Pose(Immutable):
    """T = (R, p), the pose of a child frame in its parent (Lie Eq. 3): R's columns are the child's axes, p its origin [m].

    Velocities are carried out to the child (`scatter`), forces and inertias in to the parent (`gather`, `congruence`).
    """

    __slots__ = ("R", "p", "turn")

    R: np.ndarray
    p: np.ndarray
    turn: Turn | None

    def __init__(self, R: np.ndarray, p: np.ndarray, turn: Turn | None = None) -> None:
        put(self, "R", R)
        put(self, "p", p)
        put(self, "turn", turn)

    def __reduce__(self) -> Any:  # slots alone are not pickled by every protocol
        return (_restored if self.is_frozen else Pose), (self.R, self.p, self.turn)

    def __repr__(self) -> str:
        return f"Pose(R={self.R.tolist()}, p={self.p.tolist()})"

    @property
    def is_frozen(self) -> bool:
        """Whether its arrays cannot be written either."""
        return self.turn is None and type(self.R.base) is bytes and type(self.p.base) is bytes

    @property
    def is_symbolic(self) -> bool:
        """Whether it holds symbols."""
        return any(isinstance(x, Symbol) for x in (*self.R.ravel(), *self.p))

    def frozen(self) -> Pose:
        """The same constant pose with arrays of floats that nobody can write; one that holds symbols stays as it is."""
        return self if self.is_frozen or self.is_symbolic else Pose(frozen(self.R), frozen(self.p))

    @classmethod
    def identity(cls) -> Pose:
        """The parent's own frame."""
        return cls(np.eye(3), np.zeros(3))

    @classmethod
    def translation(cls, p: Any) -> Pose:
        """Moved by p [m], with the same axes."""
        return cls(np.eye(3), np.asarray(p))

    @classmethod
    def turned(cls, k: int, angle: Any) -> Pose:
        """Turned about coordinate axis k by an angle [rad]."""
        s, c = sincos(angle)
        a, b = (k + 1) % 3, (k + 2) % 3
        R = np.eye(3).astype(object)
        R[a, a], R[a, b], R[b, a], R[b, b] = c, -s, s, c
        return cls(R, np.zeros(3), Turn(np.eye(3), k, c, s))

    @classmethod
    def from_quaternion(cls, q: np.ndarray) -> Pose:
        """Turned by the quaternion [x, y, z, w], of any length but zero."""
        return cls(rotation.matrix(q), np.zeros(3))

    @classmethod
    def placed(cls, xyz: Any = (0.0, 0.0, 0.0), rpy: Any = (0.0, 0.0, 0.0)) -> Pose:
        """Constant, at `xyz` [m], turned by roll, pitch and yaw about the parent's x, y and z, in this order [rad]."""
        (sr, cr), (sp, cp), (sy, cy) = (sincos(float(angle)) for angle in rpy)
        R = np.array([
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ])  # fmt: skip
        return cls(snapped(R), np.array(xyz, dtype=float))

    def then(self, child: Pose) -> Pose:
        """The pose of a frame that has pose `child` in this one: T_self T_child."""
        turn = None
        if child.turn is not None and _constant(self.R):
            turn = child.turn._replace(before=product(self.R.astype(float), child.turn.before))
        return Pose(product(self.R, child.R), self.p + product(self.R, child.p), turn)

    def inverse(self) -> Pose:
        """The pose of the parent in the child (Lie Eq. 4)."""
        return Pose(self.R.T, -product(self.R.T, self.p))

    def point(self, x: np.ndarray) -> np.ndarray:
        """A point given in the child's frame [m], in the parent's."""
        return product(self.R, x) + self.p

    def matrix(self) -> np.ndarray:
        """The homogeneous matrix (Lie Eq. 3), (4, 4)."""
        return np.block([[self.R, np.reshape(self.p, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])

    def Ad(self) -> np.ndarray:
        """The matrix that takes motions of the child's frame to the parent's (Lie Eq. 7), (6, 6)."""
        return np.block([[self.R, np.zeros((3, 3))], [product(skew(self.p), self.R), self.R]])

    def scatter(self, V: np.ndarray) -> np.ndarray:
        """A motion of the parent, as that of the child: Ad of the inverse."""
        return np.concatenate([product(self.R.T, V[:3]), product(self.R.T, V[3:] - cross(self.p, V[:3]))])

    def gather(self, F: np.ndarray) -> np.ndarray:
        """A force on the child, as one on the parent: the transpose of `scatter`."""
        m, f = product(self.R, F[:3]), product(self.R, F[3:])
        return np.concatenate([m + cross(self.p, f), f])

    def congruence(self, inertia: Inertia) -> Inertia:
        """An inertia of the child, as one of the parent (Lie Eq. 21)."""
        if inertia.J is not None:
            h, J, p = product(self.R, inertia.h), self._rotate(inertia.J, same=True), self.p
            moved = h + inertia.mass * p
            return Inertia.of_moments(inertia.mass, moved, symmetric(lambda i, j: J[i, j] + p[i] * h[j] + moved[i] * p[j]))
        P = skew(self.p)
        A = self._rotate(inertia.A, same=True)
        if inertia.mass is not None:  # a rigid body stays one
            h = product(self.R, inertia.h)
            Y = product(P, skew(h + 0.5 * inertia.mass * self.p))  # half way between the old and the new h
            moved = h + inertia.mass * self.p
            return Inertia(symmetric(lambda i, j: A[i, j] - Y[i, j] - Y[j, i]), skew(moved), inertia.D, inertia.mass)
        B, D = self._rotate(inertia.B), self._rotate(inertia.D, same=True)
        moved = B + product(P, D)
        Y, Z = product(P, B.T), product(P, moved.T)
        return Inertia(symmetric(lambda i, j: A[i, j] + Y[j, i] + Z[i, j]), moved, D)

    def rotated(self, M: np.ndarray, *, symmetric: bool = True) -> np.ndarray:
        """R M Rᵀ of a matrix, (3, 3), such as a moment of inertia about one point: the same in the parent's axes."""
        return self._rotate(M, same=symmetric)

    def _rotate(self, M: np.ndarray, *, same: bool = False) -> np.ndarray:
        """R M Rᵀ; `same` says that M is symmetric. A turn about an axis needs half the work, by the double angle."""
        steps = in_turns(self.turn.before) if self.turn is not None and self.turn.short else None
        if self.turn is None or steps is None:
            if not same:
                return product(self.R, product(M, self.R.T))
            MR = product(M, self.R.T)
            return symmetric(lambda i, j: product(self.R[i], MR[:, j]))
        _, k, c, s, _ = self.turn
        swap, more = steps
        T = product(swap, product(_turned(M, k, c, s), swap.T))
        return T if more is None else _turned(T, *more)


def _restored(R: np.ndarray, p: np.ndarray, turn: None) -> Pose:
    return Pose(R, p, turn).frozen()


def _turned(M: np.ndarray, k: int, c: Any, s: Any) -> np.ndarray:
    """R M Rᵀ of a turn about coordinate axis k."""
    a, b = (k + 1) % 3, (k + 2) % 3
    w = s * (M[a, a] - M[b, b]) + c * (M[a, b] + M[b, a])
    T = np.empty((3, 3), dtype=object)
    T[k, k] = M[k, k]
    T[a, a], T[b, b] = M[a, a] - s * w, M[b, b] + s * w
    T[a, b], T[b, a] = c * w - M[b, a], c * w - M[a, b]
    if is_zero(M[a, b]) and is_zero(M[b, a]):  # nothing to cancel: behind massless bodies 1 - s s would lose all digits
        if is_zero(M[b, b]):
            T[a, a], T[b, b] = c * (c * M[a, a]), s * w
        elif is_zero(M[a, a]):
            T[a, a], T[b, b] = s * (s * M[b, b]), c * (c * M[b, b])
    T[a, k], T[b, k] = c * M[a, k] - s * M[b, k], s * M[a, k] + c * M[b, k]
    T[k, a], T[k, b] = c * M[k, a] - s * M[k, b], s * M[k, a] + c * M[k, b]
    return T


def in_turns(R: np.ndarray) -> tuple[np.ndarray, tuple[int, float, float] | None] | None:
    """A constant rotation as an axis permutation, (3, 3), followed by an elementary rotation by at most 45°: axis, cos and sin.

    No rotation where it only permutes axes; None where the two frames share no axis.
    """
    if np.count_nonzero(R) == 3:
        return R, None
    alone = np.argwhere((R != 0.0) & (np.count_nonzero(R, axis=0) == 1) & (np.count_nonzero(R, axis=1) == 1)[:, None])
    if len(alone) == 0:
        return None
    k, j = (int(i) for i in alone[0])
    a, b = (k + 1) % 3, (k + 2) % 3
    c, d = sorted({0, 1, 2} - {j}, key=lambda i: -abs(R[a, i]))
    swap = np.zeros((3, 3))
    for row, column in ((k, j), (a, c), (b, d)):
        swap[row, column] = np.sign(R[row, column])
    turn = product(R, swap.T)
    return swap, (k, float(turn[a, a]), float(turn[b, a]))


def snapped(R: np.ndarray, rounding: float = 1e-15) -> np.ndarray:
    """A constant rotation with exact zeros and ones where rounding missed them: they shorten programs."""
    R = np.where(np.abs(R) < rounding, 0.0, R)
    return np.where(np.abs(np.abs(R) - 1.0) < rounding, np.sign(R), R)


def _constant(M: np.ndarray) -> bool:
    return M.dtype != object or all(isinstance(x, (int, float)) for x in M.ravel())
