"""Public functions of dynamics: inverse and forward dynamics, mass matrix, bias and transmitted forces.

All take NumPy arrays with any leading batch dimensions: q (..., nq), v, a and tau (..., nv), and accept
`out=`, `threads=`, `dtype="float32"`, `check=True` and `parameters=`. Quaternions in q are normalized inside.
Kernels are compiled on first use. See docs/conventions.md for frames and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.constrained.spanning_dynamics import dense_work, spanning_dynamics, spanning_obstacle
from linkwork.algorithms.loops import active_joints as active
from linkwork.algorithms.loops import joint_forces as transmitted
from linkwork.algorithms.loops.actuator_map import check_driven
from linkwork.algorithms.loops.closing import independent_force
from linkwork.algorithms.loops.embed_all import EmbeddedState, embed_all, embedded_state, independent_indices
from linkwork.algorithms.tree import forward_dynamics as forward
from linkwork.algorithms.tree import inverse_dynamics as inverse
from linkwork.algorithms.tree import mass_matrix as composite
from linkwork.algorithms.tree import mass_matrix_inverse as inverted
from linkwork.constraints import loop_constraints
from linkwork.errors import ModelError
from linkwork.functions.constrained import constrained_dynamics, is_mass_matrix_candidate
from linkwork.functions.engine.call_arguments import as_numbers
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism.names import printable
from linkwork.model import GROUND, Model
from linkwork.model.partition import is_partition_candidate
from linkwork.sko import Tree
from linkwork.sko.prepare.attached_modes import Attached, bases
from linkwork.sko.prepare.rotors import unit_of_mass
from linkwork.sko.prepare.trees import hinge_tree, tree


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", custom_trees=True)
def inverse_dynamics(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None) -> Any:
    """Return the joint forces of a motion by the recursive Newton-Euler algorithm (SKO Alg. 3.1).

    Parameters
    ----------
    q, v, a : array_like, shapes (..., nq), (..., nv), (..., nv)
        Configurations, velocities [rad/s, m/s] and accelerations [rad/s², m/s²] of the independent joints.
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
    time steps (`step`). Constrained loops transmit no force: tau is one choice among all forces that produce
    the motion, the one that needs no loop forces.

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
    return spanning_obstacle(model.nominal) is None


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
    q, v : array_like, shapes (..., nq), (..., nv)
        Configurations and velocities [rad/s, m/s].
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
        Accelerations [rad/s², m/s²]; with `details` a tuple that begins with them.

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
        reason = spanning_obstacle(model.nominal)
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

    `method` is "sweeps" (SKO Eq. 57), "factorisation", or "auto": the one with fewer operations. Constrained
    loops are open, as in `mass_matrix`: the accelerations that forces cause with these loops enforced are
    ∂/∂tau of `forward_dynamics_derivatives`.
    """
    nodes = tree(model, q, partition=True)
    return inverted.by_sweeps(nodes) if method == "sweeps" else inverted.by_factorisation(nodes)


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

    Springs do not act. Constrained loops are open and transmit nothing, as in `inverse_dynamics`.
    """
    return inverse.inverse_dynamics(hinge_tree(model, q, partition=True), np.zeros(model.nv), passive=False)


def positive_weights(weights: Any, count: int, label: str) -> tuple[float, ...]:
    """Return `count` positive numbers; all 1 if `weights` is None."""
    values = np.ones(count) if weights is None else as_numbers(weights)
    if values.shape != (count,) or not np.all((values > 0) & np.isfinite(values)):
        raise ModelError(f"weights: expected {count} positive numbers, one for each {label}, got {weights!r}")
    return tuple(values.tolist())


def cost_weights(minimize: Any, weights: Any, counts: Mapping[str, tuple[int, str]]) -> tuple[float, ...]:
    """Return the weights of the quantity to minimize; `counts` gives size and label for each name."""
    if minimize not in [*counts]:  # a list, since the argument may not be hashable
        raise ModelError(f"minimize: expected one of {', '.join(counts)}, got {minimize!r}")
    return positive_weights(weights, *counts[minimize])


def actuated_indices(model: Model, actuators: Any, label: str = "actuators") -> tuple[int, ...]:
    """Return indices into the velocities of the spanning tree, from names of joints or of velocities."""
    names = [name for joint in model.joints for name in joint.v_names]
    indices: list[int] = []
    if not isinstance(actuators, Iterable):
        raise ModelError(f"{label}: expected names of joints or of their velocities, got {actuators!r}")
    for name in [actuators] if isinstance(actuators, str) else actuators:
        if name in names:
            indices.append(names.index(name))
        else:
            velocities = model.joint(name).v_slice
            indices += range(velocities.start, velocities.stop)
    if len(set(indices)) < len(indices):
        raise ModelError(f"{label}: expected different joints, got {actuators!r}")
    return tuple(indices)


