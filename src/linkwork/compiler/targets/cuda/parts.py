"""How each part of a long program is run (see `split`): by how many warps, with how many registers and slots."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.schedule import schedule
from linkwork.compiler.passes.sink import move_down
from linkwork.compiler.passes.unroll import unroll
from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.maps import LastMaps, last_maps
from linkwork.compiler.targets.cuda.occupancy import (
    CACHED,
    CUTTING,
    SCHEDULING,
    Choice,
    Device,
    planned,
    sizes,
)
from linkwork.compiler.targets.cuda.plan import CHUNK, Crossing, Plan, plan
from linkwork.compiler.targets.cuda.prelude import LINE, REALS, WARP
from linkwork.compiler.targets.cuda.split import ROOM, Part, can_split, split

WARPS = (8, 12)  # on a multiprocessor; in float64 half of them
# bytes of crossing values and of rows of outputs in a second, measured on an H200
CROSSING = 3.1e12
WRITTEN = 1.2e12
WHOLE = 2.5e12  # the same of rows of outputs that are written whole
AHEAD = 3  # chunks of inputs and of crossing values that are read ahead
BEFORE_MAPS = {"float32": 5600, "float64": 3800}  # the room of parts that write no outputs (see `split.ROOM`)
STATES = (32, 16, 8, 4, 2)  # of a block that runs maps
MAP_WARPS = {"float32": 10, "float64": 6}  # of such a block
BLOCKS = 2  # of a multiprocessor: one computes while the other reads or writes
AGAIN = 1.3  # times as many operations as maps have that rows of several outputs may take
ENOUGH = 0.8  # of the values that rows share must have room in shared memory


def runs_in_parts(program: Program) -> bool:
    """Whether a lowered program is run in parts: a long one without loops."""
    return len(program) > CUTTING.whole and can_split(program)


def choose_parts(program: Program, device: Device, *, room: int | None = None) -> list[Choice]:
    """How each part of a program is run, one after the other: of about so many instructions each."""
    write = LINE // REALS[program.dtype].size
    last = last_maps(program)
    if any(op == "map" for op, _, _ in last.code):
        found = chosen_maps(LastMaps(last), device)
        if found is not None:
            way, blocks = found
            parts = split(way.plan.main, write, room=room or BEFORE_MAPS[program.dtype], whole=last)
            fill = max([len(way.plan.slots), *(part.slots for part in parts)])
            way = replace(way, slots=fill + len(way.plan.fills), fill=fill)
            parts = [replace(part, slots=way.slots) for part in parts]
            return [*(chosen_part(part, device) for part in parts), choice_of(way, blocks, device)]
    ordered = schedule(move_down(unroll(program)), SCHEDULING)
    return [chosen_part(part, device) for part in split(ordered, write, room=room or ROOM)]


def chosen_maps(maps: LastMaps, device: Device) -> tuple[MapKernel, int] | None:
    """How the last kernel is run, and how many blocks of it on a multiprocessor; None where maps are better
    unrolled.

    So where not even two states have room, where the bodies leave the instruction cache, and where rows give
    elements of several outputs, for each of which they would be run.
    """
    for blocks, states in product((BLOCKS, 1), STATES):
        room = min(device.block, device.shared // blocks - 1024)
        way = MapKernel(maps, states, MAP_WARPS[maps.program.dtype], 0, 0, room)
        if way.shared_bytes <= room and len(way.shared.keys() & way.uses.keys()) >= ENOUGH * len(way.uses):
            again = maps.operations > AGAIN * maps.once
            return None if again or way.instructions > CACHED[0] else (way.arranged(), blocks)
    return None


def choice_of(way: MapKernel, blocks: int, device: Device) -> Choice:
    """The last kernel with so many blocks on a multiprocessor."""
    program = way.plan.program
    size = REALS[program.dtype].size
    threads = way.warps * WARP
    registers = min(255, device.registers // (threads * blocks) // 8 * 8)
    work = 2 * way.plan.operations + 3 * sum(a.size for a in program.outputs)
    seconds = size * (way.plan.reads / CROSSING + sum(a.size for a in program.outputs) / WHOLE)
    most = 4.0 * WARP * device.multiprocessors * device.clock / work
    rate = 1.0 / max(seconds, 2.0 / most)
    return Choice(program, Plan(), threads, blocks, registers, 0, 0, 0, 0, work, rate, rate / most, maps=way)


def chosen_part(part: Part, device: Device) -> Choice:
    """The fastest way to run a part by the model."""
    program = part.program
    size = REALS[program.dtype].size
    write = LINE // size if part.chunks else CHUNK
    late = plan(program, 1 << 30, 0, crossing=Crossing(part.chunks, part.keeps, part.reads)).writes_late
    every = (
        sizes(program, device, warps * 4 // size, late=late, most=device.shared, write=write, ahead=AHEAD)
        for warps in WARPS
    )
    best = max(
        (planned(program, device, each, part) for each in every if each.fits), key=lambda choice: choice.rate
    )
    crossing = len(part.reads) + len(part.keeps)
    written = sum(chunk.length for chunk in part.chunks)
    seconds = max(1.0 / best.rate, size * (crossing / CROSSING + written / WRITTEN))
    return replace(best, rate=1.0 / seconds, share=best.share / best.rate / seconds)
