"""Compare linkwork with Pinocchio and MuJoCo in one run: `python bench/versus.py [--turns N] [--robots ...]`.

Kernel times are without Python: one state after the other on one lane, and per state of a batch of 4096 on one
thread, from and to row-major arrays. Peers are timed from C++ and C on 256 random states, each algorithm in
every variant, and the fastest counts (bench/peers). Their batches are threads that iterate over states, so
their time per state on one core is that of one state.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import robots
from calls import per_call
from linkwork.compiler.passes import lower
from linkwork.compiler.targets.cpu import host
from peers import models, python_times
from peers.servers import peer_servers
from speed import best_times, caller, kernel_of, row

ROWS = 4096
Times = dict[str, dict[str, dict[str, float]]]  # robot -> algorithm -> who -> ns per state


def kernel_times(names: list[str], turns: int) -> Times:
    """Return ns per state of linkwork for one state, in a batch in float64 and float32, and of each peer, in
    turns.
    """
    out: Times = {}
    for robot in names:
        servers = peer_servers(robot)
        calls: dict[Any, tuple[Callable[[], Any], int]] = {}
        for name, program in robots.programs(robot).items():
            for who, lanes, dtype, rows in (
                ("one state", 1, "float64", models.COUNT),
                ("batch", host().lanes("float64"), "float64", ROWS),
                ("batch, float32", host().lanes("float32"), "float32", ROWS),
            ):
                calls[name, who] = (caller(kernel_of(lower(program, dtype), lanes), rows), rows)
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(turns):
            for key, seconds in best_times({key: call for key, (call, _) in calls.items()}, 1).items():
                best[key] = min(best[key], 1e9 * seconds / calls[key][1])
            for server in servers.values():
                server.turn()
        out[robot] = {name: {} for name, _ in calls}
        for (name, who), ns in best.items():
            out[robot][name][who] = ns
        for peer, server in servers.items():
            for name, ns in server.best.items():
                out[robot][name][peer] = ns
            server.close()
    return out


def call_times(names: list[str], turns: int) -> Times:
    """Return ns of one call from Python on one state: function, bound call, and each peer's binding."""
    out: Times = {}
    for robot in names:
        model, (q, v, a, tau) = robots.model(robot), models.states(robot, 1)[0]
        given = {"q": q, "v": v, "a": a, "tau": tau}
        calls: dict[str, Callable[[], Any]] = {"nothing": lambda: None}
        for name in ("inverse dynamics", "full mass matrix", "forward dynamics"):
            function, options = robots.ALGORITHMS[name]
            kernel = function.kernel(model, wait=True, **options)
            arrays = [given[array.name] for array in kernel.inputs]
            calls[f"{name}/function"] = _called(function, model, arrays)
            calls[f"{name}/bound call"] = kernel.bind(*arrays)
        best = per_call(calls, turns, 500)
        peers = {
            peer: python_times.fastest(times)
            for peer, times in python_times.python_times(robot, turns).items()
        }
        for key, ns in best.items():
            if key != "nothing":
                name, who = key.split("/")
                out.setdefault(robot, {}).setdefault(name, {})[who] = ns - (
                    best["nothing"] if who == "function" else 0.0
                )
        for peer, times in peers.items():
            for name in out[robot]:
                out[robot][name][peer] = times[name]
    return out


def _called(function: Any, model: Any, arrays: list[np.ndarray]) -> Callable[[], Any]:
    if len(arrays) == 1:
        (q,) = arrays
        return lambda: function(model, q)
    q, v, x = arrays
    return lambda: function(model, q, v, x)


def kernel_table(times: Times, functions: Sequence[str] | None = None) -> str:
    """Return a Markdown table of ns per state and speedups over the fastest peer, of all functions or some."""
    peers = [who for who in next(iter(next(iter(times.values())).values())) if who not in OURS]
    head = ["robot", "", "one state, ns", "in a batch, ns", *(f"{peer}, ns" for peer in peers)]
    head += ["speedup, one state", "batch", "batch in float32"] if peers else []
    lines = [row(head), row(["---"] * len(head))]
    for robot, algorithms in times.items():
        for name, t in algorithms.items():
            if functions is not None and name not in functions:
                continue
            cells = [
                robot,
                name,
                f"{t['one state']:.0f}",
                f"{t['batch']:.1f}",
                *(f"{t[peer]:.0f}" for peer in peers),
            ]
            if peers:
                fastest = min(t[peer] for peer in peers)
                cells += [f"{fastest / t[who]:.1f}×" for who in OURS]
            lines.append(row(cells))
    return "\n".join(lines)


