"""Closed states of a cluster under analysis, and properties of its loops there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from linkwork.errors import ModelError
from linkwork.loops.closing import (
    RANK_TOL,
)
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.closure_messages import (
    bifurcation_error,
    immobile_error,
    redundancy_error,
    singularity_error,
)
from linkwork.loops.clusters import Cluster
from linkwork.loops.embedding import Embedding
from linkwork.loops.kinematics import BodyMotion
from linkwork.loops.mobility import (
    Rank,
    count_above,
    finite_mobility,
)
from linkwork.loops.motion import all_equations
from linkwork.loops.scales import LOOP_DEFORMATION
from linkwork.mechanism import End, LoopConstraint, Mechanism

BEND_WEIGHT = 1.0  # weight of modal coordinates of typical size if modes must deform to close the loops
# residual of redundant equations in motion, in tolerances, up to which rounded dimensions are the reason
COARSE_FACTOR = 30.0
S = TypeVar("S")


class ClosedState(NamedTuple):
    """A closed configuration q, (nq,), of a cluster, and the embedding of the cluster that supports it."""

    q: np.ndarray
    below: Embedding[BodyMotion] | None


def rank_problem(problem: ClosureProblem, states: Sequence[np.ndarray]) -> tuple[ClosureProblem, float]:
    """Return the problem whose Jacobian determines ranks, and its weight of modal coordinates.

    If joints alone can satisfy all equations, elastic modes have a small weight. Otherwise, as at a pin that
    also restrains a rod bending out of the plane of its loop, modes have full weight.
    """
    if not problem.elastic.any():
        return problem, LOOP_DEFORMATION
    free = problem.bending()
    ranks = [
        [count_above(np.linalg.svd(J, compute_uv=False), RANK_TOL) for J in (J, J[:, ~problem.elastic])]
        for J in (free.at(q)[1] for q in states)
    ]
    every, joints = np.max(ranks, axis=0)
    return (free, BEND_WEIGHT) if every > joints else (problem, LOOP_DEFORMATION)


def no_motion_error(
    model: Mechanism, cluster: Cluster, problem: ClosureProblem, q: np.ndarray, rank: Rank
) -> ModelError:
    """Return the error for a closed cluster that cannot move: immobile, singular, or rounded dimensions."""
    free, mobility = finite_mobility(problem, q)
    if 0 < mobility < free:
        return singularity_error(model, cluster, free, mobility)
    if problem.tolerance <= rank.coarse < COARSE_FACTOR * problem.tolerance:
        return redundancy_error(model, cluster, rank.coarse, problem.tolerance)
    return bifurcation_error(model, cluster, mobility) if mobility else immobile_error(model, cluster)


def best_conditioned(states: Sequence[S], Js: Sequence[np.ndarray], cut: float) -> tuple[S, np.ndarray]:
    """Return the best conditioned state of the largest rank, and its Jacobian; prefer earlier states."""
    best = 0
    rank = -1
    most = 0.0
    for n, J in enumerate(Js):
        s = np.linalg.svd(J, compute_uv=False)
        r = count_above(s, cut)
        quality = float(s[r - 1] / s[0]) if r else 1.0
        if r > rank or (r == rank and quality > 1.5 * most):
            best = n
            rank = r
            most = quality
    return states[best], Js[best]


def constraint_gaps(problem: ClosureProblem, rank: Rank) -> tuple[tuple[float, float], ...]:
    """Return the largest residual lengths and angles of each constraint [m, rad]."""
    residuals = rank.residuals * problem.units
    gaps = []
    for c, rows in zip(problem.constraints, problem.rows):
        lengths = c.lengths(problem.model.joints)
        gaps.append(
            (
                float(residuals[rows][lengths].max(initial=0.0)),
                float(residuals[rows][~lengths].max(initial=0.0)),
            )
        )
    return tuple(gaps)


def cluster_coordinates(model: Mechanism, cluster: Cluster, q: np.ndarray) -> tuple[float, ...]:
    """Return the coordinates of the joints of a cluster."""
    return tuple(x for k in cluster.bodies for x in q[model.joints[k].q_slice].tolist())


def independent_rows_of_lineage(cluster: Cluster) -> list[int]:
    """Return the independent rows of a cluster and its supporting clusters, indexed in their joint system."""
    rows = list(cluster.rows)
    one = cluster.below
    while one:
        rows, one = [*one.rows, *(one.count + row for row in rows)], one.below
    return rows


def satisfies_all_equations(embedding: Embedding[BodyMotion], problem: ClosureProblem) -> bool:
    """Return whether velocities and accelerations satisfy all equations, including redundant ones."""
    posture = embedding.posture
    size = embedding.posture.size
    K, k = (x.astype(float) for x in all_equations(posture, problem.constraints, embedding.speeds))
    K = K / problem.units[:, None]
    k = k / problem.units
    v = embedding.v.astype(float)
    g = embedding.whole.g
    V = embedding.V.astype(float)
    alpha = np.zeros(0)
    if embedding.below:
        alpha = np.concatenate([embedding.below.alpha(support) for support in posture.supports]).astype(float)
    speeds = K[:, :size] @ v + K[:, size:] @ V
    residual = K[:, :size] @ g.astype(float) + K[:, size:] @ alpha - k
    six = np.tile([1.0] * 3 + [problem.length] * 3, len(posture.supports))
    largest = max(np.abs(x).max(initial=0.0) for x in (v / problem.columns, V / six, alpha / six, k))
    return bool(
        max(np.abs(speeds).max(initial=0.0), np.abs(residual).max(initial=0.0))
        <= problem.allowed * (1.0 + largest)
    )


def cluster_content(
    model: Mechanism, bodies: tuple[int, ...], constraints: tuple[LoopConstraint, ...]
) -> Any:
    """Return a hashable key of all data that determine the analysis of a cluster, or None if not hashable."""
    index = {k: n for n, k in enumerate(bodies)}

    def there(end: End) -> Any:
        return index.get(end.body), end.place.R.tobytes(), end.place.p.tobytes()

    carrying = {joint.parent for joint in model.joints}
    content: list[Any] = [model.tolerance]
    for k in bodies:
        joint = model.joints[k]
        limits = (
            joint.lower,
            joint.upper,
            None if model.start is None else model.start[joint.q_slice],
        )
        content.append(
            (
                joint.kind,
                there(End(joint.parent, joint.place)),
                joint.independent,
                k in carrying,
                limits,
            )
        )
    content += [c.content(index, there) for c in constraints]
    try:
        hash(tuple(content))
    except TypeError:  # a custom joint or function that cannot be compared
        return None
    return tuple(content)
