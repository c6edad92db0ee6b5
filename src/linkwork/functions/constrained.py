"""The public functions of constrained mechanisms. They compile on first use, as those in `functions` do.

`constraints` is one constraint or a sequence of them (`Weld`, `Connect`, `Hold`, `OnPlane`, `Rolling`, `Locked`, `Coupled`);
their rows follow one another in this order, m in all. See docs/algorithms/constrained.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import delassus as family
from linkwork.algorithms.caba import caba
from linkwork.algorithms.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.ltl import ltl
from linkwork.algorithms.ltls import ltls
from linkwork.algorithms.massless import check_motions
from linkwork.algorithms.proximal import Result, Settings
from linkwork.algorithms.pv import pv
from linkwork.algorithms.pv_early import pv_early
from linkwork.constraints import Constraint, force_held_loops, total
from linkwork.errors import ModelError
from linkwork.functions.call_arguments import as_numbers
from linkwork.functions.model_function import model_function
from linkwork.ir.functions import where
from linkwork.model import GROUND, Frame, Model
from linkwork.parts import path_to_ground
from linkwork.simplify.trees import tree
from linkwork.sko import Tree

SOLVERS: dict[str, Callable[[ConstraintRows, np.ndarray, np.ndarray, Settings], Result]] = {
    "caba": caba,
    "pv": pv,
    "pv_early": pv_early,
    "ltls": ltls,
    "ltl": ltl,
}


def shallow(model: Model, most: int = 60) -> bool:
    """Whether factorising the mass matrix may cost less than sweeps: by the entries that its factor has, `most` for a velocity.

    In a large cluster sweeps carry many velocities at once, so there it is always worth counting.
    """
    if isinstance(model, Tree):
        return True
    if any(len(cluster.independent) > 4 for cluster in model.clusters if cluster.constraints):
        return True
    above: dict[int, int] = {GROUND: 0}  # velocities that move each body
    work = 0
    for cluster in model.clusters:
        before = above[model.joints[cluster.bodies[0]].parent]
        after = before + len(cluster.independent)
        above |= dict.fromkeys(cluster.bodies, after)
        work += sum(n * (n + 5) // 2 for n in range(before, after))
    return work <= most * model.nv


METHODS = dict.fromkeys(SOLVERS, lambda _: False) | {"caba": lambda _: True, "ltl": shallow}  # what "auto" counts


def chosen_constraints(model: Model, constraints: Any, **_: Any) -> dict[str, Any]:
    """The constraints as a tuple, each one known to fit the model, and the model's own loops that are not embedded."""
    chosen = (constraints,) if isinstance(constraints, Constraint) else constraints
    if not isinstance(chosen, Iterable) or isinstance(chosen, (str, bytes)):
        raise ModelError(f"constraints must be a constraint or several, such as Weld('foot'), not {constraints!r}")
    chosen = tuple(chosen)
    for constraint in chosen:
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"{constraint!r} is not a constraint; there are Weld, Connect, Hold, OnPlane, Rolling, Locked, Coupled"
            )
        constraint.labels(model)
    every = (*chosen, *(loop for loop in force_held_loops(model) if loop not in chosen))
    if total(model, every) == 0:
        raise ModelError("no constraint is given: give at least one, or use forward_dynamics or inverse_dynamics")
    return {"constraints": every}


def _damped(model: Model, constraints: Any, compliance: Any, **_: Any) -> dict[str, Any]:
    """The constraints, and a compliance for each row."""
    chosen = chosen_constraints(model, constraints)
    m = total(model, chosen["constraints"])
    R = as_numbers(compliance)
    R = np.full(m, R) if R.ndim == 0 else R
    if R.ndim > 1:
        raise ModelError(
            f"compliance must be a number or {m} of them where it is an option: for each state it is an input, (..., {m})"
        )
    if R.shape != (m,) or not (np.isfinite(R).all() and (R > 0.0).all()):
        raise ModelError(f"compliance must be a number above zero, or {m} of them, one for each row, not {compliance!r}")
    return chosen | {"compliance": tuple(R.tolist())}


def _per_row(compliance: Any) -> np.ndarray:
    """R, (m,); where it is an input, NaN for what is not above zero."""
    if isinstance(compliance, tuple):
        return np.array(compliance)
    return np.array([where(r > 0.0, r, np.nan) for r in compliance], dtype=object)


