"""Closed states of a cluster under analysis, and what they tell about its loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from linkwork.errors import ModelError
from linkwork.loops.closing import (
    RANK_TOL,
)
from linkwork.loops.closing_notes import (
    branches_meet,
    misses_in_motion,
    singular_everywhere,
    stuck,
)
from linkwork.loops.closing_problem import ClosureProblem
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

BEND_WEIGHT = 1.0  # weight of modal coordinates of typical size if modes must follow the loops


# tolerances that redundant equations miss by in motion, up to which coarse numbers are the reason
COARSE_FACTOR = 30.0
S = TypeVar("S")


class ClosedState(NamedTuple):
    """A closed configuration q, (nq,), of a cluster, and the embedding of the cluster that supports it."""

    q: np.ndarray
    below: Embedding[BodyMotion] | None


def bent_problem(problem: ClosureProblem, states: Sequence[np.ndarray]) -> tuple[ClosureProblem, float]:
    """Return the problem that decides which equations are independent, and the weight of modal coordinates.

    If joints alone can satisfy all equations, modes hardly count. Otherwise, as at a pin that also holds a
    rod bending out of the plane of its loop, modes must follow.
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


def why_stuck(
    model: Mechanism, cluster: Cluster, problem: ClosureProblem, q: np.ndarray, rank: Rank
) -> ModelError:
    """Return the error for a closed cluster without coordinates: immobile, singular, or coarse numbers."""
    free, mobility = finite_mobility(problem, q)
    if 0 < mobility < free:
        return singular_everywhere(model, cluster, free, mobility)
    if problem.tolerance <= rank.coarse < COARSE_FACTOR * problem.tolerance:
        return misses_in_motion(model, cluster, rank.coarse, problem.tolerance)
    return branches_meet(model, cluster, mobility) if mobility else stuck(model, cluster)


def best_conditioned(states: Sequence[S], Js: Sequence[np.ndarray], cut: float) -> tuple[S, np.ndarray]:
    """Return the best conditioned state of largest rank, or the first of those about as good."""
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


def gaps_of(problem: ClosureProblem, rank: Rank) -> tuple[tuple[float, float], ...]:
    """Return the gaps of each constraint [m, rad]."""
    missed = rank.missed * problem.units
    gaps = []
    for c, rows in zip(problem.constraints, problem.rows):
        lengths = c.lengths(problem.model.joints)
        gaps.append(
            (float(missed[rows][lengths].max(initial=0.0)), float(missed[rows][~lengths].max(initial=0.0)))
        )
    return tuple(gaps)


def own_coordinates(model: Mechanism, cluster: Cluster, q: np.ndarray) -> tuple[float, ...]:
    """Return the coordinates of a cluster's joints."""
    return tuple(x for k in cluster.bodies for x in q[model.joints[k].q_slice].tolist())


def kept_of_lineage(cluster: Cluster) -> list[int]:
    """Return the independent equations of a cluster among those of its lineage."""
    rows = list(cluster.rows)
    one = cluster.below
    while one:
        rows, one = [*one.rows, *(one.count + row for row in rows)], one.below
    return rows


def embedding_holds(embedding: Embedding[BodyMotion], problem: ClosureProblem) -> bool:
    """Return whether the motion satisfies all equations, redundant ones included, up to accelerations."""
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
    """Return all data that decide the analysis of a cluster with one support, or None."""
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
    except TypeError:  # a joint or a function of the user's own that cannot be compared
        return None
    return tuple(content)
