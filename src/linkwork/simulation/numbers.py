"""Checks of array arguments of rollouts and simulations."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from linkwork.compiler.runtime.arguments import missing
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import DtypeError, TargetError

P = ParamSpec("P")
T = TypeVar("T")


def real_numbers(who: str, name: str, value: Any) -> np.ndarray:
    """Return a new float64 array; raise if imaginary parts, masks, units or text would be lost."""
    problem = missing(value)
    if problem is None:
        try:
            array = np.asarray(value)
            if array.dtype.kind in "biuf":
                return np.array(array, dtype=float)
            problem = f"has dtype {array.dtype}" if array.dtype.kind != "O" else _not_a_number(array)
            if problem is None:
                return np.array(array, dtype=float)
        except (ValueError, TypeError) as error:
            reraise_signal(error)
            message = "rows of different lengths" if "inhomogeneous" in str(error) else str(error)
            problem = f"cannot be read as an array ({message})"
    raise DtypeError(f"{who}: {name}: expected an array of real numbers, but it {problem}")


def _not_a_number(objects: np.ndarray) -> str | None:
    for x in objects.ravel():
        if (
            isinstance(x, (str, bytes))
            or not hasattr(x, "__float__")
            or isinstance(x, (complex, np.complexfloating))
        ):
            return f"holds {type(x).__name__}"
    return None


def report_memory_error(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with a `TargetError` in place of a MemoryError."""

    @wraps(function)
    def guarded(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except MemoryError as error:
            raise TargetError(
                f"{function.__name__}: too little memory ({error}): use fewer rows per call or a larger "
                "record_every="
            ) from None

    return guarded
