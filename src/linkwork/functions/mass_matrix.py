"""Public functions of the mass matrix and its inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.tree import mass_matrix as composite
from linkwork.algorithms.tree import mass_matrix_inverse as inverted
from linkwork.errors import ModelError
from linkwork.functions.constrained import is_mass_matrix_candidate
from linkwork.functions.engine.model_function import model_function
from linkwork.model import GROUND, Model
from linkwork.sko.prepare.trees import hinge_tree, tree


@model_function(q="nq", custom_trees=True)
def mass_matrix(model: Model, q: Any, *, packed: bool = False) -> Any:
    """Return the mass matrix M, (..., nv, nv), by composite inertias (SKO Alg. 4.2).

    With `packed` only the entries of its upper triangle that a tree can fill, in the order of
    `mass_matrix_pattern`. Constrained loops are open: M is that of the model's own velocities, before any
    constraint acts.
    """
    M = composite.mass_matrix(hinge_tree(model, q, partition=True))
    return M[mass_matrix_pattern(model)] if packed else M


def mass_matrix_pattern(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the entries of the mass matrix's upper triangle that the tree can fill.

    They are listed row by row, as `mass_matrix` with `packed` returns them. Constrained loops are open.
    """
    if not isinstance(model, Model):
        raise ModelError(f"mass_matrix_pattern: expected a model, got {type(model).__name__}")
    filled = np.zeros((model.nv, model.nv), dtype=bool)
    cluster_of_body: dict[
        int, tuple[slice, int]
    ] = {}  # body -> velocities of its cluster, and the body that the cluster hangs on
    start = 0
    for cluster in model.clusters:
        columns = slice(start, start + len(cluster.independent))
        start = columns.stop
        parent = model.joints[cluster.bodies[0]].parent
        cluster_of_body |= dict.fromkeys(cluster.bodies, (columns, parent))
        filled[columns, columns] = True
        while parent != GROUND:
            ancestor, parent = cluster_of_body[parent]
            filled[ancestor, columns] = True
    rows, filled_columns = np.nonzero(np.triu(filled))
    return rows, filled_columns


@model_function(
    q="nq",
    methods={
        "sweeps": lambda _: True,
        "factorisation": lambda model: is_mass_matrix_candidate(model, max_work=120),
    },
    custom_trees=True,
)
def mass_matrix_inverse(model: Model, q: Any, *, method: str = "auto") -> Any:
    """Return the inverse of the mass matrix, (..., nv, nv).

    `method` is "sweeps" (SKO Eq. 51), "factorisation", or "auto": the one with fewer operations. Constrained
    loops are open, as in `mass_matrix`: the accelerations that forces cause with these loops enforced are
    ∂/∂tau of `forward_dynamics_derivatives`.
    """
    nodes = tree(model, q, partition=True)
    return inverted.by_sweeps(nodes) if method == "sweeps" else inverted.by_factorisation(nodes)
