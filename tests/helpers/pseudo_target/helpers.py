"""What Python and NumPy lack: constants of a dtype, operations on bits, and loops in which every row stops on
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from linkwork.compiler.ir.semantics import SEMANTICS


def helpers(rows: int, dtype: str) -> SimpleNamespace:
    """The functions that emitted code calls as `h`, for so many rows of a dtype."""

    def constant(number: bool | str) -> np.ndarray:
        return (
            np.full(rows, number)
            if isinstance(number, bool)
            else np.full(rows, float.fromhex(number), dtype=dtype)
        )

    def loop(step: Callable[..., Any], args: list[np.ndarray], states: int, limit: int) -> list[np.ndarray]:
        state = args[:states]
        outer = args[states:]
        active = np.ones(rows, dtype=bool)
        for _ in range(limit):
            after, (again,) = step([state, outer], here)
            state = [np.where(active, new, old) for new, old in zip(after, state, strict=True)]
            active &= again
            if not active.any():
                break
        return state

    here = SimpleNamespace(constant=constant, loop=loop, sqrt=np.sqrt, rint=np.rint, select=np.where)
    here.fma, here.pow2, here.exponent = (
        SEMANTICS["fma"],
        SEMANTICS["pow2"],
        SEMANTICS["exponent"],
    )  # borrowed, to stay short
    return here
