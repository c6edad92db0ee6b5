"""Public function of derivatives of hybrid dynamics, and its derivative rule for `lw.jacobian`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained import solution_derivatives as solution
from linkwork.algorithms.constrained.constrained_hybrid_dynamics import HybridArrays, HybridSolution
from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.loops import embedded_derivatives as embedded
from linkwork.algorithms.tree import forward_dynamics_derivatives as solved
from linkwork.algorithms.tree import hybrid_dynamics as hybrid
from linkwork.compiler.autodiff.in_trace import jacobian_along, jacobian_of
from linkwork.constraints import Constraint, user_constraints
from linkwork.functions.constrained_derivatives import sharing
from linkwork.functions.constraint_options import AUTO, normalize_constraints, reaches_solution
from linkwork.functions.dynamics import inverse_dynamics
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.engine.tangent import rates
from linkwork.functions.engine.wrt import Changed, by_columns, by_names, changes_by, unwrap_single, wrt_option
from linkwork.functions.hybrid import has_constraints, hybrid_dynamics, prescribed_velocities
from linkwork.model import Model
from linkwork.sko.prepare.trees import hinge_tree


def _options(model: Model, prescribed: Any, constraints: Any) -> dict[str, Any]:
    settings = prescribed_velocities(model, prescribed)
    return settings | (
        normalize_constraints(model, constraints)
        if has_constraints(model, constraints)
        else {"constraints": ()}
    )


@model_function(
    q="nq",
    v="nv",
    a="nv",
    tau="nv",
    f_ext="bodies 6",
    targets="rows",
    active="constraints",
    options=wrt_option("hybrid_dynamics_derivatives", "q", "v", "given", "f_ext", "targets", others=_options),
    custom_trees=True,
)
def hybrid_dynamics_derivatives(
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
    wrt: str | Iterable[str] = ("q", "v", "given"),
) -> Any:
    """Return ∂/∂q, ∂/∂v and ∂/∂given of the unknowns of `hybrid_dynamics`, each (..., nv, nv).

    Parameters
    ----------
    q, v, a, tau, f_ext, targets, active, prescribed, constraints
        As in `hybrid_dynamics`.
    wrt : str or sequence of str, optional
        Names among "q", "v", "given", "f_ext", "targets" and parameters of the model, as in
        `inverse_dynamics_derivatives`.

    Returns
    -------
    tuple of ndarray
        One for each name in `wrt`. Rows are results: the force where a velocity is `prescribed`, the
        acceleration elsewhere. Columns of ∂/∂given are what is given: the acceleration where a velocity is
        prescribed, the force elsewhere. With `constraints`, derivatives of their forces follow, (..., m, nv).

    Notes
    -----
    ∂/∂q is on the tangent space; positions change joint by joint, also where that opens constrained loops.
    Redundant rows are treated as in `constrained_dynamics_derivatives`.
    """
    mask = np.array(prescribed, dtype=bool)
    arrays = {"q": q, "v": v, "given": None, "f_ext": f_ext}
    if constraints:
        values = HybridArrays(q, v, a, tau, f_ext, targets, active)
        changes = _constrained(model, values, mask, constraints, wrt)
        has_rows = user_constraints(model, constraints)
        return unwrap_single([x[: model.nv] for x in changes] + [x[model.nv :] for x in changes if has_rows])
    acc, _ = hybrid.hybrid_dynamics(hinge_tree(model, q, v, f_ext), a, tau, mask)

    def analytic() -> Sequence[Any]:
        recursion = embedded.of_inverse_dynamics(model, q, v, acc, f_ext, jacobian_of, jacobian_along)
        return solved.hybrid_dynamics_derivatives(recursion, mask)

    def by_residual(by: Changed) -> Any:
        change = by(lambda m, q, v, given, f_ext: inverse_dynamics.body(m, q, v, acc, f_ext))
        return by_columns(lambda columns: solution.hybrid_change(model, q, mask, columns), change)

    return by_names(model, wrt, arrays, analytic, by_residual)


def _constrained(
    model: Model,
    values: HybridArrays,
    prescribed: np.ndarray,
    constraints: Sequence[Constraint],
    names: Iterable[str],
    compliance: Any = AUTO,
) -> list[Any]:
    """Return derivatives of results and of constraint forces, each (nv + m, ...), by the named arrays."""
    check_motions(model, constraints, prescribed)
    q = values.q
    shares = sharing(model, constraints, q, compliance, ~prescribed)
    solution = HybridSolution(model, constraints, prescribed, values, **shares)
    arrays: dict[str, Any] = {"q": q, "v": values.v, "f_ext": values.f_ext, "targets": values.targets}
    empty = {"f_ext": np.zeros((len(model.bodies), 6)), "targets": np.zeros(len(solution.f))}
    changes = []
    for name in names:
        if name == "given":
            changes.append(solution.change_by_given())
            continue
        present = arrays | {name: empty[name]} if name in empty and arrays[name] is None else arrays
        change = changes_by(model, name, present)(solution.residual)
        changes.append(by_columns(solution.change, change @ rates(model, q) if name == "q" else change))
    return changes


def _has_constraints(model: Any, settings: Mapping[str, Any]) -> bool:
    return bool(settings["constraints"]) and not settings["details"] and reaches_solution(model, settings)


@hybrid_dynamics.derivative("q", "v", "a", "tau", "f_ext", "targets", when=_has_constraints)
def _at_the_solution(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    tau: Any,
    f_ext: Any = None,
    targets: Any = None,
    active: Any = None,
    **more: Any,
) -> Any:
    """Return the Jacobians of accelerations, joint forces and, with constraints, their forces."""
    mask = np.array(more["prescribed"], dtype=bool)
    constraints = more["constraints"]
    names = [
        "q",
        "v",
        "given",
        *(["f_ext"] if f_ext is not None else []),
        *(["targets"] if targets is not None else []),
    ]
    values = HybridArrays(q, v, a, tau, f_ext, targets, active)
    derivatives = _constrained(model, values, mask, constraints, names, more.get("compliance", AUTO))
    by = dict(zip(names, derivatives))
    by["a"], by["tau"] = (np.where(is_given, by["given"], 0.0) for is_given in (mask, ~mask))
    parts: list[tuple[Any, ...]] = []
    for name in ("q", "v", "a", "tau", "f_ext", "targets"):
        if name not in by:
            parts.append((None, None, None))
            continue
        results = by[name][: model.nv]
        forces = by[name][model.nv :]
        identity = np.eye(model.nv) if name in ("a", "tau") else np.zeros(results.shape)
        rows = np.reshape(mask, (-1, *(1,) * (results.ndim - 1)))
        of_a = np.where(rows, identity if name == "a" else 0.0, results)
        of_tau = np.where(rows, results, identity if name == "tau" else 0.0)
        parts.append((of_a, of_tau, forces))
    return parts if user_constraints(model, constraints) else [part[:2] for part in parts]
