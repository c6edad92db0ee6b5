"""Measure the time to build and compile mechanisms with many loops: `python bench/closed.py [--sizes 5 10 20 40]`.

The mechanisms are four-bars in a row, a biped of 53 bodies with closed hips, knees, ankles and fingers, and a
foot with 50 rods, each in a fresh process with an empty cache. Reported are CPU times to build the model, to
the first result of forward dynamics and to its optimised kernel, and operations of forward dynamics. Unlike
wall-clock time, CPU time does not depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def one(name: str) -> None:
    """Build, trace, compile and call in this process, and print the times."""
    sys.path.insert(0, str(HERE.parent / "tests/helpers"))
    import numpy as np

    import leg_mechanisms as legs
    import linkwork as lw
    import planar_mechanisms as planar

    drawn = {"biped": legs.biped, "foot": legs.foot_of_rods}
    drawing = planar.four_bars_in_a_row(int(name)) if name.isdigit() else drawn[name]()
    start = time.process_time()
    model = drawing.builder.build()
    built = time.process_time() - start
    q = model.neutral()
    v = np.full(model.nv, 0.1)
    start = time.process_time()
    lw.forward_dynamics(model, q, v, v)
    first = time.process_time() - start
    lw.compile(lw.forward_dynamics, model, wait=True)
    optimised = time.process_time() - start
    operations = lw.count_operations(lw.forward_dynamics, model)["total"]
    print(len(model.bodies), model.nv, built, first, optimised, operations)


def in_new_process(name: str) -> list[float]:
    """Return the numbers that `one` prints in a fresh process."""
    with tempfile.TemporaryDirectory() as cache:
        env = {
            **os.environ,
            "LINKWORK_CACHE": cache,
            "OPENBLAS_NUM_THREADS": "1",
        }  # threads that wait would count
        command = [sys.executable, __file__, "--name", name]
        text = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in text.split()]


def table(names: list[str]) -> Iterator[str]:
    """Yield the lines of a Markdown table of all mechanisms."""
    yield "| mechanism | bodies | DoF | built, s | first result, s | optimised, s | operations | per body |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name in names:
        bodies, freedoms, built, first, optimised, operations = in_new_process(name)
        title = f"{name} four-bars" if name.isdigit() else name
        counts = f"{operations:.0f} | {operations / bodies:.1f}"
        yield f"| {title} | {bodies:.0f} | {freedoms:.0f} | {built:.2f} | {first:.2f} | {optimised:.2f} | {counts} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[5, 10, 20, 40])
    parser.add_argument("--name", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.name:
        one(options.name)
    else:
        for line in table([*map(str, options.sizes), "biped", "foot"]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
