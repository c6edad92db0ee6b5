"""Proximal iterations, λ ← λ + μ times the constraints' residual (Constrained Eq. 12, 13 and 16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.newton import infinity_norm
from linkwork.compiler.ir.functions import absolute, loop, where
from linkwork.spatial import any_nonzero

STEADY_TOL = 0.01  # relative change of residuals up to which they stem from contradicting rows
CONVERGING_ITERATIONS = 4  # iterations that reach the solution with compliances chosen by mobilities
QUICK_ITERATIONS = 12  # more tell of directions in which forces move little: residuals lose digits there
ROUNDED = 8.0  # size of a steady residual, relative to the accepted one, that rounding explains


class Result(NamedTuple):
    """Accelerations θ̈, (nv,), constraint forces, (m,), whether iterations converged, and their number."""

    ddtheta: Any
    forces: Any
    converged: Any
    iterations: Any


class Settings(NamedTuple):
    """Settings of iterations: compliance R = 1/μ of each row, (m,), limit and tolerance.

    With `fixed` there are always `limit` iterations, and `tolerance` only decides whether they converged.
    `tolerance` is in rad/s² or m/s²; with typical mobilities of the rows, (m,), it is relative to the
    accelerations that the forces cause, mobility times force. If rows are `independent` almost everywhere, a
    residual that hardly changes tells of slow convergence near a singular state, not of contradicting rows.
    `mass_ratio` is nominal mass by mass, by which mobilities change; `joint_mobility`, (nv,), are typical
    mobilities of the velocities.
    """

    R: np.ndarray
    limit: int
    tolerance: Any
    mobility: np.ndarray | None = None
    fixed: bool = False
    independent: bool = False
    mass_ratio: Any = 1.0
    joint_mobility: np.ndarray | None = None

    @property
    def refines(self) -> bool:
        """Conjugate gradients follow slow iterations: where only the solution is asked for."""
        return self.solves and self.mobility is not None and self.limit >= CONVERGING_ITERATIONS

    @property
    def proximal_limit(self) -> int:
        """The largest number of proximal iterations; many only serve to recognise contradictory rows."""
        return min(self.limit, QUICK_ITERATIONS + 1) if self.refines and self.independent else self.limit

    @property
    def typical_mobility(self) -> np.ndarray:
        """Typical mobilities of the rows, (m,), for the masses at hand."""
        return np.ones(len(self.R)) if self.mobility is None else self.mobility * self.mass_ratio

    @property
    def typical_joint_mobility(self) -> Any:
        """Typical mobilities of the velocities, (nv,), for the masses at hand."""
        return 0.0 if self.joint_mobility is None else self.joint_mobility * self.mass_ratio

    @property
    def solves(self) -> bool:
        """Iterations continue to the solution instead of taking a fixed number of proximal steps."""
        return self.limit > 1 and self.tolerance is not None and not self.fixed

    def size(self, x: np.ndarray) -> Any:
        """Return the size of a residual, (m,)."""
        if self.mobility is None:
            return infinity_norm(x)
        return infinity_norm(np.array([y * w for y, w in zip(x, self.mobility**-0.5)], dtype=object))

    def remaining(self, size: Any, difference: Any) -> Any:
        """Return the remaining size of a residual; its change where contradicting rows keep it constant."""
        return where(difference <= STEADY_TOL * size, difference, size)

    def accepted(self, lam: np.ndarray) -> Any:
        """Return the accepted size of a residual where the forces are λ."""
        if self.mobility is None or self.tolerance is None:
            return self.tolerance
        return self.tolerance * self.size(np.array([y * d for y, d in zip(lam, self.mobility)], dtype=object))


class Iterated(NamedTuple):
    """Multipliers λ, (m,), the state of `step`, whether iterations converged, their number, and whether the
    residual that remains was taken for that of contradictory rows.
    """

    lam: np.ndarray
    state: np.ndarray
    converged: Any
    count: Any
    contradictory: Any


Step = Callable[
    [np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]
]  # change of λ, state -> next change, next state


def iterate(
    settings: Settings, lam: np.ndarray, change: np.ndarray, state: np.ndarray, step: Step
) -> Iterated:
    """Iterate from the first λ and the change that led to it.

    `step` returns the next change of λ from the last one; R times a change is the residual. Where constraints
    cannot be satisfied, λ grows forever by the same change and the accelerations are those of least squares:
    that ends the iterations too (Constrained Eq. 14, since Λ⁻¹ times the change of λ is R times the change's
    own change). These changes move nothing and are subtracted from λ again: what remains is the solution of
    least norm, if λ⁰ has no part that moves nothing (`moving_part`).
    """
    R = settings.R
    m = len(lam)

    def advance(x: np.ndarray) -> tuple[np.ndarray, Any, Any]:
        lam = x[:m]
        last = x[m : 2 * m]
        state = x[2 * m : -2]
        change, state = step(last, state)
        lam = lam + change
        difference = settings.size(R * (last - change))
        remaining = settings.remaining(settings.size(R * change), difference)
        return np.concatenate([lam, change, state, [difference, x[-1] + 1.0]]), remaining, lam

    x = np.concatenate([lam, change, state, [np.inf, 1.0]])
    if settings.solves:

        def repeated(x: np.ndarray) -> tuple[np.ndarray, Any]:
            x, remaining, lam = advance(x)
            return x, remaining > settings.accepted(lam)

        x = loop(repeated, x, limit=settings.proximal_limit - 1)
    else:
        for _ in range(settings.limit - 1):
            x, _, _ = advance(x)
    lam = x[:m]
    change = x[m : 2 * m]
    difference = x[-2]
    size = settings.size(R * change)
    converged = None
    growing: Any = False
    accepted = settings.accepted(lam)
    if settings.tolerance is not None:
        converged = settings.remaining(size, difference) <= accepted
    if settings.solves:
        growing = (settings.remaining(size, difference) <= accepted) & (size > accepted)
        lam = np.array([y - where(growing, x[-1] * each, 0.0) for y, each in zip(lam, change)], dtype=object)
    if settings.independent and converged is not None:  # λ has no growing part anymore
        converged = converged & (size <= ROUNDED * settings.accepted(lam))
        growing = False
    return Iterated(lam, x[2 * m : -2], converged, x[-1], growing)


def moving_part(
    settings: Settings, lam: np.ndarray, respond: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return λ without the part that moves nothing, to start from; `respond` returns (Λ⁻¹ + R)⁻¹ R λ.

    `respond` is the identity for what moves nothing, and small, the more so applied twice, for what does.
    """
    return lam - respond(respond(lam)) if settings.solves and any_nonzero(lam) else lam


def residual_norm(x: np.ndarray) -> Any:
    """Return the infinity norm of a residual; infinite if any entry is NaN."""
    return where(sum(absolute(y) for y in x) < np.inf, infinity_norm(x), np.inf)
