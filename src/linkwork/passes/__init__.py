"""Passes: from traced programs to programs that targets can run. One rewrite a file; `PASSES` gives their order.

Behind them stand those that only arrange (see `arrangement`): targets choose them, and run without them, only slower.
"""

from __future__ import annotations

from collections.abc import Callable

from linkwork.ir.check import check
from linkwork.ir.collector import collector_paused
from linkwork.ir.program import Program
from linkwork.passes.arrangement import USUAL, Arrangement, arrange
from linkwork.passes.dead import drop_dead
from linkwork.passes.expand import expand
from linkwork.passes.sums import order_sums

__all__ = ["PASSES", "Arrangement", "arrange", "lower"]

# Behind `expand` there are core operations only. `order_sums` decides how results round; all others keep every bit.
PASSES: tuple[Callable[[Program], Program], ...] = (expand, order_sums, drop_dead)


def lower(program: Program, dtype: str = "float64", *, arranged: Arrangement | None = USUAL) -> Program:
    """The program as targets take it: in one dtype, without elementary functions, fused, and `arranged` for a target."""
    program = program.with_dtype(dtype)
    with collector_paused():
        for rewrite in PASSES:
            after = rewrite(program)
            program = program if after is program else check(after, core_only=True)
        return arrange(program, arranged) if arranged else program
