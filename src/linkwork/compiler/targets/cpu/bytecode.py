"""Bytecode of programs, for kernels that must start quickly: LLVM's work does not grow with the program.

An instruction is a record of five 32-bit words: operation, the register of its result, and three operands.
Registers are in memory, each holds one value of all lanes, and records refer to them by byte offset.
Conditions are masks: all bits of a lane are one, or zero. A loop jumps back in the bytecode. A register is
free again after the last use of its value. `virtual_machine` runs the records.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from linkwork.compiler.ir.operations import CORE
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.ir.semantics import round_to_float32
from linkwork.compiler.targets.cpu.types import Types

# beside the core operations: a constant, an element of an input or output, a copy, and ends of loops and rows
OPCODES = {
    name: k for k, name in enumerate([*CORE, "const", "input", "output", "move", "begin", "repeat", "end"])
}
WORDS_PER_RECORD = 5  # of a record
RECORDS_PER_CHUNK = 4096  # in one module: LLVM's memory grows with the text
_LARGEST = (1 << 31) - 1

Stores = Mapping[int, Sequence[tuple[int, int]]]  # value -> output arrays and elements that it is


class Bytecode:
    """Records of a program: `chunks` of them, to be run in order on the same number of `registers`.

    Addresses of arrays are words of 8 bytes: an input's first row and the distance of its rows, input after
    input, then the place of each output.
    """

    def __init__(self, program: Program, t: Types, stores: Stores) -> None:
        self.types = t
        self.registers = 0
        self.chunks: list[bytes] = []
        self._outputs = 16 * len(program.inputs)  # where their addresses begin
        self._records = array("i")
        self._free: list[int] = []
        self._states: dict[int, list[int]] = {}  # mask of a loop -> registers of its states
        self._write(program, None, stores)
        self._end_chunk()

    def _new(self) -> int:
        if self._free:
            return self._free.pop()
        self.registers += 1
        return (self.registers - 1) * self.types.bytes

    def _put(self, op: str, out: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        self._records.extend((OPCODES[op], out, a, b, c))

    def _end_chunk(self) -> None:
        self._put("end", 0)
        if sys.byteorder == "big":
            self._records.byteswap()
        self.chunks.append(self._records.tobytes())
        self._records = array("i")

    def _write(self, program: Program, inputs: Sequence[int] | None, stores: Stores) -> list[int]:
        """Write all instructions and return the registers of the results.

        The inputs of a loop's body are in the registers `inputs`.
        """
        code = program.code
        new = self._new
        free = self._free
        opcodes = OPCODES
        # last use of each value; -2 if its register is free already or belongs to another value
        last = [-1] * len(code)
        for v, (_, args, _) in enumerate(code):
            for a in args:
                last[a] = v
        if inputs is not None:
            for v in program.result_values():
                last[v] = len(code)
        place = [0] * len(code)
        for v, (op, args, attr) in enumerate(code):
            if attr is None:  # a core operation reads its operands before it writes its result
                record = [opcodes[op], 0, *[place[a] for a in args], 0, 0][:WORDS_PER_RECORD]
                for a in args:
                    if last[a] == v:
                        last[a] = -2
                        free.append(place[a])
                record[1] = place[v] = free.pop() if free else new()
                self._records.extend(record)
            elif op == "input" and inputs is not None:
                place[v] = inputs[attr[1] if attr[0] == 0 else program.inputs[0].size + attr[1]]
                last[v] = -2
            else:
                place[v] = self._structural(op, [place[a] for a in args], attr)
                for a in set(args):
                    if last[a] == v:
                        self._release(place[a])
            for output, element in stores.get(v, ()):
                self._put("output", 0, place[v], self._outputs + 8 * output, element * self.types.bytes)
            if last[v] == -1:
                self._release(place[v])
            if inputs is None and len(self._records) >= RECORDS_PER_CHUNK * WORDS_PER_RECORD:
                self._end_chunk()
        return [place[v] for v in program.result_values()]

    def _release(self, register: int) -> None:
        self._free.append(register)
        self._free.extend(self._states.pop(register, ()))

    def _structural(self, op: str, args: list[int], attr: Any) -> int:
        if isinstance(attr, BoundedLoop):
            return self._loop(attr, args)
        out = self._new()
        if op == "const":
            self._put(op, out, 0, *self._bits(attr))
        elif op == "input":
            array, element = attr
            self._put(op, out, 16 * array, element * self.types.item)
        else:  # a result of a loop
            self._put("move", out, self._states[args[0]][attr])
        return out

    def _bits(self, number: float | bool) -> tuple[int, int]:
        """Return a constant of one lane as two words; the second counts in float64 only."""
        if isinstance(number, bool):
            return -number, -number
        if self.types.dtype == "float64":
            return struct.unpack("<ii", struct.pack("<d", number))
        return struct.unpack("<i", struct.pack("<f", round_to_float32(number)))[0], 0

    def _loop(self, loop: BoundedLoop, args: list[int]) -> int:
        """Write a loop and return the register of its mask; a lane that has stopped keeps its state."""
        mask = self._new()
        count = self._new()
        states = [self._new() for _ in range(loop.states)]
        for state, first in zip(states, args):
            self._put("move", state, first)
        self._put("begin", mask, count)
        start = len(self._records)
        inputs = [*states, *args[loop.states :]]
        results = self._write(loop.body, inputs, {})
        after = results[:-1]
        again = results[-1]
        updated = [self._new() for _ in states]  # separate from the states, which may be permuted
        for place, state, value in zip(updated, states, after):
            self._put("select", place, mask, value, state)
        self._put("and", mask, mask, again)
        for state, place in zip(states, updated):
            self._put("move", state, place)
        self._put("repeat", count, mask, min(loop.limit, _LARGEST), 4 * (start - len(self._records)))
        self._free.extend([*updated, count, *(set(results) - set(inputs))])
        self._states[mask] = states
        return mask
