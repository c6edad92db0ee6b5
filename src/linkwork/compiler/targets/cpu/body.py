"""Computing part of a kernel as LLVM text: one program on `lanes` states at once.

With one lane a body reads and writes a contiguous row per array. With more it reads `lanes` rows per input at
a given distance, transposes them into columns, and columns of results into rows again (see `rows`,
`outputs`). A program with cuts becomes several functions, and spilled values, for a later use or another
function, are stored in a scratch array (see `ir.spills`). So does a loop whose body has cuts: that is a body
of its own, from columns to columns, which are stored in the scratch array of the caller. A map is a function
with a loop over rows, which are stored there too (see `layout.Maps`).
"""

from __future__ import annotations

import re

from linkwork.compiler.ir.program import BoundedLoop, Program, RowMap
from linkwork.compiler.ir.spills import spill
from linkwork.compiler.targets.cpu.layout import Maps, body_parameters, side_by_side, stores_of
from linkwork.compiler.targets.cpu.operations import declarations
from linkwork.compiler.targets.cpu.outputs import Outputs
from linkwork.compiler.targets.cpu.part import Part
from linkwork.compiler.targets.cpu.rows import LINE, row_declarations
from linkwork.compiler.targets.cpu.types import Types

RESERVED_REGISTERS = 5  # for constants and moves by LLVM


