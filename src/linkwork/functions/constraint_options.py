"""Options of functions with constraints: which act, compliances and tolerances, and what single precision
asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.proximal import CONVERGING_ITERATIONS, Settings
from linkwork.algorithms.constrained.row_mobility import (
    dependent_rows,
    joint_mobilities,
    mass_ratio,
    row_mobilities,
)
from linkwork.compiler.ir.functions import where
from linkwork.compiler.ir.precision import by_precision
from linkwork.constraints import Constraint, all_constraints, total
from linkwork.errors import ModelError
from linkwork.functions.engine.call_arguments import as_numbers
from linkwork.model import Model
from linkwork.sko import Tree
from linkwork.spatial.constants import real_or_nan

AUTO = "auto"
RIGID = (
    2.0**-18
)  # compliances relative to typical mobilities of rows: what two or three iterations leave is rounding
SINGLE_RIGID = 2.0**-9  # the same in single precision,
STIFF = (
    2.0**-7
)  # and where inertias are stiffened by 1/R: what rounding of these sums leaves is about 1e-7 / STIFF
STIFFENING_METHODS = ("caba", "ltls")  # methods that do so
RESIDUAL_TOLS = (1e-15, 5e-8)  # tolerances of residuals, in double and in single precision
CONVERGED_RESIDUAL = 1e-9  # of a residual: what is left where iterations count as ended
MIN_COMPLIANCE_RATIO = (
    2.0**-14
)  # compliances relative to mobilities: with less, stiffened inertias keep fewer than three digits in float32


def normalize_constraints(model: Model, constraints: Any, **_: Any) -> dict[str, Any]:
    """Return the constraints as a tuple, each one known to fit the model, and the model's own loops that are
    not embedded.
    """
    sequence = (constraints,) if isinstance(constraints, Constraint) else constraints
    if not isinstance(sequence, Iterable) or isinstance(sequence, (str, bytes)):
        raise ModelError(
            f"constraints: expected a constraint or several, such as Weld('foot'), got {constraints!r}"
        )
    sequence = tuple(sequence)
    for constraint in sequence:
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"{constraint!r} is not a constraint; there are Weld, Connect, Hold, OnPlane, Rolling, "
                f"Locked, Coupled"
            )
        constraint.labels(model)
    every = all_constraints(model, sequence) if isinstance(model, Model) else sequence
    if total(model, every) == 0:
        raise ModelError(
            "no constraint is given: give at least one, or use forward_dynamics or inverse_dynamics"
        )
    return {"constraints": every}


def damped_options(model: Model, constraints: Any, compliance: Any, **_: Any) -> dict[str, Any]:
    """Return the constraints, and a compliance for each row, or "auto"."""
    settings = normalize_constraints(model, constraints)
    if isinstance(compliance, str) and compliance == AUTO:
        return settings | {"compliance": AUTO}
    m = total(model, settings["constraints"])
    R = as_numbers(compliance)
    R = np.full(m, R) if R.ndim == 0 else R
    if R.ndim > 1:
        raise ModelError(
            f"compliance: expected a number or {m} of them where it is an option; for each state it is an "
            f"input, (..., {m})"
        )
    if R.shape != (m,) or not (np.isfinite(R).all() and (R > 0.0).all()):
        raise ModelError(
            f"compliance: expected a number above zero, or {m} of them, one for each row, or 'auto', got "
            f"{compliance!r}"
        )
    return settings | {"compliance": tuple(R.tolist())}


def per_row(
    compliance: Any, model: Model | Tree, constraints: Sequence[Constraint], q: Any, *, single: float = STIFF
) -> np.ndarray:
    """Return R, (m,); where it is an input, NaN for what is not above zero. `single`: relative to mobilities
    in single precision.
    """
    if isinstance(compliance, tuple):
        return np.array(compliance)
    if not isinstance(compliance, str):
        return np.array([where(r > 0.0, r, np.nan) for r in compliance], dtype=object)
    ratio = mass_ratio(model)
    shared = {
        d: by_precision(q[0], RIGID * d, single * d) * ratio
        for d in set(row_mobilities(model, constraints).tolist())
    }
    return np.array([shared[d] for d in row_mobilities(model, constraints).tolist()], dtype=object)


def settings_of(
    model: Model | Tree,
    constraints: Sequence[Constraint],
    q: Any,
    compliance: Any,
    iterations: int,
    tolerance: Any,
    method: str,
    free: np.ndarray | None = None,
) -> Settings:
    """Return the settings of proximal iterations in one state. `free`: as in `dependent_rows`."""
    R = per_row(
        compliance, model, constraints, q, single=STIFF if method in STIFFENING_METHODS else SINGLE_RIGID
    )
    independent = not dependent_rows(model, constraints, free)
    if tolerance is not None and tolerance != AUTO:
        return Settings(R, iterations, tolerance, independent=independent)
    relative = by_precision(q[0], *RESIDUAL_TOLS)
    mobility = row_mobilities(model, constraints)
    joints = joint_mobilities(model)[slice(None) if free is None else free]
    ratio = mass_ratio(model)
    return Settings(R, iterations, relative, mobility, tolerance is None, independent, ratio, joints)


def constraint_settings(model: Model, iterations: Any, tolerance: Any, **others: Any) -> dict[str, Any]:
    """Return all options of constrained dynamics."""
    if isinstance(iterations, bool) or not isinstance(iterations, (int, np.integer)) or iterations < 1:
        raise ModelError(f"iterations: expected an integer of at least 1, got {iterations!r}")
    if isinstance(tolerance, str) and tolerance == AUTO:
        return damped_options(model, **others) | {"iterations": int(iterations), "tolerance": AUTO}
    number = real_or_nan(tolerance) if tolerance is not None else 0.0
    if not (np.isfinite(number) and number >= 0.0):
        raise ModelError(f"tolerance: expected a non-negative number, None or 'auto', got {tolerance!r}")
    limits = {"iterations": int(iterations), "tolerance": None if tolerance is None else number}
    return damped_options(model, **others) | limits


def in_single_precision(
    model: Model | Tree, options: Mapping[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the options of a float32 kernel: a method that does not stiffen inertias, if none is given; an
    error where it must.
    """
    if not settings["constraints"]:
        return settings
    if "method" in settings and ("method" not in options or settings["method"] == "auto"):
        settings = settings | {"method": "pv"}
    compliance = settings["compliance"]
    method = settings.get("method", "caba")
    if method in STIFFENING_METHODS and isinstance(compliance, tuple):
        least = MIN_COMPLIANCE_RATIO * row_mobilities(model, settings["constraints"])
        low = np.flatnonzero(np.array(compliance) < least)
        if len(low):
            row = int(low[0])
            instead = ", or method='pv'" if "method" in settings else ""
            raise ModelError(
                f"compliance {compliance[row]:.1e} of row {row} is too small for float32, where inertias are "
                f"stiffened by its inverse: give at least {least[row]:.1e}, or 'auto'{instead}"
            )
    return settings


def reaches_solution(model: Model | Tree, settings: Mapping[str, Any]) -> bool:
    """Return whether the iterations surely reach the solution: not for soft constraints, or if compliances
    are inputs.

    The criterion is the remaining part of a residual for a row ten times less mobile than typical.
    """
    if settings["tolerance"] is None or "compliance" in settings.get("optional", ()):
        return False
    n = settings["iterations"]
    compliance = settings["compliance"]
    if isinstance(compliance, str):
        return bool(n >= CONVERGING_ITERATIONS)
    remainder = np.array(compliance) / (
        np.array(compliance) + 0.1 * row_mobilities(model, settings["constraints"])
    )
    return bool(remainder.max() ** n <= CONVERGED_RESIDUAL)
