"""Records of the sweeps of proximal constrained dynamics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.tree.articulated import Hinge
from linkwork.sko.contracts import HingeNode
from linkwork.spatial import Factor, any_nonzero


class Pending(NamedTuple):
    """Constraints whose multipliers are not eliminated yet: rows, K, (m, rows of the node), and L, (m, m).

    `ends` counts how many of the nodes that each constrains have been passed.
    """

    rows: list[int]
    K: np.ndarray
    L: np.ndarray
    ends: list[int]

    @classmethod
    def fresh(cls, rows: list[int], K: np.ndarray) -> Pending:
        """Return constraints on this node alone so far."""
        return cls(rows, K, np.zeros((len(rows), len(rows)), dtype=object), [1] * len(rows))

    @classmethod
    def begun(cls, K: np.ndarray | None, columns: int) -> Pending:
        """Return the rows of constraints on a node with `columns` rows, from K, (m, columns)."""
        rows = [] if K is None else [r for r in range(len(K)) if any_nonzero(K[r])]
        return cls.fresh(rows, np.zeros((0, columns), dtype=object) if K is None else K[rows])

    def at_hinge(self, H: np.ndarray, c: np.ndarray | None) -> tuple[Pending, np.ndarray]:
        """Return these with constraints c, (m, velocities), on the joint's velocities, and u = K H* + c."""
        if c is None:
            return self, self.K @ H.T
        rows = Pending.begun(c, 0).rows
        both = self.joined(Pending.fresh(rows, np.zeros((len(rows), self.K.shape[1]), dtype=object)))
        joint_rows = [
            c[r] if r < len(c) else np.zeros(c.shape[1]) for r in both.rows
        ]  # rows beyond are motions of nodes
        return both, both.K @ H.T + np.reshape(joint_rows, (len(joint_rows), c.shape[1]))

    def joined(self, other: Pending) -> Pending:
        """Return the constraints of both; a row that arrived on two paths becomes one again."""
        rows = [*self.rows, *(r for r in other.rows if r not in self.rows)]
        both = Pending.fresh(rows, np.zeros((len(rows), self.K.shape[1]), dtype=object))
        ends = dict.fromkeys(rows, 0)
        for part in (self, other):
            at = [rows.index(r) for r in part.rows]
            both.K[at] = both.K[at] + part.K
            both.L[np.ix_(at, at)] = both.L[np.ix_(at, at)] + part.L
            for r, passed in zip(part.rows, part.ends):
                ends[r] += passed
        return both._replace(ends=list(ends.values()))


class Eliminated(NamedTuple):
    """Multipliers eliminated at a node: λ(e) = W (K α + l(e) - L_eo λ(o)), W = (L_ee + R)⁻¹.

    Multipliers o are still pending.
    """

    e: list[int]
    o: list[int]
    K: np.ndarray
    L_eo: np.ndarray
    W: Factor


class Passed(NamedTuple):
    """Hinge of a node, and its coupling to the constraints pending there: u = K H* + c and u D⁻¹."""

    hinge: Hinge
    rows: list[int]
    u: np.ndarray
    uD: np.ndarray


class Massless(NamedTuple):
    """Velocities of a node that move mass, and massless ones, whose θ̈ are pending as these rows."""

    moving: list[int]
    loose: list[int]
    rows: list[int]


class Reflection(NamedTuple):
    """Householder reflection 1 - β w wᵀ of rows, after which a hinge's velocity moves only the first."""

    rows: list[int]
    w: np.ndarray
    beta: Any

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x - np.multiply.outer(self.w, self.beta * (self.w @ x))


class Inward(NamedTuple):
    """Results of an inward sweep for the outward one: ν = D⁻¹ ε at hinges, W l(e) at eliminations."""

    nu: dict[HingeNode, np.ndarray]
    Wl: dict[HingeNode, list[np.ndarray]]
