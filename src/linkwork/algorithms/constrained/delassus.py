"""Delassus matrix Λ⁻¹ = J M⁻¹ Jᵀ and its damped inverse, by sweeps (Constrained Sec. VI, Alg. 5).

Constraints are propagated inward as rows K, and the response of joints to their forces is accumulated in L.
If more rows meet at a node than it has itself, it is cheaper to propagate the motion of the node
(Constrained: extended force propagators from one branching link in 𝒩 to the next, and Ω), and to multiply by
the rows afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.caba import eliminate_locally
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal_records import Pending
from linkwork.algorithms.constrained.proximal_tree import ProximalTree
from linkwork.algorithms.tree.articulated import Hinges, hinge
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.errors import ModelError
from linkwork.mechanism import Frame
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import Factor, any_nonzero, mirrored


class Branching(NamedTuple):
    """Node of 𝒩 whose rows K, (m, rows of the node), and L, (m, m), wait while its own motion is carried."""

    rows: list[int]
    K: np.ndarray
    L: np.ndarray
    motion: list[int]


Bases = list[tuple[np.ndarray, Factor]]
"""For each free base the rows' K there, (m, 6), and its inertia P."""


def compliance(
    constraint_rows: ConstraintRows,
    added: Mapping[HingeNode, Sequence[Any]] | None = None,
    *,
    apart: bool = False,
) -> tuple[np.ndarray, Bases]:
    """Return J M⁻¹ Jᵀ of all rows, (m, m) (PV-OSIMr), with inertias `added` to some nodes (cABA-OSIM).

    With `apart`, the part of free bases, K P⁻¹ Kᵀ, which couples all their branches (Constrained Eq. 41), is
    left out; it is returned separately in any case.
    """
    nodes = constraint_rows.nodes
    m = constraint_rows.m
    P_plus: dict[HingeNode, Any] = {}
    waiting: dict[HingeNode, Pending] = {}
    branchings: list[Branching] = []
    bases: list[tuple[Pending, Factor]] = []
    count = m  # of rows so far: those of the constraints, and those of branching nodes' motions
    for k in nodes.tips_to_base():
        P: Any = k.M
        for more in (added or {}).get(k, ()):
            P = P + more
        for j in nodes.children(k):
            P = P + j.A.congruence(P_plus[j])
        pending = Pending.begun(constraint_rows.K.get(k), k.rows)
        if k in waiting:
            pending = pending.joined(waiting.pop(k))
        free = (
            k.parent is nodes.ground and k.rows == 6 and k.H.shape == (6, 6) and not any_nonzero(k.armature)
        )
        if free and k not in constraint_rows.c:
            bases.append((pending, Factor(P.dense())))
            continue
        if len(pending.rows) > k.rows:
            motion = list(range(count, count + k.rows))
            count += k.rows
            branchings.append(Branching(pending.rows, pending.K, pending.L, motion))
            pending = Pending.fresh(motion, np.eye(k.rows).astype(object))
        P_plus[k], pending = eliminate_hinge(k, P, pending, constraint_rows.c.get(k))
        if pending.rows:
            waiting[k.parent] = waiting[k.parent].joined(pending) if k.parent in waiting else pending
    L = np.zeros((count, count), dtype=object)
    for pending in (*waiting.values(), *(pending for pending, _ in bases)):
        L[np.ix_(pending.rows, pending.rows)] = pending.L
    couplings: Bases = []
    for pending, P in bases:
        K = np.zeros((count, 6), dtype=object)
        K[pending.rows] = pending.K
        couplings.append((K, P))
    for rows, K, local_compliance, motion in reversed(branchings):  # Alg. 5, lines 13 to 18
        L[rows] = L[rows] + K @ L[motion]
        L[:, rows] = L[:, rows] + L[:, motion] @ K.T
        L[np.ix_(rows, rows)] = mirrored(L[np.ix_(rows, rows)] + local_compliance)
        for carried, _ in couplings:
            carried[rows] = carried[rows] + K @ carried[motion]
    L = mirrored(L[:m, :m])
    couplings = [(K[:m], P) for K, P in couplings]
    for K, P in () if apart else couplings:
        Y = P.half(K.T)
        L = L + mirrored(Y.T @ P.scaled(Y))
    return L, couplings


def eliminate_hinge(k: HingeNode, P: Any, pending: Pending, c: np.ndarray | None) -> tuple[Any, Pending]:
    """Return P⁺ of a node and the pending rows beyond its hinge."""
    _, H, D, G, P_plus = hinge(P, k.H, k.armature, k.name)
    pending, u = pending.at_hinge(H, c)
    rows, K, L, ends = pending
    if not rows:
        return P_plus, pending
    below = k.A.gather((K - u @ G.T).T).T
    return P_plus, Pending(rows, below, L + mirrored(D.solve(u.T).T @ u.T), ends)


