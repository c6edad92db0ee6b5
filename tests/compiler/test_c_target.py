"""The C target: exported files compile cleanly and give the interpreter's bits under both compilers and all
flags.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from c_target_programs import (
    CLEAN,
    STRICT,
    Case,
    awkward_names,
    build,
    compiler,
    constants,
    exact_zeros,
    loops,
    make_case,
    nothing_in,
    products,
    run,
    skippable,
    tangle,
)
from linkwork.compiler.ir import functions as lw
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.operations import CORE
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.targets.c import Export, emit_c, export_c
from linkwork.errors import ProgramError, TargetError
from programs import every_operation

FLAGS = {
    "O0": [*STRICT, "-O0"],
    "O2": [*STRICT, "-O2"],
    "O3-native": [*STRICT, "-O3", "-march=native"],
    "O3-native-gnu": ["-O3", "-march=native"],  # where GCC would contract a * b + c
}

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler: cc, gcc"
)


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """All small programs in both dtypes; some once more cut into tiny parts."""
    folder = tmp_path_factory.mktemp("c")
    traced = [
        trace(products, {"q": 4, "v": 4, "k": ()}),
        trace(loops, {"x": 2, "n": ()}),
        trace(skippable, {"x": 3}),
    ]
    programs = [
        every_operation(),
        *traced,
        constants(),
        nothing_in(),
        awkward_names(),
        tangle(120),
        exact_zeros(),
    ]
    out = []
    with pytest.MonkeyPatch.context() as patch:
        for chunk, suffix in ((1500, ""), (4, "_cut")):
            patch.setattr("linkwork.compiler.targets.c.emit.MAX_STATEMENTS", chunk)
            for p, (dtype, tail) in itertools.product(programs, (("float64", ""), ("float32", "_f32"))):
                ending = suffix + tail
                out.append(make_case(p.with_dtype(dtype), folder, p.name + ending if ending else None))
    return out


# tests


def test_all_operations_are_covered() -> None:
    assert {op for op, _, _ in every_operation().code} >= set(CORE)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.sweep(2)
def test_same_bits(cc: str, flags: str, cases: list[Case], tmp_path: Path) -> None:
    path = compiler(cc)
    some = cases if flags in ("O0", "O3-native") else [c for c in cases if "_cut" not in c.export.name]
    library = build(path, FLAGS[flags], some, tmp_path / "all.so")
    for case in some:
        case.compare(library)


def test_gcc_contraction_is_off_whatever_the_flags(cases: list[Case], tmp_path: Path) -> None:
    flags = ["-O3", "-march=native", "-ffp-contract=fast"]
    some = [c for c in cases if c.program.name in ("products", "loops")]
    library = build(compiler("gcc"), flags, some, tmp_path / "fast.so")
    for case in some:
        case.compare(library)


@pytest.fixture(scope="session")
def long_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tangle(12_000), tmp_path_factory.mktemp("long"), rows=50)


def test_long_program_is_cut(long_case: Case) -> None:
    functions = re.split(r"\n(?=LW_PART |static |void )", long_case.export.source.read_text())
    parts = [f for f in functions if f.startswith("LW_PART ")]
    statements = [len(re.findall(r"^    const (?:double|int) t", part, re.M)) for part in parts]
    assert sum(statements) > 5000 and len(statements) >= 4
    assert max(statements) <= 1500


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_long_program_has_same_bits(cc: str, long_case: Case, tmp_path: Path) -> None:
    case = long_case
    path = compiler(cc)
    case.compare(build(path, [*STRICT, "-O1"], [case], tmp_path / "long.so"))
    run(path, "-std=c99", "-O0", "-fstack-usage", "-c", case.export.source, "-o", tmp_path / "long.o")
    assert measured_stack(tmp_path / "long.su", "tangle") <= case.export.stack_bytes


def measured_stack(report: Path, name: str) -> int:
    """The deepest chain by the compiler's own count: the function, a part, a loop body, and all helpers to be
    safe.
    """
    rows = [line.split("\t") for line in report.read_text().splitlines()]
    sizes = {row[0].rsplit(":", 1)[-1]: int(row[1]) for row in rows}
    groups = [
        max((s for n, s in sizes.items() if f"{name}_{kind}" in n), default=0) for kind in ("part", "loop")
    ]
    return sizes[name] + sum(groups) + sum(s for n, s in sizes.items() if n.startswith("lw_"))


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_stack_bound_of_small_programs(cc: str, level: str, cases: list[Case], tmp_path: Path) -> None:
    path = compiler(cc)
    some = [c for c in cases if c.program.name in ("ops", "tangle")]  # one loop deep at most
    for case in some:
        shutil.copy(case.export.source, tmp_path)
    sources = [tmp_path / c.export.source.name for c in some]
    include = f"-I{some[0].export.header.parent}"
    subprocess.run(
        [path, level, "-march=native", "-fstack-usage", "-c", include, *sources], cwd=tmp_path, check=True
    )
    for case in some:
        used = measured_stack(tmp_path / f"{case.export.name}.su", case.export.name)
        assert used <= case.export.stack_bytes, case.export.name
        macro = f"#define {case.export.name.upper()}_STACK_BYTES {case.export.stack_bytes}\n"
        assert macro in case.export.header.read_text()


def test_cuts_of_the_program_are_kept(tmp_path: Path) -> None:
    program = replace(tangle(300), cuts=(0, 40, 41, 200, 299))
    case = make_case(program, tmp_path, rows=20)
    assert case.export.source.read_text().count("LW_PART tangle_part") in (
        4,
        5,
        6,
    )  # some may hold no live value
    case.compare(build(shutil.which("gcc") or "cc", [*STRICT, "-O1"], [case], tmp_path / "cuts.so"))


def test_scratch_slots_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkwork.compiler.targets.c.emit.MAX_STATEMENTS", 5)

    def chain(x):
        y = x
        for k in range(60):
            y = y * x + float(k)
        return y

    source = emit_c(trace(chain, {"x": ()})).source
    assert source.count("LW_PART chain_part") >= 20
    assert "double s[1];" in source


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_recorded_vectors(cc: str, cases: list[Case], tmp_path: Path) -> None:
    """The exported test passes, and fails where the code is wrong."""
    path = compiler(cc)
    for case in [c for c in cases if c.export.name in ("ops", "constants_f32", "loops_cut_f32", "double_")]:
        e = case.export
        run(path, *STRICT, "-O1", e.source, e.test, "-o", tmp_path / "good", "-lm")
        assert run(tmp_path / "good") == "8 passed, 0 failed\n"
    source = cases[0].export.source.read_text()
    wrong = source.replace("return a < b ? a : b;", "return a < b ? b : a;")
    assert wrong != source
    (tmp_path / "wrong.c").write_text(wrong)
    include = f"-I{cases[0].export.header.parent}"
    run(
        path,
        *STRICT,
        "-O1",
        include,
        tmp_path / "wrong.c",
        cases[0].export.test,
        "-o",
        tmp_path / "bad",
        "-lm",
    )
    assert "0 passed, 8 failed" in run(tmp_path / "bad", ok=False)


def test_cmake_builds_and_tests(tmp_path: Path) -> None:
    cmake = compiler("cmake")
    ctest = compiler("ctest")
    program = trace(products, {"q": 4, "v": 4, "k": ()})
    export_c(program, tmp_path / "project", name="test")  # a target that CMake keeps for itself
    run(cmake, "-S", tmp_path / "project", "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")
    assert "100% tests passed" in run(ctest, "--test-dir", tmp_path / "build")


def test_no_state_and_no_other_library_calls(cases: list[Case], tmp_path: Path) -> None:
    """Objects hold code and constants only, and ask the C library for fma and sqrt alone."""
    cc = compiler("gcc")
    nm = compiler("nm")
    command = [cc, "-std=c99", "-O1", "-fno-stack-protector", "-c", *[str(c.export.source) for c in cases]]
    subprocess.run(command, cwd=tmp_path, check=True)
    kinds: dict[str, set[str]] = {}
    for line in run(nm, *sorted(tmp_path.glob("*.o"))).splitlines():
        if words := re.findall(r"\b([A-Za-z]) (\S+)$", line):
            kinds.setdefault(words[0][0], set()).add(words[0][1])
    assert kinds["U"] <= {"fma", "fmaf", "sqrt", "sqrtf", "memcpy", "_GLOBAL_OFFSET_TABLE_"}
    assert set(kinds) <= {"T", "t", "r", "U"}
    assert kinds["T"] == {c.export.name for c in cases}


def test_output_may_lie_on_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promised nowhere, but true: every input is read before any output is written, cut or not."""
    program = trace(
        lambda q: q[::-1] * 2.0 + np.array([0.0, q[0], 0.0, 0.0], dtype=object), {"q": 4}, name="flip"
    )
    plain = Case(program, export_c(program, tmp_path), [], [])
    monkeypatch.setattr("linkwork.compiler.targets.c.emit.MAX_STATEMENTS", 2)
    cut = Case(program, export_c(program, tmp_path, name="flip_cut"), [], [])
    swap = trace(lambda q: q[::-1], {"q": 4}, name="swap")
    kept = Case(swap, export_c(swap, tmp_path), [], [])
    library = build(shutil.which("gcc") or "cc", ["-O2"], [plain, cut, kept], tmp_path / "flip.so")
    for case in (plain, cut, kept):
        q = np.array([1.0, 2.0, 3.0, 4.0])
        wanted = interpret(case.program, q)
        getattr(library, case.export.name)(ctypes.c_void_p(q.ctypes.data), ctypes.c_void_p(q.ctypes.data))
        assert q.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "cc, flag, words",
    [
        ("gcc", "-ffast-math", "without -ffast-math"),
        ("clang", "-ffast-math", "without -ffast-math"),
        ("gcc", "-fno-signed-zeros", "without -ffast-math"),
        ("gcc", "-mfpmath=387", "extra precision"),
    ],
)
def test_flags_that_change_bits_are_refused(
    cc: str, flag: str, words: str, cases: list[Case], tmp_path: Path
) -> None:
    path = compiler(cc)
    command = [path, flag, "-x", "c", "-E", "-dM", "/dev/null"]
    probe = subprocess.run(command, capture_output=True, text=True, check=False)
    if probe.returncode or ("387" in flag and "__FLT_EVAL_METHOD__ 2" not in probe.stdout):
        pytest.skip(f"{cc} has no {flag} on this machine")
    assert words in run(path, flag, "-c", cases[0].export.source, "-o", tmp_path / "x.o", ok=False)


