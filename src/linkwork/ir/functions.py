"""Functions on numbers, symbols and arrays of either: what NumPy has under names that also work while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.errors import ShapeError, TraceError
from linkwork.ir import numbers
from linkwork.ir.builder import Builder
from linkwork.ir.context import builder_around, tracing
from linkwork.ir.meaning import MEANING
from linkwork.ir.operations import BOOL
from linkwork.ir.program import Array, BoundedLoop, RowMap
from linkwork.ir.symbol import Symbol, apply, user_line, value_in


def _symbolic(*args: Any) -> bool:
    return any(isinstance(a, Symbol) or (isinstance(a, np.ndarray) and a.dtype == object) for a in args)


def _lift(op: str, on_numbers: Callable[..., Any], *args: Any) -> Any:
    """Apply an operation element by element, on symbols where there are any and with NumPy where there are none."""
    if not _symbolic(*args):
        result = on_numbers(*args)
        return result[()] if isinstance(result, np.ndarray) else result  # a scalar, not an array of no dimensions

    def one(*scalars: Any) -> Any:
        if any(isinstance(s, Symbol) for s in scalars):
            return apply(op, *scalars)
        return np.asarray(on_numbers(*scalars)).item()

    if not any(isinstance(a, np.ndarray) for a in args):
        return one(*args)
    return np.frompyfunc(one, len(args), 1)(*args)


def _elementary(op: str, in_numpy: Callable[..., Any], own: Callable[..., float], *args: Any) -> Any:
    """The same for elementary functions: numbers that a program may hold have the same bits everywhere.

    These are single numbers, and all numbers within a trace. NumPy, which is faster, is for arrays of numbers outside of one.
    """

    def on_numbers(*values: Any) -> Any:
        if all(isinstance(value, (float, int)) for value in values):
            return own(*map(float, values))
        if builder_around([]) is None:
            return in_numpy(*values)
        return np.asarray(np.frompyfunc(lambda *each: own(*map(float, each)), len(values), 1)(*values), dtype=float)

    return _lift(op, on_numbers, *args)


def sqrt(x: Any) -> Any:
    """Square root."""
    return _lift("sqrt", np.sqrt, x)


def sin(x: Any) -> Any:
    """Sine; x in radians."""
    return _elementary("sin", np.sin, numbers.sin, x)


def cos(x: Any) -> Any:
    """Cosine; x in radians."""
    return _elementary("cos", np.cos, numbers.cos, x)


def sincos(x: Any) -> tuple[Any, Any]:
    """Sine and cosine together; x in radians."""
    return sin(x), cos(x)


def atan2(y: Any, x: Any) -> Any:
    """Angle in radians of the point (x, y)."""
    return _elementary("atan2", np.arctan2, numbers.atan2, y, x)


def asin(x: Any) -> Any:
    """Arc sine in radians."""
    return _elementary("asin", np.arcsin, numbers.asin, x)


def acos(x: Any) -> Any:
    """Arc cosine in radians."""
    return _elementary("acos", np.arccos, numbers.acos, x)


def exp(x: Any) -> Any:
    """e to the power x."""
    return _elementary("exp", np.exp, numbers.exp, x)


def log(x: Any) -> Any:
    """Natural logarithm."""
    return _elementary("log", np.log, numbers.log, x)


def absolute(x: Any) -> Any:
    """Magnitude."""
    return _lift("abs", np.abs, x)


def rint(x: Any) -> Any:
    """Nearest whole number, ties to even."""
    return _lift("rint", np.rint, x)


def minimum(x: Any, y: Any) -> Any:
    """x where x < y, else y: y where either is NaN."""
    return _lift("min", MEANING["min"], x, y)


def maximum(x: Any, y: Any) -> Any:
    """x where x > y, else y: y where either is NaN."""
    return _lift("max", MEANING["max"], x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y. Both are computed."""
    return _lift("select", np.where, condition, x, y)


def is_set(x: Any) -> Any:
    """The condition that x, a condition already or a number, is true or not zero."""
    if isinstance(x, Symbol):
        return x if x.builder.kind(x.value) == BOOL else x != 0.0
    return bool(x)


def fma(x: Any, y: Any, z: Any) -> Any:
    """x y + z with one rounding."""

    def on_numbers(*scalars: Any) -> Any:
        x, y, z = np.broadcast_arrays(*[np.asarray(s, dtype=float) for s in scalars])
        flat = MEANING["fma"](x.ravel(), y.ravel(), z.ravel()).reshape(x.shape)
        return flat if flat.ndim else flat.item()

    return _lift("fma", on_numbers, x, y, z)


