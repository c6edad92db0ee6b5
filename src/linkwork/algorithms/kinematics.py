"""Poses, velocities, accelerations and Jacobians of bodies and frames (SKO Eq. 1, Lie Sec. 2)."""

from __future__ import annotations

import numpy as np

from linkwork.model.bodies import Ground, MovingBody
from linkwork.model.nodes import Nodes
from linkwork.model.parts import Frame
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product

REFERENCES = ("body", "world", "world_aligned")


Anybody = Ground | MovingBody


def node_poses(nodes: Nodes) -> dict[Anybody, Pose]:
    """The pose of every body's own frame in the world."""
    T: dict[Anybody, Pose] = {nodes.below: Pose.identity()}
    for k in nodes.bodies.values():
        T[k] = T[k.on].then(k.X)
    return T


def body_poses(nodes: Nodes) -> np.ndarray:
    """The homogeneous matrices of all bodies' frames in the world, (bodies, 4, 4)."""
    T = node_poses(nodes)
    order = [nodes[k] for k in range(len(nodes.bodies))]
    return np.array([T[k].then(k.C.inverse()).matrix() for k in order]).reshape(-1, 4, 4)


def node_velocities(nodes: Nodes, v: np.ndarray) -> dict[Anybody, np.ndarray]:
    """V = A* V(℘) + H* θ̇ of every body."""
    V: dict[Anybody, np.ndarray] = {nodes.below: np.zeros(6)}
    for k in nodes.bodies.values():
        V[k] = k.X.scatter(V[k.on]) + k.S @ v[k.dofs]
    return V


def chain(nodes: Nodes, frame: Frame) -> list[MovingBody]:
    """The bodies that move a frame, base to tip."""
    found = []
    k: Anybody = nodes[frame.body]
    while isinstance(k, MovingBody):
        found.append(k)
        k = k.on
    return found[::-1]


def on_node(nodes: Nodes, frame: Frame) -> Pose:
    """The constant pose of a frame in its node's frame."""
    return nodes[frame.body].C.inverse().then(frame.place)


def frame_pose(nodes: Nodes, frame: Frame) -> Pose:
    """The pose of a frame in the world."""
    T = Pose.identity()
    for k in chain(nodes, frame):
        T = T.then(k.X)
    return T.then(on_node(nodes, frame))


def seen_from(reference: str, T: Pose, V: np.ndarray) -> np.ndarray:
    """A motion of a frame at pose T, in its own axes, as one of the reference: "body", "world" or "world_aligned"."""
    if reference == "body":
        return V
    turned = np.concatenate([product(T.R, V[:3]), product(T.R, V[3:])])
    if reference == "world_aligned":
        return turned
    return np.concatenate([turned[:3], turned[3:] + cross(T.p, turned[:3])])  # of the body's point at the world's origin


def frame_velocity(nodes: Nodes, v: np.ndarray, frame: Frame, reference: str) -> np.ndarray:
    """[w, v] of a frame, (6,)."""
    V = np.zeros(6)
    for k in chain(nodes, frame):
        V = k.X.scatter(V) + k.S @ v[k.dofs]
    return seen_from(reference, frame_pose(nodes, frame), on_node(nodes, frame).scatter(V))


def frame_acceleration(
    nodes: Nodes, v: np.ndarray, a: np.ndarray, frame: Frame, reference: str, *, classical: bool = False
) -> np.ndarray:
    """The rate of `frame_velocity` "body" as a spatial acceleration, (6,), or, `classical`, that of the frame's point."""
    alpha = np.zeros(6)
    for k in chain(nodes, frame):
        alpha = k.accelerate(alpha, k.G @ a[k.dofs] + k.g)
    place = on_node(nodes, frame)
    carrier = nodes[frame.body]
    # a point at r accelerates by α_v + ([α_w] + [w][w]) r
    alpha = place.scatter(alpha) + np.concatenate([np.zeros(3), product(place.R.T, product(carrier.spin, place.p))])
    T = frame_pose(nodes, frame)
    if not classical:
        V = frame_velocity(nodes, v, frame, "body")
        alpha = np.concatenate([alpha[:3], alpha[3:] - cross(V[:3], V[3:])])
    elif reference == "world":  # of another point than the frame's origin: it also turns about that
        turning = product(place.R.T, product(carrier.spin, product(place.R, product(T.R.T, T.p))))
        alpha = np.concatenate([alpha[:3], alpha[3:] - turning])
    return seen_from(reference, T, alpha)


def frame_jacobian(nodes: Nodes, frame: Frame, reference: str) -> np.ndarray:
    """J with J v = `frame_velocity`, (6, nv)."""
    J = np.zeros((6, nodes.nv), dtype=object)
    moved = chain(nodes, frame)
    if reference == "body":
        T = on_node(nodes, frame)  # the frame in node k
        for k in reversed(moved):
            J[:, k.dofs] = J[:, k.dofs] + T.scatter(k.S)
            T = k.X.then(T)
        return J
    T = Pose.identity()  # node k in the world
    for k in moved:
        T = T.then(k.X)
        turning = T.R @ k.S[:3]
        J[:, k.dofs] = J[:, k.dofs] + np.concatenate([turning, T.R @ k.S[3:] + cross(T.p, turning)])
    if reference == "world_aligned":
        p = T.then(on_node(nodes, frame)).p
        J[3:] = J[3:] - cross(p, J[:3])
    return J
