"""CUDA text of the last kernel of a long program, which runs its maps and writes its outputs (see `maps`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.map_copies import copies, negated_copies
from linkwork.compiler.targets.cuda.map_kernel import MapGroup, MapKernel, Task
from linkwork.compiler.targets.cuda.map_layout import GroupLayout
from linkwork.compiler.targets.cuda.map_output import flush_lines
from linkwork.compiler.targets.cuda.maps import Phase, Tree
from linkwork.compiler.targets.cuda.prelude import REALS, WARP, Constants, expressions, prelude

NAME = "linkwork"  # of every kernel: names of programs may be any text
SHARED_TREE_OPERATIONS = 60  # operations of trees from which all warps of a block share the work
BLOCK = 300  # statements of a basic block
WAIT_UNTIL_FREE = [
    "    if (!free) {",
    "        free = true;",
    "        LW_WRITTEN();",
    "        LW_TOGETHER();",
    "    }",
]
MAX_ROW_REGISTERS = 80  # arguments and results of a row that fit registers
TREE_GROUP = 16  # trees whose values are stored together, so that common operands are loaded once


def map_text(kernel: MapKernel, blocks: int) -> str:
    """Return the CUDA text for `blocks` blocks on a multiprocessor."""
    return _Unit(kernel, blocks).text()


class _Unit:
    """The text under construction."""

    def __init__(self, kernel: MapKernel, blocks: int) -> None:
        self.kernel = kernel
        self.plan = kernel.plan
        self.blocks = blocks
        self.program = kernel.plan.program
        self.real = REALS[self.program.dtype]
        self.expressions = expressions(self.real)
        self.constants = Constants(self.real)
        self.threads = kernel.warps * WARP
        self.layouts = [
            GroupLayout(kernel.rows(group), kernel.offset_patterns(group)) for group in kernel.groups
        ]
        self.rows: list[int] = []  # table of rows
        self.tasks: list[int] = []

    def text(self) -> str:
        inputs = [f"in{k}" for k in range(len(self.program.inputs))]
        outputs = [f"out{k}" for k in range(len(self.program.outputs))]
        arrays = [
            f"{'const ' * (n in inputs)}real *__restrict__ {n}, long long {n}_step"
            for n in (*inputs, *outputs)
        ]
        bodies = [self._body(group, layout) for group, layout in zip(self.kernel.groups, self.layouts)]
        self._schedule()
        lines = [
            f'extern "C" __global__ void __launch_bounds__({self.threads}, {self.blocks})',
            f"{NAME}(int rows, {', '.join(arrays)}, real *scratch) {{",
            *self._variables(),
            *(f"    {n} += (long long)(first + state) * {n}_step;" for n in inputs),
            *self._load(),
            "#pragma unroll 1",
            f"    for (int phase = 0; phase < {len(self.plan.phases)}; phase++) {{",
            *self._phase(bodies),
            "    }",
            "    LW_WRITTEN();",
            "}",
            "",
        ]
        return "\n".join([prelude(self.real), *self.constants.lines(), *self._tables(), "\n".join(lines)])

    def _variables(self) -> list[str]:
        """Return the variables of a thread: its state, its turn among rows, and its places in memory."""
        kernel = self.kernel
        states = kernel.states
        return [
            "    LW_SHARED(shared);",
            f"    const int lane = threadIdx.x & {WARP - 1}, warp = threadIdx.x / {WARP};",
            f"    const int state = lane & {states - 1}, turn = lane / {states}; /* which state, and which "
            "of a warp's rows */",
            f"    const int row = (int)blockIdx.x * {states}, group = row / {WARP};",
            f"    const int first = row < rows - {states} ? row : rows - {states};",
            f"    const int last = rows - {WARP}, begin = {WARP} * group < last ? {WARP} * group : last; /* "
            "a part's */",
            f"    real *lw_g = scratch + (long long)group * {kernel.slots * WARP} + (first - begin);",
            "    real *lw_x = lw_g + state;",
            f"    real *lw_s = shared + {states * kernel.row_numbers};",
            "    real *lw_v = lw_s + state;",
            f"    real *lw_o = shared + state * {kernel.pitch(self.plan.phases[0])};",
        ]

    def _phase(self, bodies: list[list[str]]) -> list[str]:
        """Return the statements of one phase: tasks of rows, copies, and the trees behind them."""
        kernel = self.kernel
        turns = kernel.rows_per_warp
        return [
            "    bool free = phase == 0; /* whether what was written last was read, so that others may lie "
            "there */",
            *(
                f"    if (phase == {k}) {{ lw_o = shared + state * {pitch}; }}"
                for k, pitch in self._pitches()
            ),
            f"    const int *task = lw_task + (phase * {kernel.warps} + warp) * {self.length * (turns + 1)};",
            "#pragma unroll 1",
            f"    for (int t = 0; t < {self.length} && task[0] >= 0; t++, task += {turns + 1}) {{",
            "    const int *r = lw_row + task[1 + turn];",
            "    switch (task[0]) {",
            *(
                line
                for k, body in enumerate(bodies)
                for line in (f"    case {k}: {{", *body, "    break;", "    }")
            ),
            "    }",
            "    }",
            *WAIT_UNTIL_FREE,
            "    if (phase > 0) {",
            *copies(kernel, "phase"),
            "    }",
            *negated_copies(kernel),
            "    LW_COMMIT();",
            "    LW_ARRIVE(0);",
            *self._trees(),
            "    LW_FENCE();",
            "    LW_TOGETHER();",
            *flush_lines(kernel),
        ]

    def _pitches(self) -> list[tuple[int, int]]:
        """Return the phases whose row stride differs from that of the previous phase."""
        pitches = [self.kernel.pitch(phase) for phase in self.plan.phases]
        return [(k, after) for k, (before, after) in enumerate(pairwise(pitches), 1) if before != after]

    def _tables(self) -> list[str]:
        tables = {
            "row": self.rows, "task": self.tasks, "bound": self.plan.copy_bounds(False),
            "bound2": self.plan.copy_bounds(True),
            "sign": [k for k, v in enumerate(self.kernel.shared_values) if self.kernel.is_negated(v)],
        }  # fmt: skip
        lines = [
            f"LW_DATA int lw_{n}[] = {{{', '.join(map(str, entries))}}};"
            for n, entries in tables.items()
            if entries
        ]
        for name, negated in (("copied", False), ("copied2", True)):
            copies = [
                f"{self._slot(slot) | one << 32 | other << 48}ULL"
                for slot, _, one, other in self.plan.copies(negated)
            ]
            lines += [f"LW_DATA unsigned long long lw_{name}[] = {{{', '.join(copies)}}};"] if copies else []
        return lines

    # before the rows

    def _load(self) -> list[str]:
        """Copy shared values and elements of the first output to shared memory.

        Write constants and inputs.
        """
        kernel = self.kernel
        states = self.kernel.states
        threads = self.threads
        lines: list[str] = []
        count = sum(map(self.kernel.waits, kernel.shared_values))
        assert [self.plan.slot(v)[0] for v in kernel.shared_values[:count]] == list(range(count))
        if count:
            one = f"for (int i = threadIdx.x; i < {count * states}; i += {threads}) {{"
            each = [
                f"    {one}",
                f"        LW_COPY(lw_s + i, lw_g + (i / {states} * {WARP} + i % {states}));",
                "    }",
            ]
            wide = 16 // self.real.size
            if states >= wide:
                pieces = states // wide
                each = [
                    f"    if ((first - begin) % {wide} == 0) {{",
                    "#pragma unroll 4",
                    f"    for (int i = threadIdx.x; i < {count * pieces}; i += {threads}) {{",
                    f"        LW_COPY16(lw_s + i * {wide}, lw_g + (i / {pieces} * {WARP} + i % {pieces} * "
                    f"{wide}));",
                    "    }",
                    "    } else {",
                    *each,
                    "    }",
                ]
            lines += each
        few = []
        for v, k in self.plan.leaf_slots.items():
            text = self._input(v) if self.program.code[v].op == "input" else self._of(v)
            few.append(f"        lw_x[{(kernel.first_leaf + k) * WARP}] = {text};")
        for k, v in enumerate(kernel.shared_values[count:]):
            few.append(f"        lw_v[{(count + k) * states}] = {self._input(v)};")
        if few:
            lines += [f"    if (threadIdx.x < {states}) {{", *few, "    }", "    LW_TOGETHER();"]
        lines += [
            *copies(self.kernel, "0"),
            f"    for (int i = threadIdx.x + {count}; i < {self.plan.row_slots}; i += {threads}) {{",
            f"        LW_SOON(lw_g + i * {WARP}); /* what rows take */",
            "    }",
            "    LW_COMMIT();",
            "    LW_ARRIVE(0);",
            "    LW_TOGETHER();",
        ]
        negated = sum(map(self.kernel.is_negated, kernel.shared_values))
        if negated:
            lines += [
                f"    for (int i = threadIdx.x / {states}; i < {negated}; i += {threads // states}) {{",
                f"        lw_v[lw_sign[i] * {states}] = -lw_v[lw_sign[i] * {states}];",
                "    }",
                "    LW_TOGETHER();",
            ]
        return lines

    # rows

    def _schedule(self) -> None:
        """Fill the tables of rows and of the tasks of each warp, phase by phase."""
        kernel = self.kernel
        turns = self.kernel.rows_per_warp
        every = [kernel.tasks(phase) for phase in self.plan.phases]
        self.length = max(
            1, *(len(warp_tasks) for tasks in every for warp_tasks in tasks)
        )  # tasks of a warp in a phase
        for phase, tasks in zip(self.plan.phases, every):
            at: dict[tuple[int, int], int] = {}
            for warp_tasks in tasks:
                for task in warp_tasks:
                    self._append_task(task, phase, at)
                self.tasks += [-1] * ((self.length - len(warp_tasks)) * (turns + 1))

    def _append_task(self, task: Task, phase: Phase, at: dict[tuple[int, int], int]) -> None:
        """Append a task, and those of its rows that are not yet `at` a place in the table."""
        for row in task.rows:
            if row not in at:
                at[row] = len(self.rows)
                self._row(self.kernel.groups[task.group], self.layouts[task.group], phase, *row)
        self.tasks += [task.group, *(at[row] for row in task.rows)]

    def _row(self, group: MapGroup, layout: GroupLayout, phase: Phase, v: int, number: int) -> None:
        """Append a row to the table."""
        row = self.kernel.ordered(group, v, phase.rows[v][number])
        place = list(group.maps).index(v)
        slots = [slot for slot, _ in row.sources]
        self.rows += [
            layout.results.base(row.targets),
            self._slot(layout.slots.base(slots)),
            *(2 * offsets[place][0] * self.kernel.states + offsets[place][1] for offsets in layout.maps),
            *(-1 if (target := row.targets[e]) is None else target for e in layout.results.irregular),
            *(self._slot(slots[e]) for e in layout.slots.irregular),
            *(int(row.sources[e][1]) for e in layout.signed),
        ]

    def _slot(self, slot: int) -> int:
        """Return the place of a slot for a thread; slots that this kernel fills follow those of the parts."""
        waiting_count = len(self.plan.slots)
        return (slot if slot < waiting_count else self.kernel.first_leaf + slot - waiting_count) * WARP

    def _body(self, group: MapGroup, layout: GroupLayout) -> list[str]:
        """Return the statements that run a row."""
        body = group.program
        names = dict[int, str]()
        lines = ["    real *lw_p = lw_o + r[0]; const real *lw_y = lw_x + r[1];"]
        offsets = len(layout.maps)
        for k in range(offsets):
            lines.append(
                f"    const real *lw_w{k} = lw_v + (r[{2 + k}] >> 1); const int lw_z{k} = r[{2 + k}] & 1;"
            )
        for u, (op, _, attr) in enumerate(body.code):
            if op == "input" and attr[0] == 1:
                names[u] = self._of_maps(layout, group.values[attr[1]])
            elif op == "input":
                names[u] = f"y{u}"
                lines.append(
                    f"    const real y{u} = "
                    f"{self._source(layout, attr[1], 2 + offsets + len(layout.results.irregular))};"
                )
        waits = sum(array.size for array in (body.inputs[0], *body.outputs)) <= MAX_ROW_REGISTERS
        lines += [] if waits else WAIT_UNTIL_FREE
        lines += self._operations(body, range(len(body.code)), names, "y")
        lines += WAIT_UNTIL_FREE if waits else []
        for e, u in enumerate(body.results[0]):
            value = self._use(body, u, names)
            if e in layout.results.irregular:
                place = f"r[{2 + offsets + layout.results.irregular.index(e)}]"
                text = f"lw_o[{place}] = {value};"
                lines.append(
                    f"    if ({place} >= 0) {{ {text} }}" if e in layout.results.missing else f"    {text}"
                )
            else:
                lines.append(f"    lw_p[{layout.results.distances[e]}] = {value};")
        return lines

    def _source(self, layout: GroupLayout, element: int, at: int) -> str:
        """Return an argument of a row; irregular arguments are in the table from `at` on."""
        if element in layout.slots.irregular:
            text = f"lw_x[r[{at + layout.slots.irregular.index(element)}]]"
        else:
            text = f"lw_y[{layout.slots.distances[element] * WARP}]"
        if element in layout.signed:
            text = f"lw_turned({text}, r[{at + len(layout.slots.irregular) + layout.signed.index(element)}])"
        return text

    def _of(self, v: int) -> str:
        """Return a value of the program: in shared memory, in GPU memory, or an input."""
        op, args, attr = self.program.code[v]
        if op == "neg":
            return f"(-{self._of(args[0])})"
        if op == "const":
            return self.constants.text(attr)
        if v in self.kernel.shared_places:
            place, negated = self.kernel.shared_places[v]
            text = f"lw_v[{place * self.kernel.states}]"
            return f"(-{text})" if negated else text
        return f"lw_x[{self._slot(self.plan.slots[v])}]" if self.kernel.waits(v) else self._input(v)

    def _of_maps(self, layout: GroupLayout, map_values: tuple[int, ...]) -> str:
        """Return a shared value of a group: the same for all maps, or one for each."""
        if len(set(map_values)) == 1:
            return self._of(map_values[0])
        offsets = self.kernel.offsets(map_values)
        place, _ = self.kernel.shared_places[self.plan.unsigned[map_values[0]]]
        pointer = layout.maps.index(offsets)
        text = f"lw_w{pointer}[{place * self.kernel.states}]"
        signs = [sign for _, sign in offsets]
        negated = f"lw_turned({text}, lw_z{pointer})"
        return text if not any(signs) else f"(-{text})" if all(signs) else negated

    def _input(self, v: int) -> str:
        array, element = self.program.code[v].attr
        return f"in{array}[{element}]"

    def _use(self, program: Program, u: int, names: dict[int, str]) -> str:
        if u in names:
            return names[u]
        op, args, attr = program.code[u]
        if op == "neg":
            return f"(-{self._use(program, args[0], names)})"
        assert op == "const"
        return self.constants.text(attr)

    def _operations(
        self, program: Program, values: Iterable[int], names: dict[int, str], prefix: str
    ) -> list[str]:
        lines: list[str] = []
        for u in values:
            op, args, attr = program.code[u]
            if op in ("const", "input", "neg"):
                continue
            text = self.expressions[op].format(*(self._use(program, a, names) for a in args), attr=attr)
            names[u] = f"{prefix}{u}"
            lines.append(f"    const {'bool' if program.kinds[u] == BOOL else 'real'} {names[u]} = {text};")
            if len(lines) % BLOCK == 0:
                lines.append("    LW_BLOCK();")
        return lines

    # elements besides results of maps

    def _trees(self) -> list[str]:
        lines: list[str] = []
        for k, phase in enumerate(self.plan.phases):
            is_shared = sum(len(tree.operations) for tree in phase.trees) > SHARED_TREE_OPERATIONS
            warps = self.kernel.warps if is_shared else 1
            length = -(-len(phase.trees) // warps)
            for warp in range(warps):
                trees = phase.trees[warp * length : (warp + 1) * length]
                if trees:
                    lines.append(f"    if (phase == {k} && warp == {warp} && turn == 0) {{")
                    lines += self._trees_of_warp(trees, phase)
                    lines.append("    }")
        return ["    LW_TOGETHER();", *lines] if lines else []

    def _trees_of_warp(self, trees: list[Tree], phase: Phase) -> list[str]:
        lines: list[str] = []
        for first in range(0, len(trees), TREE_GROUP):
            stores: list[str] = []
            for tree in trees[first : first + TREE_GROUP]:
                lines += self._tree(tree, phase, stores)
            lines += [*stores, "    LW_BLOCK();"]
        return lines

    def _tree(self, tree: Tree, phase: Phase, stores: list[str]) -> list[str]:
        names: dict[int, str] = {}
        inside = set(tree.operations)
        for v in [tree.value, *(a for u in tree.operations for a in self.program.code[u].args)]:
            unsigned = self.plan.unsigned[v]
            if unsigned not in inside and self.program.code[unsigned].op != "const":
                names[unsigned] = (
                    f"lw_o[{phase.places[unsigned]}]" if unsigned in phase.places else self._of(unsigned)
                )
        lines = self._operations(self.program, tree.operations, names, "x")
        value = self._use(self.program, tree.value, names)
        stores += [f"    lw_o[{element}] = {value};" for element in tree.elements]
        return lines
