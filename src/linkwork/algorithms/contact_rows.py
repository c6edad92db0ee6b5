"""All rows of a step with contact: candidates, limits of joints, dry friction in them; and the laws that these obey.

Targets are put at the velocity level. While a gap is open, the normal velocity is at least -gap / dt, so that a candidate that
is far away has no impulse, and one that would touch within the step does so at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact_laws import Block, Bounded, Coulomb, Interval, Rolling
from linkwork.constraints import BodyKinematics, Rows
from linkwork.contact import Candidate, Contacts, contact_rows, row_names
from linkwork.ir.functions import maximum, minimum, where
from linkwork.model import Model
from linkwork.parts import PlacedJoint
from linkwork.simplify.rotors import lumped
from linkwork.spatial import is_zero

AT_ONCE = 0.02  # [m/s or rad/s] penetrations that this velocity undoes in a step are; so coplanar contacts do not contradict
CORRECTED = 0.2  # the part of larger ones that is undone in a step
FASTEST = 0.1  # [m/s or rad/s] the largest velocity of that: too slow to add energy that counts


class Law(NamedTuple):
    """A block of rows with what has to be added to their velocities (m,) and to the diagonal of G (m,).

    `bounces`: the first row has restitution.
    """

    block: Block
    target: list[Any]
    compliance: list[Any]
    bounces: bool = False


def limited(model: Model) -> list[tuple[PlacedJoint, int]]:
    """The coordinates of joints with limits: joint and place; only of joints whose velocities are rates of coordinates.

    Rotors are left out: their links have limits.
    """
    rotors = {k for k, each in enumerate(lumped(model.structure)) if each.rotor}
    return [
        (joint, i)
        for joint in model.joints
        if joint.child not in rotors
        for i in range(joint.nq)
        if joint.nq == joint.nv and joint.lower and (np.isfinite(joint.lower[i]) or np.isfinite(joint.upper[i]))
    ]


def with_friction(model: Model) -> list[tuple[PlacedJoint, int]]:
    """The velocities of joints with dry friction by the model's own numbers: joint and place."""
    own = model.structure.joints
    return [(joint, i) for joint, was in zip(model.joints, own) for i, f in enumerate(was.friction) if f != 0.0]


def names(model: Model, contacts: Contacts) -> tuple[str, ...]:
    """A name for each row."""
    found = [name for candidate in contacts.candidates(model) for name in row_names(candidate)]
    if contacts.limits:
        found += [f"{joint.name}.limit" if joint.nq == 1 else f"{joint.name}.limit {i}" for joint, i in limited(model)]
    if contacts.joint_friction:
        found += [f"{joint.v_names[i]}.friction" for joint, i in with_friction(model)]
    return tuple(found)


def count(model: Model, contacts: Contacts) -> int:
    """The number of rows."""
    return len(names(model, contacts))


class Coefficients(NamedTuple):
    """Coefficients of sliding friction and of restitution, (candidates,) each; None: those of the candidates."""

    friction: Any = None
    restitution: Any = None


NONE_GIVEN = Coefficients()


def all_rows(
    model: Model, kinematics: BodyKinematics, contacts: Contacts, given: Coefficients = NONE_GIVEN
) -> tuple[list[Rows], list[Any]]:
    """The rows, and what makes the laws of each group of them from (dt, velocity before, without impulses, first row)."""
    rows: list[Rows] = []
    laws: list[Any] = []
    for k, candidate in enumerate(contacts.candidates(model)):
        touch = candidate.touch(kinematics)
        rows.append(contact_rows(kinematics, candidate, touch))
        own = Coefficients(*(None if x is None else x[k] for x in given))
        laws.append(_OfCandidate(contacts, candidate, touch.gap, own))
    for joint, i in limited(model) if contacts.limits else ():
        rows.append(_in_joint(kinematics, joint, i))
        laws.append(_OfLimit(joint, i, kinematics.nodes.q[joint.q_slice][i]))
    for joint, i in with_friction(model) if contacts.joint_friction else ():
        rows.append(_in_joint(kinematics, joint, i))
        laws.append(_OfFriction(joint.friction[i]))
    return rows, laws


def _in_joint(kinematics: BodyKinematics, joint: PlacedJoint, i: int) -> Rows:
    return kinematics.on_joints([(joint.child, np.eye(joint.nv)[i : i + 1])], np.zeros(1, dtype=object))._replace(k=np.zeros(1))


