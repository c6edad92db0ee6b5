"""The computing part of a kernel as LLVM text: one program on `lanes` states at once.

With one lane a body reads and writes a contiguous row per array. With more it reads `lanes` rows per input, so many bytes
apart, turns them into columns, and writes columns into a tile per output (see `rows`). A program with cuts becomes several
functions, and the values that cross a cut lie in a scratch array.
"""

from __future__ import annotations

from collections.abc import Sequence

from linkwork.ir.program import Loop, Program
from linkwork.targets.cpu.operations import declarations, operation
from linkwork.targets.cpu.rows import load_columns, row_declarations, row_pointers
from linkwork.targets.cpu.types import Types


class Body:
    """Writes the functions of one program for one number of lanes; the one called `name` runs the others in order."""

    def __init__(self, program: Program, lanes: int, name: str) -> None:
        self.program = program
        self.types = Types(program.dtype, lanes)
        self.name = name
        self.bounds = [0, *program.cuts, len(program.code)]
        self.stores = _output_addresses(program)
        self.slots, self.scratch = crossing_slots(program, self.bounds, lanes)
        self.ahead = _prefetches(program, self.types)

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Type and name of each: a pointer per array and, with several lanes, the distance of an input's rows."""
        pairs = []
        for k in range(len(self.program.inputs)):
            pairs.append(("ptr", f"%in{k}"))
            if self.types.lanes > 1:
                pairs.append(("i64", f"%in{k}.step"))
        return [*pairs, *(("ptr", f"%out{k}") for k in range(len(self.program.outputs))), ("ptr", "%scratch")]

    def declaration(self, name: str | None = None) -> str:
        """The declaration of a function of this body, for other modules."""
        return f"declare void @{name or self.name}({', '.join(kind for kind, _ in self.parameters)})\n"

    def functions(self) -> list[str]:
        """The text of every function with what it needs declared, to be compiled one by one."""
        t = self.types
        known = declarations(t) + "\n" + (row_declarations(t) if t.lanes > 1 else "")
        parts = [_Part(self, k).text() for k in range(len(self.bounds) - 1)]
        if len(parts) == 1:
            return [known + self._define(self.name, parts[0])]
        names = [f"{self.name}.{k}" for k in range(len(parts))]
        arguments = ", ".join(f"{kind} {name}" for kind, name in self.parameters)
        calls = "".join(f"call void @{name}({arguments})\n" for name in names)
        whole = "".join(map(self.declaration, names)) + self._define(self.name, calls)
        return [known + self._define(name, part) for name, part in zip(names, parts, strict=True)] + [whole]

    def _define(self, name: str, text: str) -> str:
        signature = ", ".join(f"{kind}{' noalias' * (kind == 'ptr')} {p}" for kind, p in self.parameters)
        return f"define void @{name}({signature}) #0 {{\n{text}ret void\n}}\n"


