"""Derivatives of dynamics beside Pinocchio's: `python bench/derivatives.py [robot or set of constraints ...]`.

Both are called from Python in one process, in turns, and the best of many runs counts: one state through a bound call, 256
states in one batch on one thread, and Pinocchio's binding, which adds up to 2 µs a call. What both find is compared first.

Sets of constraints are those of `constraint_sets`, such as "solo12 F3x4". Pinocchio's derivatives take constrained dynamics
before them, by three iterations; ours find both. Behind the table come vjp of forward dynamics beside forward dynamics.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin

import constraint_sets
import linkwork as lw
import robots
from linkwork.interop.pinocchio import States

COUNT, TURNS = 256, 40
ROBOTS, CONSTRAINED = ("iiwa14", "solo12", "g1", "talos"), ("iiwa14 H6", "solo12 F3x4", "g1 F6x2", "talos F6x2")
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
    return row(robot, function.__name__, operations, one, batch, peers, error)


def row(name: str, function: str, operations: int, one: float, batch: float, peers: float, error: float) -> str:
    """A row of the table; times in seconds."""
    cells = [name, function, operations, f"{one * 1e6:.2f}", f"{batch * 1e6:.2f}", f"{peers * 1e6:.2f}"]
    cells += [f"{peers / one:.1f}×", f"{peers / batch:.1f}×", f"{error:.0e}"]
    return f"| {' | '.join(map(str, cells))} |"


def rigid_constraints(robot: Any, constraints: constraint_sets.ConstraintSet) -> tuple[Any, Any]:
    """Constraints of bodies to the world in Pinocchio, and their data."""
    made, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for c in constraints.constraints:
        kind = pin.ContactType.CONTACT_6D if c.size == 6 else pin.ContactType.CONTACT_3D
        place = pin.SE3(np.array(c.place.R, dtype=float), np.array(c.place.p, dtype=float))
        made.append(pin.RigidConstraintModel(kind, robot, c.body + 1, place, pin.ReferenceFrame.LOCAL))
        data.append(made[-1].createData())
    return made, data


def measure_constrained(name: str) -> str:
    """A row of the table, for derivatives of constrained dynamics. Values are compared at rest."""
    chosen, function = constraint_sets.SETS[name], lw.constrained_dynamics_derivatives
    if not chosen.to_world:
        raise SystemExit(f"{name}: only constraints to the world are measured here")
    model, peer = chosen.model(), pinocchio_model(chosen.robot)
    held = [(lw.Weld if c.size == 6 else lw.Connect)(f"held{i}") for i, c in enumerate(chosen.constraints)]
    rigid, rigid_data = rigid_constraints(peer, chosen)
    states, data, rng = States(model, peer), peer.createData(), np.random.default_rng(0)
    pairs = [model.random_state(rng) for _ in range(COUNT)]
    q, v, tau = np.array([q for q, _ in pairs]), np.array([v for _, v in pairs]), rng.normal(size=(COUNT, model.nv))
    pin.initConstraintDynamics(peer, data, rigid, rigid_data)

    def theirs(v: np.ndarray, settings: Any) -> Callable[[], Any]:
        given = [a[0] for a in (states.q_to(q), states.v_to(v), states.v_to(tau))]

        def call() -> Any:
            pin.constraintDynamics(peer, data, *given, rigid, rigid_data, settings)
            return pin.computeConstraintDynamicsDerivatives(peer, data, rigid, rigid_data, settings)

        return call

    kernel = lw.compile(function, model, wait=True, constraints=held)
    found = kernel(q, 0.0 * v, tau, threads=1)
    right = [states.matrix_from(np.array(m)) for m in theirs(0.0 * v, pin.ProximalSettings(1e-14, 1e-10, 300))()[:3]]
    error = max(float(np.abs(a[0] - b).max() / (np.abs(b).max() or 1.0)) for a, b in zip(found, right))
    one, batch = best(kernel.bind(q[0], v[0], tau[0]), 20), best(lambda: kernel(q, v, tau, threads=1, out=found), 1) / COUNT
    peers = best(theirs(v, pin.ProximalSettings(0.0, 1e-6, 3)), 20)
    operations = lw.count_operations(function, model, constraints=held)["total"]
    return row(name, function.__name__, operations, one, batch, peers, error)


def measure_vjp(robot: str) -> str:
    """What a vjp of forward dynamics by q, v and tau costs, in evaluations of forward dynamics in batches."""
    model, rng = robots.model(robot), np.random.default_rng(0)
    pairs = [model.random_state(rng) for _ in range(COUNT)]
    q, v, tau = np.array([q for q, _ in pairs]), np.array([v for _, v in pairs]), rng.normal(size=(COUNT, model.nv))
    forward = lw.compile(lw.forward_dynamics, model, wait=True)
    backward = lw.compile(lw.vjp(lw.forward_dynamics, model, wrt=("q", "v", "tau")), wait=True)
    found, back = forward(q, v, tau, threads=1), backward(q, v, tau, tau, threads=1)
    once = best(lambda: forward(q, v, tau, threads=1, out=found), 1) / COUNT
    again = best(lambda: backward(q, v, tau, tau, threads=1, out=back), 1) / COUNT
    return f"{robot}: vjp of forward_dynamics {again * 1e6:.2f} µs a state in batches, {again / once:.1f} evaluations"


def main() -> None:
    print("| robot | function | operations | one state, µs | batch, µs a state | Pinocchio, µs | one | batch | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    chosen = sys.argv[1:] or [*ROBOTS, *CONSTRAINED]
    for name in chosen:
        for function in () if name in constraint_sets.SETS else PEERS:
            print(measure(name, function), flush=True)
        if name in constraint_sets.SETS:
            print(measure_constrained(name), flush=True)
    for name in chosen:
        if name not in constraint_sets.SETS:
            print(measure_vjp(name), flush=True)


if __name__ == "__main__":
    main()
