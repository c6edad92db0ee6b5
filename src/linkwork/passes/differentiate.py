"""Derivatives of programs, exact to rounding: forward mode, reverse mode, and Jacobians by the cheaper of the two.

Both modes carry, for each value, a dict of its nonzero derivatives: by direction in forward mode, by output in reverse
mode. One direction gives `jvp` and `vjp`, unit directions give `jacobian`. What is not in a dict is zero by structure
and costs nothing. Both work on traced programs, before elementary functions are expanded.

Of min, max, abs and select the derivative is that of the branch which the value comes from, also at a tie. A branch that is
not taken does no harm: where(x > 0, sqrt(x), 0) has the derivative 0 at x = 0. For that, reverse mode remembers the conditions
under which a derivative counts, and drops it behind the branch, not before: 0 times infinity would be NaN.

A loop's derivative is that of the iterations that were run, in forward mode only. A loop that is marked as Newton's method has
the derivative of its solution, by the implicit function theorem, in both modes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from linkwork.errors import DifferentiationError
from linkwork.ir.builder import Builder
from linkwork.ir.check import check
from linkwork.ir.context import builder_around, tracing
from linkwork.ir.interpret import interpret
from linkwork.ir.liveness import needed_values
from linkwork.ir.operations import BOOL, OPERATIONS
from linkwork.ir.program import Array, Program
from linkwork.ir.symbol import Symbol, value_in
from linkwork.passes.derivative_rules import Changes, entry, plus, times
from linkwork.passes.expand import expand
from linkwork.passes.forward_mode import forward
from linkwork.passes.inline import inline, outputs_in
from linkwork.passes.reverse_mode import reverse
from linkwork.passes.unroll import unroll

_NONE: Changes = {}


def jvp(program: Program, wrt: str | Iterable[str] | None = None) -> Program:
    """Forward mode: takes a direction `d_<input>` for each input in `wrt` (all by default), adds `d_<output>` = J d.

    The new inputs come after the old ones, the new outputs after the old ones. Where such a name is taken, as in a
    second derivative, all new names start with `d2_` (then `d3_`, ...) instead.
    """
    program = unroll(program)
    chosen = _chosen(program, wrt)
    b = Builder(program.dtype)
    first = len(program.inputs)
    seeds = {
        (k, element): {0: b.input(first + n, element)}
        for n, k in enumerate(chosen)
        for element in range(program.inputs[k].size)
    }
    values, changes = forward(program, b, b.input, seeds, program.result_values())
    results = [[values[v] for v in r] for r in program.results]
    tangents = [[entry(b, changes[v], 0) for v in r] for r in program.results]
    directions, changes_of = jvp_arrays(program.inputs, program.outputs, chosen)
    inputs, outputs = program.inputs + directions, program.outputs + changes_of
    return check(b.finish(f"{program.name}_jvp", inputs, outputs, results + tangents))


Arrays = tuple[Array, ...]


def jvp_arrays(inputs: Arrays, outputs: Arrays, chosen: Iterable[int]) -> tuple[Arrays, Arrays]:
    """The arrays that `jvp` by the inputs at some places adds: directions, and changes of outputs."""
    moved = tuple(inputs[k] for k in chosen)
    return _renamed(inputs + outputs, "d", moved, outputs)


def vjp_arrays(inputs: Arrays, outputs: Arrays, chosen: Iterable[int]) -> tuple[Arrays, Arrays]:
    """The arrays that `vjp` by the inputs at some places adds: weights of outputs, and gradients."""
    moved = tuple(inputs[k] for k in chosen)
    return _renamed(inputs + outputs, "bar", outputs, moved)


def _renamed(own: Arrays, stem: str, inputs: Arrays, outputs: Arrays) -> tuple[Arrays, Arrays]:
    """Both with a prefix to their names."""
    prefix = _prefix(own, stem, [a.name for a in inputs + outputs])
    named = [a._replace(name=prefix + a.name) for a in inputs + outputs]
    return tuple(named[: len(inputs)]), tuple(named[len(inputs) :])


def vjp(program: Program, wrt: str | Iterable[str] | None = None) -> Program:
    """Reverse mode: takes a weight `bar_<output>` for each output, adds `bar_<input>` = J' bar for each input in `wrt`.

    Names as for `jvp`. Raises `DifferentiationError` where an output depends on `wrt` through a loop.
    """
    program = unroll(program)
    chosen = _chosen(program, wrt)
    b = Builder(program.dtype)
    first = len(program.inputs)
    seeds = [(v, 0, b.input(first + n, element)) for n, r in enumerate(program.results) for element, v in enumerate(r)]
    values, gradients = reverse(program, b, b.input, lambda at: at[0] in chosen, seeds)
    results = [[values[v] for v in r] for r in program.results]
    for k in chosen:
        results.append([entry(b, gradients.get((k, e), _NONE), 0) for e in range(program.inputs[k].size)])
    weights, found = vjp_arrays(program.inputs, program.outputs, chosen)
    return check(b.finish(f"{program.name}_vjp", program.inputs + weights, program.outputs + found, results))


def jacobian(program: Program, output: str, wrt: str) -> Program:
    """Adds the output `d_<output>_d_<wrt>`, the Jacobian of shape output.shape + wrt.shape.

    It is made in forward or in reverse mode, whichever needs fewer operations; forward mode if a loop is in the way.
    """
    row = _position(program, "output", program.outputs, output)
    column = _position(program, "input", program.inputs, wrt)
    return _cheapest(program, [row], [column], {}, {}, values=True)


def jacobians(
    program: Program,
    outputs: Sequence[str],
    wrt: Sequence[str],
    *,
    into: Mapping[str, Program] | None = None,
    along: Mapping[str, Program] | None = None,
) -> Program:
    """The Jacobians `d_<output>_d_<input>` of some outputs by some inputs, and nothing else, in one program.

    Inputs and outputs that are points of a manifold have a chart: `along[input]` gives the directions in which the input
    moves, (size, directions), from inputs of the program with the same names; `into[output]` takes changes of the output to
    coordinates of its tangent space, (coordinates, size), and has one input, the output itself.
    """
    rows = [_position(program, "output", program.outputs, name) for name in outputs]
    columns = [_position(program, "input", program.inputs, name) for name in wrt]
    return _cheapest(program, rows, columns, into or {}, along or {}, values=False)


Charts = Mapping[str, Program]
Matrix = list[list[int]]  # values of a builder


def _cheapest(program: Program, rows: list[int], columns: list[int], into: Charts, along: Charts, *, values: bool) -> Program:
    program = unroll(program)
    made = [_jacobians(_Forward, program, rows, columns, into, along, values=values)]
    with suppress(DifferentiationError):  # a loop
        made.append(_jacobians(_Reverse, program, rows, columns, into, along, values=values))
    return check(min(made, key=_operations))


def _jacobians(
    mode: type[_Mode], program: Program, rows: list[int], columns: list[int], into: Charts, along: Charts, *, values: bool
) -> Program:
    """The Jacobians of output arrays by input arrays in one mode, behind the program's own outputs where `values`."""
    made = mode(program, rows, columns, into, along)
    arrays, results = (list(program.outputs), made.results) if values else ([], [])
    for r in rows:
        for c in columns:
            name = f"{program.outputs[r].name}_d_{program.inputs[c].name}"
            arrays.append(
                Array(_prefix(program.inputs + program.outputs, "d", [name]) + name, made.heights[r] + made.widths[c])
            )
            results.append(made.entries(r, c))
    return made.b.finish(f"{program.name}_jacobian", program.inputs, arrays, results)


