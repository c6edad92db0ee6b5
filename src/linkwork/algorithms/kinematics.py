"""Poses, velocities, accelerations and Jacobians of bodies and frames (SKO Eq. 1, Lie Sec. 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.parts import Frame
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import BodyOrGround, ModelTree, TreeState
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product

REFERENCES = ("body", "world", "world_aligned")


def body_frames(tree: ModelTree[Any]) -> dict[BodyOrGround, Pose]:
    """The pose of every body's description frame in the world."""
    T: dict[BodyOrGround, Pose] = {tree.below: Pose.identity()}
    for k in tree.bodies.values():
        T[k] = T[k.on].then(k.X)
    return T


def body_poses(tree: ModelTree[Any]) -> np.ndarray:
    """The homogeneous matrices of all bodies' frames in the world, (bodies, 4, 4)."""
    T = body_frames(tree)
    order = [tree[k] for k in range(len(tree.bodies))]
    return np.array([T[k].then(k.C.inverse()).matrix() for k in order]).reshape(-1, 4, 4)


def node_velocities(tree: TreeState[Any], v: np.ndarray) -> dict[HingeNode, np.ndarray]:
    """V = A* V(℘) + H* θ̇ of every node."""
    V: dict[HingeNode, np.ndarray] = {tree.ground: np.zeros(tree.ground.rows)}
    for k in tree.base_to_tips():
        V[k] = k.velocity(V[k.parent], v[k.dofs])
    return V


def _below(tree: ModelTree[Any], frame: Frame) -> list[RigidBody]:
    """The bodies that a frame hangs on, base to tip."""
    found = []
    k: BodyOrGround = tree[frame.body]
    while isinstance(k, RigidBody):
        found.append(k)
        k = k.on
    return found[::-1]


def frame_pose(tree: ModelTree[Any], frame: Frame) -> Pose:
    """The pose of a frame in the world."""
    T = Pose.identity()
    for k in _below(tree, frame):
        T = T.then(k.X)
    return T.then(tree.pick_off(frame).place)


def seen_from(reference: str, T: Pose, V: np.ndarray) -> np.ndarray:
    """A motion of a frame at pose T, in its own axes, as one of the reference: "body", "world" or "world_aligned"."""
    if reference == "body":
        return V
    turned = np.concatenate([product(T.R, V[:3]), product(T.R, V[3:])])
    if reference == "world_aligned":
        return turned
    return np.concatenate([turned[:3], turned[3:] + cross(T.p, turned[:3])])  # of the body's point at the world's origin


def frame_velocity(tree: TreeState[Any], v: np.ndarray, frame: Frame, reference: str) -> np.ndarray:
    """[w, v] of a frame, (6,), by its pick-off operator."""
    pick = tree.pick_off(frame)
    V = np.zeros(tree.ground.rows)
    for k in reversed(tree.path_to_ground(pick.node)):
        V = k.velocity(V, v[k.dofs])
    return pick.motion(V) if reference == "body" else seen_from(reference, _pose(tree, frame), pick.motion(V))


def _pose(tree: TreeState[Any], frame: Frame) -> Pose:
    assert isinstance(tree, ModelTree)
    return frame_pose(tree, frame)


def frame_acceleration(
    tree: TreeState[Any], v: np.ndarray, a: np.ndarray, frame: Frame, reference: str, *, classical: bool = False
) -> np.ndarray:
    """The rate of `frame_velocity` "body" as a spatial acceleration, (6,), or, `classical`, that of the frame's point."""
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
    elif reference == "world":  # of another point than the frame's origin: it also turns about that
        turning = product(pick.place.R.T, product(pick.carrier.spin, product(pick.place.R, product(T.R.T, T.p))))
        alpha = np.concatenate([alpha[:3], alpha[3:] - turning])
    return seen_from(reference, T, alpha)


def frame_jacobian(tree: TreeState[Any], frame: Frame, reference: str) -> np.ndarray:
    """J with J v = `frame_velocity`, (6, nv): B H* of every node below, carried down by B ← B A*."""
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
    return np.array([seen_from(reference, _pose(tree, frame), column) for column in J.T]).T.reshape(6, tree.nv)


def _world_jacobian(tree: ModelTree[Any], frame: Frame, path: list[Any], reference: str) -> np.ndarray:
    """The same in the world's axes: each block's motion carried to the world's origin."""
    J = np.zeros((6, tree.nv), dtype=object)
    T: dict[BodyOrGround, Pose] = {tree.below: Pose.identity()}
    for carried in _below(tree, frame):
        T[carried] = T[carried.on].then(carried.X)
    key: Any = frame.body
    for k in path:
        body, S = tree[key], k.H.T[k.blocks[key]]
        turning = T[body].R @ S[:3]
        J[:, k.dofs] = np.concatenate([turning, T[body].R @ S[3:] + cross(T[body].p, turning)])
        key, _ = k.carried(key, Pose.identity())
    if reference == "world_aligned":
        p = frame_pose(tree, frame).p
        J[3:] = J[3:] - cross(p, J[:3])
    return J
