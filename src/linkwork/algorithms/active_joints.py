"""Dynamics of constrained systems with active and passive joints (Lie Sec. 3), on the spanning tree.

    M q̈ + b = τ + Aᵀ λ,    A q̇ = 0                                                                         (Lie Eq. 54, 55)

for all joints of the tree. Here λ is eliminated before anything is solved: with q̇ = G ẏ and Gᵀ Aᵀ = 0 what is left are the
equations of the clusters, and the recursive algorithms on nodes solve them. Equations couple only joints of one cluster, so
every choice between solutions decouples into one for each cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.closing import independent_force, places_of, spanning_acceleration, spanning_velocity
from linkwork.algorithms.hybrid_dynamics import hybrid_dynamics
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.errors import ModelError
from linkwork.model import GROUND, Model
from linkwork.simplify.trees import hinge_tree, tree
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor
from linkwork.spatial.solve import solve
from linkwork.topology.clusters import Cluster
from linkwork.topology.embedding import tree_equations
from linkwork.topology.motion import all_equations, cluster_posture

STATES = 4  # closed configurations at which independent velocities are chosen


def least_squares(A: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The x of Aᵀ x = b with the least Σ weights x², for an A, (n, r), of rank r: (Aᵀ)† b (Lie Eq. 59)."""
    if len(A) == A.shape[1]:
        return solve(A.T, b)
    scaled = A / np.reshape(weights, (-1, 1))
    return scaled @ Factor(A.T @ scaled).solve(b)


# 3.1 inverse dynamics


def actuator_force(nodes: ModelTree[Any], tau: np.ndarray, actuators: Sequence[int], weights: np.ndarray) -> np.ndarray:
    """The forces of actuators, at these velocities of the spanning tree, with the same generalised forces as tau, (actuators,).

    In each cluster Wᵀ x = tau with W the actuators' rows of G (Loops footnotes 3 and 5). Where there are more than needed, the
    least active joint forces are taken (Lie Eq. 62, where N is the null space that G has left out already). A free base that
    has no actuator is left out.
    """
    out: Any = np.zeros(len(actuators), dtype=object)
    every, places = np.arange(nodes.nv), {c: k for k, c in enumerate(actuators)}
    families: dict[int, list[RigidBody]] = {}  # by their first velocity: clusters on several supports share those below them
    for body in nodes.bodies.values():
        for first in every[body.dofs][:1]:
            families.setdefault(int(first), []).append(body)
    for bodies in families.values():
        dofs = sorted({int(c) for body in bodies for c in every[body.dofs]})
        of: list[int] = []
        W = np.zeros((0, nodes.nv), dtype=object)
        for body in bodies:
            for row, c in enumerate(range(body.joint.v_slice.start, body.joint.v_slice.stop)):
                if c in places:
                    of.append(places[c])
                    W = np.vstack([W, np.zeros(nodes.nv, dtype=object)])
                    W[-1, body.dofs] = body.G[row]
        if not of and [body.joint.nv for body in bodies] == [6] and bodies[0].joint.parent == GROUND:
            continue  # nothing drives a free base
        if not of and all(body.joint.kind.elastic or not body.joint.nv for body in bodies):
            continue  # nor the modes of a flexible body
        if len(of) < len(dofs):
            name = " + ".join(body.joint.name for body in bodies)
            raise ModelError(f"{name!r} has {len(dofs)} independent velocities but {len(of)} actuators: it is under-actuated")
        out[of] = least_squares(W[:, dofs], tau[dofs], weights[of])
    return out


def tree_force(nodes: ModelTree[Any], ddq: np.ndarray, f_ext: np.ndarray | None) -> np.ndarray:
    """τ_r = M q̈ + b of the spanning tree, as if there were no loops, (nv_spanning,)."""
    return inverse_dynamics(hinge_tree(nodes.model.spanning_tree(), nodes.q, spanning_velocity(nodes), f_ext), ddq)


