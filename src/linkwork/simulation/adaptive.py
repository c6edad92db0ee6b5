"""Adaptive steps with error control: Dormand and Prince's pair of orders 5 and 4, on q̇ and v̇.

Each step of a rollout is divided as its error requires, in each row on its own. The error of an attempt is
estimated by the difference of the two orders. An attempt is accepted if no coordinate or velocity has an
error above atol + rtol times its magnitude; the estimate gives the length of the next one. The first attempt
is the whole step, so that a row depends on its state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import absolute, loop, maximum, minimum, sqrt, where

# Dormand and Prince 1980: c, rows of a, and the weights of order 5 less those of order 4
C = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
A: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
E = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)

MAX_ATTEMPTS = 100_000  # attempts in one step of a rollout
MIN_ATTEMPT = 1e-10  # attempt, as a part of the step
# of an attempt's length to the next one's
MIN_GROWTH = 0.2
MAX_GROWTH = 5.0
SAFETY = 0.9

Rates = Callable[[Any, Any], Any]  # of y and the part of the step that has passed: ẏ


class Adaptive(NamedTuple):
    """Tolerances of the integrator "rk45"."""

    rtol: float = 1e-6
    atol: float = 1e-9

    def __str__(self) -> str:
        return "rk45"


def attempt(rates: Rates, y: Any, over: Any, part: Any, dt: Any) -> tuple[Any, Any]:
    """Return y after a `part` of the step dt that starts at the fraction `over`, and its error."""
    h = part * dt
    k: list[Any] = []
    at: Any = y
    for c, row in zip(C, A):
        at = y + h * _sum(row, k) if row else y
        k.append(rates(at, over + c * part))
    return at, h * _sum(E, k)


def _sum(weights: Sequence[float], k: Sequence[Any]) -> Any:
    terms = [w * x for w, x in zip(weights, k) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def growth(error: Any) -> Any:
    """Return the factor for the length of the next attempt, for an error relative to the tolerance.

    The smallest factor for NaN.
    """
    eighth = sqrt(sqrt(sqrt(maximum(error, 1e-12))))
    factor = SAFETY / (
        eighth * sqrt(eighth)
    )  # the power -3/16, about -1/5, by roots, which have the same bits everywhere
    return where(error < np.inf, minimum(maximum(factor, MIN_GROWTH), MAX_GROWTH), MIN_GROWTH)


def relative(error: Any, before: Any, after: Any, tolerances: Adaptive) -> Any:
    """Return the largest error of an entry relative to its tolerance; NaN if an entry is not finite."""
    largest: Any = 0.0
    total: Any = 0.0
    for e, x, y in zip(error, before, after):
        part = absolute(e) / (tolerances.atol + tolerances.rtol * maximum(absolute(x), absolute(y)))
        largest = where(part <= largest, largest, part)
        total = total + part
    return where(total < np.inf, largest, np.nan)  # the largest forgets NaN where others follow


def adaptive_step(rates: Rates, settle: Callable[[Any], Any], y: Any, dt: Any, tolerances: Adaptive) -> Any:
    """Return y after a step of dt in adaptive attempts, inside of a kernel; NaN if it cannot be completed.

    `settle` is applied to each accepted state.
    """
    n = len(y)

    def again(x: Any) -> tuple[Any, Any]:
        y = x[:n]
        over = x[n]
        length = x[n + 1]
        last = over + length >= 1.0
        part = where(last, 1.0 - over, length)
        after, error = attempt(rates, y, over, part, dt)
        size = relative(error, y, after, tolerances)
        good = size <= 1.0
        settled = settle(after)
        ahead = where(good, where(last, 1.0, over + part), over)
        length = part * growth(size)
        state = [*(where(good, b, a) for a, b in zip(y, settled)), ahead, length]
        return np.array(state, dtype=object), (ahead < 1.0) & (length > MIN_ATTEMPT)

    result = loop(again, np.array([*y, 0.0, 1.0], dtype=object), limit=MAX_ATTEMPTS)
    return np.array([where(result[n] < 1.0, np.nan, x) for x in result[:n]], dtype=object)
