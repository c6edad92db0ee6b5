"""Compare rollouts on one core with `mujoco.rollout` and with linkwork's forward dynamics.

    python bench/rollouts.py [iiwa14 g1 ...]

Both take the same steps from the same states in float64 without contacts, constraints and forces, by
semi-implicit Euler. linkwork moves a free base along a screw, MuJoCo rotates and translates it separately: after
one step q differs by about dt². All programs alternate; the best CPU time of several turns counts, with one
thread each. linkwork records the last state only; `mujoco.rollout` always records all.
"""

from __future__ import annotations

import os

os.environ["LINKWORK_THREADS"] = "1"

import sys
import time
from collections.abc import Callable
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np

import linkwork as lw
import robots
from linkwork.simulation.control import force_control
from linkwork.simulation.one_kernel import kernel_for
from peers import models

WORLDS = 512
STEPS = 200
DT = 1e-4
TURNS = 7


def seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def measured(robot: str) -> str:
    """Return a line of the table: steps per second of both, their quotient, and a step in units of forward
    dynamics.
    """
    model, peer = robots.model(robot), models.mujoco_model(robot)
    peer.opt.timestep, data = DT, mujoco.MjData(peer)
    states = models.states(robot, WORLDS)
    q, v = (np.array([s[k] for s in states]) for k in (0, 1))
    v *= 0.1
    theirs = [models.to_peer(robot, (s[0], 0.1 * s[1], s[2], s[3]), "mujoco") for s in states]
    start = np.array([np.concatenate([[0.0], s[0], s[1]]) for s in theirs])
    state = np.empty((WORLDS, STEPS, start.shape[1]))
    tau = np.zeros(model.nv)
    forward = lw.compile(lw.forward_dynamics, model).wait()
    forces = np.zeros((WORLDS, model.nv))
    out = np.empty((WORLDS, model.nv))

    def ours() -> Any:
        return lw.rollout(
            model, q, v, tau, dt=DT, steps=STEPS, record_every=STEPS, limits=False, friction=False
        )

    def their() -> Any:
        return mujoco.rollout.rollout(peer, data, start, nstep=STEPS, state=state, skip_checks=False)

    def alone() -> None:
        for _ in range(STEPS):
            forward(q, v, forces, out=out)

    found = ours()
    kernel_for(model, force_control(model), "semi_implicit_euler", (), target="cpu", dtype="float64").wait()
    their()
    first = lw.rollout(model, q, v, tau, dt=DT, steps=1, limits=False, friction=False).q[:, 1]
    again = np.array([models.to_peer(robot, (x, y, y, y), "mujoco")[0] for x, y in zip(first, v)])
    error = np.abs(again - state[:, 0, 1 : 1 + model.nq]).max()
    assert error < 1e-6 and found.status.max() == 0, error
    times = [[seconds(f) for f in (ours, their, alone)] for _ in range(TURNS)]
    a, b, c = np.min(times, axis=0) / (WORLDS * STEPS)
    return f"| {robot} | {1e-3 / a:,.0f} | {1e-3 / b:,.0f} | {b / a:.1f} | {a / c:.3f} | {error:.0e} |"


def main() -> None:
    print("| | our steps, thousand/s | mujoco.rollout | times | in forward dynamics | q after one step |")
    print("| --- | --- | --- | --- | --- | --- |")
    for robot in sys.argv[1:] or ["iiwa14", "solo12", "g1", "talos"]:
        print(measured(robot), flush=True)


if __name__ == "__main__":
    main()
