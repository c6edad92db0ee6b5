"""Deformation of a flexible body: modal coordinates, and frames displaced by mode shapes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from linkwork.joints.joint import Joint
from linkwork.spatial import Pose, cross, is_zero, skew
from linkwork.spatial.constants import frozen, product, set_frozen
from linkwork.spatial.modal import ModalIntegrals
from linkwork.spatial.pose import ElementaryRotation


@final
@dataclass(frozen=True, eq=False)
class Deformation(Joint):
    """The modal coordinates of a flexible body, whose mass distribution depends on them (`integrals`).

    The body frame itself does not move. `size` are modal coordinates of a small deformation, (m,), the scale
    of random states. `stiffness` and `damping`, (m, m), are the off-diagonal parts of the modal stiffness and
    damping matrices; the diagonals are the joint's springs and dampers.
    """

    names: tuple[str, ...]
    integrals: ModalIntegrals
    size: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    elastic = True

    def __post_init__(self) -> None:
        for attribute in ("size", "stiffness", "damping"):
            set_frozen(self, attribute, frozen(getattr(self, attribute)))
        for attribute in ("nq", "nv"):
            set_frozen(self, attribute, len(self.names))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Deformation, tuple(getattr(self, field.name) for field in fields(self))

    @property
    def components(self) -> tuple[str, ...]:
        return self.names

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.identity()

    def subspace(self, q: np.ndarray) -> np.ndarray:
        return np.zeros((6, self.nv))

    def units(self, length: float) -> np.ndarray:
        return self.size

    def without_elasticity(self) -> Joint:
        none = np.zeros_like(self.stiffness)
        return replace(self, stiffness=none, damping=none)

    def times(self, factor: float) -> Joint:
        stiffness = factor * self.stiffness
        damping = factor * self.damping
        return replace(self, integrals=self.integrals.times(factor), stiffness=stiffness, damping=damping)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return self.size * rng.uniform(-1.0, 1.0, self.nq)


@final
@dataclass(frozen=True, eq=False)
class ModeShape(Joint):
    """A frame on a flexible body, moved by the body's modal coordinates η, which its methods take as q.

    Its origin moves by `shape` η + ½ η `short` η [m] and it rotates by `slope` η [rad], in the body's axes:
    `shape` and `slope` are (3, m), `short` is (m, m, 3). Cayley's formula maps the small rotation vector to a
    rotation matrix, which is orthogonal for any η. The joint has no coordinates of its own.
    """

    shape: np.ndarray
    slope: np.ndarray
    short: np.ndarray
    nq = nv = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            set_frozen(self, field.name, frozen(getattr(self, field.name)))
        set_frozen(self, "followed", self.shape.shape[1])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return ModeShape, tuple(getattr(self, field.name) for field in fields(self))

    def _half_turn(self, eta: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return a, half of the small rotation vector, and 1 / (1 + a · a)."""
        a = product(0.5 * self.slope, eta)
        return a, 1.0 / (1.0 + product(a, a))

    def _axis(self) -> int | None:
        """Return the coordinate axis of the rotation, or None if there is not exactly one."""
        turning = [k for k in range(3) if self.slope[k].any()]
        return turning[0] if len(turning) == 1 else None

    def _rates(self, eta: np.ndarray) -> np.ndarray:
        """Return ∂p/∂η of the origin, (3, m)."""
        jacobian = np.array(self.shape, dtype=object)
        for i in range(3):
            jacobian[i] = jacobian[i] + product(self.short[:, :, i], eta)
        return jacobian

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return q

    def units(self, length: float) -> np.ndarray:
        return np.zeros(0)

    def transform(self, q: np.ndarray) -> Pose:
        foreshortening = np.array(
            [product(q, product(0.5 * self.short[:, :, i], q)) for i in range(3)], dtype=object
        )
        p = product(self.shape, q) + foreshortening
        if not self.slope.any():
            return Pose.translation(p)
        a, d = self._half_turn(q)
        k = self._axis()
        if k is None:
            A = skew(a)
            return Pose(np.eye(3) + 2.0 * d * (A + product(A, A)), p)
        s = 2.0 * d * a[k]
        c = d * (1.0 - a[k] * a[k])
        R = np.eye(3).astype(object)
        i = (k + 1) % 3
        j = (k + 2) % 3
        R[i, i] = c
        R[i, j] = -s
        R[j, i] = s
        R[j, j] = c
        return Pose(R, p, ElementaryRotation(np.eye(3), k, c, s))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        a, d = self._half_turn(q)
        angular = self.slope.astype(object)
        if self._axis() is None:
            angular = angular - product(skew(a), self.slope)
        return np.concatenate([d * angular, product(self.transform(q).R.T, self._rates(q))])

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        if not self.slope.any() and not self.short.any():
            return np.zeros(6)
        a, d = self._half_turn(q)
        S = self.subspace(q)
        w = product(S[:3], v)
        u = product(S[3:], v)
        foreshortening_rate = np.array(
            [product(v, product(self.short[:, :, i], v)) for i in range(3)], dtype=object
        )
        scale_rate = -2.0 * d * product(a, product(0.5 * self.slope, v))
        return np.concatenate(
            [scale_rate * w, product(self.transform(q).R.T, foreshortening_rate) - cross(w, u)]
        )

    @property
    def is_still(self) -> bool:
        """True if no mode moves this frame."""
        return all(is_zero(x) for x in (*self.shape.ravel(), *self.slope.ravel(), *self.short.ravel()))
