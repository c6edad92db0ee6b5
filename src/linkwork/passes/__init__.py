"""Passes: from traced programs to programs that targets can run. One rewrite a file; `PASSES` gives their order."""

from __future__ import annotations

import gc
from collections.abc import Callable

from linkwork.ir.check import check
from linkwork.ir.program import Program
from linkwork.passes.cut import cut
from linkwork.passes.dead import drop_dead
from linkwork.passes.expand import expand
from linkwork.passes.schedule import schedule
from linkwork.passes.sums import order_sums

ARRANGING = (schedule, cut)  # what targets run without, only slower
# `order_sums` decides how results round. Every other pass keeps every bit.
PASSES: tuple[Callable[[Program], Program], ...] = (drop_dead, expand, order_sums, drop_dead, *ARRANGING)


def lower(program: Program, dtype: str = "float64", *, arranged: bool = True) -> Program:
    """The program as targets take it: in one dtype, without elementary functions, fused, and `arranged`: scheduled and cut."""
    program = program.with_dtype(dtype)
    collecting = gc.isenabled()
    gc.disable()  # passes make many small tuples and no cycles: the collector would only walk them again and again
    try:
        expanded = False
        for rewrite in PASSES if arranged else PASSES[: -len(ARRANGING)]:
            expanded = expanded or rewrite is expand
            program = _checked(rewrite, program, core_only=expanded)
    finally:
        if collecting:
            gc.enable()
    return program


def arrange(program: Program) -> Program:
    """A lowered program, arranged."""
    for rewrite in ARRANGING:
        program = _checked(rewrite, program, core_only=True)
    return program


def _checked(rewrite: Callable[[Program], Program], program: Program, *, core_only: bool) -> Program:
    after = rewrite(program)
    return program if after is program else check(after, core_only=core_only)
