"""Liveness: which values are needed at all, from where to where each is live, and how many are live at once.

A program is one basic block (a loop is one instruction in it; its body is a program of its own), so liveness is known from
one walk. What targets and passes ask:

- `needed_values(program)`: those that an output depends on; the rest is dead code.
- `Liveness.of(program)`: uses, last and next uses, live ranges; `counts` and `largest`, the register pressure.
- `ir.slots.assign_slots(ranges)`: memory slots for values of given live ranges, as few as there are live at once.
- `ir.spills.spill(program, registers)`: with so many registers, which values are stored and loaded where, in which slot.

Constants take no register, and conditions lie in predicate registers, which are not counted. A negated value needs no
register of its own, since its users can negate. Inputs lie in memory and become live at their first use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from linkwork.ir.operations import REAL
from linkwork.lazy import cached_property


class Coded(Protocol):
    """What is asked of a program here: its instructions (op, args, attr), the kinds of their values, and its results."""

    @property
    def code(self) -> Sequence[Any]: ...
    @property
    def kinds(self) -> Sequence[str]: ...
    def result_values(self) -> Iterable[int]: ...


def needed_values(program: Coded) -> list[bool]:
    """For every value, whether an output depends on it; the others are dead code."""
    found = [False] * len(program.code)
    for v in program.result_values():
        found[v] = True
    for v in range(len(found) - 1, -1, -1):
        if found[v]:
            for a in program.code[v].args:
                found[a] = True
    return found


def register_operands(program: Coded) -> list[list[int]]:
    """For every position, the values that must be in registers there, each once, in the order of the arguments."""
    code = program.code
    plain = list(range(len(code)))  # the value without its sign
    in_register = [kind == REAL and op != "const" for kind, (op, _, _) in zip(program.kinds, code, strict=True)]
    results = set(program.result_values())
    found = []
    for v, (op, args, _) in enumerate(code):
        if op == "neg":
            plain[v] = plain[args[0]]
            args = ()
        if op == "map":  # rows lie in memory; what is no instruction of its own is put there when the map begins
            args = tuple([a for a in args if code[a].op in ("input", "neg")])
        if v in results and op in ("input", "neg"):  # copied to the output where it stands
            args = (v,)
        found.append([a for a in dict.fromkeys([plain[a] for a in args]) if in_register[a]])
    return found


def live_counts(ranges: Iterable[tuple[range, int]], length: int) -> list[int]:
    """For each of `length` positions, the sum of the weights of the ranges that contain it."""
    change = [0] * (length + 1)
    for r, weight in ranges:
        change[r.start] += weight
        change[r.stop] -= weight
    return list(accumulate(change[:length]))


@dataclass(frozen=True)
class Liveness:
    """The uses of a program's values in registers.

    Attributes:
        operands: position -> values that must be in registers there
        uses: value -> positions where it is one of them, ascending
        starts: value -> position from which it is live: where it is computed, or where an input is first used
    """

    operands: list[list[int]]
    uses: list[list[int]]
    starts: list[int]

    @staticmethod
    def of(program: Coded) -> Liveness:
        """The liveness of a program in the order in which it stands."""
        operands = register_operands(program)
        uses: list[list[int]] = [[] for _ in operands]
        for position, values in enumerate(operands):
            for v in values:
                uses[v].append(position)
        starts = [uses[v][0] if op == "input" and uses[v] else v for v, (op, _, _) in enumerate(program.code)]
        return Liveness(operands, uses, starts)

    def last_use(self, v: int) -> int | None:
        """The last position that uses a value; None if none does."""
        return self.uses[v][-1] if self.uses[v] else None

    def next_use(self, v: int, position: int) -> int | None:
        """The first use of a value after a position; None if there is none."""
        k = bisect_right(self.uses[v], position)
        return self.uses[v][k] if k < len(self.uses[v]) else None

    def live_range(self, v: int) -> range:
        """The positions after which a value is live: it is there, and will be used."""
        return range(self.starts[v], self.uses[v][-1]) if self.uses[v] else range(0)

    @cached_property
    def counts(self) -> list[int]:
        """For every position, how many values are live after it: the register pressure."""
        return live_counts(((self.live_range(v), 1) for v in range(len(self.uses))), len(self.uses))

    @property
    def largest(self) -> int:
        """The largest number of values that are live at once: with so many registers nothing is spilled."""
        return max(self.counts, default=0)
