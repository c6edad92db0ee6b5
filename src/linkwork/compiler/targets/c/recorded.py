"""Text of the exported C test: calls recorded by the interpreter, compared bit by bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from string import Template

import numpy as np

from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Array
from linkwork.compiler.targets.c.arithmetic import arithmetic_text
from linkwork.compiler.targets.c.files import Emitted, EmittedFunction, Function
from linkwork.compiler.targets.c.helpers import Real, guard_text, wrap

SEED = 20240229  # of the recorded inputs: the same program always gives the same files

_TEST = Template("""\
/* Compares $name with calls recorded by linkwork's interpreter, bit by bit; NaN counts as one value. */
#include "$name.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

$guards
enum { VECTORS = $vectors };

$helpers
$checks
int main(void) {
    int lw_failed = 0;
    if ($arithmetic) {
        return 1;
    }
$calls
    printf("%d passed, %d failed\\n", $count * VECTORS - lw_failed, lw_failed);
    return lw_failed != 0;
}
""")

_DIFFER = Template("""\
static int lw_differ$f(const $real *got, const $real *want, int count) {
    int bad = 0;
    for (int k = 0; k < count; k++) {
        const int both_nan = got[k] != got[k] && want[k] != want[k];
        if (!both_nan && memcmp(got + k, want + k, sizeof *got) != 0) {
            bad++;
        }
    }
    return bad;
}
""")

_CHECK = Template("""\
static int lw_check_$name(void) {
$tables
    int lw_failed = 0;
    for (int lw_row = 0; lw_row < VECTORS; lw_row++) {
        int lw_bad = 0;
$locals
        $name($arguments);
$compare
        if (lw_bad) {
            printf("$name, vector %d: %d numbers differ\\n", lw_row, lw_bad);
            lw_failed++;
        }
    }
    return lw_failed;
}
""")


def record(function: Function, vectors: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs (samples, or drawn with a fixed seed) and outputs of the interpreter, (vectors, size)."""
    rng = np.random.default_rng(SEED)
    program = function.program
    drawn = {a.name: 2 * rng.standard_normal((vectors, *a.shape)) for a in program.inputs}
    samples = {name: np.resize(x, (vectors, *x.shape[1:])) for name, x in function.samples.items()}
    arrays = [
        (drawn | samples)[a.name].reshape(vectors, *a.shape).astype(program.dtype) for a in program.inputs
    ]
    result = interpret(program, *arrays)
    outputs = result if isinstance(result, tuple) else (result,)
    # a program without inputs has no batch: its one row is every vector's
    expected = [
        np.broadcast_to(o, (vectors, *a.shape)) for o, a in zip(outputs, program.outputs, strict=True)
    ]
    return [a.reshape(vectors, -1) for a in arrays], [w.reshape(vectors, -1) for w in expected]


def test_text(functions: Sequence[Function], emitted: Emitted, vectors: int) -> str:
    """Return the text of the test of all functions of a file."""
    reals = emitted.reals
    return _TEST.substitute(
        name=emitted.name,
        vectors=vectors,
        guards=guard_text(reals, f"{emitted.name}_test"),
        helpers="\n".join(
            _DIFFER.substitute(real=real.c, f=real.suffix) + "\n" + arithmetic_text(real) for real in reals
        ),
        checks="\n".join(
            _check(function, function_in_c, vectors)
            for function, function_in_c in zip(functions, emitted.functions, strict=True)
        ),
        arithmetic=" || ".join(f"lw_arithmetic{real.suffix}()" for real in reals),
        calls="\n".join(
            f"    lw_failed += lw_check_{function_in_c.name}();" for function_in_c in emitted.functions
        ),
        count=len(emitted.functions),
    )


def _check(function: Function, emitted: EmittedFunction, vectors: int) -> str:
    """Return the C function that compares the recorded calls of one function and counts mismatches."""
    program = function.program
    real = emitted.real
    inputs, outputs = record(function, vectors)
    tables = [_table(real, f"lw_in_{n}", rows) for n, rows in zip(emitted.inputs, inputs, strict=True)]
    tables += [_table(real, f"lw_want_{n}", rows) for n, rows in zip(emitted.outputs, outputs, strict=True)]
    named: list[tuple[str, Array]] = list(zip(emitted.outputs, program.outputs, strict=True))
    return _CHECK.substitute(
        name=emitted.name,
        tables="\n".join(tables),
        locals="\n".join(f"        {real.c} lw_got_{n}[{max(1, a.size)}];" for n, a in named),
        arguments=", ".join(
            [f"lw_in_{n}[lw_row]" for n in emitted.inputs] + [f"lw_got_{n}" for n in emitted.outputs]
        ),
        compare="\n".join(
            f"        lw_bad += lw_differ{real.suffix}(lw_got_{n}, lw_want_{n}[lw_row], {a.size});"
            for n, a in named
        ),
    )


def _table(real: Real, name: str, rows: np.ndarray) -> str:
    """Return a constant array of recorded numbers, with at least one element, since C has no empty arrays."""
    lines = [f"    {{\n{wrap(_numbers(real, row), ' ' * 8)}\n    }}," for row in rows]
    return "\n".join(
        [f"static const {real.c} {name}[VECTORS][{max(1, rows.shape[1])}] = {{", *lines, "};", ""]
    )


def _numbers(real: Real, row: Iterable[float]) -> list[str]:
    """Return numbers as constant expressions, which the helpers of the source file are not."""
    out = []
    for x in map(float, row):
        if math.isfinite(x):
            out.append(real.hexadecimal(x))
        else:
            out.append("NAN" if math.isnan(x) else "INFINITY" if x > 0 else "-INFINITY")
    return out or ["0"]