def delassus(constraint_rows: ConstraintRows) -> np.ndarray:
    """Return Λ⁻¹ = J M⁻¹ Jᵀ, (m, m) (PV-OSIMr)."""
    return compliance(constraint_rows)[0]


def damped_inverse(constraint_rows: ConstraintRows, R: np.ndarray) -> np.ndarray:
    """Return (Λ⁻¹ + R)⁻¹, (m, m), by the matrix inversion lemma (cABA-OSIM: Constrained Eq. 40 and Alg. 5).

    Rows that constrain one body stiffen its inertia. The others, those of loops, are inverted as a block.
    """
    local_rows, added = constraint_rows.stiffened(1.0 / R)
    local = sorted(local_rows)
    shared = [r for r in range(constraint_rows.m) if r not in local_rows]
    mu = np.array([1.0 / R[r] if r in local_rows else 1.0 for r in range(constraint_rows.m)])
    Q, _ = compliance(constraint_rows.scaled(mu), added)
    inverse = np.zeros((constraint_rows.m, constraint_rows.m), dtype=object)
    inverse[np.ix_(local, local)] = np.diag(mu[local]) - Q[np.ix_(local, local)]
    if shared:
        S = Factor(Q[np.ix_(shared, shared)] + np.diag(R[shared]))  # the Schur complement of the loops' rows
        inverse[np.ix_(shared, shared)] = mirrored(S.solve(np.eye(len(shared))))
        inverse[np.ix_(shared, local)] = -S.solve(Q[np.ix_(shared, local)])
        inverse[np.ix_(local, shared)] = inverse[np.ix_(shared, local)].T
        inverse[np.ix_(local, local)] = inverse[np.ix_(local, local)] - mirrored(
            Q[np.ix_(local, shared)] @ inverse[np.ix_(shared, local)]
        )
    return inverse


def inverted(delassus: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return (Λ⁻¹ + R)⁻¹, (m, m), from Λ⁻¹ by a dense factorization."""
    return mirrored(Factor(delassus + np.diag(R)).solve(np.eye(len(R))))


def damped_inverse_at_base(constraint_rows: ConstraintRows, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return B, (m, m), and C, (m, 6 bases), with (Λ⁻¹ + R)⁻¹ = B - C Cᵀ (cABA-OSIMf: Constrained Eq. 41).

    B has blocks of branches only, so both together multiply a vector at lower cost than the dense matrix. C =
    0 on a fixed base.
    """
    mu = 1.0 / R
    local_rows, added = constraint_rows.stiffened(mu)
    if len(local_rows) < constraint_rows.m:
        raise ModelError(
            "constraints between two bodies, or in joints, cannot be separated from a free base: use "
            "damped_delassus_inverse"
        )
    L, bases = compliance(constraint_rows.scaled(mu), added, apart=True)
    return np.diag(mu) - L, np.concatenate(
        [P.root(K.T).T for K, P in bases] or [np.zeros((constraint_rows.m, 6))], axis=1
    )


def product(constraint_rows: ConstraintRows, R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return (Λ⁻¹ + R)⁻¹ x, (m,), without the matrix: the constraint forces for residuals x, by one inward
    and one outward sweep.
    """
    tree = ProximalTree(constraint_rows, R, eliminate_locally)
    lam = np.zeros(constraint_rows.m + len(tree.unknowns), dtype=object)
    ddtheta = np.zeros(constraint_rows.nodes.nv, dtype=object)
    inner = [k for k in constraint_rows.nodes.base_to_tips() if k in tree.active]
    swept = tree.inward(reversed(inner), np.array(x, dtype=object))
    tree.outward(inner, swept, {constraint_rows.nodes.ground: np.zeros(6)}, lam, ddtheta)
    return lam[: constraint_rows.m]


def force_propagator(nodes: TreeState[HingeNode], frame: Frame, to: Frame) -> np.ndarray:
    """Return ʲPᵢ of Constrained Sec. VI-A, (6, 6): a force on a frame as one on a frame that carries it.

    All joints between them are free.
    """
    start = nodes.pick_off(frame)
    end = nodes.pick_off(to)
    hinges = Hinges(nodes)
    for node in nodes.tips_to_base():
        hinges[node]
    X = start.force(np.eye(6))
    k = start.node
    while k is not end.node:
        _, H, _, G, _ = hinges[k]
        X = k.A.gather(X - G @ (H @ X))
        k = k.parent
    return end.force_of(X)


def by_factorisation(constraint_rows: ConstraintRows) -> np.ndarray:
    """Return Λ⁻¹ from the sparse factor of the mass matrix (LTL-OSIM)."""
    M = factorised(constraint_rows.nodes)
    Y = M.half(constraint_rows.jacobian().T)
    return mirrored(Y.T @ M.scaled(Y))
