"""Maps of a long program, and its outputs, as a last kernel: a block of several warps has a few states
together.

What the maps take was made by the parts before (see `split`) and waits in memory of the GPU. What rows share
is brought to shared memory once for all of them. Each warp takes several rows at once, of the same states,
and runs the map's body, which is short code. Outputs are brought together in shared memory one after the
other, whole rows of all states of the block, which lie side by side in the user's array: so memory is written
in whole sectors only. Elements of outputs that are no results of maps are copied from where they wait, or
computed here where they come from such results (`trees`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.operations import REAL
from linkwork.compiler.ir.program import Array, Program, RowMap
from linkwork.compiler.passes.dead import drop_dead
from linkwork.compiler.passes.unroll import unroll
from linkwork.compiler.targets.cuda.split import can_split
from linkwork.lazy import cached_property

LEAVES = frozenset({"const", "input", "neg"})
KEPT = "kept"  # the output of the program before the maps


def last_maps(program: Program) -> Program:
    """The program with those maps only that can be run last: whose results only outputs need, or what leads
    to one of them.
    """
    while True:
        tail = _tail(program)
        users = _users(program)
        maps = [(v, attr.body) for v, (_, _, attr) in enumerate(program.code) if isinstance(attr, RowMap)]
        last = {v for v, body in maps if can_split(body) and all(tail[u] for r in users[v] for u in users[r])}
        if len(last) == len(maps):
            return program
        program = drop_dead(unroll(program, last))


def _users(program: Program) -> list[list[int]]:
    needed = needed_values(program)
    users: list[list[int]] = [[] for _ in program.code]
    for v, (_, args, _) in enumerate(program.code):
        for a in dict.fromkeys(args if needed[v] else ()):
            users[a].append(v)
    return users


def _tail(program: Program) -> list[bool]:
    """For each value, whether it is an operation that leads to one value of the outputs only, or is one that
    nobody reads.
    """
    users = _users(program)
    outputs = set(program.result_values())
    kinds = program.kinds
    tail = [False] * len(program.code)
    for v in range(len(program.code) - 1, -1, -1):
        op, args, _ = program.code[v]
        if op not in ("const", "input", "map", "loop", "result") and all(
            kinds[u] == REAL for u in (v, *args)
        ):
            alone = v in outputs and not users[v]
            tail[v] = alone or (v not in outputs and len(users[v]) == 1 and tail[users[v][0]])
    return tail


@dataclass(frozen=True)
class Tree:
    """Operations that lead to elements of an output: in order, the last gives the value."""

    operations: tuple[int, ...]
    value: int
    elements: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A row of a map, run for one output: where its values wait, and where its results go in the rows of the
    output.

    sources: slot of each value, and whether its sign is turned; targets: place of each result, None where
    nobody wants it.
    """

    sources: tuple[tuple[int, bool], ...]
    targets: tuple[int | None, ...]


@dataclass
class Phase:
    """What is done for one output array.

    Attributes
    ----------
    array
        Which
    rows
        Map -> its rows that give elements
    copies
        (slot, sign turned, element, element) of values that only wait to be written
    trees
        What is computed from results of maps
    places
        Result of a map -> where it lies in the row of an output, or behind it
    length
        Numbers of a row, with those behind it
    """

    array: int
    rows: dict[int, list[Row]] = field(default_factory=dict)
    copies: list[tuple[int, bool, int, int]] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    length: int = 0


