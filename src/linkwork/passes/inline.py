"""Replays a program into another builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ProgramError, ShapeError, TraceError
from linkwork.ir.builder import Builder
from linkwork.ir.context import builder_around
from linkwork.ir.liveness import needed_values
from linkwork.ir.program import Instruction, Program
from linkwork.ir.symbol import Symbol, value_in


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


def call_in_trace(program: Program, *arrays: Any) -> list[Any]:
    """The outputs of a program on arrays of symbols, as part of the trace around; constants among them are plain floats."""
    cells = [np.asarray(array, dtype=object).ravel() for array in arrays]
    builder = builder_around([cell for array in cells for cell in array if isinstance(cell, Symbol)])
    if builder is None:
        raise TraceError(f"{program.name}: called in a trace, but none is under way")
    return outputs_in(builder, program, [[value_in(builder, cell) for cell in array] for array in cells])


def outputs_in(builder: Builder, program: Program, values: Sequence[Sequence[int]]) -> list[Any]:
    """The same, from values of a builder."""
    made = []
    for array, found in zip(program.outputs, inline(program, builder, values), strict=True):
        out = np.empty(array.shape, dtype=object)
        numbers = [builder.number(v) for v in found]
        out.ravel()[:] = [Symbol(builder, v) if n is None else n for v, n in zip(found, numbers, strict=True)]
        made.append(out if array.shape else out[()])
    return made


def _check_sizes(program: Program, given: list[int]) -> None:
    wanted = [a.size for a in program.inputs]
    if given != wanted:
        raise ShapeError(f"{program.name} takes arrays of {wanted} elements, not of {given}")
