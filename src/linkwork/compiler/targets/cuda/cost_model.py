"""Cost model of a multiprocessor: resources of a thread at an occupancy, and the predicted rate of a program.

The constants were fitted to measurements on an H200.
"""

from __future__ import annotations

from typing import NamedTuple

from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.targets.cuda.actions import CHUNK, Crossing
from linkwork.compiler.targets.cuda.device import Device
from linkwork.compiler.targets.cuda.kernel_config import KernelConfig
from linkwork.compiler.targets.cuda.packed import Packed
from linkwork.compiler.targets.cuda.pair_plan import constants, pair_plan
from linkwork.compiler.targets.cuda.plan import plan
from linkwork.compiler.targets.cuda.prelude import LINE, REALS, ROW, WARP, ring
from linkwork.compiler.targets.cuda.split import READ_COST, Part

# registers that hold addresses and constants, or that the assembler needs for moves
RESERVED_REGISTERS = {"float32": 30, "float64": 45}
LOAD_LEAD = 16  # operations by which values are loaded before they are used
READ_AHEAD = {"float32": 3, "float64": 2}  # chunks of inputs that are read ahead
# instructions per cycle: at most by a multiprocessor, and by one warp
ISSUE_RATE = {"float32": 3.6, "float64": 1.9}
WARP_RATE = 0.25
SMALL_CACHE_WARP_RATE = 0.18  # where shared memory leaves less than MIN_L1_BYTES to the L1 cache
MIN_L1_BYTES = 60 * 1024
# cost of a value in local memory [instructions]: in the L1 cache, and beyond it
CACHED_SPILL = 6
UNCACHED_SPILL = 16
SPILL_SLACK = 20  # values beyond the plan that fit where a thread has all 255 registers
MAX_LOOP_WEIGHT = 100  # iterations that a loop counts at most


class ThreadBudget(NamedTuple):
    """Launch sizes and resources of a thread: registers, values in them, and slots in shared memory.

    Slots do not include the buffers of the warp.
    """

    threads: int
    blocks: int
    registers: int
    values: int
    slots: int
    ahead: int
    buffers: int
    write: int = CHUNK

    @property
    def fits(self) -> bool:
        """True if a program can run with this budget at all."""
        return self.values >= 8 and self.slots >= 0


