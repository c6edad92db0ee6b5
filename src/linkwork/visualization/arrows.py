"""Arrows of joint torques and contact forces, as (start, end) pairs of points [m]."""

from __future__ import annotations

import numpy as np

from linkwork.functions.dynamics import gravity_force
from linkwork.simulation.log import Log
from linkwork.visualization.scene import Scene

TORQUE_LENGTH = 0.25  # of the largest torque, relative to the size of the scene
FORCE_LENGTH = 0.5  # of the largest contact force
MIN_TORQUE = 1e-3  # relative to the largest; smaller ones are not drawn

Arrows = list[tuple[np.ndarray, np.ndarray]]


def torque_arrows(scene: Scene, log: Log | None, state: int, q: np.ndarray, poses: np.ndarray) -> Arrows:
    """Return arrows along independent joint axes: joint forces of the log, or those against gravity."""
    model = scene.model
    if not model.nv:
        return []
    if log is not None and log.tau is not None:
        tau = log.tau[state]
    else:
        tau = np.asarray(gravity_force(model, q), dtype=float)
    largest = float(np.abs(tau).max()) or 1.0
    arrows = []
    for name, value in zip(model.v_names, tau):
        if abs(value) <= MIN_TORQUE * largest:
            continue
        joint = next(joint for joint in model.joints if name in joint.v_names)
        S = np.asarray(joint.kind.subspace(q[joint.q_slice]), dtype=float)[:, joint.v_names.index(name)]
        axis = S[:3] if np.any(S[:3]) else S[3:]
        pose = poses[joint.child]
        direction = pose[:3, :3] @ axis / max(float(np.linalg.norm(axis)), 1e-12)
        end = pose[:3, 3] + direction * TORQUE_LENGTH * scene.size * value / largest
        arrows.append((pose[:3, 3], end))
    return arrows


def contact_arrows(scene: Scene, log: Log | None, state: int) -> Arrows:
    """Return arrows of the log's contact forces at a state."""
    if log is None or log.forces is None or log.points is None:
        return []
    finite = log.forces[np.isfinite(log.forces).all(axis=2)]
    largest = float(np.linalg.norm(finite, axis=-1).max(initial=0.0)) or 1.0
    arrows = []
    for point, force in zip(log.points[state], log.forces[state]):
        if np.isfinite(force).all() and np.isfinite(point).all() and np.any(force):
            arrows.append((point, point + force * FORCE_LENGTH * scene.size / largest))
    return arrows
