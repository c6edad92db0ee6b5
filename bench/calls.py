"""Measure the overhead of calls and the gain of a second thread: `python bench/calls.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import robots
from linkwork.compiler.passes import lower
from linkwork.compiler.runtime.threads import using_threads
from linkwork.compiler.targets.cpu import host
from speed import best_times, caller, kernel_of


def per_call(calls: dict[str, Callable[[], Any]], turns: int = 40, number: int = 3000) -> dict[str, float]:
    """Return the best time per call [ns] of each function in runs of `number`, without that of the empty
    loop.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for key, call in calls.items():
            start = time.perf_counter()
            for _ in range(number):
                call()
            best[key] = min(best[key], (time.perf_counter() - start) / number)
    return {key: 1e9 * t for key, t in best.items()}


def overhead_table() -> str:
    """Return a table of times of one call on one state of the 7-joint arm's forward dynamics."""
    program = lower(robots.programs("iiwa14")["forward dynamics"])
    kernel = kernel_of(program, host().lanes("float64"))
    alone = 1e9 * best_times({0: caller(kernel_of(program, 1), 256)}, 60)[0] / 256
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=7) for _ in range(3)]
    a, b, c = arrays
    out, ufunc, bound = np.empty(7), kernel.ufunc, kernel.bind(*arrays)
    times = per_call({
        "nothing": lambda: None,
        "NumPy ufunc": lambda: ufunc(a, b, c),
        "kernel": lambda: kernel(a, b, c),
        "kernel with `out=`": lambda: kernel(a, b, c, out=out),
        "bound call": bound,
    })  # fmt: skip
    lines = [
        "| call on one state | ns | above the kernel, ns |",
        "| --- | --- | --- |",
        f"| the kernel alone | {alone:.0f} | |",
    ]
    for name, t in times.items():
        if name != "nothing":
            taken = t - (
                0 if name == "bound call" else times["nothing"]
            )  # the bound call needs no lambda around it
            lines.append(f"| {name} | {taken:.0f} | {taken - alone:.0f} |")
    return "\n".join(lines)


def threads_table() -> str:
    """Return a table of times of large batches on one and two threads."""
    lines = [
        "| forward dynamics | states | one thread, ns per state | two threads | ratio |",
        "| --- " * 5 + "|",
    ]
    for robot, rows in (("iiwa14", 1 << 18), ("g1", 1 << 16)):
        kernel = kernel_of(lower(robots.programs(robot)["forward dynamics"]), host().lanes("float64"))
        call = caller(kernel, rows)
        best = {1: float("inf"), 2: float("inf")}
        for _ in range(60):
            for threads in best:
                with using_threads(threads):
                    start = time.perf_counter()
                    call()
                    best[threads] = min(best[threads], time.perf_counter() - start)
        one, two = (1e9 * best[t] / rows for t in (1, 2))
        lines.append(f"| {robot} | {rows} | {one:.1f} | {two:.1f} | {one / two:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(overhead_table() + "\n\n" + threads_table())
