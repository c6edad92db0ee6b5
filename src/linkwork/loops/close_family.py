"""Closing coupled clusters from any configuration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.loops.closing import (
    CLOSURE_TOL,
    close,
)
from linkwork.loops.clusters import Cluster
from linkwork.loops.motion import ClusterPosture, cluster_posture
from linkwork.mechanism import Mechanism


def close_family(model: Mechanism, family: Sequence[Cluster], q: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a closed configuration of coupled clusters, closed in turn or, failing that, at once."""
    if len(family) == 1:
        return _close_cluster(model, family[0], q, None)
    closed = q
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in family:
        below = postures[cluster.below.bodies] if cluster.below else None
        neutral = closed.copy()
        for joint in (model.joints[k] for k in cluster.bodies):
            neutral[joint.q_slice] = joint.kind.neutral()
        for start in (closed, neutral) if cluster.independent else (neutral, closed):
            closed, residual = _close_cluster(model, cluster, start, below)
            if residual < CLOSURE_TOL:
                break
        else:
            bodies = [k for c in family for k in c.bodies]
            constraints = [c for one in family for c in one.constraints]
            return close(model, bodies, constraints, q)
        postures[cluster.bodies] = cluster_posture(model, cluster.bodies, closed, below, cluster.supports)
    return closed, residual


def _close_cluster(
    model: Mechanism, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None
) -> tuple[np.ndarray, float]:
    rows = None if cluster.overdetermined else cluster.rows
    slack = cluster.slack
    if cluster.closed and not cluster.independent and not cluster.supports:  # a truss has one posture
        q = np.array(q, dtype=float)
        at = 0
        for joint in (model.joints[k] for k in cluster.bodies):
            q[joint.q_slice] = cluster.closed[at : at + joint.nq]
            at += joint.nq
        return q, 0.0
    return close(
        model, cluster.bodies, cluster.constraints, q, below, cluster.supports, rows=rows, slack=slack
    )