def _settings(model: Model, iterations: Any, tolerance: Any, **others: Any) -> dict[str, Any]:
    """All options of constrained dynamics."""
    if isinstance(iterations, bool) or not isinstance(iterations, (int, np.integer)) or iterations < 1:
        raise ModelError(f"iterations must be a whole number of at least 1, not {iterations!r}")
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and np.isfinite(tolerance) and tolerance >= 0.0):
        raise ModelError(f"tolerance must be a number that is not negative, or None, not {tolerance!r}")
    limits = {"iterations": int(iterations), "tolerance": None if tolerance is None else float(tolerance)}
    return _damped(model, **others) | limits


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    targets="rows",
    warm_start="rows",
    active="constraints",
    compliance="rows",
    options=_settings,
    methods=METHODS,
    by_hand=True,
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
    compliance: Any = 1e-6,
    iterations: int = 20,
    tolerance: float | None = 1e-10,
    details: bool = False,
) -> tuple[Any, ...]:
    """The acceleration under joint forces tau and constraints, (..., nv), and the constraints' forces, (..., m).

    A row's force is what acts on its first body (or in its joint) along the row's direction: M a + bias = tau + Jᵀ forces.
    `targets` (..., m) are accelerations [rad/s² or m/s²] that the rows shall have instead of none. `warm_start` (..., m) are
    forces to begin with, such as those of the last time step. `active` (..., constraints), bool or 0 and 1, says which of
    `constraints`, in their order, act in each state: others have no force and do not act, as if they were not given. Loops of
    the model always act.

    `method` is "caba" (linear in bodies and rows), "pv", "pv_early" (linear, more exact, fewer iterations), "ltls" or "ltl",
    or "auto": the one that needs the fewest operations for this model. `compliance` [1/kg or 1/(kg m²)], one number or one
    for each row, is 1/μ of the proximal iterations: it says how fast they converge, not where to. It may also be an array
    (..., m) of at least two dimensions, one for each row in each state: an input of the kernel. Redundant and
    contradicting rows are ordinary input: the forces are then not unique, and the accelerations those of least squares.
    Iterations end where no row changes by more than `tolerance` [rad/s² or m/s²], or after `iterations`; with tolerance None
    there are always so many, and the program has no loop. One iteration, with the compliance that is meant, gives soft
    constraints, as MuJoCo's are (Constrained Eq. 42).

    `details` gives two more results: the largest violation of any row, (...), and the number of iterations, (...).
    """
    check_motions(model, constraints)
    nodes = nodes_for(model, constraints, q, v, f_ext)
    held = ConstraintRows(nodes, constraints, targets, active)
    start = np.zeros(held.m) if warm_start is None else held.of_acting(-np.asarray(warm_start))
    found = SOLVERS[method](held, tau, start, Settings(_per_row(compliance), iterations, tolerance))
    return tuple(found) if details else found[:2]


def _restitution(model: Model, restitution: Any, **others: Any) -> dict[str, Any]:
    chosen = _settings(model, **others)
    m = total(model, chosen["constraints"])
    e = as_numbers(restitution)
    e = np.full(m, e) if e.ndim == 0 else e
    if e.shape != (m,) or not (np.isfinite(e).all() and (e >= 0.0).all()):
        raise ModelError(f"restitution must be a number that is not negative, or {m} of them, not {restitution!r}")
    return chosen | {"restitution": tuple(e.tolist())}


@model_function(
    q="nq", v="nv", active="constraints", compliance="rows", restitution="rows", options=_restitution, methods=METHODS
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
    compliance: Any = 1e-6,
    iterations: int = 20,
    tolerance: float | None = 1e-10,
) -> tuple[Any, Any]:
    """The velocities after an impact that activates constraints, (..., nv), and their impulses [N s or N m s], (..., m).

    A row that moves with velocity w before moves with -`restitution` * w after: not at all, if it is zero, so that v is
    projected onto the null space of the constraint Jacobian, in the kinetic-energy metric. `active`, and other options, as in
    `constrained_dynamics`; `restitution` may be an array (..., m) as `compliance` may.
    """
    still = model.weightless()
    held = ConstraintRows(nodes_for(still, constraints, q), constraints, active=active)
    held.k = -(1.0 + np.array(restitution)) * (held.jacobian() @ v)
    settings = Settings(_per_row(compliance), iterations, tolerance)
    found = SOLVERS[method](held, np.zeros(model.nv), np.zeros(held.m), settings)
    return v + found.ddtheta, found.forces


