"""Closing loops: the nearest state with the same independent coordinates, by Newton's method (Loops Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.newton import newton
from linkwork.ir.functions import absolute, maximum, where
from linkwork.joints import Joint
from linkwork.model import Model
from linkwork.simplify.trees import tree
from linkwork.sko.tree import ModelTree
from linkwork.topology.clusters import Cluster
from linkwork.topology.elimination import Elimination
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture, residuals


def close_loops(model: Model, q: np.ndarray, previous: np.ndarray | None = None) -> tuple[np.ndarray, Any]:
    """q with all loops closed, its independent coordinates as they were, and the largest residual that is left [m or rad].

    Of joints such as spherical ones, whose velocities are not rates of coordinates, the independent part of the difference from
    the `previous` coordinates to q is kept.
    """
    previous = q if previous is None else previous
    q = np.array(q, dtype=object)
    left: Any = 0.0
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in model.clusters:
        if cluster.constraints:
            places = _places(cluster, [joint.q_slice for joint in model.joints])
            below = postures[cluster.below.bodies] if cluster.below else None
            q[places] = _closed(model, cluster, q[places], previous[places], below)
            posture = postures[cluster.bodies] = _posture(model, cluster, q[places], below)
            for constraint in cluster.constraints:
                for e in constraint.residual(posture):
                    left = where(absolute(e) < np.inf, maximum(absolute(e), left), np.inf)  # NaN is not closed
                for x in constraint.flipped_axes(posture):
                    left = maximum(x, left)
    return q, left


def _closed(
    model: Model, cluster: Cluster, start: np.ndarray, previous: np.ndarray, below: ClusterPosture | None
) -> np.ndarray:
    def direction(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        posture = _posture(model, cluster, q, below)
        phi = residuals(posture, cluster.constraints)[list(cluster.rows)]
        K = all_equations(posture, cluster.constraints)[0][list(cluster.rows)]
        dependent = cluster.dependent
        move: Any = np.zeros(posture.size, dtype=object)
        move[dependent] = Elimination(K[:, dependent]).solve(phi)
        return phi, move

    def retract(q: np.ndarray, move: np.ndarray) -> np.ndarray:
        out, place, first = [], 0, 0
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

    if all(c.linear for c in cluster.constraints):  # one whole step is exact
        return retract(start, direction(start)[1])
    return newton(direction, retract, start, implicit=_solves_exactly(model, cluster))


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


def integrate_tree(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The retraction of v at q, (nq,): every joint integrates a constant velocity for a unit of time; loops are not closed."""
    spanning = spanning_velocity(tree(model, q, v)) if model.embedded else v
    return np.concatenate([j.kind.integrate(q[j.q_slice], spanning[j.v_slice]) for j in model.joints] or [np.zeros(0)])


def independent_force(nodes: ModelTree[Any], tau: np.ndarray) -> np.ndarray:
    """Gᵀ tau: forces in all joints, (nv_spanning,), as generalised forces of the independent velocities, (nv,)."""
    total: Any = np.zeros(nodes.nv, dtype=object)
    for body in nodes.bodies.values():
        total[body.dofs] = total[body.dofs] + body.G.T @ tau[body.joint.v_slice]
    return total


def _spread(nodes: ModelTree[Any], of: Any) -> np.ndarray:
    out: Any = np.zeros(nodes.model.nv_spanning, dtype=object)
    for body in nodes.bodies.values():
        out[body.joint.v_slice] = of(body)
    return out
