"""Constrained dynamics by sweeps over the nodes, with the constraints' multipliers eliminated where they can be.

The augmented Lagrangian of Gauss' principle (Constrained Eq. 25 and 26) is quadratic in the accelerations α and the
constraints' forces λ, so that both may be eliminated in any order. An inward sweep carries at every node an inertia P, a force
z, and the constraints beyond it that are pending:

    f = P α + z + Kᵀ λ,        K α + l - L λ - R (λ - λ⁰) = 0,

with R = 1/μ, or any diagonal compliance (Constrained Remark 2). Passing a hinge eliminates θ̈ (Constrained Alg. 4, lines 6 to
11). Eliminating λ at a node adds Kᵀ (L + R)⁻¹ K to its inertia. Where that is done is the only difference between
constrainedABA and the proximal PV solver: at the constrained node itself, where L = 0, or at the base. A constraint between two
bodies is pending from both of them to where the two paths meet, so that its cost grows with the length of its loop.

A velocity that moves no mass, such as that of a massless rod in a loop, has D = 0, and cannot be eliminated at its hinge. There
P H* = 0, so that its equation is one of the constraints' forces alone, u* λ = ε, and θ̈ is its multiplier: it is pending with
them, with K = 0, l = -ε and -u in L, and eliminated after the λ that it determines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.articulated import Hinge, hinge, massless
from linkwork.algorithms.constraint_rows import ConstraintRows, only_there, stiffness
from linkwork.algorithms.inverse_dynamics import accelerations
from linkwork.errors import ModelError
from linkwork.ir.functions import sqrt, where
from linkwork.ir.symbol import is_number
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import Factor, filled, is_zero, mirrored

EliminateAt = Callable[
    [TreeState[HingeNode], HingeNode], bool
]  # whether pending multipliers are eliminated at a node, if they can be


class Pending(NamedTuple):
    """Constraints whose multipliers are not eliminated yet: their rows, K, (m, rows of the node), and L, (m, m).

    `ends` counts how many of the nodes that each constrains have been passed.
    """

    rows: list[int]
    K: np.ndarray
    L: np.ndarray
    ends: list[int]

    @classmethod
    def fresh(cls, rows: list[int], K: np.ndarray) -> Pending:
        """Constraints on this node alone so far."""
        return cls(rows, K, np.zeros((len(rows), len(rows)), dtype=object), [1] * len(rows))

    @classmethod
    def begun(cls, K: np.ndarray | None, columns: int) -> Pending:
        """The rows of constraints on a node of so many rows, by K, (m, rows)."""
        rows = [] if K is None else [r for r in range(len(K)) if filled(K[r])]
        return cls.fresh(rows, np.zeros((0, columns), dtype=object) if K is None else K[rows])

    def at_hinge(self, H: np.ndarray, c: np.ndarray | None) -> tuple[Pending, np.ndarray]:
        """With the constraints on the joint's own velocities, c, (m, velocities), and u = K H* + c of all."""
        if c is None:
            return self, self.K @ H.T
        begun = Pending.begun(c, 0).rows
        both = self.joined(Pending.fresh(begun, np.zeros((len(begun), self.K.shape[1]), dtype=object)))
        own = [c[r] if r < len(c) else np.zeros(c.shape[1]) for r in both.rows]  # rows beyond are motions of nodes
        return both, both.K @ H.T + np.reshape(own, (len(own), c.shape[1]))

    def joined(self, other: Pending) -> Pending:
        """Those of both; a row that came on two paths is one again."""
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
    """Multipliers eliminated at a node: λ(e) = W (K α + l(e) - L_eo λ(o)) with W = (L_ee + R)⁻¹, o being still pending."""

    e: list[int]
    o: list[int]
    K: np.ndarray
    L_eo: np.ndarray
    W: Factor


class Passed(NamedTuple):
    """A node's hinge, and its coupling to the constraints that are pending there: u = K H* + c and u D⁻¹."""

    hinge: Hinge
    rows: list[int]
    u: np.ndarray
    uD: np.ndarray


class Massless(NamedTuple):
    """The velocities of a node that move mass, and those that move none, whose θ̈ are pending as these rows."""

    moving: list[int]
    loose: list[int]
    rows: list[int]


class Reflection(NamedTuple):
    """A Householder reflection 1 - β w wᵀ of pending rows, after which a hinge's one velocity moves only the first of them."""

    rows: list[int]
    w: np.ndarray
    beta: Any

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x - np.multiply.outer(self.w, self.beta * (self.w @ x))


