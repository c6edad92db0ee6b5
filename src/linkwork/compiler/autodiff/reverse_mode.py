"""Reverse mode: a program replayed, then traversed backwards with the derivatives of outputs by
its values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from linkwork.compiler.autodiff.derivative_rules import (
    RULES,
    Changes,
    GuardedTerm,
    differentiable_operands,
    plus,
    pull,
    sum_of_parts,
    where_guards_hold,
)
from linkwork.compiler.autodiff.forward_mode import Read, next_of, reader, solution_of
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.passes.inline import replay
from linkwork.errors import DifferentiationError

Element = tuple[int, int]  # of an input array: array, element
Seed = tuple[int, int, int]  # value of the program, output number, weight


def reverse(
    program: Program, b: Builder, read: Read, is_selected: Callable[[Element], bool], seeds: Iterable[Seed]
) -> tuple[list[int], dict[Element, Changes]]:
    """Replay a program and return its values and the gradients of the selected input elements.

    A gradient is the dict of its parts by output number.
    """
    active: list[bool] = []  # values that depend on a selected input
    for op, args, attr in program.code:
        active.append(
            (op == "input" and is_selected(attr)) or any(active[a] for a in differentiable_operands(op, args))
        )
    needed = needed_values(program)
    values: list[int] = []
    for k, instruction in enumerate(program.code):
        args = tuple(values[a] for a in instruction.args)
        values.append(replay(b, instruction, args, read) if needed[k] else -1)

    parts: list[dict[int, list[GuardedTerm]]] = [{} for _ in program.code]  # output -> the addends of its bar
    for value, row, weight in seeds:
        parts[value].setdefault(row, []).append(GuardedTerm(weight))
    gradients: dict[Element, Changes] = {}
    solved: dict[int, list[Seed]] = {}  # loop by Newton's method -> weights of its last state
    for k in range(len(program.code) - 1, -1, -1):
        op, old, attr = program.code[k]
        if not active[k]:
            continue
        if isinstance(attr, BoundedLoop):
            loop_args = tuple(values[a] for a in old)
            bars = _at_solution(b, attr, values[k], loop_args, [active[a] for a in old], solved.pop(k, []))
            for position, row, weight in bars:
                parts[old[position]].setdefault(row, []).append(GuardedTerm(weight))
            continue
        sums = {row: part for row in sorted(parts[k]) if (part := sum_of_parts(b, parts[k][row])) is not None}
        if not sums:
            continue
        if op == "input":
            _add_to_gradient(b, gradients.setdefault(attr, {}), sums)
        elif op == "result":
            solved.setdefault(old[0], []).extend(_solution_seeds(b, program, old[0], attr, sums))
        else:
            rule = RULES[op](b, tuple(values[a] for a in old), values[k])
            for position, row, part in pull(b, rule, sums, [active[a] for a in old]):
                parts[old[position]].setdefault(row, []).append(part)
    return values, gradients


def _add_to_gradient(b: Builder, gradient: Changes, sums: dict[int, GuardedTerm]) -> None:
    """Add the parts to a gradient: no builder reads an input twice, but a program may."""
    for row, part in sums.items():
        total = plus(b, gradient.pop(row, None), where_guards_hold(b, part.value, part.guards))
        if total is not None:
            gradient[row] = total


def _solution_seeds(
    b: Builder, program: Program, loop_value: int, state: int, sums: dict[int, GuardedTerm]
) -> Iterable[Seed]:
    """Yield the weights of the next iterate of a Newton loop that those of a state of its result give."""
    loop = program.code[loop_value].attr
    if not loop.newton:
        raise DifferentiationError(
            f"{program.name}: an output depends on its inputs through a loop, for which reverse mode is not "
            "available; forward mode (jvp, jacobian) is"
        )
    next_state = next_of(loop, state)
    if next_state is None:
        return
    for row, part in sums.items():
        if (bar := where_guards_hold(b, part.value, part.guards)) is not None:
            yield loop.body.results[0][next_state], row, bar


def _at_solution(
    b: Builder,
    loop: BoundedLoop,
    value: int,
    args: tuple[int, ...],
    arg_requested: Collection[bool],
    seeds: list[Seed],
) -> Iterable[Seed]:
    """Yield what the weights of Newton's last state add to those of the loop's arguments.

    Each item is (argument, output, addend). By the implicit function theorem, as in forward mode: one step
    from the last state, backwards.
    """
    if not seeds:
        return
    states = loop.states
    requested = list(arg_requested)
    gradients = reverse(
        loop.body,
        b,
        reader(b, loop, value, args),
        lambda at: requested[at[1] if at[0] == 0 else states + at[1]],
        seeds,
    )[1]
    for (array, element), change in gradients.items():
        for row, weight in change.items():
            yield solution_of(loop, element) if array == 0 else states + element, row, weight
