"""Motions that move no mass: where nothing determines them, their accelerations are not defined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.mass_matrix import mass_matrix
from linkwork.constraints import Constraint
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.sko.by_hand import Tree

LIGHT = 1e-14  # an inertia, relative to the largest, that rounding may have made


def check_motions(model: Model | Tree, constraints: Sequence[Constraint] = ()) -> None:
    """An error where links without mass can move though loops and constraints hold, such as a rod that spins between two balls.

    What a joint alone tells, where it is in no loop, is left to its hinge.
    """
    if isinstance(model, Tree) or model.inertia_inputs:
        return
    own = model.structure
    if not (own.loops or constraints) or all(body.mass or np.any(body.moment) for body in own.bodies):
        return
    nodes = nodes_for(own, constraints, own.random_state(0)[0])
    M = np.asarray(mass_matrix(nodes), dtype=float)
    free = np.eye(own.nv)
    if constraints:
        J = np.asarray(ConstraintRows(nodes, constraints).jacobian(), dtype=float)
        _, s, directions = np.linalg.svd(J)
        free = directions[int(np.sum(s > 1e-9 * s.max(initial=0.0))) :].T
    inertias, motions = np.linalg.eigh(free.T @ M @ free)
    if len(inertias) and inertias[-1] > 0.0 and inertias[0] < LIGHT * inertias[-1]:
        name = own.v_names[int(np.argmax(np.abs(free @ motions[:, 0])))]
        raise ModelError(
            f"{name!r} moves no mass, and neither loops nor constraints determine it, so its acceleration is not defined: give "
            "its link an inertia, or let it not move (a universal joint for a ball, Rod for a rod between two balls)"
        )
