"""What is said of how loops close: errors with the gap, where it is and what to try; notes on what was accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.errors import ModelError
from linkwork.parts import Mechanism
from linkwork.parts.names import some
from linkwork.topology.closing import levenberg_marquardt
from linkwork.topology.closing_problem import Closing
from linkwork.topology.clusters import Cluster

TRY = 'start=, tolerance= or loops="constrain"'


class CannotClose(ModelError):
    """Loops that no configuration closes."""


def cannot_close(cluster: Cluster, problem: Closing, tried: Sequence[np.ndarray]) -> CannotClose:
    """The error for a cluster that was closed from none of the configurations tried."""
    best = min(tried, key=problem.distance)
    if np.isfinite(problem.distance(best)):
        best = levenberg_marquardt(problem.unlimited(), best, patient=True, steps=200)
    told = open_by(problem, [best])
    return CannotClose(f"{names_of(cluster)} cannot be closed: {told}; check placements and lengths, or try {TRY}")


def open_by(problem: Closing, tried: Sequence[np.ndarray]) -> str:
    """By how much loops are open in the best configuration of those tried, where, and which joints are at limits there."""
    best = min(tried, key=problem.distance)
    gaps = problem.gaps(best)
    e = np.abs(problem.errors(best)[0])
    worst = int(np.argmax([np.nan_to_num(e[own].max(initial=0.0), nan=np.inf) for own in problem.rows]))
    (length, angle), constraint = gaps[worst], problem.constraints[worst]
    gap = f"{length:.3g} m and {angle:.3g} rad" if constraint.ends else f"{angle:.3g}"
    limits = problem.at_limits(best)
    at = f", with {some([repr(x) for x in limits])} at the limits" if limits else ""
    return f"in the best configuration found, {constraint.name!r} is open by {gap}{at}"


def stuck(model: Mechanism, cluster: Cluster) -> ModelError:
    """The error for a cluster that closes, but cannot move."""
    return ModelError(
        f"{names_of(cluster)} close in singular configurations only, in which the links {links_of(model, cluster)} cannot "
        f"move: check placements and lengths, or try {TRY}"
    )


def names_of(cluster: Cluster) -> str:
    """The names of a cluster's constraints."""
    return some([repr(c.name) for c in cluster.constraints])


def links_of(model: Mechanism, cluster: Cluster) -> str:
    """The names of a cluster's bodies."""
    return some([repr(model.bodies[k].name) for k in cluster.bodies])


def closing_notes(model: Mechanism, clusters: Sequence[Cluster]) -> list[str]:
    """What deserves to be told of how loops close: gaps that were accepted, and joints beyond their limits."""
    found = []
    for cluster in clusters:
        for constraint, (length, angle) in zip(cluster.constraints, cluster.gaps):
            if max(length, angle) > 0.0:
                found.append(
                    f"loop {constraint.name!r} closes to {length:.2g} m and {angle:.2g} rad only, which is within the "
                    "tolerance: its redundant equations are dropped"
                )
        if cluster.constraints and not cluster.independent and not cluster.supports:
            links = links_of(model, cluster)
            found.append(
                f"{names_of(cluster)} leave the links {links} no degree of freedom: they are rigid, as a truss is; if they "
                "should move, their numbers need more digits, or a larger tolerance="
            )
        place = 0
        for joint in (model.joints[k] for k in cluster.bodies if cluster.closed):
            own = cluster.closed[place : place + joint.nq]
            place += joint.nq
            if any(not low - 1e-6 <= x <= high + 1e-6 for x, low, high in zip(own, joint.lower, joint.upper)):
                found.append(
                    f"joint {joint.name!r} is beyond its limits where {names_of(cluster)} close: no other state was found"
                )
    return found
