"""How many threads share a multiprocessor, and so how many registers and slots each has: chosen for a
program, from numbers.

More threads hide more of the latency of operations, and leave fewer registers and less shared memory to each
of them. A plan for each number of warps says what that costs in loads and stores; a simple model of a
multiprocessor says which is the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from linkwork.compiler.ir.liveness import Liveness
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.passes.cut import Cutting, cut
from linkwork.compiler.passes.schedule import Scheduling, schedule
from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.packed import Packed, pack
from linkwork.compiler.targets.cuda.pair_plan import constants, pair_plan
from linkwork.compiler.targets.cuda.plan import CHUNK, Crossing, Plan, plan
from linkwork.compiler.targets.cuda.prelude import LINE, REALS, ROW, TABLED, WARP, ring
from linkwork.compiler.targets.cuda.split import READ, Part
from linkwork.errors import TargetError

CUTTING = Cutting(whole=12_000, part=3000)
SCHEDULING = Scheduling(short=0, window=240)  # always for low register pressure: other warps hide latency
SPARE = {"float32": 30, "float64": 45}  # registers for addresses, constants and what the assembler moves
WARPS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 40, 48)  # on a multiprocessor
NESTED = 8  # the same for programs of nested loops whose values do not fit
LARGEST_BLOCK = 1024  # threads
CACHED = (
    6600,
    8200,
)  # instructions up to which a program fits the instruction cache, and from which it does not
LEAD = 16  # operations by which values are loaded before they are used
AHEAD = {"float32": 3, "float64": 2}  # chunks of inputs that are read ahead
# The model: instructions that a multiprocessor starts in a cycle at most, and one warp by itself
ISSUE = {"float32": 3.6, "float64": 1.9}
ALONE = 0.25
SQUEEZED = 0.18  # the same where the first cache is left less than CACHE
CACHE = 60 * 1024  # bytes
STEP = 32 * 1024  # bytes of shared memory that are given up for that
# what a value in local memory costs, where that fits the first cache and where it does not
NEAR = 6
FAR = 16
SLACK = 20  # values more than planned for that the assembler finds room for, where a thread has all registers
SHORT_ROW = 48  # elements of an output up to which whole rows may be written at once
MANY = 25  # operations for each output from which outputs are little of the work
PAIR_WARPS = {
    "float32": (8, 12, 16),
    "float64": (5, 6, 7, 8),
}  # on a multiprocessor, of programs with two threads a state


@dataclass(frozen=True)
class Device:
    """What a kind of GPU has: its architecture, multiprocessors, registers (32 bits) and bytes of shared
    memory in each.

    `block` is how much of that memory one block may have, `l1` shared memory and first cache together,
    `clock` in Hz.
    """

    arch: str = "sm_90"
    multiprocessors: int = 132
    registers: int = 65536
    shared: int = 228 * 1024
    block: int = 227 * 1024
    warps: int = 64
    clock: float = 1.98e9
    l1: int = 256 * 1024


DEVICES = {
    "sm_80": Device("sm_80", 108, shared=164 * 1024, block=163 * 1024, clock=1.41e9, l1=192 * 1024),
    "sm_90": Device(),
}


@dataclass(frozen=True)
class Choice:
    """With what a program is run.

    Attributes
    ----------
    program
        In the order that was chosen, and cut
    plan
        What waits where
    threads
        In a block
    blocks
        On a multiprocessor at once
    registers
        Of a thread
    shared
        Slots of a thread in shared memory
    local
        Slots of a thread in local memory
    ahead
        Chunks of inputs that are read ahead
    buffers
        Of a warp, in shared memory
    work
        Instructions of a state, by the model
    rate
        States a second that the model predicts
    share
        Of the most instructions that the device can start
    together
        Whether the warps of a block wait for each other now and then, to read instructions together
    places
        Of a packed program, which two threads of a state run together, the places of its outputs (see
        `Packed`)
    table
        Of a packed program, how many constants differ between the two threads
    write
        Elements of outputs that are written together
    part
        Of a program that is run in parts, which one this is (see `split`)
    maps
        Of the last of them, which runs maps and writes outputs, its plan (see `maps`)
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
    together: bool = False
    places: tuple[tuple[tuple[int, int | None], ...], ...] = ()
    table: int = 0
    write: int = CHUNK
    part: Part | None = None
    maps: MapKernel | None = None

    @property
    def slots(self) -> int:
        """Crossing values of a state, of all parts together."""
        return self.maps.slots if self.maps else self.part.slots if self.part else 0

    @property
    def crossing(self) -> tuple[int, int]:
        """How many of them it reads and makes."""
        return (
            (self.maps.plan.reads, 0)
            if self.maps
            else (len(self.part.reads), len(self.part.keeps))
            if self.part
            else (0, 0)
        )

    @property
    def gaps(self) -> bool:
        """Whether rows of outputs may have gaps, as records of rollouts have them; elsewhere their distance
        is a constant.
        """
        return any(op == "loop" for op, _, _ in self.program.code)

    @property
    def rows(self) -> int:
        """States of a block."""
        return self.maps.states if self.maps else self.threads // 2 if self.places else self.threads

    @property
    def steps_together(self) -> bool:
        """Whether the warps of a block go through loops of loops together, and wait for each other behind the
        innermost.
        """
        return self.together and any(op == "loop" for op, _, _ in self.program.code)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        if self.maps is not None:
            return self.maps.shared_bytes
        size = REALS[self.program.dtype].size
        return (self.threads * (self.shared + self.buffers * ROW) + 2 * self.table) * size


