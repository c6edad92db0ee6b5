"""Inverse dynamics of constrained systems with active and passive velocities (Lie Sec. 3.1).

    T = τ + Jᵀ λ,    T being inverse dynamics at the prescribed acceleration
    (Lie Eq. 54)

Forces τ act in active velocities a only. The passive ones, which include a free base, determine the
constraint forces, J_pᵀ λ = T_p (Eq. 57), and the active ones then need τ_a = T_a - J_aᵀ λ (Eq. 60). The
remaining freedom of λ, the null space of J_pᵀ, minimizes either λ or τ_a (Eq. 61 to 66). J need not have full
rank.

Where J_pᵀ λ cannot equal T_p, no such forces exist. Then the residual of T_p is minimal in the metric of the
inverse mass matrix M_pp: accelerations are as near to the prescribed ones as possible while active velocities
follow theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for, rounding_rows
from linkwork.algorithms.constrained.row_mobility import row_mobilities
from linkwork.algorithms.loops.active_joints import least_squares, rows_of_G, with_active
from linkwork.algorithms.loops.closing import spanning_acceleration, spanning_velocity
from linkwork.algorithms.loops.embed_all import independent_indices
from linkwork.algorithms.loops.embedded_derivatives import velocity_map
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.constraints import Constraint
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, any_nonzero, is_zero, mirrored

DEPENDENT_TOL = 1e-10  # independent part of a row's entry in J Jᵀ below which it depends on others
RIDGE = 1e-8  # of proximal steps to the least torques, relative to the trace of J Q Jᵀ
PROXIMAL_STEPS = 3
TINY = 1e-200  # avoids 0/0 in states where no actuator affects the constraints


class Forces(NamedTuple):
    """Forces of actuators, (actuators,), and of constraints, (m,), and the residual, (nv,)."""

    tau: np.ndarray
    forces: np.ndarray
    residual: np.ndarray


class Group(NamedTuple):
    """Actuators of one cluster: their indices, and the velocities y that they drive, ẏ_s = W⁺ q̇_u."""

    indices: list[int]
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
    minimize: str,
    weights: np.ndarray,
) -> Forces:
    """Return forces of actuators, at these velocities of the spanning tree, and of constraints, in a motion.

    `weights` are those of the minimized forces, of actuators or of constraints.
    """
    driven_model, independent, v, a, to_driven = _driven(model, actuators, q, v, a)
    nodes: Any = nodes_for(driven_model, constraints, q, v, f_ext)
    T = inverse_dynamics(nodes, a)
    rows = ConstraintRows(nodes, constraints)
    J = rows.jacobian()
    units = _row_units(model, constraints) if minimize == "torque" else np.ones(len(J))
    J = (J.T * units).T
    groups = _groups(nodes, independent, actuators)
    active = np.concatenate([group.s for group in groups])  # empty where loops lock all actuated joints
    passive = np.setdiff1d(np.arange(driven_model.nv), active)

    force_weights = np.asarray(weights) if minimize == "constraint_force" else np.ones(len(J))
    J_passive = J[:, passive]
    if to_driven is None:  # velocities are those of the model
        free = np.isin(np.arange(model.nv), passive)
        if rounding := rounding_rows(model, constraints, free):
            cleared = rows.cleared(rounding, model).jacobian()[:, passive]
            J_passive = (cleared.T * units).T
    passive_rows = PassiveRows(J_passive, mass_matrix(nodes)[np.ix_(passive, passive)], force_weights)
    lam = passive_rows.solve(T[passive])
    if minimize == "torque":
        metrics = [_metric(group.W, np.asarray(weights)[group.indices]) for group in groups]
        lam = _minimize_torque(passive_rows, lam, J[:, active], T[active], _block_diagonal(metrics))

    t = T - J.T @ lam
    tau: Any = np.zeros(len(actuators), dtype=object)
    for group in groups:
        group_weights = (
            np.asarray(weights)[group.indices] if minimize == "torque" else np.ones(len(group.indices))
        )
        tau[group.indices] = least_squares(group.W, t[group.s], group_weights)
    residual: Any = np.zeros(driven_model.nv, dtype=object)
    residual[passive] = t[passive]
    return Forces(tau, units * lam, residual if to_driven is None else to_driven.T @ residual)


def _driven(
    model: Model, actuators: Sequence[int], q: Any, v: Any, a: Any
) -> tuple[Model, Any, Any, Any, np.ndarray | None]:
    """Return the model with as many actuated velocities as possible independent, their indices, and v and a.

    The last result is the map from the model's own velocities to them, None if they are the same.
    """
    mask = np.zeros(model.nv_spanning, dtype=bool)
    mask[list(actuators)] = True
    default_indices = independent_indices(model)
    if not model.embedded or mask[default_indices].sum() == mask.sum():
        return model, default_indices, v, a, None
    nodes = tree(model, q, v)
    driven_model = model.with_clusters(with_active(model, mask))
    indices = independent_indices(driven_model)
    return (
        driven_model,
        indices,
        spanning_velocity(nodes)[indices],
        spanning_acceleration(nodes, a)[indices],
        velocity_map(nodes)[indices],
    )


def _groups(nodes: ModelTree[Any], selected: np.ndarray, actuators: Sequence[int]) -> list[Group]:
    """Return the actuators by the nodes that they drive."""
    joints = {
        c: joint for joint in nodes.model.joints for c in range(joint.v_slice.start, joint.v_slice.stop)
    }
    indices_of_node: dict[Any, list[int]] = {}
    for index, c in enumerate(actuators):
        indices_of_node.setdefault(nodes.node_of(joints[c].child), []).append(index)
    groups = []
    for node, indices in indices_of_node.items():
        dofs = list(range(*node.dofs.indices(nodes.nv)))
        velocities = [actuators[k] for k in indices]
        if set(velocities) <= set(selected[dofs]):
            groups.append(
                Group(
                    indices,
                    np.array([dofs[list(selected[dofs]).index(c)] for c in velocities]),
                    np.eye(len(velocities)),
                )
            )
        else:  # more actuators than DoF
            s = [k for k in dofs if selected[k] in velocities]
            W = rows_of_G(nodes, node, velocities)[:, [k - dofs[0] for k in s]]
            groups.append(Group(indices, np.array(s, dtype=int), W))
    return groups


def _row_units(model: Model, constraints: Sequence[Constraint]) -> np.ndarray:
    """Return factors, (m,), that give rows in m/s² and in rad/s² one unit: the root of a mass.

    Otherwise results would depend on the unit of length. One factor for all rows would change nothing.
    """
    mobilities = row_mobilities(model, constraints)
    if np.ptp(mobilities) == 0.0:
        return np.ones(len(mobilities))
    return 1.0 / np.sqrt(mobilities)


class PassiveRows:
    """Equations J_pᵀ λ = b of passive velocities, with minimal Σ weights λ².

    J_p is (m, passive) and M the mass matrix of the passive velocities.
    """

    def __init__(self, J: np.ndarray, M: np.ndarray, weights: np.ndarray) -> None:
        self.J = J
        self.scaled = (J.T / weights).T
        self.empty = J.shape[1] == 0
        if self.empty:
            return
        # velocities that move no mass have no metric: any will do
        unit_mass = np.diag([1.0 if is_zero(x) else 0.0 for x in np.diag(M)])
        self.M = Factor(M + unit_mass)
        self.delassus = Factor(mirrored(J @ self.M.solve(J.T)), dependent=DEPENDENT_TOL)
        self.S = Factor(mirrored(J.T @ self.scaled), dependent=DEPENDENT_TOL)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return λ of least Σ weights λ², (m,), among those with the least residual of b in the
        M⁻¹ metric.
        """
        if self.empty:
            return np.zeros(len(self.J), dtype=object)
        lam: Any = np.zeros(len(self.J), dtype=object)
        for _ in range(2):  # the second step corrects rounding
            reached = self.J.T @ self.delassus.solve(self.J @ self.M.solve(b - self.J.T @ lam))
            lam = lam + self.scaled @ self.S.solve(reached)
        return lam

    def projected(self, x: np.ndarray) -> np.ndarray:
        """Return the part of forces, (m,) or (m, columns), that passive velocities do not feel."""
        return x if self.empty else x - self.scaled @ self.S.solve(self.J.T @ x)


