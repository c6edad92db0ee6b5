"""Energies, center of mass and momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.algorithms.tree.kinematics import body_frames, node_velocities
from linkwork.algorithms.tree.mass_matrix import CompositeInertias
from linkwork.mechanism.body_loads import WeightCompensation
from linkwork.sko.body_loads import compensated_mass
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.tree import ModelTree, TreeState
from linkwork.spatial import cross


def kinetic_energy(nodes: TreeState[NodeState], v: np.ndarray) -> Any:
    """Return Σ ½ V* M V and the kinetic energy of armatures (Lie Eq. 15) [J]."""
    V = node_velocities(nodes, v)
    total: Any = 0.0
    for k in nodes.base_to_tips():
        total = total + 0.5 * (V[k] @ (k.M @ V[k]) + k.armature_energy(v[k.dofs]))
    return total


def potential_energy(nodes: ModelTree[NodeState]) -> Any:
    """Return the potential energy of gravity, zero at the world's origin, and of the joints' springs [J]."""
    g: dict[Any, np.ndarray] = {nodes.below: np.array(nodes.model.gravity)}  # gravity in every body's axes
    u: dict[Any, Any] = {nodes.below: 0.0}  # the potential of one kilogram at every body's origin
    total: Any = 0.0
    for k in nodes.bodies.values():
        g[k], u[k] = k.X.R.T @ g[k.on], u[k.on] - g[k.on] @ k.X.p
        total = total + k.M.mass * u[k] - g[k] @ k.M.h + k.spring_energy
    if nodes.loads is not None:
        for compensation in nodes.model.weight_compensations:
            total = total - compensated_energy(nodes, compensation, g, u)
        total = total + nodes.loads.energy()
    return total


def compensated_energy(
    nodes: ModelTree[Any], compensation: WeightCompensation, g: dict[Any, np.ndarray], u: dict[Any, Any]
) -> Any:
    """Return the potential energy of the compensated weight of a body [J].

    `g` is gravity in the axes of every body, `u` the potential of one kilogram at its origin.
    """
    k = nodes.bodies[compensation.body]
    mass, h = compensated_mass(compensation, nodes.model.bodies[compensation.body].inertia)
    body_frame = k.C.inverse()  # in the frame of its description
    return mass * (u[k] - g[k] @ body_frame.p) - g[k] @ (body_frame.R @ h)


def first_moment(nodes: ModelTree[NodeState]) -> np.ndarray:
    """Return Σ mass times position of all bodies in the world, (3,) [kg m]."""
    h: dict[Any, np.ndarray] = {k: k.M.h for k in nodes.bodies.values()} | {nodes.below: np.zeros(3)}
    mass: dict[Any, Any] = {k: k.M.mass for k in nodes.bodies.values()} | {nodes.below: 0.0}
    for k in reversed(nodes.bodies.values()):
        h[k.on] = h[k.on] + k.X.R @ h[k] + mass[k] * k.X.p
        mass[k.on] = mass[k.on] + mass[k]
    return h[nodes.below]


def center_of_mass(nodes: ModelTree[NodeState]) -> np.ndarray:
    """Return the center of mass in the world, (3,) [m]."""
    return first_moment(nodes) / nodes.model.mass


def about_center(nodes: ModelTree[NodeState], momentum: np.ndarray) -> np.ndarray:
    """Return a momentum [l, p] about the world's origin as one about the center of mass; also for columns."""
    return np.concatenate([momentum[:3] - cross(center_of_mass(nodes), momentum[3:]), momentum[3:]])


def momentum(nodes: ModelTree[NodeState], v: np.ndarray) -> np.ndarray:
    """Return [l, p] about the center of mass in world axes, (6,) [kg m²/s, kg m/s]."""
    V = node_velocities(nodes, v)
    L: dict[Any, np.ndarray] = {k: k.M @ V[k] for k in nodes.base_to_tips()} | {nodes.ground: np.zeros(6)}
    for k in nodes.tips_to_base():
        L[k.parent] = L[k.parent] + k.A.gather(L[k])
    return about_center(nodes, L[nodes.ground])


def momentum_rate(nodes: ModelTree[NodeState], ddtheta: np.ndarray) -> np.ndarray:
    """Return the rate of `momentum`, (6,), of nodes without gravity: Σ M α + b about the center of mass.

    The center of mass moves along the linear momentum, so its velocity adds no term.
    """
    alpha = accelerations(nodes, ddtheta)
    f: dict[Any, np.ndarray] = {k: k.force(alpha[k]) for k in nodes.base_to_tips()} | {
        nodes.ground: np.zeros(6)
    }
    for k in nodes.tips_to_base():
        f[k.parent] = f[k.parent] + k.A.gather(f[k])
    return about_center(nodes, f[nodes.ground])


def _momentum_map(nodes: ModelTree[NodeState]) -> np.ndarray:
    """Return the centroidal map about the world's origin, from composite inertias of any nodes."""
    R = CompositeInertias(nodes)
    L = np.zeros((6, nodes.nv), dtype=object)
    for k in nodes.tips_to_base():
        X: np.ndarray = R[k] @ k.H.T
        j: HingeNode = k
        while j is not nodes.ground:
            X = j.A.gather(X)
            j = j.parent
        L[:, k.dofs] = X
    return L


def centroidal_map(nodes: ModelTree[NodeState]) -> np.ndarray:
    """Return the centroidal momentum matrix, (6, nv), which maps v to `momentum`."""
    if nodes.model.is_flexible:
        return about_center(nodes, _momentum_map(nodes))
    T = body_frames(nodes)
    R: dict[Any, Any] = {k: k.M for k in nodes.bodies.values()}
    L = np.zeros((6, nodes.nv), dtype=object)
    for k in reversed(nodes.bodies.values()):
        L[:, k.dofs] = L[:, k.dofs] + T[k].gather(R[k] @ k.S)
        if k.on is not nodes.below:
            R[k.on] = R[k.on] + k.X.congruence(R[k])
    return about_center(nodes, L)
