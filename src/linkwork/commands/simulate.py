"""`linkwork simulate`: the motion of a robot from a state, alone or many at once, and what became of energy and loops."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.commands.robot import as_json, as_velocities, configuration, joint_values, load_robot, written
from linkwork.commands.terminal import Paint, working
from linkwork.errors import ModelError
from linkwork.parts.names import plain, shown
from linkwork.simulate.simulation import simulate
from linkwork.view.film import checked_suffix, film


def run(args: argparse.Namespace) -> int:
    """Simulate, print what became of it, write what is asked for; 0 if every row took all steps."""
    if args.film:
        checked_suffix(Path(args.film))  # before anything takes long
    model = load_robot(args)
    if not model.nv:
        raise ModelError(f"{shown(model.name)} cannot move: it has no joint that does")
    tau = as_velocities(model, joint_values(model, args.force, "--force"), "--force")
    q, v = _start(model, args)
    began = time.perf_counter()
    log = _simulated(model, q, v, tau, args)
    told = _summary(model, log, tau, time.perf_counter() - began)
    if args.out:
        log.save(written(args.out))
        told["out"] = args.out
    if args.film:
        file = args.robot if os.path.exists(args.robot) else None  # whose visuals are shown
        with working("drawing the film") as progress:
            told_part = partial(setattr, progress, "part")
            film(model, log.q[0], log.t, written(args.film), file=file, told=told_part)
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


def _simulated(model: lw.Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray, args: argparse.Namespace) -> lw.Log:
    """The motion from states q, (rows, nq), and v, (rows, nv)."""
    steps = max(1, round(args.duration / args.dt))
    kept = max(1, min(steps, round(args.every / args.dt)))
    contacts = lw.Contacts() if args.contact else None
    integrator = args.integrator or ("semi_implicit_euler" if args.contact else "rk4")
    return simulate(model, q, v, steps * args.dt, tau, dt=args.dt, every=kept, integrator=integrator, contacts=contacts)


def _summary(model: lw.Model, log: lw.Log, tau: np.ndarray, seconds: float) -> dict[str, Any]:
    assert log.status is not None and log.steps is not None and log.v is not None
    ended = [lw.Status(int(code)).name for code in log.status]
    told: dict[str, Any] = {
        "name": model.name,
        "rows": len(log.q),
        "finished": ended.count(lw.Status.OK.name),
        "ended": {name: ended.count(name) for name in sorted(set(ended))},
        "duration": float(log.t[-1]),
        "states": len(log.t),
        "seconds": seconds,
        "steps_per_second": float(log.steps.sum()) / seconds,
    }
    fine = np.isfinite(log.q).all(axis=(1, 2))
    if fine.any():
        q, v = log.q[fine], log.v[fine]
        energy = lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q)
        told["energy"] = {"first": float(energy[0, 0]), "last": float(energy[0, -1])}
        passive = log.forces is None and not np.any(tau) and not any(any(j.damping) or any(j.friction) for j in model.joints)
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
    for name in told["ended"]:
        if advice := lw.Status[name].advice:
            print(f"             {name.lower().replace('_', ' ')}: {advice}")
    if "energy" in told:
        energy = told["energy"]
        drift = f"; it should not change, and did by at most {energy['drift']:.2g} J" if "drift" in energy else ""
        print(f"  energy     {energy['first']:.6g} J, then {energy['last']:.6g} J{drift}")
    if "open" in told:
        print(f"  loops      open by at most {told['open']:.2g}")
    for key, words in (("out", "the motion"), ("film", "the film")):
        if key in told:
            print(f"  {key:9}  {words} is in {plain(told[key])}")
