"""How each part of a long program is run (see `split`): by how many warps, with how many registers and slots."""

from __future__ import annotations

from dataclasses import replace

from linkwork.ir.program import Program
from linkwork.passes.late import move_down
from linkwork.passes.schedule import schedule
from linkwork.targets.cuda.choice import CUTTING, SCHEDULING, Choice, Device, planned, sizes
from linkwork.targets.cuda.plan import CHUNK, Crossing, plan
from linkwork.targets.cuda.prelude import LINE, REALS
from linkwork.targets.cuda.split import ROOM, Part, can_split, split

WARPS = (8, 12)  # on a multiprocessor; in float64 half of them
CROSSING, WRITTEN = 3.1e12, 1.2e12  # bytes of crossing values and of rows of outputs in a second, measured on an H200
AHEAD = 3  # chunks of inputs and of crossing values that are read ahead


def runs_in_parts(program: Program) -> bool:
    """Whether a lowered program is run in parts: a long one without loops."""
    return len(program) > CUTTING.whole and can_split(program)


def choose_parts(program: Program, device: Device, *, room: int = ROOM) -> list[Choice]:
    """How each part of a program is run, one after the other."""
    write = LINE // REALS[program.dtype].size
    ordered = schedule(move_down(program), SCHEDULING)
    return [chosen_part(part, device) for part in split(ordered, write, room=room)]


def chosen_part(part: Part, device: Device) -> Choice:
    """The fastest way to run a part by the model."""
    program = part.program
    size = REALS[program.dtype].size
    write = LINE // size if part.chunks else CHUNK
    late = plan(program, 1 << 30, 0, crossing=Crossing(part.chunks, part.keeps, part.reads)).writes_late
    every = (
        sizes(program, device, warps * 4 // size, late=late, most=device.shared, write=write, ahead=AHEAD) for warps in WARPS
    )
    best = max((planned(program, device, each, part) for each in every if each.fits), key=lambda choice: choice.rate)
    crossing, written = len(part.reads) + len(part.keeps), sum(chunk.length for chunk in part.chunks)
    seconds = max(1.0 / best.rate, size * (crossing / CROSSING + written / WRITTEN))
    return replace(best, rate=1.0 / seconds, share=best.share / best.rate / seconds)
