"""From a program to the text of a C99 header and source file.

One instruction becomes one statement, and constants and inputs stand where they are used. A loop body becomes a static
function that changes the loop's state in place. Compilers need more than linear time for a long function, so long code
is cut into parts: static functions that hand values on to later parts in a scratch array `s` of the function around.
Within every function all reads of inputs and scratch come before all writes to scratch and outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count
from string import Template

from linkwork.ir.check import check
from linkwork.ir.liveness import needed_values
from linkwork.ir.operations import BOOL
from linkwork.ir.program import Array, BoundedLoop, Program
from linkwork.ir.slots import Slots, assign_slots, crossing_ranges
from linkwork.targets.c.helpers import PART_TEXT, REALS, Real, guard_text, helper_text, wrap
from linkwork.targets.c.names import array_names, function_name

CHUNK = 1500  # statements in one C function
# What the bound on the stack counts, with room to spare over what GCC and Clang take at any level (see the tests):
LOCAL = 16  # bytes of a local variable; a compiler may spill a whole vector register for one number
FRAME = 512  # bytes of a call beside its variables: saved registers, alignment, calls of the small helpers

# operation -> expression; {f} is the suffix of the C library's functions
EXPRESSIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "fma": "lw_fma({0}, {1}, {2})",
    "sqrt": "sqrt{f}({0})",
    "abs": "lw_abs({0})",
    "min": "lw_min({0}, {1})",
    "max": "lw_max({0}, {1})",
    "rint": "lw_rint({0})",
    "pow2": "lw_pow2({0})",
    "exponent": "lw_exponent({0})",
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


Notes = Mapping[str, tuple[str, Sequence[Sequence[str]]]]  # by an array's name: what it is, and the names along its axes


@dataclass(frozen=True)
class Emitted:
    """The C text of a program. `inputs` and `outputs` are the names of its arrays in C; `stack_bytes` is a bound."""

    name: str
    real: Real
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    header: str
    source: str
    stack_bytes: int


def emit_c(program: Program, *, name: str | None = None, notes: Notes | None = None) -> Emitted:
    """The C text of a program of core operations, as a function called `name` (its own if None), with `notes` on arrays."""
    check(program, core_only=True)
    name = function_name(program.name if name is None else name)
    arrays = array_names([a.name for a in program.inputs + program.outputs], name)
    inputs, outputs = arrays[: len(program.inputs)], arrays[len(program.inputs) :]
    unit = _Unit(name, REALS[program.dtype])
    const = ["const "] * len(inputs) + [""] * len(outputs)
    parameters = [
        f"{c}{unit.real.c} {n}[{a.size}]" if a.size else f"{c}{unit.real.c} *{n}"  # C has no arrays of size 0
        for c, n, a in zip(const, arrays, program.inputs + program.outputs, strict=True)
    ]
    signature = f"void {name}({', '.join(parameters) or 'void'})"
    stack = _Routine(unit, program, name, inputs, outputs).write(signature)
    header = _HEADER.substitute(
        name=name,
        macro=name.upper(),
        program=program.name,
        dtype=program.dtype,
        arrays="\n".join(
            _array_line(n, a, c) + _note(a, (notes or {}).get(a.name))
            for n, a, c in zip(arrays, program.inputs + program.outputs, const)
        ),
        digest=program.digest,
        operations=_operations(program),
        stack=stack,
        signature=signature,
    )
    source = _SOURCE.substitute(
        name=name,
        includes="".join(f"#include <{h}.h>\n" for h in unit.includes()),
        guards=guard_text(unit.real, name),
        noinline=PART_TEXT if unit.has_parts else "",
        helpers=helper_text(unit.real, unit.helpers),
        functions="".join(unit.functions),
    )
    return Emitted(name, unit.real, tuple(inputs), tuple(outputs), header, source, stack)


_HEADER = Template("""\
/* $name: the program `$program` in $dtype, written by linkwork.
 *
$arrays
 *
 * Arrays are row-major and must not overlap. Results have the same bits as linkwork's interpreter gives, in the default
 * rounding mode and without flushing of subnormal numbers; NaN counts as one value. The function allocates nothing,
 * keeps nothing between calls and may run in many threads at once. Clang must not be given -ffp-contract=fast for it.
 *
 * Program (SHA-256): $digest
$operations
 * Stack: at most $stack bytes by a generous count of variables, beside what fma and sqrt of the C library take.
 */
#ifndef LINKWORK_${macro}_H
#define LINKWORK_${macro}_H

