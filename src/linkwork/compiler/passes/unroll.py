"""Unrolling of maps over rows, for targets and passes without maps; every bit stays the same."""

from __future__ import annotations

from collections.abc import Container

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.program import Program, RowMap
from linkwork.compiler.passes.inline import inline


def unroll(program: Program, keep: Container[int] = ()) -> Program:
    """Return the program without maps, in bodies of loops too; itself if it has none.

    Maps at the positions `keep` stay.
    """
    program = program.map_bodies(unroll)
    if not any(op == "map" and v not in keep for v, (op, _, _) in enumerate(program.code)):
        return program
    builder = Builder(program.dtype)
    new: list[int] = []
    rows: dict[int, list[int]] = {}  # map -> the values of its results
    for v, (op, old, attr) in enumerate(program.code):
        if isinstance(attr, RowMap) and v not in keep:
            args = [new[a] for a in old]
            rows[v] = [
                r for row in attr.rows(args) for r in inline(attr.body, builder, [row, attr.shared(args)])[0]
            ]
            new.append(-1)
        elif op == "result" and old[0] in rows:
            new.append(rows[old[0]][attr])
        else:
            new.append(builder.reapply(op, tuple([new[a] for a in old]), attr))
    results = [[new[v] for v in values] for values in program.results]
    return builder.finish(program.name, program.inputs, program.outputs, results)


def unroll_inner(program: Program) -> Program:
    """Return the program with maps only outside of bodies."""
    return program.map_bodies(unroll)
