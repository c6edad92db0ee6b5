"""Spilling: values stored in memory when registers run out, their slots, and where they are loaded again.

The order of a program is known, and so is the next use of every value. If more values are live than there are
registers, the one whose next use is farthest is spilled (Belady's rule: no choice has fewer loads), and at a
cut all that are live. A spilled value is stored once, when it is computed, and its slot is free after its
last use: few slots, which stay in the nearest cache.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from linkwork.compiler.ir.liveness import Liveness
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.slots import Slots, assign_slots


@dataclass(frozen=True)
class Spills:
    """Traffic between memory and registers in a program.

    Attributes
    ----------
    reads
        Position -> blocks (array, number) of inputs that are read there, before its loads
    loads
        Position -> spilled values that are loaded there, before its instruction
    stores
        Spilled value -> position where it is computed (or read) and stored
    slots
        The slot of each spilled value
    """

    reads: dict[int, list[tuple[int, int]]]
    loads: dict[int, list[int]]
    stores: dict[int, int]
    slots: Slots


def spill(program: Program, registers: int | None, *, block: int = 1) -> Spills:
    """Return the spills of a program and of each of the functions between its cuts.

    `registers` is the number of values kept from one instruction to the next; operands that are loaded for
    one instruction, or die there, take a few more. None means unlimited. Inputs are read in blocks of `block`
    elements. A single element is read again at its place; a larger block takes all registers to read, so its
    elements that are needed later are stored.
    """
    return _Spilling(program, registers, block).result()


class _Spilling:
    """Walk through a program that decides which values are spilled."""

    def __init__(self, program: Program, registers: int | None, block: int) -> None:
        self.program = program
        self.registers = registers
        self.block = block
        self.liveness = Liveness.of(program)
        # uses that are still to come, the next one last
        self.remaining_uses = [uses[::-1] for uses in self.liveness.uses]
        # block of an input -> its values
        self.blocks: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for v, (op, _, _) in enumerate(program.code):
            if op == "input":
                self.blocks[self._block(v)].append(v)
        self.reads: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.loads: defaultdict[int, list[int]] = defaultdict(list)
        self.computed_at: dict[int, int] = {}  # value -> position where it is first in a register
        self.spilled: set[int] = set()

    def result(self) -> Spills:
        """Return the spills."""
        for part in self.program.parts:
            self._walk(part)
        if self.block == 1:  # inputs are read again at their place
            self.spilled -= {v for values in self.blocks.values() for v in values}
        ranges = {v: range(self.computed_at[v], self.liveness.uses[v][-1] + 1) for v in self.spilled}
        return Spills(
            dict(self.reads), dict(self.loads), {v: self.computed_at[v] for v in ranges}, assign_slots(ranges)
        )

    def _block(self, v: int) -> tuple[int, int]:
        array, element = self.program.code[v].attr
        return array, element // self.block

    def _walk(self, part: range) -> None:
        """Append the reads, loads and spills of one function."""
        code = self.program.code
        remaining_uses = self.remaining_uses
        registers: dict[int, int] = {}  # value in a register -> its next use
        limit = len(code) if self.registers is None else self.registers

        def hold(v: int) -> None:
            """Keep a value in a register; spill the one with the farthest next use if there is none free."""
            registers[v] = remaining_uses[v][-1]
            if len(registers) > limit or registers[v] >= part.stop:
                farthest = max(registers, key=registers.__getitem__)
                del registers[farthest]
                self.spilled.add(farthest)

        for position in part:
            operands = self.liveness.operands[position]
            for v in operands:
                remaining_uses[v].pop()
                if registers.pop(v, None) is not None:
                    continue
                if code[v].op != "input" or (v in self.computed_at and self.block > 1):
                    self.loads[position].append(v)
                    continue
                self.reads[position].append(self._block(v))
                for u in self.blocks[self._block(v)]:
                    self.computed_at[u] = position
                    if not remaining_uses[u] or u == v:
                        continue
                    if self.registers is None:
                        hold(u)
                    else:  # reading the block takes all registers
                        self.spilled.add(u)
            for v in operands:
                if remaining_uses[v]:
                    hold(v)
            if remaining_uses[position] and code[position].op != "input":
                self.computed_at[position] = position
                hold(position)
