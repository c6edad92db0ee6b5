"""Minimal overdetermined sets of equations: as few as determine the motion everywhere.

The more equations are used, the fewer states make them dependent: with one beyond the rank, none of a generic
motion with one degree of freedom. So equations are left out, one by one, as long as the remaining ones are
about as good as all of them in every state of walks along the motion.
"""

from __future__ import annotations

import numpy as np

from linkwork.loops.clusters import Cluster
from linkwork.loops.scales import scales_of
from linkwork.loops.walker import Walker
from linkwork.mechanism import Mechanism

MIN_SINGULAR_VALUE_RATIO = 0.5  # smallest singular value of the kept equations, relative to that of all
WALK_STATES = 40  # states of a path, in each direction
MAX_EQUATIONS = 30  # larger clusters use all equations


def sufficient_rows(model: Mechanism, cluster: Cluster, q: np.ndarray) -> tuple[int, ...]:
    """Return a sufficient subset of overdetermined equations for motions from a closed q, (nq,).

    The cluster has one support. All are used if it has several degrees of freedom or is large.
    """
    used = list(cluster.overdetermined)
    if len(cluster.independent) != 1 or len(used) > MAX_EQUATIONS:
        return cluster.overdetermined
    walker = Walker(model, cluster, scales_of(model, cluster), cluster.rows, None)
    states = [at.q for sense in (1.0, -1.0) for at in walker.walk(q, np.array([sense]), WALK_STATES)]
    Ks = [walker.equations(q) for q in states]
    least = [_smallest(K[used], len(cluster.rows)) for K in Ks]
    while len(used) > len(cluster.rows) + 1:
        remaining = [[row for row in used if row != out] for out in used]
        worst = [
            min(_smallest(K[rows], len(cluster.rows)) / s for K, s in zip(Ks, least)) for rows in remaining
        ]
        best = int(np.argmax(worst))
        if worst[best] < MIN_SINGULAR_VALUE_RATIO:
            break
        used = remaining[best]
    return tuple(used)


def _smallest(K: np.ndarray, rank: int) -> float:
    return float(np.linalg.svd(K, compute_uv=False)[rank - 1]) or 1e-300
