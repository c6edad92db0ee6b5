"""The forces that tree joints transmit (Loops Eq. 30): what each body takes, less what loop joints give it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linkwork.algorithms.closure import spanning_acceleration, spanning_velocity
from linkwork.joints.closure import Row
from linkwork.model.bodies import Ground, MovingBody
from linkwork.model.described import plainly
from linkwork.model.loops import Constraint, Loop, count_rows
from linkwork.model.model import Model
from linkwork.model.nodes import Nodes
from linkwork.model.parts import GROUND
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product


def joint_forces(nodes: Nodes, ddy: np.ndarray, lam: np.ndarray, f_ext: np.ndarray | None) -> np.ndarray:
    """f of every tree joint on its body, in that body's frame, (bodies, 6), for λ of the equations that are kept.

    Every body is taken by itself here, rotors too: what is lumped into a carrier says nothing of the joint between the two.
    """
    model = nodes.model
    dq, ddq = spanning_velocity(nodes), spanning_acceleration(nodes, ddy)
    bodies: dict[int, Any] = {GROUND: Ground()}
    T, alpha = {GROUND: Pose.identity()}, {GROUND: nodes.ground.alpha}
    f: dict[int, np.ndarray] = {GROUND: np.zeros(6)}
    for k, joint in enumerate(model.joints):
        pushed = None if f_ext is None else f_ext[k]
        on, inertia = bodies[joint.parent], model.bodies[k].inertia
        body = MovingBody(on, joint, plainly(joint, on.C, inertia), nodes.q[joint.q_slice], pushed)
        body.move(dq[joint.v_slice])
        bodies[k], T[k] = body, T[joint.parent].then(body.X)
        alpha[k] = body.accelerate(alpha[joint.parent], ddq[joint.v_slice])
        f[k] = body.force(alpha[k])
    for loop, row, x in _loop_rows(model, lam):
        P, F = (T[end.body].then(bodies[end.body].C.inverse()).then(end.place) for end in (loop.predecessor, loop.successor))
        for end, push in ((loop.successor, x), (loop.predecessor, -x)):
            f[end.body] = f[end.body] - T[end.body].inverse().gather(_wrench(row, P, F) * push)
    for k in reversed(range(len(model.joints))):
        parent = model.joints[k].parent
        f[parent] = f[parent] + bodies[k].X.gather(f[k])
    return np.array([bodies[k].C.gather(f[k]) for k in range(len(model.bodies))], dtype=object).reshape(-1, 6)


def _loop_rows(model: Model, lam: np.ndarray) -> Iterator[tuple[Loop, Row, Any]]:
    """The equations of loop joints that are kept, with the force of each. Those of couplings act within tree joints."""
    forces = iter(lam)
    for cluster in model.clusters:
        every: list[tuple[Constraint, Row | None]] = []
        for c in cluster.constraints:
            every += [(c, row) for row in (c.kind.closure() if isinstance(c, Loop) else [None] * count_rows(c, model.joints))]
        for k, x in zip(cluster.rows, forces):
            constraint, row = every[k]
            if isinstance(constraint, Loop) and row is not None:
                yield constraint, row, x


def _wrench(row: Row, P: Pose, F: Pose) -> np.ndarray:
    """[m, f] on the successor at the world's origin for a unit of an equation's force: what K is the power of."""
    if row.across is not None:
        return np.concatenate([cross(product(F.R, np.array(row.along)), product(P.R, np.array(row.across))), np.zeros(3)])
    force = product(P.R, np.array(row.along)) if row.length is None else F.p - P.p
    return np.concatenate([cross(F.p, force), force])
