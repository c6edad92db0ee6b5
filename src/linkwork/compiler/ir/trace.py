"""Tracing: from a Python function over small arrays to a program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.context import collector_paused, tracing
from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.ir.symbol import Symbol, user_line, value_in
from linkwork.errors import ShapeError, TraceError

Shape = int | tuple[int, ...]


def trace(fn: Callable[..., Any], inputs: Mapping[str, Shape], *, name: str | None = None) -> Program:
    """Run `fn` once on symbols and return the program of its computation.

    `inputs` gives the name and shape of each argument, in order; an int n means shape (n,), and () a scalar.
    `fn` is called with one object array per input (a bare symbol for a scalar) and returns an array or
    scalar, a tuple of them, or a dict from output names to them. Its Python control flow may depend on shapes
    and plain numbers, never on symbols.
    """
    with collector_paused():
        return _trace(fn, inputs, name)


def _trace(fn: Callable[..., Any], inputs: Mapping[str, Shape], name: str | None) -> Program:
    builder = Builder()
    arrays = [Array(_identifier(key, "input"), _shape(key, shape)) for key, shape in inputs.items()]
    arguments = []
    for number, array in enumerate(arrays):
        symbols = np.empty(array.shape, dtype=object)
        symbols.ravel()[:] = [Symbol(builder, builder.input(number, k)) for k in range(array.size)]
        arguments.append(symbols if array.shape else symbols[()])
    with tracing(builder), _explaining_numpy_errors():
        returned = fn(*arguments)

    outputs = []
    results = []
    try:
        for key, result in _named(returned).items():
            cells = np.asarray(result, dtype=object)
            outputs.append(Array(_identifier(key, "output"), cells.shape))
            results.append([_real_value(builder, cell, key) for cell in cells.ravel()])
    except TraceError as error:
        raise TraceError(f"{_definition_line(fn)}: return value: {error}") from None
    program_name = _identifier(name or getattr(fn, "__name__", "program").strip("<>"), "program")
    return check(builder.finish(program_name, arrays, outputs, results))


@contextmanager
def _explaining_numpy_errors() -> Iterator[None]:
    """Re-raise NumPy's errors about symbols as `TraceError` with the user's line."""
    try:
        yield
    except (TypeError, IndexError) as error:
        if isinstance(error, TraceError) or not any(
            word in str(error) for word in ("dtype('O')", "Symbol", "valid indices")
        ):
            raise
        line = user_line(error.__traceback__)
        raise TraceError(
            f"{line}: {error} (compiled NumPy functions, such as np.linalg, and indices cannot take symbols)"
        ) from error


def _definition_line(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)


def _real_value(builder: Builder, cell: Any, output: str) -> int:
    if cell is None:
        raise TraceError(
            f"output {output!r} holds None: the traced function left an element unset or returned nothing"
        )
    value = value_in(builder, cell)
    if builder.kind(value) == BOOL:  # outputs are real arrays: conditions leave as 1.0 and 0.0
        value = builder.apply("select", value, builder.constant(1.0), builder.constant(0.0))
    return value


def _named(returned: Any) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        named = dict(returned)
    elif isinstance(returned, tuple):
        named = {f"out{k}": r for k, r in enumerate(returned)}
    else:
        named = {"out": returned}
    if not named:
        raise TraceError("the traced function returns no output")
    return named


def _shape(name: str, shape: Shape) -> tuple[int, ...]:
    dims = shape if isinstance(shape, tuple) else (shape,)
    try:
        sizes = tuple(operator.index(d) for d in dims)
    except TypeError:
        raise ShapeError(f"input {name!r}: shape: expected integers, got {shape!r}") from None
    if any(d < 0 for d in sizes):
        raise ShapeError(f"input {name!r}: shape: expected non-negative sizes, got {shape!r}")
    return sizes


def _identifier(name: str, role: str) -> str:
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise TraceError(f"{role} name {name!r}: expected an ASCII identifier, which exported code needs")
    return name