def loop_forces(nodes: ModelTree[Any], ddy: np.ndarray, f_ext: np.ndarray | None, tau: np.ndarray | None) -> np.ndarray:
    """λ of all clusters' equations that are kept, one cluster after the other, for forces tau of the spanning tree.

    A_pᵀ λ = τ_pr - τ_p at the dependent velocities (Lie Eq. 57), where without tau nothing acts.
    """
    model, found = nodes.model, [np.zeros(0)]
    if model.embedded:
        left = tree_force(nodes, spanning_acceleration(nodes, ddy), f_ext) - (0.0 if tau is None else tau)
        for cluster in reversed(model.clusters):
            if cluster.constraints:
                A = tree_equations(model, cluster, nodes.q)[0][list(cluster.rows)]
                p = places_of(model, cluster)[cluster.dependent]
                found.append(solve(A[:, p].T, left[p]))
                left = left - A.T @ found[-1]  # for loops below, which may hold its supports
    return np.concatenate(found[::-1])


# 3.2 and 3.3 forward and hybrid dynamics


class Active(NamedTuple):
    """A cluster's active joints: `u` are their velocities in the spanning tree, `s` those that are independent, in the node."""

    cluster: Cluster
    node: HingeNode
    u: np.ndarray
    s: np.ndarray
    W: np.ndarray  # q̈_u = W ÿ_s + g_u


