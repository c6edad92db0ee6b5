"""Regressors of inverse dynamics and energy, which are linear in inertial parameters (Atkeson et al. 1986).

A body's ten parameters are those of its own frame: m, m c (3), then xx xy yy xz yz zz of the moment of
inertia about the origin (Khalil and Dombre, Modeling, Identification and Control of Robots). The inertial
force of its motion is A(k) π(k), and J(k)ᵀ maps it to the independent velocities: Y(k) = J(k)ᵀ A(k). Only J
depends on loops and gears.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.loops.closing import spanning_acceleration, spanning_velocity
from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.algorithms.tree.kinematics import node_velocities
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.sko.pick_offs import PickOff
from linkwork.sko.prepare.frames import without_lumping
from linkwork.sko.tree import ModelTree, model_tree
from linkwork.spatial import cross, skew
from linkwork.spatial.constants import product

PARAMETERS = 10  # of each body


def moment_map(x: np.ndarray) -> np.ndarray:
    """Return L, (3, 6), with L (xx xy yy xz yz zz) = I x."""
    return np.array(
        [[x[0], x[1], 0.0, x[2], 0.0, 0.0], [0.0, x[0], x[1], 0.0, x[2], 0.0], [0.0, 0.0, 0.0, *x]],
        dtype=object,
    )


def body_regressor(w: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return A, (6, 10), with A π = [m, f], the inertial force of a body's motion.

    f = m a + W (m c) and m = (m c) × a + I ẇ + w × I w. `alpha` is [ẇ, a], with a the acceleration of the
    frame's origin seen by an observer at rest, against gravity.
    """
    A = np.zeros((6, PARAMETERS), dtype=object)
    dw = alpha[:3]
    a = alpha[3:]
    A[3:, 0] = a
    A[:3, 1:4] = -skew(a)
    A[3:, 1:4] = skew(dw) + product(skew(w), skew(w))
    A[:3, 4:] = moment_map(dw) + product(skew(w).astype(object), moment_map(w))
    return A


class Jacobian(NamedTuple):
    """Motion of a body per independent velocity, (6, dofs), in its description frame.

    Only columns of velocities that move the body are stored.
    """

    dofs: list[int]
    columns: np.ndarray


def body_jacobians(nodes: ModelTree[Any], bodies: ModelTree[Any]) -> dict[int, Jacobian]:
    """Return J of all `bodies` of a spanning tree whose joints follow the velocities of `nodes`: v = G ẏ."""
    jacobians: dict[int, Jacobian] = {}
    all_dofs = range(nodes.nv)
    for k, body in bodies.bodies.items():
        coupling = nodes.bodies[k].shared
        body_dofs = (
            list(all_dofs[coupling.dofs])
            if isinstance(coupling.dofs, slice)
            else [int(dof) for dof in coupling.dofs]
        )
        parent = jacobians.get(body.joint.parent, Jacobian([], np.zeros((6, 0), dtype=object)))
        dofs = sorted({*parent.dofs, *body_dofs})
        J = np.zeros((6, len(dofs)), dtype=object)
        J[:, [dofs.index(dof) for dof in parent.dofs]] = body.X.scatter(parent.columns)
        columns = [dofs.index(dof) for dof in body_dofs]
        J[:, columns] = J[:, columns] + product(body.joint_map, coupling.G)
        jacobians[k] = Jacobian(dofs, J)
    return jacobians


def all_bodies(nodes: ModelTree[Any]) -> ModelTree[Any]:
    """Return nodes with every body of the model by itself, rotors too, in the motion of `nodes`."""
    spanning = nodes.model.spanning_tree()
    return model_tree(spanning, without_lumping(spanning), nodes.q, spanning_velocity(nodes))


def inverse_dynamics_regressor(nodes: ModelTree[Any], ddy: np.ndarray) -> np.ndarray:
    """Return Y with T = Y π for ÿ, (nv, 10 bodies), without armatures, springs and dampers."""
    bodies: Any = all_bodies(nodes)
    fractions = compensated_fractions(nodes.model)
    alpha = accelerations(bodies, spanning_acceleration(nodes, ddy))
    Y = np.zeros((nodes.nv, PARAMETERS * len(bodies.bodies)), dtype=object)
    for k, (dofs, J) in body_jacobians(nodes, bodies).items():
        pick = _own_frame(bodies, k)
        acceleration = pick.motion(alpha[pick.node]) + pick.bias
        if k in fractions:  # less acceleration against gravity
            g = product(pick.place.R.T, bodies.loads.gravity_in(bodies.bodies[k]))
            acceleration = np.array([*acceleration[:3], *(acceleration[3:] + fractions[k] * g)], dtype=object)
        A = body_regressor(product(pick.place.R.T, bodies.bodies[k].w), acceleration)
        Y[dofs, PARAMETERS * k : PARAMETERS * (k + 1)] = product(pick.motion(J).T, A)
    return Y


def energy_regressor(nodes: ModelTree[Any]) -> np.ndarray:
    """Return the row, (10 bodies,), whose product with π is the energy (Gautier and Khalil 1988)."""
    bodies = all_bodies(nodes)
    fractions = compensated_fractions(nodes.model)
    V = node_velocities(bodies, spanning_velocity(nodes))
    g: dict[Any, np.ndarray] = {bodies.below: np.array(bodies.model.gravity)}  # gravity in every body's axes
    u: dict[Any, Any] = {bodies.below: 0.0}  # the potential of one kilogram at every body's origin
    row = np.zeros(PARAMETERS * len(bodies.bodies), dtype=object)
    for k, body in bodies.bodies.items():
        g[body], u[body] = body.X.R.T @ g[body.on], u[body.on] - g[body.on] @ body.X.p
        pick = _own_frame(bodies, k)
        twist = pick.motion(V[pick.node])
        gravity = pick.place.R.T @ g[body]
        w = twist[:3]
        v = twist[3:]
        height = u[body] - g[body] @ pick.place.p
        if k in fractions:
            gravity = (1.0 - fractions[k]) * gravity
            height = (1.0 - fractions[k]) * height
        row[PARAMETERS * k : PARAMETERS * (k + 1)] = [
            0.5 * product(v, v) + height,
            *(cross(v, w) - gravity),
            *(0.5 * product(w, moment_map(w))),
        ]
    return row


def compensated_fractions(model: Model) -> dict[int, float]:
    """Return the compensated part of the weight by body; raise if it does not depend on the parameters."""
    fixed = [model.bodies[each.body].name for each in model.weight_compensations if each.mass is not None]
    if fixed:
        raise ModelError(
            f"regressors: forces are not linear in the parameters of body {fixed[0]!r}, whose links have "
            "different gravity_scale"
        )
    return {each.body: each.fraction for each in model.weight_compensations}


def _own_frame(bodies: ModelTree[Any], k: int) -> PickOff:
    """Return the operator that maps a body's motion to that of the frame of its parameters."""
    return PickOff(bodies.node_of(k), k, bodies.bodies[k].C.inverse(), bodies.bodies[k])
