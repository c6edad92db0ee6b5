"""The public functions of derivatives of constrained dynamics, and of what control asks of constraints and
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained import constrained_dynamics_derivatives as at_solution
from linkwork.algorithms.constrained import delassus as family
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.constrained.row_mobility import dependent_rows
from linkwork.algorithms.constrained.solution_derivatives import ConstrainedSolution
from linkwork.algorithms.constrained.truncation import redundant_families
from linkwork.compiler.autodiff.in_trace import jacobian_along, jacobian_of
from linkwork.constraints import Constraint, Weld, loop_constraints, total
from linkwork.errors import ModelError
from linkwork.functions.constrained import constrained_dynamics, is_mass_matrix_candidate
from linkwork.functions.constraint_options import AUTO, normalize_constraints, per_row, reaches_solution
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.engine.tangent import rates
from linkwork.functions.engine.wrt import by_columns, changes_by, wrt_option
from linkwork.model import GROUND, WORLD, Frame, Model
from linkwork.sko import Tree
from linkwork.sko.custom import CustomTreeState
from linkwork.spatial_operators import Operators


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    targets="rows",
    active="constraints",
    options=wrt_option(
        "constrained_dynamics_derivatives", "q", "v", "tau", "f_ext", "targets", others=normalize_constraints
    ),
    custom_trees=True,
)
def constrained_dynamics_derivatives(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any = None,
    targets: Any = None,
    active: Any = None,
    *,
    constraints: Sequence[Constraint],
    wrt: str | Iterable[str] = ("q", "v", "tau"),
) -> tuple[Any, ...]:
    """Return the derivatives of accelerations a and constraint forces f of `constrained_dynamics`.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    tau : array_like, shape (..., nv)
        Joint forces of the independent joints [N m, N].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, constant in the frame of the body.
    targets : array_like, shape (..., m), optional
        Accelerations of the m rows, as in `constrained_dynamics`.
    active : array_like, shape (..., constraints), optional
        Which constraints act, as in `constrained_dynamics`. Forces of inactive ones stay zero.
    constraints : sequence of Constraint
        Constraints, with m rows.
    wrt : str or sequence of str
        Variables of the derivatives: "q", "v", "tau", "f_ext", "targets" and parameters of the model.

    Returns
    -------
    tuple of ndarray
        ∂a, (..., nv, n), for each variable of n entries, then ∂f, (..., m, n), for each: by default ∂a/∂q,
        ∂a/∂v, ∂a/∂tau, ∂f/∂q, ∂f/∂v, ∂f/∂tau. ∂/∂q is on the tangent space: with respect to δ in
        `integrate(q, δ)`.

    Notes
    -----
    Derivatives are those of the converged solution, from the system of M and the constraint Jacobian, whose
    factors serve all columns (Carpentier, Budhiraja and Mansard 2021).

    Redundant and contradictory rows are allowed: they share forces and miss their targets as in
    `constrained_dynamics` with its default compliance, where they are redundant in all configurations. Where
    the rank of the rows changes, forces have no derivatives, nor have accelerations if rows contradict each
    other there: the derivatives returned are those of independent rows alone.
    """
    check_motions(model, constraints)
    arrays = {"q": q, "v": v, "tau": tau, "f_ext": f_ext, "targets": targets}
    return _derivatives(model, arrays, active, constraints, tuple(wrt), sharing(model, constraints, q))


def sharing(
    model: Model | Tree,
    constraints: Sequence[Constraint],
    q: Any,
    compliance: Any = AUTO,
    free: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return the arguments `weights` and `redundant` of `KKT`: how redundant rows share forces, if there are
    any.

    `free`: as in `dependent_rows`.
    """
    redundant = dependent_rows(model, constraints, free)
    of_loops = (
        isinstance(model, Model) and model.constrained_loops and bool(redundant_families(model.nominal))
    )
    weights = per_row(compliance, model, constraints, q) if redundant or of_loops else None
    return {"weights": weights, "redundant": redundant}


