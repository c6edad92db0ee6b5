"""Cutting: long programs become several functions, because compilers slow down on very long ones.

Short programs stay whole: they run faster so. Where a cut is made, every value that is needed later must go through
memory, so cuts are placed where few values cross.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkwork.errors import ProgramError
from linkwork.ir.liveness import live_counts
from linkwork.ir.operations import REAL
from linkwork.ir.program import Program


@dataclass(frozen=True)
class Cutting:
    """Programs up to `whole` instructions are not cut; functions of longer ones have about `part` instructions.

    So are the bodies of loops, for targets that ask for it.
    """

    whole: int = 6000
    part: int = 1000
    bodies: bool = False

    def __post_init__(self) -> None:
        if self.part < 4:
            raise ProgramError(f"part must be at least 4 instructions, not {self.part}")


USUAL = Cutting()


def cut(program: Program, cutting: Cutting = USUAL) -> Program:
    """The same program with `cuts` set."""
    part = cutting.part
    if cutting.bodies:
        program = program.map_bodies(lambda body: cut(body, cutting))
    if len(program) <= cutting.whole:
        return program
    crossing = _crossing_costs(program)
    cuts: list[int] = []
    position = 0
    while len(program) - position > 3 * part // 2:
        window = range(position + 3 * part // 4, min(position + 5 * part // 4, len(program) - part // 4))
        position = min(window, key=lambda p: crossing[p])
        if crossing[position] < _NEVER:
            cuts.append(position)
    return replace(program, cuts=tuple(cuts))


_NEVER = 1 << 40


def _crossing_costs(program: Program) -> list[int]:
    """For every position, how many values cross a cut before it; _NEVER added where one cannot be spilled."""
    last = {a: v for v, (_, args, _) in enumerate(program.code) for a in args}
    ranges = (
        (range(v + 1, end + 1), 1 if program.kinds[v] == REAL else _NEVER)  # conditions and loops stay in one function
        for v, end in last.items()
        if program.code[v].op not in ("const", "input", "map")
    )
    return live_counts(ranges, len(program))
