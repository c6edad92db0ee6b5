"""The computing part of a kernel as LLVM text: one program on `lanes` states at once.

A body reads and writes tiles: element k of an array, for all lanes, lies at tile[k * lanes : (k + 1) * lanes]. With one
lane a tile is an ordinary contiguous row. A program with cuts becomes several functions, and the values that cross a cut
lie in one more tile, the scratch.
"""

from __future__ import annotations

from collections.abc import Sequence

from linkwork.ir.program import Loop, Program
from linkwork.targets.cpu.operations import operation
from linkwork.targets.cpu.types import Types


class Body:
    """Writes the functions of one program for one number of lanes; the one called `name` runs the others in order."""

    def __init__(self, program: Program, lanes: int, name: str) -> None:
        self.program = program
        self.types = Types(program.dtype, lanes)
        self.name = name
        self.bounds = [0, *program.cuts, len(program.code)]
        self.slots, self.scratch = crossing_slots(program, self.bounds)
        self.stores = _output_addresses(program)

    @property
    def pointers(self) -> list[str]:
        """One pointer per input, per output, and one to the scratch."""
        arrays = [f"%in{k}" for k in range(len(self.program.inputs))]
        return [*arrays, *(f"%out{k}" for k in range(len(self.program.outputs))), "%scratch"]

    def declaration(self) -> str:
        """The declaration of the function called `name`, for other modules."""
        return f"declare void @{self.name}({', '.join('ptr' for _ in self.pointers)})\n"

    def functions(self) -> list[str]:
        """The text of every function, to be compiled one by one."""
        signature = ", ".join(f"ptr noalias {p}" for p in self.pointers)
        parts = [_Part(self, k).text() for k in range(len(self.bounds) - 1)]
        if len(parts) == 1:
            return [f"define void @{self.name}({signature}) #0 {{\n{parts[0]}ret void\n}}\n"]
        types = ", ".join("ptr" for _ in self.pointers)
        arguments = ", ".join(f"ptr {p}" for p in self.pointers)
        names = [f"{self.name}.{k}" for k in range(len(parts))]
        calls = "".join(f"call void @{name}({arguments})\n" for name in names)
        known = "".join(f"declare void @{name}({types})\n" for name in names)
        whole = f"{known}define void @{self.name}({signature}) #0 {{\n{calls}ret void\n}}\n"
        define = "define void @{}({}) #0 {{\n{}ret void\n}}\n"
        return [define.format(name, signature, part) for name, part in zip(names, parts, strict=True)] + [whole]


class _Part:
    """Writes the instructions between two cuts."""

    def __init__(self, body: Body, number: int) -> None:
        self.body = body
        self.types = body.types
        self.range = range(body.bounds[number], body.bounds[number + 1])
        self.lines: list[str] = []
        self.block = "entry"

    def text(self) -> str:
        body, program = self.body, self.body.program
        names: dict[int, str] = {}

        def use(v: int) -> str:
            """The name of a value; a constant, an input element or a value of an earlier part is fetched on first use."""
            name = names.get(v)
            if name is None:
                op, _, attr = program.code[v]
                if op == "const":
                    name = self.types.constant(attr)  # type: ignore[arg-type]
                elif op == "input":
                    name = self._load(f"%in{attr[0]}", attr[1], f"%v{v}")  # type: ignore[index]
                else:
                    name = self._load("%scratch", body.slots[v], f"%v{v}")
                names[v] = name
            return name

        self.lines.append("entry:")
        for v in self.range:
            op, args, attr = program.code[v]
            if op not in ("const", "input"):
                names[v] = self._instruction(f"%v{v}", op, [use(a) for a in args], attr)
            if v in body.slots:
                self._store("%scratch", body.slots[v], names[v])
            for array, element in body.stores.get(v, ()):
                self._store(f"%out{array}", element, use(v))
        self.lines.append("")
        return "\n".join(self.lines)

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


def _output_addresses(program: Program) -> dict[int, list[tuple[int, int]]]:
    """Which output elements each value is; written as soon as the value is known."""
    addresses: dict[int, list[tuple[int, int]]] = {}
    for array, values in enumerate(program.results):
        for element, v in enumerate(values):
            addresses.setdefault(v, []).append((array, element))
    return addresses


def crossing_slots(program: Program, bounds: Sequence[int]) -> tuple[dict[int, int], int]:
    """A scratch slot for every value that a later part reads, and how many slots there are.

    A slot is used again from the part after the one that reads it last.
    """
    part_of = [k for k in range(len(bounds) - 1) for _ in range(bounds[k], bounds[k + 1])]
    last_part: dict[int, int] = {}
    for v, (_, args, _) in enumerate(program.code):
        for a in args:
            if part_of[a] < part_of[v] and program.code[a].op not in ("const", "input"):
                last_part[a] = part_of[v]
    slots: dict[int, int] = {}
    free: list[int] = []
    over: list[list[int]] = [[] for _ in bounds]  # slots that a part reads for the last time
    count, part = 0, 0
    for v in sorted(last_part):
        while part < part_of[v]:
            free.extend(over[part])
            part += 1
        if not free:
            free.append(count)
            count += 1
        slots[v] = free.pop()
        over[last_part[v]].append(slots[v])
    return slots, count
