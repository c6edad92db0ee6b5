"""The central law: the interpreter, one lane, all lanes, the quick and the optimised tier, and C give the
same bits.
"""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwork as lw
from c_target_programs import Case, build, compiler, make_case
from laws import law
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.functions import loop
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.operations import CORE
from linkwork.compiler.ir.program import Array, BoundedLoop, Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes import Arrangement, lower
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.passes.dead import drop_dead
from linkwork.compiler.passes.expand import expand
from linkwork.compiler.passes.rebuild import rebuild
from linkwork.compiler.passes.schedule import schedule
from linkwork.compiler.runtime.compiler import OPTIMISED, QUICK
from linkwork.compiler.runtime.kernel import Kernel
from linkwork.compiler.targets.c import export_c
from linkwork.compiler.targets.cpu import (
    Machine,
    bytecode_texts,
    compile_assembly,
    compile_object,
    host,
    module_texts,
)
from programs import (
    DTYPES,
    allowed_cuts,
    as_tuple,
    assert_same,
    call,
    core_programs,
    cut_into,
    every_operation,
    kernel_of,
    quick_kernel,
    same_bits,
    seeded_program,
    share_from,
    states,
)

ROWS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 1000)
SOME = 37  # whole tiles of up to 16 lanes, and a partial one
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
both = pytest.mark.parametrize("dtype", DTYPES)
seeds = st.integers(0, 2**32 - 1)


def assert_kernel(
    kernel: Kernel, program: Program, inputs: list[np.ndarray], wanted: object, what: object
) -> None:
    """The kernel gives what is wanted on all rows at once, on the first two, on the last and on a single
    state.
    """
    assert_same(program, call(kernel, inputs), wanted, inputs, what)
    for rows in (slice(0, 2), slice(-1, None)):
        some = [a[rows] for a in inputs]
        assert_same(program, call(kernel, some), tuple(w[rows] for w in as_tuple(wanted)), some, (what, rows))
    assert_same(
        program,
        call(kernel, [a[0] for a in inputs]),
        tuple(w[0] for w in as_tuple(wanted)),
        what=(what, "state"),
    )


def assert_kernels(program: Program, inputs: list[np.ndarray], *kernels: Kernel) -> None:
    wanted = interpret(program, *inputs)
    for number, kernel in enumerate(kernels):
        assert_kernel(kernel, program, inputs, wanted, f"kernel {number} with {kernel.lanes} lanes")


def assert_tiers(program: Program, inputs: list[np.ndarray]) -> None:
    assert_kernels(program, inputs, quick_kernel(program), kernel_of(program))


# generated programs


def test_the_generator_reaches_everything() -> None:
    """Every operation, loops in loops, special numbers, and results that are mostly numbers."""
    seen: Counter[str] = Counter()
    rng = np.random.default_rng(0)
    numbers = []

    def look(program: Program, depth: int) -> None:
        for op, _, attr in program.code:
            seen[f"loop{depth}" if op == "loop" else op] += 1
            if isinstance(attr, BoundedLoop):
                look(attr.body, depth + 1)

    stopped = 0
    for seed in range(60):
        program = seeded_program(seed, tame=bool(seed % 2))
        look(program, 0)
        inputs = states(program, 20, rng)
        results = as_tuple(interpret(program, *inputs))
        numbers += [np.isfinite(r).mean() for r in results]
        once = tuple(i._replace(attr=replace(i.attr, limit=1)) if i.op == "loop" else i for i in program.code)
        rest = as_tuple(interpret(replace(program, code=once), *inputs))
        changed = [~same_bits(a, b).reshape(20, -1).all(axis=1) for a, b in zip(results, rest)]
        stopped += 0 < np.any(changed, axis=0).mean() < 1
    assert set(seen) >= {*CORE, "const", "input", "result", "loop0", "loop1"} and min(seen.values()) > 5
    assert 0.5 < np.mean(numbers) < 0.95
    assert stopped > 15  # programs in which some rows stop after one step and others go on


@both
def test_every_operation_on_many_states(dtype: str) -> None:
    program = every_operation(dtype)
    inputs = states(program, 20_000, np.random.default_rng(9))
    assert_tiers(program, inputs)


@both
def test_interpreter_and_host_kernels(dtype: str) -> None:
    @law(100)
    @given(core_programs(dtype), seeds)
    def holds(program: Program, seed: int) -> None:
        inputs = states(program, SOME, np.random.default_rng(seed))
        assert_tiers(program, inputs)

    holds()


