"""Spilling: which values leave their registers for memory, in which slots they lie, and where they are loaded again.

The order of a program is known, and so is the next use of every value. Where more values are live than there are registers, the
one whose next use is farthest is spilled (Belady's rule: no choice has fewer loads), and at a cut all that are live. A spilled
value is stored once, when it is made, and its slot is free after its last use: few slots, which stay in the nearest cache.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from linkwork.ir.liveness import Liveness
from linkwork.ir.program import Program
from linkwork.ir.slots import Slots, assign_slots


@dataclass(frozen=True)
class Spills:
    """What moves between memory and registers in a program.

    Attributes:
        reads: position -> blocks (array, number) of inputs that are read there, before its loads
        loads: position -> spilled values that are loaded there, before its instruction
        stores: spilled value -> position where it is made (by the instruction, or by a read) and stored
        slots: the slot of each spilled value
    """

    reads: dict[int, list[tuple[int, int]]]
    loads: dict[int, list[int]]
    stores: dict[int, int]
    slots: Slots


def spill(program: Program, registers: int | None, *, block: int = 1) -> Spills:
    """What is spilled in a program, and in each of the functions that its cuts make of it.

    `registers` is how many values are kept from one instruction to the next; operands that are loaded for one instruction, or
    die there, take a few more. None: as many as are live. Inputs are read in blocks of so many elements. A single element is
    read again where it lies; of a larger block, which takes all registers to read, what is needed later is stored.
    """
    return _Spilling(program, registers, block).result()


class _Spilling:
    """The walk through a program that decides."""

    def __init__(self, program: Program, registers: int | None, block: int) -> None:
        self.program, self.registers, self.block = program, registers, block
        self.liveness = Liveness.of(program)
        self.coming = [uses[::-1] for uses in self.liveness.uses]  # uses that are still to come, the next one last
        self.blocks: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # block of an input -> its values
        for v, (op, _, _) in enumerate(program.code):
            if op == "input":
                self.blocks[self._block(v)].append(v)
        self.reads: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.loads: defaultdict[int, list[int]] = defaultdict(list)
        self.made: dict[int, int] = {}  # value -> position where it first is in a register
        self.spilled: set[int] = set()

    def result(self) -> Spills:
        for part in self.program.parts:
            self._walk(part)
        if self.block == 1:  # inputs are read again where they lie
            self.spilled -= {v for values in self.blocks.values() for v in values}
        ranges = {v: range(self.made[v], self.liveness.uses[v][-1] + 1) for v in self.spilled}
        return Spills(dict(self.reads), dict(self.loads), {v: self.made[v] for v in ranges}, assign_slots(ranges))

    def _block(self, v: int) -> tuple[int, int]:
        array, element = self.program.code[v].attr
        return array, element // self.block

    def _walk(self, part: range) -> None:
        code, coming = self.program.code, self.coming
        held: dict[int, int] = {}  # value in a register -> its next use
        limit = len(code) if self.registers is None else self.registers

        def hold(v: int) -> None:
            held[v] = coming[v][-1]
            if len(held) > limit or held[v] >= part.stop:
                farthest = max(held, key=held.__getitem__)
                del held[farthest]
                self.spilled.add(farthest)

        for position in part:
            operands = self.liveness.operands[position]
            for v in operands:
                coming[v].pop()
                if held.pop(v, None) is not None:
                    continue
                if code[v].op != "input" or (v in self.made and self.block > 1):
                    self.loads[position].append(v)
                    continue
                self.reads[position].append(self._block(v))
                for u in self.blocks[self._block(v)]:
                    self.made[u] = position
                    if not coming[u] or u == v:
                        continue
                    if self.registers is None:
                        hold(u)
                    else:  # reading the block takes all registers
                        self.spilled.add(u)
            for v in operands:
                if coming[v]:
                    hold(v)
            if coming[position] and code[position].op != "input":
                self.made[position] = position
                hold(position)
