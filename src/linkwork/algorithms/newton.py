"""Newton's method on a configuration manifold, as a bounded loop; closes embedded and constrained loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import absolute, loop, maximum, minimum, where
from linkwork.compiler.ir.precision import by_precision
from linkwork.spatial import is_zero

MAX_NEWTON_ITERATIONS = 50
MAX_STEP = 0.5  # [rad, or sizes of the loop]
CLOSURE_TOL = 1e-13  # states with a smaller residual are returned unchanged [rad, or sizes of the loop]
EXACT_TOL = 1e-15  # residual at which iterations end
SINGLE_PRECISION_FACTOR = 1e7  # how much more all this is in single precision

Direction = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # q -> residual φ, Newton direction
Retraction = Callable[[np.ndarray, np.ndarray], np.ndarray]  # q, step -> q


def newton(
    direction: Direction,
    retract: Retraction,
    start: np.ndarray,
    units: np.ndarray,
    closed: Any,
    *,
    implicit: bool = False,
) -> tuple[np.ndarray, Any]:
    """Return the q of the smallest sum of residuals among those that steps of bounded length lead to, and the
    length of all steps.

    A start with a residual up to `closed` is returned as it is, bit for bit, also where no direction is
    known. A step that is not finite, as at a singularity, is not taken. Residuals, and steps divided by
    `units`, are such that 1 means a radian or a loop's size. `implicit`: q is determined by φ and by what
    steps leave alone, so its derivative is that of the solution (see `loop`).
    """
    n = len(start)
    exact = (EXACT_TOL / CLOSURE_TOL) * closed

    def step(state: np.ndarray) -> tuple[np.ndarray, Any]:
        best = state[:n]
        q = state[n:-2]
        best_residual = state[-2]
        path_length = state[-1]
        phi, move = direction(q)
        residual = one_norm(phi)
        scaled = move * (1.0 / units)
        better = residual < best_residual
        # near rounding errors, a step that does not help is the last
        goal = where(better & (best_residual < np.inf), exact, closed)
        best = where(better, q, best)
        best_residual = where(better, residual, best_residual)
        again = (best_residual > goal) & (residual + one_norm(scaled) < np.inf)
        size = infinity_norm(scaled)
        candidate = retract(q, move * minimum(MAX_STEP / maximum(size, 1e-300), 1.0))
        path_length = path_length + where(again, minimum(size, MAX_STEP), 0.0)
        return np.array([*best, *candidate, best_residual, path_length], dtype=object), again

    solution = loop(
        step,
        np.array([*start, *start, np.inf, 0.0], dtype=object),
        limit=MAX_NEWTON_ITERATIONS,
        newton=n if implicit else 0,
    )
    return solution[:n], solution[-1]


def tolerance(double: float, q: np.ndarray) -> Any:
    """Return a tolerance in the precision in which a program runs on q: `double`, or what single precision
    allows.
    """
    return by_precision(q[0], double, SINGLE_PRECISION_FACTOR * double)


def one_norm(x: Iterable[Any]) -> Any:
    """Return the sum of the sizes of a vector's entries: not finite where one of them is not."""
    total: Any = 0.0
    for y in x:
        if not is_zero(y):
            total = total + absolute(y)
    return total


def infinity_norm(x: Iterable[Any]) -> Any:
    """Return the infinity norm: the largest size of a vector's entries."""
    largest: Any = 0.0
    for y in x:
        if not is_zero(y):
            largest = maximum(largest, absolute(y))
    return largest
