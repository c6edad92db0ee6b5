"""One step with contact at the velocity level: v' = v + dt a + M⁻¹ Jᵀ λ, with impulses λ that satisfy the laws of all rows.

G = J M⁻¹ Jᵀ, the Delassus matrix, and the free velocity share a factor of the mass matrix, or sweeps (Constrained Sec. VI).
Force-held loops are rows that must not move; they are eliminated before the contact problem is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.contact_carried import Carried
from linkwork.algorithms.contact_rows import NONE_GIVEN, Coefficients, all_rows, laws_of
from linkwork.algorithms.contact_solver import Bounce, Problem, Solution, solve
from linkwork.algorithms.delassus import compliance
from linkwork.algorithms.forward_dynamics import articulated_body, factorised
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.constraints import BodyKinematics, Rows, force_held_loops
from linkwork.contact import Contacts
from linkwork.model import Model
from linkwork.parts import PlacedJoint
from linkwork.simplify.rotors import lumped
from linkwork.simplify.trees import hinge_tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, mirrored

FEWEST, MANY = 13, 1.5  # rows of contacts, and rows for a motion of a body, from which on bodies carry contacts
REDUNDANT = 1e-10  # pivot of loops' rows that depend on others, relative to their diagonal


class Stepped(NamedTuple):
    """v' (nv,), in axes before the step (see `moved_straight`), and the solution of the contact problem."""

    v: np.ndarray
    solution: Solution


def nodes_with_contact(model: Model, contacts: Contacts, q: Any, v: Any, f_ext: Any = None) -> ModelTree[Any]:
    """The nodes in one state; rotors that may touch something, or are held, are bodies there, not single rows."""
    rotors = {k for k, each in enumerate(lumped(model)) if each.rotor}
    touching = {k for candidate in contacts.candidates(model) for k in candidate.bodies}
    held = {k for constraint in force_held_loops(model) for k in constraint.bodies(model)}
    return hinge_tree(model, q, v, f_ext, whole=bool(rotors & (touching | held)))


def velocity_after(
    model: Model,
    contacts: Contacts,
    q: Any,
    v: Any,
    tau: Any,
    dt: Any,
    f_ext: Any,
    start: Any,
    method: str,
    given: Coefficients = NONE_GIVEN,
    *,
    differentiable: bool = False,
) -> Stepped:
    """The velocity after a step of dt, by a factor of the mass matrix ("mass_matrix") or by sweeps."""
    nodes = nodes_with_contact(model, contacts, q, v, f_ext)
    kinematics = BodyKinematics(nodes)
    rows, laws = all_rows(model, kinematics, contacts, given)
    loops = [constraint.equations(model, kinematics) for constraint in force_held_loops(model)]
    bodies = None if differentiable else on_few_bodies(rows)
    moving = rows if bodies is None else bodies.rows
    held = ConstraintRows.of(nodes, [*moving, *loops])
    size = sum(len(each.k) for each in moving)
    J = held.jacobian()
    before = J @ v
    turning = dt * turning_axes(model, v)
    if method == "mass_matrix":
        response: Any = _ByMassMatrix(nodes, held, J, tau, dt)
    else:
        response = _BySweeps(nodes, held, J, tau, dt)
    free = before + response.gained + J @ turning
    G, g, released = _without_loops(response.G, free, size)
    before = before[:size]
    if bodies is not None:
        before, g = bodies.T @ before, bodies.T @ g
    sizes = [len(each.k) for each in rows]

    def targets(part: Any) -> np.ndarray:
        return np.array([x for law in laws_of(laws, sizes, dt, before, without, part) for x in law.target], dtype=object)

    found, without = laws_of(laws, sizes, dt, before, g), g
    g = g + targets(1.0)
    bouncing = [law.block.rows[0] for law in found if law.bounces]
    bounce = Bounce(without, targets, bouncing) if bouncing and not differentiable else None
    soft, blocks = np.array([x for law in found for x in law.compliance], dtype=object), [law.block for law in found]
    if bodies is None:
        problem = Problem(G + np.diag(soft) if size else G, g, blocks, bounce=bounce)
    else:
        carried = Carried(bodies.T, G, soft, bodies.groups)
        problem = Problem(carried.delassus_blocks(), g, blocks, carried, bounce)
    solution = solve(problem, start, contacts.iterations, contacts.tolerance, implicit=differentiable)
    impulses = solution.impulses if bodies is None else bodies.T.T @ solution.impulses
    return Stepped(v + turning + response.moved(released(impulses)), solution)


class OnBodies(NamedTuple):
    """Rows that are the motions of bodies, then rows in joints; T from these to all rows, and the rows of each contact."""

    rows: list[Rows]
    T: np.ndarray
    groups: list[list[int]]


