"""Redundant equations: always redundant ones, and those redundant at closed states only.

An equation that is a constant combination of others at open configurations is always redundant, as those out
of the plane of a planar loop. It can be left out. Others, as in the linkages of Bennett, Bricard and Schatz,
become redundant by closing the loops. Which of these are dependent then changes along the motion, so that all
of them are used, by least squares.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.loops.cluster_equations import random_configuration
from linkwork.loops.clusters import Cluster
from linkwork.loops.motion import all_equations, cluster_posture
from linkwork.loops.scales import length_of, scales_of, velocity_units
from linkwork.mechanism import Mechanism

# residual of a combination with constant coefficients, relative to the largest row, for exact numbers
MAX_COEFFICIENT_CHANGE = 1e-7
MIN_SAMPLES = 3  # configurations that are analysed
MAX_COEFFICIENT = 10.0  # of such a combination: larger ones would amplify errors


def overdetermined_rows(
    model: Mechanism, cluster: Cluster, rows: Sequence[int], tolerance: float
) -> tuple[int, ...]:
    """Return the equations to be used: independent `rows` and others, or () if `rows` suffice.

    Rounded numbers may make a redundant equation differ from a combination of others by `tolerance`, relative
    to the largest row.
    """
    count = sum(constraint.count(model.joints) for constraint in cluster.constraints)
    if len(rows) == count or all(constraint.linear for constraint in cluster.constraints):
        return ()
    K = _at_open_states(model, cluster, count)
    largest = float(np.linalg.norm(K, axis=1).max(initial=0.0))
    used = list(rows)
    for row in (i for i in range(count) if i not in used):
        if np.linalg.norm(K[row]) <= tolerance * largest:
            continue
        coefficients = np.linalg.lstsq(K[used].T, K[row], rcond=MAX_COEFFICIENT_CHANGE)[0]
        residual = float(np.linalg.norm(K[row] - coefficients @ K[used]))
        if residual > tolerance * largest or float(np.abs(coefficients).max()) > MAX_COEFFICIENT:
            used.append(row)
    return tuple(sorted(used)) if len(used) > len(rows) else ()


def _at_open_states(model: Mechanism, cluster: Cluster, count: int) -> np.ndarray:
    """Return unit-free equations at several open configurations, side by side.

    Their columns are the velocities of all tree joints in the cluster and in those below it: other motions of
    supports do not matter.
    """
    rng = np.random.default_rng(1)
    length = length_of(model, cluster.family, cluster.lineage)
    rows = scales_of(model, cluster).rows
    columns = velocity_units(model, cluster.family, length)
    samples: list[np.ndarray] = []
    while len(samples) < MIN_SAMPLES or sum(K.shape[1] for K in samples) < 3 * count:
        q = random_configuration(model, cluster.family, length, rng)
        posture = cluster_posture(model, cluster.family, q)
        K = np.asarray(all_equations(posture, cluster.constraints)[0], dtype=float)
        samples.append(rows[:, None] * K * columns)
    return np.hstack(samples)
