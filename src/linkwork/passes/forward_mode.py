"""Forward mode: a program replayed with the changes of its values, one for each direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from linkwork.ir.builder import Builder
from linkwork.ir.liveness import needed_values
from linkwork.ir.program import Array, BoundedLoop, Program
from linkwork.passes.derivative_rules import RULES, Changes, carriers, entry, moves, push
from linkwork.passes.inline import replay

_NONE: Changes = {}
Read = Callable[[int, int], int]  # the value of an element of an input array


def forward(
    program: Program,
    b: Builder,
    read: Read,
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
    solved: dict[int, list[Changes]] = {}  # loop by Newton's method -> the changes of its last state
    values: list[int] = []
    changes: list[Changes] = []
    for k, instruction in enumerate(program.code):
        op, old, attr = instruction
        args = tuple(values[a] for a in old)
        change = _NONE
        if not alive[k]:
            value = -1
        elif isinstance(attr, BoundedLoop) and moving[k] and any(changes[a] for a in old):
            given = [changes[a] for a in old]
            if attr.newton:
                value = replay(b, instruction, args, read)
                solved[k] = _at_solution(b, attr, value, args, given)
            else:
                value, carried[k] = _forward_loop(b, attr, args, given, read_states[k])
        else:
            value = replay(b, instruction, args, read)
            if not moving[k]:
                pass
            elif op == "input":
                change = seeds.get(attr, _NONE)  # type: ignore[call-overload]
            elif op == "result" and old[0] in solved:
                change = solved[old[0]][attr]  # type: ignore[index]
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
        values, changes = forward(body, inner, inner.input, seeds, [after[s] for s in sorted(wanted)])
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


def _at_solution(b: Builder, loop: BoundedLoop, value: int, args: tuple[int, ...], given: Sequence[Changes]) -> list[Changes]:
    """The changes of the last state of Newton's method, by the implicit function theorem: those of one step from there.

    What the step keeps of the state changes as it did at the start; what it solves for forgets the start.
    """
    read, states = reader(b, loop, value, args), loop.states
    seeds = {(0, k) if k < states else (1, k - states): given[solution_of(loop, k)] for k in range(len(given))}
    after = loop.body.results[0]
    changes = forward(loop.body, b, read, {at: change for at, change in seeds.items() if change}, after)[1]
    return [_NONE if n is None else changes[after[n]] for n in (next_of(loop, k) for k in range(states))]


def solution_of(loop: BoundedLoop, k: int) -> int:
    """The place of an argument of Newton's loop, or that of the solution for what is tried next."""
    return k - loop.newton if loop.newton <= k < 2 * loop.newton <= loop.states else k


def next_of(loop: BoundedLoop, k: int) -> int | None:
    """The place of what a step of Newton's loop tries next, for a state that is part of the solution or tried next."""
    if loop.states < 2 * loop.newton:
        return k
    return k % loop.newton + loop.newton if k < 2 * loop.newton else None


def reader(b: Builder, loop: BoundedLoop, value: int, args: tuple[int, ...]) -> Read:
    """What a loop's body reads when it runs once more from the last state."""
    last = [b.put("result", (value,), solution_of(loop, k)) for k in range(loop.states)]
    return lambda array, element: last[element] if array == 0 else args[loop.states + element]
