"""Derivatives of a step with contact with respect to any input, by the implicit function theorem at its
solution.

With the velocity u after the step (in axes before it), impulses λ of contacts and μ of constrained loops,
inverse dynamics T, rows J and K, and the laws F of all contacts on the branches that hold there (open,
sticking, sliding), a step solves

    r = dt T(q, v, (u - v) / dt) - dt τ - Jᵀ λ - Kᵀ μ = 0,        K u = 0,        F(J u + targets, λ) = 0,

so that changes of u and λ solve the linear system of these, with the factor of M and the matrix of the laws'
own Newton steps. Restitution asks for the velocity without contact besides, which solves the first two with λ
= 0. Where only a part of it acts, that part is taken as constant; so is what a curved motion adds to gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.contact.delassus_factors import DEPENDENT_ROW_TOL
from linkwork.algorithms.contact.free_flight import turning_axes
from linkwork.algorithms.contact.laws import Block, Linear
from linkwork.algorithms.contact.passes import stepped
from linkwork.algorithms.contact.rows import Coefficients, all_rows, laws_of
from linkwork.algorithms.contact.solver import Problem, inverse_of, proximal, residual_of
from linkwork.algorithms.contact.step import Arrive, StepInput, begun_at, guarded, nodes_with_contact
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.inverse_dynamics_derivatives import Differentiate
from linkwork.constraints import BodyKinematics, loop_constraints
from linkwork.contact import Contacts
from linkwork.model import Model
from linkwork.spatial import Factor, any_nonzero, mirrored


class StepSolution:
    """The solution of one step of a model, and the system that its changes solve.

    `arrays` are those of `step` by name; `differentiate` is that of `of_inverse_dynamics`.
    """

    def __init__(
        self,
        model: Model,
        contacts: Contacts,
        start: Any,
        differentiate: Differentiate,
        arrays: Mapping[str, Any],
        method: str,
        arrive: Arrive,
    ) -> None:
        q, v, tau, dt = (arrays[name] for name in ("q", "v", "tau", "dt"))
        self.contacts = contacts
        f_ext = arrays.get("f_ext")
        coefficients = _coefficients(arrays)
        end = stepped(StepInput(model, contacts, q, v, tau, dt, f_ext, start, method, arrive, coefficients))
        self.u = end.u
        self.curved = end.curved
        self.lam = end.solution.impulses
        self.part = end.solution.part
        nodes, held, laws, sizes = self._rows(model, arrays)
        J = held.jacobian()
        m = sum(sizes)
        self.J = J[:m]
        self.motion = _Motion(factorised(nodes), J[m:])
        self.Y = self.motion.solve(self.J.T)
        bias = inverse_dynamics(nodes, np.zeros(model.nv), maps=True)
        alone = v + dt * turning_axes(model, v) + self.motion.M.solve(dt * (tau - bias))
        self.held = self.motion.holding(alone + self.motion.M.solve(self.J.T @ self.lam))
        self.held_freely = self.motion.holding(alone)
        self.free = alone + self.motion.M.solve(J[m:].T @ self.held_freely)
        result = laws_of(laws, sizes, dt, self.J @ v, self.J @ self.free, self.part, self.curved)
        soft = np.array([x for law in result for x in law.compliance], dtype=object)
        target = np.array([x for law in result for x in law.target], dtype=object)
        self.G = mirrored(self.J @ self.Y) + np.diag(soft)
        problem = Problem(self.G, self.J @ self.free + target, [law.block for law in result])
        for block in problem.blocks:
            block.prepare(self.G, proximal(problem.g))
        self.lines, added = _on_branches(problem, self.lam)
        self.laws = _Laws(inverse_of(problem, self.lines), added)
        self.by_free = differentiate(lambda x: self._laws(model, {**arrays, "free": x}), self.free)[
            1
        ]  # by restitution alone

    def _rows(
        self, model: Model, arrays: Mapping[str, Any]
    ) -> tuple[Any, ConstraintRows, list[Any], list[int]]:
        """Return nodes, rows of contacts and then of constrained loops, laws of the former, and how many rows
        each has.
        """
        nodes = nodes_with_contact(model, self.contacts, arrays["q"], arrays["v"], arrays.get("f_ext"))
        kinematics = BodyKinematics(nodes)
        rows, laws = all_rows(model, kinematics, self.contacts, _coefficients(arrays))
        loops = [constraint.equations(model, kinematics) for constraint in loop_constraints(model)]
        return nodes, ConstraintRows.of(nodes, [*rows, *loops]), laws, [len(each.k) for each in rows]

    def _laws(self, model: Model, arrays: Mapping[str, Any], made: Any = None) -> np.ndarray:
        """Return F, (m,), at this u and λ, in another state or of another model."""
        _, held, laws, sizes = made or self._rows(model, arrays)
        J = held.jacobian()[: sum(sizes)]
        free = J @ arrays.get("free", self.free)
        result = laws_of(laws, sizes, arrays["dt"], J @ arrays["v"], free, self.part, self.curved)
        added = [(x, y) for law in result for x, y in zip(law.target, law.compliance)]
        w = J @ self.u + np.array([x + y * z for (x, y), z in zip(added, self.lam)], dtype=object)
        lines: list[tuple[Block, Linear]] = []
        for law in result:
            rows = list(law.block.rows)
            law.block.prepare(
                self.G, proximal(w)
            )  # of this state: it only decides between branches, and scales equations
            block_lam = self.lam[rows]
            branch = law.block.branch(w[rows], block_lam, self.lam, self.G[np.ix_(rows, rows)])
            lines.append((law.block, law.block.linearised(block_lam, branch)))
        return residual_of(w, self.lam, lines)

    def residual(self, model: Model, **arrays: Any) -> np.ndarray:
        """Return the residual of the equations of motion, without and with contact, and of the laws at this
        solution, (2 (nv + loops) + m,).
        """
        v = arrays["v"]
        tau = arrays["tau"]
        dt = arrays["dt"]
        made = self._rows(model, arrays)
        nodes, held, _, sizes = made
        turning = turning_axes(model, v)
        K = held.jacobian()[sum(sizes) :]

        def missed(u: Any, lam: Any, held_by: Any) -> np.ndarray:
            a = (u - v) * (1.0 / dt) - turning
            forces = held.joint_forces(np.concatenate([lam, held_by]))
            return np.concatenate([dt * (inverse_dynamics(nodes, a, maps=True) - tau) - forces, K @ u])

        free: Any = np.zeros(len(v) + len(K), dtype=object)
        if any_nonzero(self.by_free):
            free = missed(self.free, np.zeros(sum(sizes)), self.held_freely)
        return np.concatenate([free, missed(self.u, self.lam, self.held), self._laws(model, arrays, made)])

    def guarded(
        self, model: Model, arrays: Mapping[str, Any], q: np.ndarray, v: np.ndarray, u: np.ndarray
    ) -> np.ndarray:
        """Return v after a step to q by the velocity u, in another state or of another model, so that it
        gains no energy.
        """
        _, held, _, sizes = self._rows(model, arrays)
        J = held.jacobian()[: sum(sizes)]
        works = 0.5 * (self.lam * (J @ (arrays["v"] + u)))
        return guarded(
            model, self.contacts, begun_at(model, self.contacts, arrays), (q, v), u, J.T @ self.lam, works
        )

    def change(self, change: np.ndarray) -> np.ndarray:
        """Return the changes of u, (nv, columns), for changes of the residual, (2 (nv + loops) + m,
        columns).
        """
        n = self.motion.size
        freely = self.motion.change(change[:n])
        moved = self.motion.change(change[n : 2 * n])
        lam = self.laws.solve(self.by_free @ freely - change[2 * n :] + self._by_w(self.J @ moved))
        return self.Y @ lam - moved

    def weights(self, u: np.ndarray) -> np.ndarray:
        """Return the weights of the residual, (2 (nv + loops) + m,), whose gradient is that of given weights
        of u.
        """
        laws = self.laws.weights(self.Y.T @ u)
        motion = self.motion.weights(self.J.T @ self._by_w(laws, transposed=True) - u)
        return np.concatenate([self.motion.weights(self.by_free.T @ laws), motion, -laws])

    def _by_w(self, x: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """Return ∂F/∂w times x."""
        result: Any = np.zeros(x.shape, dtype=object)
        for block, line in self.lines:
            rows = list(block.rows)
            result[rows] = (line.P.T if transposed else line.P) @ x[rows]
        return result


class _Laws(NamedTuple):
    """A x = b, the laws' linear system, from the inverse of A + `added`, the proximal term of the laws'
    Newton steps.

    One step of refinement takes the error of that term, 1e-8 of x, away; where A is singular, x is a solution
    all the same.
    """

    inverse: np.ndarray
    added: np.ndarray

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return x, of b (m, columns)."""
        result = self.inverse @ b
        return result + self.inverse @ (self.added @ result)

    def weights(self, b: np.ndarray) -> np.ndarray:
        """Return the solution of the transposed system for b, (m,)."""
        result = self.inverse.T @ b
        return result + self.inverse.T @ (self.added.T @ result)


