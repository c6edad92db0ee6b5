"""Coordinates, velocities and wrenches of loop joints, which the spanning tree does not contain."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.loops.joint_forces import loop_rows
from linkwork.algorithms.tree.kinematics import frame_pose, frame_velocity
from linkwork.mechanism.loops import Loop
from linkwork.model import Frame
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, Pose, mirrored


def _frames(loop: Loop) -> tuple[Frame, Frame]:
    predecessor, successor = (Frame(loop.name, end.body, end.place) for end in loop.ends)
    return predecessor, successor


def relative_pose(nodes: ModelTree[Any], loop: Loop) -> Pose:
    """Return the pose of a loop joint's successor in its predecessor."""
    P, F = (frame_pose(nodes, frame) for frame in _frames(loop))
    return P.inverse().then(F)


def relative_velocity(nodes: ModelTree[Any], loop: Loop, v: np.ndarray) -> np.ndarray:
    """Return v of a loop joint, (its nv,), where S v is the relative motion in the successor's axes."""
    X = relative_pose(nodes, loop)
    S = loop.kind.subspace(loop.kind.coordinates_of(X))
    below, above = (frame_velocity(nodes, v, frame, "body") for frame in _frames(loop))
    return Factor(mirrored(S.T @ S)).solve(S.T @ (above - X.scatter(below)))


def wrench(nodes: ModelTree[Any], loop: Loop, lam: np.ndarray) -> np.ndarray:
    """Return [m, f] on a loop joint's successor, (6,), for λ of the equations in use.

    It is at the origin and in the axes of the successor's frame.
    """
    P = relative_pose(nodes, loop).inverse()
    F = Pose.identity()
    total: Any = np.zeros(6, dtype=object)
    for constraint, row, x in loop_rows(nodes.model, lam):
        if constraint.name == loop.name:
            total = total + constraint.wrench(row, P, F) * x
    return total
