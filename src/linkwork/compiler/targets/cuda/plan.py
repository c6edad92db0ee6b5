"""Plan of a kernel: the order of reads, operations and writes, and the place of each waiting value.

One thread runs one state. If more values are live than registers exist, the value with the farthest next use
waits (Belady's rule) in a slot of shared memory: it is stored once, when its register is first taken, and the
slot is free after the last use. Rows are read and written in chunks of neighbouring elements, which a warp
moves together.

A loop's body is a program of its own. A short loop has its state in registers. A long one has it in slots,
together with everything that is live around it, since its body needs all registers; values that cross from
one function of a cut program to the next are in slots as well. When shared memory is full, slots are in local
memory; values of uncut code are then left to the assembler, which spills them better.
"""

from __future__ import annotations

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.actions import CHUNK, Crossing, Plan, SlotPool, hoist_loads
from linkwork.compiler.targets.cuda.planner import Planner


def plan(
    program: Program,
    registers: int,
    shared: int,
    *,
    ahead: int = 2,
    lead: int = 0,
    write: int = CHUNK,
    crossing: Crossing | None = None,
) -> Plan:
    """Return the plan of a lowered program.

    Parameters
    ----------
    program
        Lowered program
    registers
        Values that registers hold
    shared
        Slots of a thread in shared memory
    ahead
        Chunks of inputs that are read ahead
    lead
        Operations by which values are loaded before their use
    write
        Elements of outputs that are written together
    crossing
        Crossing values if the program is one of several parts
    """
    planner = Planner(program, registers, SlotPool(shared), ahead, write=write, crossing=crossing)
    result = planner.run()
    result.slots = planner.pool.size
    return hoist_loads(result, lead) if lead else result
