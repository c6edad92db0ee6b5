"""Derivatives of Python functions of symbols, for use inside traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.compiler.autodiff.derivative_rules import Changes, entry
from linkwork.compiler.autodiff.differentiate import jacobian, jvp
from linkwork.compiler.autodiff.forward_mode import forward
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.context import builder_around, tracing
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.ir.symbol import Symbol, value_in
from linkwork.compiler.passes.expand import expand
from linkwork.compiler.passes.inline import outputs_in
from linkwork.compiler.passes.unroll import unroll
from linkwork.errors import DifferentiationError


def jacobian_of(fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Return fn(x) and its Jacobian d fn / d x, of shape fn(x).shape + x.shape, in a traced function.

    `fn` takes and returns one array (or scalar) and may read symbols of the enclosing trace: they count as
    constants. Inside a trace the results are object arrays of its symbols, with plain floats for constant
    entries, so that structural zeros stay zeros. On plain numbers outside of any trace the results are float
    arrays.
    """
    inner, program, values = _trace_inside(fn, x)
    derivative = jacobian(program, "out", "x")
    return _results(derivative, inner, [*values, list(inner.captured)])


def jvp_of(fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any]:
    """Return fn(x) and its derivative along a direction of x's shape: J @ direction, without the Jacobian.

    With direction = dx/dt it is the time derivative of fn(x); applied twice it gives the bias of a
    constraint. See `jacobian_of`.
    """
    if np.shape(direction) != np.shape(x):
        raise DifferentiationError(
            f"direction: expected the shape of x, {np.shape(x)}, got {np.shape(direction)}"
        )
    inner, program, values = _trace_inside(fn, x, direction)
    return _results(jvp(program, "x"), inner, [values[0], list(inner.captured), values[1]])


def jacobian_along(fn: Callable[[Any], Any], x: Any, directions: Any) -> tuple[Any, Any]:
    """Return fn(x) and its derivatives J @ directions, (fn(x).size, m), for directions (x.size, m).

    Forward mode; both results are flat. The cost grows with the number of directions, not with the size of x.
    See `jacobian_of`.
    """
    size, m = np.shape(directions)
    if size != np.size(x):
        raise DifferentiationError(
            f"directions: expected shape ({np.size(x)}, m), got {np.shape(directions)}"
        )
    inner, program, values = _trace_inside(lambda y: np.ravel(fn(y)), x, directions)
    b = Builder(program.dtype)
    seeds: dict[tuple[int, int], Changes] = {}
    for index, cell in enumerate(np.asarray(directions, dtype=object).ravel()):
        if isinstance(cell, Symbol) or cell != 0.0:
            value = b.input(2, index) if isinstance(cell, Symbol) else b.constant(float(cell))
            seeds.setdefault((0, index // m), {})[index % m] = value
    out = program.results[0]
    copies, changes = forward(program, b, b.input, seeds, out)
    inputs = [*program.inputs, Array("directions", (size, m))]
    outputs = [program.outputs[0], Array("along", (len(out), m))]
    results = [[copies[v] for v in out], [entry(b, changes[v], d) for v in out for d in range(m)]]
    derivative = check(b.finish("along", inputs, outputs, results))
    return _results(derivative, inner, [values[0], list(inner.captured), values[1]])


def _trace_inside(fn: Callable[[Any], Any], x: Any, *more: Any) -> tuple[Builder, Program, list[Any]]:
    """Return the builder and program of fn at symbols, and x and `more` as values of the outer trace."""
    arrays = [np.asarray(a, dtype=object) for a in (x, *more)]
    outer = builder_around([s for a in arrays for s in a.ravel() if isinstance(s, Symbol)])
    inner = Builder(outer.dtype if outer else "float64", outer)
    symbols = np.empty(arrays[0].shape, dtype=object)
    symbols.ravel()[:] = [Symbol(inner, inner.input(0, k)) for k in range(symbols.size)]
    with tracing(inner):
        out = np.asarray(fn(symbols if symbols.ndim else symbols[()]), dtype=object)
        results = [value_in(inner, cell) for cell in out.ravel()]
    one = inner.constant(1.0)
    zero = inner.constant(0.0)
    results = [inner.apply("select", v, one, zero) if inner.kind(v) == BOOL else v for v in results]
    inputs = [Array("x", symbols.shape), Array("outer", (len(inner.captured),))]
    program = unroll(check(inner.finish("inside", inputs, [Array("out", out.shape)], [results])))
    values = [a if outer is None else [value_in(outer, cell) for cell in a.ravel()] for a in arrays]
    return inner, program, values


def _results(program: Program, inner: Builder, values: list[Any]) -> tuple[Any, Any]:
    """Return the two outputs of a program in the trace around `inner`, or as floats outside of any."""
    outer = inner.parent
    if outer is None:
        first, second = interpret(expand(program), *values)
        return first[()], second[()]
    first, second = outputs_in(outer, program, values)
    return first, second