def candidates(program: Program, device: Device, *, warps: int | None = None) -> list[Choice]:
    """Ways to run a lowered program, the fastest by the model first; with so many warps on a multiprocessor,
    if given.
    """
    found = [*_singles(program, device, warps), *_pairs(program, device, warps)]
    if not found:
        raise TargetError(f"{warps} warps leave too few registers or too little shared memory to a thread")
    found.sort(key=lambda choice: -choice.rate)
    found[1:1] = _whole_rows(found[0], device)
    return [way for choice in found for way in _ways(choice)]


def _whole_rows(choice: Choice, device: Device) -> list[Choice]:
    """The same way with whole rows of outputs written at once, where these are short: less traffic, and fewer
    slots.
    """
    row = max(a.size for a in choice.program.outputs)
    if not choice.write < row <= SHORT_ROW or choice.gaps or choice.places:
        return []
    warps = choice.threads * choice.blocks // WARP
    late = writes_late(choice.program)
    every = (
        sizes(choice.program, device, warps, late=late, most=most, write=row)
        for most in (device.shared, device.shared - STEP)
    )
    found = [planned(choice.program, device, size) for size in every if size.fits]
    return [max(found, key=lambda choice: choice.rate)] if found else []


def _singles(program: Program, device: Device, warps: int | None) -> list[Choice]:
    """Ways with one thread a state."""
    order, late = _order(program, device)
    live = _live(order)
    write = written_together(order)
    found: list[Choice] = []
    if warps is None and _is_nested(order):
        few = sizes(order, device, min(WARPS), late=late, most=device.shared)
        if few.values + few.slots < live:  # most values are in local memory anyway
            return _ways(planned(order, device, sizes(order, device, NESTED, late=late, most=device.shared)))
    for most in (device.shared, device.shared - STEP):
        every = {
            w: sizes(order, device, w, late=late, most=most, write=write)
            for w in ([warps] if warps else WARPS)
            if w <= device.warps
        }
        for count in _near({w: size for w, size in every.items() if size.fits}, live):
            size = every[count]
            if not any(
                c.threads * c.blocks == count * WARP and c.plan.slots <= size.slots for c in found
            ):  # else it is the same
                found.append(planned(order, device, size))
    return found


def _pairs(program: Program, device: Device, warps: int | None) -> list[Choice]:
    """Ways with two threads a state, where a program has limbs that pay."""
    if len(program) > CUTTING.whole or (packed := pack(program)) is None:
        return []
    ways = []
    for order in (replace(packed, program=schedule(packed.program, SCHEDULING)), packed):
        late = pair_plan(order, 1 << 30, 0).writes_late
        size = sizes(program, device, 12 if program.dtype == "float32" else 6, late=late, most=device.shared)
        ways.append((pair_plan(order, size.values, size.slots), order, late))
    _, packed, late = min(ways, key=_waiting)
    every = (
        sizes(program, device, w, late=late, most=device.shared)
        for w in ([warps] if warps else PAIR_WARPS[program.dtype])
    )
    return [planned_pairs(packed, device, size) for size in every if size.fits]