class _Part:
    """Writes the instructions between two cuts."""

    def __init__(self, body: Body, number: int) -> None:
        self.body = body
        self.types = body.types
        self.number = number
        self.range = range(body.bounds[number], body.bounds[number + 1])
        self.lines: list[str] = []
        self.block = "entry"
        self.names: dict[int, str] = {}
        self.columns: dict[tuple[int, int], list[str]] = {}  # (input, block) -> names of its columns
        self.pointed: set[str] = set()  # arrays whose row pointers are known

    def text(self) -> str:
        body, program = self.body, self.body.program
        self.lines.append("entry:")
        for v in self.range:
            for array, block in body.ahead.get(v, ()):
                self._prefetch(array, block)
            op, args, attr = program.code[v]
            if op not in ("const", "input"):
                self.names[v] = self._instruction(f"%v{v}", op, [self._use(a) for a in args], attr)
                if v in body.slots:
                    self._store("%scratch", body.slots[v][1], self.names[v])
            for array, element in body.stores.get(v, ()):
                self._store(f"%out{array}", element, self._use(v))
        self.lines.append("")
        return "\n".join(self.lines)

    def _use(self, v: int) -> str:
        """The name of a value; a constant, an input or a value of an earlier part is fetched on first use."""
        name = self.names.get(v)
        if name is None:
            op, _, attr = self.body.program.code[v]
            home, slot = self.body.slots.get(v, (self.number, -1))
            if op == "const":
                name = self.types.constant(attr)
            elif home != self.number:
                name = self._load("%scratch", slot, f"%v{v}")
            else:
                name = self._input(v, *attr)
                if slot >= 0:
                    self._store("%scratch", slot, name)
            self.names[v] = name
        return name

    def _input(self, v: int, array: int, element: int) -> str:
        t = self.types
        if t.lanes == 1:
            return self._load(f"%in{array}", element, f"%v{v}")
        place = (array, element // t.lanes)
        if place not in self.columns:
            self._point(f"%in{array}")
            lines, names = load_columns(t, f"%in{array}", place[1], self.body.program.inputs[array].size)
            self.lines += lines
            self.columns[place] = names
        return self.columns[place][element % t.lanes]

    def _point(self, base: str) -> None:
        if base not in self.pointed:
            self.pointed.add(base)
            self.lines[1:1] = row_pointers(base, self.types.lanes)  # in the first block, so that all others may use them

    def _prefetch(self, array: int, block: int) -> None:
        """Ask for a block of the rows that the next tile will read."""
        t, base = self.types, f"%in{array}"
        self._point(base)
        for k in range(t.lanes):
            at = f"{base}.p{block}.{k}"
            self.lines.append(f"{at}.s = mul i64 {t.lanes}, {base}.step")
            self.lines.append(f"{at}.r = getelementptr i8, ptr {base}.r{k}, i64 {at}.s")
            self.lines.append(f"{at} = getelementptr i8, ptr {at}.r, i64 {block * t.bytes}")
            self.lines.append(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)")

    def _instruction(self, out: str, op: str, args: list[str], attr: object) -> str:
        if isinstance(attr, Loop):
            self._loop(out, args, attr)
        elif op == "result":
            return f"{args[0]}.s{attr}"
        else:
            self.lines.append(operation(op, out, args, self.types))
        return out

    def _load(self, base: str, element: int, out: str) -> str:
        t = self.types
        self.lines.append(f"{out}.a = getelementptr i8, ptr {base}, i64 {element * t.bytes}")
        self.lines.append(f"{out} = load {t.real}, ptr {out}.a, align {t.bytes}")
        return out

    def _store(self, base: str, element: int, value: str) -> None:
        t = self.types
        at = f"{base}.{element}.{len(self.lines)}"
        self.lines.append(f"{at} = getelementptr i8, ptr {base}, i64 {element * t.bytes}")
        self.lines.append(f"store {t.real} {value}, ptr {at}, align {t.bytes}")

    def _loop(self, out: str, args: list[str], loop: Loop) -> None:
        """Run the body while any lane is active; a lane that has stopped keeps its state."""
        t, body, lines = self.types, loop.body, self.lines
        label = out[1:]
        before, masked = self.block, t.lanes > 1
        lines += [f"br label %{label}.loop", f"{label}.loop:"]
        self.block = f"{label}.loop"
        head = len(lines)  # the phis go here, once the block they come back from is known
        names: dict[int, str] = {}

        def use(v: int) -> str:
            if v not in names:
                names[v] = t.constant(body.code[v].attr)  # type: ignore[arg-type]
            return names[v]

        for v, (op, inner, attr) in enumerate(body.code):
            if op == "input":
                array, element = attr  # type: ignore[misc]
                names[v] = f"{out}.i{element}" if array == 0 else args[loop.states + element]
            elif op != "const":
                names[v] = self._instruction(f"{out}.{v}", op, [use(a) for a in inner], attr)

        after, again = [use(v) for v in body.results[0]], use(body.results[1][0])
        for k, value in enumerate(after):
            kept = f"{out}.i{k}" if masked else value
            chosen = f"{out}.on" if masked else "true"
            lines.append(f"{out}.s{k} = select {t.condition} {chosen}, {t.real} {value}, {t.real} {kept}")
        if masked:
            lines.append(f"{out}.next = and {t.condition} {out}.on, {again}")
            lines.append(f"{out}.any = call i1 @llvm.vector.reduce.or.v{t.lanes}i1({t.condition} {out}.next)")
            again = f"{out}.any"
        lines.append(f"{out}.count = add i64 {out}.n, 1")
        lines.append(f"{out}.more = icmp ult i64 {out}.count, {loop.limit}")
        lines.append(f"{out}.go = and i1 {out}.more, {again}")
        lines.append(f"br i1 {out}.go, label %{label}.loop, label %{label}.done")
        lines.append(f"{label}.done:")

        back = self.block
        phis = [f"{out}.n = phi i64 [ 0, %{before} ], [ {out}.count, %{back} ]"]
        if masked:
            phis.append(f"{out}.on = phi {t.condition} [ {t.constant(True)}, %{before} ], [ {out}.next, %{back} ]")
        for k in range(loop.states):
            phis.append(f"{out}.i{k} = phi {t.real} [ {args[k]}, %{before} ], [ {out}.s{k}, %{back} ]")
        lines[head:head] = phis
        self.block = f"{label}.done"


LONG_ROW = 128  # bytes from which the rows of the next tile are worth asking for


def _prefetches(program: Program, t: Types) -> dict[int, list[tuple[int, int]]]:
    """Where in the program which blocks of the next tile's rows are asked for: spread evenly, only of long rows."""
    blocks = []
    for k, array in enumerate(program.inputs):
        if t.lanes > 1 and array.size * t.item >= LONG_ROW:
            blocks += [(k, block) for block in range(-(-array.size // t.lanes))]
    places: dict[int, list[tuple[int, int]]] = {}
    for number, block in enumerate(blocks):
        places.setdefault(number * len(program.code) // len(blocks), []).append(block)
    return places


def _output_addresses(program: Program) -> dict[int, list[tuple[int, int]]]:
    """Which output elements each value is; written as soon as the value is known."""
    addresses: dict[int, list[tuple[int, int]]] = {}
    for array, values in enumerate(program.results):
        for element, v in enumerate(values):
            addresses.setdefault(v, []).append((array, element))
    return addresses


def crossing_slots(program: Program, bounds: Sequence[int], lanes: int) -> tuple[dict[int, tuple[int, int]], int]:
    """For every value that crosses a cut, the part it is made in and its scratch slot; and how many slots there are.

    A slot is used again from the part after the one that reads it last. One lane reads inputs anew in every part; several
    turn them into columns only once, in the part that needs them first.
    """
    if len(bounds) == 2:
        return {}, 0
    part_of = [k for k in range(len(bounds) - 1) for _ in range(bounds[k], bounds[k + 1])]
    home: dict[int, int] = {}
    last: dict[int, int] = {}
    results = set(program.result_values())  # stored where their instruction stands, inputs too
    for position, (_, args, _) in enumerate(program.code):
        for a in (*args, position) if position in results else args:
            op = program.code[a].op
            if op == "const" or (op == "input" and lanes == 1):
                continue
            home.setdefault(a, part_of[position] if op == "input" else part_of[a])
            last[a] = part_of[position]
    slots: dict[int, tuple[int, int]] = {}
    free: list[int] = []
    over: list[list[int]] = [[] for _ in bounds]  # slots that a part reads for the last time
    count = part = 0
    for v in sorted((v for v in home if last[v] > home[v]), key=lambda v: home[v]):
        while part < home[v]:
            free.extend(over[part])
            part += 1
        if not free:
            free.append(count)
            count += 1
        slots[v] = (home[v], free.pop())
        over[last[v]].append(slots[v][1])
    return slots, count
