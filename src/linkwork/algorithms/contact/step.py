"""The contact problem of one step at the velocity level: v' = v + dt a + M⁻¹ Jᵀ λ, with impulses λ that
satisfy the laws of all rows.

G = J M⁻¹ Jᵀ, the Delassus matrix, and the free velocity share a factor of the mass matrix, or sweeps
(Constrained Sec. VI). Constrained loops are rows that must not move; they are eliminated before the contact
problem is solved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.contact.carried import Carried
from linkwork.algorithms.contact.delassus_factors import DelassusByMassMatrix, DelassusBySweeps, without_loops
from linkwork.algorithms.contact.end_gaps import pairs_of
from linkwork.algorithms.contact.energy import (
    StepStart,
    account,
    guarded_mechanisms,
    ledgers,
    settled,
)
from linkwork.algorithms.contact.free_flight import turning_axes
from linkwork.algorithms.contact.joint_rows import held_bodies
from linkwork.algorithms.contact.on_bodies import on_bodies
from linkwork.algorithms.contact.rows import NONE_GIVEN, START_DEPTH, Coefficients, all_rows, laws_of
from linkwork.algorithms.contact.solver import Bounce, Problem, Solution, solve
from linkwork.algorithms.newton import tolerance
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.compiler.ir.functions import absolute, maximum, minimum, where
from linkwork.constraints import BodyKinematics, Rows, loop_constraints
from linkwork.contact import Contacts, JointLaws
from linkwork.model import GROUND, Model
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial.factor import sparse_product

ENERGY_GAIN_TOL = 1e-9  # energy gain by rounding, relative to the work of impulses

# q and v after a step, from q before it, its velocity in axes before it, and its length
Arrive = Callable[[Any, np.ndarray, Any], tuple[np.ndarray, np.ndarray]]


class StepInput(NamedTuple):
    """A step to take: the mechanism, what may touch, the state, forces and the length dt [s].

    `start`, (impulses,), are impulses to start with. `method` says how responses to impulses are computed: by
    a factor of the mass matrix ("mass_matrix") or by sweeps.
    """

    model: Model
    contacts: Contacts
    q: Any
    v: Any
    tau: Any
    dt: Any
    f_ext: Any
    start: Any
    method: str
    arrive: Arrive
    coefficients: Coefficients = NONE_GIVEN
    differentiable: bool = False


def nodes_with_contact(
    model: Model, contacts: Contacts | JointLaws, q: Any, v: Any, f_ext: Any = None
) -> ModelTree[Any]:
    """Return the nodes in one state; rotors that may touch something, or are held, are bodies there, not
    single rows.
    """
    rotors = {k for k, each in enumerate(lumped(model)) if each.rotor}
    touching = {k for candidate in contacts.candidates(model) for k in candidate.bodies} | held_bodies(model)
    held = {k for constraint in loop_constraints(model) for k in constraint.bodies(model)}
    return hinge_tree(model, q, v, f_ext, all_bodies=bool(rotors & (touching | held)))


class StepSetup(NamedTuple):
    """Data for checks at the end of a step: the state before it, forces, and gaps of candidates.

    `normals` are the rows of candidates.
    """

    start: StepStart
    gaps: list[Any]
    normals: list[int]
    sizes: list[int]

    def rows(self, k: int) -> range:
        """Return the rows of candidate k."""
        return range(self.normals[k], self.normals[k] + self.sizes[k])


def begun_at(model: Model, contacts: Contacts, arrays: Mapping[str, Any]) -> StepSetup:
    """Return the setup from the arrays of a step, by name."""
    q, v, tau, dt, f_ext = (arrays.get(name) for name in ("q", "v", "tau", "dt", "f_ext"))
    nodes = nodes_with_contact(model, contacts, q, v, f_ext)
    rows, laws = all_rows(model, BodyKinematics(nodes), contacts)
    return _begun(model, contacts, nodes, (q, v, tau, dt, f_ext), rows, laws)


def _begun(
    model: Model,
    contacts: Contacts,
    nodes: Any,
    coefficients: tuple[Any, ...],
    rows: Sequence[Rows],
    laws: Sequence[Any],
) -> StepSetup:
    q, v, tau, dt, f_ext = coefficients
    sizes = [len(each.k) for each in rows]
    contact_laws = laws[: len(contacts.candidates(model))]
    forces = tau if f_ext is None else tau + _of_outer_forces(model, contacts, nodes, q, v)
    normals = [sum(sizes[:k]) for k in range(len(contact_laws))]
    gaps = [law.gap for law in contact_laws]
    start = StepStart(nodes, v, dt, np.asarray(forces), ledgers(guarded_mechanisms(model), nodes, v))
    return StepSetup(start, gaps, normals, sizes)


def guarded(
    model: Model,
    contacts: Contacts,
    begun: StepSetup,
    end: tuple[Any, Any],
    u: Any,
    pushes: Any,
    works: np.ndarray,
) -> np.ndarray:
    """Return v at the end (q, v) of a step, with the energy and momentum that mechanisms may have; u is the
    velocity of the step.

    `pushes`, (nv,), are the impulses of contacts, limits and dry friction as generalised ones, and `works`,
    (m,), what they do.
    """
    mechanisms, (q, result) = guarded_mechanisms(model), end
    v = result
    ends = ledgers(mechanisms, nodes_with_contact(model, contacts, q, None), v) if mechanisms else []
    for n, (each, ledger) in enumerate(zip(mechanisms, ends)):
        accounts = [
            k for k, x in enumerate(contacts.candidates(model)) if x.other == GROUND and x.body in each.bodies
        ]
        by_ground: Any = 0.0
        if not np.isfinite(contacts.stiffness):  # springs of compliant contacts give back what they took
            by_ground = sum((works[i] for k in accounts for i in begun.rows(k)), start=0.0)
        result = settled(each, account(each, n, begun.start, u, pushes, by_ground, q), ledger, result)
    return result


class Step:
    """The contact problem of one step, for any `curved` gaps; see `laws_of`."""

    def __init__(
        self,
        model: Model,
        contacts: Contacts,
        q: Any,
        v: Any,
        tau: Any,
        dt: Any,
        f_ext: Any,
        method: str,
        coefficients: Coefficients,
        *,
        differentiable: bool = False,
    ) -> None:
        self.v = v
        self.dt = dt
        self.contacts = contacts
        self.differentiable = differentiable
        nodes = nodes_with_contact(model, contacts, q, v, f_ext)
        kinematics = BodyKinematics(nodes)
        kinematics.horizon = None if differentiable else dt
        rows, self.laws = all_rows(model, kinematics, contacts, coefficients)
        self.sizes = [len(each.k) for each in rows]
        candidates = contacts.candidates(model)
        self.touches = [candidate.touch(kinematics) for candidate in candidates]
        self.near = [candidate.is_near(kinematics) for candidate in candidates]
        self.pairs = pairs_of(candidates)
        self.begun = _begun(model, contacts, nodes, (q, v, tau, dt, f_ext), rows, self.laws)
        loops = [constraint.equations(model, kinematics) for constraint in loop_constraints(model)]
        self.bodies = None if differentiable else on_bodies(kinematics, rows, candidates)
        moving = rows if self.bodies is None else self.bodies.moving
        held = ConstraintRows.of(nodes, [*moving, *loops])
        self.size = sum(len(each.k) for each in moving)
        J = held.jacobian()
        before = sparse_product(J, v)
        self.turning = dt * turning_axes(model, v)
        self.response: Any = (DelassusByMassMatrix if method == "mass_matrix" else DelassusBySweeps)(
            nodes, held, J, tau, dt
        )
        free = before + self.response.gained + sparse_product(J, self.turning)
        self.G, self.free, self.released = without_loops(self.response.G, free, self.size)
        self.J = J[: self.size]
        self.before = before[: self.size]
        if self.bodies is not None:
            self.before, self.free = self.bodies.of_rows(self.before), self.bodies.of_rows(self.free)

    def solved(self, start: np.ndarray, curved: np.ndarray) -> tuple[np.ndarray, Solution]:
        """Return the velocity after the step, in axes before it, and the solution, from impulses to start
        with.
        """
        G = self.G
        bodies = self.bodies

        def targets(part: Any) -> np.ndarray:
            made = laws_of(self.laws, self.sizes, self.dt, self.before, self.free, part, curved)
            return np.array([x for law in made for x in law.target], dtype=object)

        result = laws_of(self.laws, self.sizes, self.dt, self.before, self.free, 1.0, curved)
        g = self.free + targets(1.0)
        bouncing = [law.block.rows[0] for law in result if law.bounces]
        bounce = Bounce(self.free, targets, bouncing) if bouncing and not self.differentiable else None
        soft = np.array([x for law in result for x in law.compliance], dtype=object)
        blocks = [law.block for law in result]
        if bodies is None:
            problem = Problem(G + np.diag(soft) if self.size else G, g, blocks, bounce=bounce)
        else:
            problem = Problem(
                np.zeros((0, 0)),
                g,
                blocks,
                Carried(bodies.T, G, soft, bodies.groups, bodies.B, bodies.relative),
                bounce,
            )
        how = self.contacts
        solution = solve(problem, start, how.iterations, how.tolerance, implicit=self.differentiable)
        impulses = solution.impulses if bodies is None else bodies.onto(solution.impulses)
        return self.v + self.turning + self.response.moved(self.released(impulses)), solution

    def pushes(self, impulses: np.ndarray) -> np.ndarray:
        """Return impulses on rows as generalised ones, (nv,)."""
        moving = impulses if self.bodies is None else self.bodies.onto(impulses)
        result: np.ndarray = sparse_product(self.J.T, moving)
        return result

    def works(self, impulses: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the work of the impulse in each row in a step to u [J], (m,)."""
        after = sparse_product(self.J, u)
        after = after if self.bodies is None else self.bodies.of_rows(after)
        return 0.5 * (impulses * (self.before + after))

    def gain(self, impulses: np.ndarray, u: np.ndarray) -> Any:
        """Return the work of all impulses in a step to u [J], without what undoing deep
        penetrations takes.
        """
        work = sum(self.works(impulses, u))
        for i, gap, rate in zip(self.begun.normals, self.begun.gaps, self.undoing()):
            undone = maximum(0.5 * impulses[i] * (self.before[i] + rate), 0.0)
            work = work - where(gap > -START_DEPTH, 0.0, undone)
        return work

    def rounding(self, impulses: np.ndarray, u: np.ndarray) -> Any:
        """The work that impulses may do by rounding [J]."""
        amounts = sum(absolute(x) for x in self.works(impulses, u))
        pushed = sum(absolute(x) for x in impulses)
        return tolerance(ENERGY_GAIN_TOL, self.free) * amounts + self.contacts.tolerance * pushed

    def slowly_undone(self) -> list[Any]:
        """Return the part of penetrations [m] that is undone slowly, of those that are not deep."""
        rates = zip(self.begun.gaps, self.undoing())
        return [where(gap > -START_DEPTH, self.dt * rate, 0.0) for gap, rate in rates]

    def undoing(self) -> list[Any]:
        """Return the velocities with which penetrations are undone [m/s]."""
        return [law.undoing(self.dt, self.free[i]) for i, law in zip(self.begun.normals, self.laws)]

    def aims(self) -> list[Any]:
        """Return the least that gaps may be after the step [m]: none, or a penetration less what is undone of
        it.
        """
        return [minimum(gap, 0.0) + self.dt * rate for gap, rate in zip(self.begun.gaps, self.undoing())]

    def expected(self, u: np.ndarray) -> list[Any]:
        """Return the gaps after the step [m] by their rates at its beginning."""
        w = sparse_product(self.J, u)
        w = w if self.bodies is None else self.bodies.of_rows(w)
        rates = [w[i] for i in self.begun.normals]
        return [gap + self.dt * rate for gap, rate in zip(self.begun.gaps, rates)]


def _of_outer_forces(model: Model, contacts: Contacts, nodes: Any, q: Any, v: Any) -> np.ndarray:
    """Return the generalised forces of f_ext, (nv,)."""
    still = np.zeros(nodes.nv)
    without = inverse_dynamics(nodes_with_contact(model, contacts, q, v), still, maps=True)
    result: np.ndarray = without - inverse_dynamics(nodes, still, maps=True)
    return result
