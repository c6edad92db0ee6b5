"""Models with other independent joints, and the ones recommended for a configuration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.loops.independent import independent_at
from linkwork.loops.motion import ClusterPosture, cluster_posture
from linkwork.loops.reselect import reselect
from linkwork.model import states
from linkwork.model.data import AnyModel, ModelData
from linkwork.spatial.constants import set_frozen


def with_independent(model: AnyModel, joints: tuple[str, ...]) -> AnyModel:
    """Return a copy of a model with these independent joints; see `Model.with_independent`."""
    selected = {component for name in joints for component in _velocities(model, name)}
    independent_flags: dict[int, tuple[bool, ...]] = {}
    loop_clusters = [c for c in model.clusters if c.constraints]
    for cluster in loop_clusters:
        selected_here = {(k, i) for k, i in selected if k in cluster.bodies}
        is_complete = len(selected_here) == len(cluster.independent)
        for c in loop_clusters if selected_here else ():
            if c is cluster or (c.family[0] == cluster.family[0] and not is_complete):
                independent_flags |= {
                    k: tuple((k, i) in selected for i in range(model.joints[k].nv)) for k in c.bodies
                }
    new_joints = tuple(
        replace(j, independent=independent_flags.get(k, j.independent)) for k, j in enumerate(model.joints)
    )
    variant = replace(model, joints=new_joints, kernels={})
    known_clusters = (
        None if model.constrained_loops else reselect(variant, model.clusters, states.neutral(model))
    )
    if known_clusters:
        set_frozen(variant, "clusters", known_clusters)
    _ = variant.clusters  # raises if these joints do not determine the others
    return variant


def _velocities(model: ModelData, name: str) -> list[tuple[int, int]]:
    """Return (joint index, component) of each velocity that a joint or component name stands for."""
    components = {
        component: [(joint.child, i)] for joint in model.joints for i, component in enumerate(joint.v_names)
    }
    full_joints = {joint.name: [(joint.child, i) for i in range(joint.nv)] for joint in model.joints}
    velocities: list[tuple[int, int]] = model.part_named("joint", name, components | full_joints)
    return velocities


def at_configuration(model: ModelData, configuration: np.ndarray) -> tuple[str, ...]:
    """Return names of well-conditioned independent velocities; see `Model.independent_at`."""
    if configuration.shape != (model.nq,):
        raise ShapeError(f"independent_at: q: expected shape ({model.nq},), got {configuration.shape}")
    if not np.isfinite(configuration).all():
        raise ModelError(f"independent_at: q: expected finite numbers, got {configuration.tolist()}")
    independent_names: list[str] = []
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in (c for c in model.clusters if c.constraints):
        posture_below = postures[cluster.below.bodies] if cluster.below else None
        postures[cluster.bodies] = cluster_posture(
            model, cluster.bodies, configuration, posture_below, cluster.supports
        )
        names = [name for k in cluster.bodies for name in model.joints[k].v_names]
        independent_names += [names[c] for c in independent_at(model, cluster, configuration, posture_below)]
    return tuple(independent_names)
