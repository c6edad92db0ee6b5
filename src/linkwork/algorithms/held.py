"""Constraints on the nodes of a mechanism: Σ K(k) α(k) + Σ c(k) θ̈(k) = k (Constrained Eq. 20c and 22)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from linkwork.algorithms.inverse_dynamics import accelerations
from linkwork.constraints import Constraint, Rows, Scene
from linkwork.model.model import Model
from linkwork.model.nodes import Node, Nodes
from linkwork.model.weights import At
from linkwork.spatial import Inertia, is_zero


class Held:
    """The rows of several constraints, m in all, by the nodes that they take hold of.

    `K[k]`, (m, rows of k), and `c[k]`, (m, velocities of k), are given where they are not zero; `k`, (m,), is what they must
    give. `groups` are the places of each constraint's rows.
    """

    def __init__(self, nodes: Nodes, constraints: Sequence[Constraint], targets: Any = None) -> None:
        scene = Scene(nodes)
        found = [constraint.equations(nodes.model, scene) for constraint in constraints]
        starts = np.cumsum([0, *(len(rows.k) for rows in found)])
        self.nodes, self.m = nodes, int(starts[-1])
        self.groups = [range(a, b) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist())]
        self.K: dict[Node, np.ndarray] = {}
        self.c: dict[Node, np.ndarray] = {}
        self.k: Any = np.zeros(self.m, dtype=object)
        for group, rows in zip(self.groups, found):
            self._place(list(group), rows)
        if targets is not None:
            self.k = self.k + targets

    def _place(self, group: list[int], rows: Rows) -> None:
        self.k[group] = rows.k
        for body, K in rows.bodies:
            k = self.nodes.holder(body)
            where = self.K.setdefault(k, np.zeros((self.m, k.rows), dtype=object))
            columns = slice(6 * body.seat, 6 * body.seat + 6)
            where[group, columns] = where[group, columns] + K
        for joint, c in rows.joints:
            body = self.nodes.bodies[joint]
            k = self.nodes.holder(body)
            where = self.c.setdefault(k, np.zeros((self.m, k.dofs.stop - k.dofs.start), dtype=object))
            where[group] = where[group] + c @ body.G
            self.k[group] = self.k[group] - c @ body.g

    def scaled(self, factors: np.ndarray) -> Held:
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
            # what moves both ends of a loop as one does not matter to it: all below a node that stands on one body
            shared = set.intersection(*(set(self.nodes.down(k)) for k in ends)) if len(ends) > 1 else set()
            F: dict[Node, Any] = {k: self.K[k][own].T for k in ends}  # Kᵀ of everything beyond a node
            for k in self.nodes.tips_to_base():
                if k not in F or (k in shared and k.rows == 6):
                    continue
                J[own, k.dofs] = J[own, k.dofs] + (k.H @ F[k]).T
                if k.parent is not self.nodes.ground and (k not in shared or k.feet > 1):
                    F[k.parent] = F.get(k.parent, 0.0) + k.A.gather(F[k])
        return J

    def at_rest(self) -> np.ndarray:
        """What the rows have too much where θ̈ = 0, (m,)."""
        total, beta = -self.k, accelerations(self.nodes, np.zeros(self.nodes.nv))
        for k, K in self.K.items():
            total = total + K @ beta[k]
        return total

    def stiffened(self, mu: np.ndarray) -> tuple[set[int], dict[Node, list[Any]]]:
        """Kᵀ μ K of the rows that take hold of a single body, for each node, and which rows these are."""
        several = {r for r in range(self.m) if sum(filled(K[r]) for K in (*self.K.values(), *self.c.values())) > 1}
        alone: set[int] = set()
        added: dict[Node, list[Any]] = {}
        for k, K in self.K.items():
            for seat in range(k.rows // 6):
                own = slice(6 * seat, 6 * seat + 6)
                rows = [r for r in range(self.m) if r not in several and filled(K[r, own]) and only_there(K[r], own)]
                if rows:
                    added.setdefault(k, []).append(stiffness(k.M, seat, K[rows, own], (K[rows, own].T * mu[rows]).T))
                    alone |= set(rows)
        return alone, added


def filled(x: np.ndarray) -> bool:
    """Whether any entry is not zero by structure."""
    return not all(is_zero(y) for y in x.ravel())


def only_there(row: np.ndarray, own: slice) -> bool:
    """Whether a row takes hold of nothing but these columns."""
    return not filled(row[: own.start]) and not filled(row[own.stop :])


def stiffness(P: Any, seat: int, K: np.ndarray, WK: np.ndarray) -> Inertia | At:
    """Kᵀ W K as an inertia of the body in a seat, in the form that can be added to P."""
    felt = Inertia(*np.zeros((3, 3, 3))).without(-WK.T, K.T)
    return felt if isinstance(P, Inertia) else At(seat, felt)


def nodes_for(model: Model, constraints: Sequence[Constraint], q: Any, v: Any = None, f_ext: Any = None) -> Nodes:
    """The nodes of a model in one state; rotors that constraints take hold of are bodies there, not single rows."""
    whole = any(model.lumped[k][1] for constraint in constraints for k in constraint.bodies(model))
    return Nodes(model, q, v, f_ext, whole=whole, bodies=model.regrouped)
