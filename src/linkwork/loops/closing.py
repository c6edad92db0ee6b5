"""Numerical loop closure by nonlinear least squares, in units of the loop lengths.

Robot files usually describe a nearly closed configuration. From there, `close_problem` tries minimum-norm
Gauss-Newton steps, Levenberg-Marquardt steps, closing one loop after the other, and a homotopy that reduces
the initial error gradually. `initial_guesses` are random, first near the given configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.loops.closing_problem import UNBOUNDED_LIMIT, ClosureProblem
from linkwork.loops.couplings import explicit_couplings
from linkwork.loops.motion import ClusterPosture
from linkwork.mechanism import LoopConstraint, Mechanism
from linkwork.mechanism.limits import Budget

CLOSURE_TOL = 1e-11  # relative to the size of the loop, or in rad
RANK_TOL = 1e-7  # of singular values, relative to the largest
MAX_STEPS = 80
GAUSS_NEWTON_STEPS = 20
MAX_STALLED_STEPS = 5  # Gauss-Newton steps without much progress, after which the iteration ends
# A configuration is nearly closed if its errors are below this multiple of the tolerance. A closed one
# farther away than MAX_DISPLACEMENT [rad, or sizes of the loop] belongs to another branch: exact steps follow
# directions that only rounding errors constrain.
NEARLY_CLOSED_FACTOR = 100.0
MAX_DISPLACEMENT = 0.1


class ClosureResult(NamedTuple):
    """Result of a closure: q, (nq,), its largest unit-free error, and whether all equations hold exactly."""

    q: np.ndarray
    residual: float
    exact: bool = True

    @property
    def is_closed(self) -> bool:
        return self.residual < CLOSURE_TOL


def gauss_newton(
    problem: ClosureProblem,
    q: np.ndarray,
    rows: Any = None,
    *,
    steps: int = GAUSS_NEWTON_STEPS,
    rcond: float = 1e-9,
) -> ClosureResult:
    """Return the best configuration found by Gauss-Newton steps of least norm and bounded length."""
    rows = slice(None) if rows is None else rows
    best = q
    least = math.inf
    size = math.inf
    last = 0  # the last step with much progress
    for n in range(steps):
        e, J = problem.at(q)
        before = size
        size = problem.max_error(e[rows])
        last = n if size < 0.5 * least else last
        if size < least:
            best = q
            least = size
        if (
            n - last > MAX_STALLED_STEPS
            or least < 1e-14
            or not math.isfinite(size)
            or (least < CLOSURE_TOL and size > 0.25 * before)
        ):
            break
        step = -_least_norm(J[rows], e[rows], rcond)
        largest = float(np.abs(step).max(initial=0.0))
        if largest < 1e-15:
            break
        q = problem.retract(q, step * min(1.0, 0.5 / largest))
    return ClosureResult(best, least)


def _least_norm(J: np.ndarray, e: np.ndarray, rcond: float) -> np.ndarray:
    """Return the minimum-norm least-squares solution of J x = e."""
    if J.shape[1] > 60 and rcond < 1e-6:  # as accurate in a fraction of the time
        A = J.T @ J
        A[np.diag_indices(len(A))] += 1e-12 * float(np.trace(A)) / len(A) + 1e-300
        return np.linalg.solve(A, J.T @ e)
    return np.linalg.lstsq(J, e, rcond=rcond)[0]


def truncated_inverse(J: np.ndarray, rank: int) -> np.ndarray:
    """Return the pseudo-inverse of a matrix from its `rank` largest singular values."""
    u, s, vt = np.linalg.svd(J, full_matrices=False)
    inverse: np.ndarray = vt[:rank].T @ (u[:, :rank] / np.maximum(s[:rank], 1e-9 * s[0])).T
    return inverse


def levenberg_marquardt(
    problem: ClosureProblem,
    q: np.ndarray,
    *,
    aim: np.ndarray | None = None,
    active: Sequence[int] | None = None,
    bounded: bool = False,
    patient: bool = False,
    steps: int = MAX_STEPS,
) -> np.ndarray:
    """Return the configuration that minimizes |errors - aim|² by Levenberg-Marquardt steps.

    `active` selects constraints. If `bounded`, violations of joint limits count as errors. If `patient`, the
    iteration continues despite slow progress.
    """

    def at(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        e, J = problem.at(q, active)
        e = e if aim is None else e - aim
        if bounded:
            off, rows = problem.limit_violations(q, inset=0.01)
            e = np.concatenate([e, off])
            J = np.concatenate([J, rows])
        return e, J

    e, J = at(q)
    f = float(e @ e)
    damping = 1e-3
    growth = 2.0
    marks = [f]
    for _ in range(steps):
        if not math.isfinite(f) or f < 1e-18:
            break
        A = J.T @ J
        g = J.T @ e
        A[np.diag_indices(len(A))] += damping * (1.0 + f)
        step = -np.linalg.solve(A, g)
        largest = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, 1.0 / (largest + 1e-300))
        if largest < 1e-13:
            break
        candidate = problem.retract(q, step)
        e1, J1 = at(candidate)
        f1 = float(e1 @ e1)
        expected = -float(step @ (2.0 * g + J.T @ (J @ step)))
        gain = (f - f1) / expected if expected > 0.0 and math.isfinite(f1) else -1.0
        if gain > 1e-4:
            q = candidate
            e = e1
            J = J1
            f = f1
            damping = max(damping * max(0.1, 1.0 - (2.0 * gain - 1.0) ** 3), 1e-14)
            growth = 2.0
            marks.append(f)
            if not patient and len(marks) > 12 and marks[-1] > 0.8 * marks[-12] and f > 1e-12:
                break  # slow progress: a local minimum without a zero
        else:
            damping = damping * growth
            growth = 2.0 * growth
            if damping > 1e12:
                break
    return q


def polish(problem: ClosureProblem, q: np.ndarray, *, exact: bool = True) -> ClosureResult:
    """Return the closed configuration near q, or the least-squares one if only that is within tolerance.

    Without `exact`, skip the search for an exactly closed configuration.
    """
    result = gauss_newton(problem, q, steps=12) if exact else ClosureResult(q, math.inf)
    if result.is_closed:
        return result
    # singular values below the tolerance are indistinguishable from zero
    truncated = least_squares(problem, q, 10.0 * problem.tolerance)
    return truncated if truncated.is_closed else min(result, truncated, key=lambda one: one.residual)


def least_squares(
    problem: ClosureProblem, q: np.ndarray, cut: float, rank: int | None = None, allowed: float | None = None
) -> ClosureResult:
    """Return the least-squares configuration near q, using singular values above `cut`.

    If `rank` is given, use that many singular values. The result counts as closed if its errors are within
    `allowed`, by default the tolerance of the problem.
    """
    residual = math.inf
    largest = math.inf
    for _ in range(12):
        e, J = problem.at(q)
        residual = problem.max_error(e)
        if not math.isfinite(residual):
            break
        step = -(_least_norm(J, e, cut) if rank is None else truncated_inverse(J, rank) @ e)
        largest = float(np.abs(step).max(initial=0.0))
        if not largest > 1e-3 * residual:
            break
        q = problem.retract(q, step * min(1.0, 0.5 / largest))
    within = residual < (problem.tolerance if allowed is None else allowed)
    return (
        ClosureResult(q, 0.0, exact=False)
        if within and largest <= 1e-3 * residual
        else ClosureResult(q, residual)
    )


def _prefer_nearby(problem: ClosureProblem, q: np.ndarray, result: ClosureResult) -> ClosureResult:
    """Return the closed `result` found from q, or the least-squares configuration if only that is near q.

    With rounded dimensions, there may be no exactly closed configuration on the branch of the file.
    """
    if (
        problem.max_difference(q, result.q) > MAX_DISPLACEMENT
        and problem.max_error(problem.at(q)[0]) < NEARLY_CLOSED_FACTOR * problem.tolerance
    ):
        near = least_squares(problem, q, 10.0 * problem.tolerance)
        if near.is_closed and problem.max_difference(q, near.q) < MAX_DISPLACEMENT:
            return near
    return result


def close_problem(problem: ClosureProblem, q: np.ndarray, *, thorough: bool = True) -> ClosureResult:
    """Return the closed configuration near q, or the best one found."""
    first = gauss_newton(problem, q)
    if first.is_closed:
        return _prefer_nearby(problem, q, first)
    if not math.isfinite(first.residual):
        return first
    attempts = [first]

    def try_from(guess: np.ndarray) -> ClosureResult | None:
        result = polish(problem, guess)
        attempts.append(_prefer_nearby(problem, q, result) if result.is_closed else result)
        return attempts[-1] if attempts[-1].is_closed else None

    result = try_from(levenberg_marquardt(problem, q))
    if result is None and thorough:
        result = try_from(_close_sequentially(problem, q)) if len(problem.constraints) > 1 else None
        result = result or try_from(_close_by_homotopy(problem, q))
    return result or min(attempts, key=lambda one: one.residual)


def _close_sequentially(problem: ClosureProblem, q: np.ndarray) -> np.ndarray:
    """Return the configuration with loops closed one by one, keeping earlier ones closed."""
    for n in range(len(problem.constraints)):
        q = levenberg_marquardt(problem, q, active=range(n + 1), steps=30)
    return q


def _close_by_homotopy(problem: ClosureProblem, q: np.ndarray) -> np.ndarray:
    """Return the end of a homotopy from q that reduces the initial errors to zero."""
    start, _ = problem.at(q)
    progress = 0.0
    stride = 0.25
    while progress < 1.0 and stride > 1.0 / 64.0:
        target = min(1.0, progress + stride)
        aim = (1.0 - target) * start
        result = levenberg_marquardt(problem, q, aim=aim, steps=15)
        if np.abs(problem.at(result)[0] - aim).max(initial=0.0) < 1e-3:
            q = result
            progress = target
            stride = 1.5 * stride
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
    slack: Sequence[float] = (),
    thorough: bool = True,
) -> tuple[np.ndarray, float]:
    """Return a closed configuration near q and its unit-free residual, below `CLOSURE_TOL` if closed.

    If the cluster has several supports, `below` is the fixed posture of the cluster that contains them. Work
    is counted in `budget`. Where redundant equations cannot all hold exactly, those in `rows` hold, and the
    others have a tolerance `slack` [m or rad]. Without `rows`, all have slack and are solved by least
    squares.
    """
    q = np.array(q, dtype=float)
    explicit = explicit_couplings(bodies, constraints, model.joints)
    if explicit:
        q = explicit.nearest(q, model.joints)
        return q, explicit.residual(q, model.joints)
    problem = ClosureProblem(model, bodies, constraints, below, supports, budget)
    if any(slack):
        allowed = np.array(slack) / problem.units
        return (
            _close_by_least_squares(problem, q, allowed)
            if rows is None
            else close_rows(problem, q, list(rows), allowed)
        )
    result = close_problem(problem, q, thorough=thorough)
    return result.q, result.residual


def close_rows(
    problem: ClosureProblem, q: np.ndarray, rows: list[int], slack: Any
) -> tuple[np.ndarray, float]:
    """Return a configuration near q where `rows` hold, and the excess of other errors over their slack."""
    result = gauss_newton(problem, q, rows)
    excess = (
        problem.max_error(np.maximum(np.abs(problem.at(result.q)[0]) - slack, 0.0))
        if result.is_closed
        else math.inf
    )
    if excess >= CLOSURE_TOL:
        near = close_problem(problem, q)
        result = gauss_newton(problem, near.q, rows)
        excess = problem.max_error(np.maximum(np.abs(problem.at(result.q)[0]) - slack, 0.0))
    return result.q, max(result.residual, excess)


def _close_by_least_squares(
    problem: ClosureProblem, q: np.ndarray, slack: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the least-squares configuration near q, and the excess of errors over their slack."""
    result = least_squares(problem, q, 10.0 * problem.tolerance)
    if not result.is_closed:
        result = close_problem(problem, q)
    excess = problem.max_error(np.maximum(np.abs(problem.at(result.q)[0]) - slack, 0.0))
    return result.q, max(result.residual, excess)