class _Mode:
    """Jacobians in one mode: of all rows by all columns at once, in a builder with the program's own results."""

    results: list[list[int]]

    def __init__(self, program: Program, rows: list[int], columns: list[int], into: Charts, along: Charts) -> None:
        self.program, self.rows, self.columns = program, rows, columns
        self.into = {r: into.get(program.outputs[r].name) for r in rows}
        along_ = {c: along.get(program.inputs[c].name) for c in columns}
        self.heights = {r: program.outputs[r].shape if of is None else of.outputs[0].shape[:1] for r, of in self.into.items()}
        self.widths = {c: program.inputs[c].shape if of is None else of.outputs[0].shape[1:] for c, of in along_.items()}
        self.b = Builder(program.dtype)
        self.one = self.b.constant(1.0)
        given = {array.name: [self.b.input(k, e) for e in range(array.size)] for k, array in enumerate(program.inputs)}
        self.moved = {
            c: None if of is None else self._matrix(of, [given[a.name] for a in of.inputs]) for c, of in along_.items()
        }
        self._run()

    def entries(self, row: int, column: int) -> list[int]:
        """The entries of one Jacobian, row by row."""
        raise NotImplementedError

    def _run(self) -> None:
        raise NotImplementedError

    def _matrix(self, chart: Program, given: list[list[int]]) -> Matrix:
        cells, (height, width) = inline(chart, self.b, given)[0], chart.outputs[0].shape
        return [cells[k * width : (k + 1) * width] for k in range(height)]

    def _told(self, row: int, values: list[int]) -> Matrix | None:
        """The matrix that takes changes of an output, which has these values, to coordinates of its tangent space."""
        chart = self.into[row]
        return None if chart is None else self._matrix(chart, [values])

    def _lines(self, chart: Matrix | None, size: int) -> Iterator[Changes]:
        """The rows of a matrix without its zeros; of the unit matrix where there is no chart."""
        for k in range(size):
            yield {k: self.one} if chart is None else {j: x for j, x in enumerate(chart[k]) if self.b.number(x) != 0}