@both
def test_interpreter_and_other_levels_and_lanes(dtype: str) -> None:
    lanes = host().lanes(dtype)

    @law(20)
    @given(core_programs(dtype), seeds)
    def holds(program: Program, seed: int) -> None:
        inputs = states(program, 2 * lanes + 3, np.random.default_rng(seed))
        kernels = [
            kernel_of(program, QUICK, 1),
            kernel_of(program, OPTIMISED, 1),
            kernel_of(program, QUICK, lanes),
        ]
        kernels += [
            kernel_of(program, level, n, bytecode=True)
            for level, n in ((QUICK, 1), (OPTIMISED, 2), (QUICK, 2 * lanes))
        ]
        assert_kernels(program, inputs, *kernels, kernel_of(program, OPTIMISED, 2 * lanes))

    holds()


AVX2 = Machine(host().triple, "x86-64-v3", "+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+movbe")
SSE2 = Machine(host().triple, "x86-64", "")


@pytest.mark.skipif(not ON_X86, reason="needs an x86-64 processor")
@pytest.mark.parametrize(
    "machine, dtype, lanes",
    [
        (AVX2, "float64", 4),
        (AVX2, "float64", 8),
        (AVX2, "float32", 8),
        (SSE2, "float64", 2),
        (SSE2, "float32", 4),
    ],
    ids=lambda x: x.cpu if isinstance(x, Machine) else str(x),
)
def test_interpreter_and_older_machines(machine: Machine, dtype: str, lanes: int) -> None:
    if machine is AVX2 and not {"+avx2", "+fma"} <= set(host().features.split(",")):
        pytest.skip("this processor has no AVX2")

    @law(15)
    @given(core_programs(dtype), seeds)
    def holds(program: Program, seed: int) -> None:
        inputs = states(program, SOME, np.random.default_rng(seed))
        assert_kernels(program, inputs, kernel_of(program, OPTIMISED, lanes, machine))

    holds()
    program = every_operation(dtype)
    inputs = states(program, 4000, np.random.default_rng(8))
    kernels = [kernel_of(program, level, lanes, machine) for level in (QUICK, OPTIMISED)]
    assert_kernels(program, inputs, *kernels, kernel_of(program, QUICK, lanes, machine, bytecode=True))


# batches, threads, neighbours


@cache
def forward_dynamics(dtype: str) -> Program:
    return lower(lw.forward_dynamics.program(lw.robots.arm()), dtype)


def collatz(dtype: str) -> Program:
    """Loops whose rows stop at very different times, one inside the other, with outer values."""

    def inner() -> Program:  # halve until below the outer value
        b = Builder(dtype)
        x = b.input(0, 0)
        least = b.input(1, 0)
        half = b.apply("mul", x, b.constant(0.5))
        return body(b, 1, 1, [half], b.apply("lt", least, half))

    def outer() -> Program:
        b = Builder(dtype)
        n = b.input(0, 0)
        total = b.input(0, 1)
        least = b.input(1, 0)
        (small,) = b.loop(BoundedLoop(inner(), 1, 12), [b.apply("fma", n, n, total), least])
        n = b.apply("sub", n, b.constant(1.0))
        return body(b, 2, 1, [n, b.apply("add", total, small)], b.apply("lt", b.constant(0.0), n))

    def body(b: Builder, states: int, outer: int, after: list[int], again: int) -> Program:
        inputs = [Array("state", (states,)), Array("outer", (outer,))]
        outputs = [Array("state", (states,)), Array("again", ())]
        return b.finish("step", inputs, outputs, [after, [again]])

    b = Builder(dtype)
    n, least = b.input(0, 0), b.input(1, 0)
    results = b.loop(BoundedLoop(outer(), 2, 40), [n, b.constant(0.1), least])
    return b.finish("collatz", [Array("n", ()), Array("least", ())], [Array("out", (2,))], [results])


