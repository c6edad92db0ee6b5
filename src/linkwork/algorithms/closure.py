"""Closing loops: the nearest state with the same independent coordinates, by Newton's method (Loops Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.errors import ModelError
from linkwork.ir.functions import absolute, loop, maximum, minimum, where
from linkwork.model.bodies import MovingBody
from linkwork.model.clusters import Cluster
from linkwork.model.embedding import Motion, all_equations, cluster_motion, error, tree_equations, turned_over
from linkwork.model.loops import Coupling
from linkwork.model.model import Model
from linkwork.model.nodes import Nodes
from linkwork.spatial import Factor
from linkwork.spatial.solve import solve

STEPS = 30
LARGEST_STEP = 0.5  # [rad or m]
CLOSED = 1e-13  # largest error that needs no further step


def close_loops(model: Model, q: np.ndarray) -> tuple[np.ndarray, Any]:
    """q with all loops closed, its independent coordinates as they were, and the largest error that is left."""
    q = np.array(q, dtype=object)
    left: Any = 0.0
    motions: dict[tuple[int, ...], Motion] = {}
    for cluster in model.clusters:
        if cluster.constraints:
            places = _places(cluster, [joint.q_slice for joint in model.joints])
            below = motions[cluster.below.bodies] if cluster.below else None
            q[places] = _closed(model, cluster, q[places], below)
            motion = motions[cluster.bodies] = _motion(model, cluster, q[places], below)
            for constraint in cluster.constraints:
                for e in error(motion, constraint):
                    left = where(absolute(e) < np.inf, maximum(absolute(e), left), np.inf)  # NaN is not closed
                for x in turned_over(motion, constraint):
                    left = maximum(x, left)
    return q, left


def _closed(model: Model, cluster: Cluster, q: np.ndarray, below: Motion | None) -> np.ndarray:
    def step(q: np.ndarray) -> tuple[np.ndarray, Any]:
        motion = _motion(model, cluster, q, below)
        phi = np.concatenate([error(motion, c) for c in cluster.constraints])[list(cluster.rows)]
        K = all_equations(motion, cluster.constraints)[0][list(cluster.rows)]
        dependent = cluster.dependent
        move: Any = np.zeros(motion.size, dtype=object)
        move[dependent] = -solve(K[:, dependent], phi)
        worst: Any = 0.0
        for m, e in zip(move[dependent], phi):
            worst = maximum(maximum(absolute(m), worst), absolute(e))
        move = move * minimum(LARGEST_STEP / maximum(worst, 1e-300), 1.0) if not linear else move
        out, place = [], 0
        for k in cluster.bodies:
            joint = model.joints[k]
            out.append(joint.kind.integrate(q[place : place + joint.nq], move[motion.columns[k]]))
            place += joint.nq
        return np.concatenate(out), worst > CLOSED

    linear = all(isinstance(c, Coupling) for c in cluster.constraints)
    return step(q)[0] if linear else loop(step, q, limit=STEPS)


def _places(cluster: Cluster, slices: Sequence[slice]) -> np.ndarray:
    """Where the joints of a cluster are, one body after the other."""
    return np.concatenate([np.arange(slices[k].start, slices[k].stop) for k in cluster.bodies])


def _motion(model: Model, cluster: Cluster, q: np.ndarray, below: Motion | None) -> Motion:
    whole = np.zeros(model.nq, dtype=object)
    whole[_places(cluster, [joint.q_slice for joint in model.joints])] = q
    return cluster_motion(model, cluster.bodies, whole, below, cluster.feet)


def spanning_velocity(nodes: Nodes) -> np.ndarray:
    """G ẏ of all joints, (nv_spanning,)."""
    return _spread(nodes, lambda body: body.v)


def spanning_acceleration(nodes: Nodes, ddy: np.ndarray) -> np.ndarray:
    """G ÿ + g of all joints, (nv_spanning,)."""
    return _spread(nodes, lambda body: body.G @ ddy[body.dofs] + body.g)


def independent_force(nodes: Nodes, tau: np.ndarray) -> np.ndarray:
    """Gᵀ tau: what forces in all joints, (nv_spanning,), do to the independent velocities, (nv,)."""
    total: Any = np.zeros(nodes.nv, dtype=object)
    for body in nodes.bodies.values():
        total[body.dofs] = total[body.dofs] + body.G.T @ tau[body.joint.v_slice]
    return total


def actuator_force(nodes: Nodes, tau: np.ndarray, actuators: Sequence[int]) -> np.ndarray:
    """The forces of actuators, at these velocities of the spanning tree, that do what tau does, (actuators,).

    In each cluster Wᵀ x = tau with W the actuators' rows of G (Loops footnotes 3 and 5). Where there are more than needed, the
    x of least length is taken: the least actuator torque of Lie Sec. 3.1.
    """
    out: Any = np.zeros(len(actuators), dtype=object)
    places = {c: k for k, c in enumerate(actuators)}
    every = np.arange(nodes.nv)
    families: dict[int, list[MovingBody]] = {}  # by their first velocity: clusters on several feet share those below them
    for body in nodes.bodies.values():
        for first in every[body.dofs][:1]:
            families.setdefault(int(first), []).append(body)
    for bodies in families.values():
        dofs = sorted({int(c) for body in bodies for c in every[body.dofs]})
        rows: list[int] = []
        W = np.zeros((0, nodes.nv), dtype=object)
        for body in bodies:
            for row, c in enumerate(range(body.joint.v_slice.start, body.joint.v_slice.stop)):
                if c in places:
                    rows.append(places[c])
                    W = np.vstack([W, np.zeros(nodes.nv, dtype=object)])
                    W[-1, body.dofs] = body.G[row]
        W, m = W[:, dofs], len(dofs)
        if len(rows) < m:
            name = " + ".join(body.joint.name for body in bodies)
            raise ModelError(f"{name!r} has {m} independent velocities but {len(rows)} actuators: it is under-actuated")
        out[rows] = solve(W.T, tau[dofs]) if len(rows) == m else W @ Factor(W.T @ W).solve(tau[dofs])
    return out


def loop_forces(nodes: Nodes, ddy: np.ndarray) -> np.ndarray:
    """λ of all clusters' equations that are kept, one cluster after the other: M v̇ + c = τ + Kᵀ λ on the spanning tree.

    With τ in the independent joints alone, the dependent rows of this decide λ (Loops Eq. 1 and 2).
    """
    model, found = nodes.model, [np.zeros(0)]
    if not model.constraints:
        return found[0]
    tree = replace(model, constraints=(), kernels={})
    tau = inverse_dynamics(Nodes(tree, nodes.q, spanning_velocity(nodes)), spanning_acceleration(nodes, ddy))
    for cluster in reversed(model.clusters):
        if cluster.constraints:
            K = tree_equations(model, cluster, nodes.q)[0][list(cluster.rows)]
            own = _places(cluster, [joint.v_slice for joint in model.joints])[cluster.dependent]
            found.append(solve(K[:, own].T, tau[own]))
            tau = tau - K.T @ found[-1]  # what is left for loops below, where some feet are in one
    return np.concatenate(found[::-1])


def _spread(nodes: Nodes, of: Any) -> np.ndarray:
    out: Any = np.zeros(nodes.model.nv_spanning, dtype=object)
    for body in nodes.bodies.values():
        out[body.joint.v_slice] = of(body)
    return out
