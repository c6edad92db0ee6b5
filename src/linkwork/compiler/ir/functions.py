"""NumPy-like functions that accept numbers, symbols and arrays of either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.compiler.ir import numbers
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.context import builder_around, tracing
from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import Array, BoundedLoop, RowMap
from linkwork.compiler.ir.semantics import SEMANTICS
from linkwork.compiler.ir.symbol import Symbol, apply, user_line, value_in
from linkwork.errors import ShapeError, TraceError


def _symbolic(*args: Any) -> bool:
    return any(isinstance(a, Symbol) or (isinstance(a, np.ndarray) and a.dtype == object) for a in args)


def _lift(op: str, on_numbers: Callable[..., Any], *args: Any) -> Any:
    """Apply an operation elementwise, on symbols if there are any and with NumPy otherwise."""
    if not _symbolic(*args):
        result = on_numbers(*args)
        return result[()] if isinstance(result, np.ndarray) else result  # a scalar, not a 0-d array

    def apply_scalar(*scalars: Any) -> Any:
        if any(isinstance(s, Symbol) for s in scalars):
            return apply(op, *scalars)
        return np.asarray(on_numbers(*scalars)).item()

    if not any(isinstance(a, np.ndarray) for a in args):
        return apply_scalar(*args)
    return np.frompyfunc(apply_scalar, len(args), 1)(*args)


def _elementary(
    op: str, numpy_function: Callable[..., Any], exact_function: Callable[..., float], *args: Any
) -> Any:
    """Apply an elementary function; numbers that may enter a program have the same bits everywhere.

    These are single numbers, and all numbers within a trace. NumPy, which is faster, serves arrays of numbers
    outside of a trace.
    """

    def on_numbers(*values: Any) -> Any:
        if all(isinstance(value, (float, int)) for value in values):
            return exact_function(*map(float, values))
        if builder_around([]) is None:
            return numpy_function(*values)
        return np.asarray(
            np.frompyfunc(lambda *scalars: exact_function(*map(float, scalars)), len(values), 1)(*values),
            dtype=float,
        )

    return _lift(op, on_numbers, *args)


def sqrt(x: Any) -> Any:
    """Return the square root."""
    return _lift("sqrt", np.sqrt, x)


def sin(x: Any) -> Any:
    """Return the sine of x in radians."""
    return _elementary("sin", np.sin, numbers.sin, x)


def cos(x: Any) -> Any:
    """Return the cosine of x in radians."""
    return _elementary("cos", np.cos, numbers.cos, x)


def sincos(x: Any) -> tuple[Any, Any]:
    """Return the sine and cosine of x in radians."""
    return sin(x), cos(x)


def atan2(y: Any, x: Any) -> Any:
    """Return the angle of the point (x, y) in radians."""
    return _elementary("atan2", np.arctan2, numbers.atan2, y, x)


def asin(x: Any) -> Any:
    """Return the arc sine in radians."""
    return _elementary("asin", np.arcsin, numbers.asin, x)


def acos(x: Any) -> Any:
    """Return the arc cosine in radians."""
    return _elementary("acos", np.arccos, numbers.acos, x)


def exp(x: Any) -> Any:
    """Return e to the power x."""
    return _elementary("exp", np.exp, numbers.exp, x)


def log(x: Any) -> Any:
    """Return the natural logarithm."""
    return _elementary("log", np.log, numbers.log, x)


def absolute(x: Any) -> Any:
    """Return the magnitude."""
    return _lift("abs", np.abs, x)


def rint(x: Any) -> Any:
    """Return the nearest integer, ties to even."""
    return _lift("rint", np.rint, x)


def minimum(x: Any, y: Any) -> Any:
    """Return x where x < y, else y; y where either is NaN."""
    return _lift("min", SEMANTICS["min"], x, y)


def maximum(x: Any, y: Any) -> Any:
    """Return x where x > y, else y; y where either is NaN."""
    return _lift("max", SEMANTICS["max"], x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return x where the condition holds, else y; both are computed."""
    return _lift("select", np.where, condition, x, y)


