"""Energies, centre of mass and momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.kinematics import node_poses, node_velocities
from linkwork.algorithms.mass_matrix import CompositeInertias
from linkwork.model.nodes import Node, Nodes
from linkwork.spatial import cross


def kinetic_energy(nodes: Nodes, v: np.ndarray) -> Any:
    """Σ ½ V* M V, and what armatures hold (Lie Eq. 15) [J]."""
    V = node_velocities(nodes, v)
    total: Any = 0.0
    for k in nodes.base_to_tips():
        total = total + 0.5 * (V[k] @ (k.M @ V[k]) + v[k.dofs] @ (k.armature * v[k.dofs]))
    return total


def potential_energy(nodes: Nodes) -> Any:
    """Of gravity, zero where all mass is at the world's origin, and of the joints' springs [J]."""
    g: dict[Node, np.ndarray] = {nodes.ground: np.array(nodes.model.gravity)}  # gravity in every node's axes
    u: dict[Node, Any] = {nodes.ground: 0.0}  # the potential of one kilogram at every node's origin
    total: Any = 0.0
    for k in nodes.base_to_tips():
        g[k], u[k] = k.A.R.T @ g[k.parent], u[k.parent] - g[k.parent] @ k.A.p
        total = total + k.M.mass * u[k] - g[k] @ k.M.h + k.spring_energy
    return total


def first_moment(nodes: Nodes) -> np.ndarray:
    """Σ mass * place of all bodies in the world [kg m], (3,)."""
    h: dict[Node, np.ndarray] = {}
    mass: dict[Node, float] = {}
    total = np.zeros(3)
    for k in nodes.tips_to_base():
        h[k], mass[k] = k.M.h, k.M.mass
        for j in k.children:
            h[k], mass[k] = h[k] + j.A.R @ h[j] + mass[j] * j.A.p, mass[k] + mass[j]
    for j in nodes.ground.children:
        total = total + j.A.R @ h[j] + mass[j] * j.A.p
    return total


def center_of_mass(nodes: Nodes) -> np.ndarray:
    """Where the centre of all mass is in the world [m], (3,)."""
    return first_moment(nodes) / nodes.model.mass


def about_center(nodes: Nodes, momentum: np.ndarray) -> np.ndarray:
    """A momentum [l, p] about the world's origin, as one about the centre of mass; also several as columns."""
    return np.concatenate([momentum[:3] - cross(center_of_mass(nodes), momentum[3:]), momentum[3:]])


def momentum(nodes: Nodes, v: np.ndarray) -> np.ndarray:
    """[l, p] about the centre of mass, in the world's axes [kg m²/s, kg m/s], (6,)."""
    V = node_velocities(nodes, v)
    L: dict[Node, np.ndarray] = {}
    total = np.zeros(6)
    for k in nodes.tips_to_base():
        L[k] = k.M @ V[k]
        for j in k.children:
            L[k] = L[k] + j.A.gather(L[j])
    for j in nodes.ground.children:
        total = total + j.A.gather(L[j])
    return about_center(nodes, total)


def centroidal_map(nodes: Nodes) -> np.ndarray:
    """The matrix that takes v to `momentum`, (6, nv)."""
    R, T = CompositeInertias(), node_poses(nodes)
    L = np.zeros((6, nodes.nv), dtype=object)
    for k in nodes.tips_to_base():
        L[:, k.dofs] = T[k].gather(R[k] @ k.H.T)
    return about_center(nodes, L)
