"""Derivatives of dynamics beside Pinocchio's: `python bench/derivatives.py [robot ...]`.

Both are called from Python in one process, in turns, and the best of many runs counts: one state through a bound call, 256
states in one batch on one thread, and Pinocchio's binding, which adds up to 2 µs a call. What both find is compared first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin

import linkwork as lw
import robots
from linkwork.interop.pinocchio import States

COUNT, TURNS = 256, 40
PEERS = {
    lw.inverse_dynamics_derivatives: lambda peer, data, *x: pin.computeRNEADerivatives(peer, data, *x)[:2],
    lw.forward_dynamics_derivatives: lambda peer, data, *x: pin.computeABADerivatives(peer, data, *x)[:2],
}


def pinocchio_model(robot: str) -> Any:
    """The robot in Pinocchio, with the names of joints that `robots.model` gives."""
    peer, places = pin.Model(), [0]
    kinds = {"x": pin.JointModelRX, "y": pin.JointModelRY, "z": pin.JointModelRZ, None: pin.JointModelFreeFlyer}
    model = robots.model(robot)
    for k, body in enumerate(robots.bodies(robot)):
        place = model.joints[k].place
        joint = peer.addJoint(places[body["parent"] + 1], kinds[body["axis"]](), pin.SE3(place.R, place.p), f"joint{k}")
        places.append(joint)
        inertia = pin.Inertia(body["mass"], np.array(body["com"], float), np.array(body["inertia"], float))
        peer.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    return peer


def best(call: Callable[[], Any], repeats: int) -> float:
    """Seconds of one call, the best of several turns."""
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - start) / repeats)
    return min(times)


def measure(robot: str, function: lw.ModelFunction) -> str:
    """A row of the table."""
    model, peer = robots.model(robot), pinocchio_model(robot)
    states, data, rng = States(model, peer), peer.createData(), np.random.default_rng(0)
    pairs = [model.random_state(rng) for _ in range(COUNT)]
    q, v, x = np.array([q for q, _ in pairs]), np.array([v for _, v in pairs]), rng.normal(size=(COUNT, model.nv))
    theirs = [a[0] for a in (states.q_to(q), states.v_to(v), states.v_to(x))]
    kernel = lw.compile(function, model, wait=True)
    found = kernel(q, v, x, threads=1)
    right = [states.matrix_from(np.array(m)) for m in PEERS[function](peer, data, *theirs)]
    error = max(float(np.abs(a[0] - b).max() / np.abs(b).max()) for a, b in zip(found, right))
    bound = kernel.bind(q[0], v[0], x[0])
    one, batch = best(bound, 20), best(lambda: kernel(q, v, x, threads=1, out=found), 1) / COUNT
    peers = best(lambda: PEERS[function](peer, data, *theirs), 20)
    operations = lw.count_operations(function, model)["total"]
    cells = [robot, function.__name__, operations, f"{one * 1e6:.2f}", f"{batch * 1e6:.2f}", f"{peers * 1e6:.2f}"]
    cells += [f"{peers / one:.1f}×", f"{peers / batch:.1f}×", f"{error:.0e}"]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    print("| robot | function | operations | one state, µs | batch, µs a state | Pinocchio, µs | one | batch | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for robot in sys.argv[1:] or ("iiwa14", "solo12", "g1", "talos"):
        for function in PEERS:
            print(measure(robot, function), flush=True)


if __name__ == "__main__":
    main()
