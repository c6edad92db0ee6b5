"""Times of the peers through their Python modules, one state per call: part of `python bench/peers`.

All algorithms alternate; the best of many passes over all states counts, without the time of the empty loop.
Models, data and arrays are preallocated. Each algorithm is timed in all variants that the peer offers.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from peers import models

Call = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]


def pinocchio_calls(robot: str) -> dict[str, Call]:
    """Return Pinocchio's functions of q, v, a and tau, by algorithm and variant."""
    import pinocchio as pin

    model = models.pinocchio_model(robot)
    data = model.createData()
    rnea = pin.rnea
    crba = pin.crba
    aba = pin.aba
    local = pin.Convention.LOCAL
    world = pin.Convention.WORLD
    calls: dict[str, Call] = {
        "inverse dynamics/rnea": lambda q, v, a, tau: rnea(model, data, q, v, a),
        "full mass matrix/crba, local": lambda q, v, a, tau: crba(model, data, q, local),
        "full mass matrix/crba, world": lambda q, v, a, tau: crba(model, data, q, world),
        "forward dynamics/aba, local": lambda q, v, a, tau: aba(model, data, q, v, tau, local),
        "forward dynamics/aba, world": lambda q, v, a, tau: aba(model, data, q, v, tau, world),
    }
    # From Python, crba always gives the full matrix.
    return calls | {"mass matrix/crba": calls["full mass matrix/crba, local"]}


def mujoco_calls(robot: str) -> dict[str, Call]:
    """Return MuJoCo's functions of q, v, a and tau, by algorithm and variant: single stages or the whole
    pipeline.
    """
    import mujoco

    m = models.mujoco_model(robot)
    d = mujoco.MjData(m)
    qpos = d.qpos
    qvel = d.qvel
    qacc = d.qacc
    applied = d.qfrc_applied
    bias = d.qfrc_bias
    kinematics = mujoco.mj_kinematics
    com_pos = mujoco.mj_comPos
    com_vel = mujoco.mj_comVel
    rne = mujoco.mj_rne
    crb = mujoco.mj_crb
    factor = mujoco.mj_factorM
    solve = mujoco.mj_solveM
    full = mujoco.mj_fullM
    result, M = np.zeros(m.nv), np.zeros((m.nv, m.nv))
    # the solver wants rows
    row = np.zeros((1, m.nv))
    subtract = np.subtract
    flat = row[0]

    def inverse(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> Any:
        qpos[:], qvel[:], qacc[:] = q, v, a
        kinematics(m, d)
        com_pos(m, d)
        com_vel(m, d)
        rne(m, d, 1, result)
        return result

    def inverse_whole(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> Any:
        qpos[:], qvel[:], qacc[:] = q, v, a
        mujoco.mj_inverse(m, d)
        return d.qfrc_inverse

    def mass(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> None:
        qpos[:] = q
        kinematics(m, d)
        com_pos(m, d)
        crb(m, d)

    def mass_full(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> Any:
        mass(q, v, a, tau)
        full(m, d, M)
        return M

    def forward(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> Any:
        qpos[:], qvel[:] = q, v
        kinematics(m, d)
        com_pos(m, d)
        crb(m, d)
        factor(m, d)
        com_vel(m, d)
        rne(m, d, 0, bias)
        subtract(tau, bias, out=flat)
        solve(m, d, row, row)
        return flat

    def forward_whole(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> Any:
        qpos[:], qvel[:], applied[:] = q, v, tau
        mujoco.mj_forward(m, d)
        return qacc

    return {
        "inverse dynamics/stages": inverse,
        "inverse dynamics/mj_inverse": inverse_whole,
        "mass matrix/mj_crb": mass,
        "full mass matrix/mj_crb": mass_full,
        "forward dynamics/stages": forward,
        "forward dynamics/mj_forward": forward_whole,
    }


PEERS: dict[str, tuple[str, Callable[[str], dict[str, Call]]]] = {
    "Pinocchio, Python": ("pinocchio", pinocchio_calls),
    "MuJoCo, Python": ("mujoco", mujoco_calls),
}


def walk(call: Call, states: list[models.State]) -> float:
    """Return the time of calls on all states [s]."""
    start = time.perf_counter()
    for q, v, a, tau in states:
        call(q, v, a, tau)
    return time.perf_counter() - start


def python_times(robot: str, turns: int = 60) -> dict[str, dict[str, float]]:
    """Return the best ns per call by peer and by algorithm and variant, for installed peers."""
    calls: dict[tuple[str, str], tuple[Call, list[models.State]]] = {}
    for name, (module, make) in PEERS.items():
        if importlib.util.find_spec(module) is not None:
            states = [models.to_peer(robot, s, module) for s in models.states(robot)]
            calls.update({(name, variant): (call, states) for variant, call in make(robot).items()})
    calls["", "nothing"] = (lambda q, v, a, tau: None, models.states(robot))
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for key, (call, states) in calls.items():
            best[key] = min(best[key], walk(call, states))
    nothing = best.pop(("", "nothing"))
    out: dict[str, dict[str, float]] = {}
    for (name, variant), seconds in best.items():
        out.setdefault(name, {})[variant] = 1e9 * (seconds - nothing) / models.COUNT
    return out


def fastest(times: dict[str, float]) -> dict[str, float]:
    """Return the time of the fastest variant by algorithm."""
    out: dict[str, float] = {}
    for name, ns in times.items():
        algorithm = name.split("/")[0]
        out[algorithm] = min(out.get(algorithm, ns), ns)
    return out
