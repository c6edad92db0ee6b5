"""How the time of batch forward dynamics grows with the number of bodies: `python bench/scales.py`.

Chains (each body on the last) and binary trees of equal rods, a batch of 4096 states (512 for 1000 bodies) on one thread, the
best of many, all sizes taking turns.
"""

from __future__ import annotations

from linkwork import forward_dynamics, robots
from linkwork.passes import lower
from linkwork.targets.cpu import host
from speed import best_times, caller, instructions, kernel_of

SIZES = (10, 20, 50, 100, 200, 1000)


def table(turns: int, sizes: tuple[int, ...] = SIZES) -> str:
    """Markdown: instructions and ns per body."""
    calls, count, rows = {}, {}, {}
    for kind, make in (("chain", robots.chain), ("binary tree", robots.binary_tree)):
        for n in sizes:
            program = lower(forward_dynamics.program(make(n), method="articulated_body"))
            rows[kind, n] = 4096 if n <= 200 else 512
            calls[kind, n] = caller(kernel_of(program, host().lanes("float64")), rows[kind, n])
            count[kind, n] = instructions(program) / n
    times = best_times(calls, turns)
    lines = ["| bodies | chain: instructions a body | ns a body | tree: instructions a body | ns a body |", "| --- " * 5 + "|"]
    for n in sizes:
        cells = [f"{count[kind, n]:.0f} | {1e9 * times[kind, n] / rows[kind, n] / n:.1f}" for kind in ("chain", "binary tree")]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(20))
