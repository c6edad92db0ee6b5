"""Measure the growth of batched forward dynamics with the number of bodies: `python bench/scales.py`.

Chains and binary trees of equal rods, with fixed and free base, in batches of 1024 states (512 for 1000 bodies)
on one thread; the best of many times, all sizes in turns. In larger batches, memory bandwidth, which all
processors share, hides the effect of size. With a fixed base the first bodies need fewer instructions, so small
mechanisms cost less per body.
"""

from __future__ import annotations

from collections.abc import Callable

from linkwork import Model, forward_dynamics, robots
from linkwork.compiler.passes import lower
from linkwork.compiler.targets.cpu import host
from linkwork.joints import Free
from speed import best_times, caller, instructions, kernel_of

SIZES = (10, 20, 50, 100, 200, 1000)


KINDS: dict[str, Callable[[int], Model]] = {
    "chain": robots.chain,
    "free chain": lambda n: robots.chain(n, base=Free()),
    "tree": robots.binary_tree,
    "free tree": lambda n: robots.binary_tree(n, base=Free()),
}


def table(turns: int, sizes: tuple[int, ...] = SIZES) -> str:
    """Return a Markdown table of instructions and ns per body."""
    calls = {}
    count = {}
    rows = {}
    for kind, make in KINDS.items():
        for n in sizes:
            program = lower(forward_dynamics.program(make(n), method="articulated_body"))
            rows[kind, n] = 1024 if n <= 200 else 512
            calls[kind, n] = caller(kernel_of(program, host().lanes("float64")), rows[kind, n])
            count[kind, n] = instructions(program) / n
    times = best_times(calls, turns)
    titles = " | ".join(f"{kind}: instructions per body | ns per body" for kind in KINDS)
    lines = [f"| bodies | {titles} |", "| --- " * (1 + 2 * len(KINDS)) + "|"]
    for n in sizes:
        cells = [f"{count[kind, n]:.0f} | {1e9 * times[kind, n] / rows[kind, n] / n:.1f}" for kind in KINDS]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(20))
