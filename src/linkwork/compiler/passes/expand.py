"""Expansion of elementary functions into core operations."""

from __future__ import annotations

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.symbol import Symbol, value_in
from linkwork.compiler.passes.elementary import EXPANSIONS
from linkwork.compiler.passes.rebuild import rebuild


def expand(program: Program) -> Program:
    """Return the program with core operations only, in loop bodies too.

    Each function is expanded at its place. sin x and cos x of the same x share their common terms, because
    the builder never repeats an instruction.
    """
    return rebuild(program, _visit, only=EXPANSIONS)


def _visit(builder: Builder, op: str, args: tuple[int, ...], attr: object) -> int:
    return value_in(builder, EXPANSIONS[op](*[Symbol(builder, a) for a in args]))
