"""Reverse mode: a program replayed, then walked backwards with the derivatives of outputs by each of its values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from linkwork.errors import DifferentiationError
from linkwork.ir.builder import Builder
from linkwork.ir.liveness import needed_values
from linkwork.ir.program import BoundedLoop, Program
from linkwork.passes.derivative_rules import RULES, Changes, Part, carriers, counted, plus, pull, sum_of_parts
from linkwork.passes.forward_mode import Read, next_of, reader, solution_of
from linkwork.passes.inline import replay

Element = tuple[int, int]  # of an input array: array, element
Seed = tuple[int, int, int]  # value of the program, output number, weight


def reverse(
    program: Program, b: Builder, read: Read, chosen: Callable[[Element], bool], seeds: Iterable[Seed]
) -> tuple[list[int], dict[Element, Changes]]:
    """Replay a program in a builder, and give its values there with the gradients of the chosen elements of inputs.

    A gradient is the dict of its parts by output number.
    """
    active: list[bool] = []  # values that depend on a chosen input
    for op, args, attr in program.code:
        active.append((op == "input" and chosen(attr)) or any(active[a] for a in carriers(op, args)))
    alive = needed_values(program)
    values: list[int] = []
    for k, instruction in enumerate(program.code):
        args = tuple(values[a] for a in instruction.args)
        values.append(replay(b, instruction, args, read) if alive[k] else -1)

    parts: list[dict[int, list[Part]]] = [{} for _ in program.code]  # output -> what adds up to its bar
    for value, row, weight in seeds:
        parts[value].setdefault(row, []).append(Part(weight))
    gradients: dict[Element, Changes] = {}
    solved: dict[int, list[Seed]] = {}  # loop by Newton's method -> weights of its last state
    for k in range(len(program.code) - 1, -1, -1):
        op, old, attr = program.code[k]
        if not active[k]:
            continue
        if isinstance(attr, BoundedLoop):
            given = tuple(values[a] for a in old)
            bars = _at_solution(b, attr, values[k], given, [active[a] for a in old], solved.pop(k, []))
            for place, row, weight in bars:
                parts[old[place]].setdefault(row, []).append(Part(weight))
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
            loop = program.code[old[0]].attr
            if not loop.newton:
                raise DifferentiationError(
                    f"{program.name}: an output depends on its inputs through a loop, for which reverse mode is not "
                    "available; forward mode (jvp, jacobian) is"
                )
            ahead = next_of(loop, attr)  # type: ignore[arg-type]
            for row, part in sums.items() if ahead is not None else ():
                if (bar := counted(b, part.value, part.guards)) is not None:
                    solved.setdefault(old[0], []).append((loop.body.results[0][ahead], row, bar))  # type: ignore[index]
        else:
            rule = RULES[op](b, tuple(values[a] for a in old), values[k])
            for position, row, part in pull(b, rule, sums, [active[a] for a in old]):
                parts[old[position]].setdefault(row, []).append(part)
    return values, gradients


def _at_solution(
    b: Builder, loop: BoundedLoop, value: int, args: tuple[int, ...], to: Collection[bool], seeds: list[Seed]
) -> Iterable[Seed]:
    """What weights of Newton's last state add to those of a loop's arguments: (argument, output, addend).

    By the implicit function theorem, as in forward mode: one step from the last state, backwards.
    """
    if not seeds:
        return
    states, wanted = loop.states, list(to)
    gradients = reverse(
        loop.body, b, reader(b, loop, value, args), lambda at: wanted[at[1] if at[0] == 0 else states + at[1]], seeds
    )[1]
    for (array, element), change in gradients.items():
        for row, weight in change.items():
            yield solution_of(loop, element) if array == 0 else states + element, row, weight
