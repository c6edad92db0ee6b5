"""The same mechanisms in Pinocchio: times of its methods for loops, called from Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import spanning_acceleration, spanning_velocity
from linkwork.algorithms.tree.forward_dynamics import articulated_body
from linkwork.cli.measure import states
from linkwork.interop.pinocchio import States
from linkwork.interop.pinocchio_model import pinocchio, pinocchio_tree
from linkwork.joints import Revolute
from linkwork.mechanism.loops import Loop
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from papers.kkt import constraints

RIGHT = 1e-6  # largest relative error of a result that counts
SETTINGS = (1e-10, 1e-6, 10)  # accuracy, damping and most iterations of its proximal methods


def pinocchio_times(model: Model, turns: int) -> dict[str, float]:
    """Return ns of forward dynamics of one state for each correct method of Pinocchio.

    "aba" for trees; "constraintDynamics" and "lcaba" where all loops are hinges, which become points that
    coincide; else "forwardDynamics" with the constraints' Jacobian and drift, whose making is not timed.
    """
    pin = pinocchio()
    if pin is None or not turns:
        return {}
    tree = replace(model, embedded=(), kernels={})
    try:
        there = pinocchio_tree(pin, tree)
    except ValueError:
        return {}
    same = States(tree, there)
    some = states(model)
    moving = [_exact(model, *row) for row in zip(*some.values())]
    v = np.array([v for v, _ in moving])
    a = same.v_to(np.array([a for _, a in moving]))
    tau = np.zeros_like(v)
    tau[:, _independent(model)] = some["tau"]
    rows = list(zip(same.q_to(some["q"]), same.v_to(v), same.tau_to(tau)))
    found = {}
    for name, call in _calls(pin, model, there, same, some["q"], v).items():
        worst = max(np.abs(call(k, *row) - a[k]).max() for k, row in enumerate(rows))
        if worst < RIGHT * max(1.0, np.abs(a).max()):
            found[name] = _best(call, rows, turns)
    return found


def _exact(model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return velocities and accelerations of all joints in a state, computed in Python to avoid compilation."""
    nodes = tree(model, q, v)
    return spanning_velocity(nodes).astype(float), spanning_acceleration(
        nodes, articulated_body(nodes, tau)
    ).astype(float)


def _calls(
    pin: Any, model: Model, there: Any, same: States, q: np.ndarray, v: np.ndarray
) -> dict[str, Callable[..., Any]]:
    data = there.createData()
    if not model.embedded:
        return {"aba": lambda k, q, v, tau: pin.aba(there, data, q, v, tau)}
    loops = [c for c in model.embedded if isinstance(c, Loop) and isinstance(c.kind, Revolute)]
    if len(loops) == len(model.embedded):
        points = pin.StdVec_RigidConstraintModel()
        for loop in loops:
            ends: list[Any] = []
            for end in (loop.predecessor, loop.successor):
                ends += [end.body + 1, pin.SE3(np.array(end.place.R, float), np.array(end.place.p, float))]
            points.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, there, *ends))
        solvers = proximal_solvers(pin, there, points, pin.ProximalSettings(*SETTINGS))
        return {name: lambda k, *row, call=call: call(*row) for name, call in solvers.items()}  # type: ignore[misc]
    known = []
    for x, y in zip(q, v):
        K, k = constraints(model, x, y)
        known.append((np.asfortranarray(same.v_to(K.astype(float))), -k.astype(float)))
    return {"forwardDynamics": lambda k, q, v, tau: pin.forwardDynamics(there, data, q, v, tau, *known[k])}


def proximal_solvers(pin: Any, model: Any, rigid: Any, settings: Any) -> dict[str, Callable[..., Any]]:
    """Return calls (q, v, tau) of Pinocchio's proximal methods under rigid constraints, by name, each with
    its own data.
    """
    held = [pin.StdVec_RigidConstraintData() for _ in range(2)]
    for own in held:
        own.extend([constraint.createData() for constraint in rigid])
    data, other = model.createData(), model.createData()
    try:
        pin.initConstraintDynamics(model, data, rigid, held[0])
    except TypeError:  # before version 4
        pin.initConstraintDynamics(model, data, rigid)
    made = {
        "constraintDynamics": lambda q, v, tau: pin.constraintDynamics(
            model, data, q, v, tau, rigid, held[0], settings
        )
    }
    if hasattr(pin, "lcaba"):
        pin.computeJointMinimalOrdering(model, other, rigid)
        made["lcaba"] = lambda q, v, tau: pin.lcaba(model, other, q, v, tau, rigid, held[1], settings)
    return made


def _independent(model: Model) -> list[int]:
    found: list[int] = []
    for cluster in model.clusters:
        columns = [c for k in cluster.bodies for c in range(model.nv_spanning)[model.joints[k].v_slice]]
        found += [columns[c] for c in cluster.independent]
    return found


def _best(call: Callable[..., Any], rows: list[Any], turns: int) -> float:
    """Return ns of a call, the best of many passes over all states."""
    best = float("inf")
    for _ in range(4 * turns):
        start = time.perf_counter()
        for _ in range(5):
            for k, (q, v, tau) in enumerate(rows):
                call(k, q, v, tau)
        best = min(best, 1e9 * (time.perf_counter() - start) / (5 * len(rows)))
    return best
