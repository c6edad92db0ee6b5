"""Check for massless motions that neither loops nor constraints determine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.constraints import Constraint, all_constraints, with_nominal_numbers
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.sko.custom import Tree

MASSLESS_TOL = 1e-14  # inertia, relative to the largest, that may stem from rounding


def check_motions(
    model: Model | Tree, constraints: Sequence[Constraint] = (), prescribed: np.ndarray | None = None
) -> None:
    """Raise ModelError if massless links can move, such as a rod that spins between two balls.

    A joint outside loops is left to the check at its hinge; `prescribed` velocities, (nv,), need no mass.
    """
    if isinstance(model, Tree) or model.inertia_inputs:
        return
    nominal = model.nominal
    constraints = all_constraints(nominal, with_nominal_numbers(model, constraints))
    if not (nominal.loops or constraints) or all(body.mass or np.any(body.moment) for body in nominal.bodies):
        return
    nodes = nodes_for(nominal, constraints, nominal.random_state(0)[0])
    M = np.asarray(mass_matrix(nodes), dtype=float)
    free = np.eye(nominal.nv) if prescribed is None else np.eye(nominal.nv)[:, ~prescribed]
    if constraints:
        J = np.asarray(ConstraintRows(nodes, constraints).jacobian(), dtype=float) @ free
        _, s, directions = np.linalg.svd(J)
        free = free @ directions[int(np.sum(s > 1e-9 * s.max(initial=0.0))) :].T
    inertias, motions = np.linalg.eigh(free.T @ M @ free)
    if len(inertias) and inertias[-1] > 0.0 and inertias[0] < MASSLESS_TOL * inertias[-1]:
        name = nominal.v_names[int(np.argmax(np.abs(free @ motions[:, 0])))]
        raise ModelError(
            f"unconstrained massless degree of freedom {name!r}: its acceleration is undefined; give its "
            "link an inertia, or remove the motion (a universal joint instead of a ball, Rod for a rod "
            "between two balls)"
        )
