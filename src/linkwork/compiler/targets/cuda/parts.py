"""Configurations of the parts of a long program (see `split`): warps, registers and slots of each."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.schedule import schedule
from linkwork.compiler.passes.sink import move_down
from linkwork.compiler.passes.unroll import unroll
from linkwork.compiler.targets.cuda.actions import CHUNK, Crossing, Plan
from linkwork.compiler.targets.cuda.cost_model import configure, thread_budget
from linkwork.compiler.targets.cuda.device import Device
from linkwork.compiler.targets.cuda.kernel_config import KernelConfig
from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.maps import TailMaps, tail_maps
from linkwork.compiler.targets.cuda.occupancy import CUTTING, INSTRUCTION_CACHE, SCHEDULING
from linkwork.compiler.targets.cuda.plan import plan
from linkwork.compiler.targets.cuda.prelude import LINE, REALS, WARP
from linkwork.compiler.targets.cuda.split import MAX_INSTRUCTIONS, Part, can_split, split

WARPS = (8, 12)  # candidates, on a multiprocessor, in float32; half of them in float64
# measured on an H200 [bytes/s]: crossing values, output rows, output rows that are written whole
CROSSING_RATE = 3.1e12
WRITE_RATE = 1.2e12
WHOLE_ROW_RATE = 2.5e12
READ_AHEAD = 3  # chunks of inputs and of crossing values that are read ahead
MAX_INSTRUCTIONS_BEFORE_MAPS = {"float32": 5600, "float64": 3800}  # of parts that write no outputs
BLOCK_STATES = (32, 16, 8, 4, 2)  # candidates for a block that runs maps
MAP_WARPS = {"float32": 10, "float64": 6}  # of such a block
MAP_BLOCKS = 2  # of a multiprocessor: one computes while the other reads or writes
MAX_REPEATED_WORK = 1.3  # operations of rows that serve several outputs, relative to one pass over the maps
MIN_SHARED_FRACTION = 0.8  # of the values that rows share must fit shared memory


def runs_in_parts(program: Program) -> bool:
    """Return whether a lowered program runs in parts: a long one without loops."""
    return len(program) > CUTTING.max_uncut and can_split(program)


def choose_parts(
    program: Program, device: Device, *, max_instructions: int | None = None
) -> list[KernelConfig]:
    """Return the configuration of each part of a program, in the order in which they run."""
    write = LINE // REALS[program.dtype].size
    full = tail_maps(program)
    if any(op == "map" for op, _, _ in full.code):
        maps_config = configure_maps(TailMaps(full), device)
        if maps_config is not None:
            kernel, blocks = maps_config
            limit = max_instructions or MAX_INSTRUCTIONS_BEFORE_MAPS[program.dtype]
            parts = split(kernel.plan.main, write, max_instructions=limit, full=full)
            first_leaf = max([len(kernel.plan.slots), *(part.slots for part in parts)])
            kernel = replace(kernel, slots=first_leaf + len(kernel.plan.leaf_slots), first_leaf=first_leaf)
            parts = [replace(part, slots=kernel.slots) for part in parts]
            return [*(configure_part(part, device) for part in parts), map_config(kernel, blocks, device)]
    ordered = schedule(move_down(unroll(program)), SCHEDULING)
    parts = split(ordered, write, max_instructions=max_instructions or MAX_INSTRUCTIONS)
    return [configure_part(part, device) for part in parts]


def configure_maps(maps: TailMaps, device: Device) -> tuple[MapKernel, int] | None:
    """Return the last kernel and the number of its blocks on a multiprocessor; None if maps are better
    unrolled.

    That is the case if not even two states fit shared memory, if the bodies exceed the instruction cache, or
    if rows give elements of several outputs, for each of which they would run again.
    """
    for blocks, states in product((MAP_BLOCKS, 1), BLOCK_STATES):
        limit = min(device.block, device.shared // blocks - 1024)
        kernel = MapKernel(maps, states, MAP_WARPS[maps.program.dtype], 0, 0, limit)
        shared_uses = kernel.shared_places.keys() & kernel.uses.keys()
        if kernel.shared_bytes <= limit and len(shared_uses) >= MIN_SHARED_FRACTION * len(kernel.uses):
            repeats = maps.operations > MAX_REPEATED_WORK * maps.single_pass_operations
            if repeats or kernel.instructions > INSTRUCTION_CACHE[0]:
                return None
            return kernel.with_ordered_slots(), blocks
    return None


def map_config(kernel: MapKernel, blocks: int, device: Device) -> KernelConfig:
    """Return the configuration of the last kernel with `blocks` blocks on a multiprocessor."""
    program = kernel.plan.program
    size = REALS[program.dtype].size
    threads = kernel.warps * WARP
    registers = min(255, device.registers // (threads * blocks) // 8 * 8)
    written = sum(a.size for a in program.outputs)
    work = 2 * kernel.plan.operations + 3 * written
    seconds = size * (kernel.plan.reads / CROSSING_RATE + written / WHOLE_ROW_RATE)
    peak = 4.0 * WARP * device.multiprocessors * device.clock / work
    rate = 1.0 / max(seconds, 2.0 / peak)
    return KernelConfig(
        program, Plan(), threads, blocks, registers, 0, 0, 0, 0, work, rate, rate / peak, maps=kernel
    )


def configure_part(part: Part, device: Device) -> KernelConfig:
    """Return the predicted fastest configuration of a part."""
    program = part.program
    size = REALS[program.dtype].size
    write = LINE // size if part.chunks else CHUNK
    late = plan(program, 1 << 30, 0, crossing=Crossing(part.chunks, part.keeps, part.reads)).writes_late
    budgets = (
        thread_budget(
            program,
            device,
            warps * 4 // size,
            late=late,
            shared=device.shared,
            write=write,
            ahead=READ_AHEAD,
        )
        for warps in WARPS
    )
    configs = (configure(program, device, budget, part) for budget in budgets if budget.fits)
    best = max(configs, key=lambda config: config.rate)
    crossing = len(part.reads) + len(part.keeps)
    written = sum(chunk.length for chunk in part.chunks)
    seconds = max(1.0 / best.rate, size * (crossing / CROSSING_RATE + written / WRITE_RATE))
    return replace(best, rate=1.0 / seconds, share=best.share / best.rate / seconds)
