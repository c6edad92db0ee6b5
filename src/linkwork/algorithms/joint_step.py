"""Limits of joints and dry friction in them, as impulses at the end of a step without contacts.

The free velocity v_f = v + dt a(q, v, tau) of semi-implicit Euler becomes v' = v_f + M⁻¹ Jᵀ λ. Each limit
requires 0 <= λ ⊥ J v' + gap / dt >= 0, so that a joint that would pass its limit ends the step on it; dry
friction is an impulse of at most dt f that keeps a joint at rest or opposes its motion. If no limit or
friction is active, λ = 0 and v' has the bits of v_f.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.delassus import compliance
from linkwork.algorithms.contact.delassus_factors import without_loops
from linkwork.algorithms.contact.joint_rows import limited, with_friction
from linkwork.algorithms.contact.rows import all_rows, laws_of
from linkwork.algorithms.contact.solver import Problem, solve
from linkwork.algorithms.contact.step import nodes_with_contact
from linkwork.algorithms.tree.forward_dynamics import articulated_body, factorised
from linkwork.constraints import BodyKinematics, loop_constraints
from linkwork.contact import JointLaws
from linkwork.model import Model
from linkwork.spatial import mirrored


class JointStep(NamedTuple):
    """The velocity after a step, (nv,), the violation of the laws [m/s or rad/s], iterations, and 1 if within
    the tolerance.
    """

    v: np.ndarray
    residual: Any
    iterations: Any
    converged: Any


def has_rows(model: Model, laws: JointLaws) -> bool:
    """Return whether any joint has a limit or dry friction that is active under these laws."""
    return bool((laws.limits and limited(model)) or (laws.joint_friction and with_friction(model)))


def with_joint_impulses(
    model: Model,
    laws: JointLaws,
    q: Any,
    v: Any,
    free: Any,
    dt: Any,
    method: str,
    *,
    differentiable: bool = False,
) -> JointStep:
    """Return the velocity after a step of dt from q, where `free`, (nv,), is that without limits and dry
    friction.

    `method` is "mass_matrix" or "sweeps". `differentiable`: derivatives are those of the solution, by the
    implicit function theorem.
    """
    nodes = nodes_with_contact(model, laws, q, free)
    kinematics = BodyKinematics(nodes)
    rows, made = all_rows(model, kinematics, laws)
    loops = [constraint.equations(model, kinematics) for constraint in loop_constraints(model)]
    every = ConstraintRows.of(nodes, [*rows, *loops])
    J = every.jacobian()
    m = len(rows)
    response = _Response(nodes, every, J, method)
    free_rows = np.concatenate(
        [J[:m] @ free, np.zeros(len(J) - m, dtype=object)]
    )  # loops keep the velocities that they have
    G, _, released = without_loops(response.G, free_rows, m)
    w = free_rows[:m]
    result = laws_of(made, [1] * m, dt, J[:m] @ v, w)
    problem = Problem(G, w, [law.block for law in result])
    solution = solve(problem, np.zeros(m), laws.iterations, laws.tolerance, implicit=differentiable)
    return JointStep(free + response.moved(released(solution.impulses)), *solution[1:4])


class _Response:
    """Response to impulses on rows: G, and the change of velocities."""

    def __init__(self, nodes: Any, rows: ConstraintRows, J: np.ndarray, method: str) -> None:
        self.nodes = nodes
        self.rows = rows
        self.method = method
        if method == "mass_matrix":
            self.M = factorised(nodes)
            Y = self.M.half(J.T)
            self.scaled = self.M.scaled(Y)
            self.G = mirrored(Y.T @ self.scaled)
        else:
            self.G = compliance(rows)[0]

    def moved(self, impulses: np.ndarray) -> np.ndarray:
        """Return the change of v, (nv,); zero where impulses are."""
        if self.method == "mass_matrix":
            return self.M.other_half(self.scaled @ impulses)
        still: Any = np.zeros(self.nodes.nv, dtype=object)
        return articulated_body(self.nodes, self.rows.joint_forces(impulses)) - articulated_body(
            self.nodes, still
        )
