"""Arrangement of a lowered program: the order and the cuts that suit a target, with unchanged bits."""

from __future__ import annotations

from dataclasses import dataclass

from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.cut import Cutting, cut
from linkwork.compiler.passes.schedule import Scheduling, schedule
from linkwork.compiler.passes.unroll import unroll, unroll_inner


@dataclass(frozen=True)
class Arrangement:
    """Arranging passes of a target with their limits; None leaves a pass out.

    `maps` is true for targets that run maps over rows; for others they are unrolled.
    """

    scheduling: Scheduling | None
    cutting: Cutting | None
    maps: bool = False


DEFAULT = Arrangement(Scheduling(), Cutting())  # if no target is named


def arrange(program: Program, arrangement: Arrangement = DEFAULT) -> Program:
    """Return a lowered program scheduled and cut for a target."""
    arranged = unroll_inner(program) if arrangement.maps else unroll(program)
    if arrangement.scheduling is not None:
        arranged = schedule(arranged, arrangement.scheduling)
    if arrangement.cutting is not None:
        arranged = cut(arranged, arrangement.cutting)
    return program if arranged is program else check(arranged, core_only=True)
