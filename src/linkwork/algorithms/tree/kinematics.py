"""Poses, velocities, accelerations and Jacobians of bodies and frames (SKO Eq. 1, Lie Sec. 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.mechanism import Frame
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import BodyOrGround, ModelTree, TreeState
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product

REFERENCES = ("body", "world", "world_aligned")


def body_frames(tree: ModelTree[Any]) -> dict[BodyOrGround, Pose]:
    """Return the pose of every body's description frame in the world."""
    T: dict[BodyOrGround, Pose] = {tree.below: Pose.identity()}
    for k in tree.bodies.values():
        T[k] = T[k.on].then(k.X)
    return T


def body_poses(tree: ModelTree[Any]) -> np.ndarray:
    """Return the homogeneous matrices of all bodies' frames in the world, (bodies, 4, 4)."""
    T = body_frames(tree)
    order = [tree[k] for k in range(len(tree.bodies))]
    return np.array([T[k].then(k.C.inverse()).matrix() for k in order]).reshape(-1, 4, 4)


def node_velocities(tree: TreeState[Any], v: np.ndarray) -> dict[HingeNode, np.ndarray]:
    """Return V = A* V(℘) + H* θ̇ of every node."""
    V: dict[HingeNode, np.ndarray] = {tree.ground: np.zeros(tree.ground.rows)}
    for k in tree.base_to_tips():
        V[k] = k.velocity(V[k.parent], v[k.dofs])
    return V


def _carriers(tree: ModelTree[Any], frame: Frame) -> list[RigidBody]:
    """Return the bodies that carry a frame, base to tip."""
    bodies = []
    k: BodyOrGround = tree[frame.body]
    while isinstance(k, RigidBody):
        bodies.append(k)
        k = k.on
    return bodies[::-1]


def frame_pose(tree: ModelTree[Any], frame: Frame) -> Pose:
    """Return the pose of a frame in the world."""
    T = Pose.identity()
    for k in _carriers(tree, frame):
        T = T.then(k.X)
    return T.then(tree.pick_off(frame).place)


def seen_from(reference: str, T: Pose, V: np.ndarray) -> np.ndarray:
    """Return a motion V of a frame at pose T, given in the frame's axes, in another reference.

    "body": at the frame's origin, in its axes. "world_aligned": at the frame's origin, in world axes.
    "world": of the body's point at the world's origin, in world axes.
    """
    if reference == "body":
        return V
    aligned = np.concatenate([product(T.R, V[:3]), product(T.R, V[3:])])
    if reference == "world_aligned":
        return aligned
    return np.concatenate([aligned[:3], aligned[3:] + cross(T.p, aligned[:3])])


def frame_velocity(tree: TreeState[Any], v: np.ndarray, frame: Frame, reference: str) -> np.ndarray:
    """Return [w, v] of a frame, (6,), by its pick-off operator."""
    pick = tree.pick_off(frame)
    V = np.zeros(tree.ground.rows)
    for k in reversed(tree.path_to_ground(pick.node)):
        V = k.velocity(V, v[k.dofs])
    return pick.motion(V) if reference == "body" else seen_from(reference, _pose(tree, frame), pick.motion(V))


def _pose(tree: TreeState[Any], frame: Frame) -> Pose:
    assert isinstance(tree, ModelTree)
    return frame_pose(tree, frame)


def frame_acceleration(
    tree: TreeState[Any],
    v: np.ndarray,
    a: np.ndarray,
    frame: Frame,
    reference: str,
    *,
    classical: bool = False,
) -> np.ndarray:
    """Return the spatial acceleration of a frame, (6,), or, if `classical`, that of its origin."""
    pick = tree.pick_off(frame)
    alpha = np.zeros(tree.ground.rows)
    for k in reversed(tree.path_to_ground(pick.node)):
        alpha = k.accelerate(alpha, a[k.dofs])
    alpha = pick.motion(alpha) + pick.bias
    if not isinstance(tree, ModelTree):
        return alpha
    T = frame_pose(tree, frame)
    if not classical:
        V = frame_velocity(tree, v, frame, "body")
        alpha = np.concatenate([alpha[:3], alpha[3:] - cross(V[:3], V[3:])])
    elif reference == "world":  # not the frame's origin: add the acceleration of rotation about that
        centripetal = product(
            pick.place.R.T, product(pick.carrier.spin, product(pick.place.R, product(T.R.T, T.p)))
        )
        alpha = np.concatenate([alpha[:3], alpha[3:] - centripetal])
    return seen_from(reference, T, alpha)


def frame_jacobian(tree: TreeState[Any], frame: Frame, reference: str) -> np.ndarray:
    """Return J with J v = `frame_velocity`, (6, nv): B H* of every node below, with B ← B A*."""
    pick: Any = tree.pick_off(frame)
    path = tree.path_to_ground(pick.node)
    if reference != "body" and all(k.supports == 1 for k in path) and isinstance(tree, ModelTree):
        return _world_jacobian(tree, frame, path, reference)
    first = pick.motion(np.zeros(pick.node.rows))
    J = np.zeros((len(first), tree.nv), dtype=object)
    for k in path:
        J[:, k.dofs] = pick.motion(k.H.T)
        if k.parent is not tree.ground:
            pick = pick.through()
    if reference == "body":
        return J
    return np.array([seen_from(reference, _pose(tree, frame), column) for column in J.T]).T.reshape(
        6, tree.nv
    )


def _world_jacobian(tree: ModelTree[Any], frame: Frame, path: list[Any], reference: str) -> np.ndarray:
    """Return the Jacobian in world axes: each block's motion shifted to the world's origin."""
    J = np.zeros((6, tree.nv), dtype=object)
    T: dict[BodyOrGround, Pose] = {tree.below: Pose.identity()}
    for carried in _carriers(tree, frame):
        T[carried] = T[carried.on].then(carried.X)
    key: Any = frame.body
    for k in path:
        body = tree[key]
        S = k.H.T[k.blocks[key]]
        angular = T[body].R @ S[:3]
        J[:, k.dofs] = np.concatenate([angular, T[body].R @ S[3:] + cross(T[body].p, angular)])
        key, _ = k.carried(key, Pose.identity())
    if reference == "world_aligned":
        p = frame_pose(tree, frame).p
        J[3:] = J[3:] - cross(p, J[:3])
    return J
