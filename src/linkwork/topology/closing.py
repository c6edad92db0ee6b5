"""Closing loops over numbers: damped least squares in units of the loops' own lengths, so that no step depends on units.

Files are mostly drawn near a closed posture. So the whole cluster is closed from where it is, by Gauss-Newton steps of least
norm, then by Levenberg-Marquardt steps, then one loop after the other, then by continuation: the error of the first posture is
taken away little by little. Random starts come last, first near the file's own zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.parts import LoopConstraint, Mechanism
from linkwork.parts.limits import Budget
from linkwork.topology.closing_problem import WIDE, Closing
from linkwork.topology.couplings import explicit_couplings
from linkwork.topology.motion import ClusterPosture

CLOSED = 1e-11  # relative to the size of the loop, or in rad
RANK = 1e-7  # of singular values, relative to the largest
STEPS, GAUSS_NEWTON_STEPS = 80, 20
STALLED = 5  # Gauss-Newton steps that gain little, after which they end


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
