"""Compare derivatives of dynamics with Pinocchio's: `python bench/derivatives.py [robot or set of constraints ...]`.

linkwork is called from Python: one state through a bound call, 256 states in one batch on one thread.
Pinocchio's analytic derivatives run over 16 states in C++, as shipped and inlined for this processor
(bench/peers); the faster build counts. It has no batches on one core. All programs alternate in one run, and
the best of many times counts. Results are compared first.

Sets of constraints are those of `constraint_sets`, such as "solo12 F3x4". Pinocchio's derivatives include
constrained dynamics with one or three iterations, whichever is faster; linkwork's include the solution. The
last lines compare the vjp of forward dynamics with forward dynamics.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import constraint_sets
import linkwork as lw
import robots
from linkwork.compiler.runtime.kernel import Kernel
from peers import models
from peers.derivatives import Server

AHEAD = (
    16  # states that Pinocchio walks over: longer walks are seldom left alone by the system's other programs
)
ROBOTS = ("iiwa14", "solo12", "g1", "talos")
CONSTRAINED = ("iiwa14 H6", "solo12 F3x4", "g1 F6x2", "talos F6x2")
FUNCTIONS = {
    "inverse dynamics": lw.inverse_dynamics_derivatives,
    "forward dynamics": lw.forward_dynamics_derivatives,
    "constrained dynamics": lw.constrained_dynamics_derivatives,
}
HEAD = ("robot", "derivatives of", "operations", "one state, µs", "batch, µs a state")
HEAD += ("Pinocchio shipped, µs", "inlined, µs", "one", "batch", "difference")


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the time of one call [s], the mean over `number` calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def arrays(states: Sequence[models.State], algorithm: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, v and accelerations, or forces, of all states, as linkwork's functions take them."""
    q, v, a, tau = (np.array(x) for x in zip(*states))
    return q, v, a if algorithm == "inverse dynamics" else tau


def difference(found: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    """Return the largest difference relative to the largest entry of each matrix."""
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in zip(found, right))


def measure(name: str, turns: int) -> list[str]:
    """Return the rows of the table for a robot or a set of constraints."""
    chosen = constraint_sets.SETS.get(name)
    robot, held = (name, ()) if chosen is None else (chosen.robot, chosen.constraints)
    model = robots.model(name) if chosen is None else chosen.model()
    options = {} if chosen is None else {"constraints": constraints(chosen)}
    states = models.states(robot)
    with Server(robot, held, states[:AHEAD]) as peer:
        errors = compared(model, peer, robot, held, options)
        kernels = {what: lw.compile(FUNCTIONS[what], model, wait=True, **options) for what in errors}
        ours = permutation_and_rotation(kernels, states, peer, turns)
        theirs = {what: [built(peer, what, made) for made in ("shipped", "inlined")] for what in errors}
    rows = []
    for what, (one, batch) in ours.items():
        operations = lw.count_operations(FUNCTIONS[what], model, **options)["total"]
        fastest = min(theirs[what])
        times = [
            f"{1e6 * x:.2f}" if x < np.inf else "" for x in (one, batch, *theirs[what])
        ]  # a build may be missing
        ratios = [f"{fastest / one:.1f}×", f"{fastest / batch:.1f}×"]
        rows.append(row([name, what, str(operations), *times, *ratios, f"{errors[what]:.0e}"]))
    return rows


def constraints(chosen: constraint_sets.ConstraintSet) -> list[Any]:
    """Return the set of constraints of linkwork."""
    if not chosen.to_world:
        raise SystemExit("only constraints to the world are measured here")
    return [(lw.Weld if c.size == 6 else lw.Connect)(f"held{i}") for i, c in enumerate(chosen.constraints)]


def compared(
    model: lw.Model, peer: Server, robot: str, held: Any, options: dict[str, Any]
) -> dict[str, float]:
    """Return the errors relative to Pinocchio by algorithm in one state, at rest if there are constraints."""
    state = models.states(robot, 1)
    if held:
        state = [(q, 0.0 * v, a, tau) for q, v, a, tau in state]
        with Server(robot, held, state) as resting:
            right = resting.matrices()
    else:
        right = peer.matrices()
    return {
        what: difference([x[0] for x in FUNCTIONS[what](model, *arrays(state, what), **options)], matrices)
        for what, matrices in right.items()
    }


def permutation_and_rotation(
    kernels: dict[str, Kernel], states: Sequence[models.State], peer: Server, turns: int
) -> dict[str, tuple[float, float]]:
    """Return times of one state and per state of a batch [s] of linkwork's kernels, alternating with the
    peer.
    """
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
    for what, kernel in kernels.items():
        given = arrays(states, what)
        out = kernel(*given, threads=1)
        calls[what] = (
            kernel.bind(*(x[0] for x in given)),
            lambda k=kernel, x=given, y=out: k(*x, threads=1, out=y),
        )
    best = dict.fromkeys(calls, (np.inf, np.inf))
    for _ in range(turns):
        for what, (one, batch) in calls.items():
            now = (
                min(seconds(one, 20) for _ in range(5)),
                min(seconds(batch, 1) for _ in range(5)) / len(states),
            )
            best[what] = min(best[what][0], now[0]), min(best[what][1], now[1])
        peer.turn()
    return best


def built(peer: Server, what: str, made: str) -> float:
    """Return the time per state [s] of one build of the peer, in its fastest variant."""
    times = [
        times
        for name, times in peer.times.items()
        if name.split("/")[0] == what and name.split("/")[2] == made
    ]
    return min((best for variant in times for best, _ in variant), default=np.inf) / 1e9


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def measure_vjp(robot: str, turns: int) -> str:
    """Return the cost of a vjp of forward dynamics by q, v and tau, in evaluations of forward dynamics in
    batches.
    """
    model, (q, v, tau) = robots.model(robot), arrays(models.states(robot), "forward dynamics")
    forward = lw.compile(lw.forward_dynamics, model, wait=True)
    backward = lw.compile(lw.vjp(lw.forward_dynamics, model, wrt=("q", "v", "tau")), wait=True)
    found, back = forward(q, v, tau, threads=1), backward(q, v, tau, tau, threads=1)
    once = again = np.inf
    for _ in range(5 * turns):
        once = min(once, seconds(lambda: forward(q, v, tau, threads=1, out=found), 1) / len(q))
        again = min(again, seconds(lambda: backward(q, v, tau, tau, threads=1, out=back), 1) / len(q))
    return f"{robot}: vjp of forward_dynamics {again * 1e6:.2f} µs a state in batches, {again / once:.1f} evaluations"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("names", nargs="*", default=[*ROBOTS, *CONSTRAINED], metavar="robot or set")
    options = parser.parse_args()
    print(row(HEAD) + "\n" + row(["---"] * len(HEAD)))
    for name in options.names:
        print("\n".join(measure(name, options.turns)), flush=True)
    for name in options.names:
        if name not in constraint_sets.SETS:
            print(measure_vjp(name, options.turns), flush=True)


if __name__ == "__main__":
    main()