class Body:
    """Writer of a program's functions for one number of lanes; `name` runs the others in order."""

    def __init__(
        self,
        program: Program,
        lanes: int,
        name: str,
        registers: int,
        *,
        columns: bool = False,
        wide: int | None = None,
        of_rows: bool = False,
    ) -> None:
        """Plan the functions.

        `columns`: arrays are columns and not rows of the user's. `wide`: rows of a map computed at once for
        one state. `of_rows`: the body is that of a map on several states.
        """
        self.program = program
        self.columns = columns or lanes == 1
        self.types = Types(program.dtype, lanes)
        self.name = name
        # bytes from one element of an array to the next, unless it is a column
        self.pitch: dict[str, int] = {}
        self.inputs = {attr: v for v, (op, _, attr) in enumerate(program.code) if op == "input"}
        spread = 1 if self.columns else lanes  # user rows read at once
        self.parameters = body_parameters(program, spread)
        # in a program without cuts LLVM, which may change the order, allocates registers better
        is_single_function = not program.cuts and not of_rows
        self.fenced = of_rows or (bool(program.cuts) and lanes == 1)
        self.spills = spill(
            program, None if is_single_function else registers - RESERVED_REGISTERS, block=spread
        )
        self.loops: dict[int, CutLoop] = {}
        self.scratch = self.spills.slots.size  # columns of the scratch array
        for v, (_, _, attr) in enumerate(program.code):
            if isinstance(attr, BoundedLoop) and attr.body.cuts:
                body = Body(attr.body, lanes, f"{name}.v{v}", registers, columns=True)
                self.loops[v] = CutLoop(body, attr, self.scratch)
                self.scratch = self.loops[v].end
        self.maps = Maps(program, self.scratch, side_by_side=lanes == 1)
        self.scratch = self.maps.end
        self.each: dict[int, MapBody] = {}
        self.map_scratch: dict[int, int] = {}  # map -> first column of its function's scratch array
        for v, place in self.maps.places.items():
            body = self.each[v] = MapBody(
                self.maps.body_of(v), place.record, lanes, wide or 1, f"{name}.v{v}", registers
            )
            unit = body.types.lanes // lanes  # of this body's columns in one of the map's
            self.map_scratch[v] = -(-self.scratch // unit) * unit
            self.scratch = self.map_scratch[v] + body.scratch * unit
        self.outputs = None if self.columns else Outputs(program, self.types, self.maps.direct)
        # first column of the outputs that wait to become rows
        self.waiting = -(-self.scratch * self.types.bytes // LINE) * LINE // self.types.bytes
        self.scratch = self.waiting + self.outputs.size if self.outputs else self.scratch
        self.stores = stores_of(program)
        self.prefetches = _prefetches(program, self.types) if self.outputs else {}

    def declaration(self, name: str | None = None) -> str:
        """Return the declaration of a function of this body for other modules.

        It is called by its 64-bit address from a table: modules may be more than 2 GB apart, beyond the reach
        of a short call.
        """
        kinds = ", ".join(kind for kind, _ in self.parameters)
        return f"declare void @{name or self.name}({kinds}) nonlazybind\n"

    def functions(self) -> list[str]:
        """Return the text of every function with its declarations, to be compiled one by one."""
        t = self.types
        declared = declarations(t) + "\n" + (row_declarations(t) if t.lanes > 1 else "")
        inner_bodies = [*(loop.body for loop in self.loops.values()), *self.each.values()]
        declared += "".join(body.declaration() for body in inner_bodies)
        inner = [text for body in inner_bodies for text in body.functions()]
        parts = [Part(self, part).text() for part in self.program.parts]
        tables, rows = self.outputs.rows_text(self.waiting) if self.outputs else ("", "")
        unpack = self.outputs.declarations() + tables if self.outputs else ""
        if len(parts) == 1:
            return [*inner, declared + unpack + self._define(self.name, parts[0] + rows)]
        names = [f"{self.name}.{k}" for k in range(len(parts))]
        arguments = ", ".join(f"{kind} {name}" for kind, name in self.parameters)
        calls = "".join(f"call void @{name}({arguments})\n" for name in names)
        function_text = unpack + "".join(map(self.declaration, names)) + self._define(self.name, calls + rows)
        return [
            *inner,
            *(declared + self._define(name, part) for name, part in zip(names, parts, strict=True)),
            function_text,
        ]

    def _define(self, name: str, text: str) -> str:
        signature = ", ".join(f"{kind}{' noalias' * (kind == 'ptr')} {p}" for kind, p in self.parameters)
        return f"define void @{name}({signature}) #0 {{\n{text}ret void\n}}\n"


class MapBody(Body):
    """Map as a function: a loop over its rows, from columns to columns.

    With one lane, as many rows as fit into a register (at most `wide`) are computed at once: their elements
    lie side by side, and shared values are copied to all lanes. With several lanes each iteration computes
    two rows. The last rows are computed together with some that were computed before.
    """

    def __init__(
        self, program: Program, each: RowMap, lanes: int, wide: int, name: str, registers: int
    ) -> None:
        self.count = each.count
        self.rows_per_iteration = 1
        self.whole_rows = lanes > 1  # the values of a row lie side by side
        while not self.whole_rows and 2 * self.rows_per_iteration <= min(wide, each.count):
            self.rows_per_iteration *= 2
        if self.whole_rows and not program.cuts:
            self.rows_per_iteration = min(2, each.count)
            program = side_by_side(program, self.rows_per_iteration)
        super().__init__(
            program,
            lanes if self.whole_rows else self.rows_per_iteration,
            name,
            registers,
            columns=True,
            of_rows=self.whole_rows,
        )
        t = self.types
        size = t.bytes if self.whole_rows else t.item
        self.steps = (
            {"%in0": each.row_size * size, "%out0": each.result_size * size}
            if self.whole_rows
            else {"%in0": size, "%out0": size}
        )
        if not self.whole_rows:
            self.pitch = {"%in0": t.item * each.count, "%in1": t.item, "%out0": t.item * each.count}

    def _define(self, name: str, text: str) -> str:
        if name != self.name:
            return super()._define(name, text)
        pointers = "".join(
            f"{p}.far = mul i64 %k, {step}\n{p} = getelementptr i8, ptr {p}.first, i64 {p}.far\n"
            for p, step in self.steps.items()
        )
        last = self.count - self.rows_per_iteration
        signature = ", ".join(
            f"ptr noalias {p}{'.first' if p in self.steps else ''}" for _, p in self.parameters
        )
        inside = text.removeprefix("entry:\n")
        end = re.findall(r"^([\w.]+):$", inside, re.MULTILINE)
        back = end[-1] if end else "each"
        inside = re.sub(r"label %entry\b|%entry(?= \])", lambda m: m[0].replace("entry", "each"), inside)
        return f"""define void @{name}({signature}) #0 {{
start:
br label %each
each:
%at = phi i64 [ 0, %start ], [ %next, %{back} ]
%k = call i64 @llvm.umin.i64(i64 %at, i64 {last})
{pointers}{inside}%next = add i64 %at, {self.rows_per_iteration}
%rest = icmp ult i64 %next, {self.count}
br i1 %rest, label %each, label %finish
finish:
ret void
}}
declare i64 @llvm.umin.i64(i64, i64)
"""


class CutLoop:
    """Columns of a loop whose body has cuts, from `start` to `end` of the caller's scratch array.

    The state is stored twice, since a body reads one copy while it writes the next.
    """

    def __init__(self, body: Body, loop: BoundedLoop, start: int) -> None:
        self.body = body
        self.state = start
        self.following = start + loop.states
        self.outer = self.following + loop.states
        self.again = self.outer + loop.body.inputs[1].size
        self.scratch = self.again + 1
        self.end = self.scratch + body.scratch


MIN_PREFETCH_BYTES = 128  # shorter rows are not prefetched
MIN_INSTRUCTIONS_PER_LINE = 30  # with fewer, prefetching costs more than it saves


def _prefetches(program: Program, t: Types) -> dict[int, list[tuple[str, int]]]:
    """Return the positions in the program where cache lines of each array's tile are prefetched.

    They are spread evenly, assuming adjacent rows; for others some prefetches are useless. Outputs are
    prefetched only in long programs, whose own values displace everything else from the caches.
    """
    arrays = [(f"%in{k}", array) for k, array in enumerate(program.inputs)]
    if program.cuts:
        arrays += [(f"%out{k}", array) for k, array in enumerate(program.outputs)]
    places: dict[int, list[tuple[str, int]]] = {}
    for base, array in arrays:
        count = -(-array.size * t.bytes // LINE)
        if (
            t.lanes > 1
            and array.size * t.item >= MIN_PREFETCH_BYTES
            and MIN_INSTRUCTIONS_PER_LINE * count <= len(program)
        ):
            for line in range(count):
                places.setdefault(line * len(program) // count, []).append((base, line))
    return places
