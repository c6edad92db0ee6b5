"""Minimal subsets of overdetermined equations that determine the motion in every sampled state.

A subset with as many equations as the rank becomes dependent in isolated states of a motion with one degree
of freedom; with one more equation, generically in none. Equations are therefore removed one by one while the
smallest singular value of the remaining ones stays comparable to that of all, in all states of two walks.
"""

from __future__ import annotations

import numpy as np

from linkwork.loops.clusters import Cluster
from linkwork.loops.scales import scales_of
from linkwork.loops.walker import Walker
from linkwork.mechanism import Mechanism

MIN_SINGULAR_VALUE_RATIO = 0.5  # smallest singular value of the selected equations, relative to that of all
WALK_STATES = 40  # states of a walk, in each direction
MAX_EQUATIONS = 30  # larger clusters use all equations


def minimal_overdetermined_rows(model: Mechanism, cluster: Cluster, q: np.ndarray) -> tuple[int, ...]:
    """Return a minimal subset of overdetermined equations for motions from a closed configuration q, (nq,).

    The cluster has one support. Return all equations if it has several degrees of freedom or is large.
    """
    used = list(cluster.overdetermined)
    if len(cluster.independent) != 1 or len(used) > MAX_EQUATIONS:
        return cluster.overdetermined
    walker = Walker(model, cluster, scales_of(model, cluster), cluster.rows, None)
    states = [at.q for sense in (1.0, -1.0) for at in walker.walk(q, np.array([sense]), WALK_STATES)]
    Ks = [walker.equations(q) for q in states]
    least = [_sigma_min(K[used], len(cluster.rows)) for K in Ks]
    while len(used) > len(cluster.rows) + 1:
        remaining = [[row for row in used if row != out] for out in used]
        worst = [
            min(_sigma_min(K[rows], len(cluster.rows)) / s for K, s in zip(Ks, least)) for rows in remaining
        ]
        best = int(np.argmax(worst))
        if worst[best] < MIN_SINGULAR_VALUE_RATIO:
            break
        used = remaining[best]
    return tuple(used)


def _sigma_min(K: np.ndarray, rank: int) -> float:
    return float(np.linalg.svd(K, compute_uv=False)[rank - 1]) or 1e-300
