"""The public functions of constrained mechanisms. They compile on first use, as those in `functions` do.

`constraints` is one constraint or a sequence of them (`Weld`, `Connect`, `Hold`, `OnPlane`, `Rolling`, `Locked`, `Coupled`);
their rows follow one another in this order, m in all. See docs/algorithms/constrained.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.caba import caba
from linkwork.algorithms.held import Held, nodes_for
from linkwork.algorithms.ltl import ltl
from linkwork.algorithms.ltls import ltls
from linkwork.algorithms.proximal import Result, Settings
from linkwork.algorithms.pv import pv
from linkwork.constraints import Constraint
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.per_model import model_function

SOLVERS: dict[str, Callable[[Held, np.ndarray, np.ndarray, Settings], Result]] = {
    "caba": caba,
    "pv": pv,
    "ltls": ltls,
    "ltl": ltl,
}


def _constraints(model: Model, constraints: Any, **_: Any) -> dict[str, Any]:
    """The constraints as a tuple, each one known to fit the model."""
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
    return {"constraints": chosen}


def _settings(model: Model, constraints: Any, compliance: Any, iterations: Any, tolerance: Any, **_: Any) -> dict[str, Any]:
    chosen = _constraints(model, constraints)
    m = sum(len(c.labels(model)) for c in chosen["constraints"])
    R = (
        np.broadcast_to(np.asarray(compliance, dtype=float), (m,))
        if np.ndim(compliance) == 0
        else np.asarray(compliance, float)
    )
    if R.shape != (m,) or not (np.isfinite(R).all() and (R > 0.0).all()):
        raise ModelError(f"compliance must be a number above zero, or {m} of them, one for each row, not {compliance!r}")
    if isinstance(iterations, bool) or not isinstance(iterations, (int, np.integer)) or iterations < 1:
        raise ModelError(f"iterations must be a whole number of at least 1, not {iterations!r}")
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and np.isfinite(tolerance) and tolerance >= 0.0):
        raise ModelError(f"tolerance must be a number that is not negative, or None, not {tolerance!r}")
    return chosen | {
        "compliance": tuple(R.tolist()),
        "iterations": int(iterations),
        "tolerance": None if tolerance is None else float(tolerance),
    }


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    targets="rows",
    warm_start="rows",
    options=_settings,
    methods=dict.fromkeys(SOLVERS, lambda _: True),
)
def constrained_dynamics(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any = None,
    targets: Any = None,
    warm_start: Any = None,
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
    forces to begin with, such as those of the last time step.

    `method` is "caba" (linear in bodies and rows), "pv", "ltls", "ltl", or "auto", which counts the operations of all for
    this model. `compliance` [1/kg or 1/(kg m²)], one number or one for each row, is 1/μ of the proximal iterations: it says
    how fast they converge, not where to. Redundant and contradicting rows are ordinary input: the forces are then not
    unique, and the accelerations those of least squares. Iterations end where no row changes by more than `tolerance`
    [rad/s² or m/s²], or after `iterations`; with tolerance None there are always so many, and the program has no loop.
    One iteration, with the compliance that is meant, gives soft constraints, as MuJoCo's are (Constrained Eq. 42).

    `details` gives two more results: the largest violation of any row, (...), and the number of iterations, (...).
    """
    nodes = nodes_for(model, constraints, q, v, f_ext)
    held = Held(nodes, constraints, targets)
    start = np.zeros(held.m) if warm_start is None else -np.asarray(warm_start)
    found = SOLVERS[method](held, tau, start, Settings(np.array(compliance), iterations, tolerance))
    return tuple(found) if details else found[:2]
