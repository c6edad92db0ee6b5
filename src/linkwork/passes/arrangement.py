"""Arranging: a lowered program in the order, and cut into the functions, that suit a target. Every bit stays the same."""

from __future__ import annotations

from dataclasses import dataclass

from linkwork.ir.check import check
from linkwork.ir.program import Program
from linkwork.passes.cut import Cutting, cut
from linkwork.passes.schedule import Scheduling, schedule
from linkwork.passes.unroll import unroll, unroll_inner


@dataclass(frozen=True)
class Arrangement:
    """Which arranging passes a target wants, with which limits; None leaves a pass out. Each target states its own.

    `maps`: it runs maps over rows as they stand; for others they are unrolled.
    """

    scheduling: Scheduling | None
    cutting: Cutting | None
    maps: bool = False


USUAL = Arrangement(Scheduling(), Cutting())  # where no target is named


def arrange(program: Program, arrangement: Arrangement = USUAL) -> Program:
    """A lowered program, scheduled and cut as a target wants it."""
    after = unroll_inner(program) if arrangement.maps else unroll(program)
    if arrangement.scheduling is not None:
        after = schedule(after, arrangement.scheduling)
    if arrangement.cutting is not None:
        after = cut(after, arrangement.cutting)
    return program if after is program else check(after, core_only=True)
