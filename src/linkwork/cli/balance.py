"""Standing part of `linkwork demo`: bipeds under PD control at their motors, some of them pushed.

Four balls under each sole touch the ground, with rigid contact and friction; nothing else of the robot does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import linkwork as lw

DT = 2e-3
RECORD_EVERY = 10
# natural frequency [rad/s] and damping ratio of PD control, with the inertia that each motor drives
PD_FREQUENCY = 120.0
PD_DAMPING = 0.25
STANCE = {
    "hip-rotor-1": -0.5617,
    "hip-rotor-2": -0.5617,
    "knee-ankle-rotor-1": 4.3881,
    "knee-ankle-rotor-2": 1.6119,
}  # [rad]
MAX_PUSH = 0.4  # largest initial speed of a torso [m/s]
MIN_HEIGHT_RATIO = 0.9  # of a standing torso, relative to its initial height
CONTACTS = lw.Contacts(friction=0.8, iterations=60, tolerance=1e-5)


@dataclass(frozen=True)
class BalanceResult:
    """Results of bipeds standing on the ground, arrays of shape (rows, ...).

    `t` are the recorded times [s], (n,); `push` the initial speed of each torso [m/s]; `up` which robots
    still stand at the end; `depth` the largest penetration of their soles [m]; `residual` the largest
    residual of contact in any step of each row [m/s]; `compiling` and `seconds` durations [s].
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
    def residuals(self) -> tuple[float, float]:
        """Residuals of the robots that stand [m/s]: the median and the largest."""
        result = self.residual[self.up] if self.up.any() else np.full(1, np.inf)
        return float(np.median(result)), float(result.max())

    @property
    def film_row(self) -> int:
        """The row shown in the film: the hardest pushed of those that returned to their place."""
        back = self.up & (np.abs(self.q[:, -1, :2] - self.q[:, 0, :2]).max(axis=1) < 0.02)
        return int(np.argmax(np.where(back, self.push, -1.0)))


def stance(model: lw.Model) -> np.ndarray:
    """Return a configuration with bent knees and soles level on the ground, (nq,)."""
    angles = np.array(
        [next((x for end, x in STANCE.items() if name.endswith(end)), 0.0) for name in model.v_names]
    )
    q: np.ndarray = lw.integrate(model, model.neutral(), angles)
    q[2] -= lw.contact_points(model, q, contacts=CONTACTS)[0].min()
    return q


def pushes(model: lw.Model, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return velocities, (rows, nv), and speeds of the torso [m/s], (rows,).

    Every second robot is pushed, in a random horizontal direction.
    """
    rng = np.random.default_rng(0)
    push = np.where(np.arange(rows) % 2 == 1, MAX_PUSH * rng.uniform(0.0, 1.0, rows), 0.0)
    towards = rng.uniform(0.0, 2.0 * np.pi, rows)
    v = np.zeros((rows, model.nv))
    v[:, 3] = push * np.cos(towards)
    v[:, 4] = push * np.sin(towards)
    return v, push


def balance(model: lw.Model, rows: int, duration: float) -> BalanceResult:
    """Simulate `rows` standing bipeds for `duration` [s]."""
    started = time.perf_counter()
    q0 = stance(model)
    inertia = lw.mass_matrix(model, q0).diagonal() * (
        np.arange(model.nv) >= 6
    )  # motors only: the torso is free
    control = lw.PD(PD_FREQUENCY * PD_FREQUENCY * inertia, 2.0 * PD_DAMPING * PD_FREQUENCY * inertia, q0)
    v, push = pushes(model, rows)
    start = np.tile(q0, (rows, 1))
    steps = max(RECORD_EVERY, round(duration / DT) // RECORD_EVERY * RECORD_EVERY)
    lw.rollout(model, start, v, control, dt=DT, steps=1, contacts=CONTACTS)
    compiled = time.perf_counter()
    motion = lw.rollout(
        model, start, v, control, dt=DT, steps=steps, record_every=RECORD_EVERY, contacts=CONTACTS
    )
    ended = time.perf_counter()
    up = motion.q[:, -1, 2] > MIN_HEIGHT_RATIO * q0[2]
    depth = -lw.contact_points(model, motion.q[up], contacts=CONTACTS)[0].min(initial=0.0)
    t = DT * RECORD_EVERY * np.arange(motion.q.shape[1])
    return BalanceResult(
        t, motion.q, push, up, float(depth), motion.residual, steps, compiled - started, ended - compiled
    )
