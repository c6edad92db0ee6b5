"""Other independent velocities for clusters that were analysed before: what does not depend on the choice is taken over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from linkwork.parts import Mechanism
from linkwork.topology.clusters import Cluster
from linkwork.topology.independent import DETERMINED, conditioning
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.topology.scales import scales_of

CLOSED = 1e-9  # [lengths of the loop, or rad]


def rechosen(model: Mechanism, clusters: Sequence[Cluster], q: np.ndarray) -> tuple[Cluster, ...] | None:
    """The same clusters with the independent velocities that the joints of `model` choose.

    None where these are not as many, or do not determine the others at the closed configuration q, (nq,): then an analysis
    has to say what is wrong, or find that they are good elsewhere.
    """
    found: dict[tuple[int, ...], Cluster] = {}
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in clusters:
        below = found[cluster.below.bodies] if cluster.below else None
        same = replace(cluster, below=below) if below else cluster
        if cluster.constraints:
            under = postures[below.bodies] if below else None
            postures[cluster.bodies] = cluster_posture(model, cluster.bodies, q, under, cluster.supports)
            chosen = _chosen(model, cluster)
            if chosen != cluster.independent:
                same = replace(same, independent=chosen)
                if len(chosen) != len(cluster.independent) or not _regular(model, postures[cluster.bodies], same):
                    return None
        found[cluster.bodies] = same
    return tuple(found.values())


def _chosen(model: Mechanism, cluster: Cluster) -> tuple[int, ...]:
    choices = [choice for k in cluster.bodies for choice in model.joints[k].choices]
    if all(choice is None for choice in choices):
        return cluster.independent
    return tuple(c for c, choice in enumerate(choices) if choice is not False)


def _regular(model: Mechanism, posture: ClusterPosture, cluster: Cluster) -> bool:
    rows, scales = list(cluster.rows), scales_of(model, cluster)
    phi = scales.rows * residuals(posture, cluster.constraints).astype(float)
    K = scales(all_equations(posture, cluster.constraints)[0].astype(float))[rows]
    closed = bool(np.abs(phi[rows]).max(initial=0.0) < CLOSED)
    return closed and bool(np.isfinite(K).all()) and conditioning(K, cluster.independent) >= DETERMINED
