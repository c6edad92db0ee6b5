"""Inverse dynamics of constrained systems with active and passive velocities (Lie Sec. 3.1), a free base included.

    T = τ + Jᵀ λ,    T being inverse dynamics at the prescribed acceleration                                        (Lie Eq. 54)

where forces τ act in active velocities a only. The passive ones, those of a free base among them, determine the constraint
forces, J_pᵀ λ = T_p (Eq. 57), and the active ones then need τ_a = T_a - J_aᵀ λ (Eq. 60). What is left of λ, the null space of
J_pᵀ, makes either λ or τ_a as small as can be (Eq. 61 to 66). J need not have full rank.

Where J_pᵀ λ cannot be T_p, there are no such forces. Then what is left of T_p is as small as can be in the metric of the
inverse mass matrix M_pp: accelerations are as near to the prescribed ones as can be while active velocities follow theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.active_joints import least_squares, rows_of_G, with_active
from linkwork.algorithms.closing import places_of, spanning_acceleration, spanning_velocity
from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.embedded_derivatives import velocity_map
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.mass_matrix import mass_matrix
from linkwork.constraints import Constraint
from linkwork.model import Model
from linkwork.simplify.trees import tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, filled, is_zero, mirrored

DEPENDENT = 1e-10  # a row's own part of its entry in J Jᵀ, below which it depends on others
RIDGE, STEPS = 1e-8, 3  # of the proximal steps to the least torques: the ridge relative to the trace of J Q Jᵀ
TINY = 1e-200  # what is not felt in one state divides zero by it


class Forces(NamedTuple):
    """Forces of actuators, (actuators,), and of constraints, (m,), and what neither supplies, (nv,)."""

    tau: np.ndarray
    forces: np.ndarray
    residual: np.ndarray


class Group(NamedTuple):
    """Actuators of one cluster: their places among all, and the velocities y that they drive: ẏ_s = W⁺ q̇_u."""

    places: list[int]
    s: np.ndarray
    W: np.ndarray


def constrained_inverse_dynamics(
    model: Model,
    constraints: Sequence[Constraint],
    actuators: Sequence[int],
    q: Any,
    v: Any,
    a: Any,
    f_ext: Any,
    least: str,
    weights: np.ndarray,
) -> Forces:
    """The forces of actuators at these velocities of the spanning tree, and of constraints, in a motion.

    `weights` are those of what shall be least: of the actuators' forces or of the constraints'.
    """
    own, chosen, v, a, back = _driven(model, actuators, q, v, a)
    nodes: Any = nodes_for(own, constraints, q, v, f_ext)
    T, J = inverse_dynamics(nodes, a), ConstraintRows(nodes, constraints).jacobian()
    groups = _groups(nodes, chosen, actuators)
    active = np.concatenate([group.s for group in groups])
    passive = np.setdiff1d(np.arange(own.nv), active)

    of_forces = np.asarray(weights) if least == "constraint_force" else np.ones(len(J))
    held = Held(J[:, passive], mass_matrix(nodes)[np.ix_(passive, passive)], of_forces)
    lam = held.least(T[passive])
    if least == "torque":
        of_torques = [_metric(group.W, np.asarray(weights)[group.places]) for group in groups]
        lam = _with_least_torque(held, lam, J[:, active], T[active], _in_blocks(of_torques))

    t = T - J.T @ lam
    tau: Any = np.zeros(len(actuators), dtype=object)
    for group in groups:
        own_weights = np.asarray(weights)[group.places] if least == "torque" else np.ones(len(group.places))
        tau[group.places] = least_squares(group.W, t[group.s], own_weights)
    left: Any = np.zeros(own.nv, dtype=object)
    left[passive] = t[passive]
    return Forces(tau, lam, left if back is None else back.T @ left)


def _driven(model: Model, actuators: Sequence[int], q: Any, v: Any, a: Any) -> tuple[Model, Any, Any, Any, np.ndarray | None]:
    """The model with as many actuated velocities as can be among its independent ones, and which those are; v and a of them.

    And the map from the model's own velocities to them, None where they are the same.
    """
    mask = np.zeros(model.nv_spanning, dtype=bool)
    mask[list(actuators)] = True
    usual = _independent(model)
    if not model.embedded or mask[usual].sum() == mask.sum():
        return model, usual, v, a, None
    nodes = tree(model, q, v)
    other = model.with_clusters(with_active(model.structure, mask))
    chosen = _independent(other)
    return other, chosen, spanning_velocity(nodes)[chosen], spanning_acceleration(nodes, a)[chosen], velocity_map(nodes)[chosen]


def _independent(model: Model) -> np.ndarray:
    """The places of independent velocities in the spanning tree."""
    found = [places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters if cluster.independent]
    return np.concatenate([*found, []]).astype(int)


def _groups(nodes: ModelTree[Any], chosen: np.ndarray, actuators: Sequence[int]) -> list[Group]:
    """The actuators by the nodes that they drive."""
    joints = {c: joint for joint in nodes.model.joints for c in range(joint.v_slice.start, joint.v_slice.stop)}
    found: dict[Any, list[int]] = {}
    for place, c in enumerate(actuators):
        found.setdefault(nodes.node_of(joints[c].child), []).append(place)
    groups = []
    for node, places in found.items():
        own, of = list(range(*node.dofs.indices(nodes.nv))), [actuators[k] for k in places]
        if set(of) <= set(chosen[own]):
            groups.append(Group(places, np.array([own[list(chosen[own]).index(c)] for c in of]), np.eye(len(of))))
        else:  # more than there are freedoms
            s = [k for k in own if chosen[k] in of]
            groups.append(Group(places, np.array(s), rows_of_G(nodes, node, of)[:, [k - own[0] for k in s]]))
    return groups


class Held:
    """J_pᵀ λ = b for the passive velocities: J_p is (m, passive), M their mass matrix; Σ weights λ² is least."""

    def __init__(self, J: np.ndarray, M: np.ndarray, weights: np.ndarray) -> None:
        self.J, self.scaled = J, (J.T / weights).T
        self.empty = J.shape[1] == 0
        if self.empty:
            return
        still = np.diag([1.0 if is_zero(x) else 0.0 for x in np.diag(M)])  # what moves no mass has no metric: any will do
        self.M = Factor(M + still)
        self.delassus = Factor(mirrored(J @ self.M.solve(J.T)), dependent=DEPENDENT)
        self.S = Factor(mirrored(J.T @ self.scaled), dependent=DEPENDENT)

    def least(self, b: np.ndarray) -> np.ndarray:
        """λ of the least Σ weights λ² among those that leave the least of b, in the metric of M⁻¹, (m,)."""
        if self.empty:
            return np.zeros(len(self.J), dtype=object)
        lam: Any = np.zeros(len(self.J), dtype=object)
        for _ in range(2):  # the second takes away what rounding left
            reached = self.J.T @ self.delassus.solve(self.J @ self.M.solve(b - self.J.T @ lam))
            lam = lam + self.scaled @ self.S.solve(reached)
        return lam

    def projected(self, x: np.ndarray) -> np.ndarray:
        """The part of forces, (m,) or (m, columns), that passive velocities do not feel."""
        return x if self.empty else x - self.scaled @ self.S.solve(self.J.T @ x)


def _with_least_torque(held: Held, lam: np.ndarray, J: np.ndarray, T: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """λ + P z with the least tᵀ Q t of t = T - Jᵀ λ, and among these the least P z (Lie Eq. 64, with P for N).

    By proximal steps: where actuators do not feel z there is nothing to solve for, and it stays zero.
    """
    m = len(J)
    if not filled(J):  # no actuator feels these constraints
        return lam
    P = held.projected(np.eye(m))
    A, size = P.T @ J, np.sum(J * (J @ Q))  # the trace of J Q Jᵀ; P may be zero but for rounding
    solved = Factor(mirrored(A @ Q @ A.T) + np.eye(m) * (RIDGE * size + TINY))
    for _ in range(STEPS):
        lam = lam + P @ solved.solve(A @ (Q @ (T - J.T @ lam)))
    return lam


def _metric(W: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Q with tᵀ Q t = Σ weights x² of the least x with Wᵀ x = t."""
    if len(W) == W.shape[1]:  # the velocities are those of the actuators
        return np.diag(weights).astype(object)
    return Factor(mirrored(W.T @ (W / np.reshape(weights, (-1, 1))))).inverted()


def _in_blocks(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The block diagonal matrix of square parts."""
    out: Any = np.zeros((sum(map(len, parts)),) * 2, dtype=object)
    start = 0
    for part in parts:
        out[start : start + len(part), start : start + len(part)] = part
        start += len(part)
    return out
