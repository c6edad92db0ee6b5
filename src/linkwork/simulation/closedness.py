"""Closure of all loops of a state: embedded and constrained ones, and couplings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.truncation import redundant_families
from linkwork.errors import ModelError
from linkwork.functions.conditioning import closure_error, excess_rank
from linkwork.functions.engine.closed_states import LOOP_PARAMETERS
from linkwork.functions.states import close_loops
from linkwork.model import Model
from linkwork.sko import Tree

SINGLE_PRECISION_FACTOR = 100.0  # on the tolerance, for states rounded to single precision


def open_rows(
    model: Model, q: np.ndarray, parameters: Mapping[str, np.ndarray], *, dtype: str = "float64"
) -> np.ndarray:
    """Return rows of finite q, (rows, nq), in which a loop is open by more than `model.closure_tolerance`,
    (rows,) of bool.
    """
    if isinstance(model, Tree) or not model.loops:
        return np.zeros(len(q), dtype=bool)
    finite: np.ndarray = np.isfinite(q).all(axis=1)
    if not finite.any():
        return np.zeros(len(q), dtype=bool)
    loop_parameters = {
        name: x[finite] for name, x in parameters.items() if name.partition("@")[0] in LOOP_PARAMETERS
    }
    gaps = closure_error(
        model, q[finite].astype(float), **({"parameters": loop_parameters} if loop_parameters else {})
    )
    limits = model.closure_tolerance * (SINGLE_PRECISION_FACTOR if dtype == "float32" else 1.0)
    result = np.zeros(len(q), dtype=bool)
    result[finite] = ~(gaps <= limits).all(axis=(-2, -1))
    return result


def immobile_rows(model: Model, q: np.ndarray, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return rows of closed q, (rows, nq), from which loops cannot move as those of the model do, (rows,).

    They are on a branch of the mechanism where more of the redundant equations are independent.
    """
    result = np.zeros(len(q), dtype=bool)
    if isinstance(model, Tree) or not len(q):
        return result
    if not (redundant_families(model.nominal) or any(c.overdetermined for c in model.nominal.clusters)):
        return result
    loop_parameters = {name: x for name, x in parameters.items() if name.partition("@")[0] in LOOP_PARAMETERS}
    for _, is_excess in excess_rank(model, q.astype(float), loop_parameters):
        result |= is_excess
    return result


def closed_start(who: str, model: Model, q: Any, parameters: Mapping[str, Any], close: Any) -> Any:
    """Return the configurations that a motion begins at: q, with its loops closed if `close` is True."""
    if not isinstance(close, (bool, np.bool_)):
        raise ModelError(f"{who}: close: expected True or False, got {close!r}")
    if not close:
        return q
    if isinstance(model, Tree) or not model.loops:
        raise ModelError(f"{who}: close=True has no effect: the model has no loops")
    loop_parameters = {name: x for name, x in parameters.items() if name.partition("@")[0] in LOOP_PARAMETERS}
    return close_loops(model, q, **({"parameters": loop_parameters} if loop_parameters else {}))[0]
