"""Loop equations without units, of which the conditioning of coordinates and of the mechanism is asked (Loops Eq. 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linkwork.ir.functions import absolute, maximum
from linkwork.model import Model
from linkwork.model.model import derived
from linkwork.topology.clusters import Cluster
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture, residuals
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
    found = zip(postures(model, q), cluster_scales(model.structure))
    return [scales(all_equations(posture, cluster.constraints)[0]) for (cluster, posture), scales in found]


def unit_free_residual(model: Model, q: np.ndarray) -> Any:
    """The largest residual of the embedded loops' equations that are kept, without units."""
    left: Any = np.array(0.0)
    for (cluster, posture), scales in zip(postures(model, q), cluster_scales(model.structure)):
        rows = list(cluster.rows)
        for x in residuals(posture, cluster.constraints)[rows] * scales.rows[rows]:
            left = maximum(left, absolute(x))
    return left


def postures(model: Model, q: np.ndarray) -> Iterator[tuple[Cluster, ClusterPosture]]:
    """The clusters with loops, each with its posture at q."""
    found: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in looped(model):
        below = found[cluster.below.bodies] if cluster.below else None
        found[cluster.bodies] = cluster_posture(model, cluster.bodies, q, below, cluster.supports)
        yield cluster, found[cluster.bodies]