OURS = ("one state", "batch", "batch, float32")


def call_table(times: Times) -> str:
    """Return a Markdown table of ns of one call from Python."""
    whos = list(next(iter(next(iter(times.values())).values())))
    lines = [row(["robot", "", *(f"{who}, ns" for who in whos)]), row(["---"] * (2 + len(whos)))]
    for robot, algorithms in times.items():
        for name, t in algorithms.items():
            lines.append(row([robot, name, *(f"{t[who]:.0f}" for who in whos)]))
    return "\n".join(lines)


def picture(times: Times, note: str) -> str:
    """Return an SVG of bars on a logarithmic scale: states per second on one core, for each robot and
    algorithm.
    """
    names = ["inverse dynamics", "mass matrix", "forward dynamics"]
    peers = [who for who in next(iter(next(iter(times.values())).values())) if who not in OURS]
    shown = [*reversed(peers), "one state", "batch"]
    labels = {"one state": "linkwork, one state", "batch": "linkwork, batch"}
    colours = dict(zip(shown, ["#c7ccd1", "#8f98a3", "#6fa8dc", "#1f5fa8"][-len(shown) :]))
    bar = 11
    gap = 16
    left = 130
    right = 96
    top = 74
    width = 860
    group = len(shown) * bar + gap
    panel = (width - left - right) / 1.0
    low = 1e5
    high = 1e8
    height = top + sum(26 + len(times) * group for _ in names) + 40

    def x(value: float) -> float:
        return left + panel * np.log10(value / low) / np.log10(high / low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="12" fill="#24292f"><rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="20" y="28" font-size="17" font-weight="bold">States per second on one core</text>',
    ]
    at = 20.0
    for who in reversed(shown):
        out.append(f'<rect x="{at}" y="42" width="11" height="11" fill="{colours[who]}"/>')
        out.append(f'<text x="{at + 16}" y="52">{labels.get(who, who)}</text>')
        at += 30 + 6.6 * len(labels.get(who, who))
    y = float(top)
    for tick in (1e5, 1e6, 1e7, 1e8):
        out.append(
            f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{top - 4}" y2="{height - 36}" stroke="#e4e7eb"/>'
        )
        word = {1e5: "100 thousand", 1e6: "1 million", 1e7: "10 million", 1e8: "100 million"}[tick]
        out.append(
            f'<text x="{x(tick)}" y="{height - 22}" text-anchor="middle" fill="#57606a" font-size="11">{word}</text>'
        )
    for name in names:
        out.append(f'<text x="20" y="{y + 14}" font-weight="bold">{name}</text>')
        y += 26
        for robot in times:
            t = times[robot][name]
            fastest = min((t[peer] for peer in peers), default=None)
            out.append(f'<text x="{left - 10}" y="{y + group / 2 - 4}" text-anchor="end">{robot}</text>')
            for k, who in enumerate(reversed(shown)):
                value = 1e9 / t[who]
                yk = y + k * bar
                out.append(
                    f'<rect x="{left}" y="{yk}" width="{x(value) - left:.1f}" height="{bar - 1.5}" fill="{colours[who]}"/>'
                )
                if who in OURS and fastest:
                    times_faster = f"{fastest / t[who]:.1f}×"
                    out.append(
                        f'<text x="{x(value) + 4:.1f}" y="{yk + 9}" font-size="10" fill="#57606a">{times_faster}</text>'
                    )
            y += group
    out.append(f'<text x="20" y="{height - 6}" font-size="10" fill="#57606a">{note}</text></svg>')
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--robots", nargs="*", default=list(robots.ROBOTS), choices=list(robots.ROBOTS))
    parser.add_argument("--json", type=Path, help="write the times here too")
    options = parser.parse_args()
    times = kernel_times(options.robots, options.turns)
    if options.json:
        options.json.write_text(json.dumps(times))
    print(kernel_table(times) + "\n\n" + call_table(call_times(options.robots, options.turns)))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
