"""Evaluation of a program on expressions of other software, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.unroll import unroll
from linkwork.errors import TargetError
from linkwork.functions.engine.sources import Source

# Powers of two that keep the digits of quaternions before they are normalised: exact numbers need none.
UNSCALED: Mapping[str, Callable[..., Any]] = {"exponent": lambda x: 0.0, "pow2": lambda k: 2.0**k}


def evaluate(
    source: Source, operations: Mapping[str, Callable[..., Any]], arrays: Sequence[Sequence[Any]], where: str
) -> list[Any]:
    """Return the elements of every output in row-major order, from those of the inputs.

    The operation "const" converts a number to an expression; `where` names the other software.
    """
    program = unroll(source.program)
    if iterates(program):
        raise TargetError(f"{source.name} iterates (lw.loop) for this model, and {where} has no loops")
    values: list[Any] = [None] * len(program)
    for k, ((op, args, attr), needed) in enumerate(zip(program.code, needed_values(program), strict=True)):
        if not needed:
            continue
        if op == "input":
            values[k] = arrays[attr[0]][attr[1]]
        elif op == "const":
            values[k] = operations["const"](attr)
        else:
            values[k] = operations[op](*(values[a] for a in args))
    return [[values[v] for v in expected] for expected in program.results]


def iterates(program: Program) -> bool:
    """Return whether a program has loops, in bodies of maps too: expressions have none."""
    return any(op == "loop" or (op == "map" and iterates(attr.body)) for op, _, attr in program.code)


def size(program: Program) -> int:
    """Return the number of operations that the outputs need."""
    return sum(needed_values(program))