class _Forward(_Mode):
    def _run(self) -> None:
        seeds: dict[tuple[int, int], Changes] = {}
        self.first, count = {}, 0
        for c in self.columns:
            self.first[c] = count
            for e, line in enumerate(self._lines(self.moved[c], self.program.inputs[c].size)):
                seeds[c, e] = {count + d: value for d, value in line.items()}
            count += math.prod(self.widths[c])
        wanted = [v for r in self.rows for v in self.program.results[r]]
        values, changes = forward(self.program, self.b, self.b.input, seeds, wanted)
        self.results = [[values[v] for v in r] for r in self.program.results]
        self.changes = {}
        for r in self.rows:
            lines = [changes[v] for v in self.program.results[r]]
            chart = self._told(r, self.results[r])
            self.changes[r] = lines if chart is None else [_weighted(self.b, weights, lines) for weights in chart]

    def entries(self, row: int, column: int) -> list[int]:
        first, count = self.first[column], math.prod(self.widths[column])
        return [entry(self.b, line, first + d) for line in self.changes[row] for d in range(count)]


class _Reverse(_Mode):
    def _run(self) -> None:
        b, program = self.b, self.program
        self.results = inline(program, b, [[b.input(k, e) for e in range(a.size)] for k, a in enumerate(program.inputs)])
        seeds: list[tuple[int, int, int]] = []
        self.first, count = {}, 0
        for r in self.rows:
            self.first[r], height, values = count, math.prod(self.heights[r]), program.results[r]
            for k, line in enumerate(self._lines(self._told(r, self.results[r]), height)):
                seeds += [(values[e], count + k, weight) for e, weight in line.items()]
            count += height
        chosen = set(self.columns)
        self.gradients = reverse(program, b, b.input, lambda at: at[0] in chosen, seeds)[1]

    def entries(self, row: int, column: int) -> list[int]:
        lines = [self.gradients.get((column, e), _NONE) for e in range(self.program.inputs[column].size)]
        chart = self.moved[column]
        if chart is not None:
            (count,) = self.widths[column]
            lines = [_weighted(self.b, [line[d] for line in chart], lines) for d in range(count)]
        first, height = self.first[row], math.prod(self.heights[row])
        return [entry(self.b, line, first + k) for k in range(height) for line in lines]


def _weighted(b: Builder, weights: Sequence[int], lines: Sequence[Changes]) -> Changes:
    """The sum of changes, each times its weight."""
    total: Changes = {}
    for weight, line in zip(weights, lines, strict=True):
        for key, change in line.items():
            value = plus(b, total.pop(key, None), times(b, weight, change))
            if value is not None:
                total[key] = value
    return total


def _operations(program: Program) -> int:
    """How many operations a program runs, those that no output needs not counted."""
    needed = needed_values(program)
    return sum(op in OPERATIONS for (op, _, _), n in zip(program.code, needed, strict=True) if n)


# Functions of symbols, inside a trace


