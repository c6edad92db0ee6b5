"""Derivatives of programs, exact to rounding: forward mode, reverse mode, and the cheaper one for Jacobians.

Both modes carry, for each value, a dict of its nonzero derivatives: by direction in forward mode, by output
in reverse mode. One direction gives `jvp` and `vjp`, unit directions give `jacobian`. Entries missing from a
dict are structural zeros and cost nothing. Both modes work on traced programs, before elementary functions
are expanded.

The derivative of min, max, abs and select is that of the branch that supplies the value, also at a tie. The
other branch does no harm: where(x > 0, sqrt(x), 0) has the derivative 0 at x = 0. For this, reverse mode
records the conditions under which a derivative counts, and drops it behind the branch, not before: 0 times
infinity would be NaN.

The derivative of a loop is that of the iterations that were run, in forward mode only. A loop that is marked
as Newton's method has the derivative of its solution, by the implicit function theorem, in both modes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from linkwork.compiler.autodiff.derivative_rules import Changes, entry, plus, times
from linkwork.compiler.autodiff.forward_mode import forward
from linkwork.compiler.autodiff.reverse_mode import reverse
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.operations import OPERATIONS
from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.passes.inline import inline
from linkwork.compiler.passes.unroll import unroll
from linkwork.errors import DifferentiationError

_NONE: Changes = {}


def jvp(program: Program, wrt: str | Iterable[str] | None = None) -> Program:
    """Return the program with J d: inputs `d_<input>` for `wrt` (default all), outputs `d_<output>`.

    Forward mode. The new inputs come after the old ones, the new outputs after the old ones. If such a name
    is in use, as in a second derivative, all new names start with `d2_` (then `d3_`, ...) instead.
    """
    program = unroll(program)
    wrt_positions = _wrt_positions(program, wrt)
    b = Builder(program.dtype)
    first = len(program.inputs)
    seeds = {
        (k, element): {0: b.input(first + n, element)}
        for n, k in enumerate(wrt_positions)
        for element in range(program.inputs[k].size)
    }
    values, changes = forward(program, b, b.input, seeds, program.result_values())
    results = [[values[v] for v in r] for r in program.results]
    tangents = [[entry(b, changes[v], 0) for v in r] for r in program.results]
    directions, changes_of = jvp_arrays(program.inputs, program.outputs, wrt_positions)
    inputs = program.inputs + directions
    outputs = program.outputs + changes_of
    return check(b.finish(f"{program.name}_jvp", inputs, outputs, results + tangents))


Arrays = tuple[Array, ...]


def jvp_arrays(inputs: Arrays, outputs: Arrays, wrt_positions: Iterable[int]) -> tuple[Arrays, Arrays]:
    """Return the arrays that `jvp` by the inputs at some positions adds: directions, changes of outputs."""
    moving_inputs = tuple(inputs[k] for k in wrt_positions)
    return _renamed(inputs + outputs, "d", moving_inputs, outputs)


def vjp_arrays(inputs: Arrays, outputs: Arrays, wrt_positions: Iterable[int]) -> tuple[Arrays, Arrays]:
    """Return the arrays that `vjp` by the inputs at some positions adds: output weights, gradients."""
    moving_inputs = tuple(inputs[k] for k in wrt_positions)
    return _renamed(inputs + outputs, "bar", outputs, moving_inputs)


def _renamed(existing: Arrays, stem: str, inputs: Arrays, outputs: Arrays) -> tuple[Arrays, Arrays]:
    """Return both groups of arrays with a prefix to their names."""
    prefix = _prefix(existing, stem, [a.name for a in inputs + outputs])
    named = [a._replace(name=prefix + a.name) for a in inputs + outputs]
    return tuple(named[: len(inputs)]), tuple(named[len(inputs) :])


def vjp(program: Program, wrt: str | Iterable[str] | None = None) -> Program:
    """Return the program with Jᵀ bar: inputs `bar_<output>`, outputs `bar_<input>` for `wrt` (default all).

    Reverse mode. Names as for `jvp`. Raises `DifferentiationError` if an output depends on `wrt` through a
    loop that is not marked as Newton's method.
    """
    program = unroll(program)
    wrt_positions = _wrt_positions(program, wrt)
    b = Builder(program.dtype)
    first = len(program.inputs)
    seeds = [
        (v, 0, b.input(first + n, element))
        for n, r in enumerate(program.results)
        for element, v in enumerate(r)
    ]
    values, gradients = reverse(program, b, b.input, lambda at: at[0] in wrt_positions, seeds)
    results = [[values[v] for v in r] for r in program.results]
    for k in wrt_positions:
        results.append([entry(b, gradients.get((k, e), _NONE), 0) for e in range(program.inputs[k].size)])
    weights, gradient_arrays = vjp_arrays(program.inputs, program.outputs, wrt_positions)
    return check(
        b.finish(f"{program.name}_vjp", program.inputs + weights, program.outputs + gradient_arrays, results)
    )


def jacobian(program: Program, output: str, wrt: str) -> Program:
    """Add the output `d_<output>_d_<wrt>`, the Jacobian of shape output.shape + wrt.shape.

    It is computed in forward or in reverse mode, whichever needs fewer operations; always in forward mode
    through loops that are not marked as Newton's method.
    """
    row = _position(program, "output", program.outputs, output)
    column = _position(program, "input", program.inputs, wrt)
    return _cheapest(program, [row], [column], {}, {}, values=True)


def jacobians(
    program: Program,
    outputs: Sequence[str],
    wrt: Sequence[str],
    *,
    input_charts: Mapping[str, Program] | None = None,
    output_charts: Mapping[str, Program] | None = None,
) -> Program:
    """Return one program with only the Jacobians `d_<output>_d_<input>` of outputs by inputs.

    Inputs and outputs that are points of a manifold have a chart. `input_charts[name]` is the basis of the
    tangent space of an input, (size, directions), computed from inputs of the program with the same names.
    `output_charts[name]` maps changes of an output to coordinates of its tangent space, (coordinates, size),
    and has one input, the output itself.
    """
    rows = [_position(program, "output", program.outputs, name) for name in outputs]
    columns = [_position(program, "input", program.inputs, name) for name in wrt]
    return _cheapest(program, rows, columns, input_charts or {}, output_charts or {}, values=False)


Charts = Mapping[str, Program]
Matrix = list[list[int]]  # values of a builder


def _cheapest(
    program: Program,
    rows: list[int],
    columns: list[int],
    input_charts: Charts,
    output_charts: Charts,
    *,
    values: bool,
) -> Program:
    """Return the Jacobian program of the mode that needs fewer operations."""
    program = unroll(program)
    candidates = [_jacobians(_Forward, program, rows, columns, input_charts, output_charts, values=values)]
    with suppress(DifferentiationError):  # raised for loops in reverse mode
        candidates.append(
            _jacobians(_Reverse, program, rows, columns, input_charts, output_charts, values=values)
        )
    return check(min(candidates, key=_operations))


def _jacobians(
    mode: type[_Mode],
    program: Program,
    rows: list[int],
    columns: list[int],
    input_charts: Charts,
    output_charts: Charts,
    *,
    values: bool,
) -> Program:
    """Return the program of Jacobians in one mode, after the program's own outputs with `values`."""
    run = mode(program, rows, columns, input_charts, output_charts)
    arrays, results = (list(program.outputs), run.results) if values else ([], [])
    for r in rows:
        for c in columns:
            name = f"{program.outputs[r].name}_d_{program.inputs[c].name}"
            arrays.append(
                Array(
                    _prefix(program.inputs + program.outputs, "d", [name]) + name,
                    run.heights[r] + run.widths[c],
                )
            )
            results.append(run.entries(r, c))
    return run.b.finish(f"{program.name}_jacobian", program.inputs, arrays, results)


