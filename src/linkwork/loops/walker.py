"""Sampled paths on the constraint manifold of a cluster, used to rate independent velocities."""

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

MAX_STATES = 32  # closed states sampled in small clusters
MAX_WORK = 2500  # bodies plus equations, summed over all states; bounds the states of large clusters
STEP_LENGTH = 0.25  # between states [rad, or lengths of the cluster]
WORST_FRACTION = 0.2  # fraction of the states, the worst ones, that determine the score
SIGN_CHANGE_RATIO = 0.01  # conditioning between two states, relative to theirs, that indicates a singular one


class WalkState(NamedTuple):
    """A closed state q, (nq,), and the unit-free independent equations K, (rank, size), there."""

    q: np.ndarray
    K: np.ndarray


Walk = list[WalkState]  # consecutive states, `STEP_LENGTH` apart


def path_score(independent: Sequence[int], paths: Sequence[Walk]) -> float:
    """Return the geometric mean of the worst conditioning along some walks.

    A sign change of the determinant of the dependent part between two states indicates a singular state
    between them.
    """
    scores: list[float] = []
    for path in paths:
        dependent = sorted({*range(path[0].K.shape[1])} - {*independent})
        values = [conditioning(at.K, independent) for at in path]
        signs = [np.linalg.slogdet(at.K[:, dependent])[0] for at in path]
        sign_changes = [k for k in range(1, len(path)) if signs[k] != signs[k - 1]]
        scores += values + [SIGN_CHANGE_RATIO * min(values[k - 1 : k + 1]) for k in sign_changes]
    worst = np.sort(scores)[: max(1, round(WORST_FRACTION * len(scores)))]
    return float(np.exp(np.mean(np.log(np.maximum(worst, 1e-300)))))


def sample_walks(walker: Walker, q: np.ndarray) -> list[Walk]:
    """Return walks from a closed configuration q, (nq,), in several random directions and their opposites."""
    dof = walker.dof
    rng = np.random.default_rng(0)
    if dof == 0:
        return []
    directions = min(dof, 3)
    count = min(MAX_STATES, MAX_WORK // walker.work) // (2 * directions)
    walks = []
    for _ in range(directions):
        direction = rng.normal(size=dof)
        walks += [walker.walk(q, sense * direction, max(count, 2)) for sense in (1.0, -1.0)]
    return walks


class Walker:
    """Predictor-corrector steps on the constraint manifold: along the null space of K, then Gauss-Newton."""

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
        self.dof, self.work = len(scales.columns) - self.rank, len(self.joints) + len(scales.rows)
        self.used = list(cluster.overdetermined)

    def equations(self, q: np.ndarray) -> np.ndarray:
        """Return the unit-free Jacobian K of all equations at q."""
        self.posture.move(q)
        return self.scales(all_equations(self.posture, self.cluster.constraints)[0].astype(float))

    def independent_equations(self, q: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
        """Return the independent equations, (rank, size), at q.

        Overdetermined equations are replaced by equivalent combinations that are continuous along a walk;
        `like` are those of the previous state.
        """
        K = self.equations(q)
        return K[self.rows] if not self.used else combined(K[self.used], self.rank, like)

    def walk(self, q: np.ndarray, direction: np.ndarray, count: int) -> Walk:
        """Return up to `count` states from q in a direction; end at joint limits and singular states."""
        K = self.independent_equations(q)
        path = [WalkState(q, K)]
        direction = null_space(K).T @ direction
        for _ in range(count):
            free = null_space(K)
            direction = free.T @ (free @ direction)
            size = float(np.abs(direction).max())
            closed = self._close(self._retract(q, STEP_LENGTH / size * direction)) if size > 1e-9 else None
            if closed is None or self._limit_violation(closed) > max(self._limit_violation(q), 0.0):
                break
            q = closed
            K = self.independent_equations(closed, K)
            path.append(WalkState(q, K))
        return path

    def _close(self, q: np.ndarray) -> np.ndarray | None:
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
            step = -vt.T @ ((u.T @ phi) / s)
            if np.abs(step).max(initial=0.0) > 2.0 * STEP_LENGTH:
                return None
            q = self._retract(q, step)
            if np.abs(step).max(initial=0.0) < 1e-4:  # quadratic convergence
                return q
        return None

    def _retract(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return q integrated over a unit-free step of the cluster's joints."""
        q = q.copy()
        step = step * self.scales.columns
        first = 0
        for joint in self.joints:
            q[joint.q_slice] = joint.kind.numeric_integrate(q[joint.q_slice], step[first : first + joint.nv])
            first += joint.nv
        return q

    def _limit_violation(self, q: np.ndarray) -> float:
        """Return the largest violation of joint limits; negative within all limits."""
        violations = [-np.inf]
        for joint in self.joints:
            violations += [
                *(np.array(joint.lower) - q[joint.q_slice]),
                *(q[joint.q_slice] - np.array(joint.upper)),
            ]
        return float(np.max(violations))
