"""Public functions of hybrid dynamics: accelerations of some joints and forces of the others are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constrained_hybrid_dynamics import constrained_hybrid_dynamics
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.constrained.proximal import Result
from linkwork.algorithms.loops import active_joints
from linkwork.algorithms.loops.embed_all import embed_all, embedded_state
from linkwork.algorithms.tree import hybrid_dynamics as hybrid
from linkwork.constraints import Constraint, loop_constraints, user_constraints
from linkwork.errors import ModelError
from linkwork.functions.actuator_forces import cost_weights
from linkwork.functions.constrained import METHODS, SOLVERS, constrained_dynamics, reached, where_converged
from linkwork.functions.constraint_options import constraint_settings, in_single_precision, settings_of
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model, PlacedJoint
from linkwork.sko.prepare.trees import hinge_tree, tree

DEFAULTS = {
    word: constrained_dynamics.options[word]
    for word in ("method", "compliance", "iterations", "tolerance", "details")
}


def _mask(
    prescribed: Any, names: Sequence[str], label: str, joint: Callable[[str], PlacedJoint]
) -> tuple[bool, ...]:
    """Return a boolean for each velocity, True where prescribed, from a mask or from names."""
    if not isinstance(prescribed, Iterable):
        raise ModelError(
            f"prescribed: expected names of joints or of entries of {label}, or booleans, got {prescribed!r}"
        )
    if not isinstance(prescribed, (str, np.ndarray)):
        prescribed = list(prescribed)
    if isinstance(prescribed, np.ndarray) or (
        prescribed and all(isinstance(x, (bool, np.bool_)) for x in prescribed)
    ):
        given_mask = np.asarray(prescribed)
        if given_mask.shape != (len(names),) or given_mask.dtype != bool:
            raise ModelError(
                f"prescribed: expected names, or a boolean array of shape ({len(names)},), got "
                f"{given_mask.dtype} {given_mask.shape}"
            )
        return tuple(given_mask.tolist())
    mask = np.zeros(len(names), dtype=bool)
    for name in [prescribed] if isinstance(prescribed, str) else prescribed:
        if name in names:
            mask[names.index(name)] = True
        else:
            indices = [k for k, entry in enumerate(names) if entry in joint(name).v_names]
            if len(indices) < joint(name).nv:
                raise ModelError(
                    f"joint {name!r} is not independent: a loop determines its motion; prescribe another"
                )
            mask[indices] = True
    return tuple(mask.tolist())


def prescribed_velocities(model: Model, prescribed: Any) -> dict[str, Any]:
    """Return the option `prescribed` as a mask over v."""
    return {"prescribed": _mask(prescribed, model.v_names, "v", model.joint)}


def has_constraints(model: Model, constraints: Any) -> bool:
    """Return whether constraints are given or the model has constrained loops with equations."""
    has_constraints = not (isinstance(constraints, (list, tuple)) and not constraints)
    return has_constraints or bool(loop_constraints(model))


def hybrid_options(model: Model, prescribed: Any, constraints: Any, **others: Any) -> dict[str, Any]:
    """Return the options of hybrid dynamics, with those of constraints if any act."""
    settings = prescribed_velocities(model, prescribed)
    if has_constraints(model, constraints):
        return settings | constraint_settings(model, constraints=constraints, **others)
    for word, default in DEFAULTS.items():
        if word in others and others[word] != default:
            raise ModelError(f"hybrid_dynamics: {word}= requires constraints; none are given")
    return settings | {"constraints": ()}


@model_function(
    q="nq",
    v="nv",
    a="nv",
    tau="nv",
    f_ext="bodies 6",
    targets="rows",
    active="constraints",
    compliance="rows",
    options=hybrid_options,
    methods=METHODS,
    custom_trees=True,
    rule_in="linkwork.functions.hybrid_derivatives",
    single=in_single_precision,
)
def hybrid_dynamics(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    tau: Any,
    f_ext: Any = None,
    targets: Any = None,
    active: Any = None,
    *,
    prescribed: Iterable[Any],
    constraints: Sequence[Constraint] = (),
    method: str = DEFAULTS["method"],
    compliance: Any = DEFAULTS["compliance"],
    iterations: int = DEFAULTS["iterations"],
    tolerance: float | str | None = DEFAULTS["tolerance"],
    details: bool = False,
) -> tuple[Any, ...]:
    """Return all accelerations and joint forces where some of both are given (Lie Table 4 and Sec. 3.3).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations [rad/s², m/s²]; only entries of prescribed velocities are used.
    tau : array_like, shape (..., nv)
        Joint forces [N m, N]; only entries of the other velocities are used.
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    prescribed : names or boolean array, shape (nv,)
        Joints, or entries of `model.v_names`, whose acceleration is taken from `a`.
    constraints : Constraint or sequence, optional
        Constraints, whose rows accelerate as demanded as far as the prescribed motion allows.
    targets, active, method, compliance, iterations, tolerance, details
        As in `constrained_dynamics`; only with constraints or constrained loops.

    Returns
    -------
    a, tau : ndarray, shape (..., nv)
        All accelerations and all joint forces.
    forces : ndarray, shape (..., m)
        With `constraints` or `details`: forces of constraints and then of constrained loops, with
        M a + bias = tau + Jᵀ forces.
    violation, iterations, imbalance, converged : ndarray, shape (...)
        With `details`.

    See Also
    --------
    spanning_hybrid_dynamics : With active and passive joints in loops.
    hybrid_dynamics_derivatives : Derivatives.
    """
    mask = np.array(prescribed, dtype=bool)
    if not constraints:
        return hybrid.hybrid_dynamics(hinge_tree(model, q, v, f_ext, partition=True), a, tau, mask)
    check_motions(model, constraints, mask)
    rows = ConstraintRows(nodes_for(model, constraints, q, v, f_ext), constraints, targets, active)
    settings = settings_of(model, constraints, q, compliance, iterations, tolerance, method, ~mask)
    results = constrained_hybrid_dynamics(rows, SOLVERS[method], a, tau, mask, settings)
    solution = Result(results.ddtheta, results.forces, results.converged, results.iterations)
    if details:
        return (*results[:3], *reached(rows, solution, results.T))
    acc, forces = where_converged(solution, settings)
    return (acc, results.T, forces)[: 3 if user_constraints(model, constraints) else 2]


def _spanning_options(model: Model, prescribed: Any, minimize: Any, weights: Any) -> dict[str, Any]:
    names = [name for joint in model.joints for name in joint.v_names]
    mask = _mask(prescribed, names, "the spanning velocity", model.joint)
    equations = sum(len(cluster.used) for cluster in embed_all(model).clusters)
    counts = {
        "torque": (sum(mask), "prescribed velocity"),
        "constraint_force": (equations, "equation of loops that is used"),
    }
    return {"prescribed": mask, "weights": cost_weights(minimize, weights, counts)}


@model_function(
    q="nq",
    v="nv",
    a_spanning="nv_spanning",
    tau_spanning="nv_spanning",
    f_ext="bodies 6",
    options=_spanning_options,
)
def spanning_hybrid_dynamics(
    model: Model,
    q: Any,
    v: Any,
    a_spanning: Any,
    tau_spanning: Any,
    f_ext: Any = None,
    *,
    prescribed: Iterable[Any],
    minimize: str = "torque",
    weights: Any = None,
) -> tuple[Any, Any]:
    """Return accelerations and forces of all tree joints, of which some are active (Lie Sec. 3).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a_spanning : array_like, shape (..., nv_spanning)
        Accelerations of the active joints; other entries are ignored.
    tau_spanning : array_like, shape (..., nv_spanning)
        Forces of the other joints, zero where passive; entries of active joints are ignored.
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    prescribed : names or boolean array, shape (nv_spanning,)
        Active joints, in loops or not. As many as DoF: inverse dynamics; fewer: the passive joints follow the
        equations of motion; none: forward dynamics.
    minimize : {"torque", "constraint_force"}, optional
        With more active joints than DoF forces are not unique: the weighted sum of squares of the torques of
        active joints, or of the constraint forces of loops, is minimal. Inconsistent accelerations are
        replaced by the nearest consistent ones.
    weights : array_like, optional
        One for each active velocity or loop equation. Default: ones.

    Returns
    -------
    a_spanning, tau_spanning : ndarray, shape (..., nv_spanning)
        Accelerations and forces of all tree joints.

    Raises
    ------
    ModelError
        If constrained loops of the model cannot be embedded.
    """
    mask = np.array(prescribed, dtype=bool)
    embedded = embedded_state(model, q, v)
    nodes = tree(embedded.model, q, embedded.v)
    return active_joints.spanning_hybrid_dynamics(
        nodes, a_spanning, tau_spanning, f_ext, mask, minimize, np.array(weights)
    )
