"""Regressors: inverse dynamics and energy are linear in the bodies' inertial parameters (Atkeson, An and Hollerbach 1986).

A body's ten parameters are those of its own frame: m, m c (3), then xx xy yy xz yz zz of the moment of inertia about the
origin (Khalil and Dombre, Modeling, Identification and Control of Robots). The force that its motion takes is A(k) π(k), and
J(k)ᵀ takes that to independent velocities: Y(k) = J(k)ᵀ A(k). Only J knows of loops and gears.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.closing import spanning_acceleration, spanning_velocity
from linkwork.algorithms.inverse_dynamics import accelerations
from linkwork.algorithms.kinematics import node_velocities
from linkwork.simplify.frames import without_lumping
from linkwork.sko.pick_offs import PickOff
from linkwork.sko.tree import ModelTree, model_tree
from linkwork.spatial import cross, skew
from linkwork.spatial.constants import product

PARAMETERS = 10  # of each body


def moment_map(x: np.ndarray) -> np.ndarray:
    """L with L (xx xy yy xz yz zz) = I x, (3, 6)."""
    return np.array([[x[0], x[1], 0.0, x[2], 0.0, 0.0], [0.0, x[0], x[1], 0.0, x[2], 0.0], [0.0, 0.0, 0.0, *x]], dtype=object)


def body_regressor(w: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """A with A π = [m, f], the force that a body's motion takes, (6, 10): f = m a + W (m c), m = (m c) × a + I ẇ + w × I w.

    `alpha` are [ẇ, a], a being the acceleration of the frame's origin as an observer at rest sees it, against gravity.
    """
    A = np.zeros((6, PARAMETERS), dtype=object)
    dw, a = alpha[:3], alpha[3:]
    A[3:, 0] = a
    A[:3, 1:4] = -skew(a)
    A[3:, 1:4] = skew(dw) + product(skew(w), skew(w))
    A[:3, 4:] = moment_map(dw) + product(skew(w).astype(object), moment_map(w))
    return A


class Jacobian(NamedTuple):
    """A body's motion by independent velocities, in the frame of its description: columns of those that move it, (6, dofs)."""

    dofs: list[int]
    columns: np.ndarray


def body_jacobians(nodes: ModelTree[Any], bodies: ModelTree[Any]) -> dict[int, Jacobian]:
    """J of all `bodies` of a spanning tree, whose joints follow the independent velocities of `nodes`: v = G ẏ."""
    found: dict[int, Jacobian] = {}
    every = range(nodes.nv)
    for k, body in bodies.bodies.items():
        share = nodes.bodies[k].shared
        own = list(every[share.dofs]) if isinstance(share.dofs, slice) else [int(dof) for dof in share.dofs]
        below = found.get(body.joint.parent, Jacobian([], np.zeros((6, 0), dtype=object)))
        dofs = sorted({*below.dofs, *own})
        J = np.zeros((6, len(dofs)), dtype=object)
        J[:, [dofs.index(dof) for dof in below.dofs]] = body.X.scatter(below.columns)
        moved = [dofs.index(dof) for dof in own]
        J[:, moved] = J[:, moved] + product(body.joint_map, share.G)
        found[k] = Jacobian(dofs, J)
    return found


def all_bodies(nodes: ModelTree[Any]) -> ModelTree[Any]:
    """Every body of the model a node by itself, rotors too, in the motion of `nodes`."""
    spanning = nodes.model.spanning_tree()
    return model_tree(spanning, without_lumping(spanning), nodes.q, spanning_velocity(nodes))


def inverse_dynamics_regressor(nodes: ModelTree[Any], ddy: np.ndarray) -> np.ndarray:
    """Y with T = Y π for ÿ, (nv, 10 bodies), but for what armatures, springs and dampers take."""
    bodies = all_bodies(nodes)
    alpha = accelerations(bodies, spanning_acceleration(nodes, ddy))
    Y = np.zeros((nodes.nv, PARAMETERS * len(bodies.bodies)), dtype=object)
    for k, (dofs, J) in body_jacobians(nodes, bodies).items():
        pick = _own_frame(bodies, k)
        A = body_regressor(product(pick.place.R.T, bodies.bodies[k].w), pick.motion(alpha[pick.node]) + pick.bias)
        Y[dofs, PARAMETERS * k : PARAMETERS * (k + 1)] = product(pick.motion(J).T, A)
    return Y


def energy_regressor(nodes: ModelTree[Any]) -> np.ndarray:
    """The row whose product with π is the bodies' kinetic and potential energy, (10 bodies,) (Gautier and Khalil 1988)."""
    bodies = all_bodies(nodes)
    V = node_velocities(bodies, spanning_velocity(nodes))
    g: dict[Any, np.ndarray] = {bodies.below: np.array(bodies.model.gravity)}  # gravity in every body's axes
    u: dict[Any, Any] = {bodies.below: 0.0}  # the potential of one kilogram at every body's origin
    row = np.zeros(PARAMETERS * len(bodies.bodies), dtype=object)
    for k, body in bodies.bodies.items():
        g[body], u[body] = body.X.R.T @ g[body.on], u[body.on] - g[body.on] @ body.X.p
        pick = _own_frame(bodies, k)
        own, down = pick.motion(V[pick.node]), pick.place.R.T @ g[body]
        w, v = own[:3], own[3:]
        height = u[body] - g[body] @ pick.place.p
        row[PARAMETERS * k : PARAMETERS * (k + 1)] = [
            0.5 * product(v, v) + height,
            *(cross(v, w) - down),
            *(0.5 * product(w, moment_map(w))),
        ]
    return row


def _own_frame(bodies: ModelTree[Any], k: int) -> PickOff:
    """The operator that takes a body's motion to that of the frame in which its parameters are given."""
    return PickOff(bodies.node_of(k), k, bodies.bodies[k].C.inverse(), bodies.bodies[k])
