"""Deformation of a flexible body: modal coordinates, and the frames that mode shapes move."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np

from linkwork.joints.joint import Joint
from linkwork.spatial import Pose, cross, is_zero, skew
from linkwork.spatial.constants import frozen, product, put
from linkwork.spatial.modal import ModalIntegrals
from linkwork.spatial.pose import Turn


@final
@dataclass(frozen=True, eq=False)
class Deformation(Joint):
    """The modal coordinates of a flexible body: its frame does not move with them, its mass does, as `integrals` say.

    `size` are modal coordinates that deform it a little: for random states. `stiffness` and `damping`, (m, m), are what the
    modal stiffness and damping matrices have beside their diagonals, which are the joint's springs and dampers.
    """

    names: tuple[str, ...]
    integrals: ModalIntegrals
    size: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    elastic = True

    def __post_init__(self) -> None:
        for word in ("size", "stiffness", "damping"):
            put(self, word, frozen(getattr(self, word)))
        for word in ("nq", "nv"):
            put(self, word, len(self.names))

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

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return self.size * rng.uniform(-1.0, 1.0, self.nq)


@final
@dataclass(frozen=True, eq=False)
class ModeShape(Joint):
    """A place on a flexible body, which its modal coordinates η move: it has none of its own, and its methods take η.

    Its origin moves by `shape` η + ½ η `short` η [m] and it turns by `slope` η [rad], all in the body's axes: `shape` and
    `slope` are (3, m), `short` is (m, m, 3). A small rotation vector is turned into a rotation by Cayley's
    formula, so that the frame stays one however large η is.
    """

    shape: np.ndarray
    slope: np.ndarray
    short: np.ndarray
    nq = nv = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            put(self, field.name, frozen(getattr(self, field.name)))
        put(self, "followed", self.shape.shape[1])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return ModeShape, tuple(getattr(self, field.name) for field in fields(self))

    def _half_turn(self, eta: np.ndarray) -> tuple[np.ndarray, Any]:
        """a, half of the small rotation vector, and 1 / (1 + a · a)."""
        a = product(0.5 * self.slope, eta)
        return a, 1.0 / (1.0 + product(a, a))

    def _axis(self) -> int | None:
        """The one coordinate axis about which it turns."""
        turning = [k for k in range(3) if self.slope[k].any()]
        return turning[0] if len(turning) == 1 else None

    def _rates(self, eta: np.ndarray) -> np.ndarray:
        """∂p/∂η of its origin, (3, m)."""
        moved = np.array(self.shape, dtype=object)
        for i in range(3):
            moved[i] = moved[i] + product(self.short[:, :, i], eta)
        return moved

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return q

    def units(self, length: float) -> np.ndarray:
        return np.zeros(0)

    def transform(self, q: np.ndarray) -> Pose:
        bent = np.array([product(q, product(0.5 * self.short[:, :, i], q)) for i in range(3)], dtype=object)
        p = product(self.shape, q) + bent
        if not self.slope.any():
            return Pose.translation(p)
        a, d = self._half_turn(q)
        k = self._axis()
        if k is None:
            A = skew(a)
            return Pose(np.eye(3) + 2.0 * d * (A + product(A, A)), p)
        s, c = 2.0 * d * a[k], d * (1.0 - a[k] * a[k])
        R = np.eye(3).astype(object)
        i, j = (k + 1) % 3, (k + 2) % 3
        R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
        return Pose(R, p, Turn(np.eye(3), k, c, s))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        a, d = self._half_turn(q)
        turning = self.slope.astype(object)
        if self._axis() is None:
            turning = turning - product(skew(a), self.slope)
        return np.concatenate([d * turning, product(self.transform(q).R.T, self._rates(q))])

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        if not self.slope.any() and not self.short.any():
            return np.zeros(6)
        a, d = self._half_turn(q)
        S = self.subspace(q)
        w, u = product(S[:3], v), product(S[3:], v)
        faster = np.array([product(v, product(self.short[:, :, i], v)) for i in range(3)], dtype=object)
        slowed = -2.0 * d * product(a, product(0.5 * self.slope, v))
        return np.concatenate([slowed * w, product(self.transform(q).R.T, faster) - cross(w, u)])

    @property
    def is_still(self) -> bool:
        """Whether no mode moves it."""
        return all(is_zero(x) for x in (*self.shape.ravel(), *self.slope.ravel(), *self.short.ravel()))
