"""Derivatives through embedded loops and couplings: those of the spanning tree, and how its velocities follow independent ones.

With v = G ẏ and v̇ = G ÿ + g (Loops Eq. 3), the forces of independent velocities are T = Gᵀ τ(q, G ẏ, G ÿ + g). τ is inverse
dynamics of the spanning tree, whose derivatives are analytic. G and g solve the loops' equations; they are differentiated as
they are computed, along motions that keep loops closed (the implicit function theorem: q moves by G δ).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms.closing import independent_force, spanning_acceleration, spanning_velocity
from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.inverse_dynamics_derivatives import (
    Derivatives,
    Differentiate,
    coriolis_matrix,
    inverse_dynamics_derivatives,
    rates,
)
from linkwork.algorithms.mass_matrix import mass_matrix
from linkwork.model import Model
from linkwork.simplify.trees import hinge_tree, tree, tree_of_bodies

Along = Callable[
    [Callable[[Any], Any], Any, Any], tuple[Any, Any]
]  # of f, x and directions: f(x) and its derivatives along them


def position_rates(model: Model, q: np.ndarray) -> np.ndarray:
    """q̇ of unit velocities of the spanning tree as columns, (nq, nv_spanning)."""
    out = np.zeros((model.nq, model.nv_spanning), dtype=object)
    for joint in model.joints:
        out[joint.q_slice, joint.v_slice] = rates(joint.kind, q[joint.q_slice])
    return out


def velocity_map(nodes: Any) -> np.ndarray:
    """G of all joints, (nv_spanning, nv)."""
    G = np.zeros((nodes.model.nv_spanning, nodes.nv), dtype=object)
    for body in nodes.bodies.values():
        G[body.joint.v_slice, body.dofs] = body.G
    return G


def of_inverse_dynamics(model: Model, q: Any, v: Any, a: Any, f_ext: Any, by: Differentiate, along: Along) -> Derivatives:
    """The derivatives of inverse dynamics of any model, at the acceleration a, (nv,).

    `by` differentiates functions of an array by each of its entries, `along` in some directions only, which are columns.
    """
    if not model.embedded:
        return inverse_dynamics_derivatives(tree_of_bodies(model, q, v, f_ext), a, by)
    nodes, spanning, n = tree(model, q, v), model.spanning_tree(), model.nv_spanning
    G, a_spanning = velocity_map(nodes), spanning_acceleration(nodes, a)
    below = tree_of_bodies(spanning, q, spanning_velocity(nodes), f_ext)
    tau, found = inverse_dynamics(below, a_spanning), inverse_dynamics_derivatives(below, a_spanning, by)

    def follows(x: Any) -> Any:
        at = tree(model, x, v)
        return np.concatenate([spanning_velocity(at), spanning_acceleration(at, a), independent_force(at, tau)])

    moved = along(follows, q, position_rates(model, q) @ G)[1]
    turned = by(lambda x: spanning_acceleration(tree(model, q, x), a), v)[1]
    by_q = G.T @ (found.by_q @ G + found.by_v @ moved[:n] + found.by_a @ moved[n : 2 * n]) + moved[2 * n :]
    by_v = G.T @ (found.by_v @ G + found.by_a @ turned)
    return Derivatives(by_q, by_v, mass_matrix(hinge_tree(model, q)))


def of_motion(model: Model, q: Any, v: Any, by: Differentiate, along: Along) -> np.ndarray:
    """The Coriolis matrix of any model: GᵀCG + GᵀM Ġ."""
    if not model.embedded:
        return coriolis_matrix(tree_of_bodies(model, q, v), by)[0]
    nodes = tree(model, q, v)
    G, dq = velocity_map(nodes), position_rates(model, q) @ spanning_velocity(nodes)
    C, M = coriolis_matrix(tree_of_bodies(model.spanning_tree(), q, spanning_velocity(nodes)), by)
    dG = along(lambda x: velocity_map(tree(model, x)), q, dq.reshape(-1, 1))[1]
    return G.T @ (C @ G + M @ dG.reshape(G.shape))