def spanning_hybrid_dynamics(
    nodes: ModelTree[Any], ddq: np.ndarray, tau: np.ndarray, f_ext: Any, prescribed: np.ndarray, least: str, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """q̈ and τ of all joints of the tree, where q̈_u is given at the velocities that are `prescribed`, and τ_v at the others.

    The clusters are described by other independent velocities, as many of u as can be, so that (Lie Eq. 70, 71) become the
    hybrid dynamics of a tree. With nothing prescribed this is forward dynamics (Lie Sec. 3.2).
    """
    model = nodes.model.with_clusters(with_active(nodes.model.structure, prescribed))
    chosen = [places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters]
    nodes = tree(model, nodes.q, spanning_velocity(nodes)[np.concatenate([*chosen, []]).astype(int)], f_ext)
    every, known = [], np.zeros(nodes.nv, dtype=bool)
    found: list[HingeNode] = list(nodes.base_to_tips())
    for cluster, node, dofs in zip(model.clusters, found, chosen):
        own = places_of(model, cluster)
        u, s = own[prescribed[own]], np.flatnonzero(prescribed[dofs])
        known[node.dofs] = prescribed[dofs]
        every.append(Active(cluster, node, u, s, rows_of_G(nodes, node, u)[:, s]))

    given: Any = np.where(prescribed, 0.0, tau)
    ddy, T = np.zeros(nodes.nv, dtype=object), independent_force(nodes, given)
    g = spanning_acceleration(nodes, np.zeros(nodes.nv))
    for _, node, u, s, W in every:  # where there are more than can be chosen: the nearest that loops allow
        ddy[node.dofs][s] = ddq[u] if len(u) == len(s) else Factor(W.T @ W).solve(W.T @ (ddq[u] - g[u]))
    ddy, T_u = hybrid_dynamics(nodes, ddy, T, known)

    ddq, tau_u = spanning_acceleration(nodes, ddy), np.array(given)
    if least == "torque":
        place = np.cumsum(prescribed) - 1  # among the prescribed ones
        for _, node, u, s, W in every:
            tau_u[u] = least_squares(W, (T_u - T)[node.dofs][s], weights[place[u]])
    else:
        tau_r, start = tree_force(nodes, ddq, f_ext), 0
        for cluster, _, u, _, _ in every:
            A, own = _equations(model, cluster, nodes.q), places_of(model, cluster)
            p = [c for c in cluster.dependent if not prescribed[own[c]]]
            lam = least_squares(A[:, p], (tau_r - given)[own[p]], weights[start : start + len(A)])  # Lie Eq. 59, without N
            tau_u[u] = tau_r[u] - A[:, prescribed[own]].T @ lam  # Lie Eq. 60
            start += len(A)
    return ddq, tau_u


def with_active(model: Model, prescribed: np.ndarray) -> tuple[Cluster, ...]:
    """The clusters with as many prescribed velocities as can be among their independent ones."""
    rng = np.random.default_rng(0)
    states = [model.random_state(rng)[0] for _ in range(STATES if model.embedded else 0)]
    found = []
    for cluster in _families(model):
        first = prescribed[places_of(model, cluster)]
        if cluster.constraints and first.any():  # the choice that is farthest from singular in some state
            choices = []
            for q in states:
                A = _equations(model, cluster, q).astype(float)
                chosen, worst = _farthest(np.linalg.svd(A)[2][len(A) :].T, first)  # null space of the loops' Jacobian
                choices.append((int(first[list(chosen)].sum()), worst, chosen))
            cluster = replace(cluster, independent=max(choices)[2])
        found.append(cluster)
    return tuple(found)


def _families(model: Model) -> list[Cluster]:
    """The clusters, those that hang on several bodies of one another united."""
    found: dict[int, list[Cluster]] = {}
    for cluster in model.clusters:
        found.setdefault(cluster.family[0], []).append(cluster)
    merged = []
    for family in found.values():
        bodies = tuple(sorted(k for cluster in family for k in cluster.bodies))
        order = [int(c) for k in bodies for c in np.arange(model.nv_spanning)[model.joints[k].v_slice]]
        own = [places_of(model, cluster)[list(cluster.independent)] for cluster in family]
        independent = tuple(order.index(c) for c in sorted(np.concatenate(own).tolist(), key=order.index))
        starts = np.cumsum([0, *(cluster.count for cluster in family)])
        rows = tuple(int(start) + r for start, cluster in zip(starts, family) for r in cluster.rows)
        constraints = tuple(c for cluster in family for c in cluster.constraints)
        merged.append(family[0] if len(family) == 1 else Cluster(bodies, constraints, independent, rows, int(starts[-1])))
    return merged


def _farthest(rows: np.ndarray, first: np.ndarray) -> tuple[tuple[int, ...], float]:
    """As many rows as the matrix has columns, the `first` before others, each the farthest from the span of those before it.

    And how far the nearest of these is, relative to its length.
    """
    left, lengths = np.array(rows), np.linalg.norm(rows, axis=1)
    chosen: list[int] = []
    worst = 1.0
    for candidates in (np.flatnonzero(first), np.flatnonzero(~first)):
        for _ in candidates:
            far = np.linalg.norm(left[candidates], axis=1) / np.maximum(lengths[candidates], 1e-12)
            k = int(candidates[np.argmax(far)])
            if len(chosen) == rows.shape[1] or far.max() < 1e-6:
                break
            worst = min(worst, float(far.max()))
            chosen.append(k)
            direction = left[k] / np.linalg.norm(left[k])
            left = left - np.outer(left @ direction, direction)
    return tuple(sorted(chosen)), worst


def _equations(model: Model, cluster: Cluster, q: np.ndarray) -> np.ndarray:
    """A of a cluster's equations that are kept, (rows, velocities of its joints)."""
    if not cluster.constraints:
        return np.zeros((0, len(cluster.independent)))
    posture = cluster_posture(model, cluster.bodies, q)
    return all_equations(posture, cluster.constraints)[0][list(cluster.rows)]


def rows_of_G(nodes: ModelTree[Any], node: HingeNode, places: Sequence[int]) -> np.ndarray:
    """G of some velocities of the spanning tree, all of one node, (places, velocities of the node)."""
    rows: dict[int, np.ndarray] = {}
    for body in nodes.moving:
        rows |= zip(range(body.joint.v_slice.start, body.joint.v_slice.stop), body.G)
    found: Any = [rows[c] for c in places]
    return np.array(found, dtype=object).reshape(len(places), node.dofs.stop - node.dofs.start)
