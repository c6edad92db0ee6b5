"""Measure compiled kernels without Python: `python bench/speed.py`.

Times of one state (one lane, states one after the other) and per state of a batch of 4096 in lanes on one
thread, from and to row-major arrays; the best of many repetitions, all kernels in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import robots
from linkwork.cli.measure import best_times, kernel_of
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes import lower
from linkwork.compiler.runtime.kernel import Kernel
from linkwork.compiler.targets.cpu import host

ROWS = 4096

ROBOTS = ("iiwa14", "solo12", "g1", "talos")


def caller(kernel: Kernel, rows: int, seed: int = 1) -> Callable[[], Any]:
    """Return a call on random row-major arrays of `rows` rows with preallocated outputs."""
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=(rows, *a.shape)).astype(kernel.dtype) for a in kernel.inputs]
    outputs = tuple(np.zeros((rows, *a.shape), kernel.dtype) for a in kernel.outputs)
    return lambda: kernel.ufunc(*inputs, out=outputs)


def clock_rate() -> float:
    """Return the cycles per second, from a chain of dependent additions.

    An addition takes 3 cycles on Zen 3 and 4 and 4 cycles on most other processors.
    """
    latency = 3 if host().cpu.startswith("znver") else 4

    def chain(x: Any) -> Any:
        y = x[0]
        for _ in range(3000):
            y = y + x[1]
        return y

    from linkwork.compiler.ir.trace import trace
    from linkwork.compiler.passes.dead import drop_dead

    kernel = kernel_of(drop_dead(trace(chain, {"x": 2})), 1)
    rows = 256
    seconds = best_times({0: caller(kernel, rows)}, 50)[0]
    return 3000 * rows * latency / seconds


def flops(program: Program) -> int:
    """Return the floating-point operations of a program, with two for a fused multiply-add."""
    weight = {"fma": 2, "add": 1, "sub": 1, "mul": 1, "div": 1, "sqrt": 1}
    return sum(weight.get(op, 0) for op, _, _ in program.code)


def instructions(program: Program) -> int:
    """Return the number of executed instructions: no constants, inputs or signs."""
    return sum(op not in ("const", "input", "neg") for op, _, _ in program.code)


def table(turns: int, dtype: str = "float64") -> str:
    """Return the Markdown table of all robots and programs."""
    lowered = {
        (robot, name): lower(program, dtype)
        for robot in ROBOTS
        for name, program in robots.programs(robot).items()
    }
    lanes = host().lanes(dtype)
    calls = {}
    for key, program in lowered.items():
        calls[(*key, 1)] = caller(kernel_of(program, 1), ROWS)
        calls[(*key, lanes)] = caller(kernel_of(program, lanes), ROWS)
    times = {key: 1e9 * t / ROWS for key, t in best_times(calls, turns).items()}
    clock = clock_rate()
    roof = (
        clock * 2 * lanes
    )  # flops a second: one multiply-add per lane and cycle, as with two half-wide units on Zen 4
    head = [
        "robot",
        "",
        "instructions",
        "one state, ns",
        f"in {lanes} lanes, ns per state",
        "share of the roof",
    ]
    lines = [row(head), row(["---"] * len(head))]
    for (robot, name), program in lowered.items():
        one = times[robot, name, 1]
        wide = times[robot, name, lanes]
        share = flops(program) / (wide * 1e-9) / roof
        cells = [robot, name, str(instructions(program)), f"{one:.0f}", f"{wide:.1f}", f"{share:.0%}"]
        lines.append(row(cells))
    return "\n".join(
        [*lines, "", f"Clock {clock / 1e9:.2f} GHz; the roof is {roof / 1e9:.0f} Gflop/s a core in {dtype}."]
    )


def row(cells: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(table(60))
