"""Independent rows of the loop constraints of a cluster."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from linkwork.loops.clusters import Cluster
from linkwork.mechanism import LoopConstraint, Mechanism


def find_independent_rows(model: Mechanism, cluster: Cluster) -> list[tuple[int, ...]]:
    """Return the independent equations of each constraint of a cluster."""
    independent = []
    start = 0
    for constraint in cluster.constraints:
        size = constraint.count(model.joints)
        independent.append(tuple(r - start for r in cluster.used if start <= r < start + size))
        start += size
    return independent


def loops_with_independent_rows(model: Mechanism, cluster: Cluster) -> list[LoopConstraint]:
    """Return the constraints of a cluster, with independent rows and slack of loop joints."""
    parts = zip(cluster.constraints, find_independent_rows(model, cluster), slack_shares(model, cluster))
    return [loop.with_independent_rows(rows, slack) for loop, rows, slack in parts]


def slack_shares(model: Mechanism, cluster: Cluster) -> list[tuple[float, ...]]:
    """Return the slack of the equations of each constraint [m or rad]; () where they hold exactly."""
    ends = np.cumsum([0, *(constraint.count(model.joints) for constraint in cluster.constraints)]).tolist()
    return [share if any(share := cluster.slack[a:b]) else () for a, b in pairwise(ends)]
