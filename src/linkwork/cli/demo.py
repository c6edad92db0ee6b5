"""`linkwork demo somersaults`: 4096 simulated somersaults of a humanoid, checks and times.

The demo uses only public functions.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
from linkwork import robots
from linkwork.cli import demo_picture as picture
from linkwork.cli.robot import make_folder
from linkwork.cli.somersault import FLIGHT, SPEED, SPINS, STEPS, TUCKS, Flight, fly, step
from linkwork.compiler.runtime.threads import default_threads
from linkwork.compiler.targets.cpu import host

SIDE = 64  # number of spins at take-off, and of tucks for each
STATES = 4096  # of the timed batches


class Checks:
    """Physical laws, printed as they are checked."""

    def __init__(self) -> None:
        self.count = self.failed = 0

    def _print(self, law: str, result: str, good: bool) -> None:
        self.count += 1
        self.failed += not good
        print(f"  {law:<72}{result:>13}  {'passed' if good else 'FAILED: please report this'}")

    def small(self, law: str, error: Any, limit: float) -> None:
        """Check that an error is below a limit."""
        worst = float(np.max(np.abs(error)))
        self._print(law, f"{worst:.1e}", worst <= limit)

    def between(self, law: str, value: float, low: float, high: float) -> None:
        """Check that a number is between two others."""
        self._print(law, f"{value:.1f}", low <= value <= high)

    def same(self, law: str, a: Any, b: Any) -> None:
        """Check that arrays have the same bits; NaN counts as one value."""
        a = np.asarray(a)
        b = np.asarray(b)
        good = a.shape == b.shape and np.all(
            (a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b))
        )
        self._print(law, "same bits" if good else "different bits", bool(good))


def run(
    folder: Path, *, side: int = SIDE, states: int = STATES, patience: float = 0.3, wait: bool = True
) -> int:
    """Run the demo, print the results, write `demo.svg` into a folder; return 0 if every check passed.

    Simulate side² somersaults. A measurement takes about `patience` [s], batches have `states` states; with
    `wait`, optimized kernels are compiled before.
    """
    machine = host()
    print(f"linkwork {lw.__version__}, Python {platform.python_version()}, {machine.cpu}: "
          f"{machine.lanes('float64')} lanes of float64, {_count(default_threads(), 'thread')}")  # fmt: skip
    model = robots.humanoid()
    checks = Checks()
    _show_robot(model)
    _show_first_answer(model)
    _show_laws(model, checks, min(states, 999))
    measured = _show_speed(model, states, patience, wait)
    best, field = _show_somersaults(model, checks, side)
    make_folder(folder)
    path = folder / "demo.svg"
    path.write_text(_draw(model, best, field, measured), encoding="utf-8")
    print(f"\nThe picture is {path}. {checks.count - checks.failed} of {checks.count} checks passed.")
    return 1 if checks.failed else 0


def _title(text: str) -> None:
    print(f"\n{text}\n")


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _show_robot(model: lw.Model, rows: int = 5) -> None:
    _title('A robot: model = lw.robots.humanoid(). Your own: lw.load("robot.urdf", base="free").')
    head, table, frames, *remaining = model.report().split("\n\n")
    lines = [line[: table.index("in it")].rstrip() for line in table.splitlines()]
    for line in (
        head,
        *lines[: 1 + rows],
        f"... {len(lines) - 1 - rows} more",
        frames.splitlines()[0].rstrip(":"),
        *remaining,
    ):
        print(f"  {line}")


def _states(model: lw.Model, n: int) -> tuple[np.ndarray, ...]:
    """Random q, v and tau of n states."""
    rng = np.random.default_rng(1)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(n))))
    return q, v, 30.0 * rng.normal(size=(n, model.nv))


def _show_first_answer(model: lw.Model) -> None:
    _title("The first answer: lw.forward_dynamics(model, q, v, tau)")
    q, v, tau = (x[0] for x in _states(model, 1))
    started = time.perf_counter()
    lw.forward_dynamics(model, q, v, tau)
    first = time.perf_counter() - started
    kernel = lw.compile(lw.forward_dynamics, model)
    if kernel.tier == 2:
        print(f"  after {first:.3f} s: the kernel was in the cache")
        return
    kernel.wait()
    print(
        f"  after {first:.2f} s, traced and compiled; optimized kernel after "
        f"{time.perf_counter() - started:.2f} s"
    )


def _show_laws(model: lw.Model, checks: Checks, states: int) -> None:
    _title(f"Laws, on {states} random states; the largest error, relative to the largest force")
    q, v, tau = _states(model, states)
    scale = np.abs(tau).max()
    a = lw.forward_dynamics(model, q, v, tau)
    M = lw.mass_matrix(model, q)
    bias = lw.bias_force(model, q, v)
    checks.small(
        "inverse dynamics of forward dynamics", (lw.inverse_dynamics(model, q, v, a) - tau) / scale, 1e-10
    )
    checks.small("M a + bias = tau", (np.einsum("nij,nj->ni", M, a) + bias - tau) / scale, 1e-10)
    checks.small(
        "2 T = v M v", np.einsum("ni,nij,nj->n", v, M, v) / 2 / lw.kinetic_energy(model, q, v) - 1, 1e-10
    )
    plain = lw.forward_dynamics.body(model, q[0], v[0], tau[0], method="articulated_body").astype(float)
    checks.small("source of the kernel, run by Python on floats", (plain - a[0]) / np.abs(a[0]).max(), 1e-10)
    program = lw.lower(lw.forward_dynamics.program(model))
    checks.same("interpreter and kernel", lw.interpret(program, q, v, tau), a)
    alone = np.array([lw.forward_dynamics(model, *state) for state in zip(q, v, tau)])
    checks.same("single states (one lane) and a batch (all lanes)", alone, a)
    again = (8192 // states, 1)  # enough rows to be shared among threads
    many = [np.tile(x, again) for x in (q, v, tau)]
    checks.same(
        "one thread and three threads", lw.forward_dynamics(model, *many, threads=3), np.tile(a, again)
    )
    q[5] = np.nan
    remaining = np.arange(len(q)) != 5
    checks.same(
        "states beside one with NaN",
        lw.forward_dynamics(model, q, v, tau)[remaining],
        a[remaining],
    )


def _show_speed(model: lw.Model, states: int, patience: float, wait: bool) -> dict[str, float]:
    """Print the times of kernels; return those of forward dynamics [s per state]."""
    functions = {
        "inverse dynamics": lw.inverse_dynamics,
        "mass matrix": lw.mass_matrix,
        "forward dynamics": lw.forward_dynamics,
        "Runge-Kutta step": step,
    }
    started = time.perf_counter()
    kernels = [lw.compile(function, model) for function in functions.values()]
    if wait:
        kernels = [kernel.wait() for kernel in kernels]
    _title(f"Speed ({time.perf_counter() - started:.1f} s for compilation)")
    print(f"  {'':<18}{'instructions':>13}{'one state, bound':>19}{'called':>11}"
          f"{f'{states} states, one thread':>27}{_count(default_threads(), 'thread'):>17}")  # fmt: skip
    q, v, tau = _states(model, states)
    part = np.linspace(0.0, 1.0, states)
    values = {
        "q": q,
        "v": v,
        "a": tau,
        "tau": tau,
        "work": part,
        "t": part,
        "tuck": part,
        "h": part * FLIGHT / STEPS,
    }
    times = {}
    for (name, function), kernel in zip(functions.items(), kernels):
        inputs = [values[array.name] for array in kernel.inputs]
        seconds = times[name] = _timed(model, function, kernel, inputs, patience)
        latency = f"{seconds['bound'] * 1e6:>16.2f} µs{seconds['call'] * 1e6:>8.2f} µs"
        rates = f"{1e-6 / seconds['batch']:>17.2f} million/s{1e-6 / seconds['threads']:>7.2f} million/s"
        print(f"  {name:<18}{kernel.size:>13}{latency}{rates}")
    plain = _best(
        lambda: lw.forward_dynamics.body(model, q[0], v[0], tau[0], method="articulated_body"), patience
    )
    print(f"  The source of forward dynamics, run by Python on floats, takes {plain * 1e3:.0f} ms.")
    return {"plain": plain, **times["forward dynamics"]}


def _timed(
    model: lw.Model, function: lw.ModelFunction, kernel: Any, inputs: list[Any], patience: float
) -> dict[str, float]:
    """Return times for one state [s]: alone, bound or called, and in a batch, on one thread or all."""
    rows = len(inputs[0])
    first = [np.array(x[0]) for x in inputs]
    out = tuple(np.empty((rows, *array.shape)) for array in kernel.outputs)
    return {
        "bound": _best(kernel.bind(*first), patience),
        "call": _best(lambda: function(model, *first), patience),
        "batch": _best(lambda: kernel(*inputs, out=out, threads=1), patience) / rows,
        "threads": _best(lambda: kernel(*inputs, out=out), patience) / rows,
    }


def _best(call: Callable[[], Any], seconds: float) -> float:
    """Return the shortest time of a call [s] over several rounds."""
    rounds: list[float] = []
    count = 1
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(rounds) < 3:
        started = time.perf_counter()
        for _ in range(count):
            call()
        rounds.append((time.perf_counter() - started) / count)
        if rounds[-1] * count < seconds / 100:
            count *= 2
    return min(rounds)


def _show_somersaults(model: lw.Model, checks: Checks, side: int) -> tuple[Flight, picture.Map]:
    """Simulate all somersaults and print a summary.

    Return the best one, recorded in every step, and the rotation of each.
    """
    spins = np.linspace(*SPINS, side)
    tucks = np.linspace(*TUCKS, side)
    tuck, spin = (x.ravel() for x in np.meshgrid(tucks, spins, indexing="ij"))
    _title(f"{side * side} somersaults: {side} spins at take-off x {side} tucks, joints driven by torques")
    started = time.perf_counter()
    flights = fly(model, spin, tuck)
    seconds = time.perf_counter() - started
    print(f"  {len(spin) * STEPS / 1e6:.2f} million Runge-Kutta steps of {FLIGHT / STEPS * 1e3:.2f} ms in "
          f"{seconds:.1f} s: {len(spin) * FLIGHT / seconds:.0f} s of flight in each second")  # fmt: skip
    energy_errors = np.abs(flights.energy_error)
    total = flights.kinetic[0] + flights.potential[0]
    checks.small("energy balance with the work of motors and dampers (relative)", energy_errors / total, 1e-5)
    subset = slice(None, None, max(1, len(spin) // 61))
    halved = np.abs(fly(model, spin[subset], tuck[subset], steps=2 * STEPS).energy_error)
    checks.between(
        "ratio of energy errors with half the step (fourth order: about 16)",
        energy_errors[:, subset].max() / halved.max(),
        8,
        32,
    )
    angular, linear = np.split(flights.momentum, 2, axis=-1)
    checks.small(
        "conservation of angular momentum about the centre of mass (relative)",
        (angular - angular[0]) / np.abs(angular[0]).max(),
        1e-6,
    )
    falling = model.mass * (SPEED + np.outer(flights.t, model.gravity))[:, None]
    checks.small("linear momentum under gravity (relative)", (linear - falling) / np.abs(falling).max(), 1e-6)
    rotations = flights.lean[-1]
    selected = int(np.argmin((rotations - 2 * np.pi) ** 2 + (0.1 * flights.v[-1, :, 1]) ** 2))
    best = fly(model, spin[[selected]], tuck[[selected]], records=STEPS)
    checks.same("the best somersault alone and in the batch", best.q[-1, 0], flights.q[-1, selected])
    upright = int(np.sum(np.abs(rotations - 2 * np.pi) < np.radians(10)))
    print(
        f"  {upright} land within 10° of upright; best with {spin[selected]:.2f} rad/s and a tuck of "
        f"{tuck[selected]:.0%}"
    )
    field = picture.Map(spins, tucks, rotations.reshape(side, side), (spin[selected], tuck[selected]))
    _show_map(field)
    return best, field


def _show_map(field: picture.Map, width: int = 64, height: int = 9) -> None:
    """Print the rotation of all somersaults, one letter for a group of them."""
    rows, columns = (
        np.linspace(0, n - 1, k).round().astype(int) for n, k in zip(field.rotation.shape, (height, width))
    )
    signs = np.select(
        [np.abs(field.rotation / (2 * np.pi) - 1) < 1 / 36, field.rotation < 2 * np.pi], ["#", "."], "+"
    )
    print(f"\n  . under-rotated   # upright   + over-rotated   (up: tuck {TUCKS[0]:.0%} to {TUCKS[1]:.0%}; "
          f"right: spin {SPINS[0]:g} to {SPINS[1]:g} rad/s)")  # fmt: skip
    for row in reversed(rows):
        print("    |" + "".join(signs[row, columns]) + "|")


def _draw(model: lw.Model, best: Flight, field: picture.Map, measured: dict[str, float]) -> str:
    lines = {
        "kinetic": best.kinetic[:, 0],
        "potential": best.potential[:, 0],
        "work in the joints": best.work[:, 0],
        "kinetic + potential − work": (best.kinetic + best.potential - best.work)[:, 0],
    }
    bars = {
        "source, run by Python": measured["plain"],
        "lw.forward_dynamics(…)": measured["call"],
        "bound call": measured["bound"],
        "in a batch, one thread": measured["batch"],
        f"in a batch, {_count(default_threads(), 'thread')}": measured["threads"],
    }
    bodies = lw.forward_kinematics(model, best.q[:, 0])
    center = lw.center_of_mass(model, best.q[:, 0])
    return picture.draw(model, picture.Motion(best.t, bodies, center), lines, field, bars)
