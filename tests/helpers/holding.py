"""Constraints written again without the core's: rows from poses of frames, and Gauss' principle as one dense
system.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from linkages import floats
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.constraints import Constraint, Coupled, Hold, Locked, Rolling, loop_constraints, total
from linkwork.constraints.frames import NAMES
from linkwork.model import GROUND, Model
from linkwork.spatial import skew
from mechanisms import Random

METHODS = ("caba", "pv", "pv_early", "ltl", "ltls")
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")


def close(found: Any, right: Any, tolerance: float) -> bool:
    """Whether all is right up to a part of the largest entry, or of one."""
    found = np.asarray(found, dtype=float)
    right = np.asarray(right, dtype=float)
    assert found.shape == right.shape, f"{found.shape} is not {right.shape}"
    return off(found, right) <= tolerance


def off(found: Any, right: Any) -> float:
    """The largest error, as a part of the largest entry, or of one; infinite where there is a NaN."""
    error = np.abs(np.asarray(found, dtype=float) - right).max(initial=0.0) / max(
        1.0, np.abs(right).max(initial=0.0)
    )
    return float(error) if np.isfinite(error) else np.inf


# one constraint, by hand


def held_directions(c: Any) -> tuple[np.ndarray, bool]:
    """(m, 6) on [angular velocity, velocity] of its frame against `to`, and whether they are in the axes of
    the frame.
    """
    rows = np.eye(6)
    if isinstance(c, lw.Weld):
        return rows, True
    if isinstance(c, lw.Connect):
        return rows[3:], True
    if isinstance(c, Hold):
        return rows[[NAMES.index(name) for name in c.rows]], c.axes == "frame"
    n = np.array(c.normal) / np.linalg.norm(c.normal)
    if isinstance(c, Rolling):  # the point that touches: U + W × (-radius n)
        return np.hstack([c.radius * skew(n), np.eye(3)]).astype(float), False
    assert isinstance(c, lw.OnPlane)
    return np.array([[0.0, 0.0, 0.0, *n]]), False


def rotation_vector(R: np.ndarray) -> np.ndarray:
    """The axis of a rotation times its angle, for angles that are not close to 0 or π."""
    angle = np.arccos(np.clip((np.trace(R) - 1.0) / 2.0, -1.0, 1.0))
    if angle == 0.0:
        return np.zeros(3)
    return angle / (2.0 * np.sin(angle)) * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])


def position_error(c: Any, R: np.ndarray, p: np.ndarray) -> np.ndarray:
    """How far the rows of a constraint are off where its frame is at R, p in `to`."""
    if isinstance(c, lw.Weld):
        return np.concatenate([rotation_vector(R), R.T @ p])
    if isinstance(c, lw.Connect):
        return R.T @ p
    n = np.array(getattr(c, "normal", (0.0, 0.0, 1.0))) / np.linalg.norm(
        getattr(c, "normal", (0.0, 0.0, 1.0))
    )
    if isinstance(c, Rolling):
        return n * (n @ p - c.radius)
    if isinstance(c, lw.OnPlane):
        return np.array([n @ p])
    assert isinstance(c, Hold)
    both = np.zeros(6) if c.axes == "frame" else np.concatenate([rotation_vector(R), p])
    return both[[NAMES.index(name) for name in c.rows]]


# the rows from poses alone, by differences

_H = 0.005  # [s] errors of about 1e-10 for motions of some radians a second
_FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280]) / _H
_SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]) / _H**2


def relative_pose(model: Model, q: np.ndarray, frame: str, to: str) -> np.ndarray:
    return np.linalg.inv(floats(lw.frame_pose, model, q, frame=to)) @ floats(
        lw.frame_pose, model, q, frame=frame
    )


def moved(model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> list[np.ndarray]:
    """Nine states of a motion that has velocity v and acceleration a in the middle one."""
    return [floats(lw.integrate, model, q, v * t + 0.5 * a * t * t) for t in _H * np.arange(-4, 5)]


class Seen(NamedTuple):
    """A frame against another along a motion: pose, [W, U] and its rate, as an observer on `to` sees them."""

    R: np.ndarray
    p: np.ndarray
    dR: np.ndarray
    V: np.ndarray
    dV: np.ndarray


def seen(model: Model, states: Sequence[np.ndarray], frame: str, to: str) -> Seen:
    T = np.array([relative_pose(model, q, frame, to) for q in states])
    R = T[:, :3, :3]
    p = T[:, :3, 3]
    dR, ddR, dp, ddp = (np.tensordot(w, x, 1) for x in (R, p) for w in (_FIRST, _SECOND))
    W = dR @ R[4].T
    dW = ddR @ R[4].T + dR @ dR.T

    def axial(M: np.ndarray) -> np.ndarray:
        return np.array([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]]) / 2.0

    return Seen(R[4], p[4], dR, np.concatenate([axial(W), dp]), np.concatenate([axial(dW), ddp]))


def row_motion(
    model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray, c: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The velocities of a constraint's rows and their rates, from poses alone."""
    s = seen(model, moved(model, q, v, a), c.frame, c.to)
    directions, in_frame = held_directions(c)
    V = s.V.reshape(2, 3)
    dV = s.dV.reshape(2, 3)
    if in_frame:
        V, dV = V @ s.R, dV @ s.R + V @ s.dR
    return directions @ V.ravel(), directions @ dV.ravel()


