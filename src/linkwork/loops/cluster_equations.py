"""The loop equations that a cluster uses, K v = 0 and their drifts, without always redundant ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linkwork.joints import Joint
from linkwork.loops.clusters import Cluster
from linkwork.loops.elimination import rounded_up
from linkwork.loops.motion import ClusterPosture, Speeds, cluster_posture
from linkwork.loops.numeric import NumericPosture
from linkwork.loops.scales import length_of
from linkwork.mechanism import LoopConstraint, Mechanism
from linkwork.mechanism.loops import Posture

TRIAL_STATES = 3  # configurations in which entries of the loop equations are evaluated


def used_equations(posture: ClusterPosture, cluster: Cluster) -> np.ndarray:
    """Return the Jacobian K of the used equations, (used, width), in the form with the shortest programs."""
    return np.concatenate([c.embedded(posture, rows) for c, rows in _used_rows(posture, cluster)])


def used_drifts(posture: ClusterPosture, cluster: Cluster, speeds: Speeds) -> np.ndarray:
    """Return the right-hand side -k of the used equations, (used,)."""
    return np.concatenate(
        [c.embedded_drift(posture, rows, speeds) for c, rows in _used_rows(posture, cluster)]
    )


def entry_magnitudes(model: Mechanism, cluster: Cluster) -> np.ndarray:
    """Return magnitudes of the entries of the used equations in dependent columns, (used, rows).

    These are powers of two, sampled in a few configurations of the tree, closed or not. Equations of one
    loop in the same unit are combined, so that the result does not depend on the orientation of axes.
    """
    rng = np.random.default_rng(0)
    length = length_of(model, cluster.bodies, cluster.constraints)
    bodies = [k for each in _with_supporting_clusters(cluster) for k in each.bodies]
    magnitudes = np.zeros((len(cluster.used), len(cluster.rows)))
    for sample in range(TRIAL_STATES):
        q = random_configuration(model, bodies, length, rng) if sample else _neutral(model, bodies)
        below = _below(model, cluster.below, q)
        posture = NumericPosture(model, cluster.bodies, below, cluster.supports)
        posture.move(q)
        sizes = []
        for constraint, row_indices in _used_rows(posture, cluster):
            K = constraint.equations(posture)[0][:, cluster.dependent].astype(float)
            sizes += [np.sqrt(np.sum(K[constraint.same_kind_rows(row)] ** 2, axis=0)) for row in row_indices]
        magnitudes = np.fmax(
            magnitudes, np.nan_to_num(np.array(sizes), nan=0.0, posinf=0.0).reshape(magnitudes.shape)
        )
    return rounded_up(magnitudes)


def random_configuration(
    model: Mechanism, bodies: Iterable[int], length: float, rng: np.random.Generator
) -> np.ndarray:
    """Return random coordinates, (nq,), of the joints of some bodies, and zeros elsewhere.

    Displacements are of the size of `length` [m]. Numbers are drawn for all joints, so that the result does
    not depend on which other bodies are selected.
    """
    q = np.zeros(sum(joint.nq for joint in model.joints))  # model.nq would need the clusters
    if any(joint.kind.elastic for joint in model.joints):
        for joint in model.joints:
            kind = joint.kind
            is_random = kind.elastic or not kind.nv
            q[joint.q_slice] = (
                kind.random(rng) if is_random else _displaced(kind, length, rng.normal(size=kind.nv))
            )
        return q
    normal = rng.normal(size=model.nv_spanning)
    for k in bodies:
        joint = model.joints[k]
        q[joint.q_slice] = _displaced(joint.kind, length, normal[joint.v_slice])
    return q


def _displaced(kind: Joint, length: float, normal: np.ndarray) -> np.ndarray:
    q = kind.neutral()
    turns = np.abs(kind.subspace(q)[:3].astype(float)).max(axis=0, initial=0.0) > 0.0
    return np.asarray(kind.integrate(q, normal * np.where(turns, 1.5, length)), dtype=float)


def _neutral(model: Mechanism, bodies: Iterable[int]) -> np.ndarray:
    q = np.zeros(sum(joint.nq for joint in model.joints))  # model.nq would need the clusters
    for k in bodies:
        q[model.joints[k].q_slice] = model.joints[k].kind.neutral()
    return q


def _with_supporting_clusters(cluster: Cluster | None) -> Iterator[Cluster]:
    """Yield a cluster and all clusters that support it."""
    while cluster is not None:
        yield cluster
        cluster = cluster.below


def _below(model: Mechanism, cluster: Cluster | None, q: np.ndarray) -> ClusterPosture | None:
    if cluster is None:
        return None
    return cluster_posture(model, cluster.bodies, q, _below(model, cluster.below, q), cluster.supports)


def _used_rows(posture: Posture, cluster: Cluster) -> Iterator[tuple[LoopConstraint, list[int]]]:
    """Yield each constraint and its used rows, counted from its first."""
    joints: Any = _JointsOf(posture)
    used = cluster.used
    start = 0
    n = 0
    for constraint in cluster.constraints:
        stop = start + constraint.count(joints)
        first = n
        while n < len(used) and used[n] < stop:
            n += 1
        yield constraint, [row - start for row in used[first:n]]
        start = stop


class _JointsOf:
    """Index access to the joints of a posture."""

    def __init__(self, posture: Posture) -> None:
        self._posture = posture

    def __getitem__(self, k: int) -> Any:
        return self._posture.joint(k)
