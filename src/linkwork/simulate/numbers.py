"""What a user gave a rollout, as arrays of numbers, and one clear sentence where it is none or too large."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from linkwork.errors import DtypeError, TargetError
from linkwork.runtime.arguments import missing

P = ParamSpec("P")
T = TypeVar("T")


def real_numbers(who: str, name: str, value: Any) -> np.ndarray:
    """A new array of float64; an error where that would lose something: imaginary parts, masks, units, texts."""
    problem = missing(value)
    if problem is None:
        try:
            given = np.asarray(value)
            if given.dtype.kind in "biuf":
                return np.array(given, dtype=float)
            problem = f"has dtype {given.dtype}" if given.dtype.kind != "O" else _not_a_number(given)
            if problem is None:
                return np.array(given, dtype=float)
        except (ValueError, TypeError) as error:
            told = "rows of different lengths" if "inhomogeneous" in str(error) else str(error)
            problem = f"cannot be read as an array ({told})"
    raise DtypeError(f"{who}: {name} {problem}, and must be an array of real numbers")


def _not_a_number(objects: np.ndarray) -> str | None:
    for x in objects.ravel():
        if isinstance(x, (str, bytes)) or not hasattr(x, "__float__") or isinstance(x, (complex, np.complexfloating)):
            return f"holds {type(x).__name__}"
    return None


def tells_too_little_memory(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, with an error of ours where its arrays do not fit into memory."""

    @wraps(function)
    def told(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except MemoryError as error:
            raise TargetError(
                f"{function.__name__}: too little memory ({error}): take fewer rows in a call, or keep fewer states by every="
            ) from None

    return told