def pow2(k: Any) -> Any:
    """2 to the whole power k, clamped to the exponents of normal numbers."""
    return _lift("pow2", lambda k: MEANING["pow2"](np.atleast_1d(np.asarray(k, dtype=float))).reshape(np.shape(k)), k)


def exponent(x: Any) -> Any:
    """The binary exponent field of x, unbiased, as a number."""
    return _lift("exponent", lambda x: MEANING["exponent"](np.atleast_1d(np.asarray(x, dtype=float))).reshape(np.shape(x)), x)


def loop(step: Callable[[Any], tuple[Any, Any]], state: Any, *, limit: int, newton: int = 0) -> Any:
    """Repeat `state, again = step(state)` while `again` holds, at most `limit` times; return the last state.

    `state` is a scalar or an array of reals and keeps its shape; `again` is one condition. The step runs at least once. In a
    batch every row stops on its own. On plain numbers this is an ordinary Python loop.

    `newton` says that the steps are Newton's, and so what the loop's derivative is: that of the solution, by the implicit
    function theorem, in forward and in reverse mode, as that of one more step from there. So many of the first numbers of the
    state are the solution, and as many behind them, if there are more, what is tried next. At the solution a step then must
    neither depend on the part of this that it solves for (to first order: convergence is quadratic) nor move the rest.
    Other loops have the derivative of the iterations that were run, in forward mode only.
    """
    if limit < 1:
        raise TraceError(f"{user_line()}: a loop needs a limit of at least 1, not {limit}")
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
        raise ShapeError(f"{user_line()}: the loop state has shape {first.shape} but its step returns {after.shape}")
    states = [value_in(body, x) for x in after.ravel()]
    go_on = value_in(body, again)
    if body.kind(go_on) != BOOL:
        raise TraceError(f"{user_line()}: a loop's step must return (state, condition); the second is a number")
    record = BoundedLoop(
        body.finish(
            "step",
            [Array("state", (first.size,)), Array("outer", (len(body.captured),))],
            [Array("state", (first.size,)), Array("again", ())],
            [states, [go_on]],
        ),
        first.size,
        limit,
        newton,
    )
    outside = [value_in(builder, x) for x in first.ravel()]
    values = builder.loop(record, outside + list(body.captured))
    out = np.empty(first.shape, dtype=object)
    out.ravel()[:] = [Symbol(builder, v) for v in values]
    return out if first.ndim else out[()]


def map_rows(function: Callable[[Any], Any], rows: Any) -> Any:
    """The same function of every row of an array, (n, m): an array (n, k) of what it gives, (k,) for each.

    What it computes of one row may not depend on another. In a trace this is one loop of short code, where calls one by one
    would be traced again for each row: that counts where programs are long (matrices with many columns of the same structure).
    Entries that are zero in some rows are calculated with like all others. On plain numbers, and within another loop, it is an
    ordinary Python loop.
    """
    given = np.asarray(rows, dtype=object if _symbolic(rows) else None)
    if given.ndim != 2:
        raise ShapeError(f"{user_line()}: map_rows takes an array (rows, values), not one of shape {given.shape}")
    builder = builder_around([x for x in given.ravel() if isinstance(x, Symbol)])
    if builder is None or builder.parent is not None or len(given) < 2:
        return np.array([function(row) for row in given])
    body = Builder(builder.dtype, builder)
    row = np.empty(given.shape[1], dtype=object)
    row[:] = [Symbol(body, body.input(0, k)) for k in range(given.shape[1])]
    with tracing(body):
        after = np.asarray(function(row), dtype=object)
    if after.ndim != 1:
        raise ShapeError(f"{user_line()}: the function of map_rows gives one row, (k,), not an array of shape {after.shape}")
    results = [value_in(body, x) for x in after]
    if any(body.kind(v) == BOOL for v in results):
        raise TraceError(f"{user_line()}: the function of map_rows gives numbers, not conditions")
    inputs = [Array("row", (len(row),)), Array("shared", (len(body.captured),))]
    record = RowMap(body.finish("each", inputs, [Array("row", (len(after),))], [results]), len(given))
    values = builder.map(record, [value_in(builder, x) for x in given.ravel()] + list(body.captured))
    out = np.empty(record.states, dtype=object)
    out[:] = [Symbol(builder, v) for v in values]
    return out.reshape(len(given), len(after))
