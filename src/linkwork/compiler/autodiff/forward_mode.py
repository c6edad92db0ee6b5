"""Forward mode: a program replayed together with the changes of its values, one per direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from linkwork.compiler.autodiff.derivative_rules import (
    RULES,
    Changes,
    affects,
    differentiable_operands,
    entry,
    push,
)
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import Array, BoundedLoop, Program
from linkwork.compiler.passes.inline import replay

_NONE: Changes = {}
Read = Callable[[int, int], int]  # the value of an element of an input array


def forward(
    program: Program,
    b: Builder,
    read: Read,
    seeds: dict[tuple[int, int], Changes],
    targets: Iterable[int],
) -> tuple[list[int], list[Changes]]:
    """Replay a program and return its values and the changes of those that the targets depend on.

    `seeds` holds the changes of input elements; `targets` are values of the program.
    """
    needed = needed_values(program)
    is_influential = affects(program, targets)
    states_read: dict[int, set[int]] = {}  # loop -> the states that the targets depend on
    for k, (op, old, attr) in enumerate(program.code):
        if op == "result" and is_influential[k]:
            states_read.setdefault(old[0], set()).add(attr)
    carried: dict[int, dict[tuple[int, int], int]] = {}  # loop -> the new states by `_forward_loop`
    solved: dict[int, list[Changes]] = {}  # loop by Newton's method -> the changes of its last state
    values: list[int] = []
    changes: list[Changes] = []
    for k, instruction in enumerate(program.code):
        op, old, attr = instruction
        args = tuple(values[a] for a in old)
        change = _NONE
        if not needed[k]:
            value = -1
        elif isinstance(attr, BoundedLoop) and is_influential[k] and any(changes[a] for a in old):
            arg_changes = [changes[a] for a in old]
            if attr.newton:
                value = replay(b, instruction, args, read)
                solved[k] = _at_solution(b, attr, value, args, arg_changes)
            else:
                value, carried[k] = _forward_loop(b, attr, args, arg_changes, states_read[k])
        else:
            value = replay(b, instruction, args, read)
            if not is_influential[k]:
                pass
            elif op == "input":
                change = seeds.get(attr, _NONE)
            elif op == "result" and old[0] in solved:
                change = solved[old[0]][attr]
            elif op == "result":
                states = carried.get(old[0], {}).items()
                change = {d: b.emit("result", args, n) for (state, d), n in states if state == attr}
            elif op in RULES and any(changes[a] for a in differentiable_operands(op, old)):
                change = push(b, RULES[op](b, args, value), [changes[a] for a in old])
        values.append(value)
        changes.append(change)
    return values, changes


def _forward_loop(
    b: Builder, loop: BoundedLoop, args: tuple[int, ...], arg_changes: list[Changes], states_needed: set[int]
) -> tuple[int, dict[tuple[int, int], int]]:
    """Return the loop extended by the changes of its states, and {(state, direction): new state}.

    The number of iterations depends on the old states only. A change is carried if it is needed and may be
    nonzero.
    """
    body = loop.body
    states = loop.states
    after, again = body.results
    while True:  # states that needed ones depend on are needed, too
        moving = affects(body, [after[s] for s in states_needed])
        reads = {attr for (op, _, attr), m in zip(body.code, moving, strict=True) if m and op == "input"}
        closure = states_needed | {k for array, k in reads if array == 0}
        if closure == states_needed:
            break
        states_needed = closure
    carried = [(s, d) for s in sorted(states_needed) for d in sorted(arg_changes[s])]
    outer_changes = [
        (k, d) for k, change in enumerate(arg_changes[states:]) if (1, k) in reads for d in sorted(change)
    ]
    outer = [(k, d) for k, d in outer_changes if b.number(arg_changes[states + k][d]) is None]
    first = len(args) - states
    while True:  # until no step turns a zero change into a nonzero one
        inner = Builder(b.dtype)
        seeds: dict[tuple[int, int], Changes] = {}
        for n, (s, d) in enumerate(carried):
            seeds.setdefault((0, s), {})[d] = inner.input(0, states + n)
        for k, d in outer_changes:
            number = b.number(arg_changes[states + k][d])
            value = (
                inner.constant(number) if number is not None else inner.input(1, first + outer.index((k, d)))
            )
            seeds.setdefault((1, k), {})[d] = value
        values, changes = forward(body, inner, inner.input, seeds, [after[s] for s in sorted(states_needed)])
        new = [
            (s, d)
            for s in sorted(states_needed)
            for d in sorted(changes[after[s]])
            if (s, d) not in set(carried)
        ]
        if not new:
            break
        carried += new
    if not carried:
        return b.emit("loop", args, loop), {}
    state = Array("state", (states + len(carried),))
    results = [values[v] for v in after] + [entry(inner, changes[after[s]], d) for s, d in carried]
    step = inner.finish(
        body.name,
        [state, Array("outer", (first + len(outer),))],
        [state, body.outputs[1]],
        [results, [values[again[0]]]],
    )
    start = [*args[:states], *(entry(b, arg_changes[s], d) for s, d in carried)]
    outer_args = [*args[states:], *(arg_changes[states + k][d] for k, d in outer)]
    value = b.emit("loop", (*start, *outer_args), BoundedLoop(step, state.size, loop.limit))
    # the loop runs at least once, so only what a step leaves nonzero is nonzero after it
    return value, {(s, d): states + n for n, (s, d) in enumerate(carried) if d in changes[after[s]]}


def _at_solution(
    b: Builder, loop: BoundedLoop, value: int, args: tuple[int, ...], arg_changes: Sequence[Changes]
) -> list[Changes]:
    """Return the changes of Newton's last state, by the implicit function theorem.

    They are those of one step from there. State entries that the step keeps change as they did at the start;
    those that it solves for do not depend on the start.
    """
    read = reader(b, loop, value, args)
    states = loop.states
    seeds = {
        (0, k) if k < states else (1, k - states): arg_changes[solution_of(loop, k)]
        for k in range(len(arg_changes))
    }
    after = loop.body.results[0]
    changes = forward(loop.body, b, read, {at: change for at, change in seeds.items() if change}, after)[1]
    return [_NONE if n is None else changes[after[n]] for n in (next_of(loop, k) for k in range(states))]


def solution_of(loop: BoundedLoop, k: int) -> int:
    """Return the index of an argument of Newton's loop, or of the solution if it is the next iterate."""
    return k - loop.newton if loop.newton <= k < 2 * loop.newton <= loop.states else k


def next_of(loop: BoundedLoop, k: int) -> int | None:
    """Return the index in the next iterate for a state of the solution or of the next iterate; else None."""
    if loop.states < 2 * loop.newton:
        return k
    return k % loop.newton + loop.newton if k < 2 * loop.newton else None


def reader(b: Builder, loop: BoundedLoop, value: int, args: tuple[int, ...]) -> Read:
    """Return the reader of a loop body's inputs for one more step from the last state."""
    last = [b.emit("result", (value,), solution_of(loop, k)) for k in range(loop.states)]
    return lambda array, element: last[element] if array == 0 else args[loop.states + element]