def _minimize_torque(
    passive_rows: PassiveRows, lam: np.ndarray, J: np.ndarray, T: np.ndarray, Q: np.ndarray
) -> np.ndarray:
    """Return λ + P z with minimal tᵀ Q t, t = T - Jᵀ λ, and among these minimal P z (Lie Eq. 64, P for N).

    Solved by proximal steps: where actuators do not feel z it stays zero.
    """
    m = len(J)
    if not any_nonzero(J):  # no actuator feels these constraints
        return lam
    P = passive_rows.projected(np.eye(m))
    A = P.T @ J
    trace = np.sum(J * (J @ Q))  # the trace of J Q Jᵀ; P may be zero but for rounding
    normal = Factor(mirrored(A @ Q @ A.T) + np.eye(m) * (RIDGE * trace + TINY))
    for _ in range(PROXIMAL_STEPS):
        lam = lam + P @ normal.solve(A @ (Q @ (T - J.T @ lam)))
    return lam


def _metric(W: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Q with tᵀ Q t = Σ weights x² of the least x with Wᵀ x = t."""
    if len(W) == W.shape[1]:  # the velocities are those of the actuators
        return np.diag(weights).astype(object)
    return Factor(mirrored(W.T @ (W / np.reshape(weights, (-1, 1))))).inverted()


def _block_diagonal(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the block-diagonal matrix of square parts."""
    out: Any = np.zeros((sum(map(len, parts)),) * 2, dtype=object)
    start = 0
    for part in parts:
        out[start : start + len(part), start : start + len(part)] = part
        start += len(part)
    return out
