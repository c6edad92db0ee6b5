"""`linkwork demo`: a biped with parallel ankles and exact rotors, from its diagnosis to a film.

Everything that is computed here is ordinary use of the package: 1024 of these robots hang by the torso in a
gantry and swing their legs under joint control, each in its own way; torques are compared with those of
models that approximate rotors; then some stand on the ground, and are pushed (`balance`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import linkwork as lw
from linkwork.cli.balance import CONTACTS, PUSH, Stood, balance
from linkwork.cli.bench import measured, speed_table
from linkwork.cli.info import print_diagnosis
from linkwork.cli.measure import machine
from linkwork.cli.robot import make_folder
from linkwork.cli.terminal import Paint, working
from linkwork.mechanism.names import plain
from linkwork.visualization.film import film

ROWS = 1024
DURATION = 1.0
DT = 2e-3
EVERY = 10
# so many, and so long [s]: a step with contact costs more
STANDING = 256
STAND = 1.5
STIFF = 25.0  # natural frequency of the joint control [rad/s]
# largest residual of a loop [m or rad], and largest error of a torque relative to the largest
CLOSED = 1e-9
SAME = 1e-8
DEEP = 1e-4  # that a sole may be in the ground [m]


@dataclass(frozen=True)
class Swing:
    """Where joints shall be: sines around q0 with amplitudes, (rows, nv) [rad or m], and frequencies, (rows,
    1) [rad/s].
    """

    model: lw.Model
    q0: np.ndarray
    amplitude: np.ndarray
    frequency: np.ndarray
    inertia: np.ndarray

    def wanted(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """How far from q0, and how fast, both (rows, nv), at a time [s]; it begins at rest."""
        phase = self.frequency * t
        return self.amplitude * (1.0 - np.cos(phase)), self.amplitude * self.frequency * np.sin(phase)

    def torque(self, q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        """Joint control: gravity is compensated, and each error is a spring and a damper, (rows, nv)."""
        where, fast = self.wanted(t)
        off = where - lw.difference(self.model, np.broadcast_to(self.q0, q.shape), q)
        control = STIFF * STIFF * off + 2.0 * STIFF * (fast - v)
        tau: np.ndarray = lw.gravity_force(self.model, q) + self.inertia * control
        return tau


def swing(model: lw.Model, rows: int) -> Swing:
    """Swings of a model whose first joint is free and stays where it is, as in a gantry."""
    rng = np.random.default_rng(0)
    q0 = model.neutral()
    legs = np.array([name.partition(".")[0] != model.joints[0].name for name in model.v_names])
    fast = np.array([_gear(model, name) for name in model.v_names])
    amplitude = np.where(legs, fast * rng.uniform(-0.12, 0.12, (rows, model.nv)), 0.0)
    frequency = 2.0 * np.pi * rng.uniform(0.8, 1.4, (rows, 1))
    return Swing(model, q0, amplitude, frequency, lw.mass_matrix(model, q0).diagonal())


def _gear(model: lw.Model, name: str) -> float:
    """How much faster a rotor turns than the links that it moves; 1 for a joint of a link."""
    unit = np.array([float(name == other) for other in model.v_names])
    rates = np.abs(lw.spanning_velocity(model, model.neutral(), unit))
    others = max(rates[j.v_slice].max(initial=0.0) for j in model.joints if name not in j.v_names)
    return 1.0 / others if 0.0 < others < 1.0 else 1.0


def run(
    folder: Path, *, rows: int = ROWS, duration: float = DURATION, standing: int = STANDING, turns: int = 2
) -> int:
    """Run the demo, write the film and the motion into a folder; 0 if everything held."""
    paint = Paint()
    print(machine())
    _title(paint, "A biped with parallel ankles and exact rotors: model = lw.robots.tello()")
    model = lw.robots.tello()
    with working("counting operations"):
        result = lw.diagnose(model)
    print_diagnosis(result, paint)
    held = [result.sound]
    t, q, v, tau = _show_swings(paint, model, rows, duration, held)
    _show_torques(paint, model, t, q, v, tau, held)
    stood = _show_balance(paint, model, standing, STAND * duration / DURATION, held)
    _title(paint, "Speed on one core, here and now")
    print("\n".join(f"  {line}" for line in speed_table(measured(model, turns=turns))))
    make_folder(folder)
    with working("drawing the films") as progress:
        moving = film(
            model, q, t, folder / "biped.gif", told=lambda part: setattr(progress, "part", part / 2)
        )
        pushed = stood.q[stood.shown]
        still = film(
            model,
            pushed,
            stood.t,
            folder / "standing.gif",
            told=lambda part: setattr(progress, "part", 0.5 + part / 2),
        )
    np.savez_compressed(folder / "biped.npz", t=t, q=q, v=v, tau=tau)
    np.savez_compressed(folder / "standing.npz", t=stood.t, q=pushed)
    _title(paint, "To look at")
    print(f"  {plain(moving)}: the first of those that swing, as a film")
    print(f"  {plain(still)}: one that was pushed with {stood.push[stood.shown]:.2f} m/s, and stands")
    print(
        f"  linkwork view tello --log {plain(folder / 'biped.npz')}: the same in the browser (pip install 'linkwork[view]')"
    )
    good = all(held)
    print(
        f"\n{paint('Everything held.', 'green') if good else paint('SOMETHING DID NOT HOLD: please report this.', 'red')}"
    )
    return 0 if good else 1


def _title(paint: Paint, text: str) -> None:
    print(f"\n{paint(text, 'bold')}\n")


def _show_swings(
    paint: Paint, model: lw.Model, rows: int, duration: float, held: list[bool]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Swing all; return t, q, v and tau of the first, (n, ...)."""
    _title(
        paint,
        f"{rows} of them swing for {duration:g} s under joint control: lw.rollout(model, q, v, control, dt={DT:g})",
    )
    with working("compiling the dynamics"):
        control = swing(model, rows)
        start = np.tile(control.q0, (rows, 1))
        still = np.zeros((rows, model.nv))
        lw.rollout(model, start, still, control.torque, dt=DT, steps=1)
    steps = max(EVERY, round(duration / DT) // EVERY * EVERY)
    began = time.perf_counter()
    with working("simulating"):
        motion = lw.rollout(model, start, still, control.torque, dt=DT, steps=steps, record_every=EVERY)
    seconds = time.perf_counter() - began
    t = DT * EVERY * np.arange(motion.q.shape[1])
    residual = float(np.max(lw.close_loops(model, motion.q)[1]))
    ended = int((motion.status == lw.Status.OK).sum())
    where = np.array([control.wanted(float(at))[0] for at in t]).swapaxes(0, 1)
    off = np.abs(where - lw.difference(model, np.broadcast_to(control.q0, motion.q.shape), motion.q))
    print(f"  {rows * steps} steps in {seconds:.1f} s: {rows * steps / seconds:.3g} a second, "
          f"{rows * duration / seconds:.3g} times real time")  # fmt: skip
    print(f"  {ended} of {rows} took all steps; loops are open by at most {residual:.1e}")
    print(f"  joints follow their sines within {np.nanmax(off):.2f} rad, of {np.abs(where).max():.2f}")
    held += [ended == rows, residual < CLOSED]
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
    held: list[bool],
) -> None:
    """What the motion of the first needs, exactly and by approximations of rotors."""
    _title(
        paint,
        "Torques of the first, and what approximations of its rotors make of them: lw.compare_approximations",
    )
    with working("compiling the models without rotors"):
        a = lw.forward_dynamics(model, q, v, tau)
        again = lw.inverse_dynamics(model, q, v, a)
        compared = lw.compare_approximations(model, {"t": t, "q": q, "v": v, "a": a})
    error = float(np.abs(again - tau).max() / np.abs(tau).max())
    print("\n".join(f"  {line}" for line in compared.table().splitlines()))
    print(f"\n  inverse dynamics undoes forward dynamics to {error:.1e} of the largest torque")
    held.append(error < SAME)