UNSAFE = [
    "-funsafe-math-optimizations", "-fassociative-math -fno-signed-zeros -fno-trapping-math", "-freciprocal-math",
    "-fno-signed-zeros", "-ffinite-math-only", "-fno-honor-nans", "-ffast-math", "-Ofast",
]  # fmt: skip


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("flags", UNSAFE)
def test_every_part_of_fast_math_is_noticed(cc: str, flags: str, tmp_path: Path) -> None:
    """By an error of the compiler, or by arithmetic in the exported test: also of a program whose own results
    stay the same.
    """
    path = compiler(cc)
    if subprocess.run(
        [path, *flags.split(), "-x", "c", "-E", "/dev/null"], capture_output=True, check=False
    ).returncode:
        pytest.skip(f"{cc} has no {flags}")
    for dtype in ("float64", "float32"):
        e = export_c(trace(lambda x: x[0], {"x": 2}, name="first").with_dtype(dtype), tmp_path)
        command = [path, "-O2", *flags.split(), str(e.source), str(e.test), "-o", str(tmp_path / "x"), "-lm"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            assert "compile this file without -ffast-math" in built.stderr
        else:
            assert "flags change arithmetic" in run(tmp_path / "x", ok=False)


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize(
    "flags", ["-O0", "-O2", "-O3 -march=native", "-O2 -fno-trapping-math", "-O2 -fno-math-errno"]
)
@pytest.mark.sweep(3)
def test_flags_that_change_nothing_pass(cc: str, flags: str, tmp_path: Path) -> None:
    path = compiler(cc)
    for dtype in ("float64", "float32"):
        e = export_c(trace(products, {"q": 4, "v": 4, "k": ()}).with_dtype(dtype), tmp_path)
        for language in (STRICT, ["-std=gnu11"]):
            run(path, *language, *flags.split(), e.source, e.test, "-o", tmp_path / "x", "-lm")
            assert run(tmp_path / "x") == "8 passed, 0 failed\n"


def test_contraction_is_noticed(tmp_path: Path) -> None:
    """Clang heeds no pragma under this flag."""
    path = compiler("clang")
    about = Path("/proc/cpuinfo")
    if not about.exists() or " fma " not in about.read_text():
        pytest.skip("needs a processor known to fuse")
    e = export_c(trace(lambda x: x[0], {"x": 2}, name="first"), tmp_path)
    run(path, "-O2", "-mfma", "-ffp-contract=fast", e.source, e.test, "-o", tmp_path / "x", "-lm")
    assert "rounded once" in run(tmp_path / "x", ok=False)


def test_header_is_cplusplus(cases: list[Case], tmp_path: Path) -> None:
    (tmp_path / "all.cpp").write_text("".join(f'#include "{c.export.header}"\n' for c in cases))
    run(compiler("g++"), *CLEAN, "-fsyntax-only", tmp_path / "all.cpp")


def test_header_tells_the_contract() -> None:
    program = trace(products, {"q": 4, "v": 4, "k": ()})
    header = emit_c(program).header
    assert program.digest in header
    assert "in   q: (4)" in header and "in   k: scalar" in header and "float64" in header
    assert re.search(r"mul \d+.*sqrt 1", header, re.DOTALL)
    assert "void products(const double q[4], const double v[4], const double k[1], double out[4]," in header


def test_same_program_same_files(tmp_path: Path) -> None:
    exports = [export_c(every_operation(), tmp_path / folder, vectors=3) for folder in "ab"]
    for file in ("header", "source", "test", "cmake"):
        first, second = (getattr(e, file).read_bytes() for e in exports)
        assert first == second


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda folder: export_c(trace(lw.sin, {"x": ()}, name="f"), folder), ProgramError, "expanded"),
        (lambda folder: export_c(every_operation(), folder, name="two words"), TargetError, "identifier"),
        (
            lambda folder: export_c(every_operation(), folder, vectors=0),
            TargetError,
            "at least 1 test vector",
        ),
    ],
)
def test_refusals(make: Callable[[Path], Export], error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        make(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name, c_name", [("double", "double_"), ("sinf", "sinf_"), ("math", "math_"), ("_f", "u_f")]
)
def test_function_names(name: str, c_name: str, tmp_path: Path) -> None:
    export = export_c(every_operation(), tmp_path, name=name)
    assert export.name == c_name and export.source.name == f"{c_name}.c"
