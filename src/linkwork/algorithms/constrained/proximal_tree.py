"""Constrained dynamics by sweeps over the nodes, with multipliers eliminated wherever possible.

The augmented Lagrangian of Gauss' principle (Constrained Eq. 25 and 26) is quadratic in the accelerations α
and the constraints' forces λ, so both may be eliminated in any order. An inward sweep carries at every
node an inertia P, a force z, and the constraints beyond it that are pending:

    f = P α + z + Kᵀ λ,        K α + l - L λ - R (λ - λ⁰) = 0.

P, K, L and l are Hᴬ, Kᴬ, Lᴬ and l of the paper, and z is -fᴬ, with joint forces added at the hinges. λ has
the paper's sign: constraints act by -λ. R is 1/μ or any diagonal compliance (Constrained Remark 2). Passing a
hinge eliminates θ̈ (Constrained Alg. 4, lines 6 to 11). Eliminating λ at a node adds Kᵀ (L + R)⁻¹ K to its
inertia. Where that is done is the only difference between constrainedABA and the proximal PV solver: at the
constrained node itself, where L = 0, or at the base. A constraint between two bodies is pending from both of
them to where the two paths meet, so its cost grows with the length of its loop.

A velocity that moves no mass, such as that of a massless rod in a loop, has D = 0, and cannot be eliminated
at its hinge. There P H* = 0, so its equation is one of the constraints' forces alone, u* λ = ε, and θ̈ is its
multiplier: it is pending with them, with K = 0, l = -ε and -u in L, and eliminated after the λ that it
determines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, is_zero_outside, stiffness
from linkwork.algorithms.constrained.proximal_records import (
    Eliminated,
    Inward,
    Massless,
    Passed,
    Pending,
    Reflection,
)
from linkwork.algorithms.tree.articulated import hinge, massless
from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.compiler.ir.functions import sqrt, where
from linkwork.compiler.ir.symbol import is_number
from linkwork.errors import ModelError
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState
from linkwork.spatial import Factor, any_nonzero, is_zero, mirrored

# whether pending multipliers are eliminated at a node, if possible
EliminateAt = Callable[[TreeState[HingeNode], HingeNode], bool]


class ProximalTree:
    """Mechanism with constraints, factorized by one inward sweep.

    `at` decides where multipliers are eliminated. With `early`, a hinge of one velocity, which determines one
    combination of the rows pending there, also lets that one be eliminated behind it (PV-early). `active` are
    the nodes between eliminations and the ground: only these change in further proximal iterations.
    `unknowns` are the joints of massless velocities by name: behind the m rows of λ there is one for each.
    """

    def __init__(
        self, constraint_rows: ConstraintRows, R: np.ndarray, at: EliminateAt, *, early: bool = False
    ) -> None:
        self.nodes = constraint_rows.nodes
        self.constraint_rows = constraint_rows
        self.R = R
        self.early = early
        self.reflections: dict[HingeNode, Reflection] = {}
        self.massless: dict[HingeNode, Massless] = {}
        self.unknowns: list[str] = []
        self._decided: set[int] = set()
        self.passed: dict[HingeNode, Passed] = {}
        self.eliminated: dict[HingeNode, list[Eliminated]] = {}
        self._ends = [
            sum(any_nonzero(K[r]) for K in (*constraint_rows.K.values(), *constraint_rows.c.values()))
            for r in range(constraint_rows.m)
        ]
        # with no compliance, the paths of what holds a body to the ground meet there
        self._ends = [n + (n == 1 and is_zero(R[r])) for r, n in enumerate(self._ends)]
        P_plus: dict[HingeNode, Any] = {}
        waiting: dict[HingeNode, Pending] = {}
        for k in self.nodes.tips_to_base():
            P: Any = k.M
            for j in self.nodes.children(k):
                P = P + j.A.congruence(P_plus[j])
            pending = Pending.begun(self.constraint_rows.K.get(k), k.rows)
            if k in waiting:
                pending = pending.joined(waiting.pop(k))
            P, pending = self._eliminate(
                k, P, pending, self._complete(pending) if at(self.nodes, k) else self._decided
            )
            P_plus[k], pending = self._pass(k, P, pending)
            if pending.rows:
                waiting[k.parent] = waiting[k.parent].joined(pending) if k.parent in waiting else pending
        ground = self.nodes.ground
        if ground in waiting:
            pending = waiting[ground]
            self.eliminated[ground] = [self._split(pending, list(range(len(pending.rows))))[0]]
        self.active: set[HingeNode] = {i for k in self.eliminated for i in self.nodes.path_to_ground(k)}

    def _eliminate(self, k: HingeNode, P: Any, pending: Pending, ready: set[int]) -> tuple[Any, Pending]:
        """Eliminate the multipliers of rows that are ready, body by body: P takes one body at a time."""
        for block in k.blocks.values():
            done = [
                i for i, r in enumerate(pending.rows) if r in ready and is_zero_outside(pending.K[i], block)
            ]
            done += self._determined(pending, done, block) if self.unknowns else []
            if done:
                part, pending = self._split(pending, done)
                self.eliminated.setdefault(k, []).append(part)
                P = P + stiffness(k, block, part.K[:, block], part.W.solve(part.K[:, block]))  # Kᵀ W K
        return P, pending

    def _complete(self, pending: Pending) -> set[int]:
        """Return the rows of constraints of which all nodes have been passed."""
        ends_passed = dict(zip(pending.rows, pending.ends))
        return {
            r
            for group in self.constraint_rows.groups
            if all(ends_passed.get(r) == self._ends[r] for r in group)
            for r in group
        }

    def _determined(self, pending: Pending, done: list[int], block: slice) -> list[int]:
        """Return indices of pending θ̈ that act on no rows but themselves and eliminated ones."""
        loose = [
            i
            for i, r in enumerate(pending.rows)
            if r >= self.constraint_rows.m and is_zero_outside(pending.K[i], block)
        ]
        acts = {i: [j for j in range(len(pending.rows)) if not is_zero(pending.L[i, j])] for i in loose}
        return [i for i in loose if acts[i] and all(j == i or j in done for j in acts[i])]

    def _split(self, pending: Pending, done: list[int]) -> tuple[Eliminated, Pending]:
        rows, K, L, ends = pending
        done = sorted(
            done, key=lambda i: (rows[i] < self.constraint_rows.m, i)
        )  # λ is eliminated first, the last before others
        others = [i for i in range(len(rows)) if i not in done]
        L_eo = L[np.ix_(done, others)]
        R = [self.R[rows[i]] if rows[i] < self.constraint_rows.m else 0.0 for i in done]
        try:
            W = Factor(mirrored(L[np.ix_(done, done)]) + np.diag(R))
        except ZeroDivisionError:
            name = next(
                self.unknowns[rows[i] - self.constraint_rows.m]
                for i in done
                if rows[i] >= self.constraint_rows.m
            )
            raise massless(name) from None
        WL = W.solve(L_eo)
        part = Eliminated([rows[i] for i in done], [rows[i] for i in others], K[done], L_eo, W)
        K_left = K[others] - WL.T @ K[done]
        L_left = L[np.ix_(others, others)] - mirrored(L_eo.T @ WL)
        return part, Pending(part.o, K_left, L_left, [ends[i] for i in others])

    def _pass(self, k: HingeNode, P: Any, pending: Pending) -> tuple[Any, Pending]:
        """Eliminate a node's θ̈ (Constrained Alg. 4, lines 6 to 10)."""
        try:
            joint = hinge(P, k.H, k.armature, k.name)
        except ModelError as error:  # the joint moves no mass
            return self._pass_massless(k, P, pending, error)
        pending, u = pending.at_hinge(joint.H, self.constraint_rows.c.get(k))
        rows, K, L, ends = pending
        if self.early and u.shape[1] == 1:
            K, L, u = self._reflect(k, pending, u)
        uD = joint.D.solve(u.T).T
        self.passed[k] = Passed(joint, rows, u, uD)
        below = k.A.gather((K - u @ joint.G.T).T).T if rows else np.zeros((0, k.parent.rows))
        return joint.P_plus, Pending(rows, below, L + mirrored(uD @ u.T), ends)

    def _pass_massless(
        self, k: HingeNode, P: Any, pending: Pending, error: ModelError
    ) -> tuple[Any, Pending]:
        """Eliminate θ̈ that move mass; θ̈ of massless velocities stay pending."""
        felt = P @ k.H.T
        loose = [i for i in range(len(k.H)) if is_zero((k.H[i] @ felt[:, i]) + k.armature[i, i])]
        moving = [i for i in range(len(k.H)) if i not in loose]
        if not loose or any_nonzero(felt[:, loose]) or any_nonzero(k.armature[loose]):
            raise error
        joint = hinge(P, k.H[moving], k.armature[moving][:, moving], k.name)
        pending, u = pending.at_hinge(k.H, self.constraint_rows.c.get(k))
        n = len(pending.rows)
        first = self.constraint_rows.m + len(self.unknowns)
        rows = [*pending.rows, *range(first, first + len(loose))]
        self.massless[k] = Massless(moving, loose, rows[n:])
        self.unknowns += [k.name] * len(loose)
        wide = Pending.fresh(rows, np.zeros((len(rows), k.rows), dtype=object))
        wide.K[:n] = pending.K
        wide.L[:n, :n] = pending.L
        wide.L[:n, n:] = -u[:, loose]
        wide.L[n:, :n] = -u[:, loose].T
        u = np.concatenate([u[:, moving], np.zeros((len(loose), len(moving)), dtype=object)])
        uD = joint.D.solve(u.T).T
        self.passed[k] = Passed(joint, rows, u, uD)
        below = k.A.gather((wide.K - u @ joint.G.T).T).T
        return joint.P_plus, Pending(
            rows, below, wide.L + mirrored(uD @ u.T), [*pending.ends, *[0] * len(loose)]
        )

    def _reflect(
        self, k: HingeNode, pending: Pending, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reflect the complete rows so that a hinge's velocity moves only the first of them."""
        rows, K, L, _ = pending
        complete = self._complete(pending)
        equal_rows = [i for i, r in enumerate(rows) if r in complete and any_nonzero(u[i])]
        equal_rows = [i for i in equal_rows if _same(self.R[rows[i]], self.R[rows[equal_rows[0]]])]
        if len(equal_rows) > 1:
            K = K.copy()
            L = L.copy()
            u = u.copy()
            length = sqrt(u[equal_rows, 0] @ u[equal_rows, 0])
            shift = where(u[equal_rows[0], 0] < 0.0, -length, length)  # the sign that avoids cancellation
            w = np.array([u[equal_rows[0], 0] + shift, *u[equal_rows[1:], 0]])
            square = w @ w
            reflection = Reflection(
                [rows[i] for i in equal_rows],
                w,
                where(square > 0.0, 2.0 / where(square > 0.0, square, 1.0), 0.0),
            )
            self.reflections[k] = reflection
            K[equal_rows] = reflection(K[equal_rows])
            if any_nonzero(L[equal_rows]):
                L[equal_rows] = reflection(L[equal_rows])
                L[:, equal_rows] = reflection(L[:, equal_rows].T).T
            u[equal_rows] = 0.0
            u[equal_rows[0], 0] = -shift
        self._decided |= {rows[i] for i in equal_rows[:1]}
        return K, L, u

    def inward(self, over: Iterable[HingeNode], l: np.ndarray, T: np.ndarray | None = None) -> Inward:
        """Return the inward sweep for rows l, (m,), with the motion's own forces if T is given.

        Without T it is the response to a change of l alone. α is relative to β, its value at θ̈ = 0, and so
        is l.
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
                moving, loose, massless_rows = self.massless[k]
                joint_forces = -(k.H @ z) if T is None else T[k.dofs] - k.passive_force - k.H @ z
                eps = joint_forces[moving]
                l[massless_rows] = -joint_forces[loose]
            else:
                eps = -(H @ z) if T is None else T[k.dofs] - k.passive_force - H @ z
            nu[k] = D.solve(eps)
            z_plus[k] = z + G @ eps
            l[rows] = l[rows] + u @ nu[k]
        ground = self.nodes.ground
        for part in self.eliminated.get(ground, ()):
            Wl[ground] = [part.W.solve(l[part.e])]
        return Inward(nu, Wl)

    def outward(
        self,
        over: Iterable[HingeNode],
        swept: Inward,
        alpha: dict[HingeNode, np.ndarray],
        lam: np.ndarray,
        ddtheta: Any,
    ) -> None:
        """Fill α and θ̈ of active nodes, and all λ and pending θ̈, from the ground's α."""
        self._forces(self.nodes.ground, swept, alpha, lam)
        for k in over:
            self._roll_out(k, swept, alpha, lam, ddtheta)
            self._forces(k, swept, alpha, lam)

    def _roll_out(
        self, k: HingeNode, swept: Inward, alpha: dict[HingeNode, np.ndarray], lam: Any, ddtheta: Any
    ) -> None:
        (_, H, _, G, _), rows, _, uD = self.passed[k]
        alpha_plus = k.A.scatter(alpha[k.parent])
        solved = swept.nu[k] - G.T @ alpha_plus - uD.T @ lam[rows]
        if k in self.massless:
            moving, loose, massless_rows = self.massless[k]
            ddtheta[k.dofs][moving] = solved
            ddtheta[k.dofs][loose] = lam[massless_rows]
            alpha[k] = alpha_plus + k.H.T @ ddtheta[k.dofs]
        else:
            ddtheta[k.dofs] = solved
            alpha[k] = alpha_plus + H.T @ solved
        self.reflect([k], lam)

    def reflect(self, over: Iterable[HingeNode], x: np.ndarray) -> None:
        """Apply the nodes' reflections to the rows of x, (m,); they are their own inverses."""
        for k in over:
            if k in self.reflections:
                x[self.reflections[k].rows] = self.reflections[k](x[self.reflections[k].rows])

    def finish(
        self,
        over: Iterable[HingeNode],
        swept: Inward,
        alpha: dict[HingeNode, np.ndarray],
        lam: Any,
        ddtheta: Any,
    ) -> None:
        """Fill α and θ̈ of the other nodes, once λ is known."""
        for k in over:
            self._roll_out(k, swept, alpha, lam, ddtheta)

    def respond(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z = (Λ⁻¹ + R)⁻¹ r, (m,), and accelerations -M⁻¹ Jᵀ z, (nv,), by sweeps over all nodes."""
        nodes = self.nodes
        z: Any = np.zeros(len(r) + len(self.unknowns), dtype=object)
        ddtheta: Any = np.zeros(nodes.nv, dtype=object)
        swept = self.inward(nodes.tips_to_base(), np.array(r, dtype=object))
        self.outward(nodes.base_to_tips(), swept, {nodes.ground: np.zeros(nodes.ground.rows)}, z, ddtheta)
        return z[: len(r)], ddtheta

    def _forces(
        self, k: HingeNode, swept: Inward, alpha: dict[HingeNode, np.ndarray], lam: np.ndarray
    ) -> None:
        """Compute λ of the multipliers eliminated at a node, last first."""
        for part, Wl in zip(reversed(self.eliminated.get(k, [])), reversed(swept.Wl.get(k, []))):
            lam[part.e] = Wl + part.W.solve(part.K @ alpha[k] - part.L_eo @ lam[part.o])


def _same(R: Any, other: Any) -> bool:
    """Return whether two compliances are known to be equal; those that are inputs are not."""
    return R is other or (is_number(R) and is_number(other) and bool(other == R))
