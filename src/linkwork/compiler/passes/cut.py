"""Cutting of long programs into functions, because compilers slow down on very long ones.

Short programs stay in one piece and run faster so. At a cut every value that is needed later must go through
memory, so cuts are placed where few values cross.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkwork.compiler.ir.liveness import live_counts
from linkwork.compiler.ir.operations import REAL
from linkwork.compiler.ir.program import Program
from linkwork.errors import ProgramError


@dataclass(frozen=True)
class Cutting:
    """Limits of cutting.

    Attributes
    ----------
    max_uncut
        Programs with at most this number of instructions stay in one function
    part_size
        Approximate number of instructions of each function of longer programs
    cut_bodies
        Whether bodies of loops are cut too
    """

    max_uncut: int = 6000
    part_size: int = 1000
    cut_bodies: bool = False

    def __post_init__(self) -> None:
        if self.part_size < 4:
            raise ProgramError(f"part_size: expected at least 4 instructions, got {self.part_size}")


DEFAULT = Cutting()


def cut(program: Program, cutting: Cutting = DEFAULT) -> Program:
    """Return the program with `cuts` set."""
    part = cutting.part_size
    if cutting.cut_bodies:
        program = program.map_bodies(lambda body: cut(body, cutting))
    if len(program) <= cutting.max_uncut:
        return program
    crossing = _crossing_costs(program)
    cuts: list[int] = []
    position = 0
    while len(program) - position > 3 * part // 2:
        window = range(position + 3 * part // 4, min(position + 5 * part // 4, len(program) - part // 4))
        position = min(window, key=lambda p: crossing[p])
        if crossing[position] < UNCUTTABLE:
            cuts.append(position)
    return replace(program, cuts=tuple(cuts))


UNCUTTABLE = 1 << 40


def _crossing_costs(program: Program) -> list[int]:
    """Return for every position how many values cross a cut before it.

    UNCUTTABLE is added where one of them cannot be spilled.
    """
    last = {a: v for v, (_, args, _) in enumerate(program.code) for a in args}
    ranges = (
        # conditions and loops stay in one function
        (range(v + 1, end + 1), 1 if program.kinds[v] == REAL else UNCUTTABLE)
        for v, end in last.items()
        if program.code[v].op not in ("const", "input", "map")
    )
    return live_counts(ranges, len(program))