def _on_branches(problem: Problem, lam: np.ndarray) -> tuple[list[tuple[Block, Linear]], np.ndarray]:
    """Return the linearised laws on their branches at lam, and what proximal terms add to their matrix, (m,
    m).
    """
    lines = []
    added = np.zeros(problem.G.shape, dtype=object)
    w = problem.G @ lam + problem.g
    for block in problem.blocks:
        rows = list(block.rows)
        block_lam = lam[rows]
        at = np.ix_(rows, rows)
        branch = block.branch(w[rows], block_lam, lam, problem.G[at])
        lines.append((block, block.linearised(block_lam, branch)))
        added[at] = lines[-1][1].N - _without_proximal(block).linearised(block_lam, branch).N
    return lines, added


def _without_proximal(block: Block) -> Any:
    result: Any = copy(block)
    result.small = 0.0
    if hasattr(result, "disc"):
        result.disc = copy(result.disc)
        result.disc.small = 0.0
    return result


class _Motion:
    """M u = f + Kᵀ μ with K u = 0: how velocities follow forces while loops do not move."""

    def __init__(self, M: Factor, K: np.ndarray) -> None:
        self.M = M
        self.K = K
        self.size = K.shape[1] + len(K)
        self.by_loops = M.solve(K.T)
        self.S = Factor(mirrored(K @ self.by_loops), dependent=DEPENDENT_ROW_TOL) if len(K) else None

    def holding(self, u: np.ndarray) -> np.ndarray:
        """Return the impulses μ of loops, (loops,), where the velocity would be u without them."""
        return np.zeros(0, dtype=object) if self.S is None else -self.S.solve(self.K @ u)

    def solve(self, f: np.ndarray) -> np.ndarray:
        """Return velocities by impulses at joints, (nv, columns)."""
        result = self.M.solve(f)
        return result if self.S is None else result - self.by_loops @ self.S.solve(self.K @ result)

    def change(self, missed: np.ndarray) -> np.ndarray:
        """Return velocities that undo what both equations miss, (nv + loops, columns)."""
        n = self.size - len(self.K)
        result = self.solve(missed[:n])
        return result if self.S is None else result + self.by_loops @ self.S.solve(missed[n:])

    def weights(self, u: np.ndarray) -> np.ndarray:
        """Return the transposed of `change`, of one column."""
        result = self.solve(u)
        return result if self.S is None else np.concatenate([result, self.S.solve(self.by_loops.T @ u)])


def _coefficients(arrays: Mapping[str, Any]) -> Coefficients:
    return Coefficients(arrays.get("contact_friction"), arrays.get("contact_restitution"))
