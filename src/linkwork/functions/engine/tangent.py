"""Maps between changes of a configuration and its tangent space.

A tangent vector δ changes q as `integrate` does: q̇ = E(q) G(q) δ. G maps independent velocities to those of
all joints of the spanning tree (embedded loops), and E maps these to rates of q. With constrained loops all
velocities are independent, and changes of q are not projected onto the constraints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.compiler.autodiff.in_trace import jacobian_of
from linkwork.joints import Joint
from linkwork.model import Model
from linkwork.sko import Tree
from linkwork.sko.prepare.trees import tree


def is_plain(model: Model | Tree) -> bool:
    """Return True if q and v have the same size and q̇ = v."""
    if isinstance(model, Tree):
        model.integrate(np.zeros(model.nq), np.zeros(model.nv))  # raises if nq and nv differ
        return True
    return not model.embedded and all(map(_is_plain, model.joints))


def rates(model: Model, q: np.ndarray) -> np.ndarray:
    """Return E G, the changes of q along each independent velocity, (nq, nv)."""
    if isinstance(model, Tree) and is_plain(model):
        return np.eye(model.nv)
    E = joint_rates(model, q)
    G = embedding(model, q)
    return E if G is None else E @ G


def embedding(model: Model, q: np.ndarray) -> np.ndarray | None:
    """Return G, from independent velocities to those of the spanning tree, (nv_spanning, nv); None for I."""
    if not model.embedded:
        return None
    G: Any = np.zeros((model.nv_spanning, model.nv), dtype=object)
    for body in tree(model, q).moving:
        G[body.joint.v_slice, body.dofs] = body.G
    return G


def joint_rates(model: Model, q: np.ndarray) -> np.ndarray:
    """Return E, the changes of q along each velocity of the spanning tree, (nq, nv_spanning)."""
    E: Any = np.zeros((model.nq, model.nv_spanning), dtype=object)
    for joint in model.joints:
        coordinates = q[joint.q_slice]
        for k, unit in enumerate(np.eye(joint.nv)):
            E[joint.q_slice, joint.v_slice.start + k] = joint.kind.rate(coordinates, unit)
    return E


def velocities(model: Model, q: np.ndarray) -> np.ndarray:
    """Return D, from changes of q to independent velocities, (nv, nq).

    D is the derivative of `difference(q, end)` with respect to its second argument, at end = q.
    """
    D: Any = np.zeros((model.nv_spanning, model.nq), dtype=object)
    for joint in model.joints:
        if joint.nv:
            coordinates = q[joint.q_slice]
            by_end = np.eye(joint.nv) if _is_plain(joint) else _by_end(joint.kind, coordinates)
            D[joint.v_slice, joint.q_slice] = by_end
    return D[[place for cluster in model.clusters for place in _independent(model, cluster)]]


def _independent(model: Model, cluster: Any) -> list[int]:
    places = [
        k for body in cluster.bodies for k in range(*model.joints[body].v_slice.indices(model.nv_spanning))
    ]
    return [places[k] for k in cluster.independent]


def _by_end(kind: Joint, q: np.ndarray) -> np.ndarray:
    return jacobian_of(lambda end: kind.difference(q, end), q)[1]


def _is_plain(joint: Any) -> bool:
    return type(joint.kind).rate is Joint.rate
