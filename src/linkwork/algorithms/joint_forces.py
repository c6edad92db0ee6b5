"""The forces that tree joints transmit (Loops Eq. 30): the force that each body needs, less those of loop joints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linkwork.algorithms.closing import spanning_acceleration, spanning_velocity
from linkwork.algorithms.inverse_dynamics import accelerations
from linkwork.model import Model
from linkwork.parts import GROUND, LoopConstraint
from linkwork.simplify.frames import without_lumping
from linkwork.sko.tree import ModelTree, model_tree
from linkwork.sko.weights import in_block
from linkwork.spatial import Pose


def joint_forces(nodes: ModelTree[Any], ddy: np.ndarray, lam: np.ndarray, f_ext: np.ndarray | None) -> np.ndarray:
    """f of every tree joint on its body, in that body's frame, (bodies, 6), for λ of the equations that are kept.

    Every body is a node by itself here, rotors too: inertia that is lumped into a carrier tells nothing of the joint between
    the two.
    """
    spanning = nodes.model.spanning_tree()
    tree = model_tree(spanning, without_lumping(spanning), nodes.q, spanning_velocity(nodes), f_ext)
    alpha = accelerations(tree, spanning_acceleration(nodes, ddy))
    T = {GROUND: Pose.identity()}
    f: dict[Any, np.ndarray] = {tree.ground: np.zeros(6)}
    for k, body in tree.bodies.items():
        T[k] = T[body.joint.parent].then(body.X)
        f[tree.node_of(k)] = tree.node_of(k).force(alpha[tree.node_of(k)])
    for loop, row, x in _loop_rows(nodes.model, lam):
        P, F = (T[end.body].then(tree[end.body].C.inverse()).then(end.place) for end in loop.ends)
        wrench = loop.wrench(row, P, F)
        for end, push in zip(loop.ends, (-x, x)):
            held = tree.node_of(end.body)
            f[held] = f[held] - in_block(T[end.body].inverse().gather(wrench * push), slice(0, 6), held.rows)
    for node in tree.tips_to_base():
        f[node.parent] = f[node.parent] + node.A.gather(f[node])
    bodies = range(len(tree.bodies))
    return np.array([tree[k].C.gather(f[tree.node_of(k)][:6]) for k in bodies], dtype=object).reshape(-1, 6)


def _loop_rows(model: Model, lam: np.ndarray) -> Iterator[tuple[LoopConstraint, int, Any]]:
    """The equations of loop joints that are kept, with the force of each. Those of couplings act within tree joints."""
    forces = iter(lam)
    for cluster in model.clusters:
        every = [(c, row) for c in cluster.constraints for row in range(c.count(model.joints))]
        for k, x in zip(cluster.rows, forces):
            constraint, row = every[k]
            if constraint.ends:
                yield constraint, row, x
