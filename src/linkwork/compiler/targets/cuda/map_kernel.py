"""Layout of the last kernel of a long program (see `maps`): contents of shared memory, rows of each warp."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, replace

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.isomorphic_maps import BodyCanonicalizer, CanonicalBody
from linkwork.compiler.targets.cuda.maps import Phase, Row, TailMaps, operation_count
from linkwork.compiler.targets.cuda.prelude import REALS, WARP
from linkwork.lazy import cached_property


@dataclass(frozen=True)
class MapGroup:
    """Maps that share one body.

    Attributes
    ----------
    maps
        Map -> order of its body
    program
        Body
    values
        For each shared value of the body, the value that each map has there
    """

    maps: dict[int, CanonicalBody]
    program: Program
    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Task:
    """Rows that a warp runs at once, all of one group: (map, number of the row in the phase)."""

    group: int
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MapKernel:
    """Last kernel of a program that runs in parts.

    Attributes
    ----------
    plan
        Maps, and outputs in phases
    states
        States of a block
    warps
        Warps of a block; each runs several rows of a map at once
    slots
        Crossing values per state in GPU memory, of all parts together
    first_leaf
        First of the slots that this kernel fills
    shared_limit
        Shared memory of a block [bytes]
    """

    plan: TailMaps
    states: int
    warps: int
    slots: int
    first_leaf: int
    shared_limit: int

    @property
    def rows_per_warp(self) -> int:
        """Rows that a warp runs at once."""
        return WARP // self.states

    @cached_property
    def groups(self) -> list[MapGroup]:
        """Maps, grouped by body."""
        bodies = BodyCanonicalizer()
        by_body = dict[tuple[object, ...], dict[int, CanonicalBody]]()
        for v, row_map in self.plan.maps.items():
            body = bodies.canonical(row_map.body)
            key = (
                body.program.inputs,
                tuple((op, args, repr(attr)) for op, args, attr in body.program.code),
                *body.program.results,
            )
            by_body.setdefault(key, {})[v] = body
        return [group for maps in by_body.values() for group in self._groups_of(maps)]

    def _groups_of(self, maps: dict[int, CanonicalBody]) -> list[MapGroup]:
        """Return maps of one body as one group, or one group each if constants or inputs differ."""
        code = self.plan.program.code
        program = next(iter(maps.values())).program
        by_map = [
            [self.plan.maps[v].shared(code[v].args)[k] for k in body.shared] for v, body in maps.items()
        ]
        values = tuple(zip(*by_map))
        differing = (a for map_values in values if len(set(map_values)) > 1 for a in map_values)
        if any(code[self.plan.unsigned[a]].op in ("const", "input") for a in differing):
            return [group for v, body in maps.items() for group in self._groups_of({v: body})]
        return [MapGroup(maps, program, values)]

    @property
    def instructions(self) -> int:
        """Operations, loads and stores of all bodies."""
        return sum(
            operation_count(group.program)
            + sum(a.size for a in (*group.program.inputs, *group.program.outputs))
            for group in self.groups
        )

    # shared memory: rows of outputs, then values that rows share

    def pitch(self, phase: Phase) -> int:
        """Return the stride between the rows of two states [numbers].

        It is that of the output if nothing lies behind a row, so that all rows are one piece. Otherwise
        neighbouring elements of all states, one for each row of a warp, lie in different banks.
        """
        if phase.length == self.plan.program.outputs[phase.array].size:
            return phase.length
        return phase.length + (self.rows_per_warp - phase.length) % WARP

    @cached_property
    def row_numbers(self) -> int:
        """Shared memory of a state's row, the same for all outputs [numbers, a multiple of 16 bytes]."""
        return -(-max(map(self.pitch, self.plan.phases)) // 4) * 4

    @cached_property
    def uses(self) -> Counter[int]:
        """Tasks and trees that use each value shared by all maps of a group, most used first."""
        uses: Counter[int] = Counter()
        tasks = Counter(
            task.group
            for phase in self.plan.phases
            for warp_tasks in self.tasks(phase)
            for task in warp_tasks
        )
        for k, group in enumerate(self.groups):
            common = {
                self.plan.unsigned[a]
                for map_values in group.values
                for a in map_values
                if len(set(map_values)) == 1
            }
            for a in common:
                uses[a] += tasks[k]
        code = self.plan.program.code
        for phase in self.plan.phases:
            for tree in phase.trees:
                operands = {self.plan.unsigned[a] for u in tree.operations for a in code[u].args}
                for a in operands - set(tree.operations) - phase.places.keys():
                    uses[a] += 1
        return Counter({v: n for v, n in uses.most_common() if code[v].op != "const"})

    @cached_property
    def per_map_values(self) -> list[int]:
        """Signed values that differ between the maps of a group, at equal offsets from map to map; they come
        first in shared memory.
        """
        placed: list[int] = []
        for group in self.groups:
            known = {self.plan.unsigned[a] for a in placed}
            lists: list[tuple[int, ...]] = []
            for map_values in group.values:
                unsigned = {self.plan.unsigned[a] for a in map_values}
                if len(unsigned) == len(map_values) > 1 and not unsigned & known:
                    lists.append(map_values)
                    known |= unsigned
            placed += [map_values[k] for k in range(len(group.maps)) for map_values in lists]
        return placed

    @cached_property
    def shared_values(self) -> list[int]:
        """Contents of shared memory in order: `per_map_values`, then the values that most tasks share.

        Values that do not fit are read from where they wait.
        """
        known = {self.plan.unsigned[a] for a in self.per_map_values}
        size = REALS[self.plan.program.dtype].size
        capacity = (self.shared_limit - self.states * self.row_numbers * size) // (self.states * size)
        differing = [
            a
            for group in self.groups
            for map_values in group.values
            for a in map_values
            if len(set(map_values)) > 1
        ]
        required = [v for v in dict.fromkeys(self.plan.unsigned[a] for a in differing) if v not in known]
        optional = [v for v in self.uses if v not in known and v not in required]
        fits = max(0, capacity - len(self.per_map_values) - len(required))
        return sorted(self.per_map_values + required + optional[:fits], key=lambda v: not self.waits(v))

    def waits(self, v: int) -> bool:
        """Return whether a value waits in GPU memory; others are inputs."""
        return self.plan.unsigned[v] in self.plan.slots

    def is_negated(self, v: int) -> bool:
        """Return whether a value is the negation of one that waits in GPU memory."""
        return self.waits(v) and self.plan.negated(v)

    def with_ordered_slots(self) -> MapKernel:
        """Return the kernel with the contents of shared memory in the first slots, in that order."""
        first = [self.plan.unsigned[v] for v in self.shared_values if self.waits(v)]
        return replace(self, plan=TailMaps(self.plan.program, first=first))

    @cached_property
    def shared_places(self) -> dict[int, tuple[int, bool]]:
        """Value -> its place in shared memory, and whether it is stored negated."""
        return {self.plan.unsigned[a]: (k, self.plan.negated(a)) for k, a in enumerate(self.shared_values)}

    def offsets(self, map_values: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return, for each map, the offset of its value from that of the first map, and whether its sign is
        opposite to the stored one.
        """
        places = [self.shared_places[self.plan.unsigned[a]] for a in map_values]
        flips = [self.plan.negated(a) != negated for a, (_, negated) in zip(map_values, places)]
        return tuple([(place - places[0][0], flip) for (place, _), flip in zip(places, flips)])

    def offset_patterns(self, group: MapGroup) -> list[tuple[tuple[int, int], ...]]:
        """Return the distinct offsets of a group's values; a thread has one pointer for each."""
        return list(
            dict.fromkeys(self.offsets(map_values) for map_values in group.values if len(set(map_values)) > 1)
        )

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block [bytes]."""
        numbers = self.states * (self.row_numbers + len(self.shared_values))
        return numbers * REALS[self.plan.program.dtype].size

    # work of the warps

    def tasks(self, phase: Phase) -> list[list[Task]]:
        """Return the tasks of each warp in order: long tasks first, each for the least loaded warp."""
        by_warp: list[list[Task]] = [[] for _ in range(self.warps)]
        load = [(0, warp) for warp in range(self.warps)]
        work = [operation_count(group.program) for group in self.groups]
        for k in sorted(range(len(self.groups)), key=lambda k: -work[k]):
            rows = [(v, row) for v in self.groups[k].maps for row in range(len(phase.rows.get(v, ())))]
            for first in range(0, len(rows), self.rows_per_warp):
                # an incomplete task repeats its last row
                taken = [rows[min(first + n, len(rows) - 1)] for n in range(self.rows_per_warp)]
                done, warp = heapq.heappop(load)
                by_warp[warp].append(Task(k, tuple(taken)))
                heapq.heappush(load, (done + work[k], warp))
        return by_warp

    def rows(self, group: MapGroup) -> list[Row]:
        """Return all rows of a group, their results in the order of the body."""
        return [
            self.ordered(group, v, row)
            for phase in self.plan.phases
            for v in group.maps
            for row in phase.rows.get(v, ())
        ]

    def ordered(self, group: MapGroup, v: int, row: Row) -> Row:
        """Return a row with its results in the order of the body."""
        return Row(row.sources, tuple([row.targets[e] for e in group.maps[v].results]))
