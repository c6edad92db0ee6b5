"""Loop equations without units, of which the conditioning of coordinates and of the mechanism is asked (Loops Eq. 2)."""

from __future__ import annotations

import numpy as np

from linkwork.model import Model
from linkwork.model.model import derived
from linkwork.topology.clusters import Cluster
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture
from linkwork.topology.scales import Scales, scales_of


def looped(model: Model) -> list[Cluster]:
    """The clusters with loops or couplings that are embedded."""
    return [cluster for cluster in model.clusters if cluster.constraints]


@derived
def cluster_scales(model: Model) -> list[Scales]:
    """The scales of all clusters with loops."""
    return [scales_of(model, cluster) for cluster in looped(model)]


def unit_free_equations(model: Model, q: np.ndarray) -> list[np.ndarray]:
    """K of each cluster with loops, (equations, velocities of its joints), without units; see `Scales`."""
    found = []
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster, scales in zip(looped(model), cluster_scales(model.structure)):
        below = postures[cluster.below.bodies] if cluster.below else None
        posture = postures[cluster.bodies] = cluster_posture(model, cluster.bodies, q, below, cluster.supports)
        found.append(scales(all_equations(posture, cluster.constraints)[0]))
    return found
