"""Replay of a program into another builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.context import builder_around
from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import Instruction, Program
from linkwork.compiler.ir.symbol import Symbol, value_in
from linkwork.errors import ProgramError, ShapeError, TraceError


def replay(
    builder: Builder, instruction: Instruction, args: tuple[int, ...], read: Callable[[int, int], int]
) -> int:
    """Replay one instruction on values of another builder.

    `read` returns the value of an element of an input.
    """
    op, _, attr = instruction
    return read(*attr) if op == "input" else builder.reapply(op, args, attr)


def inline(program: Program, builder: Builder, values: Sequence[Sequence[int]]) -> list[list[int]]:
    """Put a program's instructions into a builder and return the values of its outputs there.

    `values` holds, per input array, the builder's value of every element in row-major order.
    """
    if program.dtype != builder.dtype:
        raise ProgramError(
            f"{program.name}: expected dtype {builder.dtype} as in the enclosing program, got {program.dtype}"
        )
    _check_sizes(program, [len(v) for v in values])
    needed = needed_values(program)
    new_values = [-1] * len(program.code)
    for k, instruction in enumerate(program.code):
        if needed[k]:
            args = tuple(new_values[a] for a in instruction.args)
            new_values[k] = replay(builder, instruction, args, lambda array, element: values[array][element])
    return [[new_values[v] for v in indices] for indices in program.results]


def call_in_trace(program: Program, *arrays: Any) -> list[Any]:
    """Return the outputs of a program on arrays of symbols, as part of the enclosing trace.

    Constants among them are plain floats.
    """
    cells = [np.asarray(array, dtype=object).ravel() for array in arrays]
    builder = builder_around([cell for array in cells for cell in array if isinstance(cell, Symbol)])
    if builder is None:
        raise TraceError(f"{program.name}: expected an active trace, found none")
    return outputs_in(builder, program, [[value_in(builder, cell) for cell in array] for array in cells])


def outputs_in(builder: Builder, program: Program, values: Sequence[Sequence[int]]) -> list[Any]:
    """Return the outputs of a program on values of a builder as arrays of symbols and floats."""
    outputs = []
    for array, output_values in zip(program.outputs, inline(program, builder, values), strict=True):
        out = np.empty(array.shape, dtype=object)
        numbers = [builder.number(v) for v in output_values]
        out.ravel()[:] = [
            Symbol(builder, v) if n is None else n for v, n in zip(output_values, numbers, strict=True)
        ]
        outputs.append(out if array.shape else out[()])
    return outputs


def _check_sizes(program: Program, sizes: list[int]) -> None:
    expected = [a.size for a in program.inputs]
    if sizes != expected:
        raise ShapeError(f"{program.name}: expected arrays of {expected} elements, got {sizes}")
