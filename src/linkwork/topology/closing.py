"""Closing loops over numbers: damped least squares in units of the loops' own lengths, so that no step depends on units.

Files are mostly drawn near a closed posture. So the whole cluster is closed from where it is, by Gauss-Newton steps of least
norm, then by Levenberg-Marquardt steps, then one loop after the other, then by continuation: the error of the first posture is
taken away little by little. Random starts come last, first near the file's own zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from linkwork.parts import GROUND, LoopConstraint, Mechanism
from linkwork.parts.limits import Budget
from linkwork.topology.couplings import explicit_couplings
from linkwork.topology.motion import ClusterPosture
from linkwork.topology.numeric import NumericPosture

CLOSED = 1e-11  # relative to the size of the loop, or in rad
TOLERANCE = 1e-4  # of the loop's length, and in rad: what redundant equations may miss by, since files have few digits
RANK = 1e-7  # of singular values, relative to the largest
STEPS, GAUSS_NEWTON_STEPS = 80, 20
STALLED = 5  # Gauss-Newton steps that gain little, after which they end
REMEMBERED = 40  # configurations whose errors are kept: the same ones are asked for again
WIDE = 1e3  # limits as far away as this [rad or m] bound nothing: files write 1e16 for none


class Closing:
    """The loops of a cluster as one problem of least squares without units: lengths in those of their loop, angles in rad.

    Where it hangs on several supports, the cluster below, whose posture is given, stays. Work is counted in a `budget`.
    """

    def __init__(
        self,
        model: Mechanism,
        bodies: Sequence[int],
        constraints: Sequence[LoopConstraint],
        below: ClusterPosture | None = None,
        supports: Sequence[int] = (),
        budget: Budget | None = None,
    ) -> None:
        self.model, self.bodies, self.constraints, self._budget = model, bodies, constraints, budget
        self.posture = NumericPosture(model, bodies, below, supports)
        self.joints = [model.joints[k] for k in bodies]
        self._places = [(j.kind, j.q_slice, self.posture.columns[k]) for k, j in zip(bodies, self.joints)]
        self.exact = True  # whether all equations can hold; otherwise redundant ones miss a little
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # errors at the last configurations
        self.tolerance = TOLERANCE if model.tolerance is None else model.tolerance
        counts = [c.count(model.joints) for c in constraints]
        ends = np.cumsum([0, *counts])
        self.rows = [slice(a, b) for a, b in pairwise(ends.tolist())]  # of each constraint
        self.count = int(ends[-1])
        self._work = len(bodies) + self.count
        self.sizes = [loop_length(model, c) for c in constraints]  # [m]
        known = [size for size in self.sizes if size > 0.0]
        self.length = math.exp(sum(map(math.log, known)) / len(known)) if known else 1.0
        self.sizes = [size or self.length for size in self.sizes]
        self.columns = np.ones(self.posture.size)
        for k, joint in zip(bodies, self.joints):
            S = joint.kind.subspace(joint.kind.neutral()).astype(float)
            self.columns[self.posture.columns[k]] = np.where(S[:3].any(axis=0), 1.0, self.length)
        self.units = np.ones(self.count)
        for c, own, size in zip(constraints, self.rows, self.sizes):
            self.units[own] = np.where(c.lengths(model.joints), size, 1.0) if c.ends else self._own_units(c)
        far = max((abs(x) for p in _points(model, bodies, constraints) for x in p), default=0.0)
        self.rounding = 4e-15 * far / min(self.sizes, default=1.0)

    def _own_units(self, constraint: LoopConstraint) -> np.ndarray:
        """The largest slopes of equations between joint coordinates, which may be of any unit."""
        rng = np.random.default_rng(0)
        found: Any = 0.0
        for attempt in range(1 if constraint.linear else 3):
            q = self.model.tree_neutral()
            for joint in self.joints if attempt else ():
                q[joint.q_slice] = joint.kind.random(rng)
            self.posture.move(q)
            J = constraint.closing_error(self.posture)[1] * self.columns
            found = np.maximum(found, np.abs(np.where(np.isfinite(J), J, 0.0)).max(axis=1, initial=0.0))
        return np.where(found > 0.0, found, 1.0)

    def at(self, q: np.ndarray, active: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The errors at q, (equations,), and their Jacobian, (equations, velocities), without units.

        With `active`, only those of some constraints; the others' rows are zero.
        """
        if active is not None:
            return self._counted(q, active)
        key = q.tobytes()
        if key not in self._known:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            self._known[key] = self._counted(q)
        return self._known[key]

    def _counted(self, q: np.ndarray, active: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        if self._budget:
            self._budget.take(self._work)
        return self.errors(q, active)

    def errors(self, q: np.ndarray, active: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The same, which is not counted as work."""
        self.posture.move(q)
        e, J = np.zeros(self.count), np.zeros((self.count, self.posture.size))
        for n, (constraint, own) in enumerate(zip(self.constraints, self.rows)):
            if active is None or n in active:
                e[own], J[own] = constraint.closing_error(self.posture)
        return e / self.units, J * (self.columns / self.units[:, None])

    def moved(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """q after a step in the velocities without units."""
        q, step = q.copy(), step * self.columns
        for kind, own, columns in self._places:
            q[own] = kind.integrate(q[own], step[columns])
        return q

    def way(self, q: np.ndarray, there: np.ndarray) -> float:
        """The largest velocity, without units, that leads from one configuration to another in a unit of time."""
        found = [joint.kind.difference(q[joint.q_slice], there[joint.q_slice]) for joint in self.joints]
        return float(np.abs(np.concatenate(found).astype(float) / self.columns).max(initial=0.0))

    def limits_missed(self, q: np.ndarray, inset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """How far coordinates are beyond their limits, and the rows of the identity for these, without units.

        Limits are taken closer by a part `inset` of their distance.
        """
        off = np.zeros(self.posture.size)
        for k, joint in zip(self.bodies, self.joints):
            if joint.nq == joint.nv:
                own, low, high = q[joint.q_slice], np.array(joint.lower), np.array(joint.upper)
                margin = inset * np.minimum(high - low, 1.0)
                low, high = low + margin, high - margin
                off[self.posture.columns[k]] = np.maximum(own - high, 0.0) + np.minimum(own - low, 0.0)
        off /= self.columns
        beyond = np.abs(off) > 1e-9
        return off[beyond], np.eye(len(off))[beyond]

    def at_limits(self, q: np.ndarray) -> list[str]:
        """The joints that are at or beyond a limit."""
        found = []
        for joint in self.joints:
            own, low, high = q[joint.q_slice], np.array(joint.lower), np.array(joint.upper)
            bounded = np.abs(low) < WIDE, np.abs(high) < WIDE
            if (bounded[0] & (own < low + 1e-3)).any() or (bounded[1] & (own > high - 1e-3)).any():
                found.append(joint.name)
        return found

    def gaps(self, q: np.ndarray) -> list[tuple[float, float]]:
        """How far each constraint is open at q [m, rad]; of those between joint coordinates, in their own units, the second."""
        e = self.errors(q)[0] * self.units
        found = []
        for c, own in zip(self.constraints, self.rows):
            lengths = c.lengths(self.model.joints)
            found.append((float(np.linalg.norm(e[own][lengths])), float(np.linalg.norm(e[own][~lengths]))))
        return found

    @property
    def allowed(self) -> float:
        """What redundant equations may miss by in velocities and accelerations, relative to these."""
        return 1e-6 if self.exact else 30.0 * self.tolerance

    def unlimited(self) -> Closing:
        """The same, whose work is not counted."""
        found = copy(self)
        found._budget = None
        return found

    def distance(self, q: np.ndarray) -> float:
        """How far q is from closed: the root of the sum of squares of its errors, without units."""
        found = float(np.linalg.norm(self.errors(q)[0]))
        return found if math.isfinite(found) else math.inf

    def left(self, e: np.ndarray) -> float:
        """The largest error, beyond rounding."""
        largest = float(np.abs(e).max(initial=0.0))
        return max(0.0, largest - self.rounding) if math.isfinite(largest) else math.inf


def _points(model: Mechanism, bodies: Sequence[int], constraints: Sequence[LoopConstraint]) -> Iterator[np.ndarray]:
    yield from (model.joints[k].place.p for k in bodies)
    yield from (end.place.p for c in constraints for end in c.ends)


def loop_length(model: Mechanism, constraint: LoopConstraint) -> float:
    """Half the way round a loop, from joint to joint [m]; zero where all its axes meet in a point, or it has no ends."""
    if not constraint.ends:
        return 0.0
    paths: list[list[int]] = []
    for end in constraint.ends:
        path, k = [], end.body
        while k != GROUND:
            path.append(k)
            k = model.joints[k].parent
        paths.append(path)
    inner = set(paths[0]) & set(paths[1]) if len(paths) > 1 else set()
    total, largest = 0.0, 0.0
    meeting = []
    for end, path in zip(constraint.ends, paths):
        at = end.place.p
        for k in path:
            if k in inner:
                break
            total += math.dist(at, (0.0, 0.0, 0.0))
            at = model.joints[k].place.p
            largest = max(largest, *map(abs, at))
        meeting.append(at)
    total += math.dist(*meeting) if len(meeting) == 2 else 0.0
    rod = sum(row.length or 0.0 for row in getattr(constraint, "every_row", ()))
    total = 0.5 * (total + rod)
    return total if total > 1e-12 * largest else 0.0


class Closed(NamedTuple):
    """A configuration q, (nq,), what is left of its errors without units, and whether only redundant equations miss."""

    q: np.ndarray
    left: float
    exact: bool = True

    @property
    def is_closed(self) -> bool:
        return self.left < CLOSED


def gauss_newton(
    problem: Closing, q: np.ndarray, rows: Any = None, *, steps: int = GAUSS_NEWTON_STEPS, rcond: float = 1e-9
) -> Closed:
    """The best configuration on the way by Gauss-Newton steps of least norm and bounded length."""
    rows = slice(None) if rows is None else rows
    best, least, size = q, math.inf, math.inf
    last = 0  # the last step that gained much
    for n in range(steps):
        e, J = problem.at(q)
        before, size = size, problem.left(e[rows])
        last = n if size < 0.5 * least else last
        if size < least:
            best, least = q, size
        if n - last > STALLED or least < 1e-14 or not math.isfinite(size) or (least < CLOSED and size > 0.25 * before):
            break
        step = -_least_norm(J[rows], e[rows], rcond)
        largest = float(np.abs(step).max(initial=0.0))
        if largest < 1e-15:
            break
        q = problem.moved(q, step * min(1.0, 0.5 / largest))
    return Closed(best, least)


def _least_norm(J: np.ndarray, e: np.ndarray, rcond: float) -> np.ndarray:
    """The least x of those that make J x nearest to e."""
    if J.shape[1] > 60 and rcond < 1e-6:  # as good, in a fraction of the time
        A = J.T @ J
        A[np.diag_indices(len(A))] += 1e-12 * float(np.trace(A)) / len(A) + 1e-300
        return np.linalg.solve(A, J.T @ e)
    return np.linalg.lstsq(J, e, rcond=rcond)[0]


def levenberg_marquardt(
    problem: Closing,
    q: np.ndarray,
    *,
    aim: np.ndarray | None = None,
    active: Sequence[int] | None = None,
    bounded: bool = False,
    patient: bool = False,
    steps: int = STEPS,
) -> np.ndarray:
    """The configuration of least squares of the errors, less those in `aim`; with `active`, of some constraints only.

    `bounded`: coordinates beyond their limits count as errors too. `patient`: steps go on where they gain little.
    """

    def at(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        e, J = problem.at(q, active)
        e = e if aim is None else e - aim
        if bounded:
            off, rows = problem.limits_missed(q, inset=0.01)
            e, J = np.concatenate([e, off]), np.concatenate([J, rows])
        return e, J

    e, J = at(q)
    f, damping, growth = float(e @ e), 1e-3, 2.0
    marks = [f]
    for _ in range(steps):
        if not math.isfinite(f) or f < 1e-18:
            break
        A, g = J.T @ J, J.T @ e
        A[np.diag_indices(len(A))] += damping * (1.0 + f)
        step = -np.linalg.solve(A, g)
        largest = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, 1.0 / (largest + 1e-300))
        if largest < 1e-13:
            break
        there = problem.moved(q, step)
        e1, J1 = at(there)
        f1 = float(e1 @ e1)
        expected = -float(step @ (2.0 * g + J.T @ (J @ step)))
        gain = (f - f1) / expected if expected > 0.0 and math.isfinite(f1) else -1.0
        if gain > 1e-4:
            q, e, J, f = there, e1, J1, f1
            damping, growth = max(damping * max(0.1, 1.0 - (2.0 * gain - 1.0) ** 3), 1e-14), 2.0
            marks.append(f)
            if not patient and len(marks) > 12 and marks[-1] > 0.8 * marks[-12] and f > 1e-12:
                break  # a valley without a zero
        else:
            damping, growth = damping * growth, 2.0 * growth
            if damping > 1e12:
                break
    return q


def finished(problem: Closing, q: np.ndarray, *, exact: bool = True) -> Closed:
    """The configuration near q that closes all loops, or in the sense of least squares where only that is within tolerance.

    Unless `exact`, the first is known to be out of reach.
    """
    found = gauss_newton(problem, q, steps=12) if exact else Closed(q, math.inf)
    if found.is_closed:
        return found
    few = gauss_newton(problem, q, steps=8, rcond=10.0 * problem.tolerance)  # what cannot be told from nothing does not count
    e, J = problem.at(few.q)
    step = _least_norm(J, e, 10.0 * problem.tolerance)
    if few.left < problem.tolerance and float(np.abs(step).max(initial=0.0)) < 1e-3 * few.left:
        return Closed(few.q, 0.0, exact=False)
    return min(found, few, key=lambda one: one.left)


def close_problem(problem: Closing, q: np.ndarray, *, thorough: bool = True) -> Closed:
    """The closed configuration near q, or the best that was found."""
    first = gauss_newton(problem, q)
    if first.is_closed or not math.isfinite(first.left):
        return first
    tried = [first]

    def goes(from_: np.ndarray) -> Closed | None:
        tried.append(finished(problem, from_))
        return tried[-1] if tried[-1].is_closed else None

    found = goes(levenberg_marquardt(problem, q))
    if found is None and thorough:
        found = goes(_one_after_the_other(problem, q)) if len(problem.constraints) > 1 else None
        found = found or goes(_continued(problem, q))
    return found or min(tried, key=lambda one: one.left)


def _one_after_the_other(problem: Closing, q: np.ndarray) -> np.ndarray:
    """Loop after loop closed, those before kept."""
    for n in range(len(problem.constraints)):
        q = levenberg_marquardt(problem, q, active=range(n + 1), steps=30)
    return q


def _continued(problem: Closing, q: np.ndarray) -> np.ndarray:
    """Continuation (homotopy) from q: its errors are taken away little by little."""
    start, _ = problem.at(q)
    done, stride = 0.0, 0.25
    while done < 1.0 and stride > 1.0 / 64.0:
        to = min(1.0, done + stride)
        aim = (1.0 - to) * start
        there = levenberg_marquardt(problem, q, aim=aim, steps=15)
        if np.abs(problem.at(there)[0] - aim).max(initial=0.0) < 1e-3:
            q, done, stride = there, to, 1.5 * stride
        else:
            stride *= 0.5
    return levenberg_marquardt(problem, q)


def close(
    model: Mechanism,
    bodies: Sequence[int],
    constraints: Sequence[LoopConstraint],
    q: np.ndarray,
    below: ClusterPosture | None = None,
    supports: Sequence[int] = (),
    budget: Budget | None = None,
    *,
    rows: Sequence[int] | None = None,
    accepted: Sequence[float] = (),
    thorough: bool = True,
) -> tuple[np.ndarray, float]:
    """A closed configuration near q, and what is left of its errors, without units: below `CLOSED` where it is closed.

    Where it hangs on several supports, the cluster below, whose posture is given, stays. Work is counted in a `budget`. Where
    redundant equations cannot hold exactly, those in `rows` do, and the others may miss by what is `accepted` [m or rad].
    """
    q = np.array(q, dtype=float)
    explicit = explicit_couplings(bodies, constraints, model.joints)
    if explicit:
        q = explicit.nearest(q, model.joints)
        return q, explicit.residual(q, model.joints)
    problem = Closing(model, bodies, constraints, below, supports, budget)
    if rows is not None and any(accepted):
        return kept_closed(problem, q, list(rows), np.array(accepted) / problem.units)
    found = close_problem(problem, q, thorough=thorough)
    return found.q, found.left


def kept_closed(problem: Closing, q: np.ndarray, rows: list[int], accepted: Any) -> tuple[np.ndarray, float]:
    """The configuration near q in which some equations hold, and what the others miss beyond what is accepted."""
    found = gauss_newton(problem, q, rows)
    missed = problem.left(np.maximum(np.abs(problem.at(found.q)[0]) - accepted, 0.0)) if found.is_closed else math.inf
    if missed >= CLOSED:
        near = close_problem(problem, q)
        found = gauss_newton(problem, near.q, rows)
        missed = problem.left(np.maximum(np.abs(problem.at(found.q)[0]) - accepted, 0.0))
    return found.q, max(found.left, missed)


def starts(problem: Closing, q: np.ndarray, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Where to begin: random configurations near q, farther and farther away, then within limits, then anywhere."""
    near = count // 2
    for n in range(near):
        spread = 0.2 * (1.0 + n)
        yield problem.moved(q, np.clip(spread, 0.0, 2.0) * rng.normal(size=problem.posture.size))
    for n in range(near, count):
        there = q.copy()
        for joint in problem.joints:
            there[joint.q_slice] = joint.kind.random(rng)
            if joint.nq == joint.nv and n % 2:
                low, high = np.array(joint.lower), np.array(joint.upper)
                bounded = (np.abs(low) < WIDE) & (np.abs(high) < WIDE)
                within = rng.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 1.0))
                there[joint.q_slice] = np.where(bounded, within, there[joint.q_slice])
        yield there


def within_limits(problem: Closing, q: np.ndarray) -> Closed | None:
    """A closed configuration near q that keeps all joint limits, if it is found."""
    for _ in range(3):
        found = finished(problem, levenberg_marquardt(problem, q, bounded=True, steps=40))
        if found.is_closed and not len(problem.limits_missed(found.q)[0]):
            return found
        q = found.q
    return None
