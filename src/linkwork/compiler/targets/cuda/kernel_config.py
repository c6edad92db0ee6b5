"""Configuration of a kernel: its program in order, its plan, and its launch parameters."""

from __future__ import annotations

from dataclasses import dataclass

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.actions import CHUNK, Plan
from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.prelude import REALS, ROW
from linkwork.compiler.targets.cuda.split import Part


@dataclass(frozen=True)
class KernelConfig:
    """Program of a kernel with everything that its text and its launch depend on.

    Attributes
    ----------
    program
        Program in its final order, cut into functions
    plan
        Reads, writes and places of waiting values
    threads
        Threads of a block
    blocks
        Resident blocks of a multiprocessor
    registers
        Registers of a thread
    shared
        Slots of a thread in shared memory
    local
        Slots of a thread in local memory
    ahead
        Chunks of inputs that are read ahead
    buffers
        Buffers of a warp in shared memory
    work
        Predicted instructions per state
    rate
        Predicted rate [states/s]
    share
        Predicted fraction of the device's peak instruction rate
    lockstep
        Whether barriers keep the warps of a block together, so that they share fetched instructions
    places
        Of a packed program (two threads per state), the places of its outputs (see `Packed`)
    table
        Of a packed program, the number of constants that differ between the two threads
    write
        Elements of outputs that are written together
    part
        Of a program that runs in parts, the part (see `split`)
    maps
        Of the last part, if it runs maps and writes the outputs, its plan (see `maps`)
    """

    program: Program
    plan: Plan
    threads: int
    blocks: int
    registers: int
    shared: int
    local: int
    ahead: int
    buffers: int
    work: int
    rate: float
    share: float
    lockstep: bool = False
    places: tuple[tuple[tuple[int, int | None], ...], ...] = ()
    table: int = 0
    write: int = CHUNK
    part: Part | None = None
    maps: MapKernel | None = None

    @property
    def slots(self) -> int:
        """Crossing values per state, of all parts together."""
        if self.maps:
            return self.maps.slots
        return self.part.slots if self.part else 0

    @property
    def crossing(self) -> tuple[int, int]:
        """Crossing values per state that this kernel reads and makes."""
        if self.maps:
            return self.maps.plan.reads, 0
        return (len(self.part.reads), len(self.part.keeps)) if self.part else (0, 0)

    @property
    def gaps(self) -> bool:
        """True if output rows may have gaps, as in records of rollouts.

        Otherwise their stride is constant.
        """
        return any(op == "loop" for op, _, _ in self.program.code)

    @property
    def rows(self) -> int:
        """States of a block."""
        if self.maps:
            return self.maps.states
        return self.threads // 2 if self.places else self.threads

    @property
    def lockstep_loops(self) -> bool:
        """True if all warps of a block step through nested loops together, with a barrier after each
        innermost loop.
        """
        return self.lockstep and any(op == "loop" for op, _, _ in self.program.code)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block [bytes]."""
        if self.maps is not None:
            return self.maps.shared_bytes
        size = REALS[self.program.dtype].size
        return (self.threads * (self.shared + self.buffers * ROW) + 2 * self.table) * size
