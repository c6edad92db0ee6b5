"""Measure the time until kernels are ready: `python bench/soon.py [--sizes 10 50 ...]`.

For forward dynamics of chains: seconds from the model to the first result (quick kernel), to the optimised
kernel, and to the first result of a new process that finds it in the cache; also `import linkwork`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBE = "import time; t = time.perf_counter(); import linkwork; print(time.perf_counter() - t)"


def one(bodies: int) -> None:
    """Trace, compile and call in this process, and print the times."""
    import numpy as np

    import linkwork as lw
    import robots

    model = robots.model(f"chain{bodies}")
    x = np.ones(bodies)
    start = time.perf_counter()
    lw.forward_dynamics(model, x, x, x)
    first = time.perf_counter() - start
    kernel = lw.compile(lw.forward_dynamics, model, wait=True)
    optimised = time.perf_counter() - start
    print(kernel.size, kernel.tier, first, optimised)


def in_new_process(bodies: int, cache: str) -> list[float]:
    """Return the numbers that `one` prints in a fresh process."""
    env = {**os.environ, "LINKWORK_CACHE": cache}
    command = [sys.executable, __file__, "--bodies", str(bodies)]
    text = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in text.split()]


def table(sizes: list[int]) -> str:
    """Return the Markdown table of all sizes."""
    imports = [
        float(
            subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True).stdout
        )
    ]
    for _ in range(4):
        imports.append(
            float(
                subprocess.run(
                    [sys.executable, "-c", PROBE], check=True, capture_output=True, text=True
                ).stdout
            )
        )
    lines = [
        "| bodies | instructions | first result, s | optimised, s | per 1000 instructions, s | from the cache, s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for size in sizes:
        with tempfile.TemporaryDirectory() as cache:
            count, _, first, optimised = in_new_process(size, cache)
            again = min(in_new_process(size, cache)[2] for _ in range(3))
        lines.append(
            f"| {size} | {count:.0f} | {first:.2f} | {optimised:.2f} | {1000 * optimised / count:.3f} | {again:.3f} |"
        )
    lines += ["", f"`import linkwork`: {min(imports):.2f} s."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 50, 200, 1000])
    parser.add_argument("--bodies", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bodies:
        one(options.bodies)
    else:
        print(table(options.sizes))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
