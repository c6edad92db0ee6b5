"""How many equations of closed loops say something: by finite motions within a tolerance, since files have few digits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from linkwork.topology.closing import CLOSED, RANK, Closed, finished, gauss_newton
from linkwork.topology.closing_problem import Closing

STRIDE = 0.5  # of a step to another configuration [rad, or parts of the loop's length]
ABOUT_AS_GOOD = 3.0  # equations stay unless others are better by this factor
STIFF = 1e-4  # smallest singular value, relative to the largest, of loops that are rigid and not only stuck


class Rank(NamedTuple):
    """The number of independent equations of a cluster, those chosen, and what the others miss by, (equations,), without units.

    `cut` is where singular values begin to count, relative to the largest; `moves` is False where loops can close but not move.
    """

    rank: int
    rows: list[int]
    missed: np.ndarray
    cut: float
    moves: bool


def explored(problem: Closing, first: Closed, count: int, rng: np.random.Generator) -> Iterator[Closed]:
    """Closed configurations that the loops can move to, one after the other."""
    here = first
    for _ in range(count):
        J = problem.at(here.q)[1]
        step = _tangent(J, rng.normal(size=(J.shape[1],)), RANK if here.exact else 10.0 * problem.tolerance)
        for stride in (STRIDE, -STRIDE, 0.2 * STRIDE) if step.any() else ():
            there = _closed_near(problem, problem.moved(here.q, stride * step), exact=here.exact)
            if there.is_closed:
                yield there
                here = there
                break


def _closed_near(problem: Closing, q: np.ndarray, *, exact: bool) -> Closed:
    return gauss_newton(problem, q) if exact else finished(problem, q, exact=False)


def _tangent(J: np.ndarray, direction: np.ndarray, rcond: float) -> np.ndarray:
    """The part of a direction along which equations hold, its largest component one; zero where they fix everything."""
    step = direction - np.linalg.lstsq(J, J @ direction, rcond=rcond)[0] if len(J) else direction
    largest = float(np.abs(step).max(initial=0.0))
    return step / largest if largest > 1e-9 * float(np.abs(direction).max(initial=0.0)) else 0.0 * step


def find_rank(problem: Closing, state: Closed, J: np.ndarray) -> Rank:
    """The rank of the equations at a closed configuration with Jacobian J.

    Singular values that are small, but not nothing, may come from numbers with few digits: without them the loops must be able
    to move far, and the equations that are dropped must not miss by more than the tolerance.
    """
    s = np.linalg.svd(J, compute_uv=False)
    whole, size = count_above(s, RANK), J.shape[1]
    doubtful = 10.0 * problem.tolerance * s[0] if len(s) else 0.0
    smaller = [r for r in range(whole) if s[r] < doubtful and (r == 0 or s[r] < 0.1 * s[r - 1])]
    if problem.bends and state.exact:  # bodies bend and stretch by less than the tolerance: what holds them is no rounding
        smaller = []
    for rank in (*smaller, whole):
        rows = most_independent(J, rank)
        cut = RANK if rank == whole else math.sqrt(s[rank] * s[max(rank - 1, 0)]) / s[0]
        exact = state.exact and rank == whole
        if rank == size:
            missed = np.abs(problem.at(state.q)[0])
            return Rank(rank, rows, missed, cut, bool(s[rank - 1] > STIFF * s[0]))
        if exact and rank == len(J) and (rank == 0 or s[rank - 1] > STIFF * s[0]):
            return Rank(rank, rows, np.zeros(len(J)), cut, True)
        missed = missed_in_motion(problem, state.q, rows, far=not exact)
        allowed = 1e-8 if exact else problem.tolerance
        if np.all(missed < allowed):
            return Rank(rank, rows, np.zeros(len(J)) if exact else missed, cut, True)
    return Rank(whole, rows, missed, cut, False)


def missed_in_motion(problem: Closing, q: np.ndarray, rows: list[int], *, far: bool) -> np.ndarray:
    """The largest errors of all equations while some of them hold and the loops move, (equations,); infinite if none does."""
    rng = np.random.default_rng(0)
    worst, strides, moved = np.zeros(problem.count), 5 if far else 1, False
    for _ in range(2 if far else 1):
        direction = rng.normal(size=problem.posture.size)
        for sign in (1.0, -1.0) if far else (1.0,):
            here, along = q, sign * direction
            for _ in range(strides):
                step = _tangent(problem.at(here)[1][rows], along, RANK)
                for stride in (0.2, 0.05, 0.01):
                    there = gauss_newton(problem, problem.moved(here, stride * step), rows)
                    if there.is_closed and problem.way(here, there.q) > 0.3 * stride:
                        break
                else:
                    break  # the end of the range, or stuck
                here, along, moved = there.q, step, True
                worst = np.maximum(worst, np.abs(problem.at(here)[0]))
                if np.any(worst > 1.0):
                    return worst
    return worst if moved else np.full(problem.count, np.inf)


def count_above(s: np.ndarray, cut: float) -> int:
    """How many of a matrix's singular values, the largest first, are not zero."""
    return int(np.sum(s > cut * s[0])) if len(s) and s[0] > 0 else 0


def accepted_errors(problem: Closing, found: Rank) -> tuple[float, ...]:
    """What the equations that are dropped may miss by, (equations,) [m or rad]; nothing where they hold exactly."""
    if np.all(found.missed < CLOSED):
        return ()
    kept = set(found.rows)
    return tuple(0.0 if i in kept else float(f"{problem.tolerance * x:.3g}") for i, x in enumerate(problem.units))


def independent_everywhere(Js: Sequence[np.ndarray], rows: list[int]) -> list[int]:
    """So many equations as `rows` that are farther from dependent in the worst of several states; `rows` if they are good.

    Redundant equations change places: of those that are good in one state some say nearly the same in another.
    """

    def worst(chosen: tuple[int, ...]) -> float:
        return min(float(np.linalg.svd(J[list(chosen)], compute_uv=False)[-1] / np.linalg.norm(J, 2)) for J in Js)

    if not 0 < len(rows) < len(Js[0]):
        return rows
    scores = {tuple(one): worst(tuple(one)) for one in (rows, *(most_independent(J, len(rows)) for J in Js))}
    best = max(scores, key=scores.__getitem__)
    return list(best) if scores[best] > ABOUT_AS_GOOD * scores[tuple(rows)] else rows


def most_independent(rows: np.ndarray, count: int) -> list[int]:
    """So many rows of a matrix by pivoted Gram-Schmidt, each the farthest from the span of those before it; in order."""
    left = np.array(rows, dtype=float)
    chosen: list[int] = []
    for _ in range(count):
        lengths = np.linalg.norm(left, axis=1)
        lengths[chosen] = -1.0
        first = int(np.argmax(lengths >= 0.9 * lengths.max()))  # the first of those that are about as good as the best
        chosen.append(first)
        direction = left[first] / max(lengths[first], 1e-300)
        left = left - np.outer(left @ direction, direction)
    return sorted(chosen)