def thread_budget(
    program: Program,
    device: Device,
    warps: int,
    *,
    late: bool,
    shared: int,
    write: int = CHUNK,
    ahead: int = 0,
) -> ThreadBudget:
    """Return the resources of a thread for `warps` resident warps and at most `shared` bytes."""
    size = REALS[program.dtype].size
    ahead = ahead or READ_AHEAD[program.dtype]
    threads, blocks = _blocks(warps)
    registers = min(255, device.registers // (threads * blocks) // 8 * 8)
    values = (registers - RESERVED_REGISTERS[program.dtype]) // (size // 4)
    output_buffers = -(-row_stride(program.dtype, write) // ROW)  # buffers that a chunk of outputs takes
    buffers = ahead if late and output_buffers <= ahead else ahead + output_buffers
    numbers = min(device.block, shared // blocks - 1024) // threads // size
    return ThreadBudget(threads, blocks, registers, values, numbers - buffers * ROW, ahead, buffers, write)


def _blocks(warps: int) -> tuple[int, int]:
    """Return the threads of a block and the blocks of a multiprocessor."""
    return (warps * WARP, 1) if warps <= 10 else (4 * WARP, warps // 4)


def row_stride(dtype: str, write: int) -> int:
    """Return the row stride of the buffer that collects `write` elements of outputs: an odd number, against
    bank conflicts.
    """
    real = REALS[dtype]
    return (ring(real) if write * real.size == LINE else write) | 1


def writes_late(program: Program) -> bool:
    """Return whether no output is written before the last input is read, so that both can share a buffer."""
    return plan(program, 1 << 30, 0).writes_late


def configure(
    program: Program, device: Device, budget: ThreadBudget, part: Part | None = None
) -> KernelConfig:
    """Return the configuration of a program for a budget; `part` if the program is one of several."""
    crossing = None if part is None else Crossing(part.chunks, part.keeps, part.reads)
    kernel_plan = plan(
        program,
        budget.values,
        budget.slots,
        ahead=budget.ahead,
        lead=LOAD_LEAD,
        write=budget.write,
        crossing=crossing,
    )
    shared = min(budget.slots, kernel_plan.slots)
    local = kernel_plan.slots - shared
    l1_bytes = _l1_bytes(device, budget, shared, program.dtype)
    work = operation_count(program) + kernel_plan.loads + kernel_plan.stores
    work += _spill_cost(kernel_plan.unassigned + local, l1_bytes, budget, program.dtype)
    if part is not None:
        work += READ_COST * len(part.reads) + len(part.keeps) + CACHED_SPILL * kernel_plan.rereads
    issued = _issue_rate(budget, l1_bytes, program.dtype)
    rate = issued * WARP * device.multiprocessors * device.clock / max(work, 1)
    return KernelConfig(
        program, kernel_plan, budget.threads, budget.blocks, budget.registers, shared, local,
        budget.ahead, budget.buffers, work, rate, issued / 4.0, write=budget.write, part=part,
    )  # fmt: skip


def configure_pairs(packed: Packed, device: Device, budget: ThreadBudget) -> KernelConfig:
    """Return the configuration of a packed program, which two threads run for each state."""
    program = packed.program
    table = len(constants(program))
    slots = budget.slots - -(-2 * table // budget.threads)
    kernel_plan = pair_plan(packed, budget.values, slots, ahead=budget.ahead, lead=LOAD_LEAD)
    l1_bytes = _l1_bytes(device, budget, kernel_plan.slots, program.dtype)
    work = operation_count(program) + kernel_plan.loads + kernel_plan.stores
    work += _spill_cost(kernel_plan.unassigned, l1_bytes, budget, program.dtype)
    issued = _issue_rate(budget, l1_bytes, program.dtype)
    rate = issued * WARP / 2 * device.multiprocessors * device.clock / max(work, 1)
    return KernelConfig(
        program, kernel_plan, budget.threads, budget.blocks, budget.registers, kernel_plan.slots, 0,
        budget.ahead, budget.buffers, work, rate, issued / 4.0, places=packed.places, table=table,
    )  # fmt: skip


def _l1_bytes(device: Device, budget: ThreadBudget, slots: int, dtype: str) -> int:
    """Return the part of the L1 cache that shared memory does not use [bytes]."""
    numbers = budget.threads * (slots + budget.buffers * ROW)
    return device.l1 - budget.blocks * (numbers * REALS[dtype].size + 1024)


def _issue_rate(budget: ThreadBudget, l1_bytes: int, dtype: str) -> float:
    """Return the instructions that a multiprocessor issues per cycle."""
    warps = budget.threads * budget.blocks // WARP
    large_cache = l1_bytes >= MIN_L1_BYTES or REALS[dtype].size == 8
    warp_rate = WARP_RATE if large_cache else SMALL_CACHE_WARP_RATE
    return 1.0 / (1.0 / ISSUE_RATE[dtype] + 1.0 / (warp_rate * warps))


def _spill_cost(values: int, l1_bytes: int, budget: ThreadBudget, dtype: str) -> int:
    """Return the cost of values that lie in local memory, a part of which fits the L1 cache
    [instructions].
    """
    values = max(0, values - (SPILL_SLACK if budget.registers >= 255 else 0))
    spilled_bytes = values * REALS[dtype].size * budget.threads * budget.blocks
    cached = min(1.0, max(0, l1_bytes) / max(spilled_bytes, 1))
    return round(values * (CACHED_SPILL * cached + UNCACHED_SPILL * (1.0 - cached)))


def operation_count(program: Program) -> int:
    """Return the instructions of a program; bodies of loops count once for each possible iteration, at most
    MAX_LOOP_WEIGHT times.
    """
    total = 0
    for op, _, attr in program.code:
        if isinstance(attr, BoundedLoop):
            total += min(attr.limit, MAX_LOOP_WEIGHT) * operation_count(attr.body)
        elif op not in ("const", "const2", "input", "input2", "neg", "result", "even", "odd"):
            total += 1
    return total
