"""Closing loops: the nearest state with the same independent coordinates, by Newton's method (Loops Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.newton import CLOSED, infinity_norm, newton, one_norm, tolerance
from linkwork.algorithms.proximal import residual_norm
from linkwork.ir.functions import maximum, minimum, where
from linkwork.joints import Joint
from linkwork.model import Model
from linkwork.simplify.trees import tree
from linkwork.sko.tree import ModelTree
from linkwork.topology.clusters import Cluster
from linkwork.topology.elimination import Elimination
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.topology.scales import length_of, row_units, velocity_units

OPEN = 1e-11  # residual of kept equations from which on a state counts as open [rad, or sizes of the loop]
DROPPED = 1e-3  # the same of redundant ones, which files of few digits miss: far off, it is no solution of the loop
LOOSE, WIDEST = 0.01, 1.0  # what may always be corrected, and the largest motion that counts [rad, or sizes of the loop]


class Closed(NamedTuple):
    """Coordinates q, (nq,); the largest residual that is left [m or rad]; and how open they are: below 1 they are closed."""

    q: np.ndarray
    residual: Any
    openness: Any


def close_loops(model: Model, q: np.ndarray, previous: np.ndarray | None = None, motion: np.ndarray | None = None) -> Closed:
    """q with all loops closed, its independent coordinates as they were; what is closed already stays, bit for bit.

    Where q was predicted along the loops' tangent by a `motion` of all joints, (nv_spanning,), the way of its correction must
    be shorter than that, as it is before a fold of the coordinates: otherwise it counts as open, since it may lead to another
    assembly mode. Of joints such as spherical ones, whose velocities are not rates of coordinates, the independent part of the
    difference from the `previous` coordinates to q is kept. Linear equations are always closed.
    """
    q = np.array(q, dtype=object)
    left: Any = 0.0
    openness: Any = 0.0
    closed = tolerance(CLOSED, q)
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in model.clusters:
        if cluster.constraints:
            places = _places(cluster, [joint.q_slice for joint in model.joints])
            below = postures[cluster.below.bodies] if cluster.below else None
            start, before = q[places], q[places] if previous is None else previous[places]
            units = LoopUnits(model, cluster)
            q[places], corrected = _closed(model, cluster, start, before, below, units, closed)
            posture = postures[cluster.bodies] = _posture(model, cluster, q[places], below)
            phi = residuals(posture, cluster.constraints)
            left = maximum(residual_norm(phi), left)
            if units.linear:
                continue
            openness = maximum(residual_norm(phi / units.allowed), openness)
            for x in (x for constraint in cluster.constraints for x in constraint.flipped_axes(posture)):
                left, openness = maximum(x, left), maximum(x / OPEN, openness)
            if motion is not None:
                gone = infinity_norm(motion[places_of(model, cluster)] * (1.0 / units.velocities))
                openness = where(corrected < minimum(gone, WIDEST) + LOOSE, openness, np.inf)
    return Closed(q, left, openness)


class LoopUnits:
    """What residuals of a cluster's kept equations, dependent velocities and all velocities are compared with.

    `allowed` are the residuals of a closed state, of all equations. Symbols in place of the model's numbers do not matter.
    """

    def __init__(self, model: Model, cluster: Cluster) -> None:
        named = {constraint.name: constraint for constraint in model.structure.embedded}
        constraints = [named[constraint.name] for constraint in cluster.constraints]
        size = length_of(model.structure, cluster.bodies, constraints)
        every = row_units(model.structure, constraints, size)
        accepted = cluster.accepted  # by how much redundant equations of few digits may miss
        kept = np.isin(np.arange(len(every)), cluster.rows)
        self.rows, self.allowed = every[kept], every * np.where(kept, OPEN, DROPPED)
        self.allowed[: len(accepted)] = np.maximum(self.allowed[: len(accepted)], 2.0 * np.array(accepted))
        self.velocities = velocity_units(model.structure, cluster.bodies, size)
        self.dependent = self.velocities[cluster.dependent]
        self.linear = all(constraint.linear for constraint in cluster.constraints)


def _closed(
    model: Model,
    cluster: Cluster,
    start: np.ndarray,
    previous: np.ndarray,
    below: ClusterPosture | None,
    units: LoopUnits,
    closed: Any,
) -> tuple[np.ndarray, Any]:
    """The closed coordinates of a cluster, and the way of their correction [rad, or sizes of the loop]."""
    dependent = cluster.dependent

    def direction(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        posture = _posture(model, cluster, q, below)
        phi = residuals(posture, cluster.constraints)[list(cluster.rows)]
        K = all_equations(posture, cluster.constraints)[0][list(cluster.rows)]
        return phi * (1.0 / units.rows), Elimination(K[:, dependent]).solve(phi)

    def retract(q: np.ndarray, change: np.ndarray) -> np.ndarray:
        out, place, first = [], 0, 0
        move: Any = np.zeros(len(units.velocities), dtype=object)
        move[dependent] = change
        for k in cluster.bodies:
            kind = model.joints[k].kind
            own, columns = slice(place, place + kind.nq), slice(first, first + kind.nv)
            moved = kind.integrate(q[own], move[columns])
            kept = [c - columns.start for c in cluster.independent if columns.start <= c < columns.stop]
            if 0 < len(kept) < kind.nv:  # steps of the others may have moved these
                step_: Any = np.array(kind.difference(previous[own], moved), dtype=object)
                step_[kept] = kind.difference(previous[own], start[own])[kept]
                moved = kind.integrate(previous[own], step_)
            out.append(moved)
            place, first = own.stop, columns.stop
        return np.concatenate(out)

    if not dependent:
        return start, 0.0
    if units.linear:  # one whole step is exact
        phi, change = direction(start)
        return where(one_norm(phi) > closed, retract(start, change), start), 0.0
    return newton(direction, retract, start, units.dependent, closed, implicit=_solves_exactly(model, cluster))


def _solves_exactly(model: Model, cluster: Cluster) -> bool:
    """Whether steps of the dependent velocities leave independent coordinates alone: not in a ball joint with both."""
    first = 0
    for k in cluster.bodies:
        kind = model.joints[k].kind
        kept = sum(first <= c < first + kind.nv for c in cluster.independent)
        if 0 < kept < kind.nv and type(kind).rate is not Joint.rate:
            return False
        first += kind.nv
    return True


def places_of(model: Model, cluster: Cluster) -> np.ndarray:
    """Where the velocities of a cluster's joints are in those of the spanning tree, one body after the other."""
    return _places(cluster, [joint.v_slice for joint in model.joints])