def on_few_bodies(rows: Sequence[Rows]) -> OnBodies | None:
    """Contacts on the bodies that carry them, where these are so few that motions of bodies are fewer than rows."""
    contacts = [each for each in rows if each.nodes]
    keys = list(dict.fromkeys((node, block.start, block.stop) for each in contacts for node, block, _ in each.nodes))
    count, size = sum(len(each.k) for each in contacts), sum(stop - start for _, start, stop in keys)
    if count < FEWEST or count < MANY * size:
        return None
    first = {key: sum(stop - start for _, start, stop in keys[:n]) for n, key in enumerate(keys)}
    moving = [Rows([(node, slice(a, b), np.eye(b - a))], (), np.zeros(b - a, dtype=object)) for node, a, b in keys]
    in_joints = [each for each in rows if not each.nodes]
    T: Any = np.zeros((sum(len(each.k) for each in rows), size + sum(len(each.k) for each in in_joints)), dtype=object)
    groups, at, joint = [], 0, size
    for each in rows:
        own = list(range(at, at + len(each.k)))
        at += len(own)
        if not each.nodes:
            T[own, range(joint, joint + len(own))] = 1.0
            joint += len(own)
            continue
        groups.append(own)
        for node, block, K in each.nodes:
            start = first[node, block.start, block.stop]
            T[own, start : start + K.shape[1]] = T[own, start : start + K.shape[1]] + K
    return OnBodies([*moving, *in_joints], T, groups)


def with_turning_axes(model: Model) -> list[tuple[PlacedJoint, slice]]:
    """Joints whose velocities are in axes that turn with the child, and the places of these; not those in loops."""
    found, start = [], 0
    for cluster in model.clusters:
        stop = start + len(cluster.independent)
        joint = model.joints[cluster.bodies[0]]
        if not cluster.constraints and joint.kind.turning(np.zeros(joint.nv)) is not None:
            found.append((joint, slice(start, stop)))
        start = stop
    return found


def turning_axes(model: Model, v: np.ndarray) -> np.ndarray:
    """What v̇ lacks to be rates in axes at rest, (nv,): a step in these keeps the momentum of a free body."""
    found: Any = np.zeros(model.nv, dtype=object)
    for joint, own in with_turning_axes(model):
        found[own] = joint.kind.turning(v[own])
    return found


def moved_straight(model: Model, step: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The motion for `integrate` of a `step` in axes before it, (nv,); and v, in the same, in the axes after it, (nv,)."""
    motion, turned = np.array(step, dtype=object), np.array(v, dtype=object)
    for joint, own in with_turning_axes(model):
        motion[own] = joint.kind.straight(step[own])
        turned[own] = joint.kind.turned(step[own], v[own])
    return motion, turned


class _ByMassMatrix:
    """M = Lᵀ D L; `gained` (m,) are velocities of rows by forces in dt, and `G` (m, m)."""

    def __init__(self, nodes: Any, held: ConstraintRows, J: np.ndarray, tau: Any, dt: Any) -> None:
        self.M = factorised(nodes)
        self.Y = self.M.half(J.T)
        self.y = self.M.half(dt * (tau - inverse_dynamics(nodes, np.zeros(nodes.nv), maps=True)))
        scaled = self.M.scaled(self.Y)
        self.gained, self.G = scaled.T @ self.y, mirrored(self.Y.T @ scaled)

    def moved(self, impulses: np.ndarray) -> np.ndarray:
        """The change of v in a step, (nv,)."""
        return self.M.other_half(self.M.scaled(self.y + self.Y @ impulses))


class _BySweeps:
    """The same by articulated bodies."""

    def __init__(self, nodes: Any, held: ConstraintRows, J: np.ndarray, tau: Any, dt: Any) -> None:
        self.nodes, self.held, self.tau, self.dt = nodes, held, tau, dt
        self.gained, self.G = J @ (dt * articulated_body(nodes, tau)), compliance(held)[0]

    def moved(self, impulses: np.ndarray) -> np.ndarray:
        forces = self.tau + self.held.joint_forces(impulses) * (1.0 / self.dt)
        return self.dt * articulated_body(self.nodes, forces)


def _without_loops(G: np.ndarray, free: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """G and velocities of the first m rows while the others, those of loops, do not move; and all impulses from those of m."""
    if len(free) == m:
        return G, free, lambda impulses: impulses
    own, loops = slice(0, m), slice(m, None)
    S = Factor(G[loops, loops], dependent=REDUNDANT)
    Z, z = S.solve(G[loops, own]), S.solve(free[loops])
    reduced = G[own, own] - mirrored(G[own, loops] @ Z) if m else G[own, own]
    return reduced, free[own] - G[own, loops] @ z, lambda impulses: np.concatenate([impulses, -(z + Z @ impulses)])
