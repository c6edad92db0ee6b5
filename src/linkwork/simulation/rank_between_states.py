"""Rank of the loop equations on the path between two states of a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.loops.conditioning import constrained_families
from linkwork.functions.conditioning import constrained_equations, loop_equations
from linkwork.model import Model
from linkwork.simulation import kernels
from linkwork.simulation.charts import Charts
from linkwork.simulation.monitor import CLOSURE_TOL, between, families
from linkwork.simulation.rank_drop import PathRank, find_rank_drop


def rank_between_states(
    charts: Charts,
    chart: Model,
    start: np.ndarray,
    end: np.ndarray,
    moved: float,
    parameters: Mapping[str, np.ndarray],
) -> PathRank:
    """Return the rank along the path between states q, (nq,) each, closed in the coordinates of a chart.

    See `find_rank_drop`. Unit-free coordinates of loops change by `moved`; `parameters` are those of one
    state.
    """
    model = charts.model
    ranks = [len(charts.clusters[n].rows) for n in charts.moving] + [len(f.rows) for f in families(model)]

    def called(function: Any, model: Model, *arrays: np.ndarray) -> Any:
        rows = {name: np.broadcast_to(x, (len(arrays[0]), *x.shape)) for name, x in parameters.items()}
        return function(model, *arrays, parameters=rows) if rows else function(model, *arrays)

    def states(at: np.ndarray) -> np.ndarray:
        linear = between(model, start, end, at)
        closed = called(kernels.settled, chart, linear, linear, np.zeros((len(at), model.nv)))[0]
        is_near = np.abs(closed - linear).max(axis=1, keepdims=True) <= np.fmax(moved, CLOSURE_TOL)
        return np.where(is_near, closed, linear)

    def equations(q: np.ndarray) -> list[np.ndarray]:
        K = charts.equations(called(loop_equations, charts.whole, q)[0]) if charts.moving else []
        constrained = (
            split_families(model, called(constrained_equations, model, q)) if families(model) else []
        )
        return [K[n] for n in charts.moving] + constrained

    return find_rank_drop(states, equations, ranks, moved)


def split_families(model: Model, flat: np.ndarray) -> list[np.ndarray]:
    """Return K of the families of constrained loops that can become singular, (n, count, size) each.

    `flat` has the entries of all families.
    """
    equations = []
    start = 0
    singular_families = families(model)
    for family in constrained_families(model.nominal):
        shape = family.count, len(family.rows) + len(family.independent)
        end = start + shape[0] * shape[1]
        if family in singular_families:
            equations.append(flat[:, start:end].reshape(-1, *shape))
        start = end
    return equations