class Inward(NamedTuple):
    """What an inward sweep leaves for the outward one: ν = D⁻¹ ε at hinges, W l(e) where forces were eliminated."""

    nu: dict[HingeNode, np.ndarray]
    Wl: dict[HingeNode, list[np.ndarray]]


class ProximalTree:
    """A mechanism with constraints, factorised by one inward sweep; `at` says at which nodes multipliers are eliminated.

    `early`: moreover a hinge of one velocity, which determines one combination of the rows that are pending there, lets that
    one be eliminated behind it (PV-early).
    `active` are the nodes between those and the ground: what further proximal iterations change comes only from these.
    `unknowns` are the joints of velocities that move no mass, by name: behind the m rows of λ, there is one for each.
    """

    def __init__(self, held: ConstraintRows, R: np.ndarray, at: EliminateAt, *, early: bool = False) -> None:
        self.nodes, self.held, self.R, self.early = held.nodes, held, R, early
        self.reflections: dict[HingeNode, Reflection] = {}
        self.massless: dict[HingeNode, Massless] = {}
        self.unknowns: list[str] = []
        self._decided: set[int] = set()
        self.passed: dict[HingeNode, Passed] = {}
        self.eliminated: dict[HingeNode, list[Eliminated]] = {}
        self._ends = [sum(filled(K[r]) for K in (*held.K.values(), *held.c.values())) for r in range(held.m)]
        # with no compliance, the paths of what holds a body to the ground meet there
        self._ends = [n + (n == 1 and is_zero(R[r])) for r, n in enumerate(self._ends)]
        P_plus: dict[HingeNode, Any] = {}
        waiting: dict[HingeNode, Pending] = {}
        for k in self.nodes.tips_to_base():
            P: Any = k.M
            for j in self.nodes.children(k):
                P = P + j.A.congruence(P_plus[j])
            pending = Pending.begun(self.held.K.get(k), k.rows)
            if k in waiting:
                pending = pending.joined(waiting.pop(k))
            P, pending = self._eliminate(k, P, pending, self._complete(pending) if at(self.nodes, k) else self._decided)
            P_plus[k], pending = self._pass(k, P, pending)
            if pending.rows:
                waiting[k.parent] = waiting[k.parent].joined(pending) if k.parent in waiting else pending
        ground = self.nodes.ground
        if ground in waiting:
            pending = waiting[ground]
            self.eliminated[ground] = [self._solved(pending, list(range(len(pending.rows))))[0]]
        self.active: set[HingeNode] = {i for k in self.eliminated for i in self.nodes.path_to_ground(k)}

    def _eliminate(self, k: HingeNode, P: Any, pending: Pending, ready: set[int]) -> tuple[Any, Pending]:
        """Eliminate the multipliers of rows that are ready, body by body: P takes no more at once."""
        for own in k.blocks.values():
            done = [i for i, r in enumerate(pending.rows) if r in ready and only_there(pending.K[i], own)]
            done += self._determined(pending, done, own) if self.unknowns else []
            if done:
                gone, pending = self._solved(pending, done)
                self.eliminated.setdefault(k, []).append(gone)
                P = P + stiffness(k, own, gone.K[:, own], gone.W.solve(gone.K[:, own]))  # Kᵀ W K
        return P, pending

    def _complete(self, pending: Pending) -> set[int]:
        """The rows of constraints of which all nodes have been passed."""
        here = dict(zip(pending.rows, pending.ends))
        return {r for group in self.held.groups if all(here.get(r) == self._ends[r] for r in group) for r in group}

    def _determined(self, pending: Pending, done: list[int], own: slice) -> list[int]:
        """The places of pending θ̈ that act, with rows that are eliminated, on no others."""
        loose = [i for i, r in enumerate(pending.rows) if r >= self.held.m and only_there(pending.K[i], own)]
        acts = {i: [j for j in range(len(pending.rows)) if not is_zero(pending.L[i, j])] for i in loose}
        return [i for i in loose if acts[i] and all(j == i or j in done for j in acts[i])]

    def _solved(self, pending: Pending, done: list[int]) -> tuple[Eliminated, Pending]:
        rows, K, L, ends = pending
        done = sorted(done, key=lambda i: (rows[i] < self.held.m, i))  # λ is eliminated first, the last before others
        left = [i for i in range(len(rows)) if i not in done]
        L_eo = L[np.ix_(done, left)]
        R = [self.R[rows[i]] if rows[i] < self.held.m else 0.0 for i in done]
        try:
            W = Factor(mirrored(L[np.ix_(done, done)]) + np.diag(R))
        except ZeroDivisionError:
            name = next(self.unknowns[rows[i] - self.held.m] for i in done if rows[i] >= self.held.m)
            raise massless(name) from None
        WL = W.solve(L_eo)
        gone = Eliminated([rows[i] for i in done], [rows[i] for i in left], K[done], L_eo, W)
        K_left, L_left = K[left] - WL.T @ K[done], L[np.ix_(left, left)] - mirrored(L_eo.T @ WL)
        return gone, Pending(gone.o, K_left, L_left, [ends[i] for i in left])

    def _pass(self, k: HingeNode, P: Any, pending: Pending) -> tuple[Any, Pending]:
        """Eliminate a node's θ̈ (Constrained Alg. 4, lines 6 to 10)."""
        try:
            joint = hinge(P, k.H, k.armature, k.name)
        except ModelError as told:  # it moves no mass
            return self._pass_massless(k, P, pending, told)
        pending, u = pending.at_hinge(joint.H, self.held.c.get(k))
        rows, K, L, ends = pending
        if self.early and u.shape[1] == 1:
            K, L, u = self._reflect(k, pending, u)
        uD = joint.D.solve(u.T).T
        self.passed[k] = Passed(joint, rows, u, uD)
        below = k.A.gather((K - u @ joint.G.T).T).T if rows else np.zeros((0, k.parent.rows))
        return joint.P_plus, Pending(rows, below, L + mirrored(uD @ u.T), ends)

    def _pass_massless(self, k: HingeNode, P: Any, pending: Pending, told: ModelError) -> tuple[Any, Pending]:
        """The same where some of θ̈ move no mass: these stay pending, the others are eliminated."""
        felt = P @ k.H.T
        loose = [i for i in range(len(k.H)) if is_zero((k.H[i] @ felt[:, i]) + k.armature[i, i])]
        moving = [i for i in range(len(k.H)) if i not in loose]
        if not loose or filled(felt[:, loose]) or filled(k.armature[loose]):
            raise told
        joint = hinge(P, k.H[moving], k.armature[moving][:, moving], k.name)
        pending, u = pending.at_hinge(k.H, self.held.c.get(k))
        n, first = len(pending.rows), self.held.m + len(self.unknowns)
        rows = [*pending.rows, *range(first, first + len(loose))]
        self.massless[k] = Massless(moving, loose, rows[n:])
        self.unknowns += [k.name] * len(loose)
        wide = Pending.fresh(rows, np.zeros((len(rows), k.rows), dtype=object))
        wide.K[:n], wide.L[:n, :n] = pending.K, pending.L
        wide.L[:n, n:], wide.L[n:, :n] = -u[:, loose], -u[:, loose].T
        u = np.concatenate([u[:, moving], np.zeros((len(loose), len(moving)), dtype=object)])
        uD = joint.D.solve(u.T).T
        self.passed[k] = Passed(joint, rows, u, uD)
        below = k.A.gather((wide.K - u @ joint.G.T).T).T
        return joint.P_plus, Pending(rows, below, wide.L + mirrored(uD @ u.T), [*pending.ends, *[0] * len(loose)])

    def _reflect(self, k: HingeNode, pending: Pending, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reflect the complete rows so that a hinge's velocity moves the first of them alone."""
        rows, K, L, _ = pending
        complete = self._complete(pending)
        alike = [i for i, r in enumerate(rows) if r in complete and filled(u[i])]
        alike = [i for i in alike if _same(self.R[rows[i]], self.R[rows[alike[0]]])]
        if len(alike) > 1:
            K, L, u = K.copy(), L.copy(), u.copy()
            length = sqrt(u[alike, 0] @ u[alike, 0])
            away = where(u[alike[0], 0] < 0.0, -length, length)  # the sign that avoids cancellation
            w = np.array([u[alike[0], 0] + away, *u[alike[1:], 0]])
            square = w @ w
            reflection = Reflection(
                [rows[i] for i in alike], w, where(square > 0.0, 2.0 / where(square > 0.0, square, 1.0), 0.0)
            )
            self.reflections[k] = reflection
            K[alike] = reflection(K[alike])
            if filled(L[alike]):
                L[alike] = reflection(L[alike])
                L[:, alike] = reflection(L[:, alike].T).T
            u[alike] = 0.0
            u[alike[0], 0] = -away
        self._decided |= {rows[i] for i in alike[:1]}
        return K, L, u

    def inward(self, over: Iterable[HingeNode], l: np.ndarray, T: np.ndarray | None = None) -> Inward:
        """The inward sweep for rows l, (m,); with the motion's own forces where T is given.

        Without, it is the response to a change of l alone. α is counted from β, what it is where θ̈ = 0, and l from there too.
        """
        l = np.concatenate([l, np.zeros(len(self.unknowns))])
        beta = {} if T is None else accelerations(self.nodes, np.zeros(self.nodes.nv))
        z_plus: dict[HingeNode, np.ndarray] = {}
        nu: dict[HingeNode, np.ndarray] = {}
        Wl: dict[HingeNode, list[np.ndarray]] = {}
        for k in over:
            z: Any = np.zeros(k.rows) if T is None else k.hinge_force(beta[k])
            for j in self.nodes.children(k):
                if j in z_plus:
                    z = z + j.A.gather(z_plus[j])
            for e, o, K, L_eo, W in self.eliminated.get(k, ()):
                Wl.setdefault(k, []).append(W.solve(l[e]))
                z = z + K.T @ Wl[k][-1]
                l[o] = l[o] - L_eo.T @ Wl[k][-1]
            self.reflect([k], l)
            (_, H, D, G, _), rows, u, _ = self.passed[k]
            if k in self.massless:
                moving, loose, own = self.massless[k]
                every = -(k.H @ z) if T is None else T[k.dofs] - k.passive_force - k.H @ z
                eps, l[own] = every[moving], -every[loose]
            else:
                eps = -(H @ z) if T is None else T[k.dofs] - k.passive_force - H @ z
            nu[k] = D.solve(eps)
            z_plus[k] = z + G @ eps
            l[rows] = l[rows] + u @ nu[k]
        ground = self.nodes.ground
        for gone in self.eliminated.get(ground, ()):
            Wl[ground] = [gone.W.solve(l[gone.e])]
        return Inward(nu, Wl)

    def outward(
        self, over: Iterable[HingeNode], swept: Inward, alpha: dict[HingeNode, np.ndarray], lam: np.ndarray, ddtheta: Any
    ) -> None:
        """The outward sweep over active nodes: fills their α and θ̈, and all λ and pending θ̈, from the ground's α."""
        self._forces(self.nodes.ground, swept, alpha, lam)
        for k in over:
            self._roll_out(k, swept, alpha, lam, ddtheta)
            self._forces(k, swept, alpha, lam)

    def _roll_out(self, k: HingeNode, swept: Inward, alpha: dict[HingeNode, np.ndarray], lam: Any, ddtheta: Any) -> None:
        (_, H, _, G, _), rows, _, uD = self.passed[k]
        alpha_plus = k.A.scatter(alpha[k.parent])
        found = swept.nu[k] - G.T @ alpha_plus - uD.T @ lam[rows]
        if k in self.massless:
            moving, loose, own = self.massless[k]
            ddtheta[k.dofs][moving], ddtheta[k.dofs][loose] = found, lam[own]
            alpha[k] = alpha_plus + k.H.T @ ddtheta[k.dofs]
        else:
            ddtheta[k.dofs] = found
            alpha[k] = alpha_plus + H.T @ found
        self.reflect([k], lam)

    def reflect(self, over: Iterable[HingeNode], x: np.ndarray) -> None:
        """Apply the nodes' reflections to the rows of x, (m,); the same inward and outward."""
        for k in over:
            if k in self.reflections:
                x[self.reflections[k].rows] = self.reflections[k](x[self.reflections[k].rows])

    def finish(
        self, over: Iterable[HingeNode], swept: Inward, alpha: dict[HingeNode, np.ndarray], lam: Any, ddtheta: Any
    ) -> None:
        """The outward sweep over the other nodes, once λ is known."""
        for k in over:
            self._roll_out(k, swept, alpha, lam, ddtheta)

    def _forces(self, k: HingeNode, swept: Inward, alpha: dict[HingeNode, np.ndarray], lam: np.ndarray) -> None:
        """λ of what was eliminated at a node, the last first."""
        for gone, Wl in zip(reversed(self.eliminated.get(k, [])), reversed(swept.Wl.get(k, []))):
            lam[gone.e] = Wl + gone.W.solve(gone.K @ alpha[k] - gone.L_eo @ lam[gone.o])


def _same(R: Any, other: Any) -> bool:
    """Whether two compliances are known to be equal: those that are inputs are not."""
    return R is other or (is_number(R) and is_number(other) and bool(other == R))
