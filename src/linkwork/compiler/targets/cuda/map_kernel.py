"""How the last kernel of a long program is run (see `maps`): what lies in shared memory, and which warp takes
which rows.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, replace

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.alike import Bodies, Body
from linkwork.compiler.targets.cuda.maps import LastMaps, Phase, Row, operations
from linkwork.compiler.targets.cuda.prelude import REALS, WARP
from linkwork.lazy import cached_property


@dataclass(frozen=True)
class Alike:
    """Maps with one body.

    Attributes
    ----------
    maps
        Which, and their bodies' order
    program
        The body
    values
        For each shared value of the body, what each map has there
    """

    maps: dict[int, Body]
    program: Program
    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Task:
    """What a warp does at once: for each of its turns, a row of a map (the map, and the number of the row in
    a phase).
    """

    alike: int
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MapKernel:
    """A last kernel as it is run: so many states in a block, of so many warps, each of which takes several
    rows of a map.

    `slots` of a state in memory of the GPU, of all parts together; `fill` is the first of those that this
    kernel writes. `room` is for how many bytes of shared memory.
    """

    plan: LastMaps
    states: int
    warps: int
    slots: int
    fill: int
    room: int

    @property
    def turns(self) -> int:
        """Rows that a warp takes at once."""
        return WARP // self.states

    @cached_property
    def alike(self) -> list[Alike]:
        """The maps, those with one body together."""
        bodies = Bodies()
        found = dict[tuple[object, ...], dict[int, Body]]()
        for v, each in self.plan.maps.items():
            body = bodies.ordered(each.body)
            key = (
                body.program.inputs,
                tuple((op, args, repr(attr)) for op, args, attr in body.program.code),
                *body.program.results,
            )
            found.setdefault(key, {})[v] = body
        return [made for maps in found.values() for made in self._alike(maps)]

    def _alike(self, maps: dict[int, Body]) -> list[Alike]:
        code = self.plan.program.code
        program = next(iter(maps.values())).program
        given = [[self.plan.maps[v].shared(code[v].args)[k] for k in body.shared] for v, body in maps.items()]
        values = tuple(zip(*given))
        if any(
            code[self.plan.plain[a]].op in ("const", "input")
            for some in values
            if len(set(some)) > 1
            for a in some
        ):
            return [each for v, body in maps.items() for each in self._alike({v: body})]
        return [Alike(maps, program, values)]

    @property
    def instructions(self) -> int:
        """Of all bodies: their operations, and what they load and store."""
        return sum(
            operations(each.program) + sum(a.size for a in (*each.program.inputs, *each.program.outputs))
            for each in self.alike
        )

    # shared memory: rows of outputs, then values that rows share

    def pitch(self, phase: Phase) -> int:
        """Numbers between the rows of two states: as in the output where nothing lies behind them, so that
        all are one piece.

        Else so that neighbouring elements of all states, one of each turn of a warp, lie in different banks.
        """
        if phase.length == self.plan.program.outputs[phase.array].size:
            return phase.length
        return phase.length + (self.turns - phase.length) % WARP

    @cached_property
    def longest(self) -> int:
        """Numbers of a state's rows in shared memory, those of all outputs one after the other, so that 16
        bytes are whole.
        """
        return -(-max(map(self.pitch, self.plan.phases)) // 4) * 4

    @cached_property
    def uses(self) -> Counter[int]:
        """How many tasks of warps use what all maps of a kind share, and trees; those that are used most come
        first.
        """
        found: Counter[int] = Counter()
        tasks = Counter(
            task.alike for phase in self.plan.phases for some in self.tasks(phase) for task in some
        )
        for k, each in enumerate(self.alike):
            for a in {self.plan.plain[a] for some in each.values for a in some if len(set(some)) == 1}:
                found[a] += tasks[k]
        code = self.plan.program.code
        for phase in self.plan.phases:
            for tree in phase.trees:
                inside = set(tree.operations)
                for a in (
                    {self.plan.plain[a] for u in tree.operations for a in code[u].args}
                    - inside
                    - phase.places.keys()
                ):
                    found[a] += 1
        return Counter({v: n for v, n in found.most_common() if code[v].op != "const"})

    @cached_property
    def own(self) -> list[int]:
        """Values that lie first in shared memory, with their sign: those of maps with one body at equal
        distances.
        """
        found: list[int] = []
        for each in self.alike:
            known = {self.plan.plain[a] for a in found}
            lists: list[tuple[int, ...]] = []
            for some in each.values:
                plain = {self.plan.plain[a] for a in some}
                if len(plain) == len(some) > 1 and not plain & known:
                    lists.append(some)
                    known |= plain
            found += [some[k] for k in range(len(each.maps)) for some in lists]
        return found

    @cached_property
    def loaded(self) -> list[int]:
        """What lies in shared memory, in order: values that are maps' own, with their sign, and those that
        most tasks share.

        The rest has no room there, and is read where it waits.
        """
        known = {self.plan.plain[a] for a in self.own}
        item = REALS[self.plan.program.dtype].size
        most = (self.room - self.states * self.longest * item) // (self.states * item) - len(self.own)
        fixed = [a for each in self.alike for some in each.values for a in some if len(set(some)) > 1]
        fixed = [v for v in dict.fromkeys(self.plan.plain[a] for a in fixed) if v not in known]
        more = [v for v in self.uses if v not in known and v not in fixed]
        found = self.own + fixed + more[: max(0, most - len(fixed))]
        return sorted(found, key=lambda v: not self.waits(v))

    def waits(self, v: int) -> bool:
        """Whether a value waits in memory, or is an input."""
        return self.plan.plain[v] in self.plan.slots

    def arranged(self) -> MapKernel:
        """The same kernel with what it loads to shared memory in the first slots, in that order."""
        first = [self.plan.plain[v] for v in self.loaded if self.waits(v)]
        return replace(self, plan=LastMaps(self.plan.program, first=first))

    @cached_property
    def shared(self) -> dict[int, tuple[int, bool]]:
        """Value -> its place in shared memory, and whether it lies there with its sign turned."""
        return {self.plan.plain[a]: (k, self.plan.turned(a)) for k, a in enumerate(self.loaded)}

    def far(self, some: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """How far the values of maps lie behind the first one's, and whether their signs are turned
        otherwise.
        """
        places = [self.shared[self.plan.plain[a]] for a in some]
        turned = [self.plan.turned(a) != there for a, (_, there) in zip(some, places)]
        return tuple([(place - places[0][0], sign) for (place, _), sign in zip(places, turned)])

    def distances(self, each: Alike) -> list[tuple[tuple[int, int], ...]]:
        """The ways in which values of maps with one body lie apart: for each a thread has a pointer."""
        return list(dict.fromkeys(self.far(some) for some in each.values if len(set(some)) > 1))

    @property
    def shared_bytes(self) -> int:
        """Bytes of a block."""
        return self.states * (self.longest + len(self.loaded)) * REALS[self.plan.program.dtype].size

    # who does what

    def tasks(self, phase: Phase) -> list[list[Task]]:
        """For each warp what it does one after the other: long ones first, each for the warp that has least
        to do.
        """
        found: list[list[Task]] = [[] for _ in range(self.warps)]
        load = [(0, warp) for warp in range(self.warps)]
        work = [operations(each.program) for each in self.alike]
        for k in sorted(range(len(self.alike)), key=lambda k: -work[k]):
            some = [(v, row) for v in self.alike[k].maps for row in range(len(phase.rows.get(v, ())))]
            for first in range(0, len(some), self.turns):
                rows = [
                    some[min(first + n, len(some) - 1)] for n in range(self.turns)
                ]  # the last again where there are too few
                done, warp = heapq.heappop(load)
                found[warp].append(Task(k, tuple(rows)))
                heapq.heappush(load, (done + work[k], warp))
        return found

    def rows(self, each: Alike) -> list[Row]:
        """All rows of such maps, their results in the order of the body."""
        return [
            self.ordered(each, v, row)
            for phase in self.plan.phases
            for v in each.maps
            for row in phase.rows.get(v, ())
        ]

    def ordered(self, each: Alike, v: int, row: Row) -> Row:
        """A row with its results in the order of the body."""
        return Row(row.sources, tuple([row.targets[e] for e in each.maps[v].results]))
