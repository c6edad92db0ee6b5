"""The CUDA target without a GPU: the text of kernels, compiled by the host compiler, gives the interpreter's
bits.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from c_target_programs import constants, exact_zeros, loops, products, skippable, tangle
from cuda_programs import HostKernels, tight
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.targets.cuda import DEVICES, emit_cuda
from linkwork.compiler.targets.cuda import occupancy as occupancy_module
from linkwork.compiler.targets.cuda import planner as planner_module
from linkwork.compiler.targets.cuda import statements as statements_module
from programs import as_tuple, assert_same, cut_into, every_operation, seeded_program, states
from waiting import PATIENCE


def without_empty(program: Program) -> Program:
    """The program without arrays of size 0, which kernels do not take."""
    kept = [k for k, a in enumerate(program.outputs) if a.size]
    return replace(
        program,
        inputs=tuple(a for a in program.inputs if a.size),
        outputs=tuple(program.outputs[k] for k in kept),
        results=tuple(program.results[k] for k in kept),
    )


def small_programs() -> list[Program]:
    traced = [
        trace(products, {"q": 4, "v": 4, "k": ()}),
        trace(loops, {"x": 2, "n": ()}),
        trace(skippable, {"x": 3}),
    ]
    unsigned = [every_operation(), *traced, without_empty(constants()), tangle(120), exact_zeros()]
    return [*unsigned, trace(handed_on, {"x": 2}), seeded_program(2, size=60)]


def handed_on(x: Any) -> Any:
    """A loop in which one state becomes another while a new one takes its place."""

    def step(s: Any) -> Any:
        total = s[0] + s[1]
        many = [total * (0.1 * k) for k in range(12)]  # so that the state must leave its register
        last = sum(a * b for a, b in zip(many, reversed(many)))
        return np.array([total, s[0], s[2] + 1.0 + 0.01 * last], dtype=object), s[2] < 6.0

    return lw.loop(step, np.array([x[0], x[1], 0.0], dtype=object), limit=9)


def compare(kernels: HostKernels, rows: int = 40) -> None:
    for k, (program, _) in enumerate(kernels.kernels):
        inputs = states(program, rows, np.random.default_rng(k))
        wanted = [
            np.broadcast_to(w, (rows, *a.shape))
            for w, a in zip(as_tuple(interpret(program, *inputs)), program.outputs)
        ]
        assert_same(program, tuple(kernels.run(k, inputs, rows)), tuple(wanted), inputs, f"kernel {k}")


def test_small_programs_in_both_dtypes(tmp_path: Path) -> None:
    programs = [p.with_dtype(d) for p, d in itertools.product(small_programs(), ("float64", "float32"))]
    compare(HostKernels([(p, emit_cuda(p, DEVICES["sm_90"])) for p in programs], tmp_path))


@pytest.mark.parametrize("slots", [3, 1000])
def test_values_wait(slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few registers values wait in shared memory, in local memory, and across the functions of a program
    that is cut.
    """
    monkeypatch.setattr(planner_module, "LONG_BODY", 0)  # every loop has its state in slots
    kernels = []
    for program in small_programs():
        cut = cut_into(program.map_bodies(lambda body: cut_into(body, 4)), 15)
        kernels += [(p, tight(p, 6, slots)) for p in (program, cut)]
    compare(HostKernels(kernels, tmp_path))
    assert any(e.config.plan.stores for _, e in kernels)
    assert any(e.config.local for _, e in kernels) == (slots < 1000)