# the rows from the Jacobians and accelerations of frames


class Rows(NamedTuple):
    """J θ̈ + gamma is how the rows accelerate; `error` is how far they are off."""

    J: np.ndarray
    gamma: np.ndarray
    error: np.ndarray


def rows(model: Model, q: np.ndarray, v: np.ndarray, constraints: Sequence[Constraint]) -> Rows:
    frames = cache(lambda name: _frame(model, q, v, name))
    spread = cache(lambda: _spread(model, q, v))
    found = [
        _joint_rows(model, q, c, *spread())
        if isinstance(c, (Locked, Coupled))
        else _rows(v, c, frames(c.frame), frames(c.to))
        for c in constraints
    ]
    empty = Rows(np.zeros((0, model.nv)), np.zeros(0), np.zeros(0))
    return Rows(*(np.concatenate(x) for x in zip(empty, *found)))


def _rows(v: np.ndarray, c: Any, F: tuple[np.ndarray, ...], T: tuple[np.ndarray, ...]) -> Rows:
    (RF, rF, JF, aF), (RT, rT, JT, aT) = F, T
    r = rF - rT
    J = JF - JT
    J[3:] += skew(r) @ JT[:3]  # of U = vF - vT - wT × r
    VF = JF @ v
    VT = JT @ v
    wT = VT[:3]
    W = VF[:3] - VT[:3]
    U = J[3:] @ v
    # dU is against the point of `to` that is there; the direction's own turning comes on top
    dV = aF - aT
    dV[3:] -= np.cross(aT[:3], r) + np.cross(wT, np.cross(wT, r))
    directions, in_frame = held_directions(c)
    turn = RF if in_frame else RT
    n = np.concatenate([directions[:, :3] @ turn.T, directions[:, 3:] @ turn.T], axis=1)
    gamma = n @ dV
    if not isinstance(c, (lw.Weld, lw.Connect)):
        w = VF[:3] if in_frame else wT
        gamma += n @ np.concatenate([np.cross(W, w), np.cross(U, w) - np.cross(wT, U)])
    return Rows(n @ J, gamma, position_error(c, RT.T @ RF, RT.T @ r))


def _frame(model: Model, q: np.ndarray, v: np.ndarray, name: str) -> tuple[np.ndarray, ...]:
    T = floats(lw.frame_pose, model, q, frame=name)
    axes = {"frame": name, "reference": "world_aligned"}
    J = floats(lw.frame_jacobian, model, q, **axes)
    a = floats(lw.frame_acceleration, model, q, v, np.zeros(model.nv), classical=True, **axes)
    return T[:3, :3], T[:3, 3], J, a


