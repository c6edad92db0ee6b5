"""Translation of programs to C functions.

One instruction becomes one statement; constants and inputs appear where they are used. A loop body becomes a
static function that changes the loop's state in place. Compilers need more than linear time for a long
function, so long code is cut into parts: static functions that pass values to later parts in a scratch array
`s` of the enclosing function. Within every function all reads of inputs and scratch come before all writes to
scratch and outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, count
from string import Template

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.operations import BOOL
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.ir.slots import Slots, assign_slots, crossing_ranges
from linkwork.compiler.targets.c.helpers import Real

MAX_STATEMENTS = 1500  # per C function
# Terms of the bound on the stack, with a margin over GCC and Clang at any optimisation level (see the tests):
LOCAL_BYTES = 16  # per local variable; a compiler may spill a whole vector register for one number
FRAME_BYTES = 512  # per call beside its variables: saved registers, alignment, calls of helpers

# operation -> expression; {f} is the suffix of the C library's functions
EXPRESSIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "fma": "lw_fma{f}({0}, {1}, {2})",
    "sqrt": "sqrt{f}({0})",
    "abs": "lw_abs{f}({0})",
    "min": "lw_min{f}({0}, {1})",
    "max": "lw_max{f}({0}, {1})",
    "rint": "lw_rint{f}({0})",
    "pow2": "lw_pow2{f}({0})",
    "exponent": "lw_exponent{f}({0})",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "!{0}",
    "select": "{0} ? {1} : {2}",
}
_LIBRARY = ("fma", "sqrt")  # of the C library, correctly rounded by its contract
_HELPED = ("fma", "abs", "min", "max", "rint", "pow2", "exponent")


_LOOP = Template("""\
    $real state$v[$states], outer$v[$outers];
$values
    ${guard}for (unsigned long long n = 0; n < ${limit}ULL; n++) {
        if (!$body(state$v, outer$v)) {
            break;
        }
    }""")


def needed(program: Program) -> list[int]:
    """Return the values that some output depends on, in order."""
    return list(compress(range(len(program)), needed_values(program)))


class Unit:
    """C file under construction: its functions so far and the helpers that they need."""

    def __init__(self, name: str, *, freestanding: bool = False) -> None:
        self.name = name
        self.freestanding = freestanding
        self.functions: list[str] = []
        self.helpers: dict[str, set[str]] = {}  # by dtype
        self.library = False
        self.has_parts = False
        self._bodies: dict[tuple[str, str], tuple[str, int]] = {}  # digest, dtype -> function, stack bytes
        self._numbers = count()

    def body(self, loop: BoundedLoop, real: Real) -> tuple[str, int]:
        """Return the function of a loop's body and its stack bytes; loops with the same body share it."""
        key = loop.body.digest, real.dtype
        if key not in self._bodies:
            name = f"{self.name}_loop{next(self._numbers)}"
            signature = f"static int {name}({real.c} *state, const {real.c} *outer)"
            routine = Routine(self, real, loop.body, name, ["state", "outer"], ["state"])
            self._bodies[key] = name, routine.write(signature)
        return self._bodies[key]

    def expression(self, op: str, real: Real, arguments: Iterable[str]) -> str:
        """Return an operation on values as C text, and record the helpers that it needs."""
        if op in _LIBRARY and not self.freestanding:
            self.library = True
        if op in _HELPED or (op == "sqrt" and self.freestanding):
            self.needs(real, op)
        prefix = "lw_" if op == "sqrt" and self.freestanding else ""
        return prefix + EXPRESSIONS[op].format(*arguments, f=real.suffix)

    def needs(self, real: Real, helper: str) -> None:
        """Record a helper."""
        self.helpers.setdefault(real.dtype, set()).add(helper)

    def function(self, signature: str, lines: Iterable[str]) -> None:
        """Add a function."""
        self.functions.append("\n".join(["", signature + " {", *lines, "}", ""]))

    def includes(self) -> list[str]:
        """Return the standard headers."""
        plain = {"min", "max"} if self.freestanding else {"min", "max", "fma"}
        bits = any(helpers - plain for helpers in self.helpers.values())
        return ["float"] + ["math"] * self.library + ["stdint"] * bits


