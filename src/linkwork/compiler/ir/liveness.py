"""Liveness: needed values, live ranges and register pressure of a program.

A program is one basic block (a loop is one instruction in it; its body is a program of its own), so liveness
is known from one walk. Targets and passes use:

- `needed_values(program)`: the values that an output depends on; the others are dead code.
- `Liveness.of(program)`: uses, last and next uses, live ranges; `counts` and `max_pressure`, the register
  pressure.
- `ir.slots.assign_slots(ranges)`: as few memory slots as possible for values of given live ranges.
- `ir.spills.spill(program, registers)`: stores, loads and slots of values that exceed the registers.

Constants take no register, and conditions lie in predicate registers, which are not counted. A negated value
needs no register of its own, since its users can negate. Inputs lie in memory and become live at their first
use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from linkwork.compiler.ir.operations import REAL
from linkwork.lazy import cached_property


class InstructionSequence(Protocol):
    """Interface of a program used here: instructions (op, args, attr), kinds of their values, and results."""

    @property
    def code(self) -> Sequence[Any]: ...
    @property
    def kinds(self) -> Sequence[str]: ...
    def result_values(self) -> Iterable[int]: ...


def needed_values(program: InstructionSequence) -> list[bool]:
    """Return for every value if an output depends on it; the others are dead code."""
    needed = [False] * len(program.code)
    for v in program.result_values():
        needed[v] = True
    for v in range(len(needed) - 1, -1, -1):
        if needed[v]:
            for a in program.code[v].args:
                needed[a] = True
    return needed


def register_operands(program: InstructionSequence) -> list[list[int]]:
    """Return for every position the distinct values that must be in registers, in argument order."""
    code = program.code
    unsigned = list(range(len(code)))  # value -> the value without its sign
    in_register = [
        kind == REAL and op != "const" for kind, (op, _, _) in zip(program.kinds, code, strict=True)
    ]
    results = set(program.result_values())
    operands = []
    for v, (op, args, _) in enumerate(code):
        if op == "neg":
            unsigned[v] = unsigned[args[0]]
            args = ()
        if op == "map":  # rows lie in memory; inputs and negated values are stored there when the map begins
            args = tuple([a for a in args if code[a].op in ("input", "neg")])
        if v in results and op in ("input", "neg"):  # copied to the output where it stands
            args = (v,)
        operands.append([a for a in dict.fromkeys([unsigned[a] for a in args]) if in_register[a]])
    return operands


def live_counts(ranges: Iterable[tuple[range, int]], length: int) -> list[int]:
    """Return for each of `length` positions the sum of the weights of the ranges that contain it."""
    change = [0] * (length + 1)
    for r, weight in ranges:
        change[r.start] += weight
        change[r.stop] -= weight
    return list(accumulate(change[:length]))


@dataclass(frozen=True)
class Liveness:
    """Uses of a program's values in registers.

    Attributes
    ----------
    operands
        Position -> values that must be in registers there
    uses
        Value -> positions where it is an operand, ascending
    starts
        Value -> position from which it is live: where it is computed, or where an input is first used
    """

    operands: list[list[int]]
    uses: list[list[int]]
    starts: list[int]

    @staticmethod
    def of(program: InstructionSequence) -> Liveness:
        """Return the liveness of a program in its present order."""
        operands = register_operands(program)
        uses: list[list[int]] = [[] for _ in operands]
        for position, values in enumerate(operands):
            for v in values:
                uses[v].append(position)
        starts = [uses[v][0] if op == "input" and uses[v] else v for v, (op, _, _) in enumerate(program.code)]
        return Liveness(operands, uses, starts)

    def last_use(self, v: int) -> int | None:
        """Return the last position that uses a value, or None."""
        return self.uses[v][-1] if self.uses[v] else None

    def next_use(self, v: int, position: int) -> int | None:
        """Return the first use of a value after a position, or None."""
        k = bisect_right(self.uses[v], position)
        return self.uses[v][k] if k < len(self.uses[v]) else None

    def live_range(self, v: int) -> range:
        """Return the positions after which a value is live: computed, and used later."""
        return range(self.starts[v], self.uses[v][-1]) if self.uses[v] else range(0)

    @cached_property
    def counts(self) -> list[int]:
        """Number of values live after each position: the register pressure."""
        return live_counts(((self.live_range(v), 1) for v in range(len(self.uses))), len(self.uses))

    @property
    def max_pressure(self) -> int:
        """Largest number of simultaneously live values; with as many registers nothing is spilled."""
        return max(self.counts, default=0)
