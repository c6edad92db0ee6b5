"""Rank and mobility of closed loops, by finite motions within a tolerance, since files have few digits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from linkwork.loops.closing import (
    CLOSURE_TOL,
    RANK_TOL,
    ClosureResult,
    gauss_newton,
    least_squares,
    levenberg_marquardt,
    polish,
    truncated_inverse,
)
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.clusters import Cluster
from linkwork.loops.redundant import MAX_COEFFICIENT_CHANGE, overdetermined_rows

TRIAL_STEP = 0.5  # step to another configuration [rad, or fraction of the loop length]
PREFERENCE_FACTOR = 3.0  # equations are replaced only by others that are better by this factor
# residual in a motion, relative to the tolerance, of rounded loops that are exact in one state
ROUNDED_TOL_FRACTION = 1e-2
NEARLY_CLOSED_TOL = 1e-7  # residual of states that are sufficiently closed for directions of motion
# length of a small motion [rad, or fraction of the loop length], and the fraction that counts as motion
SHORT_MOTION = 0.05
LONG_MOTION = 0.15
# slack of dropped equations, in tolerances: their residuals are below one tolerance along the sampled
# motions, but larger farther away, in other coordinates or with other independent equations
GAP_MARGIN = 3.0
# smallest singular value, relative to the largest, that distinguishes rigid loops from singular ones
RIGID_TOL = 1e-4


class Rank(NamedTuple):
    """The number of independent equations of a cluster, the selected `rows`, and residuals of all equations.

    `cut` is the threshold of singular values, relative to the largest. `moves` is False if loops can be
    closed but not moved. `used` are the equations that are solved by least squares, if more than
    `rows` are needed. If loops cannot move, `coarse` is the residual with fewer independent equations.
    """

    rank: int
    rows: list[int]
    residuals: np.ndarray
    cut: float
    moves: bool
    used: tuple[int, ...] = ()
    coarse: float = math.inf


def sample_closed_states(
    problem: ClosureProblem, first: ClosureResult, count: int, rng: np.random.Generator
) -> Iterator[ClosureResult]:
    """Yield closed configurations along a random walk on the constraint manifold from `first`."""
    current = first
    for _ in range(count):
        J = problem.at(current.q)[1]
        step = _tangent(
            J, rng.normal(size=(J.shape[1],)), RANK_TOL if current.exact else 10.0 * problem.tolerance
        )
        for stride in (TRIAL_STEP, -TRIAL_STEP, 0.2 * TRIAL_STEP) if step.any() else ():
            following = _closed_near(problem, problem.retract(current.q, stride * step), exact=current.exact)
            if following.is_closed:
                yield following
                current = following
                break


def _closed_near(problem: ClosureProblem, q: np.ndarray, *, exact: bool) -> ClosureResult:
    return gauss_newton(problem, q) if exact else polish(problem, q, exact=False)


def _tangent(
    J: np.ndarray, direction: np.ndarray, rcond: float = RANK_TOL, rank: int | None = None
) -> np.ndarray:
    """Return the projection of a direction onto the null space of J, scaled to largest component one."""
    if rank is not None:
        step = direction - truncated_inverse(J, rank) @ (J @ direction)
    else:
        step = direction - np.linalg.lstsq(J, J @ direction, rcond=rcond)[0] if len(J) else direction
    largest = float(np.abs(step).max(initial=0.0))
    return step / largest if largest > 1e-9 * float(np.abs(direction).max(initial=0.0)) else 0.0 * step


def find_rank(problem: ClosureProblem, state: ClosureResult, J: np.ndarray) -> Rank:
    """Return the rank of the equations at a closed configuration with Jacobian J.

    Small singular values may be due to rounded dimensions. They are neglected if the loops can then move far
    with residuals of the dropped equations within the tolerance.
    """
    s = np.linalg.svd(J, compute_uv=False)
    full_rank = count_above(s, RANK_TOL)
    size = J.shape[1]
    doubtful = 10.0 * problem.tolerance * s[0] if len(s) else 0.0
    smaller = [r for r in range(full_rank) if s[r] < doubtful and (r == 0 or s[r] < 0.1 * s[r - 1])]
    if problem.bends and state.exact:  # elastic deformations are below the tolerance: not due to rounding
        smaller = []
    coarse = math.inf
    for rank in (*smaller, full_rank):
        rows = most_independent(J, rank)
        cut = RANK_TOL if rank == full_rank else math.sqrt(s[rank] * s[max(rank - 1, 0)]) / s[0]
        exact = state.exact and rank == full_rank
        if rank == size:
            residuals = np.abs(problem.at(state.q)[0])
            return Rank(rank, rows, residuals, cut, bool(s[rank - 1] > RIGID_TOL * s[0]), coarse=coarse)
        if exact and rank == len(J) and (rank == 0 or s[rank - 1] > RIGID_TOL * s[0]):
            return Rank(rank, rows, np.zeros(len(J)), cut, True)
        if exact:
            residuals = residuals_in_motion(problem, state.q, rows, far=False)
            used = find_used_rows(problem, rows, exact=True)
            # rounded equations that are used together must hold as exactly as states are closed
            if np.all(residuals < (CLOSURE_TOL + 10.0 * problem.rounding if used else 1e-8)):
                return Rank(rank, rows, np.zeros(len(J)), cut, True, used)
            if not np.all(residuals < ROUNDED_TOL_FRACTION * problem.tolerance):  # more than rounding errors
                break
        used = find_used_rows(problem, rows, exact=False)
        residuals = residuals_in_motion(problem, state.q, rows, far=True, squares=bool(used))
        if np.all(residuals < problem.tolerance):
            return Rank(rank, rows, residuals, cut, True, used)
        coarse = min(coarse, float(residuals.max(initial=0.0)))
    return Rank(full_rank, rows, residuals, cut, False, coarse=coarse)


def find_used_rows(
    problem: ClosureProblem, rows: Sequence[int], *, exact: bool, cluster: Cluster | None = None
) -> tuple[int, ...]:
    """Return the equations to be solved by least squares, if more than `rows` are needed; otherwise ().

    See `overdetermined_rows`.
    """
    cluster = cluster or Cluster(tuple(problem.bodies), tuple(problem.constraints))
    return overdetermined_rows(
        problem.model, cluster, rows, MAX_COEFFICIENT_CHANGE if exact else 10.0 * problem.tolerance
    )


def residuals_in_motion(
    problem: ClosureProblem, q: np.ndarray, rows: list[int], *, far: bool, squares: bool = False
) -> np.ndarray:
    """Return the largest errors of all equations along sampled motions, (equations,); infinite if immobile.

    Along the motions, the equations in `rows` hold or, with `squares`, all in the least-squares sense.
    """
    rng = np.random.default_rng(0)
    worst = np.zeros(problem.count)
    strides = 5 if far else 1
    moved = False
    for _ in range(2 if far else 1):
        direction = rng.normal(size=problem.posture.size)
        for sign in (1.0, -1.0) if far else (1.0,):
            current = q
            along = sign * direction
            for _ in range(strides):
                J = problem.at(current)[1]
                step = _tangent(J, along, rank=len(rows)) if squares else _tangent(J[rows], along, RANK_TOL)
                following = _next_closed_state(problem, current, step, rows, squares)
                if following is None:
                    break  # end of the range of motion
                current = following.q
                along = step
                moved = True
                worst = np.maximum(worst, np.abs(problem.at(current)[0]))
                if np.any(worst > 1.0):
                    return worst
    return worst if moved else np.full(problem.count, np.inf)


def _next_closed_state(
    problem: ClosureProblem, q: np.ndarray, step: np.ndarray, rows: list[int], squares: bool
) -> ClosureResult | None:
    """Return a closed state in the direction of a step, with the largest possible stride, or None."""
    for stride in (0.2, 0.05, 0.01):
        ahead = problem.retract(q, stride * step)
        following = (
            least_squares(problem, ahead, 0.0, len(rows), allowed=1.0)
            if squares
            else gauss_newton(problem, ahead, rows)
        )
        if following.is_closed and problem.max_difference(q, following.q) > 0.3 * stride:
            return following
    return None


def finite_mobility(problem: ClosureProblem, q: np.ndarray) -> tuple[int, int]:
    """Return the dimension of the null space at a closed configuration, and that of finite motions.

    The second counts independent small motions along which all equations hold. It is smaller where equations
    are singular along the whole motion.
    """
    rng = np.random.default_rng(0)
    J = problem.at(q)[1]
    # singular states are closed to the square root of rounding errors only
    rank = count_above(np.linalg.svd(J, compute_uv=False), RIGID_TOL)
    free = J.shape[1] - rank
    motions = []
    for _ in range(2 * free + 4):
        step = _tangent(J, rng.normal(size=(J.shape[1],)), rank=rank)
        moved = levenberg_marquardt(problem, problem.retract(q, SHORT_MOTION * step), steps=60)
        motion = problem.difference(q, moved) / SHORT_MOTION
        # in singular states, errors are quadratic in the displacement, and steps may lead far away
        if problem.max_error(problem.at(moved)[0]) < NEARLY_CLOSED_TOL and np.abs(motion).max() < 2.0:
            motions.append(motion)
    s = np.linalg.svd(np.array(motions), compute_uv=False) if motions else np.zeros(0)
    return free, int(np.sum(s > LONG_MOTION * max(s.max(initial=0.0), 1.0)))


def count_above(s: np.ndarray, cut: float) -> int:
    """Return the number of singular values, in descending order, above `cut` times the largest."""
    return int(np.sum(s > cut * s[0])) if len(s) and s[0] > 0 else 0


def slack_of_rows(problem: ClosureProblem, rank: Rank, used: Sequence[int] = ()) -> tuple[float, ...]:
    """Return the slack of dropped equations, (equations,) [m or rad]; () if they hold exactly.

    If more equations are `used` by least squares, all have slack.
    """
    if np.all(rank.residuals < CLOSURE_TOL):
        return ()
    independent = set() if used else set(rank.rows)
    return tuple(
        0.0 if i in independent else float(f"{GAP_MARGIN * problem.tolerance * x:.3g}")
        for i, x in enumerate(problem.units)
    )


def most_independent_everywhere(Js: Sequence[np.ndarray], rows: list[int]) -> list[int]:
    """Return as many equations as `rows` with the best conditioning in the worst of several states.

    Equations that are independent in one state may be nearly dependent in another. `rows` are preferred.
    """

    def worst(columns: tuple[int, ...]) -> float:
        return min(
            float(np.linalg.svd(J[list(columns)], compute_uv=False)[-1] / np.linalg.norm(J, 2)) for J in Js
        )

    if not 0 < len(rows) < len(Js[0]):
        return rows
    scores = {tuple(one): worst(tuple(one)) for one in (rows, *(most_independent(J, len(rows)) for J in Js))}
    best = max(scores, key=scores.__getitem__)
    return list(best) if scores[best] > PREFERENCE_FACTOR * scores[tuple(rows)] else rows


def most_independent(rows: np.ndarray, count: int) -> list[int]:
    """Return the indices of `count` rows of a matrix, selected by pivoted Gram-Schmidt, sorted."""
    remainder = np.array(rows, dtype=float)
    selected: list[int] = []
    for _ in range(count):
        lengths = np.linalg.norm(remainder, axis=1)
        lengths[selected] = -1.0
        first = int(np.argmax(lengths >= 0.9 * lengths.max()))  # the first of those close to the longest
        selected.append(first)
        direction = remainder[first] / max(lengths[first], 1e-300)
        remainder = remainder - np.outer(remainder @ direction, direction)
    return sorted(selected)
