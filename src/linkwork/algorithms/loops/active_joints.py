"""Dynamics of constrained systems with active and passive joints (Lie Sec. 3), on the spanning tree.

    M q̈ + b = τ + Aᵀ λ,    A q̇ = 0
    (Lie Eq. 54, 55)

for all joints of the tree. Here λ is eliminated before anything is solved: with q̇ = G ẏ and Gᵀ Aᵀ = 0 what
is left are the equations of the clusters, and the recursive algorithms on nodes solve them. Equations couple
only joints of one cluster, so every choice between solutions decouples into one for each cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.loops.closing import (
    independent_force,
    places_of,
    spanning_acceleration,
    spanning_velocity,
)
from linkwork.algorithms.tree.hybrid_dynamics import hybrid_dynamics
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.compiler.ir.functions import sqrt
from linkwork.errors import ModelError
from linkwork.loops.clusters import Cluster, with_constraints
from linkwork.loops.elimination import Elimination
from linkwork.loops.embedding import tree_equations
from linkwork.loops.motion import all_equations, cluster_posture
from linkwork.model import GROUND, Model
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.prepare.trees import hinge_tree, tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial.solve import solve

STATES = 4  # closed configurations at which independent velocities are chosen
LOCKED_TOL = 1e-9  # velocity of a joint, relative to the fastest of its cluster, below which loops lock it


def least_squares(A: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return x with Aᵀ x = b and minimal Σ weights x², for A, (n, r), of rank r: (Aᵀ)† b (Lie Eq. 59).

    By orthogonal transformations of A: AᵀA would double the digits lost near singular states.
    """
    if len(A) == A.shape[1]:
        return solve(A.T, b)
    half = np.array([1.0 / sqrt(weight) for weight in weights], dtype=object)
    return half * Elimination(A * half[:, None]).solve_transposed(-np.asarray(b, dtype=object))


# 3.1 inverse dynamics


def actuator_force(
    nodes: ModelTree[Any], tau: np.ndarray, actuators: Sequence[int], weights: np.ndarray
) -> np.ndarray:
    """Return forces of actuators, (actuators,), at these tree velocities that are equivalent to tau.

    In each cluster Wᵀ x = tau with W the actuators' rows of G (Loops footnotes 3 and 5). With more actuators
    than needed the smallest active joint forces are taken (Lie Eq. 62, where N is the null space already
    omitted by G). A free base without actuators is skipped.
    """
    out: Any = np.zeros(len(actuators), dtype=object)
    all_dofs = np.arange(nodes.nv)
    position = {c: k for k, c in enumerate(actuators)}
    # by first velocity: clusters with several supports share the velocities of those below them
    families: dict[int, list[RigidBody]] = {}
    for body in nodes.bodies.values():
        for first_dof in all_dofs[body.dofs][:1]:
            families.setdefault(int(first_dof), []).append(body)
    for bodies in families.values():
        dofs = sorted({int(c) for body in bodies for c in all_dofs[body.dofs]})
        selected: list[int] = []
        W = np.zeros((0, nodes.nv), dtype=object)
        for body in bodies:
            for row, c in enumerate(range(body.joint.v_slice.start, body.joint.v_slice.stop)):
                if c in position:
                    selected.append(position[c])
                    W = np.vstack([W, np.zeros(nodes.nv, dtype=object)])
                    W[-1, body.dofs] = body.G[row]
        if not selected and [body.joint.nv for body in bodies] == [6] and bodies[0].joint.parent == GROUND:
            continue  # nothing drives a free base
        if not selected and all(body.joint.kind.elastic or not body.joint.nv for body in bodies):
            continue  # nor the modes of a flexible body
        if len(selected) < len(dofs):
            name = " + ".join(body.joint.name for body in bodies)
            raise ModelError(
                f"{name!r} has {len(dofs)} independent velocities but {len(selected)} actuators: it is "
                f"under-actuated"
            )
        out[selected] = least_squares(W[:, dofs], tau[dofs], weights[selected])
    return out


def tree_force(nodes: ModelTree[Any], ddq: np.ndarray, f_ext: np.ndarray | None) -> np.ndarray:
    """Return τ_r = M q̈ + b of the spanning tree without loops, (nv_spanning,)."""
    return inverse_dynamics(
        hinge_tree(nodes.model.spanning_tree(), nodes.q, spanning_velocity(nodes), f_ext), ddq
    )


