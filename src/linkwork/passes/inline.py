"""Replays a program into another builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkwork.errors import ProgramError, ShapeError
from linkwork.ir.builder import Builder
from linkwork.ir.liveness import needed_values
from linkwork.ir.program import Instruction, Program


def replay(builder: Builder, instruction: Instruction, args: tuple[int, ...], read: Callable[[int, int], int]) -> int:
    """One instruction of a program, on values of another builder; `read` gives the value of an element of an input."""
    op, _, attr = instruction
    return read(*attr) if op == "input" else builder.again(op, args, attr)


def inline(program: Program, builder: Builder, values: Sequence[Sequence[int]]) -> list[list[int]]:
    """Put a program's instructions into a builder and return the values of its outputs there.

    `values` holds, per input array, the builder's value of every element in row-major order.
    """
    if program.dtype != builder.dtype:
        raise ProgramError(f"{program.name} is {program.dtype} and cannot become part of a {builder.dtype} program")
    _check_sizes(program, [len(v) for v in values])
    alive = needed_values(program)
    here = [-1] * len(program.code)
    for k, instruction in enumerate(program.code):
        if alive[k]:
            args = tuple(here[a] for a in instruction.args)
            here[k] = replay(builder, instruction, args, lambda array, element: values[array][element])
    return [[here[v] for v in wanted] for wanted in program.results]


def _check_sizes(program: Program, given: list[int]) -> None:
    wanted = [a.size for a in program.inputs]
    if given != wanted:
        raise ShapeError(f"{program.name} takes arrays of {wanted} elements, not of {given}")
