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

# `order_sums` decides how results round. Every other pass keeps every bit.
PASSES: tuple[Callable[[Program], Program], ...] = (
    drop_dead,
    expand,
    order_sums,
    drop_dead,
    schedule,
    cut,
)


def lower(program: Program, dtype: str = "float64") -> Program:
    """The program as targets take it: in one dtype, without elementary functions, fused, scheduled and cut."""
    program = program.with_dtype(dtype)
    collecting = gc.isenabled()
    gc.disable()  # passes make many small tuples and no cycles: the collector would only walk them again and again
    try:
        expanded = False
        for rewrite in PASSES:
            before, program = program, rewrite(program)
            expanded = expanded or rewrite is expand
            if program is not before:
                check(program, core_only=expanded)
    finally:
        if collecting:
            gc.enable()
    return program
