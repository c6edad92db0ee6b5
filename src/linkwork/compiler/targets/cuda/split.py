"""Long programs as several kernels (parts), which run one after the other over many states.

A long program has more live values than registers and shared memory hold, and code that exceeds the
instruction cache. A part has less of both. Values that a part makes and a later part needs cross in GPU
memory: stored once where they are made, contiguous for a warp, and read ahead in each part that uses them.
Parts are bound by that traffic, so the program is cut where it is least. Constants, inputs, signs and
conditions do not cross, nor do values that a few operations can recompute.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import Array, Instruction, Program
from linkwork.compiler.targets.cuda.actions import Chunk

MAX_INSTRUCTIONS = 3800  # instructions of a part, without loads from and stores to shared memory
CUT_GRID = 128  # operations between possible cuts
READ_COST = 2  # instructions that read a crossing value
DIVISION_COST = 10  # instructions of a division or a root
WRITE_COST = 1.6  # instructions that write an element of an output
MAX_RECOMPUTED = 8  # operations that a part recomputes rather than read their result
LEAVES = frozenset({"const", "input", "neg"})


@dataclass(frozen=True)
class Part:
    """One of the kernels of a program.

    Attributes
    ----------
    program
        Instructions; the last input holds the crossing values read, the last output those made
    inputs, outputs
        Arrays of the full program, which are arguments of every part
    reads
        Slot in GPU memory of each crossing value read
    chunks
        Elements of the full program's outputs that its outputs are
    keeps
        Slot in GPU memory of each crossing value made
    slots
        Slots of all parts together
    """

    program: Program
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    reads: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    keeps: tuple[int, ...]
    slots: int


def can_split(program: Program) -> bool:
    """Return whether a program can run in parts: it has no loops."""
    return not any(op == "loop" for op, _, _ in program.code)


def split(
    program: Program, write: int, *, max_instructions: int = MAX_INSTRUCTIONS, full: Program | None = None
) -> list[Part]:
    """Return the parts of a lowered program without loops, which write up to `write` elements of outputs at a
    time.

    If the program is what precedes the maps of a `full` one (see `maps`), its only output is the values that
    stay in memory for them, in slots from 0 on.
    """
    graph = _Graph(program, stays=full is not None)
    bounds = _bounds(graph, max_instructions)
    pieces = [graph.order[a:b] for a, b in pairwise(bounds)]
    home = {v: k for k, piece in enumerate(pieces) for v in piece}
    chunks = [[] for _ in pieces] if graph.stays else _chunks(graph, home, write)
    last: dict[int, int] = {}  # crossing value -> the last part that reads it
    made: list[set[int]] = []  # values that each part computes, for the first time or not
    for k, piece in enumerate(pieces):
        used = [graph.uses[v] for v in piece] + [
            graph.sources[e] for _, elements in chunks[k] for e in elements
        ]
        reads = {a for each in used for a in each if home[a] != k}
        recomputed = _recomputed(graph, reads)
        made.append(recomputed.union(piece))
        last.update(dict.fromkeys(reads - recomputed, k))
    place, slots = _places(pieces, last, graph.stays)
    arrays = program if full is None else full
    return [
        _PartBuilder(program, arrays, made[k]).part(piece, chunks[k], place, slots)
        for k, piece in enumerate(pieces)
    ]


def crossing(parts: Iterable[Part]) -> int:
    """Return the crossing values per state, counting each write and read in GPU memory."""
    return sum(len(part.reads) + len(part.keeps) for part in parts)


# cuts


class _Graph:
    """Operations in order, with the operations that each uses, also through signs and conditions."""

    def __init__(self, program: Program, *, stays: bool = False) -> None:
        self.program = program
        self.stays = program.results[0] if stays else ()  # values that stay in memory
        needed = needed_values(program)
        kinds = program.kinds
        self.order: list[int] = []
        self.uses: dict[int, tuple[int, ...]] = {}
        # for each value, the operations from which it is recomputed: itself if it can cross
        self.sources: list[tuple[int, ...]] = []
        for v, (op, args, _) in enumerate(program.code):
            uses = tuple(dict.fromkeys(u for a in args for u in self.sources[a]))
            can_cross = op not in LEAVES and kinds[v] != BOOL
            self.sources.append((v,) if can_cross else uses)
            if can_cross and needed[v]:
                self.order.append(v)
                self.uses[v] = uses

    def weights(self) -> list[float]:
        """Return the instructions of each operation and of writing the outputs that it makes."""
        code = self.program.code
        written: dict[int, int] = {}
        for v in () if self.stays else self.program.result_values():
            for u in self.sources[v]:
                written[u] = written.get(u, 0) + 1
        return [
            (DIVISION_COST if code[v].op in ("div", "sqrt") else 1) + WRITE_COST * written.get(v, 0)
            for v in self.order
        ]


def _bounds(graph: _Graph, max_instructions: int) -> list[int]:
    """Return the starts of the parts and the end: those of least traffic without a part that is too long."""
    count = len(graph.order)
    grid = max(1, min(CUT_GRID, max_instructions // 16))
    blocks = -(-count // grid)
    reads, keeps, weight = _traffic(graph, grid, blocks)
    best = [(0, 0)]  # block -> least traffic before it, start of the part before it
    for end in range(1, blocks + 1):
        options = []
        for start in range(end - 1, -1, -1):
            if (
                start < end - 1
                and weight[end] - weight[start] + READ_COST * reads[start][end] + keeps[start][end]
                > max_instructions
            ):
                break
            options.append((best[start][0] + reads[start][end] + keeps[start][end], start))
        best.append(min(options))
    bounds = [blocks]
    while bounds[-1]:
        bounds.append(best[bounds[-1]][1])
    return [min(b * grid, count) for b in reversed(bounds)]


def _traffic(graph: _Graph, grid: int, blocks: int) -> tuple[list[list[int]], list[list[int]], list[float]]:
    """Return the crossing values that a part from block a to before block b reads, those that it makes, and
    the instructions before b.
    """
    block = {v: n // grid for n, v in enumerate(graph.order)}
    reads = [[0] * (blocks + 1) for _ in range(blocks + 1)]
    keeps = [[0] * (blocks + 1) for _ in range(blocks + 1)]
    used: dict[int, int] = {}  # value -> last block so far that used it
    for v in graph.order:
        b = block[v]
        for a in graph.uses[v]:
            before = used.get(a, block[a])
            if before < b:  # read by parts that begin after block `before` and not after block b
                reads[before + 1][b + 1] += 1
                reads[b + 1][b + 1] -= 1
                used[a] = b
    stays = set(graph.stays)
    # kept by parts that contain the block of a value and end before the block that uses it last
    for a in used.keys() | stays:
        keeps[block[a]][block[a] + 1] += 1
        if a not in stays:
            keeps[block[a]][used[a] + 1] -= 1
    for a in range(blocks + 1):
        for b in range(blocks + 1):
            reads[a][b] += reads[a - 1][b] if a else 0
    for row in (*reads, *keeps):
        row[:] = accumulate(row)
    for a in range(blocks - 1, -1, -1):
        for b in range(blocks + 1):
            keeps[a][b] += keeps[a + 1][b]
    weights = graph.weights()
    sums = [0.0, *accumulate(sum(weights[k * grid : (k + 1) * grid]) for k in range(blocks))]
    return reads, keeps, sums


def _chunks(graph: _Graph, home: dict[int, int], write: int) -> list[list[tuple[Chunk, tuple[int, ...]]]]:
    """Return, for each part, the chunks of outputs of which it makes the last element.

    Others of them cross: pieces of a chunk would be written to parts of sectors, which memory then reads
    first.
    """
    chunks: list[list[tuple[Chunk, tuple[int, ...]]]] = [[] for _ in range(1 + max(home.values(), default=0))]
    for array, values in enumerate(graph.program.results):
        for start in range(0, len(values), write):
            elements = values[start : start + write]
            part = max((home[u] for v in elements for u in graph.sources[v]), default=0)
            chunks[part].append((Chunk(array, start, len(elements)), elements))
    return chunks


def _recomputed(graph: _Graph, reads: set[int]) -> set[int]:
    """Return operations that a part recomputes rather than read their results: few, on values that it reads
    anyway.
    """
    remaining = set(reads)
    recomputed = set[int]()
    for v in sorted(reads, reverse=True):
        closure = set[int]()
        waiting = [v]
        while waiting and len(closure) <= MAX_RECOMPUTED:
            u = waiting.pop()
            closure.add(u)
            waiting += [
                a for a in graph.uses[u] if a not in remaining and a not in recomputed and a not in closure
            ]
        if len(closure) <= MAX_RECOMPUTED:
            remaining.discard(v)
            recomputed |= closure
    return recomputed


def _places(
    pieces: list[list[int]], last: dict[int, int], stays: Sequence[int]
) -> tuple[dict[int, int], int]:
    """Return the slot of each crossing value, and the number of slots.

    A slot is free after the last part that reads it. Values that stay have the first slots, in order.
    """
    ending: dict[int, list[int]] = {}
    for v, k in last.items():
        ending.setdefault(k, []).append(v)
    place = {v: slot for slot, v in enumerate(stays)}
    free: list[int] = []
    slots = len(stays)
    for k, piece in enumerate(pieces):
        for v in piece:
            if v in last and v not in place:
                place[v] = heapq.heappop(free) if free else slots
                slots = max(slots, place[v] + 1)
        for v in ending.get(k, ()):
            if place[v] >= len(stays):
                heapq.heappush(free, place[v])
    return place, slots


# the parts


class _PartBuilder:
    """Construction of a part that makes the values `made`."""

    def __init__(self, program: Program, arrays: Program, made: set[int]) -> None:
        self.program = program
        self.arrays = arrays
        self.made = made
        self.code: list[Instruction] = []
        self.at: dict[int, int] = {}  # value of the full program -> value of the part
        self.reads: list[int] = []

    def part(
        self, piece: list[int], chunks: list[tuple[Chunk, tuple[int, ...]]], place: dict[int, int], slots: int
    ) -> Part:
        program = self.program
        for v in piece:
            self._value(v)
        results = [tuple([self._value(v) for v in elements]) for _, elements in chunks]
        kept_values = [v for v in piece if v in place]
        inputs = list(program.inputs)
        outputs = [Array(f"chunk{n}", (chunk.length,)) for n, (chunk, _) in enumerate(chunks)]
        if self.reads:
            inputs.append(Array("crossing in", (len(self.reads),)))
        if kept_values:
            outputs.append(Array("crossing out", (len(kept_values),)))
            results.append(tuple(self.at[v] for v in kept_values))
        made = Program(
            program.name, tuple(inputs), tuple(outputs), tuple(self.code), tuple(results), program.dtype
        )
        reads, keeps = (
            tuple(place[v] for v in crossing_values) for crossing_values in (self.reads, kept_values)
        )
        return Part(
            made,
            program.inputs,
            self.arrays.outputs,
            reads,
            tuple(chunk for chunk, _ in chunks),
            keeps,
            slots,
        )

    def _value(self, v: int) -> int:
        """Return a value in this part, which makes, recomputes or reads it."""
        if v in self.at:
            return self.at[v]
        op, args, attr = self.program.code[v]
        if op not in LEAVES and self.program.kinds[v] != BOOL and v not in self.made:
            self.reads.append(v)
            made = Instruction("input", (), (len(self.program.inputs), len(self.reads) - 1))
        else:
            made = Instruction(op, tuple([self._value(a) for a in args]), attr)
        self.at[v] = len(self.code)
        self.code.append(made)
        return self.at[v]
