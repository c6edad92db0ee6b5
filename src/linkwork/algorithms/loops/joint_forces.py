"""Forces transmitted by tree joints (Loops Eq. 25, with the forces of loop joints as separate terms)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import spanning_acceleration, spanning_velocity
from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.mechanism import GROUND, LoopConstraint
from linkwork.model import Model
from linkwork.sko.prepare.frames import without_lumping
from linkwork.sko.tree import ModelTree, model_tree
from linkwork.sko.weights import in_block
from linkwork.spatial import Pose


def joint_forces(
    nodes: ModelTree[Any], ddy: np.ndarray, lam: np.ndarray, f_ext: np.ndarray | None
) -> np.ndarray:
    """Return f of every tree joint on its body, in that body's frame, (bodies, 6), for loop forces λ.

    Every body is a node by itself here, rotors too: lumping a rotor's inertia into its carrier hides the
    joint between the two.
    """
    spanning = nodes.model.spanning_tree()
    tree = model_tree(spanning, without_lumping(spanning), nodes.q, spanning_velocity(nodes), f_ext)
    alpha = accelerations(tree, spanning_acceleration(nodes, ddy))
    T = {GROUND: Pose.identity()}
    f: dict[Any, np.ndarray] = {tree.ground: np.zeros(6)}
    for k, body in tree.bodies.items():
        T[k] = T[body.joint.parent].then(body.X)
        f[tree.node_of(k)] = tree.node_of(k).force(alpha[tree.node_of(k)])
    for loop, row, x in loop_rows(nodes.model, lam):
        P, F = (T[end.body].then(tree[end.body].C.inverse()).then(end.place) for end in loop.ends)
        wrench = loop.wrench(row, P, F)
        for end, signed_force in zip(loop.ends, (-x, x)):
            node_of_end = tree.node_of(end.body)
            f[node_of_end] = f[node_of_end] - in_block(
                T[end.body].inverse().gather(wrench * signed_force), slice(0, 6), node_of_end.rows
            )
    for node in tree.tips_to_base():
        f[node.parent] = f[node.parent] + node.A.gather(f[node])
    bodies = range(len(tree.bodies))
    return np.array([tree[k].C.gather(f[tree.node_of(k)][:6]) for k in bodies], dtype=object).reshape(-1, 6)


def loop_rows(model: Model, lam: np.ndarray) -> Iterator[tuple[LoopConstraint, int, Any]]:
    """Return the equations of loop joints in use, with their forces.

    Forces of couplings act within tree joints and are left out.
    """
    forces = iter(lam)
    for cluster in model.clusters:
        equations = [(c, row) for c in cluster.constraints for row in range(c.count(model.joints))]
        for k, x in zip(cluster.used, forces):
            constraint, row = equations[k]
            if constraint.ends:
                yield constraint, row, x
