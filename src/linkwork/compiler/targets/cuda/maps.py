"""Maps and outputs of a long program as its last kernel, in which a block of several warps runs a few states.

The arguments of the maps come from earlier parts (see `split`) and wait in GPU memory. Values shared by rows
are copied to shared memory once. Each warp runs several rows of the same states at once; a map's body is
short code. Outputs are assembled in shared memory one array at a time, whole rows of all states of the block,
which are contiguous in the user's array, so that memory is written in whole sectors only. Other elements of
outputs are copied from where they wait, or computed here if they depend on results of maps (`trees`).
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
CROSSING_OUTPUT = "kept"  # name of the output of the program before the maps


def tail_maps(program: Program) -> Program:
    """Return the program with only those maps that the last kernel can run; others are unrolled.

    Results of these maps are used only by outputs, or by operations that lead to one output element each.
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
    """Return, for each value, whether it is an operation that leads to exactly one output value and has no
    other use.
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
    """Operations, in order, that compute a value of an output, and the elements that have this value."""

    operations: tuple[int, ...]
    value: int
    elements: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One evaluation of a map for one output.

    Attributes
    ----------
    sources
        Slot of each argument, and whether it is negated
    targets
        Place of each result in the output row, None if unused
    """

    sources: tuple[tuple[int, bool], ...]
    targets: tuple[int | None, ...]


@dataclass
class Phase:
    """Work for one output array.

    Attributes
    ----------
    array
        Number of the output
    rows
        Map -> its rows that give elements of the output
    copies
        (slot, sign negated, element, element) of values that only wait to be written
    trees
        Elements computed from results of maps
    places
        Result of a map -> its place in the output row, or behind it
    length
        Length of a row, including places behind it [numbers]
    """

    array: int
    rows: dict[int, list[Row]] = field(default_factory=dict)
    copies: list[tuple[int, bool, int, int]] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    length: int = 0