def _show_balance(paint: Paint, model: lw.Model, rows: int, duration: float, held: list[bool]) -> Stood:
    """Let some stand on the ground under PD control, and push every second one."""
    _title(paint, f"{rows} of them stand on their soles for {duration:g} s, pushed or not: "
           "lw.rollout(model, q, v, lw.PD(...), contacts=lw.Contacts(...))")  # fmt: skip
    points = len(lw.contact_candidates(model, CONTACTS))
    with working("compiling the step with contact, and simulating"):
        stood = balance(model, rows, duration)
    pushed = stood.push > 0.0
    done = rows * stood.steps
    usual, worst = stood.missed
    print(f"  {done} steps with {points} points that may touch in {stood.seconds:.1f} s: {done / stood.seconds:.3g} a second; "
          f"{stood.compiling:.1f} s to compile")  # fmt: skip
    print(f"  {stood.up[~pushed].sum()} of {(~pushed).sum()} that nobody pushed stand; {stood.up[pushed].sum()} of "
          f"{pushed.sum()} that were pushed, with up to {PUSH:g} m/s in any direction, are still up")  # fmt: skip
    print("  they are fewer because a step with contact costs more than one in the air")
    print(
        "  motors hold their angles and nothing else balances; only soles touch: one that falls passes through the ground"
    )
    print(f"  of those that are up, soles are in the ground by at most {stood.depth:.1e} m, and contact is solved to "
          f"{usual:.1e} m/s (median of their worst steps; {worst:.1e} at worst)")  # fmt: skip
    held += [bool(stood.up[~pushed].all()), stood.depth < DEEP]
    return stood
