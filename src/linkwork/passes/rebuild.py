"""The walk that passes share: a program written anew, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from linkwork.ir.builder import Builder
from linkwork.ir.program import BoundedLoop, Program

Visit = Callable[[Builder, str, tuple[int, ...], object], "int | None"]


def rebuild(program: Program, visit: Visit) -> Program:
    """The program with every instruction replaced by what `visit` puts into the new builder.

    `visit(builder, op, args, attr)` gets the arguments as values of the new program and returns the value that takes
    the instruction's place; None copies the instruction as it is. Loop bodies are rebuilt in the same way, before their loop is
    visited.
    """
    builder = Builder(program.dtype)
    new: list[int] = []
    for op, old_args, attr in program.code:
        args = tuple([new[a] for a in old_args])
        if isinstance(attr, BoundedLoop):
            attr = replace(attr, body=rebuild(attr.body, visit))
        value = visit(builder, op, args, attr)
        if value is None:
            value = builder.constant(attr) if op == "const" else builder.put(op, args, attr)  # type: ignore[arg-type]
        new.append(value)
    results = [[new[v] for v in values] for values in program.results]
    return builder.finish(program.name, program.inputs, program.outputs, results)
