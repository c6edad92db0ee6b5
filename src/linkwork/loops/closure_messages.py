"""Error messages and notes about loop closure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.errors import ModelError
from linkwork.loops.closing import levenberg_marquardt
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.clusters import Cluster
from linkwork.mechanism import Mechanism
from linkwork.mechanism.names import join_names

TRY = 'start=, tolerance= or loops="constrain"'


class CannotClose(ModelError):
    """Error for loops that no configuration closes."""


def cannot_close_error(
    cluster: Cluster, problem: ClosureProblem, attempts: Sequence[np.ndarray]
) -> CannotClose:
    """Return the error for a cluster that could not be closed, from its attempted configurations."""
    best = min(attempts, key=problem.error_norm)
    if np.isfinite(problem.error_norm(best)):
        best = levenberg_marquardt(problem.unlimited(), best, patient=True, steps=200)
    sentences = describe_gap(problem, [best])
    return CannotClose(
        f"{loop_names(cluster)} cannot be closed: {sentences}; check placements and lengths, or try {TRY}"
    )


def describe_gap(problem: ClosureProblem, attempts: Sequence[np.ndarray]) -> str:
    """Describe the largest gap of the best configuration and the joints at their limits there."""
    best = min(attempts, key=problem.error_norm)
    gaps = problem.gaps(best)
    e = np.abs(problem.errors(best)[0])
    worst = int(
        np.argmax(
            [np.nan_to_num(e[row_indices].max(initial=0.0), nan=np.inf) for row_indices in problem.rows]
        )
    )
    (length, angle), constraint = gaps[worst], problem.constraints[worst]
    gap = f"{length:.3g} m and {angle:.3g} rad" if constraint.ends else f"{angle:.3g}"
    limits = problem.at_limits(best)
    at = f", with {join_names([repr(x) for x in limits])} at the limits" if limits else ""
    return f"in the best configuration found, {constraint.name!r} is open by {gap}{at}"


def immobile_error(model: Mechanism, cluster: Cluster) -> ModelError:
    """Return the error for a cluster that can be closed but not moved."""
    return ModelError(
        f"{loop_names(cluster)} close in singular configurations only, in which the links "
        f"{link_names(model, cluster)} cannot "
        f"move: check placements and lengths, or try {TRY}"
    )


def singularity_error(model: Mechanism, cluster: Cluster, velocities: int, mobility: int) -> ModelError:
    """Return the error for a cluster that is singular in all closed configurations."""
    return ModelError(
        f"{loop_names(cluster)} are singular in every configuration found: their equations leave "
        f"{velocities} velocities, but the "
        f"links {link_names(model, cluster)} can move in {_directions(mobility)} only, so that no "
        "coordinates determine the "
        "motion; remove redundant loops, or use joints that hold the same directions without relying on "
        "equal lengths"
    )


def bifurcation_error(model: Mechanism, cluster: Cluster, mobility: int) -> ModelError:
    """Return the error for a cluster that was closed only at a bifurcation of its motion."""
    return ModelError(
        f"{loop_names(cluster)} are singular in every configuration found: branches of the motion meet "
        f"there, along which the links {link_names(model, cluster)} can move in {_directions(mobility)}; "
        "give a start= on one of them"
    )


def redundancy_error(model: Mechanism, cluster: Cluster, residual: float, tolerance: float) -> ModelError:
    """Return the error for redundant equations that exceed the tolerance during motion."""
    return ModelError(
        f"{loop_names(cluster)}: redundant equations miss by up to {residual:.2g} of the size of the "
        "loops when the links "
        f"{link_names(model, cluster)} move, more than the tolerance of {tolerance:.2g}: give numbers with "
        "more digits, or a larger tolerance="
    )


def _directions(count: int) -> str:
    return f"{count} direction" if count == 1 else f"{count} directions"


def loop_names(cluster: Cluster) -> str:
    """Return the quoted names of the constraints of a cluster."""
    return join_names([repr(c.name) for c in cluster.constraints])


def link_names(model: Mechanism, cluster: Cluster) -> str:
    """Return the quoted names of the links of a cluster."""
    return join_names([repr(model.bodies[k].name) for k in cluster.bodies])


def closure_notes(model: Mechanism, clusters: Sequence[Cluster]) -> list[str]:
    """Return notes on accepted gaps and on joints beyond their limits."""
    notes = []
    for cluster in clusters:
        for constraint, (length, angle) in zip(cluster.constraints, cluster.gaps):
            if max(length, angle) > 0.0:
                notes.append(
                    f"loop {constraint.name!r} closes to {length:.2g} m and {angle:.2g} rad only, which is "
                    "within the "
                    "tolerance: its redundant equations are dropped"
                )
        if cluster.constraints and not cluster.independent and not cluster.supports:
            links = link_names(model, cluster)
            notes.append(
                f"{loop_names(cluster)} leave the links {links} no degree of freedom: they are rigid, as a "
                "truss is; if they "
                "should move, their numbers need more digits, or a larger tolerance="
            )
        place = 0
        for joint in (model.joints[k] for k in cluster.bodies if cluster.closed):
            values = cluster.closed[place : place + joint.nq]
            place += joint.nq
            if any(
                not low - 1e-6 <= x <= high + 1e-6 for x, low, high in zip(values, joint.lower, joint.upper)
            ):
                notes.append(
                    f"joint {joint.name!r} is beyond its limits where {loop_names(cluster)} close: no other "
                    "state was found"
                )
    return notes
