"""Conversion of computed columns to rows of the outputs, for several lanes.

Results come in no order, so their columns wait in memory until all are computed. Then the rows are written in
blocks of `lanes` elements, each transposed in registers, from the first to the last: processors prefetch that
order. The columns of a block lie side by side. Blocks of structural zeros share one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cpu.rows import LINE, UNPACK_LAST, unpack_declarations, unpack_text, unpacker
from linkwork.compiler.targets.cpu.types import Types

MAX_DISTINCT_SHARE = 0.9  # with fewer distinct values among the elements, each is stored once


def is_plain_zero(program: Program, v: int) -> bool:
    """Return True for the constant +0, with all bits zero."""
    op, _, attr = program.code[v]
    return op == "const" and math.copysign(1.0, attr) > 0.0 == attr


class Outputs:
    """Places of waiting output columns, and their conversion to rows.

    Results of maps are read where the maps store them (`placed`: value -> column of the scratch array). With
    maps, and if many elements are the same value (zeros, symmetric matrices), the tables hold a place for
    every column of a block, so that a value is stored in one column only. Otherwise they hold one place per
    block.

    Attributes
    ----------
    columns
        Value -> columns where it is stored as soon as it is computed
    size
        Number of waiting columns
    """

    def __init__(self, program: Program, t: Types, placed: Mapping[int, int]) -> None:
        self.types = t
        self.placed = placed
        self.columns: defaultdict[int, list[int]] = defaultdict(list)
        self.blocks: list[list[int]] = []  # output -> first columns of its blocks
        self.sizes = [array.size for array in program.outputs]
        self.size = 0
        self.values = program.results
        distinct = len({v for values in program.results for v in values})
        self.scattered = bool(placed) or distinct < MAX_DISTINCT_SHARE * sum(self.sizes)
        blank = None
        for values in [] if self.scattered else program.results:
            places: list[int] = []
            for first in range(0, len(values), t.lanes):
                block = values[first : first + t.lanes]
                zero = all(is_plain_zero(program, v) for v in block)
                if zero and blank is not None:
                    places.append(blank)
                    continue
                blank = self.size if zero else blank
                places.append(self.size)
                for column, v in enumerate(block, self.size):
                    self.columns[v].append(column)
                self.size += t.lanes
            self.blocks.append(places)
        if self.scattered:
            for v in dict.fromkeys(v for values in program.results for v in values if v not in placed):
                self.columns[v].append(self.size)
                self.size += 1

    @property
    def _functions(self) -> tuple[str, ...]:
        """Names of the functions that the calls of `rows_text` use."""
        names = {unpacker(self.types, size // self.types.lanes) for size in self.sizes}
        return (*sorted(names), UNPACK_LAST)

    def functions_text(self) -> str:
        """Return the module of the functions that the calls of `rows_text` use."""
        return unpack_text(self.types, self._functions, scattered=self.scattered)

    def declarations(self) -> str:
        """Return declarations of these functions."""
        return unpack_declarations(self._functions, scattered=self.scattered)

    def rows_text(self, waiting: int) -> tuple[str, str]:
        """Return tables, and the calls that write rows from them. Waiting columns begin at `waiting`."""
        return self._scattered(waiting) if self.scattered else self._in_blocks(waiting)

    def _in_blocks(self, waiting: int) -> tuple[str, str]:
        t = self.types
        tables = ""
        calls = ""
        for array, (places, size) in enumerate(zip(self.blocks, self.sizes, strict=True)):
            row = f"ptr %out{array}, i64 %out{array}.step"
            name = f"@lw.table{array}"
            full_blocks = size // t.lanes
            odd = full_blocks % max(1, LINE // t.bytes)
            table = [(waiting + place) * t.bytes for place in places[: full_blocks - odd]]
            if table:
                tables += _table(name, table)
                unpack = unpacker(t, full_blocks)
                calls += f"call void @{unpack}(ptr {name}, i64 {len(table)}, ptr %scratch, {row})\n"
            for k in range(full_blocks - odd, len(places)):
                at = f"%last{array}.{k}"
                count = min(t.lanes, size - k * t.lanes)
                calls += f"""{at}.c = getelementptr i8, ptr %scratch, i64 {(waiting + places[k]) * t.bytes}
{at}.r = getelementptr i8, ptr %out{array}, i64 {k * t.bytes}
call void @{UNPACK_LAST}(ptr {at}.c, ptr {at}.r, i64 %out{array}.step, i64 {count})
"""
        return tables, calls

    def _scattered(self, waiting: int) -> tuple[str, str]:
        t = self.types
        tables = ""
        calls = ""
        for array, values in enumerate(self.values):
            name = f"@lw.table{array}"
            size = len(values)
            places = [self.placed[v] if v in self.placed else waiting + self.columns[v][0] for v in values]
            places += [places[-1]] * (-size % t.lanes)
            tables += _table(name, [place * t.bytes for place in places])
            full_lanes = size // t.lanes
            full_lanes -= full_lanes % max(1, LINE // t.bytes)
            if full_lanes:
                row = f"ptr %out{array}, i64 %out{array}.step"
                unpack = unpacker(t, full_lanes)
                calls += f"call void @{unpack}(ptr {name}, i64 {full_lanes}, ptr %scratch, {row})\n"
            for k in range(full_lanes, len(places) // t.lanes):
                at = f"%last{array}.{k}"
                count = min(t.lanes, size - k * t.lanes)
                calls += f"""{at}.c = getelementptr i32, ptr {name}, i64 {k * t.lanes}
{at}.r = getelementptr i8, ptr %out{array}, i64 {k * t.bytes}
call void @{UNPACK_LAST}(ptr {at}.c, ptr %scratch, ptr {at}.r, i64 %out{array}.step, i64 {count})
"""
        return tables, calls


def _table(name: str, numbers: list[int]) -> str:
    return f"{name} = private constant [{len(numbers)} x i32] [{', '.join(f'i32 {x}' for x in numbers)}]\n"