def loop_forces(
    nodes: ModelTree[Any], ddy: np.ndarray, f_ext: np.ndarray | None, tau: np.ndarray | None
) -> np.ndarray:
    """Return λ of the equations in use, cluster by cluster, for forces tau of the spanning tree.

    A_pᵀ λ = τ_pr - τ_p at the dependent velocities (Lie Eq. 57); without tau the joints are passive. Where
    more equations are used than their rank, λ is the smallest: Lie Eq. 59 without weights.
    """
    model = nodes.model
    multipliers = [np.zeros(0)]
    if model.embedded:
        unbalanced = tree_force(nodes, spanning_acceleration(nodes, ddy), f_ext) - (
            0.0 if tau is None else tau
        )
        for cluster in reversed(model.clusters):
            if cluster.constraints:
                A = tree_equations(model, cluster, nodes.q)[0][list(cluster.used)]
                p = places_of(model, cluster)[cluster.dependent]
                multipliers.append(least_squares(A[:, p], unbalanced[p], np.ones(len(A))))
                unbalanced = (
                    unbalanced - A.T @ multipliers[-1]
                )  # for loops below, which may hold its supports
    return np.concatenate(multipliers[::-1])


# 3.2 and 3.3 forward and hybrid dynamics


class Active(NamedTuple):
    """Active joints of a cluster: velocities `u` in the spanning tree, independent ones `s` in the node."""

    cluster: Cluster
    node: HingeNode
    u: np.ndarray
    s: np.ndarray
    W: np.ndarray  # q̈_u = W ÿ_s + g_u


def spanning_hybrid_dynamics(
    nodes: ModelTree[Any],
    ddq: np.ndarray,
    tau: np.ndarray,
    f_ext: Any,
    prescribed: np.ndarray,
    minimize: str,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return q̈ and τ of all tree joints, with q̈_u given at `prescribed` velocities and τ_v elsewhere.

    The clusters are described by other independent velocities, as many of u as possible, so that (Lie Eq. 70,
    71) become the hybrid dynamics of a tree. With nothing prescribed this is forward dynamics (Lie Sec. 3.2).
    """
    model = nodes.model.with_clusters(with_active(nodes.model, prescribed))
    independent = [places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters]
    nodes = tree(
        model, nodes.q, spanning_velocity(nodes)[np.concatenate([*independent, []]).astype(int)], f_ext
    )
    active_clusters = []
    is_known = np.zeros(nodes.nv, dtype=bool)
    node_list: list[HingeNode] = list(nodes.base_to_tips())
    for cluster, node, dofs in zip(model.clusters, node_list, independent):
        indices = places_of(model, cluster)
        u = indices[prescribed[indices]]
        s = np.flatnonzero(prescribed[dofs])
        is_known[node.dofs] = prescribed[dofs]
        active_clusters.append(Active(cluster, node, u, s, rows_of_G(nodes, node, u)[:, s]))

    tau_v: Any = np.where(prescribed, 0.0, tau)
    ddy = np.zeros(nodes.nv, dtype=object)
    T = independent_force(nodes, tau_v)
    g = spanning_acceleration(nodes, np.zeros(nodes.nv))
    for (
        _,
        node,
        u,
        s,
        W,
    ) in active_clusters:  # where there are more than can be chosen: the nearest that loops allow
        ddy[node.dofs][s] = ddq[u] if len(u) == len(s) else Elimination(W).solve(g[u] - ddq[u])
    ddy, T_u = hybrid_dynamics(nodes, ddy, T, is_known)

    ddq = spanning_acceleration(nodes, ddy)
    tau_u = np.array(tau_v)
    if minimize == "torque":
        position = np.cumsum(prescribed) - 1  # among the prescribed ones
        for _, node, u, s, W in active_clusters:
            tau_u[u] = least_squares(W, (T_u - T)[node.dofs][s], weights[position[u]])
    else:
        tau_r = tree_force(nodes, ddq, f_ext)
        start = 0
        for cluster, _, u, _, _ in active_clusters:
            A = _equations(model, cluster, nodes.q)
            indices = places_of(model, cluster)
            p = [c for c in cluster.dependent if not prescribed[indices[c]]]
            lam = least_squares(
                A[:, p], (tau_r - tau_v)[indices[p]], weights[start : start + len(A)]
            )  # Lie Eq. 59, without N
            tau_u[u] = tau_r[u] - A[:, prescribed[indices]].T @ lam  # Lie Eq. 60
            start += len(A)
    return ddq, tau_u


def with_active(model: Model, prescribed: np.ndarray) -> tuple[Cluster, ...]:
    """Return the clusters with as many prescribed velocities as possible among their independent ones.

    Velocities are selected by nominal numbers; constraints are those of the model, whose numbers may be
    inputs.
    """
    return with_constraints(_select_independent(model.nominal, prescribed), model.embedded)


def _select_independent(model: Model, prescribed: np.ndarray) -> tuple[Cluster, ...]:
    """Return the clusters with prescribed velocities independent, by nominal numbers."""
    rng = np.random.default_rng(0)
    states = [model.random_state(rng)[0] for _ in range(STATES if model.embedded else 0)]
    clusters = []
    for cluster in _families(model):
        is_active = prescribed[places_of(model, cluster)]
        if cluster.constraints and is_active.any():  # the choice that is farthest from singular in some state
            choices = []
            for q in states:
                A = _equations(model, cluster, q).astype(float)
                columns, margin = _select_rows(
                    np.linalg.svd(A)[2][len(cluster.rows) :].T, is_active
                )  # null space of the loops' Jacobian
                choices.append((int(is_active[list(columns)].sum()), margin, columns))
            cluster = replace(cluster, independent=max(choices)[2])
        clusters.append(cluster)
    return tuple(clusters)


def _families(model: Model) -> list[Cluster]:
    """Return the clusters, merging those that share supports."""
    members: dict[int, list[Cluster]] = {}
    for cluster in model.clusters:
        members.setdefault(cluster.family[0], []).append(cluster)
    merged = []
    for family in members.values():
        bodies = tuple(sorted(k for cluster in family for k in cluster.bodies))
        order = [int(c) for k in bodies for c in np.arange(model.nv_spanning)[model.joints[k].v_slice]]
        velocities = [places_of(model, cluster)[list(cluster.independent)] for cluster in family]
        independent = tuple(
            order.index(c) for c in sorted(np.concatenate(velocities).tolist(), key=order.index)
        )
        starts = np.cumsum([0, *(cluster.count for cluster in family)])
        rows, used = (
            tuple(int(start) + r for start, velocities in zip(starts, every) for r in velocities)
            for every in ([cluster.rows for cluster in family], [cluster.used for cluster in family])
        )
        constraints = tuple(c for cluster in family for c in cluster.constraints)
        overdetermined = used if len(used) > len(rows) else ()
        union = Cluster(
            bodies, constraints, independent, rows, int(starts[-1]), overdetermined=overdetermined
        )
        merged.append(family[0] if len(family) == 1 else union)
    return merged


def _select_rows(rows: np.ndarray, preferred: np.ndarray) -> tuple[tuple[int, ...], float]:
    """Return as many rows as there are columns, `first` ones preferred, and their smallest relative distance.

    Each is the farthest from the span of those before it. Rows of joints that loops lock are zero but for
    rounding, and never selected.
    """
    remainder = np.array(rows)
    lengths = np.linalg.norm(rows, axis=1)
    lengths[lengths < LOCKED_TOL * lengths.max(initial=0.0)] = np.inf
    selected: list[int] = []
    smallest = 1.0
    for candidates in (np.flatnonzero(preferred), np.flatnonzero(~preferred)):
        for _ in candidates:
            distances = np.linalg.norm(remainder[candidates], axis=1) / lengths[candidates]
            k = int(candidates[np.argmax(distances)])
            if len(selected) == rows.shape[1] or distances.max() < 1e-6:
                break
            smallest = min(smallest, float(distances.max()))
            selected.append(k)
            direction = remainder[k] / np.linalg.norm(remainder[k])
            remainder = remainder - np.outer(remainder @ direction, direction)
    return tuple(sorted(selected)), smallest


def _equations(model: Model, cluster: Cluster, q: np.ndarray) -> np.ndarray:
    """Return A of a cluster's equations in use, (equations, velocities of its joints)."""
    if not cluster.constraints:
        return np.zeros((0, len(cluster.independent)))
    posture = cluster_posture(model, cluster.bodies, q)
    return all_equations(posture, cluster.constraints)[0][list(cluster.used)]


def rows_of_G(nodes: ModelTree[Any], node: HingeNode, indices: Sequence[int]) -> np.ndarray:
    """Return G of some velocities of the spanning tree, all of one node, (indices,
    velocities of the node).
    """
    rows: dict[int, np.ndarray] = {}
    for body in nodes.moving:
        rows |= zip(range(body.joint.v_slice.start, body.joint.v_slice.stop), body.G)
    selected: Any = [rows[c] for c in indices]
    return np.array(selected, dtype=object).reshape(len(indices), node.dofs.stop - node.dofs.start)