def written_together(program: Program) -> int:
    """How many elements of outputs are written together: 128 bytes where outputs are much of the work."""
    outputs = [a.size for a in program.outputs]
    if sum(outputs) * MANY < _operations(program):
        return CHUNK
    return min(LINE // REALS[program.dtype].size, max(CHUNK, 1 << (max(outputs) - 1).bit_length()))


def _ways(choice: Choice) -> list[Choice]:
    """With warps that go their own ways, together, or both where nobody knows whether code fits the
    instruction cache.
    """
    code = choice.program.code
    if (
        _is_nested(choice.program)
        and _length(choice.program) >= CACHED[0]
        and choice.threads * choice.blocks <= LARGEST_BLOCK
    ):
        return [replace(choice, together=True, threads=choice.threads * choice.blocks, blocks=1)]
    if any(op == "loop" for op, _, _ in code):  # a barrier is no place for warps that may have left a loop
        return [choice]
    constants = (
        sum(code[a].op == "const" for _, args, _ in code for a in args)
        if choice.program.dtype in TABLED
        else 0
    )
    size = (
        _operations(choice.program)
        + choice.plan.loads
        + choice.plan.stores
        + 2 * choice.plan.left
        + constants
    )
    together = replace(choice, together=True)
    return [choice] if size < CACHED[0] else [choice, together] if size < CACHED[1] else [together]


def _is_nested(program: Program) -> bool:
    """Whether a loop has loops in it: warps then drift apart, and each reads instructions for itself."""
    bodies = [attr.body for _, _, attr in program.code if isinstance(attr, BoundedLoop)]
    return any(op == "loop" for body in bodies for op, _, _ in body.code)


def _length(program: Program) -> int:
    """Instructions, those of bodies too."""
    return sum(1 + _length(attr.body) if isinstance(attr, BoundedLoop) else 1 for _, _, attr in program.code)


def _cut(program: Program) -> Program:
    """Cut where it is long, in bodies of loops too."""
    return cut(program.map_bodies(_cut), CUTTING)


def _live(program: Program) -> int:
    """The most values that are live at once; those of a loop's body together with what it is given."""
    bodies = ((len(args), attr.body) for _, args, attr in program.code if isinstance(attr, BoundedLoop))
    return max([Liveness.of(program).largest, *(given + _live(body) for given, body in bodies)])


def _order(program: Program, device: Device) -> tuple[Program, bool]:
    """The traced order or one of low pressure, whichever lets fewer values wait, cut; and whether it writes
    late.
    """
    ways = []
    for order in (_cut(each) for each in (schedule(program, SCHEDULING), program)):
        late = writes_late(order)
        size = sizes(order, device, 8 if program.dtype == "float32" else 4, late=late, most=device.shared)
        ways.append((plan(order, size.values, size.slots), order, late))
    return min(ways, key=_waiting)[1:]


def _waiting(way: tuple[Plan, Any, bool]) -> float:
    """What it costs that values wait, in loads and stores."""
    made = way[0]
    return made.loads + made.stores + NEAR * made.left


def choose(program: Program, device: Device, *, warps: int | None = None) -> Choice:
    """The fastest way by the model."""
    return candidates(program, device, warps=warps)[0]


def _near(every: Mapping[int, Sizes], live: int) -> list[int]:
    """Numbers of warps that may be the best: the most with which nothing waits, or nothing in local memory,
    and those next.
    """
    steps = list(every)
    found: set[int] = set()
    for with_slots in (False, True):
        rooms = [every[w].values + with_slots * every[w].slots for w in steps]
        k = max((n for n, room in enumerate(rooms) if room >= live), default=0)
        found |= set(steps[max(0, k - 1) : k + 3])
    return sorted(found)


def _blocks(warps: int) -> tuple[int, int]:
    """Threads of a block and blocks on a multiprocessor."""
    return (warps * WARP, 1) if warps <= 10 else (4 * WARP, warps // 4)


class Sizes(NamedTuple):
    """What a thread has: registers, values in them, and slots, of which its warp's buffers are already taken
    off.
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
        """Whether a program can be run so at all."""
        return self.values >= 8 and self.slots >= 0


def sizes(
    program: Program, device: Device, warps: int, *, late: bool, most: int, write: int = CHUNK, ahead: int = 0
) -> Sizes:
    """What each thread has with so many warps on a multiprocessor, which give up at most so many bytes of
    shared memory.
    """
    size = REALS[program.dtype].size
    ahead = ahead or AHEAD[program.dtype]
    threads, blocks = _blocks(warps)
    registers = min(255, device.registers // (threads * blocks) // 8 * 8)
    values = (registers - SPARE[program.dtype]) // (size // 4)
    out = -(-row_of(program.dtype, write) // ROW)  # buffers that a chunk of outputs takes
    buffers = ahead if late and out <= ahead else ahead + out
    room = min(device.block, most // blocks - 1024) // threads // size
    return Sizes(threads, blocks, registers, values, room - buffers * ROW, ahead, buffers, write)


def row_of(dtype: str, write: int) -> int:
    """Numbers in a row of the buffer in which so many elements of outputs are brought together: an odd
    number.
    """
    real = REALS[dtype]
    return (ring(real) if write * real.size == LINE else write) | 1


def writes_late(program: Program) -> bool:
    """Whether no output is written before the last input is read, so that they can share a buffer."""
    return plan(program, 1 << 30, 0).writes_late


def planned(program: Program, device: Device, size: Sizes, part: Part | None = None) -> Choice:
    """The choice of so many threads with so much for each; `part` where the program is one of several."""
    crossing = None if part is None else Crossing(part.chunks, part.keeps, part.reads)
    made = plan(
        program, size.values, size.slots, ahead=size.ahead, lead=LEAD, write=size.write, crossing=crossing
    )
    shared = min(size.slots, made.slots)
    warps = size.threads * size.blocks // WARP
    item = REALS[program.dtype].size
    cached = device.l1 - size.blocks * (size.threads * (shared + size.buffers * ROW) * item + 1024)
    work = (
        _operations(program)
        + made.loads
        + made.stores
        + _away(made.left + made.slots - shared, cached, size, item)
    )
    work += 0 if part is None else READ * len(part.reads) + len(part.keeps) + NEAR * made.again
    alone = ALONE if cached >= CACHE or item == 8 else SQUEEZED
    issued = 1.0 / (1.0 / ISSUE[program.dtype] + 1.0 / (alone * warps))
    rate = issued * WARP * device.multiprocessors * device.clock / max(work, 1)
    return Choice(
        program, made, size.threads, size.blocks, size.registers, shared, made.slots - shared, size.ahead, size.buffers,
        work, rate, issued / 4.0, write=size.write, part=part,
    )  # fmt: skip


def _away(values: int, cached: int, size: Sizes, item: int) -> int:
    """What it costs that so many values have no room on the multiprocessor: some of them are in the first
    cache.
    """
    values = max(0, values - (SLACK if size.registers >= 255 else 0))
    bytes_ = values * item * size.threads * size.blocks
    near = min(1.0, max(0, cached) / max(bytes_, 1))
    return round(values * (NEAR * near + FAR * (1.0 - near)))


def planned_pairs(packed: Packed, device: Device, size: Sizes) -> Choice:
    """The choice of so many threads, two of which do a state, with so much for each."""
    program = packed.program
    table = len(constants(program))
    room = size.slots - -(-2 * table // size.threads)
    made = pair_plan(packed, size.values, room, ahead=size.ahead, lead=LEAD)
    warps = size.threads * size.blocks // WARP
    item = REALS[program.dtype].size
    cached = device.l1 - size.blocks * (size.threads * (made.slots + size.buffers * ROW) * item + 1024)
    work = _operations(program) + made.loads + made.stores + _away(made.left, cached, size, item)
    alone = ALONE if cached >= CACHE or item == 8 else SQUEEZED
    issued = 1.0 / (1.0 / ISSUE[program.dtype] + 1.0 / (alone * warps))
    rate = issued * WARP / 2 * device.multiprocessors * device.clock / max(work, 1)
    return Choice(
        program, made, size.threads, size.blocks, size.registers, made.slots, 0, size.ahead, size.buffers,
        work, rate, issued / 4.0, places=packed.places, table=table,
    )  # fmt: skip


def _operations(program: Program) -> int:
    """Instructions, those of a loop's body as often as it may run, up to a hundred times."""
    total = 0
    for op, _, attr in program.code:
        if isinstance(attr, BoundedLoop):
            total += min(attr.limit, 100) * _operations(attr.body)
        elif op not in ("const", "const2", "input", "input2", "neg", "result", "even", "odd"):
            total += 1
    return total
