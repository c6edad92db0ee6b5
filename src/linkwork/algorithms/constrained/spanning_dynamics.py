"""Forward dynamics of embedded loops on the spanning tree, with loop forces eliminated where loops close.

A cluster's joint map H is dense: each of its velocities moves all bodies of its loops, so D = H P H* costs
bodies times velocities squared. The same accelerations, without H, are those of the tree's joints under the
independent loop equations,

    M v̇ + C = τ + Kᵀ λ,    K v̇ = k,

by the sweeps of constrainedABA (Constrained Alg. 1) without compliance: λ of a loop is eliminated where its
two paths meet, with the stiffness of the joints on them. By then these joints have all been eliminated, so L
is regular wherever the equations are independent, and no iterations are needed. The velocities are v = G ẏ,
by one solve with the dependent part of K, without G: where that is singular, they are NaN, and so are the
accelerations.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.caba import by_sweeps, eliminate_locally
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.proximal import Settings
from linkwork.algorithms.loops.closing import places_of
from linkwork.constraints import loop_constraints
from linkwork.loops.embedding import joint_velocities
from linkwork.loops.independent_rows import find_independent_rows, loops_with_independent_rows
from linkwork.mechanism import Loop
from linkwork.model import Model, cached_on_model
from linkwork.sko.tree import equation_sizes

MIN_MOMENT_RATIO = 1e-6  # smallest moment of inertia relative to the largest that counts as nonzero


def spanning_dynamics(
    model: Model, q: np.ndarray, v: np.ndarray, T: np.ndarray, f_ext: Any = None
) -> np.ndarray:
    """Return θ̈ of the independent velocities under T, both (nv,), for embedded loops."""
    tree = with_constrained_loops(model)
    independent = np.concatenate(
        [places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters]
    )
    tau: Any = np.zeros(model.nv_spanning, dtype=object)
    tau[independent] = T  # equivalent to zero forces in the other joints
    velocities = joint_velocities(model, model.clusters, q, v, partial(equation_sizes, model))
    constraints = loop_constraints(tree)
    rows = ConstraintRows(nodes_for(tree, constraints, q, velocities, f_ext), constraints)
    rigid = Settings(np.zeros(rows.m), 1, None)
    return by_sweeps(rows, tau, np.zeros(rows.m), rigid, eliminate_locally).ddtheta[independent]


def dense_work(model: Model) -> int:
    """Return the approximate number of operations of the largest cluster's joint map, if dense."""
    looped = [cluster for cluster in model.clusters if cluster.constraints]
    sizes = [
        (len(cluster.bodies), len(cluster.independent) + 6 * len(cluster.supports)) for cluster in looped
    ]
    return max((6 * bodies * columns * columns for bodies, columns in sizes), default=0)


def unsupported_reason(model: Model) -> str | None:
    """Return why this method cannot be used for a model, or None.

    Joints of the tree must move mass, and equations must be independent.
    """
    before_modes = {
        joint.parent for joint in model.joints if joint.kind.elastic
    }  # the hinges of flexible bodies
    for k, (body, joint) in enumerate(zip(model.bodies, model.joints)):
        moments = np.linalg.eigvalsh(body.moment)
        has_inertia = body.mass > 0.0 and moments[0] > MIN_MOMENT_RATIO * moments[-1]
        if not (has_inertia or joint.nv == 0 or joint.kind.elastic or k in before_modes):
            return f"{body.name!r} has no inertia in some direction"
    for cluster in model.clusters:
        if cluster.overdetermined:
            return f"{cluster.constraints[0].name!r} has redundant equations"
        for loop, rows in zip(cluster.constraints, find_independent_rows(model, cluster)):
            if len(rows) < loop.count(model.joints) and not isinstance(loop, Loop):
                return f"{loop.name!r} has redundant equations"
    return None


@cached_on_model
def with_constrained_loops(model: Model) -> Model:
    """Return the mechanism with embedded loops constrained by their independent equations."""
    loops = tuple(
        loop
        for cluster in model.clusters
        if cluster.constraints
        for loop in loops_with_independent_rows(model, cluster)
    )
    nominal_model = None if model.nominal_model is None else with_constrained_loops(model.nominal)
    return replace(model, embedded=(), constrained_loops=loops, kernels={}, nominal_model=nominal_model)
