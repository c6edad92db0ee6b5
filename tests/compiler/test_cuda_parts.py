"""Long programs on a GPU as several kernels: the same bits through the host compiler, and how they are
launched.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cuda_target import compare, without_empty

import linkwork as lw
from c_target_programs import constants, products, tangle
from cuda_programs import HostKernels
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.passes.sink import move_down
from linkwork.compiler.targets.cuda import DEVICES, Emitted, candidates, choose_parts, emit_cuda
from linkwork.compiler.targets.cuda import parts as parts_module
from linkwork.compiler.targets.cuda.cost_model import ThreadBudget, configure
from linkwork.compiler.targets.cuda.split import can_split, split
from programs import every_operation

SM90 = DEVICES["sm_90"]


def table(x: Any) -> Any:
    """Outputs of many lines of memory, whose rows begin anywhere in one; some values are in several, some
    known late.
    """
    rows = [[x[i % 5] * (0.1 * j) + x[j % 5] for j in range(9)] for i in range(9)]
    late = sum(r[3] * r[4] for r in rows)
    symmetric = [[rows[max(i, j)][min(i, j)] * late for j in range(9)] for i in range(9)]
    return {"first": np.array(rows, dtype=object), "second": np.array(symmetric, dtype=object)}


def programs(dtype: str) -> list[Program]:
    found = [
        trace(products, {"q": 4, "v": 4, "k": ()}),
        every_operation(),
        tangle(120),
        trace(table, {"x": 5}),
    ]
    return [p.with_dtype(dtype) for p in (*found, without_empty(constants())) if can_split(p)]


def in_parts(program: Program, max_instructions: int, values: int = 6, slots: int = 1) -> list[Emitted]:
    """The parts with so little room for values that many wait, some are read again, and some are left to the
    assembler.
    """
    write = 128 // np.dtype(program.dtype).itemsize
    budget = ThreadBudget(64, 1, 255, values, slots, 2, 7, write)
    return [
        emit_cuda(p.program, SM90, configure(p.program, SM90, budget, p))
        for p in split(program, write, max_instructions=max_instructions)
    ]


@pytest.mark.parametrize("dtype", [pytest.param("float64", marks=pytest.mark.slow), "float32"])
def test_parts_have_the_bits_of_the_whole(dtype: str, tmp_path: Path) -> None:
    kernels: list[Any] = [(p, in_parts(p, 40)) for p in programs(dtype)]
    arm = lw.lower(lw.inverse_dynamics.program(lw.robots.arm()), dtype, arranged=None)
    kernels.append((arm, in_parts(arm, 250)))
    compare(HostKernels(kernels, tmp_path), rows=77)
    texts = [e for _, parts in kernels for e in parts]
    assert sum(e.config.plan.rereads for e in texts) and any("lw_read<" in e.source for e in texts)
    assert max(len(parts) for _, parts in kernels) > 3
    assert any("lw_flush_ring<" in e.source for e in texts)


def test_what_crosses_is_kept_until_it_was_read() -> None:
    """No part writes to a slot that holds what it or a later part still reads; each reads only what was kept
    before.
    """
    program = lw.lower(lw.forward_dynamics.program(lw.robots.arm()), "float64", arranged=None)
    parts = split(program, 16, max_instructions=300)
    assert len(parts) > 3 and all(len(part.program) < 600 for part in parts)
    kept: set[int] = set()
    for part in parts:
        assert kept.issuperset(part.reads)
        assert not set(part.keeps) & set(part.reads)
        kept |= set(part.keeps)
    assert sorted(kept) == list(range(parts[0].slots))
    written = [
        (c.array, e) for part in parts for c in part.chunks for e in range(c.start, c.start + c.length)
    ]
    assert sorted(written) == [(k, e) for k, a in enumerate(program.outputs) for e in range(a.size)]


def test_few_operations_are_rather_done_again_than_read() -> None:
    program = lw.lower(lw.forward_dynamics.program(lw.robots.arm()), "float64", arranged=None)
    parts = split(program, 16, max_instructions=300)
    again = sum(len(part.program) for part in parts) - len(program)
    assert again > 0
    for part in parts:  # what is read has a use, and is no constant or sign
        used = {a for _, args, _ in part.program.code for a in args} | set(part.program.result_values())
        array = len(part.inputs)
        reads = [v for v, (op, _, attr) in enumerate(part.program.code) if op == "input" and attr[0] == array]
        assert set(reads) <= used and len(reads) == len(part.reads)


class FakeGpu:
    number = 0
    device = SM90
    name = "none"


def test_a_long_program_becomes_one_kernel_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwork.compiler.runtime.cuda import build

    monkeypatch.setattr(parts_module, "CUTTING", Cutting(max_uncut=100))
    monkeypatch.setattr(parts_module, "MAX_INSTRUCTIONS", 300)
    monkeypatch.setattr(build, "choose_parts", lambda p, d: choose_parts(p, d, max_instructions=300))
    monkeypatch.setattr(build, "compile_text", lambda source, arch: source.encode())
    program = lw.forward_dynamics.program(lw.robots.arm())
    lowered = lw.lower(program, "float32", arranged=None)
    header, code = build.fastest(program, lowered, FakeGpu())  # type: ignore[arg-type]
    assert len(header["parts"]) > 3 and sum(part["bytes"] for part in header["parts"]) == len(code)
    assert code.count(b"__global__ void") == len(header["parts"])
    assert header["scratch_slots"] > 0 and header["name"] == program.name


def test_batches_beyond_the_memory_are_run_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn has a warp of states at least, and the same memory; too little memory makes shorter turns,
    then an error.
    """
    from linkwork.compiler.ir.program import Array
    from linkwork.compiler.runtime.cuda import memory as memory_module
    from linkwork.compiler.runtime.cuda.kernel import CudaKernel

    kernel = CudaKernel("f", "float32", (Array("x", (3,)),), (Array("y", (5,)),))
    free = [40_000]
    taken: list[int] = []

    def allocate(size: int, gpu: int, stream: int, stack: ExitStack) -> int | None:
        taken.append(size)
        return 4096 if size <= free[0] else None

    monkeypatch.setattr(memory_module, "allocate", allocate)
    monkeypatch.setattr(memory_module, "MIN_SCRATCH_STATES", 64)
    monkeypatch.setattr(memory_module, "MAX_SCRATCH_BYTES", 1 << 20)
    runs: list[tuple[str, int, list[tuple[int, int]], int]] = []
    monkeypatch.setattr(
        CudaKernel,
        "_run",
        lambda self, part, f, rows, arrays, stream, scratch: runs.append((f, rows, arrays, scratch)),
    )
    header = {"scratch_slots": 100, "parts": [{}, {}]}
    with ExitStack() as stack:
        memory = memory_module.Memory(kernel, 7, stack)
        kernel._run_parts(header, ["a", "b"], 210, [(1000, 3), (9000, 0)], FakeGpu(), memory)  # type: ignore[arg-type]
    assert [size // 400 for size in taken] == [224, 128, 64]
    assert [(f, rows) for f, rows, _, _ in runs] == [(f, n) for n in (64, 64, 64, 32) for f in "ab"]
    assert [arrays for f, _, arrays, _ in runs if f == "a"] == [
        [(1000 + 12 * n, 3), (9000, 0)] for n in (0, 64, 128, 178)
    ]
    free[0] = 1 << 20
    with ExitStack() as stack:  # as many states as all multiprocessors have at once, some times
        assert memory_module.Memory(kernel, 7, stack).scratch(0, 9000, 100, 1000)[1] == -(-2000 // 32) * 32
        assert memory_module.Memory(kernel, 7, stack).scratch(0, 2100, 100, 1000)[1] == 2112
    free[0] = 100
    monkeypatch.setattr(CudaKernel, "too_many", lambda self, shape: lw.TargetError(f"no room for {shape}"))
    with ExitStack() as stack, pytest.raises(lw.TargetError, match="no room for \\(64, 100\\)"):
        memory_module.Memory(kernel, 7, stack).scratch(0, 210, 100)


def test_short_rows_may_be_written_whole(tmp_path: Path) -> None:
    """Of a program with rows of 18 numbers one way writes whole rows; longer rows are written in sectors;
    same bits.
    """
    dynamics = lw.lower(lw.inverse_dynamics.program(lw.robots.quadruped()), "float32", arranged=None)
    assert [way.write for way in candidates(dynamics, SM90, warps=8)[:2]] == [8, 18]
    short = trace(
        lambda x: np.array([x[k % 5] * (0.1 * k) + x[k % 3] for k in range(18)], dtype=object), {"x": 5}
    )
    rows = emit_cuda(short, SM90, configure(short, SM90, ThreadBudget(64, 1, 255, 20, 5, 2, 5, 18)))
    long = trace(table, {"x": 5}).with_dtype("float32")
    kernels: list[Any] = [(short, rows), (long, emit_cuda(long, SM90))]
    assert "lw_flush_rows<18, 19>" in rows.source and "lw_flush_ring<32, 32, " in kernels[1][1].source
    compare(HostKernels(kernels, tmp_path), rows=77)


def test_what_only_one_element_needs_stands_last_in_the_order_of_outputs() -> None:
    """Entries of a matrix whose columns were computed one after the other follow each other as in memory."""

    def f(x: Any) -> Any:
        shared = [x[0] * x[1], x[1] - x[2], x[2] / x[0]]
        X = np.zeros((4, 5), dtype=object)
        for j in range(5):
            y = [s * x[j % 3] + float(j) for s in shared]
            X[:, j] = [(y[0] * (i + 1.0) - y[1]) * y[2] for i in range(4)]
        return {"X": X, "shared": shared[0] + X[1, 1]}

    program = lw.lower(trace(f, {"x": 3}), arranged=None)
    moved = move_down(program)
    places = [
        v
        for v, same in zip(moved.results[0], program.results[0], strict=True)
        if same != program.results[0][6]
    ]
    assert places == sorted(places) and list(program.results[0]) != sorted(program.results[0])
    rows = np.random.default_rng(0).normal(size=(7, 3))
    for found, wanted in zip(lw.interpret(moved, rows), lw.interpret(program, rows), strict=True):
        np.testing.assert_array_equal(found, wanted)
