"""Closure tolerances of loops: rounding errors, or more for numbers with few digits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.loops.clusters import Cluster, find_families
from linkwork.loops.independent_rows import slack_shares
from linkwork.loops.scales import length_of, scales_of
from linkwork.mechanism import LoopConstraint, Mechanism

# gap of a closed state whose numbers are exact, relative to the length of its loops, or in rad
EXACT_CLOSURE_TOL = 1e-6


def closure_tolerances(model: Mechanism, clusters: Sequence[Cluster]) -> dict[str, tuple[float, float]]:
    """Return the distance [m] and the angle [rad] up to which each loop counts as closed, by name."""
    slack: dict[str, tuple[float, ...]] = {
        loop.name: getattr(loop, "slack", ()) for loop in model.constrained_loops
    }
    for cluster in clusters:
        if cluster.constraints:
            slack |= {c.name: share for c, share in zip(cluster.constraints, slack_shares(model, cluster))}
    tolerances: dict[str, tuple[float, float]] = {}
    for bodies, constraints in find_families(model.joints, (*model.embedded, *model.constrained_loops)):
        length = length_of(model, bodies, constraints) if constraints else 1.0
        for constraint in constraints:
            tolerances[constraint.name] = _tolerance(
                model, bodies, constraint, length, slack.get(constraint.name, ())
            )
    return tolerances


def _tolerance(
    model: Mechanism,
    bodies: Sequence[int],
    constraint: LoopConstraint,
    length: float,
    slack: Sequence[float],
) -> tuple[float, float]:
    """Return the tolerance of one loop in a family of this length [m]."""
    lengths = constraint.lengths(model.joints)
    errors = np.array(slack) if slack else np.zeros(len(lengths))
    missed = float(np.linalg.norm(errors[lengths])), float(np.linalg.norm(errors[~lengths]))
    if constraint.ends:
        return max(EXACT_CLOSURE_TOL * length, missed[0]), max(EXACT_CLOSURE_TOL, missed[1])
    unit = 1.0 / float(scales_of(model, Cluster(tuple(bodies), (constraint,))).rows.min(initial=1.0))
    unit_tolerance = max(EXACT_CLOSURE_TOL * unit, *missed)
    return unit_tolerance, unit_tolerance
