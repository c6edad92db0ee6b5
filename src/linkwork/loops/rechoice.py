"""Reselection of independent velocities for analysed clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from linkwork.loops.clusters import Cluster
from linkwork.loops.independent import MIN_CONDITIONING
from linkwork.loops.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.loops.null_space import conditioning
from linkwork.loops.scales import scales_of
from linkwork.mechanism import Mechanism

CLOSURE_TOL = 1e-9  # [lengths of the loop, or rad]


def reselect(model: Mechanism, clusters: Sequence[Cluster], q: np.ndarray) -> tuple[Cluster, ...] | None:
    """Return the clusters with the independent velocities that the joints of `model` choose.

    None if their number is wrong, or if they do not determine the others at the closed configuration q,
    (nq,): a full analysis then finds the reason, or another state where they do.
    """
    reselected: dict[tuple[int, ...], Cluster] = {}
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in clusters:
        below = reselected[cluster.below.bodies] if cluster.below else None
        same = replace(cluster, below=below) if below else cluster
        if cluster.constraints:
            under = postures[below.bodies] if below else None
            postures[cluster.bodies] = cluster_posture(model, cluster.bodies, q, under, cluster.supports)
            columns = _chosen(model, cluster)
            if columns != cluster.independent:
                same = replace(same, independent=columns)
                if len(columns) != len(cluster.independent) or not _regular(
                    model, postures[cluster.bodies], same
                ):
                    return None
        reselected[cluster.bodies] = same
    return tuple(reselected.values())


def _chosen(model: Mechanism, cluster: Cluster) -> tuple[int, ...]:
    choices = [choice for k in cluster.bodies for choice in model.joints[k].choices]
    if all(choice is None for choice in choices):
        return cluster.independent
    return tuple(c for c, choice in enumerate(choices) if choice is not False)


def _regular(model: Mechanism, posture: ClusterPosture, cluster: Cluster) -> bool:
    used = list(cluster.used)
    scales = scales_of(model, cluster)
    phi = np.abs(residuals(posture, cluster.constraints).astype(float))
    phi = scales.rows * np.maximum(phi - np.array(cluster.slack or np.zeros(len(phi))), 0.0)
    K = scales(all_equations(posture, cluster.constraints)[0].astype(float))[used]
    closed = bool(phi[used].max(initial=0.0) < CLOSURE_TOL)
    return closed and bool(np.isfinite(K).all()) and conditioning(K, cluster.independent) >= MIN_CONDITIONING
