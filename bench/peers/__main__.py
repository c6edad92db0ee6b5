"""Print the peers' times: `python bench/peers [--no-best] [--turns N] [--robots ...] [--variants] [--check]`.

With `--constrained`, Pinocchio's constrained dynamics and Delassus matrices on the sets of
`constraint_sets.py` (`--sets ...`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from constraint_sets import SETS
from peers import constrained, models, python_times
from peers.servers import Server, peer_servers
from robots import ROBOTS
from speed import row


def table(robots: list[str], turns: int, best: bool, variants: bool) -> str:
    """Return Markdown: ns per state, best / median from C and C++, best from Python, by robot and algorithm."""
    lines: list[str] = []
    details: list[str] = []
    for robot in robots:
        servers = peer_servers(robot, best)
        for _ in range(turns):
            for server in servers.values():
                server.turn()
        python = python_times.python_times(robot, turns)
        if not lines:
            head = ["robot", "", *(f"{name}, ns" for name in (*servers, *python))]
            lines += [row(head), row(["---"] * len(head))]
        for algorithm in models.ALGORITHMS:
            cells = [f"{s.best[algorithm]:.0f} / {s.median[algorithm]:.0f}" for s in servers.values()]
            for times in python.values():
                ns = python_times.fastest(times).get(algorithm)
                cells.append("" if ns is None else f"{ns:.0f}")
            lines.append(row([robot, algorithm, *cells]))
        for server in servers.values():
            details += [f"{server.name}: {name}: {min(t)[0]:.0f}" for name, t in sorted(server.times.items())]
            server.close()
        details += [
            f"{robot}: {name}: {v}: {ns:.0f}"
            for name, times in python.items()
            for v, ns in sorted(times.items())
        ]
    return "\n".join([*lines, "", *details] if variants else lines)


def check(robots: list[str], best: bool) -> str:
    """Return the differences of all results from linkwork's, relative to the largest entry."""
    lines = []
    for robot in robots:
        state = models.states(robot, 1)[0]
        ours = models.our_results(robot, state)
        results = {"Pinocchio, Python": models.pinocchio_results(robot, state)}
        results["MuJoCo, Python"] = models.mujoco_results(robot, state)
        servers: dict[str, Server] = peer_servers(robot, best)
        for name, server in servers.items():
            results[name] = server.results()
            server.close()
        lines += [f"{robot}: {name}: {models.difference(r, ours):.1e}" for name, r in results.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--best",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Pinocchio inlined for this processor",
    )
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS), choices=list(ROBOTS))
    parser.add_argument("--variants", action="store_true", help="list the times of all variants too")
    parser.add_argument("--check", action="store_true", help="compare results with this project's instead")
    parser.add_argument("--constrained", action="store_true", help="constrained dynamics instead")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), help="of constraints")
    wanted = parser.parse_args()
    if wanted.constrained:
        print(
            constrained.check(wanted.sets) if wanted.check else constrained.table(wanted.sets, wanted.turns)
        )
    elif wanted.check:
        print(check(wanted.robots, wanted.best))
    else:
        print(table(wanted.robots, wanted.turns, wanted.best, wanted.variants))