def _spread(model: Model, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G and g: how the joints move with the independent velocities."""
    if not model.embedded:
        return np.eye(model.nv), np.zeros(model.nv)
    G = np.array([floats(lw.spanning_velocity, model, q, e) for e in np.eye(model.nv)]).T
    return G, floats(lw.spanning_acceleration, model, q, v, np.zeros(model.nv))


def _joint_rows(model: Model, q: np.ndarray, c: Any, G: np.ndarray, g: np.ndarray) -> Rows:
    if isinstance(c, Locked):
        j = model.joint(c.joint)
        away = floats_of(j.kind.difference(j.kind.neutral(), q[j.q_slice])) - np.array(c.at or np.zeros(j.nv))
        return Rows(G[j.v_slice], g[j.v_slice], away)
    terms = [(model.joint(name), x) for name, x in c.terms]
    J = sum(x * G[j.v_slice] for j, x in terms)
    return Rows(
        J, sum(x * g[j.v_slice] for j, x in terms), sum(x * q[j.q_slice] for j, x in terms) - c.offset
    )


def floats_of(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


# Gauss' principle, dense


class Dense(NamedTuple):
    """M a = force + Jᵀ f with J a = k."""

    M: np.ndarray
    force: np.ndarray
    J: np.ndarray
    k: np.ndarray

    def solved(self, cut: float = 1e-10) -> tuple[np.ndarray, np.ndarray]:
        """Accelerations and forces by a truncated singular value decomposition; of least squares where rows
        contradict.
        """
        root = np.linalg.cholesky(self.M)
        Y = np.linalg.solve(root, self.J.T).T  # J L⁻ᵀ
        free = np.linalg.solve(root, self.force)
        x = np.linalg.pinv(Y, rcond=cut) @ (self.k - Y @ free)
        f = np.linalg.pinv(Y.T, rcond=cut) @ x
        return np.linalg.solve(root.T, free + x), f

    def soft(self, R: np.ndarray, f0: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Where rows give way by R times their force, less f0: minimise Gauss' function plus |J a - k|² / 2
        R.
        """
        a = np.linalg.solve(self.M + self.J.T @ (self.J.T / R).T, self.force + self.J.T @ (f0 + self.k / R))
        return a, f0 + (self.k - self.J @ a) / R

    @property
    def delassus(self) -> np.ndarray:
        return self.J @ np.linalg.solve(self.M, self.J.T)

    @property
    def condition(self) -> float:
        return float(np.linalg.cond(self.delassus)) if len(self.J) else 1.0


def dense(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    constraints: Sequence[Any],
    f_ext: Any = None,
    targets: Any = 0.0,
) -> Dense:
    J, gamma, _ = rows(model, q, v, constraints)
    bias = floats(lw.inverse_dynamics, model, q, v, np.zeros(model.nv), f_ext)
    return Dense(floats(lw.mass_matrix, model, q), tau - bias, J, targets - gamma)


# what the core finds


def solved(
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    tau: np.ndarray,
    constraints: Sequence[Constraint],
    *arrays: Any,
    compliance: Any = 1e-5,
    iterations: int = 20,
    tolerance: float | None = 1e-10,
    method: str = "caba",
) -> tuple[np.ndarray, ...]:
    """a, forces, violation and iterations of `constrained_dynamics` on plain floats, without compiling."""
    chosen = (*constraints, *loop_constraints(model))
    R = np.broadcast_to(np.asarray(compliance, dtype=float), (total(model, chosen),))
    options = {
        "compliance": R,
        "iterations": iterations,
        "tolerance": tolerance,
        "method": method,
        "details": True,
    }
    return floats(lw.constrained_dynamics, model, q, v, tau, *arrays, constraints=chosen, **options)[:4]


def held(
    model: Model, constraints: Sequence[Constraint], q: np.ndarray, v: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """The core's own J and what its rows have too much at θ̈ = 0."""
    found = ConstraintRows(nodes_for(model, constraints, q, v), constraints)
    return floats_of(found.jacobian()), floats_of(found.at_rest()) if v is not None else np.zeros(found.m)


# making sets


def bodies_frames(model: Model) -> list[str]:
    """The frames that move."""
    return [f.name for f in model.frames if f.body != GROUND]


def two_frames(model: Model, rng: Random) -> tuple[str, str]:
    """Two frames on different bodies."""
    names = bodies_frames(model)
    while True:
        one, other = rng.choice(names, 2, replace=True)
        if model.frame(str(one)).body != model.frame(str(other)).body:
            return str(one), str(other)


def allowed(J: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v without what moves the rows."""
    return v - np.linalg.pinv(J, rcond=1e-10) @ (J @ v)
