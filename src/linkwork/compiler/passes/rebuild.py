"""Walk shared by passes that write a program anew, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import BoundedLoop, Program, RowMap

Visit = Callable[[Builder, str, tuple[int, ...], object], "int | None"]


def rebuild(program: Program, visit: Visit, only: Collection[str] | None = None) -> Program:
    """Return the program with every needed instruction replaced by what `visit` puts into the new builder.

    `visit(builder, op, args, attr)` gets the arguments as values of the new program and returns the value
    that takes the instruction's place; None copies the instruction. Operations that are not among `only` are
    copied without a visit. Bodies of loops and maps are rebuilt in the same way, before their loop is
    visited.
    """
    builder = Builder(program.dtype)
    new: list[int] = []
    for (op, old_args, attr), needed in zip(program.code, needed_values(program), strict=True):
        if not needed:
            new.append(-1)
            continue
        args = tuple([new[a] for a in old_args])
        if isinstance(attr, BoundedLoop | RowMap):
            attr = replace(attr, body=rebuild(attr.body, visit, only))
        value = visit(builder, op, args, attr) if only is None or op in only else None
        if value is None:
            value = builder.constant(attr) if op == "const" else builder.emit(op, args, attr)
        new.append(value)
    results = [[new[v] for v in values] for values in program.results]
    return builder.finish(program.name, program.inputs, program.outputs, results)
