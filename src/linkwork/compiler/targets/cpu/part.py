"""Instructions of a body between two cuts, as LLVM text (see `body`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import BoundedLoop
from linkwork.compiler.targets.cpu.layout import runs
from linkwork.compiler.targets.cpu.operations import operation
from linkwork.compiler.targets.cpu.rows import LINE, load_columns, row_pointers

if TYPE_CHECKING:
    from linkwork.compiler.targets.cpu.body import Body, CutLoop, MapBody

# instructions between two fences, across which LLVM moves no load: it would load too early, and spill
FENCE_INTERVAL = 16


class Part:
    """Writer of the instructions between two cuts."""

    def __init__(self, body: Body, part: range) -> None:
        self.body = body
        self.types = body.types
        self.part = part
        self.lines: list[str] = []
        self.block = "entry"
        self.names: dict[int, str] = {}
        self.negated: dict[str, str] = {}
        self.hoisted: set[str] = set()  # values computed in the first block

    def text(self) -> str:
        body = self.body
        code = self.body.program.code
        spills = self.body.spills
        self.lines.append("entry:")
        for v in self.part:
            if body.fenced and v % FENCE_INTERVAL == 0:
                self.lines.append('call void asm sideeffect "", "~{memory}"()')
            for base, line in body.prefetches.get(v, ()):
                self._prefetch(base, line)
            for array, block in spills.reads.get(v, ()):
                self._read(array, block)
            for a in spills.loads.get(v, ()):
                self.names[a] = self._load("%scratch", spills.slots.of[a], f"%v{a}.{v}")
            op, args, attr = code[v]
            if op not in ("const", "input", "neg"):
                if v in body.each:
                    self._map(v, body.each[v])
                    continue
                if v in body.maps.direct:
                    if v in body.maps.loaded:
                        self._name(v, self._load("%scratch", body.maps.loaded[v], f"%v{v}"))
                    continue
                operands = [self._use(a) for a in args]
                if v in body.loops:
                    self._cut_loop(f"%v{v}", operands, attr, body.loops[v])
                    self._name(v, f"%v{v}")
                else:
                    self._name(v, self._instruction(f"%v{v}", op, operands, attr))
            self._store_results(v)
        self.lines.append("")
        return "\n".join(self.lines)

    def _name(self, v: int, name: str) -> None:
        """Record the name of a new value, and store it in its slot if it is spilled."""
        self.names[v] = name
        slot = self.body.spills.slots.of.get(v)
        if slot is not None:
            self._store("%scratch", slot, name)
        for column in self.body.maps.stores.get(v, ()):
            self._store("%scratch", column, name)

    def _store_results(self, v: int) -> None:
        """Store a new value in the outputs: in the row of one lane, or as a waiting column."""
        if self.body.outputs:
            for column in self.body.outputs.columns.get(v, ()):
                self._store("%scratch", self.body.waiting + column, self._as_real(v))
        else:
            for array, element in self.body.stores.get(v, ()):
                self._store(f"%out{array}", element, self._as_real(v))

    def _use(self, v: int) -> str:
        """Return the name of a value; negation is done at the use, where most instructions do it for free."""
        op, args, attr = self.body.program.code[v]
        if op == "const":
            return self.types.constant(attr)
        if op != "neg":
            return self.names[v]
        name = self._use(args[0])
        if name not in self.negated:
            self.negated[name] = self._instruction(f"%n{v}.{len(self.lines)}", "neg", [name], None)
        return self.negated[name]

    def _as_real(self, v: int) -> str:
        """Return the name of a value as a real; 1 or 0 for a condition."""
        name = self._use(v)
        t = self.types
        if self.body.program.kinds[v] != BOOL:
            return name
        out = f"%b{v}.{len(self.lines)}"
        self.lines.append(operation("select", out, [name, t.constant(1.0), t.constant(0.0)], t))
        return out

    def _read(self, array: int, block: int) -> None:
        """Read `lanes` elements of an input: one element of one row, or a block of all rows as columns."""
        t = self.types
        base = f"%in{array}"
        if self.body.columns:
            names = [self._load(base, block, f"{base}.{block}.{len(self.lines)}")]
        else:
            self._once(f"{base}.r", row_pointers(base, t.lanes))
            lines, names = load_columns(t, base, block, self.body.program.inputs[array].size)
            self.lines += lines
        for k, name in enumerate(names, block * len(names)):
            if (array, k) in self.body.inputs:
                self._name(self.body.inputs[array, k], name)

    def _once(self, key: str, lines: list[str]) -> None:
        """Add lines to the first block once, so that all other blocks may use their values."""
        if key not in self.hoisted:
            self.hoisted.add(key)
            self.lines[1:1] = lines  # in the first block, so that all others may use them

    def _prefetch(self, base: str, line: int) -> None:
        """Prefetch a cache line of the rows that the next tile reads, or that this one writes."""
        write = int(base.startswith("%out"))
        at = f"{base}.p{line}"
        start = base if write else f"{base}.rows"
        near = 3 if self.body.program.cuts else 2  # a short program needs the nearest cache for itself
        if not write:
            rows = f"{start} = getelementptr i8, ptr {base}, i64 {start}.far"
            self._once(start, [f"{start}.far = mul i64 {self.types.lanes}, {base}.step", rows])
        self.lines.append(f"{at} = getelementptr i8, ptr {start}, i64 {line * LINE}")
        self.lines.append(f"call void @llvm.prefetch.p0(ptr {at}, i32 {write}, i32 {near}, i32 1)")

    def _instruction(self, out: str, op: str, args: list[str], attr: object) -> str:
        if isinstance(attr, BoundedLoop):
            self._loop(out, args, attr)
        elif op == "result":
            return f"{args[0]}.s{attr}"
        else:
            self.lines.append(operation(op, out, args, self.types))
        return out

    def _load(self, base: str, element: int, out: str) -> str:
        t = self.types
        pitch = self.body.pitch.get(base)
        self.lines.append(f"{out}.a = getelementptr i8, ptr {base}, i64 {element * (pitch or t.bytes)}")
        if pitch == t.item < t.bytes:  # one for all lanes
            self.lines.append(f"{out}.1 = load {t.scalar}, ptr {out}.a, align {t.item}")
            self.lines.append(f"{out}.i = insertelement {t.real} poison, {t.scalar} {out}.1, i64 0")
            self.lines.append(
                f"{out} = shufflevector {t.real} {out}.i, {t.real} poison, <{t.lanes} x i32> zeroinitializer"
            )
        else:
            self.lines.append(f"{out} = load {t.real}, ptr {out}.a, align {t.item if pitch else t.bytes}")
        return out

    def _store(self, base: str, element: int, value: str) -> None:
        t = self.types
        pitch = self.body.pitch.get(base)
        at = f"{base}.{element}.{len(self.lines)}"
        self.lines.append(f"{at} = getelementptr i8, ptr {base}, i64 {element * (pitch or t.bytes)}")
        self.lines.append(f"store {t.real} {value}, ptr {at}, align {t.item if pitch else t.bytes}")

    def _map(self, v: int, each: MapBody) -> None:
        """Run a map on its rows in the scratch array; copy results to the outputs of one state."""
        body = self.body
        t = self.types
        maps = self.body.maps
        for a, column in maps.late.get(v, ()):
            self._store("%scratch", column, self._use(a))
        places = maps.places[v]
        names = []
        for word, column in (
            ("own", body.map_scratch[v]), ("rows", places.rows), ("shared", maps.start),
            ("found", places.results_start)
        ):  # fmt: skip
            names.append(f"ptr %v{v}.{word}")
            self.lines.append(f"%v{v}.{word} = getelementptr i8, ptr %scratch, i64 {column * t.bytes}")
        self.lines.append(f"call void @{each.name}({', '.join(names)})")
        if body.outputs is None:
            copies = [
                (maps.direct[r], array, element)
                for r in maps.results[v]
                for array, element in body.stores.get(r, ())
            ]
            for n, (column, array, element, length) in enumerate(runs(copies)):
                kind = f"<{length} x {t.scalar}>"
                at = f"%v{v}.copy{n}"
                self.lines += [
                    f"{at}.from = getelementptr i8, ptr %scratch, i64 {column * t.bytes}",
                    f"{at} = load {kind}, ptr {at}.from, align {t.item}",
                    f"{at}.to = getelementptr i8, ptr %out{array}, i64 {element * t.bytes}",
                    f"store {kind} {at}, ptr {at}.to, align {t.item}",
                ]

    def _loop(self, out: str, args: list[str], loop: BoundedLoop) -> None:
        """Run the body while any lane is active; a lane that has stopped keeps its state."""
        t = self.types
        body = loop.body
        lines = self.lines
        label = out[1:]
        before = self.block
        masked = t.lanes > 1
        last = "t" if loop.skippable else "s"  # the state after a turn; `s` is that after the loop
        lines += [*self._entry(out, args, loop), f"{label}.loop:"]
        self.block = f"{label}.loop"
        head = len(lines)  # the phis go here, once the block they come back from is known
        names: dict[int, str] = {}

        def use(v: int) -> str:
            if v not in names:
                names[v] = t.constant(body.code[v].attr)
            return names[v]

        for v, (op, inner, attr) in enumerate(body.code):
            if op == "input":
                array, element = attr
                names[v] = f"{out}.i{element}" if array == 0 else args[loop.states + element]
            elif op != "const":
                names[v] = self._instruction(f"{out}.{v}", op, [use(a) for a in inner], attr)

        after = [use(v) for v in body.results[0]]
        again = use(body.results[1][0])
        for k, value in enumerate(after):
            unchanged = f"{out}.i{k}" if masked else value
            mask = f"{out}.on" if masked else "true"
            change = f"{t.real} {value}, {t.real} {unchanged}"
            lines.append(f"{out}.{last}{k} = select {t.condition} {mask}, {change}")
        self._repeat(out, again, loop)
        back = self.block
        phis = self._counting(out, before, back)
        for k in range(loop.states):
            phis.append(f"{out}.i{k} = phi {t.real} [ {args[k]}, %{before} ], [ {out}.{last}{k}, %{back} ]")
        lines[head:head] = phis
        if loop.skippable:
            for k in range(loop.states):
                lines.append(f"{out}.s{k} = phi {t.real} [ {args[k]}, %{before} ], [ {out}.t{k}, %{back} ]")
        self.block = f"{label}.done"

    def _entry(self, out: str, args: list[str], loop: BoundedLoop) -> list[str]:
        """Return the lines that enter a loop, or skip it if it may be and no lane enters."""
        t = self.types
        label = out[1:]
        if not loop.skippable:
            return [f"br label %{label}.loop"]
        enters = f"{out}.enters"
        lines = [operation("lt", enters, [t.constant(0.0), args[loop.states - 1]], t)]
        if t.lanes > 1:
            reduce = f"@llvm.vector.reduce.or.v{t.lanes}i1({t.condition} {enters})"
            enters = f"{out}.entered"
            lines.append(f"{enters} = call i1 {reduce}")
        return [*lines, f"br i1 {enters}, label %{label}.loop, label %{label}.done"]

    def _counting(self, out: str, before: str, back: str) -> list[str]:
        """Return the start of a loop's block, entered from `before` and `back`:
        iterations and active lanes.
        """
        t = self.types
        lines = [f"{out}.n = phi i64 [ 0, %{before} ], [ {out}.count, %{back} ]"]
        if t.lanes > 1:
            lines.append(
                f"{out}.on = phi {t.condition} [ {t.constant(True)}, %{before} ], [ {out}.next, %{back} ]"
            )
        return lines

    def _repeat(self, out: str, again: str, loop: BoundedLoop) -> None:
        """Write the end of a loop's block: repeat while any lane is active, up to the limit."""
        t = self.types
        lines = self.lines
        label = out[1:]
        if t.lanes > 1:
            lines.append(f"{out}.next = and {t.condition} {out}.on, {again}")
            lines.append(f"{out}.any = call i1 @llvm.vector.reduce.or.v{t.lanes}i1({t.condition} {out}.next)")
            again = f"{out}.any"
        lines.append(f"{out}.count = add i64 {out}.n, 1")
        lines.append(f"{out}.more = icmp ult i64 {out}.count, {loop.limit}")
        lines.append(f"{out}.go = and i1 {out}.more, {again}")
        lines.append(f"br i1 {out}.go, label %{label}.loop, label %{label}.done")
        lines.append(f"{label}.done:")

    def _cut_loop(self, out: str, args: list[str], loop: BoundedLoop, places: CutLoop) -> None:
        """Run a loop with its state in the scratch array: functions compute the next state,
        then both swap.
        """
        t = self.types
        lines = self.lines
        label = out[1:]
        for name in ("state", "following", "outer", "again", "scratch"):
            lines.append(
                f"{out}.{name} = getelementptr i8, ptr %scratch, i64 {getattr(places, name) * t.bytes}"
            )
        for k, value in enumerate(args):
            inside = k < loop.states
            self._store(f"{out}.{'state' if inside else 'outer'}", k if inside else k - loop.states, value)
        before = self.block
        back = f"{label}.whole"
        lines += [*self._entry(out, args, loop), f"{label}.loop:", *self._counting(out, before, back)]
        for current_name, next_name, first in (("now", "then", "state"), ("then", "now", "following")):
            lines.append(
                f"{out}.{current_name} = phi ptr [ {out}.{first}, %{before} ], [ {out}.{next_name}, %{back} ]"
            )
        parameters = ", ".join(f"ptr {out}.{name}" for name in ("scratch", "now", "outer", "then", "again"))
        lines.append(f"call void @{places.body.name}({parameters})")
        if t.lanes > 1:  # lanes that have stopped keep their state
            lines.append(operation("not", f"{out}.off", [f"{out}.on"], t))
            lines.append(f"{out}.some = call i1 @llvm.vector.reduce.or.v{t.lanes}i1({t.condition} {out}.off)")
            lines += [f"br i1 {out}.some, label %{label}.keep, label %{label}.whole", f"{label}.keep:"]
            for k in range(loop.states):
                fresh = self._load(f"{out}.then", k, f"{out}.f{k}")
                old = self._load(f"{out}.now", k, f"{out}.o{k}")
                lines.append(operation("select", f"{out}.c{k}", [f"{out}.on", fresh, old], t))
                self._store(f"{out}.then", k, f"{out}.c{k}")
        lines += [f"br label %{label}.whole", f"{label}.whole:"]
        continues = self._load(f"{out}.again", 0, f"{out}.wanted")
        lines.append(operation("lt", f"{out}.goes", [t.constant(0.0), continues], t))
        self._repeat(out, f"{out}.goes", loop)
        last = "then"
        if loop.skippable:
            last = "last"
            lines.append(f"{out}.last = phi ptr [ {out}.state, %{before} ], [ {out}.then, %{back} ]")
        for k in range(loop.states):
            self._load(f"{out}.{last}", k, f"{out}.s{k}")
        self.block = f"{label}.done"
