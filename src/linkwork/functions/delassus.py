"""Public functions of the Delassus matrix, its damped inverse, and force propagators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained import delassus as family
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.constraints import Constraint
from linkwork.errors import ModelError
from linkwork.functions.constraint_options import (
    AUTO,
    damped_options,
    in_single_precision,
    normalize_constraints,
    per_row,
)
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism import path_to_ground
from linkwork.model import Frame, Model
from linkwork.sko.prepare.trees import tree


def _propagator_options(model: Model, frame: Any, to: Any) -> dict[str, Any]:
    frames = [model.frame(name.name if isinstance(name, Frame) else name) for name in (frame, to)]
    path = path_to_ground(frames[0].body, model.joints)
    if frames[1].body not in path:
        raise ModelError(
            f"{frames[1].name!r} does not carry {frames[0].name!r}, so no force propagates to it from there"
        )
    cluster_bodies = next((c.bodies for c in model.clusters if frames[1].body in c.bodies), ())
    entry = next((k for k in path if k in cluster_bodies), frames[1].body)
    # such a force acts on another body of the cluster, and on `to` only through constraint forces
    if entry != frames[1].body:
        between = model.bodies[entry].name
        raise ModelError(
            f"force_propagator: {frames[1].name!r} carries {frames[0].name!r} through body {between!r} of "
            "its loops: a force there does not act on it alone; choose a frame on that body, or below "
            "the loops"
        )
    return {"frame": frames[0].name, "to": frames[1].name}


@model_function(q="nq", options=_propagator_options)
def force_propagator(model: Model, q: Any, *, frame: str, to: str) -> Any:
    """Return the extended force propagator, (..., 6, 6), between two frames (Constrained Sec. VI-A).

    It maps a force [m, f] on `frame` to the force on `to`, which carries it, while all joints move freely.
    Both forces are at the frames' origins and in their axes. Constrained loops are open.
    """
    return family.force_propagator(tree(model, q, all_bodies=True), model.frame(frame), model.frame(to))


@model_function(
    q="nq",
    active="constraints",
    options=normalize_constraints,
    methods={"sweeps": lambda _: True, "factorisation": lambda _: True},
    custom_trees=True,
)
def delassus(
    model: Model,
    q: Any,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    method: str = "auto",
    packed: bool = False,
) -> Any:
    """Return the Delassus matrix J M⁻¹ Jᵀ, (..., m, m): row accelerations caused by unit row forces.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    active, constraints
        As in `constrained_dynamics`; rows and columns of inactive constraints are zero.
    method : {"auto", "sweeps", "factorisation"}, optional
        PV-OSIMr (Constrained Sec. VI) or the factor of the mass matrix; "auto": the one with fewer
        operations.
    packed : bool, optional
        Return the upper triangle row by row, (..., m (m + 1) / 2), in the order of `numpy.triu_indices`.

    Returns
    -------
    ndarray, shape (..., m, m)
        Units [1/kg, 1/(kg m²)].

    See Also
    --------
    damped_delassus_inverse, operational_inertia
    """
    rows = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    matrix = family.delassus(rows) if method == "sweeps" else family.by_factorisation(rows)
    return matrix[np.triu_indices(rows.m)] if packed else matrix


@model_function(
    q="nq",
    active="constraints",
    compliance="rows",
    options=damped_options,
    methods=dict.fromkeys(("caba", "pv", "ltl"), lambda _: True),
    custom_trees=True,
    single=in_single_precision,
)
def damped_delassus_inverse(
    model: Model,
    q: Any,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    compliance: Any = AUTO,
    method: str = "auto",
    packed: bool = False,
) -> Any:
    """Return (J M⁻¹ Jᵀ + R)⁻¹, (..., m, m), where R is the compliance of each row [1/kg, 1/(kg m²)].

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    active, constraints, compliance
        As in `constrained_dynamics`, with the compliance of "caba". Inactive rows have 1/R on the diagonal.
    method : {"auto", "caba", "pv", "ltl"}, optional
        "caba" is cABA-OSIM (Constrained Alg. 5); "pv" and "ltl" invert the Delassus matrix from sweeps or
        from the factor of the mass matrix. "auto": the one with the fewest operations.
    packed : bool, optional
        As in `delassus`.

    Returns
    -------
    ndarray, shape (..., m, m)
        Units [kg, kg m²].
    """
    rows = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    R = per_row(compliance, model, constraints, q)
    if method == "caba":
        matrix = family.damped_inverse(rows, R)
    else:
        matrix = family.inverted(
            family.delassus(rows) if method == "pv" else family.by_factorisation(rows), R
        )
    return matrix[np.triu_indices(rows.m)] if packed else matrix


@model_function(
    q="nq", active="constraints", compliance="rows", options=damped_options, single=in_single_precision
)
def damped_delassus_inverse_at_base(
    model: Model, q: Any, active: Any = None, *, constraints: Sequence[Constraint], compliance: Any = AUTO
) -> tuple[Any, Any]:
    """Return `damped_delassus_inverse` as B - C Cᵀ, without the coupling by a free base in B.

    This is cABA-OSIMf (Constrained Eq. 41): B couples only constraints in the same branch, so B x - C (Cᵀ x)
    costs less than the dense product. On a fixed base C is zero.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    active : array_like, shape (..., constraints), optional
        Which constraints act, as in `constrained_dynamics`. Default all.
    constraints : sequence of Constraint
        Constraints, with m rows.
    compliance : float, array_like or "auto"
        Compliance of the rows, as in `damped_delassus_inverse`.

    Returns
    -------
    B : ndarray, shape (..., m, m)
        Damped inverse with the free base held.
    C : ndarray, shape (..., m, 6)
        Factor of the term due to the free base.
    """
    rows = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    return family.damped_inverse_at_base(rows, per_row(compliance, model, constraints, q))


@model_function(
    q="nq",
    x="rows",
    active="constraints",
    compliance="rows",
    options=damped_options,
    custom_trees=True,
    single=in_single_precision,
)
def damped_delassus_product(
    model: Model,
    q: Any,
    x: Any,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    compliance: Any = AUTO,
) -> Any:
    """Return `damped_delassus_inverse` times a vector, in linear time and without the matrix.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    x : array_like, shape (..., m)
        Vectors in the space of the m constraint rows.
    active : array_like, shape (..., constraints), optional
        Which constraints act, as in `constrained_dynamics`. Default all.
    constraints : sequence of Constraint
        Constraints.
    compliance : float, array_like or "auto"
        Compliance R of the rows, as in `damped_delassus_inverse`.

    Returns
    -------
    ndarray, shape (..., m)
        (J M⁻¹ Jᵀ + R)⁻¹ x.
    """
    rows = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    return family.product(rows, per_row(compliance, model, constraints, q), x)