def collatz_states(dtype: str, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    n = rng.integers(0, 41, rows).astype(dtype)
    least = rng.uniform(0.001, 10.0, rows).astype(dtype)
    for x in (n, least):
        x[rng.random(rows) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    return [n, least]


def long_program(dtype: str) -> Program:
    return seeded_program(3, dtype, 400, tame=True, keep=60)


def long_rows(dtype: str) -> Program:
    """Rows so long that a tile asks for those of the next one."""

    def both_ways(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.concatenate([x * y - x[0], x[::-1] + y * y[5]])

    return lower(trace(both_ways, {"x": 150, "y": 150}), dtype)


@cache
def fixed(name: str, dtype: str) -> tuple[Program, Kernel, Kernel, list[np.ndarray], object]:
    """A program, its kernels of both tiers, 1000 states and what the interpreter makes of them."""
    rng = np.random.default_rng(4)
    program = {"dynamics": forward_dynamics, "collatz": collatz, "long": long_program, "rows": long_rows}[
        name
    ](dtype)
    inputs = collatz_states(dtype, 1000, rng) if name == "collatz" else states(program, 1000, rng)
    wanted = interpret(program, *inputs)
    return program, quick_kernel(program), kernel_of(program), inputs, wanted


names = pytest.mark.parametrize("name", ["dynamics", "collatz", "long", "rows"])


@both
@names
def test_any_number_of_rows_and_threads(name: str, dtype: str) -> None:
    program, quick, optimised, inputs, wanted = fixed(name, dtype)
    assert np.mean([np.isfinite(w).mean() for w in as_tuple(wanted)]) > 0.3
    for rows in ROWS:
        some = [a[:rows] for a in inputs]
        want = tuple(w[:rows] for w in as_tuple(wanted))
        for kernel in (quick, optimised):
            for number in (1, 2):
                for least in (1, 1 << 60):  # rows from which on threads share
                    got = call(share_from(kernel, least), some, threads=number)
                    assert_same(program, got, want, some, (rows, number, least, kernel.lanes))


@both
@names
def test_rows_do_not_depend_on_their_neighbours(name: str, dtype: str) -> None:
    """A row's result in a batch is that of the row alone, whatever stands beside it and however long that
    iterates.
    """
    program, quick, optimised, inputs, wanted = fixed(name, dtype)

    @law(40)
    @given(seeds, st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1e30, None]), st.integers(1, 40))
    def holds(seed: int, neighbour: float | None, rows: int) -> None:
        rng = np.random.default_rng(seed)
        chosen = rng.integers(0, 1000, rows)
        some = [a[chosen] for a in inputs]
        kept = rng.random(rows) < 0.5
        if neighbour is not None:
            for a in some:
                a[~kept] = neighbour
        want = tuple(w[chosen[kept]] for w in as_tuple(wanted))
        for kernel in (quick, optimised):
            got = as_tuple(call(kernel, some))
            assert_same(
                program, tuple(g[kept] for g in got), want, [a[kept] for a in some], (seed, kernel.lanes)
            )

    holds()


@both
def test_rows_of_generated_programs_stand_alone(dtype: str) -> None:
    @law(20)
    @given(core_programs(dtype), seeds)
    def holds(program: Program, seed: int) -> None:
        inputs = states(program, 21, np.random.default_rng(seed))
        kernel = kernel_of(program)
        together = call(kernel, inputs)
        for row in range(21):
            alone = [a[row] for a in inputs]
            assert_same(
                program, call(kernel, alone), tuple(t[row] for t in as_tuple(together)), what=f"row {row}"
            )
            assert_same(
                program,
                interpret(program, *alone),
                tuple(t[row] for t in as_tuple(together)),
                what=f"row {row}",
            )

    holds()


@both
def test_strided_and_broadcast_batches(dtype: str) -> None:
    program, _, kernel, inputs, wanted = fixed("long", dtype)
    backwards = [np.asfortranarray(a[:100])[::-3] for a in inputs]
    assert_same(program, call(kernel, backwards), tuple(w[:100][::-3] for w in as_tuple(wanted)), backwards)
    same = [np.broadcast_to(a[5], (2, 9, *a.shape[1:])) for a in inputs]
    want = tuple(np.broadcast_to(w[5], (2, 9, *w.shape[1:])) for w in as_tuple(wanted))
    assert_same(program, call(kernel, same), want, same)


# robots with loops


LOOP_PROGRAMS = {
    "four_bar": (lw.robots.four_bar, lw.forward_dynamics),
    "planar_leg_linkage": (lw.robots.planar_leg_linkage, lw.forward_dynamics),
    "mit_humanoid_leg": (lw.robots.mit_humanoid_leg, lw.forward_dynamics),
    "four_bar_closed": (lw.robots.four_bar, lw.close_loops),  # Newton's method: rows stop at different times
}
LONG_LOOP_PROGRAMS = {
    "mini_cheetah": (lw.robots.mini_cheetah, lw.forward_dynamics),
    "tello": (lw.robots.tello, lw.forward_dynamics),
    "delta": (lw.robots.delta, lw.forward_dynamics),
}
LONG = [pytest.param(name, marks=pytest.mark.slow) for name in LONG_LOOP_PROGRAMS]
some_loops = pytest.mark.parametrize("name", [*LOOP_PROGRAMS, *LONG])


@cache
def loop_case(name: str, dtype: str) -> tuple[Program, list[np.ndarray], tuple[np.ndarray, ...]]:
    """A function of a robot with loops or gears, closed states and some that are none, and the interpreter's
    results.
    """
    (robot, function), rng = {**LOOP_PROGRAMS, **LONG_LOOP_PROGRAMS}[name], np.random.default_rng(11)
    model = robot()
    program = lower(function.program(model), dtype)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(SOME))))
    known = {"q": q, "v": v, "tau": rng.normal(size=v.shape)}
    inputs = [known[a.name].astype(dtype) for a in program.inputs]
    for k, x in enumerate((np.nan, np.inf, 0.0, 1e30, -0.0)):
        inputs[k % len(inputs)][5 + k] = x
    return replace(program, name=f"{name}_{dtype}"), inputs, as_tuple(interpret(program, *inputs))