#define ${macro}_STACK_BYTES $stack

#ifdef __cplusplus
extern "C" {
#endif

$signature;

#ifdef __cplusplus
}
#endif

#endif
""")

_SOURCE = Template("""\
/* Written by linkwork; the contract is in $name.h. */
#include "$name.h"

$includes
$guards$noinline$helpers$functions""")

_LOOP = Template("""\
    $real state$v[$states] = {
$state
    };
    const $real outer$v[$outers] = {
$outer
    };
    for (unsigned long long n = 0; n < ${limit}ULL; n++) {
        if (!$body(state$v, outer$v)) {
            break;
        }
    }""")


def _array_line(name: str, array: Array, const: str) -> str:
    shape = f"({', '.join(map(str, array.shape))})" if array.shape else "scalar"
    return f" *   {'in ' if const else 'out'}  {name}: {shape}" + (f", {array.size} numbers" if array.shape else "")


def _note(array: Array, note: tuple[str, Sequence[Sequence[str]]] | None) -> str:
    """What an array is, and which entry is whose, as lines of the header's comment."""
    if note is None:
        return ""
    name, axes = note
    lines = [] if name == array.name else [f" *        {_ascii(name)}"]
    for k, names in enumerate(axes):
        if names:
            which = "" if len(axes) == 1 else f"axis {k}: "
            items = [f"{i} {_ascii(n)}" for i, n in enumerate(names)]
            lines.append(wrap([which + items[0], *items[1:]], " *        "))
    return "".join(f"\n{line}" for line in lines)


def _ascii(text: str) -> str:
    """A name of somebody else inside a comment: printable ASCII, and nothing that ends or begins a comment or a line."""
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(c if c.isprintable() and c not in "*/\\?" else "_" for c in plain)


def _operations(program: Program) -> str:
    counts: Counter[str] = Counter()
    _count(program, counts)
    words = [f"{op} {n}" for op, n in sorted(counts.items())]
    total = sum(n for op, n in counts.items() if op != "loop")
    return wrap([f"Operations ({total}, loop bodies counted once): {words[0] if words else 'none'}", *words[1:]], " * ")


def _count(program: Program, counts: Counter[str]) -> None:
    for v in _needed(program):
        op, _, attr = program.code[v]
        if op not in ("const", "input", "result"):
            counts[op] += 1
        if isinstance(attr, BoundedLoop):
            _count(attr.body, counts)


def _needed(program: Program) -> list[int]:
    """The values that some output depends on, in order."""
    return list(compress(range(len(program)), needed_values(program)))


class _Unit:
    """One C file under way: the functions so far, and what they need."""

    def __init__(self, name: str, real: Real) -> None:
        self.name = name
        self.real = real
        self.functions: list[str] = []
        self.helpers: set[str] = set()
        self.library = False
        self.has_parts = False
        self._bodies: dict[str, tuple[str, int]] = {}  # digest -> function, its stack bytes
        self._numbers = count()

    def body(self, loop: BoundedLoop) -> tuple[str, int]:
        """The function of a loop's body and its stack bytes; loops with the same body share it."""
        key = loop.body.digest
        if key not in self._bodies:
            name = f"{self.name}_loop{next(self._numbers)}"
            signature = f"static int {name}({self.real.c} *state, const {self.real.c} *outer)"
            routine = _Routine(self, loop.body, name, ["state", "outer"], ["state"])
            self._bodies[key] = name, routine.write(signature)
        return self._bodies[key]

    def function(self, signature: str, lines: Iterable[str]) -> None:
        """Add a function."""
        self.functions.append("\n".join(["", signature + " {", *lines, "}", ""]))

    def includes(self) -> list[str]:
        """Standard headers."""
        bits = self.helpers - {"min", "max", "fma"}
        return ["float"] + ["math"] * self.library + (["stdint", "string"] if bits else [])