class LastMaps:
    """The plan of the last kernel of a program whose maps can all be run last (see `last_maps`).

    Attributes
    ----------
    program
        All of it
    main
        What comes before, whose output are the values that stay in memory, slot by slot
    slots
        Value -> its slot there: those that come `first`, then the rows of maps
    of_rows
        The first slot behind these
    fills
        Constants and inputs that a block writes to memory itself -> their slots, behind all others
    phases
        One for each output, in the order in which they are written
    """

    def __init__(self, program: Program, *, first: Iterable[int] = ()) -> None:
        self.program = program
        code = program.code
        self.plain = [-1] * len(code)  # value -> the one that it is but for its sign
        for v, (op, args, _) in enumerate(code):
            self.plain[v] = self.plain[args[0]] if op == "neg" else v
        self.maps = {v: attr for v, (_, _, attr) in enumerate(code) if isinstance(attr, RowMap)}
        self.of_map = _depends(program)
        self.tail = _tail(program)
        elements = self._elements()
        grown = self._grown(elements)
        shared = [a for v, each in self.maps.items() for a in each.shared(code[v].args)]
        rows = [a for v, each in self.maps.items() for row in each.rows(code[v].args) for a in row]
        copied = [v for some in elements for v in some if v not in grown]
        leaves = [a for tree in grown.values() for a in tree.value_leaves]
        self.slots: dict[int, int] = {}
        self.of_rows = 0
        self.fills: dict[int, int] = {}
        for some in (first, rows, [*shared, *copied, *leaves]):
            for v in self._plain_of(some):
                if v not in self._results and code[v].op not in ("const", "input"):
                    self.slots.setdefault(v, len(self.slots))
            self.of_rows = len(self.slots) if some is rows else self.of_rows
        for v in self._plain_of([*rows, *copied]):
            if code[v].op in ("const", "input"):
                self.fills.setdefault(v, len(self.fills))
        self.main = self._before()
        phases = [self._phase(k, some, grown) for k, some in enumerate(elements)]
        self.phases = sorted(
            phases, key=lambda phase: -len(phase.copies)
        )  # what only waits comes first, while others load

    @cached_property
    def _results(self) -> dict[int, tuple[int, int]]:
        """Result of a map -> the map, and which of its results."""
        return {r: (args[0], attr) for r, (op, args, attr) in enumerate(self.program.code) if op == "result"}

    def _plain_of(self, values: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self.plain[v] for v in values))

    def _elements(self) -> list[dict[int, list[int]]]:
        """For each output, its values and which elements each of them is."""
        found: list[dict[int, list[int]]] = []
        for values in self.program.results:
            found.append({})
            for element, v in enumerate(values):
                found[-1].setdefault(v, []).append(element)
        return found

    def _grown(self, elements: list[dict[int, list[int]]]) -> dict[int, _Grown]:
        """Values of outputs that are computed here, from results of maps, and from what."""
        roots = [v for some in elements for v in some if self.tail[v] and self.of_map[v]]
        return {v: self._tree(v) for v in roots}

    def _tree(self, root: int) -> _Grown:
        code = self.program.code
        inside = []
        leaves = []
        waiting = [root]
        while waiting:
            v = waiting.pop()
            if self.tail[v]:
                inside.append(v)
                waiting += code[v].args
            else:
                leaves.append(v)
        return _Grown(tuple(sorted(set(inside))), tuple(dict.fromkeys(leaves)))

    def _before(self) -> Program:
        program = self.program
        values = tuple(self.slots)
        return drop_dead(replace(program, outputs=(Array(KEPT, (len(values),)),), results=(values,)))

    def slot(self, v: int) -> tuple[int, bool]:
        """The slot of what waits in memory, and whether its sign is turned."""
        plain = self.plain[v]
        slot = len(self.slots) + self.fills[plain] if plain in self.fills else self.slots[plain]
        return slot, self.turned(v)

    def turned(self, v: int) -> bool:
        """Whether a value is another one with its sign turned."""
        turned = False
        while self.program.code[v].op == "neg":
            v = self.program.code[v].args[0]
            turned = not turned
        return turned

    def _phase(self, array: int, elements: dict[int, list[int]], grown: dict[int, _Grown]) -> Phase:
        phase = Phase(array)
        size = self.program.outputs[array].size
        lying: list[tuple[int, int]] = []  # result of a map, and the element that a tree makes of it
        for v, some in elements.items():
            if v in self._results:
                phase.places[v] = some[0]
                if len(some) > 1:
                    phase.trees.append(Tree((), v, tuple(some[1:])))
            elif v in grown:
                tree = Tree(grown[v].operations, v, tuple(some))
                phase.trees.append(tree)
                lying += [(a, some[0]) for a in self._plain_of(grown[v].value_leaves) if a in self._results]
            else:
                slot, turned = self.slot(v)
                for k in range(0, len(some), 2):
                    phase.copies.append((slot, turned, some[k], some[min(k + 1, len(some) - 1)]))
        phase.length = size
        taken = Counter(r for r, _ in lying), Counter(place for _, place in lying)
        for r, place in lying:  # where its tree's value will lie, unless others want it or that place
            if r not in phase.places:
                alone = taken[0][r] == taken[1][place] == 1
                phase.places[r] = place if alone else phase.length
                phase.length += not alone
        self._rows(phase)
        return phase

    def _rows(self, phase: Phase) -> None:
        """The rows of maps that give what is wanted."""
        found: dict[int, dict[int, dict[int, int]]] = {}  # map -> row -> element -> place
        for r, place in phase.places.items():
            v, number = self._results[r]
            row, element = divmod(number, self.maps[v].gives)
            found.setdefault(v, {}).setdefault(row, {})[element] = place
        for v, rows in sorted(found.items()):
            each = self.maps[v]
            args = each.rows(self.program.code[v].args)
            for row, places in sorted(rows.items()):
                sources = tuple([self.slot(a) for a in args[row]])
                targets = tuple([places.get(e) for e in range(each.gives)])
                phase.rows.setdefault(v, []).append(Row(sources, targets))

    @property
    def reads(self) -> int:
        """Values of a state that wait in memory for it."""
        return len(self.slots)

    @cached_property
    def operations(self) -> int:
        """Operations of a state."""
        bodies = {v: operations(each.body) for v, each in self.maps.items()}
        rows = sum(bodies[v] * len(some) for phase in self.phases for v, some in phase.rows.items())
        return rows + sum(len(tree.operations) for phase in self.phases for tree in phase.trees)

    @property
    def once(self) -> int:
        """Operations of a state where every row of a map is run once."""
        return sum(each.count * operations(each.body) for each in self.maps.values())


@dataclass(frozen=True)
class _Grown:
    """The operations of a tree, and the values that it begins with."""

    operations: tuple[int, ...]
    value_leaves: tuple[int, ...]


def operations(program: Program) -> int:
    """Instructions of straight code."""
    return sum(op not in ("const", "input", "neg") for op, _, _ in program.code)


def _depends(program: Program) -> list[bool]:
    """For each value, whether it comes from the result of a map."""
    found: list[bool] = []
    for op, args, _ in program.code:
        found.append(op == "result" or any(found[a] for a in args))
    return found
