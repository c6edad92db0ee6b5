"""Writes a program as C files that stand on their own: header, source, test with recorded vectors, CMake project."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from linkwork.errors import TargetError
from linkwork.ir.interpret import interpret
from linkwork.ir.program import Array, Program
from linkwork.targets.c.arithmetic import arithmetic_text
from linkwork.targets.c.emit import Emitted, Notes, emit_c
from linkwork.targets.c.helpers import Real, guard_text, wrap

SEED = 20240229  # of the recorded inputs: the same program always gives the same files


@dataclass(frozen=True)
class Export:
    """The files of an exported program. `name` is the C function's, `stack_bytes` the bound that the header states."""

    name: str
    header: Path
    source: Path
    test: Path
    cmake: Path
    stack_bytes: int


def export_c(
    program: Program, folder: str | Path, *, name: str | None = None, vectors: int = 8, notes: Notes | None = None
) -> Export:
    """Write `program` (core operations only) as C99 into `folder`, which is made if it is not there.

    The function is called `name`, or as the program if None; a name that C cannot have gets an underscore. The test
    compares `vectors` recorded calls with the interpreter bit by bit. `notes` say in the header, by the names of arrays, what
    an array is and the names along its axes.
    """
    if vectors < 1:
        raise TargetError(f"an exported test needs at least one vector, not {vectors}")
    emitted = emit_c(program, name=name, notes=notes)
    texts = {
        f"{emitted.name}.h": emitted.header,
        f"{emitted.name}.c": emitted.source,
        f"{emitted.name}_test.c": _test_text(program, emitted, vectors),
        "CMakeLists.txt": _CMAKE.substitute(name=emitted.name),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="ascii", newline="\n")
    header, source, test, cmake = (folder / file for file in texts)
    return Export(emitted.name, header, source, test, cmake, emitted.stack_bytes)


_TEST = Template("""\
/* Compares $name with calls recorded by linkwork's interpreter, bit by bit; NaN counts as one value. */
#include "$name.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

$guards
enum { VECTORS = $vectors };

$tables
static int lw_differ(const $real *got, const $real *want, int count) {
    int bad = 0;
    for (int k = 0; k < count; k++) {
        const int both_nan = got[k] != got[k] && want[k] != want[k];
        if (!both_nan && memcmp(got + k, want + k, sizeof *got) != 0) {
            bad++;
        }
    }
    return bad;
}

$arithmetic
int main(void) {
    int lw_failed = 0;
    if (lw_arithmetic()) {
        return 1;
    }
    for (int lw_row = 0; lw_row < VECTORS; lw_row++) {
        int lw_bad = 0;
$locals
        $name($arguments);
$compare
        if (lw_bad) {
            printf("vector %d: %d numbers differ\\n", lw_row, lw_bad);
            lw_failed++;
        }
    }
    printf("%d passed, %d failed\\n", VECTORS - lw_failed, lw_failed);
    return lw_failed != 0;
}
""")

_CMAKE = Template("""\
# The library linkwork::$name, and its test where this is the project that is built.
cmake_minimum_required(VERSION 3.13)
project(linkwork_$name C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(linkwork_$name STATIC $name.c)
add_library(linkwork::$name ALIAS linkwork_$name)
target_include_directories(linkwork_$name PUBLIC $${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(linkwork_$name PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  # a * b + c must round twice where the program says so
  target_compile_options(linkwork_$name PRIVATE -ffp-contract=off)
endif()
if(UNIX)
  target_link_libraries(linkwork_$name PUBLIC m)
endif()

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  enable_testing()
  add_executable(linkwork_${name}_test ${name}_test.c)
  set_target_properties(linkwork_${name}_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_link_libraries(linkwork_${name}_test PRIVATE linkwork_$name)
  add_test(NAME $name COMMAND linkwork_${name}_test)
endif()
""")


def record(program: Program, vectors: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs drawn with a fixed seed and the interpreter's outputs, each of shape (vectors, size)."""
    rng = np.random.default_rng(SEED)
    arrays = [(2 * rng.standard_normal((vectors, *a.shape))).astype(program.dtype) for a in program.inputs]
    given = interpret(program, *arrays)
    outputs = given if isinstance(given, tuple) else (given,)
    # a program without inputs has no batch: its one row is every vector's
    wanted = [np.broadcast_to(o, (vectors, *a.shape)) for o, a in zip(outputs, program.outputs, strict=True)]
    return [a.reshape(vectors, -1) for a in arrays], [w.reshape(vectors, -1) for w in wanted]


def _test_text(program: Program, emitted: Emitted, vectors: int) -> str:
    inputs, outputs = record(program, vectors)
    real = emitted.real
    tables = [_table(real, f"lw_in_{n}", rows) for n, rows in zip(emitted.inputs, inputs, strict=True)]
    tables += [_table(real, f"lw_want_{n}", rows) for n, rows in zip(emitted.outputs, outputs, strict=True)]
    named: list[tuple[str, Array]] = list(zip(emitted.outputs, program.outputs, strict=True))
    return _TEST.substitute(
        name=emitted.name,
        vectors=vectors,
        real=real.c,
        guards=guard_text(real, f"{emitted.name}_test"),
        arithmetic=arithmetic_text(real),
        tables="\n".join(tables),
        locals="\n".join(f"        {real.c} lw_got_{n}[{max(1, a.size)}];" for n, a in named),
        arguments=", ".join([f"lw_in_{n}[lw_row]" for n in emitted.inputs] + [f"lw_got_{n}" for n in emitted.outputs]),
        compare="\n".join(f"        lw_bad += lw_differ(lw_got_{n}, lw_want_{n}[lw_row], {a.size});" for n, a in named),
    )


def _table(real: Real, name: str, rows: np.ndarray) -> str:
    """A constant array of recorded numbers; one of size 0 gets an element, for C has no empty arrays."""
    lines = [f"    {{\n{wrap(_numbers(real, row), ' ' * 8)}\n    }}," for row in rows]
    return "\n".join([f"static const {real.c} {name}[VECTORS][{max(1, rows.shape[1])}] = {{", *lines, "};", ""])


def _numbers(real: Real, row: Iterable[float]) -> list[str]:
    """The numbers as constant expressions, which the helpers of the source file are not."""
    out = []
    for x in map(float, row):
        if math.isfinite(x):
            out.append(real.hexadecimal(x))
        else:
            out.append("NAN" if math.isnan(x) else "INFINITY" if x > 0 else "-INFINITY")
    return out or ["0"]
