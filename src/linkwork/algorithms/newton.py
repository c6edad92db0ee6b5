"""Newton's method on a configuration manifold, as a bounded loop: the one that closes loops, embedded and force-held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from linkwork.ir.functions import absolute, loop, maximum, minimum
from linkwork.spatial import is_zero

STEPS = 60
LARGEST_STEP = 0.5  # [rad or m]
CLOSED = 1e-13  # largest residual that needs no further step [rad or m]

Direction = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # q -> residual φ, Newton direction
Retraction = Callable[[np.ndarray, np.ndarray], np.ndarray]  # q, step -> q


def newton(direction: Direction, retract: Retraction, start: np.ndarray, *, implicit: bool = False) -> np.ndarray:
    """q after steps of bounded length, until neither the residual nor the step is larger than `CLOSED`.

    `implicit`: q is determined by φ and by what steps leave alone, so its derivative is that of the solution (see `loop`).
    """

    def step(q: np.ndarray) -> tuple[np.ndarray, Any]:
        phi, move = direction(q)
        size = infinity_norm([*move, *phi])
        return retract(q, move * minimum(LARGEST_STEP / maximum(size, 1e-300), 1.0)), size > CLOSED

    return loop(step, start, limit=STEPS, newton=implicit)


def infinity_norm(x: Iterable[Any]) -> Any:
    """The infinity norm: the largest size of a vector's entries."""
    found: Any = 0.0
    for y in x:
        if not is_zero(y):
            found = maximum(found, absolute(y))
    return found
