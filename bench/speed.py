"""How fast compiled kernels are: `python bench/speed.py`.

Times are without Python: of one state (one lane, states one after the other) and per state of a batch of 4096
in lanes on one thread, from and to row-major arrays. The best of many repetitions counts, all kernels taking
turns.
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

# What a first experiment of this design reached on the same kind of machine (Zen 4, one core), from arrays
# already laid out in tiles: ns per state for one state and in 8 lanes. The mass matrix is the upper triangle
# without zeros.
FIRST_ATTEMPT = {
    "iiwa14": {"inverse dynamics": (110, 23), "mass matrix": (96, 21), "forward dynamics": (228, 45)},
    "solo12": {"inverse dynamics": (267, 57), "mass matrix": (268, 60), "forward dynamics": (617, 107)},
    "g1": {"inverse dynamics": (930, 223), "mass matrix": (1125, 259), "forward dynamics": (1842, 485)},
    "talos": {"inverse dynamics": (985, 231), "mass matrix": (1013, 279), "forward dynamics": (1880, 534)},
}


def caller(kernel: Kernel, rows: int, seed: int = 1) -> Callable[[], Any]:
    """A call on random row-major arrays of so many rows, the output already there."""
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=(rows, *a.shape)).astype(kernel.dtype) for a in kernel.inputs]
    outputs = tuple(np.zeros((rows, *a.shape), kernel.dtype) for a in kernel.outputs)
    return lambda: kernel.ufunc(*inputs, out=outputs)


def clock_rate() -> float:
    """Cycles per second, from a chain of dependent additions (3 cycles each on Zen 3 and 4, 4 on most
    others).
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
    """Floating-point operations of a program as a processor counts them: two for an fma."""
    weight = {"fma": 2, "add": 1, "sub": 1, "mul": 1, "div": 1, "sqrt": 1}
    return sum(weight.get(op, 0) for op, _, _ in program.code)


def instructions(program: Program) -> int:
    """Instructions that a processor has to run: no constants, inputs or signs."""
    return sum(op not in ("const", "input", "neg") for op, _, _ in program.code)


def table(turns: int, dtype: str = "float64") -> str:
    """The Markdown table of all robots and programs."""
    lowered = {
        (robot, name): lower(program, dtype)
        for robot in FIRST_ATTEMPT
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
    compare = dtype == "float64"
    head = [
        "robot",
        "",
        "instructions",
        "one state, ns",
        f"in {lanes} lanes, ns per state",
        "share of the roof",
    ]
    head += ["first attempt: one state", "in lanes"] if compare else []
    lines = [row(head), row(["---"] * len(head))]
    for (robot, name), program in lowered.items():
        one = times[robot, name, 1]
        wide = times[robot, name, lanes]
        share = flops(program) / (wide * 1e-9) / roof
        cells = [robot, name, str(instructions(program)), f"{one:.0f}", f"{wide:.1f}", f"{share:.0%}"]
        if compare:
            before = FIRST_ATTEMPT[robot].get(name)
            cells += [f"{b} ({b / t:.2f}×)" for b, t in zip(before, (one, wide))] if before else ["", ""]
        lines.append(row(cells))
    return "\n".join(
        [*lines, "", f"Clock {clock / 1e9:.2f} GHz; the roof is {roof / 1e9:.0f} Gflop/s a core in {dtype}."]
    )


def row(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(table(60))
