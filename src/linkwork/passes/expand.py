"""Replaces elementary functions by core operations."""

from __future__ import annotations

from linkwork.ir.builder import Builder
from linkwork.ir.program import Program
from linkwork.ir.symbol import Symbol, value_in
from linkwork.passes.elementary import EXPANSIONS
from linkwork.passes.rebuild import rebuild


def expand(program: Program) -> Program:
    """The program with nothing but core operations, in loop bodies too.

    Each function is expanded where it stands. sin x and cos x of the same x share all they have in common, because the
    builder makes no instruction twice.
    """
    return rebuild(program, _visit, only=EXPANSIONS)


def _visit(builder: Builder, op: str, args: tuple[int, ...], attr: object) -> int:
    return value_in(builder, EXPANSIONS[op](*[Symbol(builder, a) for a in args]))
