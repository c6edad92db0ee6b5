"""Simulated somersaults of a humanoid for `linkwork demo somersaults`.

`rate` and `step` show how to compile a simulation step into one kernel: it is written once in terms of the
algorithms, traced, and compiled for this robot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.algorithms.tree.energy import kinetic_energy, momentum, potential_energy
from linkwork.algorithms.tree.forward_dynamics import articulated_body

STEPS = 400  # of the simulation
RECORDS = 25  # recorded states
SPINS = (2.0, 8.0)  # rad/s forwards at take-off: from, to
TUCKS = (0.0, 1.0)  # 0: stretched, 1: as in TUCKED
SPEED = np.array([4.4, 0.0, 3.9])  # of the centre of mass at take-off [m/s]
FLIGHT = 2 * 3.9 / 9.81  # until the centre of mass is at the same height again [s]
STRETCHED = {
    "hip_pitch": -0.1,
    "knee": 0.2,
    "ankle_pitch": -0.1,
    "shoulder_pitch": -2.7,
    "shoulder_roll": 0.15,
    "elbow": -0.3,
}
TUCKED = {"hip_pitch": -2.3, "knee": 2.3, "ankle_pitch": 0.3, "shoulder_pitch": -0.9, "elbow": -1.2,
    "waist_pitch": 0.9,
          "neck_pitch": 0.5}  # fmt: skip


def pose(model: lw.Model, **angles: float) -> np.ndarray:
    """Return the configuration with some joints bent [rad], on both sides where there are two, (nq,)."""
    q = model.neutral()
    for joint in model.joints:
        side, _, name = joint.name.partition("_")
        angle = angles.get(joint.name, angles.get(name, 0.0) if side in ("left", "right") else 0.0)
        if angle:
            q[joint.q_slice] = -angle if side == "right" and name.endswith(("roll", "yaw")) else angle
    return q


def ramp(x: Any) -> Any:
    """Return a smooth ramp from 0 at x = 0 to 1 at x = 1."""
    x = lw.minimum(lw.maximum(x, 0.0), 1.0)
    return x * x * x * (10.0 + x * (6.0 * x - 15.0))


def torques(model: lw.Model, q: Any, v: Any, t: Any, tuck: Any) -> Any:
    """Return bounded motor torques [N m], (nv,), that tuck the robot and stretch it again."""
    stretched = pose(model, **STRETCHED)
    tucked = pose(model, **TUCKED)
    folded = tuck * ramp(t / 0.25) * (1.0 - ramp((t - 0.4) / 0.3))
    tau = np.zeros(model.nv, dtype=object)
    for joint in model.joints[1:]:
        goal = stretched[joint.q_start] + folded * (tucked[joint.q_start] - stretched[joint.q_start])
        command = 4.0 * (goal - q[joint.q_start]) - 0.12 * v[joint.v_start]
        tau[joint.v_start] = joint.max_effort[0] * command / lw.sqrt(1.0 + command * command)
    return tau


def rate(model: lw.Model, t: Any, tuck: Any, q: Any, v: Any, work: Any) -> tuple[Any, ...]:
    """Return the rates of q, of v, and of the work [J] of motors and dampers."""
    tau = torques(model, q, v, t, tuck)
    moved = np.concatenate([joint.kind.rate(q[joint.q_slice], v[joint.v_slice]) for joint in model.joints])
    damping = np.concatenate([joint.damping for joint in model.joints])
    return moved, articulated_body(lw.nodes(model, q, v), tau), v @ (tau - damping * v)


@lw.model_function(q="nq", v="nv", work="", t="", tuck="", h="")
def step(model: lw.Model, q: Any, v: Any, work: Any, t: Any, tuck: Any, h: Any) -> tuple[Any, ...]:
    """Return q, v and work after a step of h [s] of the classical Runge-Kutta method, from a state at time t
    [s].
    """
    x = (q, v, work)

    def ahead(dt: Any, k: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(a + dt * b for a, b in zip(x, k))

    k1 = rate(model, t, tuck, *x)
    k2 = rate(model, t + h / 2, tuck, *ahead(h / 2, k1))
    k3 = rate(model, t + h / 2, tuck, *ahead(h / 2, k2))
    k4 = rate(model, t + h, tuck, *ahead(h, k3))
    return ahead(h / 6, tuple(a + 2 * (b + c) + d for a, b, c, d in zip(k1, k2, k3, k4)))


@lw.model_function(q="nq", v="nv")
def look(model: lw.Model, q: Any, v: Any) -> dict[str, Any]:
    """Return energies [J], momentum about the centre of mass, and forward lean of the first body [rad]."""
    nodes = lw.nodes(model, q)
    ahead = nodes.bodies[0].X.R[0, 2]
    up = nodes.bodies[0].X.R[2, 2]
    return {
        "kinetic": kinetic_energy(nodes, v),
        "potential": potential_energy(nodes),
        "momentum": momentum(nodes, v),
        "lean": lw.atan2(ahead, up),
    }


def take_off(model: lw.Model, spin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return q, (rows, nq), and v, (rows, nv), of stretched robots at take-off.

    `spin` is the angular velocity [rad/s], (rows,).
    """
    q = pose(model, **STRETCHED)
    q[2] = -lw.frame_pose(model, q, frame="left_sole")[2, 3]
    v = np.zeros((len(spin), model.nv))
    v[:, 1] = spin
    v[:, 3:6] = SPEED - np.cross(v[:, :3], lw.center_of_mass(model, q) - q[:3])
    return np.tile(q, (len(spin), 1)), v


@dataclass(frozen=True)
class Flight:
    """Recorded somersaults: t is (records,), everything else (records, rows, ...)."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    work: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    momentum: np.ndarray
    lean: np.ndarray

    @property
    def energy_error(self) -> np.ndarray:
        """Energy error [J]: change of energy not explained by work, (records, rows)."""
        energy = self.kinetic + self.potential - self.work
        return energy - energy[0]


def fly(
    model: lw.Model, spin: np.ndarray, tuck: np.ndarray, *, steps: int = STEPS, records: int = RECORDS
) -> Flight:
    """Simulate somersaults of some spin [rad/s] and tuck, both (rows,)."""
    h = FLIGHT / steps
    x = (*take_off(model, spin), np.zeros(len(spin)))
    rows = [(0.0, *x, *look(model, *x[:2]))]
    for k in range(1, steps + 1):
        x = step(model, *x, (k - 1) * h, tuck, h)
        if k % (steps // records) == 0:
            rows.append((k * h, *x, *look(model, *x[:2])))
    flight = Flight(*map(np.array, zip(*rows)))
    return replace(flight, lean=np.unwrap(flight.lean, axis=0))
