"""Constraints on the nodes of a mechanism: Σ K(k) α(k) + Σ c(k) θ̈(k) = k (Constrained Eq. 20c and 22)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from linkwork.algorithms.inverse_dynamics import accelerations
from linkwork.constraints import Constraint, Rows, rows_of
from linkwork.ir.functions import is_set, where
from linkwork.model import Model
from linkwork.simplify.rotors import lumped
from linkwork.simplify.trees import hinge_tree
from linkwork.sko.by_hand import Tree
from linkwork.sko.contracts import HingeNode
from linkwork.sko.inertias import BlockInertia, DenseInertia
from linkwork.sko.tree import TreeState
from linkwork.spatial import Inertia, filled, is_zero, mirrored


class ConstraintRows:
    """The rows of several constraints, m in all, by the nodes that they constrain.

    `K[k]`, (m, rows of k), and `c[k]`, (m, velocities of k), are given where they are not zero; `k`, (m,), is their right-hand
    side. `groups` are the places of each constraint's rows. `active`, (n,), says which of the first n constraints act: the rows
    of others become zero, by numbers and not by structure, so that one program is for any of them.
    """

    def __init__(
        self, nodes: TreeState[HingeNode], constraints: Sequence[Constraint], targets: Any = None, active: Any = None
    ) -> None:
        self._take(nodes, rows_of(nodes, constraints), targets, active)

    @classmethod
    def of(cls, nodes: TreeState[HingeNode], rows: Sequence[Rows]) -> ConstraintRows:
        """Rows that are made already."""
        held = cls.__new__(cls)
        held._take(nodes, rows)
        return held

    def _take(self, nodes: TreeState[HingeNode], found: Sequence[Rows], targets: Any = None, active: Any = None) -> None:
        starts = np.cumsum([0, *(len(rows.k) for rows in found)])
        self.nodes, self.m = nodes, int(starts[-1])
        self.groups = [range(a, b) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist())]
        self.K: dict[HingeNode, np.ndarray] = {}
        self.c: dict[HingeNode, np.ndarray] = {}
        self.k: Any = np.zeros(self.m, dtype=object)
        for group, rows in zip(self.groups, found):
            self._place(list(group), rows)
        if targets is not None:
            self.k = self.k + targets
        self._acting: np.ndarray | None = None  # a condition for each row; None where all act
        if active is not None:
            self._deactivate(active)

    def _deactivate(self, active: Any) -> None:
        self._acting = np.full(self.m, True, dtype=object)
        for group, flag in zip(self.groups, active):
            self._acting[list(group)] = is_set(flag)
        masked = self.scaled(where(self._acting, 1.0, 0.0))
        self.K, self.c, self.k = masked.K, masked.c, self.of_acting(self.k)

    def of_acting(self, x: np.ndarray) -> np.ndarray:
        """Numbers of rows, (m,), as they are for those that act, and zero for others whatever they are."""
        if self._acting is None:
            return x
        return np.array([y if is_zero(y) else where(acts, y, 0.0) for acts, y in zip(self._acting, x)], dtype=object)

    def _place(self, group: list[int], rows: Rows) -> None:
        self.k[group] = rows.k
        for k, block, K in rows.nodes:
            where = self.K.setdefault(k, np.zeros((self.m, k.rows), dtype=object))
            where[group, block] = where[group, block] + K
        for k, c in rows.hinges:
            where = self.c.setdefault(k, np.zeros((self.m, k.dofs.stop - k.dofs.start), dtype=object))
            where[group] = where[group] + c

    def scaled(self, factors: np.ndarray) -> ConstraintRows:
        """The same rows, each times a factor."""
        other = copy(self)
        other.k = self.k * factors
        other.K, other.c = ({k: (X.T * factors).T for k, X in of.items()} for of in (self.K, self.c))
        return other

    def jacobian(self) -> np.ndarray:
        """J with J θ̈ the part of the rows that θ̈ causes, (m, nv) (Constrained Eq. 22)."""
        J = np.zeros((self.m, self.nodes.nv), dtype=object)
        for k, c in self.c.items():
            J[:, k.dofs] = c
        for own in map(list, self.groups):
            ends = [k for k, K in self.K.items() if filled(K[own])]
            # what moves both ends of a loop as one rigid body is not felt: all below a node that hangs on one body
            shared = set.intersection(*(set(self.nodes.path_to_ground(k)) for k in ends)) if len(ends) > 1 else set()
            F: dict[HingeNode, Any] = {k: self.K[k][own].T for k in ends}  # Kᵀ of everything beyond a node
            for k in self.nodes.tips_to_base():
                if k not in F or (k in shared and k.rows == 6):
                    continue
                J[own, k.dofs] = J[own, k.dofs] + (k.H @ F[k]).T
                if k.parent is not self.nodes.ground and (k not in shared or k.supports > 1):
                    F[k.parent] = F.get(k.parent, 0.0) + k.A.gather(F[k])
        return J

    def at_rest(self) -> np.ndarray:
        """The residual of the rows where θ̈ = 0, (m,)."""
        total, beta = -self.k, accelerations(self.nodes, np.zeros(self.nodes.nv))
        for k in self.nodes.base_to_tips():  # in one order, whatever other constraints there are
            if k in self.K:
                total = total + self.K[k] @ beta[k]
        return total

    def residual(self, ddtheta: np.ndarray) -> np.ndarray:
        """J θ̈ + `at_rest`, (m,), by one sweep and without J."""
        total, alpha = -self.k, accelerations(self.nodes, ddtheta)
        for k in self.nodes.base_to_tips():
            if k in self.K:
                total = total + self.K[k] @ alpha[k]
            if k in self.c:
                total = total + self.c[k] @ ddtheta[k.dofs]
        return total

    def joint_forces(self, forces: np.ndarray) -> np.ndarray:
        """Jᵀ times the rows' forces, (nv,), by one sweep and without J."""
        T: Any = np.zeros(self.nodes.nv, dtype=object)
        F: dict[HingeNode, Any] = {k: K.T @ forces for k, K in self.K.items()}
        for k in self.nodes.tips_to_base():
            if k in self.c:
                T[k.dofs] = self.c[k].T @ forces
            if k in F:
                T[k.dofs] = T[k.dofs] + k.H @ F[k]
                if k.parent is not self.nodes.ground:
                    F[k.parent] = F.get(k.parent, 0.0) + k.A.gather(F[k])
        return T

    def stiffened(self, mu: np.ndarray) -> tuple[set[int], dict[HingeNode, list[Any]]]:
        """Kᵀ μ K of the rows that constrain a single body, for each node, and which rows these are."""
        several = {r for r in range(self.m) if sum(filled(K[r]) for K in (*self.K.values(), *self.c.values())) > 1}
        alone: set[int] = set()
        added: dict[HingeNode, list[Any]] = {}
        for k, K in self.K.items():
            for own in k.blocks.values():
                rows = [r for r in range(self.m) if r not in several and filled(K[r, own]) and only_there(K[r], own)]
                if rows:
                    added.setdefault(k, []).append(stiffness(k, own, K[rows, own], (K[rows, own].T * mu[rows]).T))
                    alone |= set(rows)
        return alone, added