def initial_guesses(
    problem: ClosureProblem, q: np.ndarray, count: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield random initial guesses: first near q with growing spread, then in the whole range."""
    near = count // 2
    for n in range(near):
        spread = 0.2 * (1.0 + n)
        yield problem.retract(q, np.clip(spread, 0.0, 2.0) * rng.normal(size=problem.posture.size))
    for n in range(near, count):
        guess = q.copy()
        for joint in problem.joints:
            guess[joint.q_slice] = joint.kind.random(rng)
            if joint.nq == joint.nv and n % 2:
                low = np.array(joint.lower)
                high = np.array(joint.upper)
                bounded = (np.abs(low) < UNBOUNDED_LIMIT) & (np.abs(high) < UNBOUNDED_LIMIT)
                within = rng.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 1.0))
                guess[joint.q_slice] = np.where(bounded, within, guess[joint.q_slice])
        yield guess


def close_within_limits(problem: ClosureProblem, q: np.ndarray) -> ClosureResult | None:
    """Return a closed configuration near q within all joint limits, or None."""
    for _ in range(3):
        result = polish(problem, levenberg_marquardt(problem, q, bounded=True, steps=40))
        if result.is_closed and not len(problem.limit_violations(result.q)[0]):
            return result
        q = result.q
    return None
