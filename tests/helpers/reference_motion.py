"""The motion of a mechanism by adaptive steps in dense algebra: all loop equations, no coordinates chosen,
nothing of the core.

Equations of motion and of loops are those of `dense_mechanics`, on the spanning tree; accelerations are the
minimum-residual solution of all loop equations, by singular values that do not count where they are zero in
regular states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dense_mechanics import Dense
from linkages import tree
from linkwork.model import Model

# Dormand and Prince, orders 5 and 4
NODES = (0.0, 0.2, 0.3, 0.8, 8 / 9, 1.0, 1.0)
WEIGHTS = (
    (),
    (0.2,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERRORS = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)

Torque = Callable[[float], np.ndarray]


class Path(NamedTuple):
    """Times, (n,), configurations, (n, nq), velocities of the tree, (n, nv_spanning), and σ_min / σ_max of
    all equations, (n,).

    The path ends early where the last is below `singular`.
    """

    t: np.ndarray
    q: np.ndarray
    w: np.ndarray
    conditioning: np.ndarray


class Reference:
    """A model by dense algebra, with the rank of all its loop equations in a regular state."""

    def __init__(self, model: Model, regular: np.ndarray, cut: float = 1e-6) -> None:
        """Singular values above a `cut` count, relative to the largest."""
        self.model, self.tree = model, tree(model)
        s = np.linalg.svd(self._equations(regular)[1], compute_uv=False)
        self.rank = int(np.sum(s > cut * s[0]))

    def _dense(self, q: np.ndarray, w: np.ndarray | None = None) -> Dense:
        return Dense(self.tree, q[None], None if w is None else w[None])

    def _equations(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        phi, K = self._dense(q).equations(q[None], self.model.loops)
        return phi[0], K[0]

    def conditioning(self, q: np.ndarray) -> float:
        s = np.linalg.svd(self._equations(q)[1], compute_uv=False)
        return float(s[self.rank - 1] / s[0])

    def _split(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pseudoinverse of K with this rank, and a basis of the velocities that satisfy it."""
        u, s, vt = np.linalg.svd(K)
        r = self.rank
        return vt[:r].T @ (u[:, :r].T / s[:r, None]), vt[r:].T

    def acceleration(self, q: np.ndarray, w: np.ndarray, tau: np.ndarray) -> np.ndarray:
        dense = self._dense(q, w)
        drift = dense.along(lambda x: dense.equations(x, self.model.loops)[1])[0] @ w
        inverse, free = self._split(self._equations(q)[1])
        particular = -inverse @ drift
        M = dense.M[0]
        bias = dense.inverse_dynamics_s(np.zeros((1, len(w))))[0]
        right = free.T @ (tau - bias - M @ particular)
        return particular + free @ np.linalg.solve(free.T @ M @ free, right)

    def closed(self, q: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest closed state."""
        for _ in range(6):
            phi, K = self._equations(q)
            inverse, free = self._split(K)
            step = -inverse @ phi
            q = q + self._rate(q, step)
            if np.abs(step).max(initial=0.0) < 1e-13:
                break
        return q, free @ (free.T @ w)

    def _rate(self, q: np.ndarray, w: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._dense(q).rate(q[None], w[None])[0]
        return found

    def follow(
        self,
        q: np.ndarray,
        w: np.ndarray,
        duration: float,
        tau: np.ndarray,
        *,
        tol: float = 1e-9,
        singular: float = 1e-3,
    ) -> Path:
        """The motion from a closed state under constant forces in all joints of the tree, (nv_spanning,)."""
        q, w = self.closed(q, w)
        t = 0.0
        h = 0.01
        nq = len(q)
        found = [(t, q, w, self.conditioning(q))]
        while t < duration and found[-1][3] > singular:
            h = min(h, duration - t)
            start = np.concatenate([q, w])
            k: list[np.ndarray] = []
            for row in WEIGHTS:
                at = start + h * sum((a * x for a, x in zip(row, k)), np.zeros(len(start)))
                k.append(
                    np.concatenate([self._rate(at[:nq], at[nq:]), self.acceleration(at[:nq], at[nq:], tau)])
                )
            error = float(
                np.abs(h * sum(e * x for e, x in zip(ERRORS, k))).max() / (tol * (1.0 + np.abs(at).max()))
            )
            if error <= 1.0:
                t, (q, w) = t + h, self.closed(at[:nq], at[nq:])
                found.append((t, q, w, self.conditioning(q)))
            h *= float(np.clip(0.9 * (error + 1e-12) ** -0.2, 0.2, 4.0))
        return Path(*(np.array(x) for x in zip(*found)))