def is_set(x: Any) -> Any:
    """Return the condition that x, which may be a condition already, is true or nonzero."""
    if isinstance(x, Symbol):
        return x if x.builder.kind(x.value) == BOOL else x != 0.0
    return bool(x)


def fma(x: Any, y: Any, z: Any) -> Any:
    """Return x y + z with one rounding."""

    def on_numbers(*scalars: Any) -> Any:
        x, y, z = np.broadcast_arrays(*[np.asarray(s, dtype=float) for s in scalars])
        flat = SEMANTICS["fma"](x.ravel(), y.ravel(), z.ravel()).reshape(x.shape)
        return flat if flat.ndim else flat.item()

    return _lift("fma", on_numbers, x, y, z)


def pow2(k: Any) -> Any:
    """Return 2**k for an integral k, clamped to the exponents of normal numbers."""
    return _lift(
        "pow2", lambda k: SEMANTICS["pow2"](np.atleast_1d(np.asarray(k, dtype=float))).reshape(np.shape(k)), k
    )


def exponent(x: Any) -> Any:
    """Return the unbiased binary exponent field of x as a number."""
    return _lift(
        "exponent",
        lambda x: SEMANTICS["exponent"](np.atleast_1d(np.asarray(x, dtype=float))).reshape(np.shape(x)),
        x,
    )


def loop(
    step: Callable[[Any], tuple[Any, Any]], state: Any, *, limit: int, newton: int = 0, enter: Any = None
) -> Any:
    """Repeat `state, again = step(state)` while `again` is true, and return the last state.

    The step runs at least once. In a batch every row stops on its own. On plain numbers this is an ordinary
    Python loop.

    Parameters
    ----------
    step : callable
        Function from the state to the next state and one condition.
    state : scalar or array of reals
        Initial state; its shape does not change.
    limit : int
        Largest number of iterations.
    newton : int, optional
        Number of leading entries of the state that a Newton iteration solves for; 0 for other loops. The next
        `newton` entries, if there are any, are the next iterate. The derivative of such a loop is that of the
        solution, in forward and reverse mode; see Notes.
    enter : condition, optional
        Rows in which it is false keep the initial state. A loop that no row of a batch enters is skipped on
        targets that support it.

    Returns
    -------
    scalar or array
        State after the last iteration.

    Notes
    -----
    With `newton`, derivatives follow from the implicit function theorem, evaluated by one more step at the
    solution. A step there must neither depend on the solution to first order (convergence is quadratic) nor
    change the remaining state. Other loops have the derivative of the iterations executed, in forward mode
    only.

    Examples
    --------
    >>> def halve(x):
    ...     return 0.5 * x, 0.5 * x > 1.0
    >>> lw.loop(halve, 10.0, limit=20)
    0.625
    """
    if limit < 1:
        raise TraceError(f"{user_line()}: loop limit: expected at least 1, got {limit}")
    if enter is not None:
        return _skippable_loop(step, state, limit, enter)
    return _loop(step, state, limit, newton)


def _skippable_loop(step: Callable[[Any], tuple[Any, Any]], state: Any, limit: int, enter: Any) -> Any:
    """Return the last state of a loop over an array that only rows with `enter` run."""
    if not isinstance(enter, Symbol):
        return _loop(step, state, limit) if enter else state

    def guarded(flagged: Any) -> tuple[Any, Any]:
        old = flagged[:-1]
        enters = flagged[-1] > 0.0
        new, again = step(old)
        after = [x if _same(x, y) else where(enters, x, y) for x, y in zip(new, old, strict=True)]
        return np.array([*after, flagged[-1]], dtype=object), again & enters

    flagged = np.array([*state, where(enter, 1.0, 0.0)], dtype=object)
    return _loop(guarded, flagged, limit, skippable=True)[:-1]


