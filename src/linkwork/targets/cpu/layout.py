"""Where the arrays of a program, and the rows of its maps, lie for the functions that compute with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from linkwork.ir.liveness import Liveness
from linkwork.ir.program import Instruction, Program, RowMap


def stores_of(program: Program) -> dict[int, list[tuple[int, int]]]:
    """Which output elements each value is: (array, element)."""
    addresses: dict[int, list[tuple[int, int]]] = {}
    for array, values in enumerate(program.results):
        for element, v in enumerate(values):
            addresses.setdefault(v, []).append((array, element))
    return addresses


def body_parameters(program: Program, lanes: int) -> list[tuple[str, str]]:
    """Type and name of each parameter of a body: the scratch array, then a pointer per array and, with several lanes, the
    distance of its rows.

    On x86 a first parameter is in one of the registers that take a byte less in every instruction with an address.
    """
    pairs = [("ptr", "%scratch")]
    for name in [f"%in{k}" for k in range(len(program.inputs))] + [f"%out{k}" for k in range(len(program.outputs))]:
        pairs.append(("ptr", name))
        if lanes > 1:
            pairs.append(("i64", f"{name}.step"))
    return pairs


@dataclass(frozen=True)
class MapPlaces:
    """Where one map's rows begin in the scratch array, in columns.

    With several lanes the values of a row lie side by side, and rows behind each other. With one, the rows lie side by side,
    value by value: so several rows are computed at once, in the lanes of one register.
    """

    each: RowMap
    rows: int
    found: int
    side_by_side: bool

    def taken(self, row: int, element: int) -> int:
        """The column of an element of a row that goes in."""
        return self.rows + (element * self.each.count + row if self.side_by_side else row * self.each.takes + element)

    def given(self, result: int) -> int:
        """The column of a result."""
        row, element = divmod(result, self.each.gives)
        return self.found + (element * self.each.count + row if self.side_by_side else result)


class Maps:
    """The maps of a program: where in the scratch array their rows lie, and what they share.

    Attributes:
        places: map -> its places
        shared: value -> column of what maps share, which begins at `start`
        stores: value -> columns of rows and shared values that it is; stored when it is made
        late: map -> values that are stored when the map begins, and their columns: constants, inputs, negated values
        results: map -> the results that are read
        direct: result -> its column
        loaded: those of them that are not for outputs only
        end: the first column behind all this
    """

    def __init__(self, program: Program, start: int, *, side_by_side: bool) -> None:
        self.code, self.start = program.code, start
        self.places: dict[int, MapPlaces] = {}
        self.shared: dict[int, int] = {}
        self.stores: dict[int, list[int]] = {}
        self.late: dict[int, list[tuple[int, int]]] = {}
        maps = [(v, args, attr) for v, (_, args, attr) in enumerate(program.code) if isinstance(attr, RowMap)]
        for _, args, each in maps:
            for a in each.shared(args):
                self.shared.setdefault(a, start + len(self.shared))
        self.end = start + len(self.shared)
        known: set[int] = set()
        for v, args, each in maps:
            place = MapPlaces(each, self.end, self.end + each.count * each.takes, side_by_side)
            self.places[v], self.end = place, place.found + each.states
            for k, row in enumerate(each.rows(args)):
                for element, a in enumerate(row):
                    self._store(v, a, place.taken(k, element))
            for a in each.shared(args):
                if a not in known:
                    known.add(a)
                    self._store(v, a, self.shared[a])
        # results that only outputs want are read where they lie
        alive = Liveness.of(program).uses if maps else []
        self.direct: dict[int, int] = {}
        self.results: dict[int, list[int]] = {v: [] for v in self.places}
        self.loaded: dict[int, int] = {}
        for r, (op, args, attr) in enumerate(program.code):
            if op == "result" and args[0] in self.places:
                column = self.places[args[0]].given(attr)
                self.direct[r] = column
                self.results[args[0]].append(r)
                if alive[r] or r in self.stores:
                    self.loaded[r] = column

    def _store(self, v: int, a: int, column: int) -> None:
        if self.code[a].op in ("const", "input", "neg"):
            self.late.setdefault(v, []).append((a, column))
        else:
            self.stores.setdefault(a, []).append(column)

    def body_of(self, v: int) -> Program:
        """A map's body with what it shares where all maps have it."""
        each = self.places[v].each
        return with_shared(each.body, [self.shared[a] - self.start for a in each.shared(self.code[v].args)], len(self.shared))


def with_shared(body: Program, places: list[int], size: int) -> Program:
    """A map's body whose shared values are elements, at these places, of a larger array."""
    code = tuple(
        instruction._replace(attr=(1, places[instruction.attr[1]]))
        if instruction.op == "input" and instruction.attr[0] == 1
        else instruction
        for instruction in body.code
    )
    return replace(body, inputs=(body.inputs[0], body.inputs[1]._replace(shape=(size,))), code=code)


def runs(pairs: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Pieces (place, array, element, length) of pairs (place, array, element) in which both go up together."""
    first, length = None, 0
    for place, array, element in sorted(pairs):
        if first is not None and (place, array, element) == (first[0] + length, first[1], first[2] + length):
            length += 1
            continue
        if first is not None:
            yield (*first, length)
        first, length = (place, array, element), 1
    if first is not None:
        yield (*first, length)


def side_by_side(body: Program, rows: int) -> Program:
    """A map's body for several rows at once, one behind the other: what they share is loaded once for all."""
    code: list[Instruction] = []
    new: list[list[int]] = [[] for _ in range(rows)]  # the values of each copy
    takes = body.inputs[0].size
    for op, args, attr in body.code:
        for copy, here in enumerate(new):
            if copy and (op == "const" or (op == "input" and attr[0] == 1)):
                here.append(new[0][-1])
                continue
            moved = (0, copy * takes + attr[1]) if op == "input" and attr[0] == 0 else attr
            code.append(Instruction(op, tuple([here[a] for a in args]), moved))
            here.append(len(code) - 1)
    results = tuple([here[v] for here in new for v in body.results[0]])
    row, out = (array._replace(shape=(rows * array.size,)) for array in (body.inputs[0], body.outputs[0]))
    return replace(body, inputs=(row, body.inputs[1]), outputs=(out,), code=tuple(code), results=(results,))