class _Routine:
    """The C code of one program or loop body: where it is cut, and how each value is written down.

    A loop body has one output array more than `outputs` names: its condition, which the C function returns.
    """

    def __init__(self, unit: _Unit, program: Program, function: str, inputs: list[str], outputs: list[str]) -> None:
        self.unit = unit
        self.real = unit.real
        self.program = program
        self.function = function
        self.inputs = inputs
        self.outputs = outputs
        self.reads: set[int] = set()  # input arrays that the part under way reads
        self.home: dict[int, int] = {}  # value -> the part that computes it; constants and most inputs have none
        self.parts = self._cut()
        self.slots = self._slots() if len(self.parts) > 1 else Slots()  # in the scratch array, of values that later parts read

    def write(self, signature: str) -> int:
        """Add the C functions of the routine to the unit; return a bound on the stack that a call takes."""
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
        return -(-(stack + FRAME) // 16) * 16

    def _cut(self) -> list[list[int]]:
        """The values that become statements, cut where the program says and at CHUNK at the latest; fills `home`."""
        returned = set(self.program.result_values())
        parts: list[list[int]] = [[]]
        room = CHUNK
        cuts = list(reversed(self.program.cuts))
        for v in _needed(self.program):
            op, args, _ = self.program.code[v]
            if op == "result":  # read straight from the loop's state
                self.home[v] = self.home[args[0]]
            elif op != "const" and (op != "input" or v in returned):  # a returned input is read before any write
                weight = 1 + len(args) if op == "loop" else 1
                while cuts and cuts[-1] <= v:
                    cuts.pop()
                    room = 0
                if weight > room and parts[-1]:
                    parts.append([])
                    room = CHUNK
                room -= weight
                parts[-1].append(v)
                self.home[v] = len(parts) - 1
        return parts

    def _slots(self) -> Slots:
        """The slots of values that cross parts; results are read behind the last part."""
        uses = [(a, k) for k, part in enumerate(self.parts) for v in part for a in self.program.code[v].args]
        uses += [(v, len(self.parts)) for v in self.program.result_values()]
        return assign_slots(crossing_ranges(self.home, [use for use in uses if use[0] in self.home]))

    def _write_part(self, k: int) -> tuple[str, int]:
        """Add the function of one part; return the statement that calls it and the stack bytes of the call."""
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
        return f"    {name}({', '.join([*arrays, 's'])});", stack + FRAME

    def _statements(self, k: int) -> tuple[list[str], int]:
        """The statements of one part, and the bytes of their variables and of the deepest call among them."""
        lines: list[str] = []
        stack = deepest = 0
        for v in self.parts[k]:
            op, args, attr = self.program.code[v]
            if isinstance(attr, BoundedLoop):
                body, below = self.unit.body(attr)
                lines.append(self._loop(v, k, attr, body))
                stack += (len(args) + 2) * self.real.size + LOCAL  # the arrays, which are never empty, and the counter
                deepest = max(deepest, below)
                continue
            if op == "input":
                text = self._element(v)
            else:
                text = EXPRESSIONS[op].format(*(self._text(a, k) for a in args), f=self.real.suffix)
                self.unit.library |= op in _LIBRARY
                if op in _HELPED:
                    self.unit.helpers.add(op)
            kind = "int" if self.program.kinds[v] == BOOL else self.real.c
            lines.append(f"    const {kind} t{v} = {text};")
            stack += LOCAL
        return lines, stack + deepest

    def _loop(self, v: int, k: int, loop: BoundedLoop, body: str) -> str:
        values = [self._text(a, k) for a in self.program.code[v].args]
        state, outer = values[: loop.states] or ["0"], values[loop.states :] or ["0"]
        return _LOOP.substitute(
            real=self.real.c,
            v=v,
            states=len(state),
            outers=len(outer),
            state=wrap(state, " " * 8),
            outer=wrap(outer, " " * 8),
            limit=min(loop.limit, 2**64 - 1),
            body=body,
        )

    def _stores(self, k: int) -> list[str]:
        """The writes to the output arrays, and the return of a loop body's condition."""
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
        """How a value is written in part k (or, past the last part, in the function around the parts)."""
        op, args, attr = self.program.code[v]
        if op == "const":
            text = self.real.literal(attr)  # type: ignore[arg-type]
            if text.startswith("lw_from_bits"):
                self.unit.helpers.add("from_bits")
            return text
        if v not in self.home:
            return self._element(v)
        if self.home[v] == k:
            return f"state{args[0]}[{attr}]" if op == "result" else f"t{v}"
        slot = f"s[{self.slots.of[v]}]"
        return f"({slot} != {self.real.literal(0.0)})" if self.program.kinds[v] == BOOL else slot

    def _element(self, v: int) -> str:
        array, element = self.program.code[v].attr  # type: ignore[misc]
        self.reads.add(array)
        return f"{self.inputs[array]}[{element}]"

    def _inputs_read(self) -> set[str]:
        instructions = (self.program.code[v] for v in _needed(self.program))
        return {self.inputs[i.attr[0]] for i in instructions if i.op == "input"}  # type: ignore[index]
