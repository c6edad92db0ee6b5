"""Text of a C99 header and source file with one function per program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Template

import numpy as np

from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.program import Array, BoundedLoop, Program
from linkwork.compiler.targets.c.emit import Routine, Unit, needed
from linkwork.compiler.targets.c.helpers import PART_TEXT, REALS, Real, guard_text, helper_text, wrap
from linkwork.compiler.targets.c.names import array_names, function_name, function_names

# array name -> (description, names along its axes)
Notes = Mapping[str, tuple[str, Sequence[Sequence[str]]]]


@dataclass(frozen=True)
class Function:
    """Program to write under a name (its own if None), with `notes` that describe its arrays.

    `samples` are arrays for its recorded calls by input name, (vectors, ...); other inputs are drawn at
    random.
    """

    program: Program
    name: str | None = None
    notes: Notes = field(default_factory=dict)
    samples: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class EmittedFunction:
    """Function in C: names of its `inputs` and `outputs` there, and a bound on its stack."""

    name: str
    real: Real
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: str
    comment: str
    stack_bytes: int


@dataclass(frozen=True)
class Emitted:
    """C text of a library of functions."""

    name: str
    functions: tuple[EmittedFunction, ...]
    header: str
    source: str

    @property
    def reals(self) -> list[Real]:
        """Number types of the functions."""
        return list(dict.fromkeys(f.real for f in self.functions))


def emit_c(
    program: Program, *, name: str | None = None, notes: Notes | None = None, freestanding: bool = False
) -> Emitted:
    """Return the C text of a program of core operations as a function called `name` (its own if None).

    `notes` describe its arrays.
    """
    return emit_library(
        [Function(program, name, notes or {})], name=name or program.name, freestanding=freestanding
    )


def emit_library(functions: Sequence[Function], *, name: str, freestanding: bool = False) -> Emitted:
    """Return the C text of programs of core operations as functions of one file with shared helpers."""
    for function in functions:
        check(function.program, core_only=True)
    name = function_name(name)
    names = function_names(
        [function.program.name if function.name is None else function.name for function in functions]
    )
    unit = Unit(name, freestanding=freestanding)
    emitted = tuple(
        _add(unit, function, c_name, names) for function, c_name in zip(functions, names, strict=True)
    )
    reals = list(dict.fromkeys(f.real for f in emitted))
    header = _HEADER.substitute(
        about="\n *\n".join(f.comment for f in emitted),
        macro=name.upper(),
        library=_NO_LIBRARY if freestanding else _LIBRARY,
        stacks="\n".join(f"#define {f.name.upper()}_STACK_BYTES {f.stack_bytes}" for f in emitted),
        signatures="\n".join(f"{f.signature};" for f in emitted),
    )
    source = _SOURCE.substitute(
        name=name,
        includes="".join(f"#include <{h}.h>\n" for h in unit.includes()),
        guards=guard_text(reals, name),
        noinline=PART_TEXT if unit.has_parts else "",
        helpers="".join(
            helper_text(real, unit.helpers.get(real.dtype, ()), freestanding=freestanding) for real in reals
        ),
        functions="".join(unit.functions),
    )
    return Emitted(name, emitted, header, source)


def _add(unit: Unit, function: Function, name: str, taken: Sequence[str]) -> EmittedFunction:
    """Write a function into the unit."""
    program = function.program
    real = REALS[function.program.dtype]
    both = program.inputs + program.outputs
    arrays = array_names([a.name for a in both], taken)
    inputs = arrays[: len(program.inputs)]
    outputs = arrays[len(program.inputs) :]
    const = ["const "] * len(inputs) + [""] * len(outputs)
    parameters = [
        f"{c}{real.c} {n}[{a.size}]" if a.size else f"{c}{real.c} *{n}"  # C has no arrays of size 0
        for c, n, a in zip(const, arrays, both, strict=True)
    ]
    signature = f"void {name}({', '.join(parameters) or 'void'})"
    stack = Routine(unit, real, program, name, inputs, outputs).write(signature)
    lines = [
        _array_line(n, a, c) + _note(a, function.notes.get(a.name))
        for n, a, c in zip(arrays, both, const, strict=True)
    ]
    comment = _COMMENT.substitute(
        name=name,
        program=program.name,
        dtype=program.dtype,
        arrays="\n".join(lines),
        digest=program.digest,
        operations=_operations(program),
        stack=stack,
    )
    return EmittedFunction(name, real, tuple(inputs), tuple(outputs), signature, comment, stack)


_COMMENT = Template("""\
 * $name: the program `$program` in $dtype.
 *
$arrays
 *
 * Program (SHA-256): $digest
$operations
 * Stack: at most $stack bytes, a conservative bound.""")

_LIBRARY = """\
 * The bound on the stack does not include fma and sqrt of the C library."""
_NO_LIBRARY = """\
 * No C library is needed: fma and sqrt are instructions, or integer arithmetic where the processor has none
 * (or LW_SOFTWARE is defined)."""

_HEADER = Template("""\
/* Written by linkwork.
 *
$about
 *
 * Arrays are row-major and must not overlap. Results have the bits of linkwork's interpreter, in the default
 * rounding mode and without flushing of subnormal numbers; NaN counts as one value. Functions allocate no
 * memory, have no state and are thread-safe. Do not compile them with Clang's -ffp-contract=fast.
$library
 */
#ifndef LINKWORK_${macro}_H
#define LINKWORK_${macro}_H

$stacks

#ifdef __cplusplus
extern "C" {
#endif

$signatures

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


def _array_line(name: str, array: Array, const: str) -> str:
    shape = f"({', '.join(map(str, array.shape))})" if array.shape else "scalar"
    return f" *   {'in ' if const else 'out'}  {name}: {shape}" + (
        f", {array.size} numbers" if array.shape else ""
    )


def _note(array: Array, note: tuple[str, Sequence[Sequence[str]]] | None) -> str:
    """Return the description of an array and the names of its entries as lines of the header's comment."""
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
    """Return a foreign name as printable ASCII that neither ends nor begins a comment or a line."""
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(c if c.isprintable() and c not in "*/\\?" else "_" for c in plain)


def _operations(program: Program) -> str:
    counts: Counter[str] = Counter()
    _count(program, counts)
    words = [f"{op} {n}" for op, n in sorted(counts.items())]
    total = sum(n for op, n in counts.items() if op != "loop")
    return wrap(
        [f"Operations ({total}, loop bodies counted once): {words[0] if words else 'none'}", *words[1:]],
        " * ",
    )


def _count(program: Program, counts: Counter[str]) -> None:
    for v in needed(program):
        op, _, attr = program.code[v]
        if op not in ("const", "input", "result"):
            counts[op] += 1
        if isinstance(attr, BoundedLoop):
            _count(attr.body, counts)
