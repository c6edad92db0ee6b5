"""Passes: rewrites from traced programs to programs that targets can run, one per file.

`PASSES` gives their order. They are followed by passes that only reorder and cut (see `arrangement`): each
target selects those that make it faster.
"""

from __future__ import annotations

from collections.abc import Callable

from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.context import collector_paused
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.arrangement import DEFAULT, Arrangement, arrange
from linkwork.compiler.passes.dead import drop_dead
from linkwork.compiler.passes.expand import expand
from linkwork.compiler.passes.sums import order_sums

__all__ = ["PASSES", "Arrangement", "arrange", "lower"]

# After `expand` there are core operations only. `order_sums` selects fused multiply-adds (FMA) and the order
# of sums, and so decides how results round; all others, and all targets, keep every bit.
PASSES: tuple[Callable[[Program], Program], ...] = (expand, order_sums, drop_dead)


def lower(program: Program, dtype: str = "float64", *, arranged: Arrangement | None = DEFAULT) -> Program:
    """Return the program as targets take it: one dtype, no elementary functions, fused sums, arranged.

    `arranged` selects the arranging passes of a target; None skips them.
    """
    program = program.with_dtype(dtype)
    with collector_paused():
        for rewrite in PASSES:
            rewritten = rewrite(program)
            program = program if rewritten is program else check(rewritten, core_only=True)
        return arrange(program, arranged) if arranged else program