def only_there(row: np.ndarray, own: slice) -> bool:
    """Whether a row is zero but for these columns."""
    return not filled(row[: own.start]) and not filled(row[own.stop :])


def stiffness(k: HingeNode, block: slice, K: np.ndarray, WK: np.ndarray) -> Inertia | BlockInertia | DenseInertia:
    """Kᵀ W K as an inertia of a block of node k, in the form that can be added to its own."""
    if isinstance(k.M, DenseInertia):
        matrix = np.zeros((k.rows, k.rows), dtype=object)
        matrix[block, block] = mirrored(K.T @ WK)
        return DenseInertia(matrix)
    felt = Inertia(*np.zeros((3, 3, 3))).without(-WK.T, K.T)
    return felt if isinstance(k.M, Inertia) else BlockInertia(block, felt, k.rows)


def nodes_for(
    model: Model | Tree, constraints: Sequence[Constraint], q: Any, v: Any = None, f_ext: Any = None, *, partition: bool = False
) -> TreeState[Any]:
    """The nodes of a model in one state; rotors that are constrained are bodies there, not single rows."""
    if isinstance(model, Tree):
        return model.state(q, v, f_ext)
    rotors = {k for k, each in enumerate(lumped(model)) if each.rotor}
    whole = any(k in rotors for constraint in constraints for k in constraint.bodies(model))
    return hinge_tree(model, q, v, f_ext, whole=whole, partition=partition)
