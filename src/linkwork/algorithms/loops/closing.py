"""Closing of loops by Newton's method with fixed independent coordinates (Loops Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.proximal import residual_norm
from linkwork.algorithms.newton import CLOSURE_TOL, infinity_norm, newton, one_norm, tolerance
from linkwork.compiler.ir.functions import maximum, minimum, where
from linkwork.joints import Joint
from linkwork.loops.clusters import Cluster
from linkwork.loops.elimination import Elimination
from linkwork.loops.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.loops.scales import length_of, row_units, velocity_units
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from linkwork.sko.tree import ModelTree

OPEN = 1e-11  # residual of kept equations from which on a state counts as open [rad, or sizes of the loop]
# the same of equations that are not used, as in `Model.closure_tolerance`: these follow from the others
DROPPED = 1e-6
# what may always be corrected, and the largest motion that counts [rad, or sizes of the loop]
LOOSE = 0.01
WIDEST = 1.0


class Closed(NamedTuple):
    """Coordinates q, (nq,), largest remaining residual [m or rad], and openness, below 1 if closed."""

    q: np.ndarray
    residual: Any
    openness: Any


def close_loops(
    model: Model,
    q: np.ndarray,
    previous: np.ndarray | None = None,
    motion: np.ndarray | None = None,
    *,
    differentiable: bool = False,
) -> Closed:
    """Return q with all loops closed and its independent coordinates kept; closed states are unchanged.

    Where q was predicted along the loops' tangent by a `motion` of all joints, (nv_spanning,), the correction
    must be shorter than that motion, as it is before a turning point: otherwise q counts as open, since it
    may be on another assembly mode. For joints such as spherical ones, whose velocities are not rates of
    coordinates, the independent part of the difference from the `previous` coordinates to q is kept. Linear
    equations are always closed.
    """
    q = np.array(q, dtype=object)
    residual: Any = 0.0
    openness: Any = 0.0
    newton_tol = tolerance(CLOSURE_TOL, q)
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in model.clusters:
        if cluster.constraints:
            indices = _places(cluster, [joint.q_slice for joint in model.joints])
            parent_posture = postures[cluster.below.bodies] if cluster.below else None
            initial = q[indices]
            reference = q[indices] if previous is None else previous[indices]
            units = LoopUnits(model, cluster)
            limit = -1.0 if differentiable and units.linear else newton_tol
            q[indices], correction = _close_cluster(
                model, cluster, initial, reference, parent_posture, units, limit
            )
            posture = postures[cluster.bodies] = _posture(model, cluster, q[indices], parent_posture)
            phi = residuals(posture, cluster.constraints)
            residual = maximum(residual_norm(phi), residual)
            if units.linear:
                continue
            openness = maximum(residual_norm(phi / units.allowed(tolerance(1.0, q))), openness)
            for x in (x for constraint in cluster.constraints for x in constraint.flipped_axes(posture)):
                residual = maximum(x, residual)
                openness = maximum(x / OPEN, openness)
            if motion is not None:
                distance = infinity_norm(motion[places_of(model, cluster)] * (1.0 / units.velocities))
                openness = where(correction < minimum(distance, WIDEST) + LOOSE, openness, np.inf)
    return Closed(q, residual, openness)


class LoopUnits:
    """Scales of residuals, of dependent and of all velocities of a cluster, from the nominal model."""

    def __init__(self, model: Model, cluster: Cluster) -> None:
        named = {constraint.name: constraint for constraint in model.nominal.embedded}
        constraints = [named[constraint.name] for constraint in cluster.constraints]
        size = length_of(model.nominal, cluster.bodies, constraints)
        every = row_units(model.nominal, constraints, size)
        self._every, self._used = every, np.isin(np.arange(len(every)), cluster.used)
        self._slack = np.array(cluster.slack)  # by how much equations of few digits may miss
        self.rows = every[self._used]
        self.velocities = velocity_units(model.nominal, cluster.bodies, size)
        self.dependent = self.velocities[cluster.dependent]
        self.linear = all(constraint.linear for constraint in cluster.constraints)

    def allowed(self, single: Any) -> np.ndarray:
        """Return the residuals of a closed state, of all equations; `single` multiplies those that rounding
        alone leaves.

        Those of redundant equations do not grow with it: in single precision they are `DROPPED` times the
        size too.
        """
        if self._used.all() and not len(self._slack):
            return np.asarray(self._every * OPEN)
        missed = self._slack if len(self._slack) else np.zeros(len(self._every))
        missed = np.maximum(2.0 * missed, np.where(self._used, 0.0, DROPPED * self._every))
        return np.array(
            [maximum(OPEN * x, y / single) if y else OPEN * x for x, y in zip(self._every, missed)],
            dtype=object,
        )


def _close_cluster(
    model: Model,
    cluster: Cluster,
    start: np.ndarray,
    previous: np.ndarray,
    below: ClusterPosture | None,
    units: LoopUnits,
    closed: Any,
) -> tuple[np.ndarray, Any]:
    """Return the closed coordinates of a cluster and the length of the correction [rad, or loop sizes]."""
    dependent, used = cluster.dependent, list(cluster.used)

    def direction(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        posture = _posture(model, cluster, q, below)
        phi = residuals(posture, cluster.constraints)[used]
        K = all_equations(posture, cluster.constraints)[0][used]
        if not cluster.overdetermined:
            return phi * (1.0 / units.rows), Elimination(K[:, dependent]).solve(phi)
        phi = phi * (1.0 / units.rows)
        K = (K.T * (1.0 / units.rows)).T
        change = Elimination(K[:, dependent]).solve(phi)
        # rounded equations cannot all hold: the second result, the least-squares step, ends the iterations
        return change * (1.0 / units.dependent), change

    def retract(q: np.ndarray, change: np.ndarray) -> np.ndarray:
        out = []
        q_start = 0
        v_start = 0
        velocities: Any = np.zeros(len(units.velocities), dtype=object)
        velocities[dependent] = change
        for k in cluster.bodies:
            kind = model.joints[k].kind
            coordinates = slice(q_start, q_start + kind.nq)
            columns = slice(v_start, v_start + kind.nv)
            q_joint = kind.integrate(q[coordinates], velocities[columns])
            independent = [
                c - columns.start for c in cluster.independent if columns.start <= c < columns.stop
            ]
            if 0 < len(independent) < kind.nv:  # steps of the other velocities may have changed these
                difference: Any = np.array(kind.difference(previous[coordinates], q_joint), dtype=object)
                difference[independent] = kind.difference(previous[coordinates], start[coordinates])[
                    independent
                ]
                q_joint = kind.integrate(previous[coordinates], difference)
            out.append(q_joint)
            q_start = coordinates.stop
            v_start = columns.stop
        return np.concatenate(out)

    if not dependent:
        return start, 0.0
    if units.linear:  # one full step is exact
        phi, change = direction(start)
        return where(one_norm(phi) > closed, retract(start, change), start), 0.0
    return newton(
        direction, retract, start, units.dependent, closed, implicit=_solves_exactly(model, cluster)
    )


def _solves_exactly(model: Model, cluster: Cluster) -> bool:
    """Return whether steps of dependent velocities keep independent coordinates.

    They do not in a joint such as a ball joint that has velocities of both kinds.
    """
    v_start = 0
    for k in cluster.bodies:
        kind = model.joints[k].kind
        independent_count = sum(v_start <= c < v_start + kind.nv for c in cluster.independent)
        if 0 < independent_count < kind.nv and type(kind).rate is not Joint.rate:
            return False
        v_start += kind.nv
    return True


def places_of(model: Model, cluster: Cluster) -> np.ndarray:
    """Return indices of a cluster's velocities in those of the spanning tree, body after body."""
    return _places(cluster, [joint.v_slice for joint in model.joints])