class _Mode:
    """Jacobians in one mode, of all rows by all columns, in a builder with the program's own results."""

    results: list[list[int]]

    def __init__(
        self,
        program: Program,
        rows: list[int],
        columns: list[int],
        input_charts: Charts,
        output_charts: Charts,
    ) -> None:
        self.program = program
        self.rows = rows
        self.columns = columns
        self.output_charts = {r: output_charts.get(program.outputs[r].name) for r in rows}
        charts = {c: input_charts.get(program.inputs[c].name) for c in columns}
        self.heights = {
            r: program.outputs[r].shape if chart is None else chart.outputs[0].shape[:1]
            for r, chart in self.output_charts.items()
        }
        self.widths = {
            c: program.inputs[c].shape if chart is None else chart.outputs[0].shape[1:]
            for c, chart in charts.items()
        }
        self.b = Builder(program.dtype)
        self.one = self.b.constant(1.0)
        input_values = {
            array.name: [self.b.input(k, e) for e in range(array.size)]
            for k, array in enumerate(program.inputs)
        }
        self.tangents = {
            c: None if chart is None else self._matrix(chart, [input_values[a.name] for a in chart.inputs])
            for c, chart in charts.items()
        }
        self._run()

    def entries(self, row: int, column: int) -> list[int]:
        """Return the entries of one Jacobian, row by row."""
        raise NotImplementedError

    def _run(self) -> None:
        raise NotImplementedError

    def _matrix(self, chart: Program, input_values: list[list[int]]) -> Matrix:
        """Return the matrix of a chart at input values."""
        cells = inline(chart, self.b, input_values)[0]
        height, width = chart.outputs[0].shape
        return [cells[k * width : (k + 1) * width] for k in range(height)]

    def _output_chart(self, row: int, values: list[int]) -> Matrix | None:
        """Return the matrix from changes of an output with these values to its tangent coordinates."""
        chart = self.output_charts[row]
        return None if chart is None else self._matrix(chart, [values])

    def _matrix_rows(self, chart: Matrix | None, size: int) -> Iterator[Changes]:
        """Yield the rows of a matrix without its zeros; of the unit matrix without a chart."""
        for k in range(size):
            yield (
                {k: self.one}
                if chart is None
                else {j: x for j, x in enumerate(chart[k]) if self.b.number(x) != 0}
            )


