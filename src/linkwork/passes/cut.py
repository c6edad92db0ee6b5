"""Cutting: long programs become several functions, because compilers slow down on very long ones.

Short programs stay whole: they run faster so. Where a cut is made, every value that is needed later must go through
memory, so cuts are placed where few values cross.
"""

from __future__ import annotations

from dataclasses import replace

from linkwork.ir.liveness import live_counts
from linkwork.ir.operations import REAL
from linkwork.ir.program import Program

WHOLE = 6000  # instructions up to which a program is not cut
PART = 1000  # instructions of a function of a longer program, about


def cut(program: Program) -> Program:
    """The same program with `cuts` set."""
    if len(program) <= WHOLE:
        return program
    crossing = _crossing_costs(program)
    cuts: list[int] = []
    place = 0
    while len(program) - place > 3 * PART // 2:
        window = range(place + 3 * PART // 4, min(place + 5 * PART // 4, len(program) - PART // 4))
        place = min(window, key=lambda p: crossing[p])
        if crossing[place] < _NEVER:
            cuts.append(place)
    return replace(program, cuts=tuple(cuts))


_NEVER = 1 << 40


def _crossing_costs(program: Program) -> list[int]:
    """For every position, how many values cross a cut before it; _NEVER added where one cannot be spilled."""
    last = {a: v for v, (_, args, _) in enumerate(program.code) for a in args}
    ranges = (
        (range(v + 1, end + 1), 1 if program.kinds[v] == REAL else _NEVER)  # conditions and loops stay in one function
        for v, end in last.items()
        if program.code[v].op not in ("const", "input")
    )
    return live_counts(ranges, len(program))
