"""Activation of muscles after a time of constant control, over numbers or symbols.

With a control u in [0, 1], the activation a of MuJoCo's muscles has the rate (u - a) / tau(a), where

    tau = rise (1/2 + 3/2 a)  for a < u,        tau = fall / (1/2 + 3/2 a)  for a > u,

with a clamped to [0, 1] in tau. So a approaches u from one side, and both equations can be separated.
"""

from __future__ import annotations

from typing import Any

from linkwork.compiler.ir.functions import exp, log, maximum, minimum, where

NEWTON_STEPS = 5  # quadratic and monotone; more change nothing in float64
LOWEST, SLOPE = 0.5, 1.5  # of the factor 1/2 + 3/2 a


def activation_of_muscle(u: Any, start: Any, t: Any, rise: float, fall: float) -> Any:
    """Return the activation a time t [s] after `start`; `rise` and `fall` are time constants [s]."""
    return where(u > start, _rising(u, start, t / rise), _falling(u, start, t / fall))


def _rising(u: Any, start: Any, s: Any) -> Any:
    """Return the activation after s times the time constant, for u > start.

    Above zero, e = u - a obeys c y - 3/2 e0 (1 - exp(-y)) = s with y = log(e0 / e) and c = 1/2 + 3/2 u. The
    left side is convex and increases, and Newton's method begins above the solution.
    """
    # Below zero the time constant is that at zero.
    below = start < 0.0
    crosses = below & (u > 0.0)
    needed = where(crosses, LOWEST * log(where(crosses, 1.0 - start / where(crosses, u, 1.0), 1.0)), 0.0)
    stays = below & ((u <= 0.0) | (s < needed))
    slow = u + (start - u) * exp(where(stays, -s / LOWEST, 0.0))
    e = u - maximum(start, 0.0)
    remaining = where(stays, 0.0, maximum(s - needed, 0.0))
    c = LOWEST + SLOPE * u
    gap = SLOPE * e
    y = minimum(remaining / (c - gap), (remaining + gap) / c)
    for _ in range(NEWTON_STEPS):
        decay = exp(-y)
        y = y - (c * y - gap * (1.0 - decay) - remaining) / (c - gap * decay)
    return where(stays, slow, u - e * exp(-y))


def _falling(u: Any, start: Any, s: Any) -> Any:
    """Return the activation after s times the time constant, for u <= start; it is logistic below one."""
    # Above one the rate is that at one.
    above = start > 1.0
    crosses = above & (u < 1.0)
    factor = LOWEST + SLOPE
    excess = where(crosses, (start - u) / where(crosses, 1.0 - u, 1.0), 1.0)
    needed = where(crosses, log(excess) / factor, 0.0)
    stays = above & ((u >= 1.0) | (s < needed))
    fast = u + (start - u) * exp(where(stays, -s * factor, 0.0))
    d = minimum(start, 1.0) - u
    c = LOWEST + SLOPE * u
    decay = exp(-c * where(stays, 0.0, maximum(s - needed, 0.0)))
    return where(stays, fast, u + c * d * decay / (c + SLOPE * d * (1.0 - decay)))
