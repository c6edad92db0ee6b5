"""Public functions of dynamics: inverse and forward dynamics, bias and gravity forces.

All take NumPy arrays with any leading batch dimensions: q (..., nq), v, a and tau (..., nv), and accept
`out=`, `threads=`, `dtype="float32"`, `check=True` and `parameters=`. Quaternions in q are normalized inside.
Kernels are compiled on first use. See docs/conventions.md for frames and units.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.constrained.spanning_dynamics import (
    dense_work,
    spanning_dynamics,
    unsupported_reason,
)
from linkwork.algorithms.tree import forward_dynamics as forward
from linkwork.algorithms.tree import inverse_dynamics as inverse
from linkwork.constraints import loop_constraints
from linkwork.errors import ModelError
from linkwork.functions.constrained import constrained_dynamics, is_mass_matrix_candidate
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model
from linkwork.model.partition import is_partition_candidate
from linkwork.sko import Tree
from linkwork.sko.prepare.attached_modes import Attached, bases
from linkwork.sko.prepare.rotors import unit_of_mass
from linkwork.sko.prepare.trees import hinge_tree


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", custom_trees=True)
def inverse_dynamics(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None) -> Any:
    """Return the joint forces of a motion by the recursive Newton-Euler algorithm (SKO Alg. 3.1).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, [moment, force] [N m, N], at the origin and in the axes of its frame.

    Returns
    -------
    ndarray, shape (..., nv)
        Joint forces tau [N m, N].

    See Also
    --------
    forward_dynamics : Accelerations from joint forces.
    constrained_inverse_dynamics : Forces of selected actuators and of constraints.

    Notes
    -----
    Gravity, armature, damping and stiffness act. Dry friction, joint limits and contacts do not; they act in
    time steps (`step`). Constrained loops are open and transmit no force: tau is one choice among all forces
    that produce the motion, the one that needs no loop forces.

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> lw.inverse_dynamics(arm, np.zeros(3), np.zeros(3), np.zeros(3)).shape
    (3,)
    """
    return inverse.inverse_dynamics(hinge_tree(model, q, v, f_ext, partition=True), a)


# operations of a dense joint map above which elimination on the spanning tree is a candidate, and above which
# it is always cheaper, so that other methods are not traced
MIN_SPANNING_WORK = 1000
MAX_DENSE_WORK = 20000


def _is_spanning_candidate(model: Model, min_work: int) -> bool:
    """Return whether loops may be eliminated on the spanning tree.

    `min_work` is the number of operations of a dense joint map above which that is a candidate.
    """
    if isinstance(model, Tree) or model.constrained_loops or dense_work(model) < min_work:
        return False
    return unsupported_reason(model.nominal) is None


def _needs_spanning_tree(model: Model) -> bool:
    """Return whether clusters are so large that other methods need not be compared."""
    return _is_spanning_candidate(model, MAX_DENSE_WORK)


def _details_option(model: Model, details: bool, **_: Any) -> dict[str, Any]:
    """Return the option `details`, which requires constrained loops; raise ModelError without them."""
    if details and (isinstance(model, Tree) or not loop_constraints(model)):
        raise ModelError("forward_dynamics: details= requires constrained loops; this model has none")
    return {"details": details}


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    methods={
        "articulated_body": lambda model: not _needs_spanning_tree(model),
        "mass_matrix": lambda model: is_mass_matrix_candidate(model) and not _needs_spanning_tree(model),
        "partitioned": lambda model: is_partition_candidate(model) and not _needs_spanning_tree(model),
        "spanning_tree": lambda model: _is_spanning_candidate(model, MIN_SPANNING_WORK),
        "attached_modes": lambda model: is_partition_candidate(model) and bool(bases(model)),
    },
    custom_trees=True,
    rule_in="linkwork.functions.constrained_derivatives",
    options=_details_option,
)
def forward_dynamics(
    model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, *, method: str = "auto", details: bool = False
) -> Any:
    """Return the accelerations under joint forces, by articulated bodies or by the mass matrix.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    tau : array_like, shape (..., nv)
        Joint forces [N m, N].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    method : str, optional
        "articulated_body" (SKO Alg. 6.1), "mass_matrix", "partitioned" (articulated bodies with hinges split
        into single velocities), "spanning_tree" (forces of embedded loops eliminated on the spanning tree),
        "attached_modes" (flexible bodies in modal coordinates that are displacements and slopes of attached
        parts), or "auto": the possible method with the fewest operations.
    details : bool, optional
        Only with constrained loops: also return the largest violation, the number of iterations, the
        imbalance of the equations of motion and whether iterations converged, as in `constrained_dynamics`.

    Returns
    -------
    ndarray, shape (..., nv)
        Accelerations [rad/s², m/s²]; with `details` a tuple that begins with them. Without, they are NaN
        where forces of constrained loops did not converge, as in singular states.

    Raises
    ------
    ModelError
        If a joint moves no mass, or `method` is not possible for this model.

    See Also
    --------
    inverse_dynamics : Joint forces from accelerations.
    constrained_dynamics : With contact and other constraints.
    hybrid_dynamics : With some accelerations prescribed.
    step : One time step with joint limits, dry friction and contact.

    Notes
    -----
    Gravity, armature, damping and stiffness act, and constrained loops of the model are enforced. Dry
    friction, joint limits and contacts act in time steps only (`step`, `rollout`, `simulate`), where impulses
    satisfy their laws.

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> q, v = arm.random_state(0)
    >>> a = lw.forward_dynamics(arm, q, v, np.zeros(3))
    >>> np.allclose(lw.inverse_dynamics(arm, q, v, a), 0.0)
    True
    """
    if loop_constraints(model):
        solver = "ltl" if method == "mass_matrix" else "caba"
        result = constrained_dynamics(model, q, v, tau, f_ext, constraints=(), method=solver, details=details)
        return (result[0], *result[2:]) if details else result[0]
    check_motions(model)
    if method == "spanning_tree" and not isinstance(model, Tree) and model.embedded:
        reason = unsupported_reason(model.nominal)
        if reason:
            raise ModelError(
                f"forward_dynamics: method 'spanning_tree' is not possible: {reason}; use another, or "
                f'"auto"'
            )
        return spanning_dynamics(model, q, v, tau, f_ext)
    # accelerations do not depend on the unit of mass; a unit that makes factors 1 saves operations
    unit = 1.0 if isinstance(model, Tree) else unit_of_mass(model)
    if method == "attached_modes" and not isinstance(model, Tree) and not model.partition:
        attached = Attached.of(model, q, v, tau)
        return attached.accelerations(
            forward_dynamics(
                attached.model, attached.q, attached.v, attached.tau, f_ext, method="partitioned"
            )
        )
    if method in ("partitioned", "attached_modes") and not model.partition:
        model = model.partitioned()
    nodes = hinge_tree(model, q, v, f_ext, unit=unit, partition=True)
    if unit != 1.0:
        tau = tau * (1.0 / unit)
    return (
        forward.by_mass_matrix(nodes, tau)
        if method == "mass_matrix"
        else forward.articulated_body(nodes, tau)
    )


@model_function(q="nq", v="nv", f_ext="bodies 6", custom_trees=True)
def bias_force(model: Model, q: Any, v: Any, f_ext: Any = None) -> Any:
    """Return the joint forces at zero acceleration, (..., nv) [N m, N], so that M a + bias_force = tau.

    `f_ext` (..., bodies, 6) as in `inverse_dynamics`. Constrained loops are open: with their forces f,
    M a + bias_force = tau + Jᵀ f.
    """
    return inverse.inverse_dynamics(hinge_tree(model, q, v, f_ext, partition=True), np.zeros(model.nv))


@model_function(q="nq")
def gravity_force(model: Model, q: Any) -> Any:
    """Return the joint forces that balance gravity alone, (..., nv) [N m, N].

    Springs and tendons do not act. Constrained loops are open and transmit nothing, as in `inverse_dynamics`.
    """
    nodes = hinge_tree(model.without_body_loads(tendons_only=True), q, partition=True)
    return inverse.inverse_dynamics(nodes, np.zeros(model.nv), passive=False)
