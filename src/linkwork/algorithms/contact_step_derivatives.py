"""How a step with contact changes with anything that enters it: by the implicit function theorem at its solution.

With the velocity u after the step (in axes before it) and impulses λ, inverse dynamics T and the laws F of all rows on the
branches that hold there (open, sticking, sliding), a step solves

    r = dt T(q, v, (u - v) / dt) - dt τ - Jᵀ λ = 0,        F(J u + targets, λ) = 0,

so that changes of u and λ solve the linear system of these, with the factor of M and the matrix of the laws' own Newton steps.
Restitution asks for the velocity without impulses besides, which solves the first with λ = 0. Where only a part of it acts,
that part is taken as constant; so is what a curved motion adds to gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.contact_laws import Block, Linear
from linkwork.algorithms.contact_rows import Coefficients, all_rows, laws_of
from linkwork.algorithms.contact_solver import Problem, inverse_of, on_branches, proximal, residual_of
from linkwork.algorithms.contact_step import Arrive, begun_at, guarded, nodes_with_contact, stepped, turning_axes
from linkwork.algorithms.forward_dynamics import factorised
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.inverse_dynamics_derivatives import Differentiate
from linkwork.constraints import BodyKinematics
from linkwork.contact import Contacts
from linkwork.model import Model
from linkwork.spatial import filled, mirrored


class StepSolution:
    """The solution of one step of a model without force-held loops, and the system that its changes solve.

    `arrays` are those of `step` by name; `by` differentiates functions, as in `of_inverse_dynamics`.
    """

    def __init__(
        self, model: Model, contacts: Contacts, start: Any, by: Differentiate, arrays: Mapping[str, Any], arrive: Arrive
    ) -> None:
        q, v, tau, dt = (arrays[name] for name in ("q", "v", "tau", "dt"))
        self.contacts, f_ext, given = contacts, arrays.get("f_ext"), _coefficients(arrays)
        found = stepped(model, contacts, q, v, tau, dt, f_ext, start, "mass_matrix", arrive, given)
        self.u, self.curved = found.u, found.curved
        self.lam, self.part = found.solution.impulses, found.solution.part
        nodes, held, laws, sizes = self._rows(model, arrays)
        self.M, self.J = factorised(nodes), held.jacobian()
        self.Y = self.M.solve(self.J.T)
        bias = inverse_dynamics(nodes, np.zeros(model.nv), maps=True)
        self.free = v + dt * turning_axes(model, v) + self.M.solve(dt * (tau - bias))
        found = laws_of(laws, sizes, dt, self.J @ v, self.J @ self.free, self.part, self.curved)
        soft = np.array([x for law in found for x in law.compliance], dtype=object)
        target = np.array([x for law in found for x in law.target], dtype=object)
        self.G = mirrored(self.J @ self.Y) + np.diag(soft)
        problem = Problem(self.G, self.J @ self.free + target, [law.block for law in found])
        for block in problem.blocks:
            block.prepare(self.G, proximal(problem.g))
        self.lines = on_branches(problem, self.lam)
        self.inverse = inverse_of(problem, self.lines)
        self.by_free = by(lambda x: self._laws(model, {**arrays, "free": x}), self.free)[1]  # by restitution alone

    def _rows(self, model: Model, arrays: Mapping[str, Any]) -> tuple[Any, ConstraintRows, list[Any], list[int]]:
        nodes = nodes_with_contact(model, self.contacts, arrays["q"], arrays["v"], arrays.get("f_ext"))
        rows, laws = all_rows(model, BodyKinematics(nodes), self.contacts, _coefficients(arrays))
        return nodes, ConstraintRows.of(nodes, rows), laws, [len(each.k) for each in rows]

    def _laws(self, model: Model, arrays: Mapping[str, Any], made: Any = None) -> np.ndarray:
        """F, (m,), at this u and λ, in another state or of another model."""
        _, held, laws, sizes = made or self._rows(model, arrays)
        J = held.jacobian()
        free = J @ arrays.get("free", self.free)
        found = laws_of(laws, sizes, arrays["dt"], J @ arrays["v"], free, self.part, self.curved)
        added = [(x, y) for law in found for x, y in zip(law.target, law.compliance)]
        w = J @ self.u + np.array([x + y * z for (x, y), z in zip(added, self.lam)], dtype=object)
        lines: list[tuple[Block, Linear]] = []
        for law in found:
            rows = list(law.block.rows)
            law.block.prepare(self.G, proximal(w))  # of this state: it only decides between branches, and scales equations
            own = self.lam[rows]
            branch = law.block.branch(w[rows], own, self.lam, self.G[np.ix_(rows, rows)])
            lines.append((law.block, law.block.linearised(own, branch)))
        return residual_of(w, self.lam, lines)

    def residual(self, model: Model, **arrays: Any) -> np.ndarray:
        """What both equations of motion, without and with impulses, and the laws miss, (2 nv + m,), at this solution."""
        v, tau, dt = arrays["v"], arrays["tau"], arrays["dt"]
        made = self._rows(model, arrays)
        nodes, held, _, _ = made
        turning = turning_axes(model, v)

        def missed(u: Any) -> np.ndarray:
            a = (u - v) * (1.0 / dt) - turning
            return dt * (inverse_dynamics(nodes, a, maps=True) - tau)

        free = missed(self.free) if filled(self.by_free) else np.zeros(len(v), dtype=object)
        return np.concatenate([free, missed(self.u) - held.joint_forces(self.lam), self._laws(model, arrays, made)])

    def guarded(self, model: Model, arrays: Mapping[str, Any], q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """v after a step to q by the velocity u, in another state or of another model, so that it gains no energy."""
        return guarded(model, self.contacts, begun_at(model, self.contacts, arrays), q, v, u, self.lam)

    def change(self, change: np.ndarray) -> np.ndarray:
        """The changes of u, (nv, columns), for changes of the residual, (2 nv + m, columns)."""
        n = len(self.u)
        free, motion, laws = change[:n], change[n : 2 * n], change[2 * n :]
        freely = self.M.solve(motion)
        lam = self.inverse @ (self.by_free @ self.M.solve(free) - laws + self._by_w(self.J @ freely))
        return self.Y @ lam - freely

    def weights(self, u: np.ndarray) -> np.ndarray:
        """The weights of the residual, (2 nv + m,), whose gradient is that of given weights of u."""
        laws = self.inverse.T @ (self.Y.T @ u)
        motion = self.M.solve(self.J.T @ self._by_w(laws, transposed=True) - u)
        return np.concatenate([self.M.solve(self.by_free.T @ laws), motion, -laws])

    def _by_w(self, x: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """∂F/∂w times x."""
        found: Any = np.zeros(x.shape, dtype=object)
        for block, line in self.lines:
            rows = list(block.rows)
            found[rows] = (line.P.T if transposed else line.P) @ x[rows]
        return found


def _coefficients(arrays: Mapping[str, Any]) -> Coefficients:
    return Coefficients(arrays.get("contact_friction"), arrays.get("contact_restitution"))
