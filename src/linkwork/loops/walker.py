"""Walks between closed states, by which independent velocities are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linkwork.loops.clusters import Cluster
from linkwork.loops.motion import ClusterPosture, all_equations, residuals
from linkwork.loops.null_space import combined, conditioning, null_space
from linkwork.loops.numeric import NumericPosture
from linkwork.loops.scales import Scales
from linkwork.mechanism import Mechanism

MAX_STATES = 32  # closed states that are analysed in small clusters


MAX_WORK = 2500  # bodies plus equations of all these states, which bounds the states of large clusters


STEP_LENGTH = 0.25  # between states [rad, or lengths of the cluster]


WORST_FRACTION = 0.2  # fraction of the states, the worst ones, by which a choice is judged


SIGN_CHANGE_RATIO = 0.01  # conditioning between two states, relative to theirs, that indicates a singular one


class Reached(NamedTuple):
    """A closed state q, (nq,), and the unit-free equations K, (rank, size),
    that are kept of a cluster there.
    """

    q: np.ndarray
    K: np.ndarray


Walk = list[Reached]  # each near the one before


def path_score(independent: Sequence[int], paths: Sequence[Walk]) -> float:
    """Return the geometric mean of the worst conditioning along some walks.

    Where the determinant of the dependent part changes its sign between two states, it is singular on the
    way.
    """
    scores: list[float] = []
    for path in paths:
        dependent = sorted({*range(path[0].K.shape[1])} - {*independent})
        values = [conditioning(at.K, independent) for at in path]
        signs = [np.linalg.slogdet(at.K[:, dependent])[0] for at in path]
        turned = [k for k in range(1, len(path)) if signs[k] != signs[k - 1]]
        scores += values + [SIGN_CHANGE_RATIO * min(values[k - 1 : k + 1]) for k in turned]
    worst = np.sort(scores)[: max(1, round(WORST_FRACTION * len(scores)))]
    return float(np.exp(np.mean(np.log(np.maximum(worst, 1e-300)))))


def walks_from(walker: Walker, q: np.ndarray) -> list[Walk]:
    """Return closed states that can be reached from a closed one, (nq,): in several directions, each in both
    senses.
    """
    freedoms = walker.freedoms
    rng = np.random.default_rng(0)
    if freedoms == 0:
        return []
    directions = min(freedoms, 3)
    count = min(MAX_STATES, MAX_WORK // walker.work) // (2 * directions)
    walks = []
    for _ in range(directions):
        towards = rng.normal(size=freedoms)
        walks += [walker.walk(q, sense * towards, max(count, 2)) for sense in (1.0, -1.0)]
    return walks


class Walker:
    """Walks along the closed states of a cluster: steps in the null space of K,
    and Gauss-Newton corrections.
    """

    def __init__(
        self,
        model: Mechanism,
        cluster: Cluster,
        scales: Scales,
        rows: Sequence[int],
        below: ClusterPosture | None,
    ) -> None:
        self.cluster, self.scales, self.rows, self.rank = cluster, scales, list(rows), len(rows)
        self.joints = [model.joints[k] for k in cluster.bodies]
        self.posture = NumericPosture(model, cluster.bodies, below, cluster.supports)
        self.freedoms, self.work = len(scales.columns) - self.rank, len(self.joints) + len(scales.rows)
        self.used = list(cluster.overdetermined)

    def equations(self, q: np.ndarray) -> np.ndarray:
        """Return unit-free K of all equations at q."""
        self.posture.move(q)
        return self.scales(all_equations(self.posture, self.cluster.constraints)[0].astype(float))

    def kept(self, q: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
        """Return the independent equations, (rank, size), at q.

        For overdetermined equations, these are combinations that are equivalent to all and continuous along a
        walk; `like` are those of the previous state.
        """
        K = self.equations(q)
        return K[self.rows] if not self.used else combined(K[self.used], self.rank, like)

    def walk(self, q: np.ndarray, towards: np.ndarray, count: int) -> Walk:
        """Return states along a walk from q, up to finite joint limits or a singular state."""
        K = self.kept(q)
        path = [Reached(q, K)]
        direction = null_space(K).T @ towards
        for _ in range(count):
            free = null_space(K)
            direction = free.T @ (free @ direction)
            size = float(np.abs(direction).max())
            closed = self._closed(self._moved(q, STEP_LENGTH / size * direction)) if size > 1e-9 else None
            if closed is None or self._outside(closed) > max(self._outside(q), 0.0):
                break
            q = closed
            K = self.kept(closed, K)
            path.append(Reached(q, K))
        return path

    def _closed(self, q: np.ndarray) -> np.ndarray | None:
        """Return the closed state near q by Gauss-Newton steps of least norm, or None."""
        for _ in range(8):
            K = self.equations(q)
            phi = self.scales.rows * residuals(self.posture, self.cluster.constraints).astype(float)
            u, s, vt = np.linalg.svd(K, full_matrices=False)
            u = u[:, : self.rank]
            s = s[: self.rank]
            vt = vt[: self.rank]
            if not np.isfinite(s).all() or s[-1] <= 1e-9 * s[0]:
                return None
            move = -vt.T @ ((u.T @ phi) / s)
            if np.abs(move).max(initial=0.0) > 2.0 * STEP_LENGTH:
                return None
            q = self._moved(q, move)
            if np.abs(move).max(initial=0.0) < 1e-4:  # the next one would be its square
                return q
        return None

    def _moved(self, q: np.ndarray, move: np.ndarray) -> np.ndarray:
        """Return q moved by unit-free velocities of the cluster's joints."""
        q = q.copy()
        move = move * self.scales.columns
        first = 0
        for joint in self.joints:
            q[joint.q_slice] = joint.kind.numeric_integrate(q[joint.q_slice], move[first : first + joint.nv])
            first += joint.nv
        return q

    def _outside(self, q: np.ndarray) -> float:
        """Return the violation of joint limits; negative within all limits."""
        violations = [-np.inf]
        for joint in self.joints:
            violations += [
                *(np.array(joint.lower) - q[joint.q_slice]),
                *(q[joint.q_slice] - np.array(joint.upper)),
            ]
        return float(np.max(violations))