def _derivatives(
    model: Model,
    arrays: Mapping[str, Any],
    active: Any,
    constraints: Sequence[Constraint],
    names: Sequence[str],
    shares: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Return the derivatives of accelerations, and then of forces, with respect to the named inputs."""
    q, v, tau, f_ext, targets = (arrays[name] for name in ("q", "v", "tau", "f_ext", "targets"))
    derivatives: dict[str, tuple[Any, Any]] = {}
    if {"q", "v", "tau"} & set(names) and not isinstance(model, Tree):
        parts = at_solution.constrained_dynamics_derivatives(
            model, constraints, q, v, tau, f_ext, targets, jacobian_of, jacobian_along, active, **shares
        )
        derivatives = dict(zip(("q", "v", "tau"), zip(parts[:3], parts[3:])))
    others = [name for name in names if name not in derivatives]
    if others:
        at = ConstrainedSolution(model, constraints, q, v, tau, f_ext, targets, active, **shares)
        empty = {"f_ext": np.zeros((len(model.bodies), 6)), "targets": np.zeros(at.m)}
        for name in others:
            values = {**arrays, name: empty[name]} if name in empty and arrays[name] is None else arrays
            if name == "q":  # of a custom tree, whose q must change by v
                rates(model, q)
            change = by_columns(at.change, changes_by(model, name, values)(at.residual))
            derivatives[name] = change[: model.nv], change[model.nv :]
    return (*(derivatives[name][0] for name in names), *(derivatives[name][1] for name in names))


def _converges(model: Any, settings: Mapping[str, Any]) -> bool:
    """Return whether constrained dynamics iterate to their solution: otherwise they are what some iterations
    make of it.
    """
    return not settings["details"] and not isinstance(model, Tree) and reaches_solution(model, settings)


def _pullback(
    bars: tuple[Any, ...], names: Sequence[str], model: Model, q: Any, v: Any, tau: Any, **more: Any
) -> Any:
    """Return the pullback of weights of accelerations and forces, by the transposed system and reverse mode
    through its residual.
    """
    arrays = {"q": q, "v": v, "tau": tau, "f_ext": more.get("f_ext"), "targets": more.get("targets")}
    shares = sharing(model, more["constraints"], q, more.get("compliance", AUTO))
    at = ConstrainedSolution(model, more["constraints"], **arrays, active=more.get("active"), **shares)
    weights = at.weights(*bars)
    gradients = []
    for name in names:
        by = changes_by(model, name, arrays)(lambda model, **x: weights @ at.residual(model, **x))
        gradients.append(-(by @ rates(model, q) if name == "q" else by))
    return None, gradients


@constrained_dynamics.derivative("q", "v", "tau", "f_ext", "targets", when=_converges, pullback=_pullback)
def _at_the_solution(
    model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, targets: Any = None, **more: Any
) -> Any:
    names = [
        "q",
        "v",
        "tau",
        *(["f_ext"] if f_ext is not None else []),
        *(["targets"] if targets is not None else []),
    ]
    constraints = more["constraints"]
    check_motions(model, constraints)
    arrays = {"q": q, "v": v, "tau": tau, "f_ext": f_ext, "targets": targets}
    shares = sharing(model, constraints, q, more.get("compliance", AUTO))
    derivatives = _derivatives(model, arrays, more.get("active"), constraints, names, shares)
    by = dict(zip(names, zip(derivatives[: len(names)], derivatives[len(names) :])))
    return [by.get(name, (None, None)) for name in ("q", "v", "tau", "f_ext", "targets")]


def _held_by_forces(model: Any, settings: Mapping[str, Any]) -> bool:
    return bool(loop_constraints(model)) and not settings["details"]


def _pullback_with_constrained_loops(
    bars: Any, names: Any, model: Model, q: Any, v: Any, tau: Any, **more: Any
) -> Any:
    every = normalize_constraints(model, ())["constraints"]
    still = np.zeros(total(model, every))
    return _pullback((bars[0], still), names, model, q, v, tau, f_ext=more.get("f_ext"), constraints=every)


@forward_dynamics.derivative(
    "q", "v", "tau", "f_ext", when=_held_by_forces, pullback=_pullback_with_constrained_loops
)
def _with_constrained_loops(model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, **_: Any) -> Any:
    every = normalize_constraints(model, ())["constraints"]
    return [by[0] for by in _at_the_solution(model, q, v, tau, f_ext, constraints=every)[:4]]


@model_function(q="nq", options=normalize_constraints, custom_trees=True)
def constraint_jacobian(model: Model, q: Any, *, constraints: Sequence[Constraint]) -> Any:
    """Return J of the constraints' rows, (..., m, nv): J v are their velocities [rad/s or m/s], and Jᵀ forces
    act on the joints.
    """
    return ConstraintRows(nodes_for(model, constraints, q), constraints, rounded=True).jacobian()


@model_function(q="nq", v="nv", options=normalize_constraints, custom_trees=True)
def constraint_bias(model: Model, q: Any, v: Any, *, constraints: Sequence[Constraint]) -> Any:
    """Return b of the constraints' rows, (..., m) [rad/s² or m/s²]: constraints demand J a + b = 0, J being
    `constraint_jacobian`.

    It is J̇ v, and what gains add: stiffness times the rows' errors and damping times their rates. The linear
    rows of `Weld` and `Connect` are accelerations of the frame's origin seen by an observer at rest.
    """
    return ConstraintRows(nodes_for(model, constraints, q, v), constraints, rounded=True).at_rest()


def normalize_frames(model: Model, frames: Any, **_: Any) -> dict[str, Any]:
    """Return the option `frames` as a tuple of names."""
    several = [frames] if isinstance(frames, (str, Frame)) else frames
    if not isinstance(several, Iterable):
        raise ModelError(f"frames: expected a frame's name, or several, got {frames!r}")
    names = tuple(model.frame(each.name if isinstance(each, Frame) else each).name for each in several)
    if not names or len(set(names)) < len(names):
        raise ModelError(f"frames: expected one frame's name or several different names, got {frames!r}")
    return {"frames": names}


def is_on_ground(model: Model | Tree, frame: str) -> bool:
    """Return whether a frame is fixed to the ground."""
    return frame == WORLD or (isinstance(model, Model) and model.frame(frame).body == GROUND)


def _moving_frames(model: Model, frames: Any, **_: Any) -> dict[str, Any]:
    options = normalize_frames(model, frames)
    for name in options["frames"]:
        if is_on_ground(model, name):
            raise ModelError(
                f"operational_inertia: frame {name!r} is fixed to the ground, where it has no inertia"
            )
    return options


@model_function(
    q="nq",
    options=_moving_frames,
    methods={"sweeps": lambda _: True, "factorisation": is_mass_matrix_candidate},
    custom_trees=True,
)
def operational_inertia(model: Model, q: Any, *, frames: Sequence[str], method: str = "auto") -> Any:
    """Return task-space inertia (J M⁻¹ Jᵀ)⁻¹ of one frame or several, (..., 6 n, 6 n) [kg m², kg m, kg];
    joints move freely.

    J stacks `frame_jacobian` of the frames, in their order and with reference "body". Where they cannot move
    in 6 n directions, there is none: entries are not finite, or of the size of rounding's inverse.
    Constrained loops are open in it. By sweeps (SKO Eq. 60) and block elimination, or by the factor of the
    mass matrix, whichever is cheaper.
    """
    rows = tuple(Weld(name) for name in frames)
    nodes = nodes_for(model, rows, q)
    of_six_rows = not isinstance(nodes, CustomTreeState) or all(
        len(nodes.pick_off(nodes.frame(f)).bias) == 6 for f in frames
    )
    if method == "sweeps" or not of_six_rows:
        return Operators(nodes).operational_inertia(*frames).dense()
    return family.inverted(family.by_factorisation(ConstraintRows(nodes, rows)), np.zeros(6 * len(rows)))
