"""The public functions that join the rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from linkwork.errors import LinkworkError, TargetError
from linkwork.ir.program import DTYPES, Program
from linkwork.ir.trace import Shape, trace
from linkwork.passes import count, lower
from linkwork.runtime.kernel import build_kernel
from linkwork.targets import c as c_target

Source = Program | Callable[..., Any]
Target = str | Callable[[Program], Any]


def compile(
    source: Source,
    inputs: Mapping[str, Shape] | None = None,
    *,
    dtype: str = "float64",
    target: Target = "cpu",
    wait: bool = False,
) -> Any:
    """A kernel of a traced program, or of a function and the shapes of its inputs (see `trace`).

    On the "cpu" the kernel is a NumPy generalised ufunc (see `Kernel`): it answers at once, and its optimised code takes
    over when it is ready, with the same bits. `wait=True` waits for that. A target may also be any function from a lowered
    program to something callable (docs/extending.md).
    """
    _check_dtype(dtype)
    program = _program(source, inputs)
    if callable(target):
        return target(lower(program, dtype))
    if target != "cpu":
        raise TargetError(f"target must be 'cpu' or a function that takes a program, not {target!r}")
    return build_kernel(program, dtype, wait=wait)


def export_c(
    source: Source,
    folder: str | Path,
    inputs: Mapping[str, Shape] | None = None,
    *,
    dtype: str = "float64",
    name: str | None = None,
) -> c_target.Export:
    """Write a program, or a function and the shapes of its inputs, as C99 with header, test and CMake file."""
    _check_dtype(dtype)
    return c_target.export_c(lower(_program(source, inputs), dtype), folder, name=name)


def count_operations(source: Source, inputs: Mapping[str, Shape] | None = None) -> dict[str, int]:
    """How many operations of each kind a program needs, or a function and the shapes of its inputs, and their `total`."""
    return count.count_operations(_program(source, inputs))


def _program(source: Source, inputs: Mapping[str, Shape] | None) -> Program:
    if isinstance(source, Program):
        if inputs is not None:
            raise LinkworkError("a program knows its inputs: give inputs= only with a function")
        return source
    if inputs is None:
        raise LinkworkError("give the shapes of the function's inputs, for example inputs={'q': 7, 'v': 7}")
    return trace(source, inputs)


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise LinkworkError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
