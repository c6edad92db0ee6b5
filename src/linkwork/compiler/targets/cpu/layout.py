"""Layout in memory of a program's arrays and of the rows of its maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from linkwork.compiler.ir.liveness import Liveness
from linkwork.compiler.ir.program import Instruction, Program, RowMap


def stores_of(program: Program) -> dict[int, list[tuple[int, int]]]:
    """Return the output elements, (array, element), of each value."""
    addresses: dict[int, list[tuple[int, int]]] = {}
    for array, values in enumerate(program.results):
        for element, v in enumerate(values):
            addresses.setdefault(v, []).append((array, element))
    return addresses


def body_parameters(program: Program, lanes: int) -> list[tuple[str, str]]:
    """Return type and name of each parameter of a body.

    They are the scratch array, then a pointer per array and, with several lanes, the distance of its rows. On
    x86 the first parameter is in a register that takes a byte less in every instruction with an address.
    """
    pairs = [("ptr", "%scratch")]
    for name in [f"%in{k}" for k in range(len(program.inputs))] + [
        f"%out{k}" for k in range(len(program.outputs))
    ]:
        pairs.append(("ptr", name))
        if lanes > 1:
            pairs.append(("i64", f"{name}.step"))
    return pairs


@dataclass(frozen=True)
class MapPlaces:
    """Columns of the scratch array where the rows of one map begin.

    With several lanes the values of a row lie side by side, and rows follow each other. With one, the rows
    lie side by side, value by value: so several rows are computed at once, in the lanes of one register.
    """

    record: RowMap
    rows: int
    results_start: int
    side_by_side: bool

    def input_column(self, row: int, element: int) -> int:
        """Return the column of an element of an input row."""
        return self.rows + (
            element * self.record.count + row if self.side_by_side else row * self.record.row_size + element
        )

    def result_column(self, result: int) -> int:
        """Return the column of a result."""
        row, element = divmod(result, self.record.result_size)
        return self.results_start + (element * self.record.count + row if self.side_by_side else result)


class Maps:
    """Maps of a program: the columns of their rows and shared values in the scratch array.

    Attributes
    ----------
    places
        Map -> its places
    shared
        Value -> column of the values that maps share, which begin at `start`
    stores
        Value -> columns of rows and shared values where it is stored when it is computed
    late
        Map -> values that are stored when the map begins, and their columns: constants, inputs, negated
        values
    results
        Map -> the results that are read
    direct
        Result -> its column
    loaded
        Those of them that not only outputs use
    end
        The first column behind all of them
    """

    def __init__(self, program: Program, start: int, *, side_by_side: bool) -> None:
        self.code = program.code
        self.start = start
        self.places: dict[int, MapPlaces] = {}
        self.shared: dict[int, int] = {}
        self.stores: dict[int, list[int]] = {}
        self.late: dict[int, list[tuple[int, int]]] = {}
        maps = [(v, args, attr) for v, (_, args, attr) in enumerate(program.code) if isinstance(attr, RowMap)]
        for _, args, record in maps:
            for a in record.shared(args):
                self.shared.setdefault(a, start + len(self.shared))
        self.end = start + len(self.shared)
        known: set[int] = set()
        for v, args, record in maps:
            place = MapPlaces(record, self.end, self.end + record.count * record.row_size, side_by_side)
            self.places[v] = place
            self.end = place.results_start + record.states
            for k, row in enumerate(record.rows(args)):
                for element, a in enumerate(row):
                    self._store(v, a, place.input_column(k, element))
            for a in record.shared(args):
                if a not in known:
                    known.add(a)
                    self._store(v, a, self.shared[a])
        # results that only outputs use are read at their place
        alive = Liveness.of(program).uses if maps else []
        self.direct: dict[int, int] = {}
        self.results: dict[int, list[int]] = {v: [] for v in self.places}
        self.loaded: dict[int, int] = {}
        for r, (op, args, attr) in enumerate(program.code):
            if op == "result" and args[0] in self.places:
                column = self.places[args[0]].result_column(attr)
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
        """Return a map's body with shared values at the places common to all maps."""
        record = self.places[v].record
        return with_shared(
            record.body,
            [self.shared[a] - self.start for a in record.shared(self.code[v].args)],
            len(self.shared),
        )


def with_shared(body: Program, places: list[int], size: int) -> Program:
    """Return a map's body whose shared values are elements, at these places, of a larger array."""
    code = tuple(
        instruction._replace(attr=(1, places[instruction.attr[1]]))
        if instruction.op == "input" and instruction.attr[0] == 1
        else instruction
        for instruction in body.code
    )
    return replace(body, inputs=(body.inputs[0], body.inputs[1]._replace(shape=(size,))), code=code)


def runs(pairs: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Yield pieces (place, array, element, length) of consecutive (place, array, element) entries."""
    first = None
    length = 0
    for place, array, element in sorted(pairs):
        if first is not None and (place, array, element) == (first[0] + length, first[1], first[2] + length):
            length += 1
            continue
        if first is not None:
            yield (*first, length)
        first = (place, array, element)
        length = 1
    if first is not None:
        yield (*first, length)


def side_by_side(body: Program, rows: int) -> Program:
    """Return a map's body for several rows at once, with shared values loaded once for all."""
    code: list[Instruction] = []
    new: list[list[int]] = [[] for _ in range(rows)]  # the values of each copy
    takes = body.inputs[0].size
    for op, args, attr in body.code:
        for copy, copy_values in enumerate(new):
            if copy and (op == "const" or (op == "input" and attr[0] == 1)):
                copy_values.append(new[0][-1])
                continue
            moved = (0, copy * takes + attr[1]) if op == "input" and attr[0] == 0 else attr
            code.append(Instruction(op, tuple([copy_values[a] for a in args]), moved))
            copy_values.append(len(code) - 1)
    results = tuple([copy_values[v] for copy_values in new for v in body.results[0]])
    row, out = (array._replace(shape=(rows * array.size,)) for array in (body.inputs[0], body.outputs[0]))
    return replace(body, inputs=(row, body.inputs[1]), outputs=(out,), code=tuple(code), results=(results,))
