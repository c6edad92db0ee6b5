"""Two threads a state: limbs of equal structure side by side, with the interpreter's bits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from cuda_programs import HostKernels
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.targets.cuda import DEVICES, Emitted, candidates, emit_cuda
from linkwork.compiler.targets.cuda import packed as packed_module
from linkwork.compiler.targets.cuda import pairs as pairs_module
from linkwork.compiler.targets.cuda.cost_model import ThreadBudget, configure_pairs
from linkwork.compiler.targets.cuda.packed import pack
from programs import as_tuple, assert_same, states


def limb(q: Any, base: Any, lengths: Any, sign: float) -> tuple[Any, Any]:
    """What a limb gives to its base, and an output that needs the base's answer."""
    x = base
    total = 0.0
    for angle, length in zip(q, lengths):
        x = x * angle + length
        total = total + sign * x * angle - x * x * length
    return total, x


def two_limbs(q: Any, v: Any) -> Any:
    """Two limbs on a base; one of them is mirrored and has one term more, so that they are not quite equal."""
    base = v[0] * v[1] + 0.5
    first, tip = limb(q[:6], base, [0.3, 0.5, 0.7, 0.2, 0.9, 1.1], 1.0)
    second, other = limb(q[6:12], base, [0.4, 0.5, 0.7, 0.25, -0.9, 1.1], -1.0)
    second = second + v[1] * other * 0.125
    joined = first / (second * second + 1.0) + second
    ends = [joined * tip + a * first for a in q[:6]] + [joined * other + a * second for a in q[6:12]]
    return np.array([joined, *ends, tip, -other], dtype=object)


def tangle(seed: int) -> Program:
    """Operations on operands at random, and many outputs."""
    rng = np.random.default_rng(seed)

    def function(q: Any, v: Any) -> Any:
        known = [*q, *v, 0.75]
        for _ in range(70):
            a, b, c = (known[k] for k in rng.integers(max(0, len(known) - 25), len(known), 3))
            known.append(
                [a * b + c, a - b * c, a * (-b), a + b, a / (b * b + 1.0), lw.maximum(a, b)][rng.integers(6)]
            )
        return np.array(known[-30:], dtype=object)

    return trace(function, {"q": 6, "v": 5})


def limbs() -> Program:
    return trace(two_limbs, {"q": 12, "v": 2})


def in_pairs(program: Program, values: int, slots: int, threads: int = 64) -> Emitted:
    """The kernel with two threads a state, so many values in registers and slots in shared memory."""
    device = DEVICES["sm_90"]
    packed = pack(program)
    assert packed is not None
    return emit_cuda(
        program, device, configure_pairs(packed, device, ThreadBudget(threads, 1, 255, values, slots, 2, 3))
    )


def compare(kernels: HostKernels, rows: int = 40) -> None:
    for k, (program, _) in enumerate(kernels.kernels):
        inputs = states(program, rows, np.random.default_rng(k))
        wanted = [
            np.broadcast_to(w, (rows, *a.shape))
            for w, a in zip(as_tuple(interpret(program, *inputs)), program.outputs)
        ]
        assert_same(program, tuple(kernels.run(k, inputs, rows)), tuple(wanted), inputs, f"kernel {k}")


def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that looks a little alike is done side by side, whatever it costs."""
    for name, value in {
        "MIN_PAIRS": 0,
        "CROSSING_COST": 0.0,
        "PICK_COST": 0.0,
        "CONSTANT_COST": 0.0,
        "MIN_LIKENESS": 0.1,
    }.items():
        monkeypatch.setattr(pairs_module, name, value)
    monkeypatch.setattr(packed_module, "MAX_PACKED_SHARE", 10.0)


def test_two_limbs_in_both_dtypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with so few registers and slots that values wait, cross in shared memory, and cross by shuffles."""
    monkeypatch.setattr(pairs_module, "MIN_PAIRS", 5)
    kernels = []
    for dtype in ("float64", "float32"):
        program = lw.lower(limbs(), dtype, arranged=None)
        kernels += [
            (program, in_pairs(program, values, slots)) for values, slots in ((100, 50), (9, 6), (9, 0))
        ]
    packed = pack(kernels[0][0])
    assert packed is not None
    words = Counter(op for op, _, _ in packed.program.code)
    assert all(words[op] for op in ("const2", "input2", "even", "odd", "flip"))
    assert "LW_SHUFFLE(x" in kernels[2][1].source
    assert "__syncwarp();\n    real" in kernels[1][1].source
    compare(HostKernels(kernels, tmp_path))


def test_any_program_in_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations of random programs that have little in common, side by side, and none of them wait for each
    other.
    """
    free(monkeypatch)
    programs = [lw.lower(tangle(seed), "float64", arranged=None) for seed in range(6)]
    found = [(p, in_pairs(p, values, 4)) for p, values in zip(programs, [6, 40] * 3)]
    words = Counter(op for p, e in found for op, _, _ in e.config.program.code)
    assert words["pick"] and words["even"]
    compare(HostKernels(found, tmp_path))


def test_robots_have_pairs(tmp_path: Path) -> None:
    """Limbs of a quadruped, and a batch that ends in the middle of a warp; an arm has none that pay."""
    program = lw.lower(lw.inverse_dynamics.program(lw.robots.quadruped()), "float32", arranged=None)
    emitted = in_pairs(program, 40, 60)
    assert len(emitted.config.program) < 0.7 * len(program)
    assert emitted.config.rows * 2 == emitted.config.threads
    kernels = HostKernels([(program, emitted)], tmp_path)
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((77, *a.shape)).astype("float32") for a in program.inputs]
    inputs[-1] = inputs[-1][:1]  # one row for all
    assert_same(
        program, tuple(kernels.run(0, inputs, 77)), as_tuple(interpret(program, *inputs)), (), "quadruped"
    )
    assert pack(lw.lower(lw.inverse_dynamics.program(lw.robots.arm()), "float64", arranged=None)) is None


def test_candidates_have_one_thread_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "MIN_PAIRS", 5)
    ways = candidates(lw.lower(limbs(), "float64", arranged=None), DEVICES["sm_90"])
    assert {bool(way.places) for way in ways} == {False, True}
    assert ways == sorted(ways, key=lambda way: -way.rate)