def _places(cluster: Cluster, slices: Sequence[slice]) -> np.ndarray:
    """Where the joints of a cluster are, one body after the other."""
    return np.concatenate([np.arange(slices[k].start, slices[k].stop) for k in cluster.bodies])


def _posture(model: Model, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None) -> ClusterPosture:
    whole = np.zeros(model.nq, dtype=object)
    whole[_places(cluster, [joint.q_slice for joint in model.joints])] = q
    return cluster_posture(model, cluster.bodies, whole, below, cluster.supports)


def spanning_velocity(nodes: ModelTree[Any]) -> np.ndarray:
    """G ẏ of all joints, (nv_spanning,)."""
    return _spread(nodes, lambda body: body.v)


def spanning_acceleration(nodes: ModelTree[Any], ddy: np.ndarray) -> np.ndarray:
    """G ÿ + g of all joints, (nv_spanning,)."""
    return _spread(nodes, lambda body: body.G @ ddy[body.dofs] + body.g)


def tree_motion(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The velocities of all joints, (nv_spanning,)."""
    return spanning_velocity(tree(model, q, v)) if model.embedded else v


def integrate_tree(model: Model, q: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """The retraction of all joints' velocities at q, (nq,): constant ones for a unit of time; loops are not closed."""
    return np.concatenate([j.kind.integrate(q[j.q_slice], motion[j.v_slice]) for j in model.joints] or [np.zeros(0)])


def independent_force(nodes: ModelTree[Any], tau: np.ndarray) -> np.ndarray:
    """Gᵀ tau: forces in all joints, (nv_spanning,), as generalised forces of the independent velocities, (nv,)."""
    total: Any = np.zeros(nodes.nv, dtype=object)
    for body in nodes.moving:
        total[body.dofs] = total[body.dofs] + body.G.T @ tau[body.joint.v_slice]
    return total


def _spread(nodes: ModelTree[Any], of: Any) -> np.ndarray:
    out: Any = np.zeros(nodes.model.nv_spanning, dtype=object)
    for body in nodes.moving:
        out[body.joint.v_slice] = of(body)
    return out
