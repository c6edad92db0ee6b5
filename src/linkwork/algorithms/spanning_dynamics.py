"""Forward dynamics of embedded loops on the spanning tree: their forces are eliminated where each loop is closed.

A cluster's joint map H is dense: each of its velocities moves all bodies of its loops, so that D = H P H* costs bodies times
velocities squared. The same accelerations, without H, are those of the tree's joints under the kept loop equations,

    M v̇ + C = τ + Kᵀ λ,    K v̇ = k,

by the sweeps of constrainedABA (Constrained Alg. 1) with no compliance: λ of a loop is eliminated where its two paths meet,
with the stiffness of the joints on them. All of these were passed, so that L is regular wherever the kept equations are
independent, and nothing is iterated. The velocities are v = G ẏ, by one solve with the dependent part of K, without G: where
that is singular, they are NaN, and so are the accelerations.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.caba import by_sweeps, eliminate_locally
from linkwork.algorithms.closing import places_of
from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.proximal import Settings
from linkwork.constraints import force_held_loops
from linkwork.model import Model, derived
from linkwork.parts import Loop
from linkwork.sko.tree import equation_sizes
from linkwork.topology.analysis import kept_loops, kept_rows
from linkwork.topology.embedding import joint_velocities

THIN = 1e-6  # a moment of inertia, relative to the largest of its body, from which on it counts as one


def spanning_dynamics(model: Model, q: np.ndarray, v: np.ndarray, T: np.ndarray, f_ext: Any = None) -> np.ndarray:
    """θ̈ of the independent velocities under T, both (nv,), for a model whose loops are embedded."""
    tree = held_by_forces(model)
    independent = np.concatenate([places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters])
    tau: Any = np.zeros(model.nv_spanning, dtype=object)
    tau[independent] = T  # these do the same work, whatever the others are
    velocities = joint_velocities(model, model.clusters, q, v, partial(equation_sizes, model))
    constraints = force_held_loops(tree)
    held = ConstraintRows(nodes_for(tree, constraints, q, velocities, f_ext), constraints)
    rigid = Settings(np.zeros(held.m), 1, None)
    return by_sweeps(held, tau, np.zeros(held.m), rigid, eliminate_locally).ddtheta[independent]


def dense_work(model: Model) -> int:
    """About how many operations the joint map of its largest cluster costs, if it is as dense as it can be."""
    looped = [cluster for cluster in model.clusters if cluster.constraints]
    wide = [(len(cluster.bodies), len(cluster.independent) + 6 * len(cluster.supports)) for cluster in looped]
    return max((6 * bodies * columns * columns for bodies, columns in wide), default=0)


def why_not(model: Model) -> str | None:
    """Why this cannot be done for a model, if it cannot: joints of the tree must move mass, and kept rows be independent."""
    before_modes = {joint.parent for joint in model.joints if joint.kind.elastic}  # the hinges of flexible bodies
    for k, (body, joint) in enumerate(zip(model.bodies, model.joints)):
        moments = np.linalg.eigvalsh(body.moment)
        whole = body.mass > 0.0 and moments[0] > THIN * moments[-1]
        if not (whole or joint.nv == 0 or joint.kind.elastic or k in before_modes):
            return f"{body.name!r} has no inertia in some direction"
    for cluster in model.clusters:
        for loop, rows in zip(cluster.constraints, kept_rows(model, cluster)):
            if len(rows) < loop.count(model.joints) and not isinstance(loop, Loop):
                return f"{loop.name!r} has redundant equations"
    return None


@derived
def held_by_forces(model: Model) -> Model:
    """The same mechanism with its embedded loops held by forces: those of the equations that are kept."""
    held = tuple(loop for cluster in model.clusters if cluster.constraints for loop in kept_loops(model, cluster))
    original = None if model.original is None else held_by_forces(model.structure)
    return replace(model, embedded=(), force_held=held, kernels={}, original=original)
