"""Measure the cost of parameters as inputs of forward dynamics: `python bench/parameters.py`.

Operations, and ns for each of 4096 environments with their own parameters (a batch on one thread, the best of
many, in turns), relative to parameters that are constants.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import linkwork as lw
import robots
from linkwork.compiler.targets.cpu import host
from speed import best_times, kernel_of

ROWS = 4096
SETS: dict[str, tuple[str, ...]] = {
    "mass, gravity": ("mass", "gravity"),
    "inertia": ("inertia",),
    "mass, inertia": ("mass", "inertia"),
    "mass, center, inertia": ("mass", "center", "inertia"),
    "mass, center, friction, gravity": ("mass", "center", "friction", "gravity"),
}


def table(turns: int) -> str:
    """Return a Markdown table of operations and times of forward dynamics, relative to constant parameters."""
    lines = ["| robot | inputs | operations | ratio | ns per environment | ratio |", "| --- " * 6 + "|"]
    for name in robots.ROBOTS:
        model = robots.model(name)
        rng = np.random.default_rng(0)
        state = [rng.normal(size=(ROWS, n)) for n in (model.nq, model.nv, model.nv)]
        own = model.parameters()
        calls = {}
        count = {}
        for inputs, names in {"none": (), **SETS}.items():
            program = lw.lower(lw.forward_dynamics.program(model, parameters=names))
            count[inputs] = lw.count_operations(lw.forward_dynamics, model, parameters=names)["total"]
            kernel = kernel_of(program, host().lanes("float64"))
            given = [own[n] * rng.uniform(0.9, 1.1, (ROWS, *own[n].shape)) for n in names]
            out = np.empty((ROWS, model.nv))
            calls[inputs] = partial(kernel, *state, *given, out=out, threads=1)
        times = best_times(calls, turns)
        for inputs in calls:
            operations = count[inputs] / count["none"]
            time = times[inputs] / times["none"]
            ns = 1e9 * times[inputs] / ROWS
            lines.append(
                f"| {name} | {inputs} | {count[inputs]} | {operations:.2f} | {ns:.1f} | {time:.2f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(20))