def jacobian_of(fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """fn(x) and its Jacobian d fn / d x, of shape fn(x).shape + x.shape, for use inside a traced function.

    `fn` takes and returns one array (or scalar) and may read symbols of the trace around it: they count as constants.
    Inside a trace the results are object arrays of its symbols, with plain floats where an entry is constant, so that
    structural zeros stay zeros. On plain numbers outside of any trace the results are float arrays.
    """
    inner, program, values = _trace_inside(fn, x)
    made = jacobian(program, "out", "x")
    return _results(made, inner, [*values, list(inner.captured)])


def jvp_of(fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any]:
    """fn(x) and its derivative along a direction of x's shape: J @ direction, without the Jacobian. See `jacobian_of`.

    With direction = dx/dt it is the time derivative of fn(x); applied twice it gives the bias of a constraint.
    """
    if np.shape(direction) != np.shape(x):
        raise DifferentiationError(f"the direction has shape {np.shape(direction)}, but x has {np.shape(x)}")
    inner, program, values = _trace_inside(fn, x, direction)
    return _results(jvp(program, "x"), inner, [values[0], list(inner.captured), values[1]])


def jacobian_along(fn: Callable[[Any], Any], x: Any, directions: Any) -> tuple[Any, Any]:
    """fn(x) and its derivatives along directions, (x.size, m), of an array x: J @ directions, (fn(x).size, m), in forward mode.

    Both are flat. It costs as much as there are directions, however many entries x has. See `jacobian_of`.
    """
    size, m = np.shape(directions)
    if size != np.size(x):
        raise DifferentiationError(f"directions have shape {np.shape(directions)}, but x has {np.size(x)} entries")
    inner, program, values = _trace_inside(lambda y: np.ravel(fn(y)), x, directions)
    b = Builder(program.dtype)
    seeds: dict[tuple[int, int], Changes] = {}
    for place, cell in enumerate(np.asarray(directions, dtype=object).ravel()):
        if isinstance(cell, Symbol) or cell != 0.0:
            value = b.input(2, place) if isinstance(cell, Symbol) else b.constant(float(cell))
            seeds.setdefault((0, place // m), {})[place % m] = value
    out = program.results[0]
    copies, changes = forward(program, b, b.input, seeds, out)
    inputs, outputs = [*program.inputs, Array("directions", (size, m))], [program.outputs[0], Array("along", (len(out), m))]
    results = [[copies[v] for v in out], [entry(b, changes[v], d) for v in out for d in range(m)]]
    made = check(b.finish("along", inputs, outputs, results))
    return _results(made, inner, [values[0], list(inner.captured), values[1]])


def _trace_inside(fn: Callable[[Any], Any], x: Any, *more: Any) -> tuple[Builder, Program, list]:
    """The program of fn at symbols in place of x, and x (and what else is given) as values of the trace around it."""
    given = [np.asarray(a, dtype=object) for a in (x, *more)]
    outer = builder_around([s for a in given for s in a.ravel() if isinstance(s, Symbol)])
    inner = Builder(outer.dtype if outer else "float64", outer)
    symbols = np.empty(given[0].shape, dtype=object)
    symbols.ravel()[:] = [Symbol(inner, inner.input(0, k)) for k in range(symbols.size)]
    with tracing(inner):
        out = np.asarray(fn(symbols if symbols.ndim else symbols[()]), dtype=object)
        results = [value_in(inner, cell) for cell in out.ravel()]
    one, zero = inner.constant(1.0), inner.constant(0.0)
    results = [inner.apply("select", v, one, zero) if inner.kind(v) == BOOL else v for v in results]
    inputs = [Array("x", symbols.shape), Array("outer", (len(inner.captured),))]
    program = unroll(check(inner.finish("inside", inputs, [Array("out", out.shape)], [results])))
    values = [a if outer is None else [value_in(outer, cell) for cell in a.ravel()] for a in given]
    return inner, program, values


def _results(program: Program, inner: Builder, values: list) -> tuple[Any, Any]:
    """The outputs of a program in the trace around `inner`, or as floats where there is none."""
    outer = inner.parent
    if outer is None:
        first, second = interpret(expand(program), *values)
        return first[()], second[()]
    first, second = outputs_in(outer, program, values)
    return first, second


# Names


def _position(program: Program, what: str, arrays: Sequence[Array], name: str) -> int:
    for k, array in enumerate(arrays):
        if array.name == name:
            return k
    known = ", ".join(a.name for a in arrays) or "none"
    raise DifferentiationError(f"{program.name} has no {what} {name!r}; its {what}s are: {known}")


def _chosen(program: Program, wrt: str | Iterable[str] | None) -> list[int]:
    """The positions of the input arrays named in `wrt`, each once."""
    names = [a.name for a in program.inputs] if wrt is None else [wrt] if isinstance(wrt, str) else wrt
    return list(dict.fromkeys(_position(program, "input", program.inputs, name) for name in names))


def _prefix(own: Arrays, stem: str, names: Sequence[str]) -> str:
    """`stem_`, or `stem2_`, `stem3_`, ...: the first that makes no name which the program's own arrays already have."""
    taken = {a.name for a in own}
    number, prefix = 1, f"{stem}_"
    while any(prefix + name in taken for name in names):
        number += 1
        prefix = f"{stem}{number}_"
    return prefix