class _Forward(_Mode):
    """Jacobians by forward mode."""

    def _run(self) -> None:
        seeds: dict[tuple[int, int], Changes] = {}
        self.first = {}
        count = 0
        for c in self.columns:
            self.first[c] = count
            for e, line in enumerate(self._matrix_rows(self.tangents[c], self.program.inputs[c].size)):
                seeds[c, e] = {count + d: value for d, value in line.items()}
            count += math.prod(self.widths[c])
        results = [v for r in self.rows for v in self.program.results[r]]
        values, changes = forward(self.program, self.b, self.b.input, seeds, results)
        self.results = [[values[v] for v in r] for r in self.program.results]
        self.changes = {}
        for r in self.rows:
            lines = [changes[v] for v in self.program.results[r]]
            chart = self._output_chart(r, self.results[r])
            self.changes[r] = (
                lines if chart is None else [_weighted(self.b, weights, lines) for weights in chart]
            )

    def entries(self, row: int, column: int) -> list[int]:
        first = self.first[column]
        count = math.prod(self.widths[column])
        return [entry(self.b, line, first + d) for line in self.changes[row] for d in range(count)]


class _Reverse(_Mode):
    """Jacobians by reverse mode."""

    def _run(self) -> None:
        b = self.b
        program = self.program
        self.results = inline(
            program, b, [[b.input(k, e) for e in range(a.size)] for k, a in enumerate(program.inputs)]
        )
        seeds: list[tuple[int, int, int]] = []
        self.first = {}
        count = 0
        for r in self.rows:
            self.first[r] = count
            height = math.prod(self.heights[r])
            values = program.results[r]
            for k, line in enumerate(self._matrix_rows(self._output_chart(r, self.results[r]), height)):
                seeds += [(values[e], count + k, weight) for e, weight in line.items()]
            count += height
        wrt_positions = set(self.columns)
        self.gradients = reverse(program, b, b.input, lambda at: at[0] in wrt_positions, seeds)[1]

    def entries(self, row: int, column: int) -> list[int]:
        lines = [self.gradients.get((column, e), _NONE) for e in range(self.program.inputs[column].size)]
        chart = self.tangents[column]
        if chart is not None:
            (count,) = self.widths[column]
            lines = [_weighted(self.b, [line[d] for line in chart], lines) for d in range(count)]
        first = self.first[row]
        height = math.prod(self.heights[row])
        return [entry(self.b, line, first + k) for k in range(height) for line in lines]


def _weighted(b: Builder, weights: Sequence[int], lines: Sequence[Changes]) -> Changes:
    """Return the weighted sum of changes."""
    total: Changes = {}
    for weight, line in zip(weights, lines, strict=True):
        for key, change in line.items():
            value = plus(b, total.pop(key, None), times(b, weight, change))
            if value is not None:
                total[key] = value
    return total


def _operations(program: Program) -> int:
    """Return the number of operations that a program runs, without dead code."""
    needed = needed_values(program)
    return sum(op in OPERATIONS for (op, _, _), n in zip(program.code, needed, strict=True) if n)


# Names


def _position(program: Program, role: str, arrays: Sequence[Array], name: str) -> int:
    for k, array in enumerate(arrays):
        if array.name == name:
            return k
    known = ", ".join(a.name for a in arrays) or "none"
    raise DifferentiationError(f"{program.name} has no {role} {name!r}; its {role}s are: {known}")


def _wrt_positions(program: Program, wrt: str | Iterable[str] | None) -> list[int]:
    """Return the positions of the input arrays named in `wrt`, each once."""
    names = [a.name for a in program.inputs] if wrt is None else [wrt] if isinstance(wrt, str) else wrt
    return list(dict.fromkeys(_position(program, "input", program.inputs, name) for name in names))


def _prefix(existing: Arrays, stem: str, names: Sequence[str]) -> str:
    """Return the first of `stem_`, `stem2_`, `stem3_`, ... that avoids the names of existing arrays."""
    taken = {a.name for a in existing}
    number = 1
    prefix = f"{stem}_"
    while any(prefix + name in taken for name in names):
        number += 1
        prefix = f"{stem}{number}_"
    return prefix
