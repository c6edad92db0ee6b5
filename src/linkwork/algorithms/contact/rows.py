"""Rows of a step with contact: candidates, joint limits and dry friction in joints, with their laws.

Targets are at the velocity level. While a gap is open, the normal velocity is at least -gap / dt: a distant
candidate has no impulse, and one that would touch within the step touches at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.friction_laws import Coulomb, Rolling
from linkwork.algorithms.contact.joint_rows import limited, with_friction
from linkwork.algorithms.contact.laws import Block, Bounded, Interval
from linkwork.compiler.ir.functions import maximum, minimum, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.constraints import BodyKinematics, Rows
from linkwork.contact import Candidate, Contacts, JointLaws, contact_rows, row_names
from linkwork.mechanism import PlacedJoint
from linkwork.model import Model
from linkwork.spatial import is_zero

# [m/s or rad/s] penetrations that this velocity undoes in a step are; so coplanar contacts do not contradict
AT_ONCE = 0.02
CORRECTED = 0.2  # the part of larger ones that is undone in a step
START_DEPTH = 1e-4  # [m] penetrations that are undone whatever presses
FASTEST = 0.1  # [m/s or rad/s] the largest velocity of that: too slow to add energy that counts


class ContactRows(NamedTuple):
    """Block of rows with the offsets of their velocities (m,) and of the diagonal of G (m,).

    `bounces`: the first row has restitution.
    """

    block: Block
    target: list[Any]
    compliance: list[Any]
    bounces: bool = False


def names(model: Model, contacts: Contacts | JointLaws) -> tuple[str, ...]:
    """Return a name for each row."""
    result = [name for candidate in contacts.candidates(model) for name in row_names(candidate)]
    if contacts.limits:
        result += [limit.name for limit in limited(model)]
    if contacts.joint_friction:
        result += [friction.name for friction in with_friction(model)]
    return tuple(result)


def count(model: Model, contacts: Contacts | JointLaws) -> int:
    """Return the number of rows."""
    return len(names(model, contacts))


class Coefficients(NamedTuple):
    """Coefficients of sliding friction and of restitution, (candidates,) each.

    None: those of the candidates.
    """

    friction: Any = None
    restitution: Any = None


NONE_GIVEN = Coefficients()


def without_friction(candidates: Sequence[Candidate]) -> list[int]:
    """Return the candidates with a normal row only, on which no coefficient of friction can act."""
    return [k for k, candidate in enumerate(candidates) if candidate.dimension == 1]


def without_friction_row(model: Model) -> list[tuple[PlacedJoint, int]]:
    """Return joint velocities whose friction is an input but zero in the nominal model: joint and index.

    They have no row, so that no friction can act there.
    """
    joints = model.nominal.joints
    every = ((joint, was, i) for joint, was in zip(model.joints, joints) for i in range(joint.nv))
    return [
        (joint, i) for joint, was, i in every if was.friction[i] == 0.0 and not is_zero(joint.friction[i])
    ]


def where_valid(model: Model, contacts: Contacts | JointLaws, coefficients: Coefficients, x: Any) -> Any:
    """Return x, or NaN where coefficients are invalid or act on no row."""
    spans: list[tuple[Any, float, float]] = []  # each value, and the bounds that it must lie within
    if coefficients.friction is not None:
        none = without_friction(contacts.candidates(model))
        spans += [(mu, 0.0, 0.0 if k in none else np.inf) for k, mu in enumerate(coefficients.friction)]
    if coefficients.restitution is not None:
        spans += [(e, 0.0, 1.0) for e in coefficients.restitution]
    if contacts.joint_friction and model is not model.nominal:
        spans += [(friction.force, 0.0, np.inf) for friction in with_friction(model)]
        spans += [(joint.friction[i], 0.0, 0.0) for joint, i in without_friction_row(model)]
    for value, low, high in spans:
        if isinstance(value, Symbol):
            x = where((value >= low) & (value <= high) & (value < np.inf), x, np.nan)
    return x


def all_rows(
    model: Model,
    kinematics: BodyKinematics,
    contacts: Contacts | JointLaws,
    coefficients: Coefficients = NONE_GIVEN,
) -> tuple[list[Rows], list[Any]]:
    """Return the rows, and what makes the laws of each group of them from (dt, velocity before, without
    impulses, first row).
    """
    rows: list[Rows] = []
    laws: list[Any] = []
    for k, candidate in enumerate(contacts.candidates(model)):
        assert isinstance(contacts, Contacts)
        touch = candidate.touch(kinematics)
        rows.append(contact_rows(kinematics, candidate, touch))
        joint_coefficients = Coefficients(*(None if x is None else x[k] for x in coefficients))
        laws.append(_OfCandidate(contacts, candidate, touch.gap, joint_coefficients))
    for limit in limited(model) if contacts.limits else ():
        row, value = limit.at(kinematics)
        rows.append(row)
        laws.append(_OfLimit(limit.bounds, value))
    for friction in with_friction(model) if contacts.joint_friction else ():
        rows.append(friction.at(kinematics))
        laws.append(_OfFriction(friction.force))
    return rows, laws


def _corrected(gap: Any, dt: Any) -> Any:
    """Return gap / dt of an open gap; of a penetration the rate that is corrected in this step."""
    rate = gap * (1.0 / dt)
    return where(rate > -AT_ONCE, rate, maximum(CORRECTED * (rate + AT_ONCE) - AT_ONCE, -FASTEST))


class _OfCandidate:
    def __init__(
        self, contacts: Contacts, candidate: Candidate, gap: Any, coefficients: Coefficients
    ) -> None:
        self.contacts = contacts
        self.candidate = candidate
        self.gap = gap
        sliding, *others = candidate.friction
        self.friction = (sliding if coefficients.friction is None else coefficients.friction, *others)
        self.restitution = (
            candidate.restitution if coefficients.restitution is None else coefficients.restitution
        )

    def __call__(
        self, dt: Any, before: np.ndarray, free: np.ndarray, first: int, part: Any, curved: Any
    ) -> list[ContactRows]:
        target, compliance = self._normal(dt, before[0], free[0], part, curved)
        bounces = not (is_zero(self.restitution) or np.isfinite(self.contacts.stiffness))
        size = self.candidate.dimension
        sliding, torsional, rolling = self.friction
        if size == 1:
            return [ContactRows(Interval(first, normal=first), [target], [compliance], bounces)]
        laws = [ContactRows(Coulomb(first, sliding), [target, 0.0, 0.0], [compliance, 0.0, 0.0], bounces)]
        if size > 3:
            laws.append(ContactRows(Bounded(first + 3, torsional, first), [0.0], [0.0]))
        if size > 4:
            laws.append(ContactRows(Rolling(first + 4, rolling, first), [0.0, 0.0], [0.0, 0.0]))
        return laws

    def undoing(self, dt: Any, free: Any) -> Any:
        """Return the velocity with which a penetration is corrected [m/s]; `free` is that without impulses.

        For a small one it is at most the approach velocity of the bodies, so that the impulse does no
        positive work.
        """
        rate = maximum(-_corrected(self.gap, dt), 0.0)
        return where(self.gap > -START_DEPTH, minimum(rate, maximum(-free, 0.0)), rate)

    def _normal(self, dt: Any, before: Any, free: Any, part: Any, curved: Any) -> tuple[Any, Any]:
        """Return the offset of the normal velocity, at least zero then, and the compliance [1/kg]."""
        k = self.contacts.stiffness
        d = self.contacts.damping
        if np.isfinite(k):
            # an impulse dt (-k gap' - d w), with the gap at the step's end; where the gap closes in the step,
            # d acts on the rate of the penetration only, gap' / dt: so there is no force while gaps are open
            soft = 1.0 / (dt * k + d)
            return where(self.gap > 0.0, self.gap * (1.0 / dt), k * self.gap * soft), soft / dt
        target = where(self.gap > 0.0, self.gap * (1.0 / dt), -self.undoing(dt, free)) + curved * (1.0 / dt)
        e = self.restitution
        if is_zero(e):
            return target, 0.0
        closing = (self.gap + dt * free < 0.0) & (before < 0.0) & (e > 0.0)
        # the bounce, and what forces do to the velocity in a step: without that, it would gain energy
        back = part * e * before - minimum(free - before, 0.0)
        return where(closing, minimum(target, back), target), 0.0


class _OfLimit:
    def __init__(self, bounds: tuple[float, float], q: Any) -> None:
        self.lower, self.upper = bounds
        self.q = q

    def __call__(
        self, dt: Any, before: np.ndarray, free: np.ndarray, first: int, part: Any, curved: Any
    ) -> list[ContactRows]:
        lower = -_corrected(self.q - self.lower, dt) if np.isfinite(self.lower) else None
        upper = _corrected(self.upper - self.q, dt) if np.isfinite(self.upper) else None
        return [ContactRows(Interval(first, lower, upper), [0.0], [0.0])]


class _OfFriction:
    def __init__(self, force: Any) -> None:
        self.force = force

    def __call__(
        self, dt: Any, before: np.ndarray, free: np.ndarray, first: int, part: Any, curved: Any
    ) -> list[ContactRows]:
        return [ContactRows(Bounded(first, dt * self.force), [0.0], [0.0])]


def laws_of(
    laws: Sequence[Any],
    sizes: Sequence[int],
    dt: Any,
    before: np.ndarray,
    free: np.ndarray,
    part: Any = 1.0,
    curved: Any = (),
) -> list[ContactRows]:
    """Return the laws of all groups of rows, from their velocities before the step and without impulses, (m,)
    each.

    `part`: coefficients of restitution are this part of what they are. `curved` [m], (candidates,): what is
    added to gaps by a step, beside its length times the rates at its beginning.
    """
    result: list[ContactRows] = []
    first = 0
    for k, (law, size) in enumerate(zip(laws, sizes)):
        row_slice = slice(first, first + size)
        result += law(
            dt, before[row_slice], free[row_slice], first, part, curved[k] if k < len(curved) else 0.0
        )
        first += size
    return result
