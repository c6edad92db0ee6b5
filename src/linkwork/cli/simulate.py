"""`linkwork simulate`: motion of one or many robots, with a summary of energy and loops."""

from __future__ import annotations

import argparse
import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.cli.robot import as_json, as_velocities, configuration, joint_values, load_robot, output_path
from linkwork.cli.terminal import Paint, working
from linkwork.errors import InitialPenetrationWarning, ModelError
from linkwork.joints import Free
from linkwork.mechanism import PlacedJoint
from linkwork.mechanism.names import plain, printable
from linkwork.model import GROUND
from linkwork.simulation.simulation import simulate
from linkwork.visualization.film import checked_suffix, film

LIMIT_TOL = 1e-6  # [rad or m] beyond a limit that is not reported
MAX_LIFTS = 20  # iterations to place a base on ground that is not flat
MIN_NORMAL_Z = 0.1  # lower bound of a normal's upward component: steep slopes are approached in small steps


def run(args: argparse.Namespace) -> int:
    """Simulate, print a summary and write the files; return 0 if every row took all steps."""
    if args.film:
        checked_suffix(Path(args.film))  # before anything takes long
    if args.out and Path(args.out).suffix != ".npz":
        raise ModelError(f"--out: expected a .npz file, got {printable(args.out)}")
    model = load_robot(args)
    if not model.nv:
        raise ModelError(f"{printable(model.name)} has no degrees of freedom")
    tau = as_velocities(model, joint_values(model, args.force, "--force"), "--force")
    q, v = _start(model, args)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", InitialPenetrationWarning)
        log = _simulated(model, q, v, tau, args)
    summary = _summary(model, log, tau, time.perf_counter() - began)
    summary["notes"] = [
        *_outside_limits(model, q),
        *(str(each.message).removeprefix("simulate: ") for each in warned),
    ]
    if args.out:
        log.save(output_path(args.out))
        summary["out"] = args.out
        summary["robot"] = args.robot
    if args.film:
        file = args.robot if os.path.exists(args.robot) else None  # whose visuals are shown
        with working("drawing the film") as progress:
            set_part = partial(setattr, progress, "part")
            film(model, log.q[0], log.t, output_path(args.film), file=file, progress=set_part)
        summary["film"] = args.film
    if args.json:
        print(as_json(summary))
    else:
        _print(summary, Paint())
    return 0 if summary["finished"] == args.rows else 1