def _corrected(gap: Any, dt: Any) -> Any:
    """gap / dt of an open gap; of a penetration what is corrected in this step."""
    rate = gap * (1.0 / dt)
    return where(rate > -AT_ONCE, rate, maximum(CORRECTED * (rate + AT_ONCE) - AT_ONCE, -FASTEST))


class _OfCandidate:
    def __init__(self, contacts: Contacts, candidate: Candidate, gap: Any, given: Coefficients) -> None:
        self.contacts, self.candidate, self.gap = contacts, candidate, gap
        sliding, *others = candidate.friction
        self.friction = (sliding if given.friction is None else given.friction, *others)
        self.restitution = candidate.restitution if given.restitution is None else given.restitution

    def __call__(self, dt: Any, before: np.ndarray, free: np.ndarray, first: int, part: Any, curved: Any) -> list[Law]:
        target, compliance = self._normal(dt, before[0], free[0], part, curved)
        bounces = not (is_zero(self.restitution) or np.isfinite(self.contacts.stiffness))
        size = self.candidate.dimension
        sliding, torsional, rolling = self.friction
        if size == 1:
            return [Law(Interval(first, normal=first), [target], [compliance], bounces)]
        laws = [Law(Coulomb(first, sliding), [target, 0.0, 0.0], [compliance, 0.0, 0.0], bounces)]
        if size > 3:
            laws.append(Law(Bounded(first + 3, torsional, first), [0.0], [0.0]))
        if size > 4:
            laws.append(Law(Rolling(first + 4, rolling, first), [0.0, 0.0], [0.0, 0.0]))
        return laws

    def undoing(self, dt: Any) -> Any:
        """The velocity with which a penetration is undone [m/s]."""
        return maximum(-_corrected(self.gap, dt), 0.0)

    def _normal(self, dt: Any, before: Any, free: Any, part: Any, curved: Any) -> tuple[Any, Any]:
        """What is added to the normal velocity so that it must not be negative, and the compliance [1/kg]."""
        k, d = self.contacts.stiffness, self.contacts.damping
        if np.isfinite(k):
            soft = 1.0 / (dt * k + d)  # an impulse dt (-k gap' - d w), with the gap at the step's end
            return k * self.gap * soft, soft / dt
        target = _corrected(self.gap, dt) + curved * (1.0 / dt)
        e = self.restitution
        if is_zero(e):
            return target, 0.0
        closing = (self.gap + dt * free < 0.0) & (before < 0.0) & (e > 0.0)
        # the bounce, and what forces do to the velocity in a step: without that, it would gain energy
        back = part * e * before - minimum(free - before, 0.0)
        return where(closing, minimum(target, back), target), 0.0


class _OfLimit:
    def __init__(self, joint: PlacedJoint, i: int, q: Any) -> None:
        self.lower, self.upper, self.q = joint.lower[i], joint.upper[i], q

    def __call__(self, dt: Any, before: np.ndarray, free: np.ndarray, first: int, part: Any, curved: Any) -> list[Law]:
        lower = -_corrected(self.q - self.lower, dt) if np.isfinite(self.lower) else None
        upper = _corrected(self.upper - self.q, dt) if np.isfinite(self.upper) else None
        return [Law(Interval(first, lower, upper), [0.0], [0.0])]


class _OfFriction:
    def __init__(self, force: Any) -> None:
        self.force = force

    def __call__(self, dt: Any, before: np.ndarray, free: np.ndarray, first: int, part: Any, curved: Any) -> list[Law]:
        return [Law(Bounded(first, dt * self.force), [0.0], [0.0])]


def laws_of(
    laws: Sequence[Any],
    sizes: Sequence[int],
    dt: Any,
    before: np.ndarray,
    free: np.ndarray,
    part: Any = 1.0,
    curved: Any = (),
) -> list[Law]:
    """The laws of all groups of rows, from their velocities before the step and without impulses, (m,) each.

    `part`: coefficients of restitution are this part of what they are. `curved` [m], (candidates,): what is added to gaps by a
    step, beside its length times the rates at its beginning.
    """
    found: list[Law] = []
    first = 0
    for k, (law, size) in enumerate(zip(laws, sizes)):
        own = slice(first, first + size)
        found += law(dt, before[own], free[own], first, part, curved[k] if k < len(curved) else 0.0)
        first += size
    return found
