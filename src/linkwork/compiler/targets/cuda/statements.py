"""Statements of a program, written action by action from its plan."""

from __future__ import annotations

from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.targets.cuda.actions import Action, Chunk, LoopPlan, Plan
from linkwork.compiler.targets.cuda.cost_model import row_stride
from linkwork.compiler.targets.cuda.prelude import LINE, ROW, SECTOR, WARP, ring
from linkwork.compiler.targets.cuda.unit import TranslationUnit

BLOCK = 300  # statements of a basic block: compilers take more than linear time for one
BARRIER_BLOCK = 100  # the same where barriers keep warps together


class Statements:
    """Statements of one program or loop body."""

    def __init__(
        self, unit: TranslationUnit, program: Program, plan: Plan, prefix: str, where: dict[int, int]
    ) -> None:
        self.unit = unit
        self.program = program
        self.plan = plan
        self.prefix = prefix
        self.names: dict[int, str] = {}
        self.where = where  # value -> its slot
        self.lines: list[str] = []
        self.count = 0
        self.block = 0  # line at which the basic block began
        self.constants: dict[int, str] = {}  # inputs of a body that are constants outside
        self.is_lockstep = unit.config.lockstep_loops  # the threads of a block run it together
        self.is_body = False
        # slots that stopped threads must not overwrite
        self.masked_slots: frozenset[int] = frozenset()

    def _plan_ring(self) -> None:
        """Find, for each chunk of outputs written in whole sectors, its start in the ring and whether it is
        the first or last of a run.
        """
        self.places: dict[Chunk, tuple[int, bool, bool]] = {}
        config = self.unit.config
        real = self.unit.real
        if config.write * real.size != LINE or config.places:
            return
        kinds = ("flush", "cut", "loop")
        order = [a.value if a.kind == "flush" else None for a in self.plan.actions if a.kind in kinds]
        base = 0
        sector = SECTOR // real.size
        follows = False
        for chunk, after in zip(order, [*order[1:], None]):
            if chunk is None:
                continue
            base = base if follows else 0
            goes_on = (
                after is not None
                and after[:2] == (chunk.array, chunk.start + chunk.length)
                and not chunk.length % sector
            )
            self.places[chunk] = base, not follows, not goes_on
            base = (base + chunk.length) % ring(real)
            follows = goes_on

    def write(self, end: LoopPlan | None = None) -> list[str]:
        """Return the lines of the program; those of a cut program call its functions. `end` is the loop of
        which this is the body.
        """
        parts: list[list[str]] = []
        self._plan_ring()
        self.chunks = iter([action.value for action in self.plan.actions if action.kind == "flush"])
        for action in self.plan.actions:
            if action.kind == "cut":
                parts.append(self.lines)
                self.lines = []
                self.names = {}
                self.block = 0
            else:
                getattr(self, f"_{action.kind}")(action)
                lockstep = self.unit.config.lockstep and not self.unit.config.lockstep_loops
                if action.kind == "flush" and not lockstep:
                    self.block -= 3 * action.value.length  # one line with many statements
                if len(self.lines) - self.block > (BARRIER_BLOCK if lockstep else BLOCK) and action.kind in (
                    "op",
                    "flush",
                ):
                    self.lines.append("    LW_TOGETHER();" if lockstep else "    LW_BLOCK();")
                    self.block = len(self.lines)
        if end is not None:
            self._finish_body(end)
        if not parts:
            return self.lines
        parts.append(self.lines)
        calls = []
        for k, lines in enumerate(parts):
            name = f"lw_{self.prefix}_part{k}"
            is_end = end is not None and k == len(parts) - 1
            self.unit.function(name, "bool" if is_end else "void", lines)
            calls.append(f"    return {self.unit.call(name)};" if is_end else f"    {self.unit.call(name)};")
        return calls

    # values

    def use(self, v: int) -> str:
        """Return the text of a value where it is used."""
        op, args, attr = self.program.code[v]
        if op == "const":
            return self.unit.constants.text(attr)
        if op == "neg" and v not in self.names:
            text = self.use(args[0])
            return f"(-{text})"
        if v in self.constants:
            return self.constants[v]
        if v not in self.names:
            self._get(v, self.where[v])
        return self.names[v]

    def _fresh(self, v: int) -> str:
        self.count += 1
        return f"{self.prefix}{v}" if v not in self.names else f"{self.prefix}{v}_{self.count}"

    def _get(self, v: int, slot: int) -> None:
        self.count += 1
        name = f"{self.prefix}{v}_{self.count}"
        place = self.unit.slot(slot, v)
        if place is None:
            self.lines.append(f"    const real {name} = lw_l[{slot - self.unit.config.shared}];")
        else:
            self.lines.append(f"    real {name}; LW_GET({place}, {name});")
        self.names[v] = name

    def _put_slot(self, slot: int, text: str, v: int = 0) -> None:
        place = self.unit.slot(slot, v)
        on = "if (lw_on) " if slot in self.masked_slots else ""
        if place is None:
            self.lines.append(f"    {on}lw_l[{slot - self.unit.config.shared}] = {text};")
        else:
            self.lines.append(f"    {on}LW_PUT({place}, {text});")

    # actions

    def _load(self, action: Action) -> None:
        self._get(action.value, action.place)

    def _store(self, action: Action) -> None:
        self.where[action.value] = action.place
        self._put_slot(action.place, self.names[action.value], action.value)

    def _store_condition(self, action: Action) -> None:
        real = self.unit.real
        self._put_slot(
            action.place, f"({self.use(action.value)} ? {real.literal(1.0)} : {real.literal(0.0)})"
        )

    def _op(self, action: Action) -> None:
        v = action.value
        op, args, attr = self.program.code[v]
        kind = "bool" if self.program.kinds[v] == BOOL else "real"
        text = self.unit.expressions[op].format(*(self.use(a) for a in args), attr=attr)
        self.lines.append(f"    const {kind} {self.prefix}{v} = {text};")
        self.names[v] = f"{self.prefix}{v}"

    def _buffer(self, fetch: int) -> str:
        number = fetch % self.unit.config.ahead
        return f"lw_b + {number * WARP * ROW}" if number else "lw_b"

    def _issue(self, action: Action) -> None:
        array, start, count, other = self.plan.fetches[action.value]
        if action.value >= self.unit.config.ahead:
            self.lines.append("    __syncwarp();")
        if array == len(self.unit.inputs):  # crossing values
            assert self.unit.config.part is not None
            slots = ", ".join(map(str, self.unit.config.part.reads[start : start + count]))
            self.lines.append(f"    lw_read<{slots}>(lw_x, {self._buffer(action.value)} + lane);")
            return
        from_ = f"in{array}" + (f" + {start}" if start else "")
        self.lines.append(
            f"    lw_fetch{self._move(f'in{array}_step', from_, count, other)}, "
            f"{self._buffer(action.value)});"
        )

    def _move(self, step: str, address: str, count: int, other: int | None, row: str = "") -> str:
        """Return the call that moves rows between memories, up to its buffer."""
        if not self.unit.config.places:
            return f"<{_width(count)}, {count}{row}>({address}, {step}, lane"
        threads = 1 if other is None else 2
        return f"_pairs<{_width(count)}, {count}, {threads}>({address}, {step}, {other or 0}, lane"

    def _buffer_row(self, differs: bool) -> str:
        """Return the row of a thread in the warp's buffer."""
        return "lane" if differs or not self.unit.config.places else "(lane >> 1)"

    def _arrive(self, action: Action) -> None:
        after = min(self.unit.config.ahead - 1, len(self.plan.fetches) - 1 - action.value)
        self.lines.append(f"    LW_ARRIVE({after});")
        self.lines.append("    __syncwarp();")
        self.fetch = action.value

    def _take(self, action: Action) -> None:
        v = action.value
        name = self._fresh(v)
        if self.plan.fetches[self.fetch].array == len(self.unit.inputs):
            self.lines.append(
                f"    const real {name} = ({self._buffer(self.fetch)})[lane + {WARP * action.place}];"
            )
            self.names[v] = name
            return
        line = self._buffer_row(self.program.code[v].op == "input2")
        self.lines.append(
            f"    const real {name} = ({self._buffer(self.fetch)})[{line} * {ROW} + {action.place}];"
        )
        self.names[v] = name

    def _reread(self, action: Action) -> None:
        self.count += 1
        name = f"{self.prefix}{action.value}_{self.count}"
        self.lines.append(f"    const real {name} = lw_x[{action.place * WARP}];")
        self.names[action.value] = name

    def _keep(self, action: Action) -> None:
        self.lines.append(f"    lw_x[{action.place * WARP}] = {self.use(action.value)};")

    def _begin(self, action: Action) -> None:
        self.lines.append("    __syncwarp();")
        self.chunk: Chunk = next(self.chunks)

    def _out_buffer(self) -> str:
        config = self.unit.config
        number = 0 if config.buffers == config.ahead else config.ahead
        return f"lw_b + {number * WARP * ROW}" if number else "lw_b"

    def _put(self, action: Action) -> None:
        v = action.value
        line = self._buffer_row(bool(self.unit.config.places) and self.unit.differs[v])
        config = self.unit.config
        place = action.place
        if self.chunk in self.places:
            place = (self.places[self.chunk][0] + place) % ring(self.unit.real)
        row = row_stride(self.unit.real.dtype, config.write)
        self.lines.append(f"    ({self._out_buffer()})[{line} * {row} + {place}] = {self.use(v)};")

    def _flush(self, action: Action) -> None:
        chunk: Chunk = action.value
        to = f"out{chunk.array}" + (f" + {chunk.start}" if chunk.start else "")
        config = self.unit.config
        step = f"out{chunk.array}_step" if config.gaps else self.unit.outputs[chunk.array].size
        row = f", {row_stride(self.unit.real.dtype, config.write)}"
        if chunk.length == self.unit.outputs[chunk.array].size and not config.gaps and not config.places:
            self.lines.append(f"    lw_flush_rows<{chunk.length}{row}>({to}, lane, {self._out_buffer()});")
            return
        if chunk in self.places and not all(self.places[chunk][1:]):
            base, first, last = self.places[chunk]
            width = max(_width(chunk.length), SECTOR // self.unit.real.size)
            arguments = f"{width}, {chunk.length}, {base}, {int(first)}, {int(last)}"
            self.lines.append(f"    lw_flush_ring<{arguments}>({to}, {step}, lane, {self._out_buffer()});")
            return
        row += ", 4" if config.part is not None else ""  # in parts, short code matters more
        self.lines.append(
            f"    lw_flush{self._move(str(step), to, chunk.length, chunk.other, row)}, {self._out_buffer()});"
        )

    # two threads per state

    def _even(self, action: Action, other: int = 0) -> None:
        v = action.value
        unit = self.unit
        place = action.place // 2 * unit.config.threads * unit.real.size + other
        self.lines.append(f"    real {self.prefix}{v}; LW_GET(lw_e, {place}, {self.prefix}{v});")
        self.names[v] = f"{self.prefix}{v}"

    def _odd(self, action: Action) -> None:
        self._even(action, self.unit.real.size)

    def _sync(self, action: Action) -> None:
        self.lines.append("    __syncwarp();")

    # loops

    def _loop(self, action: Action) -> None:
        loop: BoundedLoop = self.program.code[action.value].attr
        if action.place.long:
            self._long_loop(action.value, loop, action.place)
        else:
            self._short_loop(action.value, loop)

    def _short_loop(self, v: int, loop: BoundedLoop) -> None:
        """Write a loop with its state in variables."""
        args = self.program.code[v].args
        values = [self.use(a) for a in args]
        states = [f"{self.prefix}{v}s{k}" for k in range(loop.states)]
        for name, value in zip(states, values):
            self.lines.append(f"    real {name} = {value};")
        inner = Statements(self.unit, loop.body, Plan(), f"{self.prefix}{v}_", {})
        for u, (op, _, attr) in enumerate(loop.body.code):
            if op == "input":
                inner.names[u] = states[attr[1]] if attr[0] == 0 else values[loop.states + attr[1]]
        inner.lines = self._loop_head(v, loop)
        for u, (op, _, attr) in enumerate(loop.body.code):
            if isinstance(attr, BoundedLoop):
                inner._short_loop(u, attr)
            elif op not in ("const", "input", "neg", "result"):
                inner._op(Action("op", u))
        results = [inner.use(u) for u in loop.body.results[0]]
        again = inner.use(loop.body.results[1][0])
        fresh = []
        for k, text in enumerate(results):
            inner.lines.append(f"    const real {states[k]}n = {text};")
            fresh.append(f"    {states[k]} = {states[k]}n;")
        inner.lines += [*fresh, f"    if (!{again}) {{", "        break;", "    }", "    }"]
        if loop.skippable:
            inner.lines = [f"    if ({states[-1]} > {self.unit.real.literal(0.0)}) {{", *inner.lines, "    }"]
        self.lines += inner.lines
        self._name_results(v, states)

    def _name_results(self, v: int, states: list[str]) -> None:
        for r in range(v + 1, len(self.program.code)):
            op, args, attr = self.program.code[r]
            if op == "result" and args == (v,):
                self.names[r] = states[attr]

    def _loop_head(self, v: int, loop: BoundedLoop) -> list[str]:
        counter = f"{self.prefix}{v}n"
        limit = min(loop.limit, 2**63 - 1)
        return [
            "#pragma unroll 1",
            f"    for (long long {counter} = 0; {counter} < {limit}LL; {counter}++) {{",
        ]

    def _long_loop(self, v: int, loop: BoundedLoop, plan: LoopPlan) -> None:
        """Write a loop with its state in slots."""
        for value, slot in [*plan.initial_states, *plan.outer_stores]:
            self._put_slot(slot, self.use(value))
        where: dict[int, int] = {}
        unit = self.unit
        unit.bodies += 1
        inner = Statements(unit, loop.body, plan.body, f"y{unit.bodies}_", where)
        has_loops = any(action.kind == "loop" and action.place.long for action in plan.body.actions)
        inner.is_lockstep = self.is_lockstep and (not self.is_body or has_loops)
        inner.is_body = True
        if inner.is_lockstep:
            inner.masked_slots = frozenset(plan.states)
            self.lines.append(f"    const bool {inner.prefix}on = lw_on;")
        args = self.program.code[v].args
        for u, (op, _, attr) in enumerate(loop.body.code):
            if op == "input":
                array, element = attr
                slot = plan.states[element] if array == 0 else plan.outer[element]
                if slot is None:  # a constant
                    inner.constants[u] = self.use(args[loop.states + element])
                else:
                    where[u] = slot
        lines = inner.write(plan)
        if lines and lines[-1].startswith("    return "):
            last = lines[-1].removeprefix("    return ").removesuffix(";")
            lines = [*lines[:-1], *inner._loop_exit(last)]
        lines = [*self._loop_head(v, loop), *lines, "    }"]
        if loop.skippable:
            enters = f"{self.use(args[loop.states - 1])} > {self.unit.real.literal(0.0)}"
            any_enters = f"LW_ANY(lw_on & ({enters}))" if inner.is_lockstep else enters
            lines = [f"    if ({any_enters}) {{", *lines, "    }"]
        self.lines += lines
        if inner.is_lockstep:
            self.lines.append(f"    lw_on = {inner.prefix}on;")
        elif self.is_lockstep:
            self.lines.append("    LW_TOGETHER();")
        for r in range(v + 1, len(self.program.code)):
            op, inner_args, attr = self.program.code[r]
            if op == "result" and inner_args == (v,):
                self.where[r] = plan.states[attr]

    def _finish_body(self, plan: LoopPlan) -> None:
        """Store the states that are left, and evaluate the condition to continue."""
        texts = [(slot, self.use(value)) for value, slot in plan.final_states]
        cut = any(action.kind == "cut" for action in self.plan.actions)
        condition = self.program.results[1][0]
        if plan.condition_slot is None:
            again = self.use(condition)
        else:
            self._get(condition, plan.condition_slot)
            again = f"({self.names[condition]} != {self.unit.real.literal(0.0)})"
        for slot, text in texts:
            self._put_slot(slot, text)
        self.lines += [f"    return {again};"] if cut else self._loop_exit(again)

    def _loop_exit(self, again: str) -> list[str]:
        """Return the end of a body, which leaves the loop unless `again`; a block that steps together leaves
        it when all threads have stopped.
        """
        if self.is_lockstep:
            return [f"    lw_on = lw_on & {again};", "    if (!LW_ANY(lw_on)) {", "        break;", "    }"]
        stops = f"!({again} & lw_on)" if self.unit.config.lockstep_loops else f"!{again}"
        return [f"    if ({stops}) {{", "        break;", "    }"]


def _width(count: int) -> int:
    """Return the least power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()