def _start(model: lw.Model, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Return q, (rows, nq), and v, (rows, nv): the requested state, and random ones in all rows but the
    first.

    With contact, free bases are moved vertically until they touch the ground, unless their position is set.
    """
    first = configuration(model, joint_values(model, args.set, "--set"))
    v = as_velocities(model, joint_values(model, args.speed, "--speed"), "--speed")
    rng = np.random.default_rng(0)
    others = [model.random_state(rng)[0] for _ in range(args.rows - 1)]
    q = np.array([first, *others])
    if args.contact:
        free = [joint for joint in model.joints if isinstance(joint.kind, Free) and joint.parent == GROUND]
        initial_values = joint_values(model, args.set, "--set")
        for joint in free:
            if not {joint.name, *joint.v_names} & set(initial_values):
                _put_on_ground(model, joint, q)
    return q, np.tile(v, (args.rows, 1))


def _outside_limits(model: lw.Model, q: np.ndarray) -> list[str]:
    """Return notes on joints that start outside their limits, in any of the states q, (rows, nq)."""
    result = []
    for joint in model.joints:
        for lower, upper, x in zip(joint.lower, joint.upper, q[:, joint.q_slice].T):
            outside = (x < lower - LIMIT_TOL) | (x > upper + LIMIT_TOL)
            if outside.any():
                result.append(
                    f"{printable(joint.name)} starts at {x[outside][0]:.4g}, outside its limits {lower:.4g} "
                    f"to {upper:.4g}, and is returned slowly, which does work"
                )
    return result


def _put_on_ground(model: lw.Model, joint: PlacedJoint, q: np.ndarray) -> None:
    """Move a free base vertically until the lowest shape that it carries touches the ground.

    States q are (rows, nq).
    """
    contacts = lw.Contacts(limits=False, joint_friction=False)
    carried = [
        k for k, each in enumerate(lw.contact_candidates(model, contacts)) if _carries(model, joint, each)
    ]
    for _ in range(MAX_LIFTS if carried else 0):
        gaps, _, normals = (x[:, carried] for x in lw.contact_points(model, q, contacts=contacts))
        lowest = gaps.argmin(axis=1)[:, None]
        up = np.take_along_axis(normals[..., 2], lowest, axis=1)
        lift = -np.take_along_axis(gaps, lowest, axis=1) / np.maximum(up, MIN_NORMAL_Z)
        if not (np.isfinite(lift).all() and np.abs(lift).max() > 1e-9):
            return
        q[:, joint.q_start : joint.q_start + 3] += lift * joint.place.R[2]  # in the axes of the joint's place


def _carries(model: lw.Model, joint: PlacedJoint, candidate: lw.Candidate) -> bool:
    """Return whether a candidate is between a body of this base and the ground."""
    body = candidate.body
    while model.joints[body].parent != GROUND:
        body = model.joints[body].parent
    return candidate.other == GROUND and body == joint.child


def _simulated(
    model: lw.Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray, args: argparse.Namespace
) -> lw.Log:
    """Return the motion from states q, (rows, nq), and v, (rows, nv)."""
    steps = max(1, round(args.duration / args.dt))
    record_every = max(1, min(steps, round(args.every / args.dt)))
    contacts = lw.Contacts() if args.contact else None
    integrator = args.integrator or ("semi_implicit_euler" if args.contact else "rk4")
    return simulate(
        model,
        q,
        v,
        steps * args.dt,
        tau,
        dt=args.dt,
        record_every=record_every,
        integrator=integrator,
        contacts=contacts,
    )


def _summary(model: lw.Model, log: lw.Log, tau: np.ndarray, seconds: float) -> dict[str, Any]:
    assert log.status is not None and log.steps is not None and log.v is not None
    ended = [lw.Status(int(code)).name for code in log.status]
    summary: dict[str, Any] = {
        "name": model.name,
        "rows": len(log.q),
        "finished": ended.count(lw.Status.OK.name),
        "ended": {name: ended.count(name) for name in sorted(set(ended))},
        "duration": float(log.t[-1]),
        "states": len(log.t),
        "seconds": seconds,
        "steps_per_second": float(log.steps.sum()) / seconds,
    }
    finite = np.isfinite(log.q).all(axis=(1, 2))
    if finite.any():
        q = log.q[finite]
        v = log.v[finite]
        energy = lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q)
        summary["energy"] = {"first": float(energy[0, 0]), "last": float(energy[0, -1])}
        if log.forces is None and not np.any(tau):
            if any(any(x.damping) or any(x.friction) for x in model.joints) or any(
                x.damping or x.friction for x in model.tendons
            ):
                summary["energy"]["dissipated"] = float(energy[0, 0] - energy[0, -1])
            else:
                summary["energy"]["drift"] = float(np.abs(energy - energy[:, :1]).max())
                summary["energy"]["limits"] = any(
                    np.isfinite([*x.lower, *x.upper]).any() for x in model.joints
                )
        if model.loops:
            summary["open"] = float(np.max(lw.close_loops(model, q)[1]))
    return summary


def _print(summary: dict[str, Any], paint: Paint) -> None:
    robots = f"{summary['rows']} robots, " if summary["rows"] > 1 else ""
    motion = f"{robots}{summary['duration']:.3g} s of motion in {summary['seconds']:.2f} s"
    rate = f"{grouped(summary['steps_per_second'])} steps/s with compilation"
    print(f"{paint(plain(summary['name']), 'bold')}: {motion}, {rate}")
    all_finished = summary["finished"] == summary["rows"]
    ended = ", ".join(f"{n} {name.lower().replace('_', ' ')}" for name, n in summary["ended"].items())
    print(f"  ended      {paint(ended, 'green' if all_finished else 'red')}")
    for name in summary["ended"]:
        if advice := lw.Status[name].advice:
            print(f"             {name.lower().replace('_', ' ')}: {advice}")
    for note in summary["notes"]:
        print(f"  note       {note}")
    if "energy" in summary:
        energy = summary["energy"]
        notes = ""
        if "drift" in energy:
            unless = "unless joints reach limits" if energy["limits"] else "by this model"
            notes = f"; changed by at most {energy['drift']:.2g} J (conserved {unless})"
        elif "dissipated" in energy:
            lost = energy["dissipated"]
            notes = f"; {lost:.3g} J dissipated (damping, friction, limits)"
            notes = notes if lost >= 0.0 else f"; {-lost:.3g} J gained"
        print(f"  energy     {energy['first']:.6g} J at the start, {energy['last']:.6g} J at the end{notes}")
    if "open" in summary:
        print(f"  loops      open by at most {summary['open']:.2g} (unit-free)")
    if "out" in summary:
        print(f"  motion     {plain(summary['out'])}")
        print(f"             next: linkwork view {plain(summary['robot'])} --log {plain(summary['out'])}")
    if "film" in summary:
        print(f"  film       {plain(summary['film'])}")


def grouped(number: float) -> str:
    """Return a number rounded to three digits, with thousands separated by spaces."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}".replace(",", " ") if rounded >= 100.0 else f"{rounded:g}"
