"""Poses of frames, and the transformation of motions, forces and inertias between them."""

from __future__ import annotations

from math import copysign
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir import numbers as exact
from linkwork.compiler.ir.functions import sincos
from linkwork.compiler.ir.symbol import Symbol
from linkwork.spatial import rotation
from linkwork.spatial.constants import Immutable, frozen, product, set_frozen
from linkwork.spatial.factor import is_zero
from linkwork.spatial.inertia import Inertia, symmetric
from linkwork.spatial.vectors import cross, skew

SNAP_TOL = 1e-15  # entries of rotations this close to 0, 1 or -1 are these numbers


class ElementaryRotation(NamedTuple):
    """A rotation as a constant one, `before`, and an elementary rotation about the child's coordinate axis k.

    `double_angles`: matrices may be rotated by double angles. That needs half the operations, but small
    entries lose digits to cancellation if the inertia of a body is negligible compared with what it carries.
    """

    before: np.ndarray
    k: int
    c: Any
    s: Any
    double_angles: bool = True


class Pose(Immutable):
    """T = (R, p), the pose of a child frame in its parent (Lie Eq. 3).

    The columns of R are the child's axes, p is its origin [m]. Velocities are transformed to the child
    (`scatter`), forces and inertias to the parent (`gather`, `congruence`).
    """

    __slots__ = ("R", "p", "turn")

    R: np.ndarray
    p: np.ndarray
    turn: ElementaryRotation | None

    def __init__(self, R: np.ndarray, p: np.ndarray, turn: ElementaryRotation | None = None) -> None:
        set_frozen(self, "R", R)
        set_frozen(self, "p", p)
        set_frozen(self, "turn", turn)

    def __reduce__(self) -> Any:  # not all protocols pickle slots
        return (_restored if self.is_frozen else Pose), (self.R, self.p, self.turn)

    def __repr__(self) -> str:
        return f"Pose(R={self.R.tolist()}, p={self.p.tolist()})"

    @property
    def is_frozen(self) -> bool:
        """True if its arrays are immutable too."""
        return self.turn is None and isinstance(self.R.base, bytes) and isinstance(self.p.base, bytes)

    @property
    def is_symbolic(self) -> bool:
        """True if any entry is a symbol."""
        if self.R.dtype == float == self.p.dtype:
            return False
        return any(isinstance(x, Symbol) for x in (*self.R.ravel(), *self.p))

    @property
    def is_identity(self) -> bool:
        """True if it is exactly the identity, in numbers."""
        return not self.is_symbolic and not self.p.any() and bool(np.array_equal(self.R, np.eye(3)))

    def frozen(self) -> Pose:
        """Return a constant pose with immutable float arrays; a symbolic one is returned unchanged."""
        return self if self.is_frozen or self.is_symbolic else Pose(frozen(self.R), frozen(self.p))

    @classmethod
    def identity(cls) -> Pose:
        """Return the pose of the parent's own frame."""
        return cls(np.eye(3), np.zeros(3))

    @classmethod
    def translation(cls, p: Any) -> Pose:
        """Return a translation by p [m]."""
        return cls(np.eye(3), np.asarray(p))

    @classmethod
    def rotation_about(cls, k: int, angle: Any) -> Pose:
        """Return a rotation about coordinate axis k by an angle [rad]."""
        s, c = sincos(angle)
        a = (k + 1) % 3
        b = (k + 2) % 3
        R = np.eye(3).astype(object)
        R[a, a] = c
        R[a, b] = -s
        R[b, a] = s
        R[b, b] = c
        return cls(R, np.zeros(3), ElementaryRotation(np.eye(3), k, c, s))

    @classmethod
    def from_quaternion(cls, q: np.ndarray) -> Pose:
        """Return a rotation by the quaternion [x, y, z, w], of any nonzero norm."""
        return cls(rotation.matrix(q), np.zeros(3))

    @classmethod
    def from_xyz_rpy(cls, xyz: Any = (0.0, 0.0, 0.0), rpy: Any = (0.0, 0.0, 0.0)) -> Pose:
        """Return a constant pose at `xyz` [m], rotated by roll, pitch and yaw [rad].

        The angles are about the parent's x, y and z axes, in this order.
        """
        sr, sp, sy = (exact.sin(float(angle)) for angle in rpy)
        cr, cp, cy = (exact.cos(float(angle)) for angle in rpy)
        entries = (
            cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr,
            sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr,
            -sp, cp * sr, cp * cr,
        )  # fmt: skip
        R = np.array([_snapped(x, SNAP_TOL) for x in entries]).reshape(3, 3)
        return cls(R, np.array(xyz, dtype=float))

    def then(self, child: Pose) -> Pose:
        """Return the pose of a frame that has pose `child` in this one: T_self T_child."""
        turn = None
        if child.turn is not None and _constant(self.R):
            turn = child.turn._replace(before=product(self.R.astype(float), child.turn.before))
        return Pose(product(self.R, child.R), self.p + product(self.R, child.p), turn)

    def inverse(self) -> Pose:
        """Return the pose of the parent in the child (Lie Eq. 4)."""
        return Pose(self.R.T, -product(self.R.T, self.p))

    def point(self, x: np.ndarray) -> np.ndarray:
        """Return a point of the child's frame [m] in the parent's."""
        return product(self.R, x) + self.p

    def matrix(self) -> np.ndarray:
        """Return the homogeneous matrix (Lie Eq. 3), (4, 4)."""
        return np.block([[self.R, np.reshape(self.p, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])

    def Ad(self) -> np.ndarray:
        """Return the matrix from motions of the child's frame to the parent's (Lie Eq. 7), (6, 6)."""
        return np.block([[self.R, np.zeros((3, 3))], [product(skew(self.p), self.R), self.R]])

    def scatter(self, V: np.ndarray) -> np.ndarray:
        """Return a motion of the parent as that of the child: Ad of the inverse."""
        return np.concatenate([product(self.R.T, V[:3]), product(self.R.T, V[3:] - cross(self.p, V[:3]))])

    def gather(self, F: np.ndarray) -> np.ndarray:
        """Return a force on the child as one on the parent: the transpose of `scatter`."""
        m = product(self.R, F[:3])
        f = product(self.R, F[3:])
        return np.concatenate([m + cross(self.p, f), f])

    def congruence(self, inertia: Inertia) -> Inertia:
        """Return an inertia of the child, as one of the parent (Lie Eq. 21)."""
        if inertia.J is not None:
            h = product(self.R, inertia.h)
            J = self._rotate(inertia.J, same=True)
            p = self.p
            moved = h + inertia.mass * p
            return Inertia.from_moments(
                inertia.mass, moved, symmetric(lambda i, j: J[i, j] + p[i] * h[j] + moved[i] * p[j])
            )
        P = skew(self.p)
        A = self._rotate(inertia.A, same=True)
        if inertia.mass is not None:  # a rigid body stays one
            h = product(self.R, inertia.h)
            Y = product(P, skew(h + 0.5 * inertia.mass * self.p))  # half way between the old and the new h
            moved = h + inertia.mass * self.p
            return Inertia(
                symmetric(lambda i, j: A[i, j] - Y[i, j] - Y[j, i]), skew(moved), inertia.D, inertia.mass
            )
        B = self._rotate(inertia.B)
        D = self._rotate(inertia.D, same=True)
        moved = B + product(P, D)
        Y = product(P, B.T)
        Z = product(P, moved.T)
        return Inertia(symmetric(lambda i, j: A[i, j] + Y[j, i] + Z[i, j]), moved, D)

    def rotated(self, M: np.ndarray, *, symmetric: bool = True) -> np.ndarray:
        """Return R M Rᵀ of a matrix, (3, 3), such as a moment of inertia, in the parent's axes."""
        return self._rotate(M, same=symmetric)

    def _rotate(self, M: np.ndarray, *, same: bool = False) -> np.ndarray:
        """Return R M Rᵀ; an elementary rotation needs half the operations by double angles."""
        decomposition = (
            permutation_and_rotation(self.turn.before)
            if self.turn is not None and self.turn.double_angles
            else None
        )
        if self.turn is None or decomposition is None:
            if not same:
                return product(self.R, product(M, self.R.T))
            MR = product(M, self.R.T)
            return symmetric(lambda i, j: product(self.R[i], MR[:, j]))
        _, k, c, s, _ = self.turn
        permutation, elementary = decomposition
        T = product(permutation, product(_turned(M, k, c, s), permutation.T))
        return T if elementary is None else _turned(T, *elementary)


def _restored(R: np.ndarray, p: np.ndarray, turn: None) -> Pose:
    return Pose(R, p, turn).frozen()


def _turned(M: np.ndarray, k: int, c: Any, s: Any) -> np.ndarray:
    """Return R M Rᵀ for a rotation about coordinate axis k."""
    a = (k + 1) % 3
    b = (k + 2) % 3
    w = s * (M[a, a] - M[b, b]) + c * (M[a, b] + M[b, a])
    T = np.empty((3, 3), dtype=object)
    T[k, k] = M[k, k]
    T[a, a] = M[a, a] - s * w
    T[b, b] = M[b, b] + s * w
    T[a, b] = c * w - M[b, a]
    T[b, a] = c * w - M[a, b]
    if is_zero(M[a, b]) and is_zero(M[b, a]):
        # Products instead of differences: behind massless bodies 1 - s s would lose all digits.
        if is_zero(M[b, b]):
            T[a, a] = c * (c * M[a, a])
            T[b, b] = s * w
        elif is_zero(M[a, a]):
            T[a, a] = s * (s * M[b, b])
            T[b, b] = c * (c * M[b, b])
    T[a, k] = c * M[a, k] - s * M[b, k]
    T[b, k] = s * M[a, k] + c * M[b, k]
    T[k, a] = c * M[k, a] - s * M[k, b]
    T[k, b] = s * M[k, a] + c * M[k, b]
    return T


def permutation_and_rotation(R: np.ndarray) -> tuple[np.ndarray, tuple[int, float, float] | None] | None:
    """Return a constant rotation as an axis permutation and an elementary rotation (axis, cos, sin) or None.

    The elementary rotation is by at most 45°. The result is None if the two frames share no axis.
    """
    if np.count_nonzero(R) == 3:
        return R, None
    shared_axes = np.argwhere(
        (R != 0.0) & (np.count_nonzero(R, axis=0) == 1) & (np.count_nonzero(R, axis=1) == 1)[:, None]
    )
    if len(shared_axes) == 0:
        return None
    k, j = (int(i) for i in shared_axes[0])
    a = (k + 1) % 3
    b = (k + 2) % 3
    c, d = sorted({0, 1, 2} - {j}, key=lambda i: -abs(R[a, i]))
    permutation = np.zeros((3, 3))
    for row, column in ((k, j), (a, c), (b, d)):
        permutation[row, column] = np.sign(R[row, column])
    turn = product(R, permutation.T)
    return permutation, (k, float(turn[a, a]), float(turn[b, a]))


def _snapped(x: float, rounding: float) -> float:
    if abs(x) < rounding:
        return 0.0
    return copysign(1.0, x) if abs(abs(x) - 1.0) < rounding else x


def snapped(R: np.ndarray, rounding: float = SNAP_TOL) -> np.ndarray:
    """Return a constant rotation with entries within `rounding` of 0, 1 and -1 replaced by these.

    Exact zeros and ones shorten programs.
    """
    R = np.where(np.abs(R) < rounding, 0.0, R)
    return np.where(np.abs(np.abs(R) - 1.0) < rounding, np.sign(R), R)


def _constant(M: np.ndarray) -> bool:
    return M.dtype != object or all(isinstance(x, (int, float)) for x in M.ravel())