@both
@some_loops
@pytest.mark.sweep(3)
def test_loop_robots(name: str, dtype: str) -> None:
    program, inputs, wanted = loop_case(name, dtype)
    assert np.isfinite(wanted[0]).all(axis=-1).mean() > 0.8  # else there is little to compare
    for kernel in (quick_kernel(program), kernel_of(program), kernel_of(program, QUICK, 1)):
        assert_kernel(kernel, program, inputs, wanted, (name, kernel.lanes))


@some_loops
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_c_of_loop_robots(cc: str, name: str, tmp_path: Path) -> None:
    path = compiler(cc)
    cases = []
    for dtype in DTYPES:
        program, inputs, wanted = loop_case(name, dtype)
        cases.append(Case(program, export_c(program, tmp_path), inputs, list(wanted)))
    library = build(path, ["-O1", "-march=native"], cases, tmp_path / "all.so")
    for case in cases:
        case.compare(library)


# passes


EXACT = {
    "drop_dead": drop_dead,
    "expand": expand,
    "schedule": schedule,
    "cut": lambda p: cut_into(p, 8),
    "rebuild": lambda p: rebuild(p, lambda *_: None),
    "all but order_sums": lambda p: cut_into(schedule(drop_dead(expand(drop_dead(p)))), 8),
}


@both
@pytest.mark.parametrize("name", EXACT)
def test_passes_keep_every_bit(name: str, dtype: str) -> None:
    @law(40)
    @given(core_programs(dtype, 50), seeds)
    def holds(program: Program, seed: int) -> None:
        inputs = states(program, 16, np.random.default_rng(seed))
        after = check(EXACT[name](program), core_only=True)
        assert_same(program, interpret(after, *inputs), interpret(program, *inputs), inputs, after)

    holds()


@both
def test_kernels_of_lowered_programs(dtype: str) -> None:
    """`lower` decides how sums round; from then on all targets agree."""

    @law(15)
    @given(core_programs("float64", 60), seeds)
    def holds(program: Program, seed: int) -> None:
        lowered = lower(program, dtype)
        inputs = states(lowered, SOME, np.random.default_rng(seed))
        assert_tiers(lowered, inputs)

    holds()


# cuts


@both
def test_cuts_keep_every_bit(dtype: str) -> None:
    cuts = 0
    for seed in range(8):
        program = cut_into(seeded_program(seed, dtype, 100, tame=True, keep=6), 8 + 4 * seed)
        cuts += len(program.cuts)
        inputs = states(program, SOME, np.random.default_rng(seed))
        assert_tiers(program, inputs)
    assert cuts > 8


@both
@pytest.mark.parametrize("whole", [0, 60])
def test_cut_bodies_of_loops(whole: int, dtype: str) -> None:
    """Rows leave both loops at different times, the inner one in a part of the outer; all is cut, or only
    what is long.
    """

    def inner(state: Any, outer: Any) -> Any:
        a, b = state
        for k in range(6):
            a, b = 0.75 * a - b * outer[k % 3], b + 0.125 * a * a
        return np.array([a, b], dtype=object), (abs(a) > 0.5) & (abs(b) < 40.0)

    def body(x: Any) -> dict[str, Any]:
        def step(state: Any) -> Any:
            y = state[:3]
            n = state[3]
            for k in range(8):
                y = np.array([y[1] * 0.9 + x[0], y[2] - 0.25 * y[0], y[0] * y[1] * 0.125 + k], dtype=object)
            end = loop(lambda s: inner(s, y), np.array([x[1], n], dtype=object), limit=9)
            return np.array([*(0.5 * y), n + 1.0], dtype=object), (n < x[2] * 8.0) & (end[0] < 100.0)

        last = loop(step, np.array([*x, 0.0], dtype=object), limit=20)
        return {"y": last * 2.0, "same": x}

    program = lower(
        trace(body, {"x": (3,)}),
        dtype,
        arranged=Arrangement(None, Cutting(max_uncut=whole, part_size=8, cut_bodies=True)),
    )
    (outer,) = (attr.body for op, _, attr in program.code if op == "loop")
    assert outer.cuts and bool(program.cuts) == (whole == 0)
    assert any(op == "loop" and bool(attr.body.cuts) == (whole == 0) for op, _, attr in outer.code)
    inputs = [np.random.default_rng(5).uniform(-1.0, 1.0, (SOME, 3)).astype(dtype)]
    assert len({*np.asarray(interpret(program, *inputs)[0])[:, 3]}) > 4
    assert_tiers(program, inputs)