def _actuator_options(model: Model, actuators: Any, weights: Any) -> dict[str, Any]:
    indices = actuated_indices(model, actuators)
    check_driven(embed_all(model.nominal), indices)
    return {"actuators": indices, "weights": positive_weights(weights, len(indices), "actuated velocity")}


@model_function(q="nq", tau="nv", options=_actuator_options)
def actuator_force(model: Model, q: Any, tau: Any, *, actuators: Iterable[Any], weights: Any = None) -> Any:
    """Return the forces of actuators in any joints that are equivalent to generalized forces tau.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    tau : array_like, shape (..., nv)
        Generalized forces of the independent joints [N m, N].
    actuators : names
        Driven joints or velocities, dependent or independent.
    weights : array_like, shape (actuators,), optional
        Where a cluster has more actuators than it needs, the weighted sum of squares of their forces is
        minimal. Default: ones.

    Returns
    -------
    ndarray, shape (..., actuators)
        Forces of the actuators [N m, N].

    Raises
    ------
    ModelError
        If a cluster has fewer actuators than it needs, or they do not determine its motion.

    See Also
    --------
    spanning_hybrid_dynamics : Active and passive joints in a motion, with other costs.
    independent_force : The reverse map.

    Notes
    -----
    A free base needs no actuators; entries of tau there are ignored (they vanish if contact forces are
    accounted for). Constrained loops are embedded.
    """
    embedded_model = embed_all(model)
    if embedded_model is not model:
        tau_spanning: Any = np.zeros(model.nv_spanning, dtype=object)
        tau_spanning[independent_indices(model)] = tau
        tau = independent_force(tree(embedded_model, q), tau_spanning)
    return active.actuator_force(tree(embedded_model, q), tau, tuple(actuators), np.array(weights))


def embedded_motion(function: str, model: Model, q: Any, v: Any, a: Any, tau_spanning: Any) -> EmbeddedState:
    """Return a motion with all loops embedded.

    Raises ModelError if the model has constrained loops and `tau_spanning` is missing, since loop forces are
    then undetermined.
    """
    if model.constrained_loops and tau_spanning is None:
        raise ModelError(
            f"{function}: {printable(model.name)} has constrained loops, for which all joints count as "
            "driven: give tau_spanning, the forces in all joints that produce this motion"
        )
    return embedded_state(model, q, v, a)


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning")
def loop_forces(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None) -> Any:
    """Return the forces of loops and couplings in a motion, one for each equation in use.

    Parameters
    ----------
    q, v, a : array_like, shapes (..., nq), (..., nv), (..., nv)
        Configurations, velocities and accelerations. With constrained loops v and a must keep them closed.
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    tau_spanning : array_like, shape (..., nv_spanning), optional
        Forces in all joints of the tree that produce this motion. By default all joints but the independent
        ones are passive. Required with constrained loops.

    Returns
    -------
    ndarray, shape (..., equations)
        Cluster by cluster in the order of `model.clusters`, there in the order of `used`: [N] for equations
        on lengths, [N m] for directions and angles.

    Raises
    ------
    ModelError
        If the model has no loops, or constrained loops and no `tau_spanning`.

    See Also
    --------
    joint_forces : Wrenches in tree joints.
    loop_joint_wrench : Wrench of one loop joint.
    constrained_dynamics : Constraint forces row by row.

    Notes
    -----
    Equations that are redundant in every configuration are not used and carry no force. Forces that equations
    share that are redundant in closed states only are those with the least sum of squares. Constrained loops
    are embedded, and clusters are those of that model.
    """
    motion = embedded_motion("loop_forces", model, q, v, a, tau_spanning)
    if not motion.model.embedded:
        raise ModelError(
            f"loop_forces: {printable(model.name)} has no loops or couplings; constrained_dynamics returns "
            "forces of constraints"
        )
    return active.loop_forces(tree(motion.model, q, motion.v), motion.a, f_ext, tau_spanning)


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning")
def joint_forces(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None) -> Any:
    """Return the wrench that each tree joint transmits to its body in a motion.

    Parameters
    ----------
    q, v, a : array_like, shapes (..., nq), (..., nv), (..., nv)
        Configurations, velocities and accelerations.
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    tau_spanning : array_like, shape (..., nv_spanning), optional
        As in `loop_forces`; required with constrained loops.

    Returns
    -------
    ndarray, shape (..., bodies, 6)
        Moment [N m] and force [N] at the origin and in the axes of each body's frame, in the order of
        `model.bodies`: the sum of bearing loads, drives, springs, dampers, armature and couplings of the
        joint.

    See Also
    --------
    loop_forces : Forces of loop equations, which act on the bodies as well.

    Notes
    -----
    Where loops share loads, joint wrenches are as undetermined as the loop forces.
    """
    motion = embedded_motion("joint_forces", model, q, v, a, tau_spanning)
    nodes = tree(motion.model, q, motion.v)
    return transmitted.joint_forces(
        nodes, motion.a, active.loop_forces(nodes, motion.a, f_ext, tau_spanning), f_ext
    )