def _places(cluster: Cluster, slices: Sequence[slice]) -> np.ndarray:
    """Return indices of a cluster's joints in slices, body after body."""
    return np.concatenate([np.arange(slices[k].start, slices[k].stop) for k in cluster.bodies])


def _posture(model: Model, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None) -> ClusterPosture:
    full_q = np.zeros(model.nq, dtype=object)
    full_q[_places(cluster, [joint.q_slice for joint in model.joints])] = q
    return cluster_posture(model, cluster.bodies, full_q, below, cluster.supports)


def spanning_velocity(nodes: ModelTree[Any]) -> np.ndarray:
    """Return G ẏ of all joints, (nv_spanning,)."""
    return _spread(nodes, lambda body: body.v)


def spanning_acceleration(nodes: ModelTree[Any], ddy: np.ndarray) -> np.ndarray:
    """Return G ÿ + g of all joints, (nv_spanning,)."""
    return _spread(nodes, lambda body: body.G @ ddy[body.dofs] + body.g)


def tree_motion(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the velocities of all joints, (nv_spanning,)."""
    return spanning_velocity(tree(model, q, v)) if model.embedded else v


def integrate_tree(model: Model, q: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Return q after moving with constant velocities of all joints for unit time; loops are not closed."""
    return np.concatenate(
        [j.kind.integrate(q[j.q_slice], motion[j.v_slice]) for j in model.joints] or [np.zeros(0)]
    )


def independent_force(nodes: ModelTree[Any], tau: np.ndarray) -> np.ndarray:
    """Return Gᵀ tau, the generalized forces, (nv,), of forces in all joints, (nv_spanning,)."""
    total: Any = np.zeros(nodes.nv, dtype=object)
    for body in nodes.moving:
        total[body.dofs] = total[body.dofs] + body.G.T @ tau[body.joint.v_slice]
    return total


def _spread(nodes: ModelTree[Any], of: Any) -> np.ndarray:
    out: Any = np.zeros(nodes.model.nv_spanning, dtype=object)
    for body in nodes.moving:
        out[body.joint.v_slice] = of(body)
    return out
