"""Selection of other independent velocities for clusters that are already analysed."""

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

CLOSURE_TOL = 1e-9  # unit-free: relative to the size of the loop, or in rad


def reselect(model: Mechanism, clusters: Sequence[Cluster], q: np.ndarray) -> tuple[Cluster, ...] | None:
    """Return the clusters with the independent velocities that the user selected in the joints of `model`.

    Return None if their number is wrong, or if they do not determine the other velocities at the closed
    configuration q, (nq,). A full analysis then finds the reason, or another state where they do.
    """
    reselected: dict[tuple[int, ...], Cluster] = {}
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in clusters:
        below = reselected[cluster.below.bodies] if cluster.below else None
        updated = replace(cluster, below=below) if below else cluster
        if cluster.constraints:
            under = postures[below.bodies] if below else None
            postures[cluster.bodies] = cluster_posture(model, cluster.bodies, q, under, cluster.supports)
            columns = _selected_columns(model, cluster)
            if columns != cluster.independent:
                updated = replace(updated, independent=columns)
                if len(columns) != len(cluster.independent) or not _is_closed_and_regular(
                    model, postures[cluster.bodies], updated
                ):
                    return None
        reselected[cluster.bodies] = updated
    return tuple(reselected.values())


def _selected_columns(model: Mechanism, cluster: Cluster) -> tuple[int, ...]:
    choices = [choice for k in cluster.bodies for choice in model.joints[k].choices]
    if all(choice is None for choice in choices):
        return cluster.independent
    return tuple(c for c, choice in enumerate(choices) if choice is not False)


def _is_closed_and_regular(model: Mechanism, posture: ClusterPosture, cluster: Cluster) -> bool:
    used = list(cluster.used)
    scales = scales_of(model, cluster)
    phi = np.abs(residuals(posture, cluster.constraints).astype(float))
    phi = scales.rows * np.maximum(phi - np.array(cluster.slack or np.zeros(len(phi))), 0.0)
    K = scales(all_equations(posture, cluster.constraints)[0].astype(float))[used]
    closed = bool(phi[used].max(initial=0.0) < CLOSURE_TOL)
    return closed and bool(np.isfinite(K).all()) and conditioning(K, cluster.independent) >= MIN_CONDITIONING