class TailMaps:
    """Plan of the last kernel of a program whose maps can all be run last (see `tail_maps`).

    Attributes
    ----------
    program
        Full program
    main
        Program before the last kernel; its output is the values that wait in memory, slot by slot
    slots
        Value -> its slot: those in `first`, then arguments of rows, then all others
    row_slots
        End of the slots of `first` and of rows
    leaf_slots
        Constants and inputs that a block writes to memory itself -> their slots, behind all others
    phases
        One for each output, in the order in which they are written
    """

    def __init__(self, program: Program, *, first: Iterable[int] = ()) -> None:
        self.program = program
        code = program.code
        self.unsigned = [-1] * len(code)  # value -> the value without its sign
        for v, (op, args, _) in enumerate(code):
            self.unsigned[v] = self.unsigned[args[0]] if op == "neg" else v
        self.maps = {v: attr for v, (_, _, attr) in enumerate(code) if isinstance(attr, RowMap)}
        self.from_maps = _depend_on_maps(program)
        self.tail = _tail(program)
        elements = self._elements()
        shapes = self._tree_shapes(elements)
        shared = [a for v, each in self.maps.items() for a in each.shared(code[v].args)]
        rows = [a for v, each in self.maps.items() for row in each.rows(code[v].args) for a in row]
        copied = [v for values in elements for v in values if v not in shapes]
        leaves = [a for tree in shapes.values() for a in tree.value_leaves]
        self.slots: dict[int, int] = {}
        self.row_slots = 0
        self.leaf_slots: dict[int, int] = {}
        for values in (first, rows, [*shared, *copied, *leaves]):
            for v in self._unsigned_of(values):
                if v not in self._results and code[v].op not in ("const", "input"):
                    self.slots.setdefault(v, len(self.slots))
            self.row_slots = len(self.slots) if values is rows else self.row_slots
        for v in self._unsigned_of([*rows, *copied]):
            if code[v].op in ("const", "input"):
                self.leaf_slots.setdefault(v, len(self.leaf_slots))
        self.main = self._main_program()
        phases = [self._phase(k, values, shapes) for k, values in enumerate(elements)]
        self.phases = sorted(phases, key=lambda phase: -len(phase.copies))  # copies overlap with loads

    @cached_property
    def _results(self) -> dict[int, tuple[int, int]]:
        """Result of a map -> the map, and the number of the result."""
        return {r: (args[0], attr) for r, (op, args, attr) in enumerate(self.program.code) if op == "result"}

    def _unsigned_of(self, values: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self.unsigned[v] for v in values))

    def _elements(self) -> list[dict[int, list[int]]]:
        """Return, for each output, its values and the elements that have each value."""
        elements: list[dict[int, list[int]]] = []
        for values in self.program.results:
            elements.append({})
            for element, v in enumerate(values):
                elements[-1].setdefault(v, []).append(element)
        return elements

    def _tree_shapes(self, elements: list[dict[int, list[int]]]) -> dict[int, _TreeShape]:
        """Return the trees of output values that are computed here from results of maps."""
        roots = [v for by_value in elements for v in by_value if self.tail[v] and self.from_maps[v]]
        return {v: self._tree(v) for v in roots}

    def _tree(self, root: int) -> _TreeShape:
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
        return _TreeShape(tuple(sorted(set(inside))), tuple(dict.fromkeys(leaves)))

    def _main_program(self) -> Program:
        program = self.program
        values = tuple(self.slots)
        return drop_dead(
            replace(program, outputs=(Array(CROSSING_OUTPUT, (len(values),)),), results=(values,))
        )

    def slot(self, v: int) -> tuple[int, bool]:
        """Return the slot of a value that waits in memory, and whether the value is negated."""
        unsigned = self.unsigned[v]
        slot = (
            len(self.slots) + self.leaf_slots[unsigned]
            if unsigned in self.leaf_slots
            else self.slots[unsigned]
        )
        return slot, self.negated(v)

    def negated(self, v: int) -> bool:
        """Return whether a value is the negation of its unsigned value."""
        negated = False
        while self.program.code[v].op == "neg":
            v = self.program.code[v].args[0]
            negated = not negated
        return negated

    def _phase(self, array: int, elements: dict[int, list[int]], shapes: dict[int, _TreeShape]) -> Phase:
        phase = Phase(array)
        size = self.program.outputs[array].size
        tree_results: list[tuple[int, int]] = []  # result of a map, element of the tree that uses it
        for v, positions in elements.items():
            if v in self._results:
                phase.places[v] = positions[0]
                if len(positions) > 1:
                    phase.trees.append(Tree((), v, tuple(positions[1:])))
            elif v in shapes:
                tree = Tree(shapes[v].operations, v, tuple(positions))
                phase.trees.append(tree)
                tree_results += [
                    (a, positions[0]) for a in self._unsigned_of(shapes[v].value_leaves) if a in self._results
                ]
            else:
                slot, negated = self.slot(v)
                for k in range(0, len(positions), 2):
                    phase.copies.append(
                        (slot, negated, positions[k], positions[min(k + 1, len(positions) - 1)])
                    )
        phase.length = size
        uses = Counter(r for r, _ in tree_results), Counter(place for _, place in tree_results)
        for r, place in tree_results:  # at its tree's element, unless either is used more than once
            if r not in phase.places:
                is_unique = uses[0][r] == uses[1][place] == 1
                phase.places[r] = place if is_unique else phase.length
                phase.length += not is_unique
        self._rows(phase)
        return phase

    def _rows(self, phase: Phase) -> None:
        """Collect the rows of maps that give the results with a place."""
        wanted_rows: dict[int, dict[int, dict[int, int]]] = {}  # map -> row -> element -> place
        for r, place in phase.places.items():
            v, number = self._results[r]
            row, element = divmod(number, self.maps[v].result_size)
            wanted_rows.setdefault(v, {}).setdefault(row, {})[element] = place
        for v, rows in sorted(wanted_rows.items()):
            each = self.maps[v]
            args = each.rows(self.program.code[v].args)
            for row, places in sorted(rows.items()):
                sources = tuple([self.slot(a) for a in args[row]])
                targets = tuple([places.get(e) for e in range(each.result_size)])
                phase.rows.setdefault(v, []).append(Row(sources, targets))

    def copies(self, negated: bool) -> list[tuple[int, bool, int, int]]:
        """Return the copies of all outputs, of values that are negated or that are not."""
        return [copy for phase in self.phases for copy in phase.copies if copy[1] == negated]

    def copy_bounds(self, negated: bool) -> list[int]:
        """Return the number of copies before each output and after the last; empty if there are none."""
        bounds = [0]
        for phase in self.phases:
            bounds.append(bounds[-1] + sum(copy[1] == negated for copy in phase.copies))
        return bounds if bounds[-1] else []

    @property
    def reads(self) -> int:
        """Values per state that wait in memory for this kernel."""
        return len(self.slots)

    @cached_property
    def operations(self) -> int:
        """Operations per state."""
        bodies = {v: operation_count(each.body) for v, each in self.maps.items()}
        rows = sum(
            bodies[v] * len(rows_of_map) for phase in self.phases for v, rows_of_map in phase.rows.items()
        )
        return rows + sum(len(tree.operations) for phase in self.phases for tree in phase.trees)

    @property
    def single_pass_operations(self) -> int:
        """Operations per state if every row of a map ran once."""
        return sum(each.count * operation_count(each.body) for each in self.maps.values())


@dataclass(frozen=True)
class _TreeShape:
    """Operations of a tree, and the values that they start from."""

    operations: tuple[int, ...]
    value_leaves: tuple[int, ...]


def operation_count(program: Program) -> int:
    """Return the number of instructions of straight-line code."""
    return sum(op not in ("const", "input", "neg") for op, _, _ in program.code)


def _depend_on_maps(program: Program) -> list[bool]:
    """Return, for each value, whether it depends on a result of a map."""
    depends: list[bool] = []
    for op, args, _ in program.code:
        depends.append(op == "result" or any(depends[a] for a in args))
    return depends
