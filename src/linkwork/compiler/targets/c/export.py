"""Export of programs as self-contained C files: header, source, test with recorded vectors, CMake project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.c.files import Function, Notes, emit_library
from linkwork.compiler.targets.c.recorded import test_text
from linkwork.errors import TargetError


@dataclass(frozen=True)
class Export:
    """Files of exported functions; `name` is that of the files, and of the C function if there is one.

    `functions` maps the names of all C functions to the bounds on their stacks [bytes] that the header
    states; `stack_bytes` is the largest.
    """

    name: str
    header: Path
    source: Path
    test: Path
    cmake: Path
    functions: Mapping[str, int]

    @property
    def stack_bytes(self) -> int:
        """Bound on the stack of a call [bytes]."""
        return max(self.functions.values())


def export_c(
    program: Program,
    folder: str | Path,
    *,
    name: str | None = None,
    vectors: int = 8,
    notes: Notes | None = None,
    freestanding: bool = False,
) -> Export:
    """Write `program` (core operations only) as C99 into `folder`, which is created if needed.

    The function is called `name`, or as the program if None; a name that is not allowed in C gets an
    underscore. The test compares `vectors` recorded calls with the interpreter bit by bit. `notes` describe
    arrays in the header: by array name, what it is and the names along its axes. A `freestanding` export
    needs no C library.
    """
    functions = [Function(program, name, notes or {})]
    return export_library(
        functions, folder, name=name or program.name, vectors=vectors, freestanding=freestanding
    )


def export_library(
    functions: Sequence[Function],
    folder: str | Path,
    *,
    name: str,
    vectors: int = 8,
    freestanding: bool = False,
) -> Export:
    """Write programs as functions of one C library, with files called `name`; see `export_c`.

    Functions whose names would clash get numbers. They may have different dtypes.
    """
    if vectors < 1:
        raise TargetError(f"vectors: expected at least 1 test vector, got {vectors}")
    emitted = emit_library(functions, name=name, freestanding=freestanding)
    cmake = _CMAKE.substitute(
        name=emitted.name,
        flags=" -ffreestanding" if freestanding else "",
        libm="" if freestanding else _LIBM.substitute(name=emitted.name),
    )
    texts = {
        f"{emitted.name}.h": emitted.header,
        f"{emitted.name}.c": emitted.source,
        f"{emitted.name}_test.c": test_text(functions, emitted, vectors),
        "CMakeLists.txt": cmake,
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="ascii", newline="\n")
    header, source, test, project = (folder / file for file in texts)
    return Export(
        emitted.name, header, source, test, project, {f.name: f.stack_bytes for f in emitted.functions}
    )


_LIBM = Template("""\
if(UNIX)
  target_link_libraries(linkwork_$name PUBLIC m)
endif()
""")
_CMAKE = Template("""\
# The library linkwork::$name, and its test if this is the top-level project.
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
  target_compile_options(linkwork_$name PRIVATE -ffp-contract=off$flags)
endif()
$libm
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  enable_testing()
  add_executable(linkwork_${name}_test ${name}_test.c)
  set_target_properties(linkwork_${name}_test PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_link_libraries(linkwork_${name}_test PRIVATE linkwork_$name)
  add_test(NAME $name COMMAND linkwork_${name}_test)
endif()
""")