def test_warps_of_large_programs_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every warp of a block comes to every barrier, those behind the last row too: they compute some rows
    again.
    """
    monkeypatch.setattr(statements_module, "BARRIER_BLOCK", 5)
    monkeypatch.setattr(occupancy_module, "INSTRUCTION_CACHE", (0, 0))
    device = DEVICES["sm_90"]
    kernels = []
    for program in small_programs():
        kernels.append((program, emit_cuda(program, device, occupancy_module.candidates(program, device)[0])))
        loops = any(op == "loop" for op, _, _ in program.code) and not occupancy_module._is_nested(program)
        assert loops == ("return;" in kernels[-1][1].source) != kernels[-1][1].config.lockstep
    compare(HostKernels(kernels, tmp_path))
    assert any("LW_TOGETHER();" in emitted.source for _, emitted in kernels)
    monkeypatch.setattr(occupancy_module, "INSTRUCTION_CACHE", (0, 1 << 30))
    unsigned = next(p for p in small_programs() if not any(op == "loop" for op, _, _ in p.code))
    assert [way.lockstep for way in occupancy_module.candidates(unsigned, device)[:2]] == [False, True]


def nested(x: Any) -> Any:
    """Loops in a loop, of which rows take different numbers of turns; some stop where their numbers are not
    finite.
    """

    def inner(s: Any) -> Any:
        many = [s[0] * (0.01 * k) + s[1] for k in range(12)]
        return np.array([s[0] + 0.1 * sum(many), s[1], s[2] - 1.0], dtype=object), s[2] > 1.0

    def middle(s: Any) -> Any:
        last = lw.loop(inner, np.array([s[0], s[1], s[2] * 0.5], dtype=object), limit=7)
        return np.array([last[0] * 0.1, s[1], s[2] - 2.0], dtype=object), (s[2] > 3.0) & (last[0] < 1e9)

    def outer(s: Any) -> Any:
        first = lw.loop(inner, np.array([s[0], s[1], s[2]], dtype=object), limit=20)
        last = lw.loop(middle, np.array([s[1], first[0], s[2] * 0.5], dtype=object), limit=7)
        return np.array([first[0], last[0] * 1e-3, s[2] - 1.0, s[3] + 1.0], dtype=object), (s[2] > 2.0) & (
            first[0] < 1e9
        )

    return lw.loop(outer, np.array([x[0], x[1], 6.0 * x[0] * x[0], 0.0], dtype=object), limit=30)


@pytest.mark.parametrize("slots", [3, 1000])
def test_blocks_step_together_through_a_loop_of_loops(
    slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that have stopped keep their state while others of the block go on; no warp misses a barrier."""
    monkeypatch.setattr(planner_module, "LONG_BODY", 0)
    program = trace(nested, {"x": 2})
    kernels = []
    for each in (program, cut_into(program.map_bodies(lambda body: cut_into(body, 8)), 15)):
        config = replace(tight(each, 6, slots).config, lockstep=True)
        kernels.append((each, emit_cuda(each, DEVICES["sm_90"], config)))
        text = kernels[-1][1].source
        assert (
            "return;" not in text and text.count("LW_ANY(lw_on)") == 2 and text.count("LW_TOGETHER();") == 2
        )
    compare(HostKernels(kernels, tmp_path))
    monkeypatch.setattr(occupancy_module, "INSTRUCTION_CACHE", (0, 0))
    assert all(way.lockstep for way in occupancy_module.candidates(program, DEVICES["sm_90"]))


def test_robots(tmp_path: Path) -> None:
    """Dynamics of a tree, of a robot with loops and with masked iterations, and a batch that ends in the
    middle of a warp.
    """
    quadruped = lw.robots.quadruped()
    linkage = lw.robots.planar_leg_linkage()
    programs = [
        lw.lower(lw.forward_dynamics.program(quadruped), "float32", arranged=None),
        lw.lower(lw.inverse_dynamics.program(linkage), "float64", arranged=None),
        lw.lower(lw.integrate.program(linkage), "float64", arranged=None),
    ]
    kernels = HostKernels([(p, emit_cuda(p, DEVICES["sm_90"])) for p in programs], tmp_path)
    rng = np.random.default_rng(3)
    for k, program in enumerate(programs):
        inputs = [rng.standard_normal((77, *a.shape)).astype(program.dtype) for a in program.inputs]
        inputs[-1] = inputs[-1][:1]  # one row for all
        assert_same(
            program,
            tuple(kernels.run(k, inputs, 77)),
            as_tuple(interpret(program, *inputs)),
            (),
            program.name,
        )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvcc_takes_it_without_spills(arch: str, tmp_path: Path) -> None:
    program = lw.lower(lw.forward_dynamics.program(lw.robots.arm()), "float32", arranged=None)
    for name, p in {"dynamics": program, "operations": every_operation("float64")}.items():
        source = tmp_path / f"{name}.cu"
        source.write_text(emit_cuda(p, DEVICES[arch]).source)
        command = [
            "nvcc",
            f"-arch={arch}",
            "--fmad=false",
            "-Xptxas",
            "-v",
            "-cubin",
            "-o",
            str(tmp_path / "k.cubin"),
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr
