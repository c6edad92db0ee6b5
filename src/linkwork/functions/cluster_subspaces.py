"""Public function of force subspaces of clusters: motion, active and constraint forces of a cluster joint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.loops.embed_all import embed_all
from linkwork.errors import ModelError, ShapeError
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko.prepare.trees import body_tree

RANK_TOL = 1e-9  # singular values relative to the largest below which a direction is in the null space


class ClusterSubspaces(NamedTuple):
    """Motion and force subspaces of a cluster joint of n bodies with m independent velocities.

    `bodies` are their names, `S` (6 n, m) the motion subspace, `active` Tᵃ (6 n, m) and `constraint` Tᶜ
    (6 n, 6 n - m) the force subspaces.
    """

    bodies: tuple[str, ...]
    S: np.ndarray
    active: np.ndarray
    constraint: np.ndarray


def cluster_subspaces(model: Model, q: Any, *, body: str) -> ClusterSubspaces:
    """Return motion and force subspaces of the cluster joint that moves a body (Loops Eq. 15 and 33).

    Parameters
    ----------
    q : array_like, shape (nq,)
        One configuration with closed loops.
    body : str
        Name of a body of the cluster.

    Returns
    -------
    ClusterSubspaces
        `bodies`, `S`, `active` and `constraint`; rows are [w, v] or [m, f] of the cluster's bodies, each in
        its own frame.

    Raises
    ------
    ModelError
        If a body of the cluster is flexible, or the cluster is supported by several bodies.
    ShapeError
        If q is not one configuration.

    Notes
    -----
    S maps the independent velocities of the cluster to the motions of its bodies relative to the body that
    supports it. The cluster joint transmits f = Tᵃ τ + Tᶜ λ with Sᵀ Tᵃ = 1 and Sᵀ Tᶜ = 0 (Eq. 22), so τ = Sᵀ
    f. Tᵃ takes the smallest forces of the tree joints, P = (Gᵀ)⁺. Tᶜ contains the constraint forces of the
    tree joints and the joint forces caused by loops, with a basis N of the null space, Gᵀ N = 0. Constrained
    loops are embedded.
    """
    if not isinstance(model, Model):
        raise ModelError(f"cluster_subspaces: first argument: expected a model, got {type(model).__name__}")
    state = np.asarray(q, dtype=float)
    if state.shape != (model.nq,):
        raise ShapeError(f"cluster_subspaces: expected q of shape ({model.nq},), got {state.shape}")
    embedded_model = embed_all(model)
    k = model.body(body).index
    nodes = body_tree(embedded_model, state)
    node: Any = nodes.node_of(k)
    cluster = next(cluster for cluster in embedded_model.clusters if k in cluster.bodies)
    n = 6 * len(cluster.bodies)
    if node.rows != n or len(cluster.supports) > 1:
        raise ModelError(
            f"cluster_subspaces: the cluster of {printable(body)!r} has flexible bodies or several supports: "
            "expected six rows per body and one support"
        )
    members = [nodes.bodies[i] for i in cluster.bodies]
    G = np.concatenate([np.asarray(member.G, dtype=float) for member in members])
    transmission = np.eye(n)  # forces across the cluster joint from those of tree joints (Eq. 28)
    for i, member in enumerate(members):
        if member.joint.parent in cluster.bodies:
            below = cluster.bodies.index(member.joint.parent)
            carried = np.array([member.X.gather(unit) for unit in np.eye(6)], dtype=float).T
            transmission[6 * below : 6 * below + 6, 6 * i : 6 * i + 6] = -carried
    active, constraint = zip(
        *(_joint_subspaces(np.asarray(member.joint_map, dtype=float)) for member in members)
    )
    active_forces = transmission @ _block_diagonal(active)
    null_space = np.linalg.svd(G.T)[2][np.linalg.matrix_rank(G, RANK_TOL) :].T
    S = np.asarray(node.H, dtype=float).T
    T_c = np.concatenate([transmission @ _block_diagonal(constraint), active_forces @ null_space], axis=1)
    return ClusterSubspaces(
        tuple(embedded_model.bodies[i].name for i in cluster.bodies),
        S,
        active_forces @ np.linalg.pinv(G.T),
        T_c,
    )


def _joint_subspaces(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Tᵃ and Tᶜ of a tree joint: Sᵀ Tᵃ = 1 and Sᵀ Tᶜ = 0."""
    return np.linalg.pinv(S).T, np.linalg.svd(S.T)[2][S.shape[1] :].T


def _block_diagonal(parts: Any) -> np.ndarray:
    """Return the block-diagonal matrix of parts with six rows each."""
    out = np.zeros((6 * len(parts), sum(part.shape[1] for part in parts)))
    column = 0
    for row, part in enumerate(parts):
        out[6 * row : 6 * row + 6, column : column + part.shape[1]] = part
        column += part.shape[1]
    return out