@both
def test_every_cut_that_is_allowed(dtype: str) -> None:
    """Cut before every instruction that no condition or loop crosses: parts of one instruction, parts of none
    alive.
    """
    cuts = 0
    for seed in (1, 2, 5):
        program = seeded_program(seed, dtype, 60, tame=True, keep=20)
        program = replace(program, cuts=allowed_cuts(program))
        cuts += len(program.cuts)
        inputs = states(program, SOME, np.random.default_rng(seed))
        assert_tiers(program, inputs)
    assert cuts > 40


@both
def test_an_input_that_is_an_output_of_a_program_with_cuts(dtype: str) -> None:
    b = Builder(dtype)
    x = b.input(0, 0)
    y = b.input(0, 1)
    value = x
    for _ in range(6):  # y is first used behind the first cut, and again behind the second
        value = b.emit("add", (b.emit("mul", (value, value)), y if len(b.code) > 4 else x))
    program = b.finish("p", [Array("x", (2,))], [Array("out", ()), Array("same", (2,))], [[value], [y, x]])
    for cuts in ((4,), (4, 8), (2, 4, 6, 8, 10)):
        program = replace(program, cuts=cuts)
        assert_tiers(program, states(program, SOME, np.random.default_rng(1)))


@both
def test_forward_dynamics_with_cuts(dtype: str) -> None:
    program = cut_into(forward_dynamics(dtype), 150)
    assert len(program.cuts) >= 4
    _, _, _, inputs, wanted = fixed("dynamics", dtype)
    inputs = [a[:100] for a in inputs]
    wanted = tuple(w[:100] for w in as_tuple(wanted))
    for kernel in (quick_kernel(program), kernel_of(program)):
        assert_kernel(kernel, program, inputs, wanted, kernel.lanes)


# C


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_c_of_generated_programs(cc: str, tmp_path: Path) -> None:
    path = compiler(cc)
    cases = []
    for dtype in DTYPES:
        some = [seeded_program(seed, dtype, 40, tame=bool(seed % 2), name=f"p{seed}") for seed in range(12)]
        some += [cut_into(long_program(dtype), 50), forward_dynamics(dtype)]
        cases += [make_case(replace(p, name=f"{p.name}_{dtype}"), tmp_path, rows=60) for p in some]
    library = build(path, ["-O2", "-march=native"], cases, tmp_path / "all.so")
    for case in cases:
        case.compare(library)


# machines we cannot run on


def with_everything(dtype: str) -> list[Program]:
    return [every_operation(dtype), collatz(dtype), replace(long_program(dtype), cuts=(100, 200))]


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "arm64-apple-macosx13"])
@pytest.mark.parametrize("dtype, lanes", [("float64", 1), ("float64", 2), ("float32", 1), ("float32", 4)])
def test_arm_code_can_be_made(triple: str, dtype: str, lanes: int) -> None:
    machine = Machine(triple, "generic", "+neon")
    assert machine.lanes(dtype) == (2 if dtype == "float64" else 4)
    assembly = assemble(machine, with_everything(dtype)[:2], lanes)
    assert ("fmadd" in assembly) and (lanes == 1 or "fmla" in assembly)
    assert "bl\tfma" not in assembly and "bl\t_fma" not in assembly  # one instruction, no call
    assert "br\tx" in assembly  # bytecode: each operation jumps to the next


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_code_can_be_made(dtype: str) -> None:
    machine = Machine("x86_64-pc-windows-msvc", "x86-64-v3", AVX2.features)
    assembly = assemble(machine, with_everything(dtype)[:2], machine.lanes(dtype))
    assert "vfmadd" in assembly and "jmpq\t*" in assembly


def assemble(machine: Machine, programs: list[Program], lanes: int) -> str:
    """Assembly of all modules; their objects are made too, and are not empty."""
    text = ""
    for program in programs:
        for module in module_texts(program, lanes, machine) + bytecode_texts(program, lanes, machine):
            text += compile_assembly(module, machine, level=OPTIMISED)
            assert len(compile_object(module, machine, level=QUICK)) > 100
    return text
