"""`linkwork demo`: a biped with parallel ankles and exact rotors, from its diagnosis to a film.

The demo uses only public functions: 1024 robots hang by the torso in a gantry and swing their legs under
joint control, each along its own trajectory; torques are compared with those of models with approximated
rotors; then 256 robots stand on the ground, half of them pushed (`balance`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import linkwork as lw
from linkwork.cli.balance import CONTACTS, MAX_PUSH, BalanceResult, balance
from linkwork.cli.bench import measure_costs, speed_table
from linkwork.cli.info import print_diagnosis
from linkwork.cli.measure import machine
from linkwork.cli.robot import make_folder
from linkwork.cli.terminal import Paint, working
from linkwork.mechanism.names import plain
from linkwork.visualization.film import checked_suffix, film

ROWS = 1024
DURATION = 1.0
DT = 2e-3
RECORD_EVERY = 10
# standing robots and their duration [s]: fewer than in the air, since a step with contact costs more
STANDING_ROWS = 256
STANDING_DURATION = 1.5
CONTROL_FREQUENCY = 25.0  # natural frequency of the joint control [rad/s]
CLOSURE_TOL = 1e-9  # of loops [m or rad]
TORQUE_TOL = 1e-8  # relative to the largest torque
PENETRATION_TOL = 1e-4  # of soles [m]


@dataclass(frozen=True)
class Swing:
    """Joint targets: sines around q0, one amplitude per joint and one frequency per row.

    `amplitude` is (rows, nv) [rad or m], `frequency` (rows, 1) [rad/s].
    """

    model: lw.Model
    q0: np.ndarray
    amplitude: np.ndarray
    frequency: np.ndarray
    inertia: np.ndarray

    def target(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Return displacements from q0 and velocities at a time [s], both (rows, nv); zero at t = 0."""
        phase = self.frequency * t
        return self.amplitude * (1.0 - np.cos(phase)), self.amplitude * self.frequency * np.sin(phase)

    def torque(self, q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        """Return control torques, (rows, nv): gravity compensation and PD feedback."""
        displacement, velocity = self.target(t)
        error = displacement - lw.difference(self.model, np.broadcast_to(self.q0, q.shape), q)
        control = CONTROL_FREQUENCY**2 * error + 2.0 * CONTROL_FREQUENCY * (velocity - v)
        tau: np.ndarray = lw.gravity_force(self.model, q) + self.inertia * control
        return tau


def swing(model: lw.Model, rows: int) -> Swing:
    """Return targets for a model whose first joint is free and stays in place, as in a gantry."""
    rng = np.random.default_rng(0)
    q0 = model.neutral()
    legs = np.array([name.partition(".")[0] != model.joints[0].name for name in model.v_names])
    gears = np.array([_gear(model, name) for name in model.v_names])
    amplitude = np.where(legs, gears * rng.uniform(-0.12, 0.12, (rows, model.nv)), 0.0)
    frequency = 2.0 * np.pi * rng.uniform(0.8, 1.4, (rows, 1))
    return Swing(model, q0, amplitude, frequency, lw.mass_matrix(model, q0).diagonal())


def _gear(model: lw.Model, name: str) -> float:
    """Return the speed of a rotor relative to the links that it drives; 1 for a joint of a link."""
    unit = np.array([float(name == other) for other in model.v_names])
    rates = np.abs(lw.spanning_velocity(model, model.neutral(), unit))
    others = max(rates[j.v_slice].max(initial=0.0) for j in model.joints if name not in j.v_names)
    return 1.0 / others if 0.0 < others < 1.0 else 1.0


def run(
    folder: Path,
    *,
    rows: int = ROWS,
    duration: float = DURATION,
    standing: int = STANDING_ROWS,
    turns: int = 2,
) -> int:
    """Run the demo, write films and motions into a folder; return 0 if all checks passed."""
    paint = Paint()
    print(machine())
    _title(paint, "A biped with parallel ankles and exact rotors: model = lw.robots.tello()")
    model = lw.robots.tello()
    with working("counting operations"):
        result = lw.diagnose(model)
    print_diagnosis(result, paint)
    checks = [result.sound]
    t, q, v, tau = _show_swings(paint, model, rows, duration, checks)
    _show_torques(paint, model, t, q, v, tau, checks)
    standing_result = _show_balance(paint, model, standing, STANDING_DURATION * duration / DURATION, checks)
    _title(paint, "Speed on one core of this machine")
    print("\n".join(f"  {line}" for line in speed_table(measure_costs(model, turns=turns))))
    make_folder(folder)
    pushed = standing_result.q[standing_result.film_row]
    films = _draw_films(model, folder, (t, q), (standing_result.t, pushed))
    np.savez_compressed(folder / "biped.npz", t=t, q=q, v=v, tau=tau)
    np.savez_compressed(folder / "standing.npz", t=standing_result.t, q=pushed)
    _title(paint, "Files")
    if films:
        push = standing_result.push[standing_result.film_row]
        print(f"  {plain(films[0])}: film of the first swinging robot")
        print(f"  {plain(films[1])}: film of a robot pushed at {push:.2f} m/s")
    else:
        print("  no films: these need pip install 'linkwork[film]'")
    print(f"  linkwork view tello --log {plain(folder / 'biped.npz')}: play the motion in the browser")
    print("  (the viewer needs pip install 'linkwork[view]')")
    passed = all(checks)
    verdict = paint("All checks passed.", "green")
    if not passed:
        verdict = paint("CHECKS FAILED: please report this.", "red")
    print(f"\n{verdict}")
    return 0 if passed else 1


def _draw_films(model: lw.Model, folder: Path, *motions: tuple[np.ndarray, np.ndarray]) -> list[Path]:
    """Return the films of two motions, each t and q; none if the package that writes films is missing."""
    paths = [folder / "biped.gif", folder / "standing.gif"]
    try:
        checked_suffix(paths[0])
    except lw.MissingPackageError:
        return []
    with working("drawing the films") as progress:

        def set_part(first: float, part: float) -> None:
            progress.part = first + part / 2

        for k, (path, (t, q)) in enumerate(zip(paths, motions)):
            film(model, q, t, path, progress=partial(set_part, k / 2))
    return paths


def _title(paint: Paint, text: str) -> None:
    print(f"\n{paint(text, 'bold')}\n")


def _show_swings(
    paint: Paint, model: lw.Model, rows: int, duration: float, checks: list[bool]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Simulate swinging robots; return t, q, v and tau of the first, (n, ...)."""
    _title(
        paint,
        f"{rows} robots swing for {duration:g} s under joint control: lw.rollout(model, q, v, control, "
        f"dt={DT:g})",
    )
    with working("compiling the dynamics"):
        control = swing(model, rows)
        start = np.tile(control.q0, (rows, 1))
        at_rest = np.zeros((rows, model.nv))
        lw.rollout(model, start, at_rest, control.torque, dt=DT, steps=1)
    steps = max(RECORD_EVERY, round(duration / DT) // RECORD_EVERY * RECORD_EVERY)
    started = time.perf_counter()
    with working("simulating"):
        motion = lw.rollout(
            model, start, at_rest, control.torque, dt=DT, steps=steps, record_every=RECORD_EVERY
        )
    seconds = time.perf_counter() - started
    t = DT * RECORD_EVERY * np.arange(motion.q.shape[1])
    residual = float(np.max(lw.close_loops(model, motion.q)[1]))
    finished = int((motion.status == lw.Status.OK).sum())
    targets = np.array([control.target(float(at))[0] for at in t]).swapaxes(0, 1)
    errors = np.abs(targets - lw.difference(model, np.broadcast_to(control.q0, motion.q.shape), motion.q))
    print(f"  {rows * steps} steps in {seconds:.1f} s: {rows * steps / seconds:.3g} steps/s, "
          f"{rows * duration / seconds:.3g} times real time")  # fmt: skip
    print(f"  {finished} of {rows} took all steps; largest loop residual {residual:.1e}")
    print(
        f"  largest tracking error {np.nanmax(errors):.2f} rad, with amplitudes up to "
        f"{np.abs(targets).max():.2f} rad"
    )
    checks += [finished == rows, residual < CLOSURE_TOL]
    q = motion.q[0]
    v = motion.v[0]
    subset = Swing(model, control.q0, control.amplitude[:1], control.frequency[:1], control.inertia)
    tau = np.array([subset.torque(q[None, k], v[None, k], float(at))[0] for k, at in enumerate(t)])
    return t, q, v, tau


def _show_torques(
    paint: Paint,
    model: lw.Model,
    t: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    checks: list[bool],
) -> None:
    """Print the torques of the first motion, exact and with approximated rotors."""
    _title(
        paint,
        "Torques of the first robot, and errors of approximated rotors: lw.compare_approximations",
    )
    with working("compiling the models without rotors"):
        a = lw.forward_dynamics(model, q, v, tau)
        again = lw.inverse_dynamics(model, q, v, a)
        compared = lw.compare_approximations(model, {"t": t, "q": q, "v": v, "a": a})
    error = float(np.abs(again - tau).max() / np.abs(tau).max())
    print("\n".join(f"  {line}" for line in compared.table().splitlines()))
    print(f"\n  inverse dynamics of forward dynamics: relative error {error:.1e}")
    checks.append(error < TORQUE_TOL)


def _show_balance(
    paint: Paint, model: lw.Model, rows: int, duration: float, checks: list[bool]
) -> BalanceResult:
    """Simulate robots that stand under PD control, every second one pushed."""
    _title(paint, f"{rows} robots stand on their soles for {duration:g} s, half of them pushed: "
           "lw.rollout(model, q, v, lw.PD(...), contacts=lw.Contacts(...))")  # fmt: skip
    points = len(lw.contact_candidates(model, CONTACTS))
    with working("compiling the step with contact, and simulating"):
        result = balance(model, rows, duration)
    pushed = result.push > 0.0
    steps = rows * result.steps
    median, worst = result.residuals
    print(f"  {steps} steps with {points} possible contact points in {result.seconds:.1f} s: "
          f"{steps / result.seconds:.3g} steps/s; {result.compiling:.1f} s to compile")  # fmt: skip
    print(f"  {result.up[~pushed].sum()} of {(~pushed).sum()} unperturbed robots remain standing, and "
          f"{result.up[pushed].sum()} of {pushed.sum()} that were pushed, at up to "
          f"{MAX_PUSH:g} m/s")  # fmt: skip
    print(
        "  joint angles are held and balance is passive; only soles collide, so robots that fall pass "
        "through the ground"
    )
    print(f"  largest penetration of soles {result.depth:.1e} m; residual of contact per robot: median "
          f"{median:.1e} m/s, largest {worst:.1e} m/s (robots still standing)")  # fmt: skip
    checks += [bool(result.up[~pushed].all()), result.depth < PENETRATION_TOL]
    return result
