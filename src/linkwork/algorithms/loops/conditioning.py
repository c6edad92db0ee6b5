"""Unit-free loop equations for the conditioning of coordinates and of the mechanism (Loops Eq. 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum
from linkwork.loops.clusters import Cluster, find_families
from linkwork.loops.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.loops.scales import Scales, scales_of
from linkwork.model import Model
from linkwork.model.model import cached_on_model
from linkwork.model.states import constrained_cluster


def looped(model: Model) -> list[Cluster]:
    """Return the clusters with embedded loops or couplings."""
    return [cluster for cluster in model.clusters if cluster.constraints]


@cached_on_model
def cluster_scales(model: Model) -> list[Scales]:
    """Return the scales of all clusters with loops."""
    return [scales_of(model, cluster) for cluster in looped(model)]


def unit_free_equations(model: Model, q: np.ndarray) -> list[np.ndarray]:
    """Return unit-free K of each cluster with loops, (equations, velocities of its joints); see `Scales`."""
    clusters = zip(postures(model, q), cluster_scales(model.nominal))
    return [scales(all_equations(posture, cluster.constraints)[0]) for (cluster, posture), scales in clusters]


def unit_free_residual(model: Model, q: np.ndarray) -> Any:
    """Return the largest unit-free residual of embedded loops, beyond what rounded numbers explain."""
    largest: Any = np.array(0.0)
    for (cluster, posture), scales in zip(postures(model, q), cluster_scales(model.nominal)):
        slack = np.array(cluster.slack or np.zeros(cluster.count)) * scales.rows
        for x, allowed in zip(residuals(posture, cluster.constraints) * scales.rows, slack):
            largest = maximum(largest, absolute(x) - allowed if allowed else absolute(x))
    return largest


@cached_on_model
def constrained_families(model: Model) -> list[Cluster]:
    """Return groups of loops that share bodies and include constrained ones, as clusters of full row rank."""
    groups = find_families(model.joints, model.nominal.loops)
    constrained_names = {loop.name for loop in model.constrained_loops}
    selected = [
        group for group in groups if any(constraint.name in constrained_names for constraint in group[1])
    ]
    clusters = [constrained_cluster(model.nominal, *group) for group in selected]
    sizes = [sum(model.joints[k].nv for k in cluster.bodies) for cluster in clusters]
    return [replace(c, independent=tuple(range(size - len(c.rows)))) for c, size in zip(clusters, sizes)]


def unit_free_family_equations(model: Model, q: np.ndarray) -> list[np.ndarray]:
    """Return unit-free K of all equations of each family, (equations, velocities of its joints)."""
    loop_of_name = {constraint.name: constraint for constraint in model.loops}
    equations = []
    for cluster in constrained_families(model.nominal):
        posture = cluster_posture(model, cluster.bodies, q)
        K = all_equations(posture, [loop_of_name[constraint.name] for constraint in cluster.constraints])[0]
        equations.append(scales_of(model.nominal, cluster)(K))
    return equations


def postures(model: Model, q: np.ndarray) -> Iterator[tuple[Cluster, ClusterPosture]]:
    """Return the clusters with loops, each with its posture at q."""
    posture_of: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in looped(model):
        parent_posture = posture_of[cluster.below.bodies] if cluster.below else None
        posture_of[cluster.bodies] = cluster_posture(
            model, cluster.bodies, q, parent_posture, cluster.supports
        )
        yield cluster, posture_of[cluster.bodies]
