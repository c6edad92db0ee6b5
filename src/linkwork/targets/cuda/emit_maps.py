"""The text of the last kernel of a long program, which runs its maps and writes its outputs (see `maps`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from linkwork.ir.operations import BOOL
from linkwork.ir.program import Program
from linkwork.targets.cuda.maps import MapKernel, Phase, Row, Tree
from linkwork.targets.cuda.prelude import REALS, WARP, Constants, expressions, prelude

NAME = "linkwork"  # of the kernel: programs' own names may be anything
TREES = 60  # operations of trees from which the warps of a block share them
BLOCK = 300  # statements of a basic block
GROUP = 16  # trees whose values are stored together, so that what they read is loaded once


def map_text(kernel: MapKernel, blocks: int) -> str:
    """The CUDA text, for so many blocks on a multiprocessor."""
    return _Unit(kernel, blocks).text()


class _Unit:
    """The file under way."""

    def __init__(self, kernel: MapKernel, blocks: int) -> None:
        self.kernel, self.plan, self.blocks = kernel, kernel.plan, blocks
        self.program = kernel.plan.program
        self.real = REALS[self.program.dtype]
        self.expressions = expressions(self.real)
        self.constants = Constants(self.real)
        self.threads = kernel.warps * WARP
        self.number = {v: k for k, v in enumerate(self.plan.maps)}
        self.signed = {v: self._signed(v) for v in self.plan.maps}
        self.distances = {v: self._distances(v) for v in self.plan.maps}
        self.rows: list[int] = []  # the table of rows
        self.tasks: list[int] = []
        self.begins: list[int] = []  # of each warp in each phase, among the tasks

    def text(self) -> str:
        plan, states = self.plan, self.kernel.states
        names = [f"in{k}" for k in range(len(self.program.inputs))] + [f"out{k}" for k in range(len(self.program.outputs))]
        arrays = [f"{'const ' if n.startswith('in') else ''}real *__restrict__ {n}, long long {n}_step" for n in names]
        bodies = [self._body(v) for v in plan.maps]
        self._schedule()
        lines = [
            f'extern "C" __global__ void __launch_bounds__({self.threads}, {self.blocks})',
            f"{NAME}(int rows, {', '.join(arrays)}, real *scratch) {{",
            "    LW_SHARED(shared);",
            f"    const int lane = threadIdx.x & {WARP - 1}, warp = threadIdx.x / {WARP};",
            f"    const int state = lane & {states - 1}, turn = lane / {states}; /* which state, and which of a warp's rows */",
            f"    const int row = (int)blockIdx.x * {states}, group = row / {WARP};",
            f"    const int first = row < rows - {states} ? row : rows - {states};",
            f"    const int begin = {WARP} * group < rows - {WARP} ? {WARP} * group : rows - {WARP}; /* of the warp that left it */",
            f"    real *lw_g = scratch + (long long)group * {self.kernel.slots * WARP} + (first - begin);",
            "    real *lw_x = lw_g + state;",
            "    real *lw_v = shared + state;",
            f"    real *lw_o = shared + {len(plan.shared) * states} + state * {self.kernel.pitch};",
            *(
                f"    in{k} += (long long)(first + state) * in{k}_step;"
                for k in dict.fromkeys(self.program.code[v].attr[0] for v in (*plan.given, *plan.fills) if self._is_input(v))
            ),
            *self._load(),
            "#pragma unroll 1",
            f"    for (int phase = 0; phase < {len(plan.phases)}; phase++) {{",
            f"    for (int t = lw_begin[phase * {self.kernel.warps} + warp];"
            f" t < lw_begin[phase * {self.kernel.warps} + warp + 1]; t++) {{",
            f"    const int *r = lw_row + lw_task[t * {self.kernel.at_once + 1} + 1 + turn];",
            f"    switch (lw_task[t * {self.kernel.at_once + 1}]) {{",
            *(line for k, body in enumerate(bodies) for line in (f"    case {k}: {{", *body, "    break;", "    }")),
            "    }",
            "    }",
            *self._trees([phase.trees for phase in plan.phases]),
            *self._copy(),
            "    LW_TOGETHER();",
            *self._after(),
            *self._flush(),
            "    LW_TOGETHER();",
            "    }",
            "}",
            "",
        ]
        tables = {"row": self.rows, "task": self.tasks, "begin": self.begins, "copied": self._copies(), "bound": self._bounds()}
        tables = {name: numbers for name, numbers in tables.items() if numbers}
        data = [f"LW_DATA int lw_{name}[] = {{{', '.join(map(str, numbers))}}};" for name, numbers in tables.items()]
        return "\n".join([prelude(self.real), *self.constants.lines(), *data, "\n".join(lines)])

    def _is_input(self, v: int) -> bool:
        return self.program.code[v].op == "input"

    # what is there before the rows

    def _load(self) -> list[str]:
        plan, states = self.plan, self.kernel.states
        lines: list[str] = []
        if plan.waiting:
            lines += [
                "#pragma unroll 8",
                f"    for (int i = threadIdx.x; i < {plan.waiting * states}; i += {self.threads}) {{",
                f"        LW_COPY(shared + i, lw_g + (i / {states} * {WARP} + i % {states}));",
                "    }",
                "    LW_COMMIT();",
            ]
        few = []
        for v in plan.given:
            array, element = self.program.code[v].attr
            few.append(f"        lw_v[{plan.shared[v] * states}] = in{array}[{element}];")
        for v, k in plan.fills.items():
            op, _, attr = self.program.code[v]
            text = f"in{attr[0]}[{attr[1]}]" if op == "input" else self.constants.text(attr)
            few.append(f"        lw_x[{(self.kernel.fill + k) * WARP}] = {text};")
        if few:
            lines += [f"    if (threadIdx.x < {states}) {{", *few, "    }"]
        return [*lines, *(["    LW_ARRIVE(0);"] if plan.waiting else []), "    LW_TOGETHER();"]

    # rows

    def _schedule(self) -> None:
        """The tables of rows and of what each warp does, phase by phase."""
        for phase in self.plan.phases:
            at: dict[tuple[int, int], int] = {}
            for v, rows in phase.rows.items():
                for k, row in enumerate(rows):
                    at[v, k] = len(self.rows)
                    distances, apart = self.distances[v]
                    places = [phase.length - 1 if row.targets[e] is None else row.targets[e] for e in apart]
                    sources = [self._source(v, e, *each) for e, each in enumerate(row.sources)]
                    self.rows += [_base(distances, row.targets), *places, *sources]
            for some in self.kernel.tasks(phase):
                self.begins.append(len(self.tasks) // (self.kernel.at_once + 1))
                for v, numbers in some:
                    self.tasks += [self.number[v], *(at[v, k] for k in numbers)]
        self.begins.append(len(self.tasks) // (self.kernel.at_once + 1))

    def _slot(self, slot: int) -> int:
        """Where a slot lies for a thread: what this kernel fills lies behind the parts' slots."""
        kept = len(self.plan.slots)
        return (slot if slot < kept else self.kernel.fill + slot - kept) * WARP

    def _source(self, v: int, element: int, slot: int, turned: bool) -> int:
        place = self._slot(slot)
        return 2 * place + turned if self.signed[v][element] else place

    def _every(self, v: int) -> list[tuple[Phase, list[Row]]]:
        return [(phase, phase.rows[v]) for phase in self.plan.phases if v in phase.rows]

    def _signed(self, v: int) -> list[bool]:
        """For each value that a map takes, whether some row takes it with its sign turned."""
        rows = [row for _, some in self._every(v) for row in some]
        return [any(row.sources[e][1] for row in rows) for e in range(self.plan.maps[v].takes)]

    def _distances(self, v: int) -> tuple[list[int], list[int]]:
        """How far the results of a row lie behind its base, and those results that do not lie so in every row."""
        rows = [row.targets for _, some in self._every(v) for row in some]
        gives = range(self.plan.maps[v].gives)
        middle = max(gives, key=lambda e: sum(t[e] is not None for t in rows))
        found = []
        for e in gives:
            count = Counter(t[e] - t[middle] for t in rows if t[e] is not None and t[middle] is not None)  # type: ignore[operator]
            found.append(count.most_common(1)[0][0] if count else 0)
        return found, [e for e in gives if any(t[e] != _base(found, t) + found[e] for t in rows)]

    def _body(self, v: int) -> list[str]:
        """The statements that run one row."""
        each = self.plan.maps[v]
        distances, apart = self.distances[v]
        shared = each.shared(self.program.code[v].args)
        names: dict[int, str] = {}
        lines: list[str] = []
        signed, begin = self.signed[v], 1 + len(apart)
        used = {a for _, args, _ in each.body.code for a in args} | set(each.body.results[0])
        for u, (op, _, attr) in enumerate(each.body.code):
            if op == "input" and attr[0] == 0 and u in used:
                place = f"r[{begin + attr[1]}]"
                text = f"lw_turned(lw_x[{place} >> 1], {place} & 1)" if signed[attr[1]] else f"lw_x[{place}]"
                lines.append(f"    const real y{u} = {text};")
                names[u] = f"y{u}"
            elif op == "input" and attr[0] == 1:
                names[u] = self._of(shared[attr[1]])
        lines += self._operations(each.body, range(len(each.body.code)), names, "y")
        for e, u in enumerate(each.body.results[0]):
            place = f"r[{1 + apart.index(e)}]" if e in apart else f"r[0] + {distances[e]}" if distances[e] else "r[0]"
            lines.append(f"    lw_o[{place}] = {self._use(each.body, u, names)};")
        return lines

    def _of(self, v: int) -> str:
        """A value of the program that all rows share."""
        op, args, attr = self.program.code[v]
        if op == "neg":
            return f"(-{self._of(args[0])})"
        return self.constants.text(attr) if op == "const" else f"lw_v[{self.plan.shared[v] * self.kernel.states}]"

    def _use(self, program: Program, u: int, names: dict[int, str]) -> str:
        if u in names:
            return names[u]
        op, args, attr = program.code[u]
        if op == "neg":
            return f"(-{self._use(program, args[0], names)})"
        assert op == "const"
        return self.constants.text(attr)

    def _operations(self, program: Program, values: Iterable[int], names: dict[int, str], prefix: str) -> list[str]:
        lines = []
        for u in values:
            op, args, attr = program.code[u]
            if op in ("const", "input", "neg"):
                continue
            text = self.expressions[op].format(*(self._use(program, a, names) for a in args), attr=attr)
            lines.append(f"    const {'bool' if program.kinds[u] == BOOL else 'real'} {prefix}{u} = {text};")
            names[u] = f"{prefix}{u}"
            if len(lines) % BLOCK == 0:
                lines.append("    LW_BLOCK();")
        return lines

    # what is computed or copied beside them

    def _after(self) -> list[str]:
        lines = self._trees([phase.after for phase in self.plan.phases])
        return [*lines, "    LW_TOGETHER();"] if lines else []

    def _trees(self, phases: list[list[Tree]]) -> list[str]:
        lines: list[str] = []
        for k, trees in enumerate(phases):
            warps = self.kernel.warps if sum(len(tree.operations) for tree in trees) > TREES else 1
            length = -(-len(trees) // warps)
            for warp in range(warps):
                some = trees[warp * length : (warp + 1) * length]
                if some:
                    lines.append(f"    if (phase == {k} && warp == {warp}) {{")
                    for first in range(0, len(some), GROUP):
                        stores: list[str] = []
                        for tree in some[first : first + GROUP]:
                            lines += self._tree(tree, self.plan.phases[k], stores)
                        lines += [*stores, "    LW_BLOCK();"]
                    lines.append("    }")
        return lines

    def _tree(self, tree: Tree, phase: Phase, stores: list[str]) -> list[str]:
        names: dict[int, str] = {}
        inside = set(tree.operations)
        for v in [tree.value, *(a for u in tree.operations for a in self.program.code[u].args)]:
            plain = self.plan.plain[v]
            if plain not in inside and self.program.code[plain].op != "const":
                names[plain] = f"lw_o[{phase.places[plain]}]" if plain in phase.places else self._of(plain)
        lines = self._operations(self.program, tree.operations, names, "x")
        value = self._use(self.program, tree.value, names)
        stores += [f"    lw_o[{element}] = {value};" for element in tree.elements]
        return lines

    def _copies(self) -> list[int]:
        every = (copy for phase in self.plan.phases for copy in phase.copies)
        return [n for slot, turned, one, other in every for n in (2 * self._slot(slot) + turned, one, other)]

    def _bounds(self) -> list[int]:
        found = [0]
        for phase in self.plan.phases:
            found.append(found[-1] + len(phase.copies))
        return found if found[-1] else []

    def _copy(self) -> list[str]:
        if not self._bounds():
            return []
        step = self.threads // self.kernel.states
        return [
            "#pragma unroll 8",
            f"    for (int i = lw_bound[phase] + threadIdx.x / {self.kernel.states}; i < lw_bound[phase + 1]; i += {step}) {{",
            "        const int *c = lw_copied + 3 * i;",
            "        const real value = lw_turned(lw_x[c[0] >> 1], c[0] & 1);",
            "        lw_o[c[1]] = value;",
            "        lw_o[c[2]] = value;",
            "    }",
        ]

    def _flush(self) -> list[str]:
        """Write the rows of all states, each by some warps, in lines of memory."""
        outputs, states, warps = self.program.outputs, self.kernel.states, self.kernel.warps
        start = len(self.plan.shared) * states
        row, piece = ("s = warp", "0") if warps <= states else (f"s = warp % {states}", f"warp / {states} * {WARP}")
        step = WARP * max(1, warps // states)
        lines = []
        for k, phase in enumerate(self.plan.phases):
            size = outputs[phase.array].size
            lines += [
                f"    if (phase == {k}) {{",
                f"        for (int {row}; s < {states}; s += {min(warps, states)}) {{",
                f"            real *to = out{phase.array} + (long long)(first + s) * {size};",
                f"            const real *from = shared + {start} + s * {self.kernel.pitch};",
                f"            const int skip = (int)((size_t)to / sizeof(real)) & {WARP - 1};",
                "#pragma unroll 8",
                f"            for (int e = lane - skip + {piece}; e < {size}; e += {step}) {{",
                "                if (e >= 0) {",
                "                    to[e] = from[e];",
                "                }",
                "            }",
                "        }",
                "    }",
            ]
        return lines


def _base(distances: list[int], targets: tuple[int | None, ...]) -> int:
    """The place from which most results of a row lie at the distances of its map."""
    return Counter(t - d for t, d in zip(targets, distances) if t is not None).most_common(1)[0][0]
