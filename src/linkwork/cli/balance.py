"""The part of `linkwork demo` that stands on the ground: bipeds under PD control at their motors, some of
them pushed.

Four balls under each sole touch the ground, with rigid contact and friction; nothing else of the robot does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import linkwork as lw

DT = 2e-3
EVERY = 10
# natural frequency [rad/s] and damping ratio of PD control, on the inertia that each motor feels
STIFF = 120.0
DAMPED = 0.25
BENT = {
    "hip-rotor-1": -0.5617,
    "hip-rotor-2": -0.5617,
    "knee-ankle-rotor-1": 4.3881,
    "knee-ankle-rotor-2": 1.6119,
}  # [rad]
PUSH = 0.4  # fastest that the torso is pushed [m/s]
FALLEN = 0.9  # of its height at the start: a torso below that has fallen
CONTACTS = lw.Contacts(friction=0.8, iterations=60, tolerance=1e-5)


@dataclass(frozen=True)
class Stood:
    """What became of bipeds on the ground, (rows, ...), looked at at times t [s], (n,), and how long it took
    [s].

    `push` is how fast each torso was pushed [m/s], `up` who still stands at the end, `depth` how deep a sole
    of those was in the ground at most [m], `residual` by how much a law of contact was missed in the worst
    step of each [m/s].
    """

    t: np.ndarray
    q: np.ndarray
    push: np.ndarray
    up: np.ndarray
    depth: float
    residual: np.ndarray
    steps: int
    compiling: float
    seconds: float

    @property
    def missed(self) -> tuple[float, float]:
        """The residual of those that are up [m/s]: the median of all, and the worst."""
        result = self.residual[self.up] if self.up.any() else np.full(1, np.inf)
        return float(np.median(result)), float(result.max())

    @property
    def shown(self) -> int:
        """The row that a film shows: of those that are back where they were, the one that was pushed most."""
        back = self.up & (np.abs(self.q[:, -1, :2] - self.q[:, 0, :2]).max(axis=1) < 0.02)
        return int(np.argmax(np.where(back, self.push, -1.0)))


def stance(model: lw.Model) -> np.ndarray:
    """Bent knees and soles level on the ground, (nq,)."""
    turned = np.array(
        [next((x for end, x in BENT.items() if name.endswith(end)), 0.0) for name in model.v_names]
    )
    q: np.ndarray = lw.integrate(model, model.neutral(), turned)
    q[2] -= lw.contact_points(model, q, contacts=CONTACTS)[0].min()
    return q


def pushes(model: lw.Model, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocities, (rows, nv), and how fast the torso is [m/s], (rows,): every second one is pushed, in any
    direction.
    """
    rng = np.random.default_rng(0)
    push = np.where(np.arange(rows) % 2 == 1, PUSH * rng.uniform(0.0, 1.0, rows), 0.0)
    towards = rng.uniform(0.0, 2.0 * np.pi, rows)
    v = np.zeros((rows, model.nv))
    v[:, 3], v[:, 4] = push * np.cos(towards), push * np.sin(towards)
    return v, push


def balance(model: lw.Model, rows: int, duration: float) -> Stood:
    """Let so many bipeds stand on the ground for a while [s]."""
    began = time.perf_counter()
    q0 = stance(model)
    inertia = lw.mass_matrix(model, q0).diagonal() * (
        np.arange(model.nv) >= 6
    )  # motors only: nothing holds the torso
    control = lw.PD(STIFF * STIFF * inertia, 2.0 * DAMPED * STIFF * inertia, q0)
    v, push = pushes(model, rows)
    start = np.tile(q0, (rows, 1))
    steps = max(EVERY, round(duration / DT) // EVERY * EVERY)
    lw.rollout(model, start, v, control, dt=DT, steps=1, contacts=CONTACTS)
    compiled = time.perf_counter()
    motion = lw.rollout(model, start, v, control, dt=DT, steps=steps, record_every=EVERY, contacts=CONTACTS)
    ended = time.perf_counter()
    up = motion.q[:, -1, 2] > FALLEN * q0[2]
    depth = -lw.contact_points(model, motion.q[up], contacts=CONTACTS)[0].min(initial=0.0)
    t = DT * EVERY * np.arange(motion.q.shape[1])
    return Stood(
        t, motion.q, push, up, float(depth), motion.residual, steps, compiled - began, ended - compiled
    )
