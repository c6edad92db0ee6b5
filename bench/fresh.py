"""Compare batches without `out=` with batches with it: `python bench/fresh.py`.

Without `out=` results are new arrays, whose memory pages the operating system has to map.
"""

from __future__ import annotations

import time

import numpy as np

import linkwork as lw

SIZES = (64e3, 256e3, 1e6, 4e6, 16e6, 64e6, 256e6, 1e9)  # bytes of results


def times(kernel: lw.Kernel, arrays: list[np.ndarray], turns: int) -> tuple[float, float]:
    """Return the median times of calls without and with `out=`, taking turns [s]."""
    out = tuple(np.empty_like(x) for x in kernel(*arrays))
    kernel(*arrays, out=out)
    fresh = []
    given = []
    for _ in range(turns):
        start = time.perf_counter()
        kernel(*arrays)
        middle = time.perf_counter()
        kernel(*arrays, out=out)
        fresh.append(middle - start)
        given.append(time.perf_counter() - middle)
    return float(np.median(fresh)), float(np.median(given))


def table(quick: bool = False) -> str:
    """Compute derivatives of forward dynamics of a quadruped on one thread, or LINKWORK_THREADS."""
    model = lw.robots.quadruped()
    kernel = lw.compile(lw.forward_dynamics_derivatives, model).wait()
    row = 8 * sum(spec.size for spec in kernel.outputs)
    q, v = model.random_state(np.random.default_rng(0))
    lines = [
        "| results | states | fresh, µs a state | `out=`, µs a state | ratio |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for size in SIZES[: 5 if quick else None]:
        rows = max(1, int(size / row))
        arrays = [np.tile(x, (rows, 1)) for x in (q, v, np.zeros(model.nv))]
        fresh, given = times(kernel, arrays, max(7, min(400, int(4e8 / size))))
        per_state = f"{1e6 * fresh / rows:.2f} | {1e6 * given / rows:.2f}"
        lines.append(f"| {size / 1e6:g} MB | {rows} | {per_state} | {fresh / given:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