def projected(model: Model, q: Any, v: Any) -> Any:
    """The velocities, (nv,), next to v in the kinetic-energy metric, that keep force-held loops closed at q."""
    return impact(model, q, v, constraints=())[0] if model.force_held else v


def _propagated(model: Model, frame: Any, to: Any) -> dict[str, Any]:
    ends = [model.frame(name.name if isinstance(name, Frame) else name) for name in (frame, to)]
    path = path_to_ground(ends[0].body, model.joints)
    if ends[1].body not in path:
        raise ModelError(f"{ends[1].name!r} does not carry {ends[0].name!r}, so no force propagates to it from there")
    return {"frame": ends[0].name, "to": ends[1].name}


@model_function(q="nq", options=_propagated)
def force_propagator(model: Model, q: Any, *, frame: str, to: str) -> Any:
    """The extended force propagator, (..., 6, 6): what a force [m, f] on `frame` is as a force on `to`, which carries it.

    All joints move freely (Constrained Sec. VI-A). Both forces are at the frames' origins and in their axes.
    """
    return family.force_propagator(tree(model, q, whole=True), model.frame(frame), model.frame(to))


@model_function(
    q="nq",
    active="constraints",
    options=chosen_constraints,
    methods={"sweeps": lambda _: True, "factorisation": lambda _: True},
    by_hand=True,
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
    """The Delassus matrix J M⁻¹ Jᵀ, (..., m, m): the accelerations of the rows that unit forces in the rows cause.

    By sweeps (PV-OSIMr, Constrained Sec. VI) or by factorising the mass matrix, whichever needs fewer operations. `packed`:
    only its upper triangle, row by row, (..., m (m + 1) / 2), as `numpy.triu_indices(m)` lists it. `active` as in
    `constrained_dynamics`: rows and columns of constraints that do not act are zero.
    """
    held = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    found = family.delassus(held) if method == "sweeps" else family.by_factorisation(held)
    return found[np.triu_indices(held.m)] if packed else found


@model_function(
    q="nq",
    active="constraints",
    compliance="rows",
    options=_damped,
    methods=dict.fromkeys(("caba", "pv", "ltl"), lambda _: True),
    by_hand=True,
)
def damped_delassus_inverse(
    model: Model,
    q: Any,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    compliance: Any = 1e-6,
    method: str = "auto",
    packed: bool = False,
) -> Any:
    """(J M⁻¹ Jᵀ + R)⁻¹, (..., m, m), R being the compliance [1/kg or 1/(kg m²)] of each row, or of all: 1/μ.

    `active` and `compliance` as in `constrained_dynamics`: constraints that do not act have 1/R on the diagonal alone.

    `method` is "caba" (cABA-OSIM, Constrained Alg. 5), "pv" or "ltl", which invert the Delassus matrix as found by sweeps
    or by the mass matrix, or "auto": the one with the fewest operations for this model. `packed` as in `delassus`.
    """
    held, R = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active), _per_row(compliance)
    if method == "caba":
        found = family.damped_inverse(held, R)
    else:
        found = family.inverted(family.delassus(held) if method == "pv" else family.by_factorisation(held), R)
    return found[np.triu_indices(held.m)] if packed else found


@model_function(q="nq", active="constraints", compliance="rows", options=_damped)
def damped_delassus_inverse_at_base(
    model: Model, q: Any, active: Any = None, *, constraints: Sequence[Constraint], compliance: Any = 1e-6
) -> tuple[Any, Any]:
    """B, (..., m, m), and C, (..., m, 6), with `damped_delassus_inverse` = B - C Cᵀ (cABA-OSIMf, Constrained Eq. 41).

    For mechanisms on a free base: B has no entries but those between constraints in the same branch, so that B x - C (Cᵀ x)
    costs less than the dense product. (On a fixed base C is zero.)
    """
    held = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    return family.damped_inverse_at_base(held, _per_row(compliance))


@model_function(q="nq", x="rows", active="constraints", compliance="rows", options=_damped, by_hand=True)
def damped_delassus_product(
    model: Model, q: Any, x: Any, active: Any = None, *, constraints: Sequence[Constraint], compliance: Any = 1e-6
) -> Any:
    """`damped_delassus_inverse` times x, (..., m), in linear time and without the matrix."""
    held = ConstraintRows(nodes_for(model, constraints, q), constraints, active=active)
    return family.product(held, _per_row(compliance), x)