class Routine:
    """C code of one program or loop body: its cuts, and the text of each value.

    A loop body has one output array more than `outputs` names: its condition, which the C function returns.
    """

    def __init__(
        self, unit: Unit, real: Real, program: Program, function: str, inputs: list[str], outputs: list[str]
    ) -> None:
        self.unit = unit
        self.real = real
        self.program = program
        self.function = function
        self.inputs = inputs
        self.outputs = outputs
        self.reads: set[int] = set()  # input arrays that the current part reads
        self.home: dict[int, int] = {}  # value -> the part that computes it; none for most inputs
        self.parts = self._cut()
        self.slots = self._slots() if len(self.parts) > 1 else Slots()  # of values that later parts read

    def write(self, signature: str) -> int:
        """Add the C functions of the routine to the unit; return a bound on the stack of a call."""
        if len(self.parts) == 1:
            lines, stack = self._statements(0)
            end = 0
        else:
            self.unit.has_parts = True
            calls, stacks = zip(*(self._write_part(k) for k in range(len(self.parts))))
            lines = [f"    {self.real.c} s[{self.slots.size}];", *calls]
            stack = self.slots.size * self.real.size + max(stacks)
            end = len(self.parts)
        stores = self._stores(end)
        touched = self._inputs_read() | {n for n, values in zip(self.outputs, self.program.results) if values}
        unused = [n for n in dict.fromkeys(self.inputs + self.outputs) if n not in touched]
        self.unit.function(signature, [f"    (void){n};" for n in unused] + lines + stores)
        return -(-(stack + FRAME_BYTES) // 16) * 16

    def _cut(self) -> list[list[int]]:
        """Return the values that become statements, cut at the program's cuts and by size; fill `home`."""
        returned = set(self.program.result_values())
        parts: list[list[int]] = [[]]
        remaining = MAX_STATEMENTS
        cuts = list(reversed(self.program.cuts))
        for v in needed(self.program):
            op, args, _ = self.program.code[v]
            if op == "result":  # read straight from the loop's state
                self.home[v] = self.home[args[0]]
            elif op != "const" and (
                op != "input" or v in returned
            ):  # a returned input is read before any write
                weight = 1 + len(args) if op == "loop" else 1
                while cuts and cuts[-1] <= v:
                    cuts.pop()
                    remaining = 0
                if weight > remaining and parts[-1]:
                    parts.append([])
                    remaining = MAX_STATEMENTS
                remaining -= weight
                parts[-1].append(v)
                self.home[v] = len(parts) - 1
        return parts

    def _slots(self) -> Slots:
        """Return the slots of values that cross parts; results are read behind the last part."""
        uses = [(a, k) for k, part in enumerate(self.parts) for v in part for a in self.program.code[v].args]
        uses += [(v, len(self.parts)) for v in self.program.result_values()]
        return assign_slots(crossing_ranges(self.home, [use for use in uses if use[0] in self.home]))

    def _write_part(self, k: int) -> tuple[str, int]:
        """Add the function of one part.

        Return the statement that calls it and the stack bytes of the call.
        """
        self.reads.clear()
        lines, stack = self._statements(k)
        for v, slot in self.slots.of.items():
            if self.home[v] == k:
                cast = f"({self.real.c})" if self.program.kinds[v] == BOOL else ""
                lines.append(f"    s[{slot}] = {cast}{self._text(v, k)};")
        arrays = [self.inputs[i] for i in sorted(self.reads)]
        parameters = [f"const {self.real.c} *{n}" for n in arrays] + [f"{self.real.c} *s"]
        name = f"{self.function}_part{k}"
        self.unit.function(f"LW_PART {name}({', '.join(parameters)})", lines)
        return f"    {name}({', '.join([*arrays, 's'])});", stack + FRAME_BYTES

    def _statements(self, k: int) -> tuple[list[str], int]:
        """Return the statements of one part, and the bytes of their variables and of the deepest call."""
        lines: list[str] = []
        stack = deepest = 0
        for v in self.parts[k]:
            op, args, attr = self.program.code[v]
            if isinstance(attr, BoundedLoop):
                body, below = self.unit.body(attr, self.real)
                lines.append(self._loop(v, k, attr, body))
                # the arrays, which are never empty, and the counter
                stack += (len(args) + 2) * self.real.size + LOCAL_BYTES
                deepest = max(deepest, below)
                continue
            if op == "input":
                text = self._element(v)
            else:
                text = self.unit.expression(op, self.real, (self._text(a, k) for a in args))
            kind = "int" if self.program.kinds[v] == BOOL else self.real.c
            lines.append(f"    const {kind} t{v} = {text};")
            stack += LOCAL_BYTES
        return lines, stack + deepest

    def _loop(self, v: int, k: int, loop: BoundedLoop, body: str) -> str:
        values = [self._text(a, k) for a in self.program.code[v].args]
        state = values[: loop.states] or ["0"]
        outer = values[loop.states :] or ["0"]
        # one by one: compilers may turn an initialiser of many numbers into a call of memcpy or memset
        lines = [
            f"    {name}{v}[{i}] = {x};"
            for name, numbers in (("state", state), ("outer", outer))
            for i, x in enumerate(numbers)
        ]
        enters = f"state{v}[{loop.states - 1}] > {self.real.literal(0.0)}"
        return _LOOP.substitute(
            guard=f"if ({enters}) " if loop.skippable else "",
            real=self.real.c,
            v=v,
            states=len(state),
            outers=len(outer),
            values="\n".join(lines),
            limit=min(loop.limit, 2**64 - 1),
            body=body,
        )

    def _stores(self, k: int) -> list[str]:
        """Return the writes to the output arrays, and the return of a loop body's condition."""
        results = self.program.results
        lines = []
        for name, values in zip(self.outputs, results):
            for i, v in enumerate(values):
                cast = f"({self.real.c})" if self.program.kinds[v] == BOOL else ""
                lines.append(f"    {name}[{i}] = {cast}{self._text(v, k)};")
        if len(results) > len(self.outputs):
            lines.append(f"    return {self._text(results[-1][0], k)};")
        return lines

    def _text(self, v: int, k: int) -> str:
        """Return the text of a value in part k (or, past the last part, in the enclosing function)."""
        op, args, attr = self.program.code[v]
        if op == "const":
            text = self.real.literal(attr)
            if text.startswith("lw_from_bits"):
                self.unit.needs(self.real, "from_bits")
            return text
        if v not in self.home:
            return self._element(v)
        if self.home[v] == k:
            return f"state{args[0]}[{attr}]" if op == "result" else f"t{v}"
        slot = f"s[{self.slots.of[v]}]"
        return f"({slot} != {self.real.literal(0.0)})" if self.program.kinds[v] == BOOL else slot

    def _element(self, v: int) -> str:
        array, element = self.program.code[v].attr
        self.reads.add(array)
        return f"{self.inputs[array]}[{element}]"

    def _inputs_read(self) -> set[str]:
        instructions = (self.program.code[v] for v in needed(self.program))
        return {self.inputs[i.attr[0]] for i in instructions if i.op == "input"}
