"""Proximal iterations: λ ← λ + μ times the constraints' residual (Constrained Eq. 12, 13 and 16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.newton import infinity_norm
from linkwork.ir.functions import absolute, loop, minimum, where


class Result(NamedTuple):
    """θ̈, (nv,), the constraint forces, (m,), the largest residual [rad/s² or m/s²], and the number of iterations."""

    ddtheta: Any
    forces: Any
    residual: Any
    iterations: Any


class Settings(NamedTuple):
    """R is the compliance of each row, (m,): 1/μ. Iterations end at `tolerance`, if there is one, or at the limit."""

    R: np.ndarray
    limit: int
    tolerance: float | None


Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # change of λ, state -> next change, next state


def iterate(settings: Settings, lam: np.ndarray, change: np.ndarray, state: np.ndarray, step: Step) -> tuple[Any, ...]:
    """λ, state, the last change of λ, and the number of iterations, from the first λ, which came by a change.

    `step` finds how far λ changes next, since it has changed. R times this is their residual. Where constraints cannot
    be satisfied, λ grows for ever by the same change, and the accelerations are those of least squares: that is the end too
    (Constrained Eq. 14, since Λ⁻¹ times the change of λ is R times the change's own change).
    """
    R, m = settings.R, len(lam)

    def again(x: np.ndarray) -> tuple[np.ndarray, Any]:
        lam, last, state = x[:m], x[m : 2 * m], x[2 * m : -1]
        change, state = step(last, state)
        left = minimum(infinity_norm(R * change), infinity_norm(R * (last - change)))
        return np.concatenate([lam + change, change, state, [x[-1] + 1.0]]), left

    x = np.concatenate([lam, change, state, [1.0]])
    if settings.tolerance is None:
        for _ in range(settings.limit - 1):
            x, _ = again(x)
    elif settings.limit > 1:

        def repeated(x: np.ndarray) -> tuple[np.ndarray, Any]:
            x, left = again(x)
            return x, left > settings.tolerance

        x = loop(repeated, x, limit=settings.limit - 1)
    return x[:m], x[2 * m : -1], x[m : 2 * m], x[-1]


def residual_norm(x: np.ndarray) -> Any:
    """The infinity norm of a residual; infinite where any entry is NaN."""
    return where(sum(absolute(y) for y in x) < np.inf, infinity_norm(x), np.inf)
