"""Public functions of constrained dynamics and impacts, compiled on first use.

`constraints` is one constraint or a sequence of them (`Weld`, `Connect`, `Hold`, `OnPlane`, `Rolling`,
`Locked`, `Coupled`); their rows follow one another in this order, m in all. See
docs/algorithms/constrained.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.caba import caba
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.ltl import ltl
from linkwork.algorithms.constrained.ltls import ltls
from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.constrained.proximal import Result, Settings, residual_norm
from linkwork.algorithms.constrained.pv import pv
from linkwork.algorithms.constrained.pv_early import pv_early
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.compiler.ir.functions import where
from linkwork.constraints import Constraint, loop_constraints, total
from linkwork.errors import ModelError
from linkwork.functions.constraint_options import (
    AUTO,
    constraint_settings,
    in_single_precision,
    settings_of,
)
from linkwork.functions.engine.call_arguments import as_numbers
from linkwork.functions.engine.model_function import model_function
from linkwork.model import GROUND, Model
from linkwork.sko import Tree

SOLVERS: dict[str, Callable[[ConstraintRows, np.ndarray, np.ndarray, Settings], Result]] = {
    "caba": caba,
    "pv": pv,
    "pv_early": pv_early,
    "ltls": ltls,
    "ltl": ltl,
}


def is_mass_matrix_candidate(model: Model, max_work: int = 60) -> bool:
    """Return whether factorizing the mass matrix may need fewer operations than sweeps.

    `max_work` bounds the entries of the factor per velocity. In a large cluster sweeps carry many velocities
    at once, so there the operations are always counted.
    """
    if isinstance(model, Tree):
        return True
    if any(len(cluster.independent) > 4 for cluster in model.clusters if cluster.constraints):
        return True
    depth_of_body: dict[int, int] = {GROUND: 0}  # velocities that move each body
    entries = 0
    for cluster in model.clusters:
        start = depth_of_body[model.joints[cluster.bodies[0]].parent]
        stop = start + len(cluster.independent)
        depth_of_body |= dict.fromkeys(cluster.bodies, stop)
        entries += sum(n * (n + 5) // 2 for n in range(start, stop))
    return entries <= max_work * model.nv


METHODS = dict.fromkeys(SOLVERS, lambda _: False) | {
    "caba": lambda _: True,
    "ltl": is_mass_matrix_candidate,
}  # what "auto" counts


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    targets="rows",
    warm_start="rows",
    active="constraints",
    compliance="rows",
    options=constraint_settings,
    methods=METHODS,
    custom_trees=True,
    rule_in="linkwork.functions.constrained_derivatives",
    single=in_single_precision,
)
def constrained_dynamics(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any = None,
    targets: Any = None,
    warm_start: Any = None,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    method: str = "caba",
    compliance: Any = AUTO,
    iterations: int = 100,
    tolerance: float | str | None = AUTO,
    details: bool = False,
) -> tuple[Any, ...]:
    """Return accelerations and constraint forces of a mechanism under joint forces and constraints.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    tau : array_like, shape (..., nv)
        Joint forces of the independent joints [N m, N].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    targets : array_like, shape (..., m), optional
        Accelerations of the rows [rad/s², m/s²]. Default zero.
    warm_start : array_like, shape (..., m), optional
        Initial constraint forces, such as those of the last time step.
    active : array_like, shape (..., constraints), optional
        1 or True for each of `constraints` that acts in a state. Loops of the model always act.
    constraints : Constraint or sequence
        Constraints, in the order of their rows; constrained loops of the model are appended.
    method : str, optional
        "caba" (default; linear in bodies and rows), "pv", "pv_early" (linear, more exact, fewer iterations),
        "ltls", "ltl", or "auto": the one with the fewest operations. The default for float32 is "pv".
    compliance : float, array_like or "auto", optional
        R [1/kg, 1/(kg m²)], one number, one per row, or an input (..., m) of at least two dimensions: 1/μ of
        the proximal iterations, which sets how fast they converge. "auto" is 2⁻¹⁸ (float32: 2⁻⁹, "caba" and
        "ltls" 2⁻⁷) of the typical entry of the Delassus matrix, separately for rows in m/s² and in rad/s², so
        results do not depend on units.
    iterations : int, optional
        Maximum number of proximal iterations. With at least four and the automatic tolerance, conjugate
        gradients follow where these converge slowly, near singular states.
    tolerance : float, None or "auto", optional
        Residual [rad/s², m/s²] at which iterations stop. "auto" is 1e-15 (float32: 5e-8) of the accelerations
        that the forces cause. None: always `iterations`, from the warm start unchanged, in a program without
        a loop.
    details : bool, optional
        Return four more results.

    Returns
    -------
    a : ndarray, shape (..., nv)
        Accelerations [rad/s², m/s²]. Without `details`, accelerations and forces are NaN in states where
        conjugate gradients did not converge, such as singular ones.
    forces : ndarray, shape (..., m)
        Force of each row on its first body, or in its joint, along the row's direction [N, N m]:
        M a + bias = tau + Jᵀ forces.
    violation, iterations, imbalance, converged : ndarray, shape (...)
        With `details`: the largest `abs(J a + bias - target)` of any row [rad/s², m/s²]; the number of
        iterations; the largest `abs(M a + bias - tau - Jᵀ forces)` [N m, N]; 1 where iterations converged,
        else 0. Rows that are redundant in all configurations and contradict each other converge too, with a
        violation. Results that are NaN have infinite residuals.

    See Also
    --------
    constrained_inverse_dynamics, constrained_dynamics_derivatives, delassus, impact

    Notes
    -----
    Algorithms of Constrained Sec. III to V. Redundant and contradicting rows are allowed: forces have the
    smallest sum of R forces², also after a warm start, and accelerations violate contradicting rows by the
    smallest sum of squares divided by R. One iteration, with the compliance that is meant, gives soft
    constraints as in MuJoCo (Constrained Eq. 42). Derivatives are those of
    `constrained_dynamics_derivatives`.

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> q, v = arm.random_state(0)
    >>> tip = lw.Connect(arm.bodies[-1].name)
    >>> a, forces = lw.constrained_dynamics(arm, q, v, np.zeros(3), constraints=tip)
    >>> a.shape, forces.shape
    ((3,), (3,))
    """
    check_motions(model, constraints)
    nodes = nodes_for(model, constraints, q, v, f_ext)
    held = ConstraintRows(nodes, constraints, targets, active)
    start = np.zeros(held.m) if warm_start is None else held.of_acting(-np.asarray(warm_start))
    settings = settings_of(model, constraints, q, compliance, iterations, tolerance, method)
    solution = SOLVERS[method](held, tau, start, settings)
    if details:
        return (*solution[:2], *reached(held, solution, tau))
    return where_converged(solution, settings)


def where_converged(solution: Result, settings: Settings) -> tuple[Any, Any]:
    """Return accelerations and forces, NaN where iterations that should converge did not."""
    if not settings.refines:
        return solution[:2]
    valid = where(solution.converged, 1.0, np.nan)
    return solution.ddtheta * valid, solution.forces * valid


def reached(held: ConstraintRows, solution: Result, tau: Any) -> tuple[Any, Any, Any, Any]:
    """Return the outputs added by `details`: violation of the rows, iterations, residual of the motion, and
    whether iterations converged.
    """
    missing = inverse_dynamics(held.nodes, solution.ddtheta) - tau - held.joint_forces(solution.forces)
    violation = residual_norm(held.of_acting(held.residual(solution.ddtheta)))
    return violation, solution.iterations, residual_norm(missing), solution.converged


def _restitution(model: Model, restitution: Any, **others: Any) -> dict[str, Any]:
    settings = constraint_settings(model, **others)
    m = total(model, settings["constraints"])
    e = as_numbers(restitution)
    e = np.full(m, e) if e.ndim == 0 else e
    if e.shape != (m,) or not (np.isfinite(e).all() and (e >= 0.0).all()):
        raise ModelError(f"restitution: expected a non-negative number, or {m} of them, got {restitution!r}")
    return settings | {"restitution": tuple(e.tolist())}


@model_function(
    q="nq",
    v="nv",
    active="constraints",
    compliance="rows",
    restitution="rows",
    options=_restitution,
    methods=METHODS,
    single=in_single_precision,
)
def impact(
    model: Model,
    q: Any,
    v: Any,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    restitution: Any = 0.0,
    method: str = "caba",
    compliance: Any = AUTO,
    iterations: int = 100,
    tolerance: float | str | None = AUTO,
    details: bool = False,
) -> tuple[Any, ...]:
    """Return velocities and impulses after an impact that activates constraints.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    active, constraints, method, compliance, iterations, tolerance, details
        As in `constrained_dynamics`, with velocities and impulses in place of accelerations and forces.
    restitution : float or array_like, optional
        One number, one per row, or an input (..., m): a row that moves with velocity w before moves with
        -restitution w after. Default 0, which projects v onto the null space of the constraint Jacobian in
        the kinetic-energy metric.

    Returns
    -------
    v : ndarray, shape (..., nv)
        Velocities after the impact.
    impulses : ndarray, shape (..., m)
        Impulses of the rows [N s, N m s].
    violation, iterations, imbalance, converged : ndarray, shape (...)
        With `details`, as in `constrained_dynamics`.
    """
    passive_model = model.without_passive_forces()
    rows = ConstraintRows(nodes_for(passive_model, constraints, q), constraints, active=active)
    rows.k = -(1.0 + np.array(restitution)) * (rows.jacobian() @ v)
    rows.velocities = v
    settings = settings_of(model, constraints, q, compliance, iterations, tolerance, method)
    no_forces = np.zeros(model.nv)
    solution = SOLVERS[method](rows, no_forces, np.zeros(rows.m), settings)
    if details:
        return v + solution.ddtheta, solution.forces, *reached(rows, solution, no_forces)
    change, impulses = where_converged(solution, settings)
    return v + change, impulses


def projected(model: Model, q: Any, v: Any) -> Any:
    """Return the velocities, (nv,), nearest to v that keep constrained loops closed."""
    return impact(model, q, v, constraints=())[0] if loop_constraints(model) else v
