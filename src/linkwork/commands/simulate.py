"""`linkwork simulate`: the motion of a robot from a state, alone or many at once, and what became of energy and loops."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from linkwork.commands.robot import as_json, as_velocities, configuration, joint_values, load_robot, written
from linkwork.commands.terminal import Paint, working
from linkwork.errors import ModelError
from linkwork.parts.names import plain, shown
from linkwork.view.film import checked_suffix, film

MOST_STEPS = 10_000_000
PIECES = 20  # into which a simulation is cut, so that its progress can be told


class Motion(NamedTuple):
    """t [s], (n,); q, (rows, n, nq), and v, (rows, n, nv); how each row ended; and how long it took [s]."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    status: np.ndarray
    seconds: float


def run(args: argparse.Namespace) -> int:
    """Simulate, print what became of it, write what is asked for; 0 if every row took all steps."""
    if args.film:
        checked_suffix(Path(args.film))  # before anything takes long
    model = load_robot(args)
    if not model.nv:
        raise ModelError(f"{shown(model.name)} cannot move: it has no joint that does")
    tau = as_velocities(model, joint_values(model, args.force, "--force"), "--force")
    q, v = _start(model, args)
    motion = simulate(model, q, v, tau, duration=args.duration, dt=args.dt, every=args.every, integrator=args.integrator)
    told = _summary(model, motion, tau, args)
    if args.out:
        log = {**motion._asdict(), "tau": np.broadcast_to(tau, motion.v.shape), "name": model.name, "v_names": model.v_names}
        np.savez_compressed(written(args.out), **log)
        told["out"] = args.out
    if args.film:
        file = args.robot if os.path.exists(args.robot) else None  # whose visuals are shown
        with working("drawing the film") as progress:
            told_part = partial(setattr, progress, "part")
            film(model, motion.q[0], motion.t, written(args.film), file=file, told=told_part)
        told["film"] = args.film
    if args.json:
        print(as_json(told))
    else:
        _print(told, Paint())
    return 0 if told["finished"] == args.rows else 1


def _start(model: lw.Model, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """q, (rows, nq), and v, (rows, nv): as it was asked for, and random states in all rows but the first."""
    first = configuration(model, joint_values(model, args.set, "--set"))
    v = as_velocities(model, joint_values(model, args.speed, "--speed"), "--speed")
    rng = np.random.default_rng(0)
    others = [model.random_state(rng)[0] for _ in range(args.rows - 1)]
    return np.array([first, *others]), np.tile(v, (args.rows, 1))


def simulate(
    model: lw.Model, q: np.ndarray, v: np.ndarray, tau: Any, *, duration: float, dt: float, every: float, integrator: str
) -> Motion:
    """The motion from states q, (rows, nq), and v, (rows, nv), with its progress told."""
    steps = max(1, round(duration / dt))
    if steps > MOST_STEPS:
        raise ModelError(f"{duration:g} s in steps of {dt:g} s are {steps} steps, more than {MOST_STEPS}: take a longer --dt")
    kept = max(1, min(steps, round(every / dt)))
    piece = max(kept, steps // PIECES // kept * kept)
    qs, vs, done = [q[:, None]], [v[:, None]], 0
    status = np.zeros(len(q), dtype=int)
    began = time.perf_counter()
    with working(f"simulating {shown(model.name)}") as progress:
        while done < steps:
            now = min(piece, steps - done)
            part = lw.rollout(model, qs[-1][:, -1], vs[-1][:, -1], tau, dt=dt, steps=now, every=kept, integrator=integrator)
            status = np.where(status == lw.Status.OK, part.status, status)
            if part.q.shape[1] > 1:
                qs.append(part.q[:, 1:])
                vs.append(part.v[:, 1:])
            done += now
            progress.part = done / steps
    q_all, v_all = np.concatenate(qs, axis=1), np.concatenate(vs, axis=1)
    t = dt * kept * np.arange(q_all.shape[1])
    return Motion(t, q_all, v_all, status, time.perf_counter() - began)


def _summary(model: lw.Model, motion: Motion, tau: np.ndarray, args: argparse.Namespace) -> dict[str, Any]:
    ended = [lw.Status(int(code)).name for code in motion.status]
    told: dict[str, Any] = {
        "name": model.name,
        "rows": len(motion.q),
        "finished": ended.count(lw.Status.OK.name),
        "ended": {name: ended.count(name) for name in sorted(set(ended))},
        "duration": float(motion.t[-1]),
        "states": len(motion.t),
        "seconds": motion.seconds,
        "steps_per_second": len(motion.q) * motion.t[-1] / args.dt / motion.seconds,
    }
    fine = np.isfinite(motion.q).all(axis=(1, 2))
    if fine.any() and model.nv:
        q, v = motion.q[fine], motion.v[fine]
        energy = lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q)
        told["energy"] = {"first": float(energy[0, 0]), "last": float(energy[0, -1])}
        passive = not np.any(tau) and not any(any(j.damping) or any(j.friction) for j in model.joints)
        if passive:
            told["energy"]["drift"] = float(np.abs(energy - energy[:, :1]).max())
        if model.loops:
            told["open"] = float(np.max(lw.close_loops(model, q)[1]))
    return told


def _print(told: dict[str, Any], paint: Paint) -> None:
    print(f"{paint(plain(told['name']), 'bold')}: {told['rows']} x {told['duration']:.3g} s in {told['seconds']:.2f} s, "
          f"{told['steps_per_second']:.3g} steps/s")  # fmt: skip
    good = told["finished"] == told["rows"]
    ended = ", ".join(f"{n} {name.lower().replace('_', ' ')}" for name, n in told["ended"].items())
    print(f"  ended      {paint(ended, 'green' if good else 'red')}")
    if "energy" in told:
        energy = told["energy"]
        drift = f"; it should not change, and did by at most {energy['drift']:.2g} J" if "drift" in energy else ""
        print(f"  energy     {energy['first']:.6g} J, then {energy['last']:.6g} J{drift}")
    if "open" in told:
        print(f"  loops      open by at most {told['open']:.2g}")
    for key, words in (("out", "the motion"), ("film", "the film")):
        if key in told:
            print(f"  {key:9}  {words} is in {plain(told[key])}")