def _same(x: Any, y: Any) -> bool:
    return isinstance(x, Symbol) and isinstance(y, Symbol) and x.builder is y.builder and x.value == y.value


def _loop(
    step: Callable[[Any], tuple[Any, Any]],
    state: Any,
    limit: int,
    newton: int = 0,
    *,
    skippable: bool = False,
) -> Any:
    first = np.asarray(state, dtype=object if _symbolic(state) else None)
    builder = builder_around([x for x in first.ravel() if isinstance(x, Symbol)])
    if builder is None:
        for _ in range(limit):
            state, again = step(state)
            if not again:
                break
        return state

    body = Builder(builder.dtype, builder)
    inside = np.empty(first.shape, dtype=object)
    inside.ravel()[:] = [Symbol(body, body.input(0, k)) for k in range(first.size)]
    with tracing(body):
        after, again = step(inside if first.ndim else inside[()])
    after = np.asarray(after, dtype=object)
    if after.shape != first.shape:
        raise ShapeError(
            f"{user_line()}: loop step: expected a state of shape {first.shape}, got {after.shape}"
        )
    states = [value_in(body, x) for x in after.ravel()]
    condition = value_in(body, again)
    if body.kind(condition) != BOOL:
        raise TraceError(
            f"{user_line()}: loop step: expected (state, condition), got a number as the condition"
        )
    record = BoundedLoop(
        body.finish(
            "step",
            [Array("state", (first.size,)), Array("outer", (len(body.captured),))],
            [Array("state", (first.size,)), Array("again", ())],
            [states, [condition]],
        ),
        first.size,
        limit,
        newton,
        skippable,
    )
    outside = [value_in(builder, x) for x in first.ravel()]
    values = builder.loop(record, outside + list(body.captured))
    out = np.empty(first.shape, dtype=object)
    out.ravel()[:] = [Symbol(builder, v) for v in values]
    return out if first.ndim else out[()]


def map_rows(function: Callable[[Any], Any], rows: Any) -> Any:
    """Apply a function to every row of an array (n, m) and return the results (k,) as an array (n, k).

    Rows must be independent. In a trace this is one loop of short code, where separate calls would be traced
    again for each row; this matters for long programs (matrices with many columns of the same structure).
    Entries that are zero in some rows are computed like all others. On plain numbers, and within another
    loop, it is an ordinary Python loop.
    """
    matrix = np.asarray(rows, dtype=object if _symbolic(rows) else None)
    if matrix.ndim != 2:
        raise ShapeError(f"{user_line()}: map_rows: expected an array of shape (n, m), got {matrix.shape}")
    builder = builder_around([x for x in matrix.ravel() if isinstance(x, Symbol)])
    if builder is None or builder.parent is not None or len(matrix) < 2:
        return np.array([function(row) for row in matrix])
    body = Builder(builder.dtype, builder)
    row = np.empty(matrix.shape[1], dtype=object)
    row[:] = [Symbol(body, body.input(0, k)) for k in range(matrix.shape[1])]
    with tracing(body):
        after = np.asarray(function(row), dtype=object)
    if after.ndim != 1:
        raise ShapeError(
            f"{user_line()}: map_rows: expected the function to return shape (k,), got {after.shape}"
        )
    results = [value_in(body, x) for x in after]
    if any(body.kind(v) == BOOL for v in results):
        raise TraceError(f"{user_line()}: map_rows: expected the function to return numbers, got conditions")
    inputs = [Array("row", (len(row),)), Array("shared", (len(body.captured),))]
    record = RowMap(body.finish("each", inputs, [Array("row", (len(after),))], [results]), len(matrix))
    values = builder.map(record, [value_in(builder, x) for x in matrix.ravel()] + list(body.captured))
    out = np.empty(record.states, dtype=object)
    out[:] = [Symbol(builder, v) for v in values]
    return out.reshape(len(matrix), len(after))
