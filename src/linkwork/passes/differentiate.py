"""Derivatives of programs, exact to rounding: forward mode, reverse mode, and Jacobians by the cheaper of the two.

Both modes carry, for each value, a dict of its nonzero derivatives: by direction in forward mode, by output in reverse
mode. One direction gives `jvp` and `vjp`, unit directions give `jacobian`. What is not in a dict is zero by structure
and costs nothing. Both work on traced programs, before elementary functions are expanded.

Of min, max, abs and select the derivative is that of the branch which the value comes from, also at a tie. A branch that is
not taken does no harm: where(x > 0, sqrt(x), 0) has the derivative 0 at x = 0. For that, reverse mode remembers the conditions
under which a derivative counts, and drops it behind the branch, not before: 0 times infinity would be NaN. A loop's derivative
is that of the iterations that were run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from linkwork.ir.program import Array, BoundedLoop, Program
from linkwork.ir.symbol import Symbol, value_in
from linkwork.passes.derivative_rules import (
    RULES,
    Changes,
    Part,
    carriers,
    counted,
    entry,
    moves,
    plus,
    pull,
    push,
    sum_of_parts,
)
from linkwork.passes.expand import expand
from linkwork.passes.inline import inline, replay

_NONE: Changes = {}


def jvp(program: Program, wrt: str | Iterable[str] | None = None) -> Program:
    """Forward mode: takes a direction `d_<input>` for each input in `wrt` (all by default), adds `d_<output>` = J d.

    The new inputs come after the old ones, the new outputs after the old ones. Where such a name is taken, as in a
    second derivative, all new names start with `d2_` (then `d3_`, ...) instead.
    """
    chosen = _chosen(program, wrt)
    prefix = _prefix(program, "d", [program.inputs[k].name for k in chosen] + [a.name for a in program.outputs])
    b = Builder(program.dtype)
    first = len(program.inputs)
    seeds = {
        (k, element): {0: b.input(first + n, element)}
        for n, k in enumerate(chosen)
        for element in range(program.inputs[k].size)
    }
    values, changes = _forward(program, b, b.input, seeds, program.result_values())
    results = [[values[v] for v in r] for r in program.results]
    tangents = [[entry(b, changes[v], 0) for v in r] for r in program.results]
    inputs = [*program.inputs, *(program.inputs[k]._replace(name=prefix + program.inputs[k].name) for k in chosen)]
    outputs = [*program.outputs, *(a._replace(name=prefix + a.name) for a in program.outputs)]
    return check(b.finish(f"{program.name}_jvp", inputs, outputs, results + tangents))


def vjp(program: Program, wrt: str | Iterable[str] | None = None) -> Program:
    """Reverse mode: takes a weight `bar_<output>` for each output, adds `bar_<input>` = J' bar for each input in `wrt`.

    Names as for `jvp`. Raises `DifferentiationError` where an output depends on `wrt` through a loop.
    """
    chosen = _chosen(program, wrt)
    prefix = _prefix(program, "bar", [program.inputs[k].name for k in chosen] + [a.name for a in program.outputs])
    b = Builder(program.dtype)
    first = len(program.inputs)
    seeds = [(v, 0, b.input(first + n, element)) for n, r in enumerate(program.results) for element, v in enumerate(r)]
    values, gradients = _reverse(program, b, chosen, seeds)
    results = [[values[v] for v in r] for r in program.results]
    for k in chosen:
        results.append([entry(b, gradients.get((k, e), _NONE), 0) for e in range(program.inputs[k].size)])
    inputs = [*program.inputs, *(a._replace(name=prefix + a.name) for a in program.outputs)]
    outputs = [*program.outputs, *(program.inputs[k]._replace(name=prefix + program.inputs[k].name) for k in chosen)]
    return check(b.finish(f"{program.name}_vjp", inputs, outputs, results))


def jacobian(program: Program, output: str, wrt: str) -> Program:
    """Adds the output `d_<output>_d_<wrt>`, the Jacobian of shape output.shape + wrt.shape.

    It is made in forward or in reverse mode, whichever needs fewer operations; forward mode if a loop is in the way.
    """
    row = _position(program, "output", program.outputs, output)
    column = _position(program, "input", program.inputs, wrt)
    made = [_jacobian_forward(program, row, column)]
    with suppress(DifferentiationError):  # a loop
        made.append(_jacobian_reverse(program, row, column))
    return check(min(made, key=_operations))


def _jacobian_forward(program: Program, row: int, column: int) -> Program:
    b = Builder(program.dtype)
    one = b.constant(1.0)
    size = program.inputs[column].size
    seeds = {(column, e): {e: one} for e in range(size)}
    values, changes = _forward(program, b, b.input, seeds, program.results[row])
    dense = [entry(b, changes[v], e) for v in program.results[row] for e in range(size)]
    return _with_jacobian(program, b, row, column, values, dense)


def _jacobian_reverse(program: Program, row: int, column: int) -> Program:
    b = Builder(program.dtype)
    one = b.constant(1.0)
    values, gradients = _reverse(program, b, [column], [(v, k, one) for k, v in enumerate(program.results[row])])
    rows, columns = program.outputs[row].size, program.inputs[column].size
    dense = [entry(b, gradients.get((column, e), _NONE), k) for k in range(rows) for e in range(columns)]
    return _with_jacobian(program, b, row, column, values, dense)


def _with_jacobian(p: Program, b: Builder, row: int, column: int, values: list[int], dense: list[int]) -> Program:
    of, by = p.outputs[row], p.inputs[column]
    name = f"{of.name}_d_{by.name}"
    array = Array(_prefix(p, "d", [name]) + name, of.shape + by.shape)
    results = [[values[v] for v in r] for r in p.results]
    return b.finish(f"{p.name}_jacobian", p.inputs, [*p.outputs, array], [*results, dense])


def _operations(program: Program) -> int:
    """How many operations a program runs, those that no output needs not counted."""
    needed = needed_values(program)
    return sum(op in OPERATIONS for (op, _, _), n in zip(program.code, needed, strict=True) if n)


# Forward mode


def _forward(
    program: Program,
    b: Builder,
    read: Callable[[int, int], int],
    seeds: dict[tuple[int, int], Changes],
    wanted: Iterable[int],
) -> tuple[list[int], list[Changes]]:
    """Replay a program in a builder, and give its values there with the changes of those that `wanted` depends on.

    `seeds` holds the changes of input elements.
    """
    alive = needed_values(program)
    moving = moves(program, wanted)
    read_states: dict[int, set[int]] = {}  # loop -> its states that matter
    for k, (op, old, attr) in enumerate(program.code):
        if op == "result" and moving[k]:
            read_states.setdefault(old[0], set()).add(attr)  # type: ignore[arg-type]
    carried: dict[int, dict[tuple[int, int], int]] = {}  # loop -> what `_forward_loop` says about it
    values: list[int] = []
    changes: list[Changes] = []
    for k, instruction in enumerate(program.code):
        op, old, attr = instruction
        args = tuple(values[a] for a in old)
        change = _NONE
        if not alive[k]:
            value = -1
        elif isinstance(attr, BoundedLoop) and moving[k] and any(changes[a] for a in old):
            value, carried[k] = _forward_loop(b, attr, args, [changes[a] for a in old], read_states[k])
        else:
            value = replay(b, instruction, args, read)
            if not moving[k]:
                pass
            elif op == "input":
                change = seeds.get(attr, _NONE)  # type: ignore[call-overload]
            elif op == "result":
                states = carried.get(old[0], {}).items()
                change = {d: b.put("result", args, n) for (state, d), n in states if state == attr}
            elif op in RULES and any(changes[a] for a in carriers(op, old)):
                change = push(b, RULES[op](b, args, value), [changes[a] for a in old])
        values.append(value)
        changes.append(change)
    return values, changes


def _forward_loop(
    b: Builder, loop: BoundedLoop, args: tuple[int, ...], given: list[Changes], wanted: set[int]
) -> tuple[int, dict[tuple[int, int], int]]:
    """The loop with the changes of its states as further states, and {(state, direction): number of that new state}.

    How often it runs depends on the old states only. A change is carried if it is wanted and may be other than zero.
    """
    body, states = loop.body, loop.states
    after, again = body.results
    while True:  # states that wanted ones depend on are wanted, too
        moving = moves(body, [after[s] for s in wanted])
        reads = {attr for (op, _, attr), m in zip(body.code, moving, strict=True) if m and op == "input"}
        more = wanted | {k for array, k in reads if array == 0}  # type: ignore[misc]
        if more == wanted:
            break
        wanted = more
    carried = [(s, d) for s in sorted(wanted) for d in sorted(given[s])]
    outside = [(k, d) for k, change in enumerate(given[states:]) if (1, k) in reads for d in sorted(change)]
    outer = [(k, d) for k, d in outside if b.number(given[states + k][d]) is None]
    first = len(args) - states
    while True:  # until no step makes a nonzero change from what were only zeros
        inner = Builder(b.dtype)
        seeds: dict[tuple[int, int], Changes] = {}
        for n, (s, d) in enumerate(carried):
            seeds.setdefault((0, s), {})[d] = inner.input(0, states + n)
        for k, d in outside:
            number = b.number(given[states + k][d])
            value = inner.constant(number) if number is not None else inner.input(1, first + outer.index((k, d)))
            seeds.setdefault((1, k), {})[d] = value
        values, changes = _forward(body, inner, inner.input, seeds, [after[s] for s in sorted(wanted)])
        new = [(s, d) for s in sorted(wanted) for d in sorted(changes[after[s]]) if (s, d) not in set(carried)]
        if not new:
            break
        carried += new
    if not carried:
        return b.put("loop", args, loop), {}
    state = Array("state", (states + len(carried),))
    results = [values[v] for v in after] + [entry(inner, changes[after[s]], d) for s, d in carried]
    step = inner.finish(
        body.name,
        [state, Array("outer", (first + len(outer),))],
        [state, body.outputs[1]],
        [results, [values[again[0]]]],
    )
    start = [*args[:states], *(entry(b, given[s], d) for s, d in carried)]
    around = [*args[states:], *(given[states + k][d] for k, d in outer)]
    value = b.put("loop", (*start, *around), BoundedLoop(step, state.size, loop.limit))
    # the loop runs at least once, so only what a step leaves nonzero is nonzero after it
    return value, {(s, d): states + n for n, (s, d) in enumerate(carried) if d in changes[after[s]]}


# Reverse mode


def _reverse(
    program: Program, b: Builder, chosen: Sequence[int], seeds: Iterable[tuple[int, int, int]]
) -> tuple[list[int], dict[tuple[int, int], Changes]]:
    """Replay a program in a builder, and give its values there with the gradients of the chosen arrays' elements.

    `seeds` are (value, output number, weight); a gradient is the dict of its parts by output number.
    """
    active: list[bool] = []  # values that depend on a chosen input
    for op, args, attr in program.code:
        chosen_input = op == "input" and attr[0] in chosen  # type: ignore[index]
        active.append(chosen_input or any(active[a] for a in carriers(op, args)))
    alive = needed_values(program)
    values: list[int] = []
    for k, instruction in enumerate(program.code):
        args = tuple(values[a] for a in instruction.args)
        values.append(replay(b, instruction, args, b.input) if alive[k] else -1)

    parts: list[dict[int, list[Part]]] = [{} for _ in program.code]  # output -> what adds up to its bar
    for value, row, weight in seeds:
        parts[value].setdefault(row, []).append(Part(weight))
    gradients: dict[tuple[int, int], Changes] = {}
    for k in range(len(program.code) - 1, -1, -1):
        op, old, attr = program.code[k]
        if not active[k]:
            continue
        sums = {row: part for row in sorted(parts[k]) if (part := sum_of_parts(b, parts[k][row])) is not None}
        if not sums:
            continue
        if op == "input":
            known = gradients.setdefault(attr, {})  # type: ignore[arg-type]
            for row, part in sums.items():  # no builder reads an input twice, but a program may
                total = plus(b, known.pop(row, None), counted(b, part.value, part.guards))
                if total is not None:
                    known[row] = total
        elif op == "result":
            raise DifferentiationError(
                f"{program.name}: an output depends on its inputs through a loop, for which reverse mode is not "
                "available; forward mode (jvp, jacobian) is"
            )
        else:
            rule = RULES[op](b, tuple(values[a] for a in old), values[k])
            for position, row, part in pull(b, rule, sums, [active[a] for a in old]):
                parts[old[position]].setdefault(row, []).append(part)
    return values, gradients


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
    copies, changes = _forward(program, b, b.input, seeds, out)
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
    program = check(inner.finish("inside", inputs, [Array("out", out.shape)], [results]))
    values = [a if outer is None else [value_in(outer, cell) for cell in a.ravel()] for a in given]
    return inner, program, values


def _results(program: Program, inner: Builder, values: list) -> tuple[Any, Any]:
    """The outputs of a program in the trace around `inner`, or as floats where there is none."""
    outer = inner.parent
    if outer is None:
        first, second = interpret(expand(program), *values)
        return first[()], second[()]
    made = []
    for array, cells in zip(program.outputs, inline(program, outer, values), strict=True):
        out = np.empty(array.shape, dtype=object)
        numbers = [outer.number(v) for v in cells]
        out.ravel()[:] = [Symbol(outer, v) if n is None else n for v, n in zip(cells, numbers, strict=True)]
        made.append(out if array.shape else out[()])
    return made[0], made[1]


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


def _prefix(program: Program, stem: str, names: Sequence[str]) -> str:
    """`stem_`, or `stem2_`, `stem3_`, ...: the first that makes no name which the program already has."""
    taken = {a.name for a in program.inputs + program.outputs}
    number, prefix = 1, f"{stem}_"
    while any(prefix + name in taken for name in names):
        number += 1
        prefix = f"{stem}{number}_"
    return prefix
