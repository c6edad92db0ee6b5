"""Monitor of closure and regularity of a state, from the state alone: traced for kernels, and on numbers.

Distances to singular states are measured by the smallest singular value σ of unit-free loop equations K.
Entries of the map G do not tell them: where branches of a mechanism meet, they stay finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.constrained.truncation import null_directions
from linkwork.algorithms.loops.closing import places_of
from linkwork.algorithms.loops.conditioning import (
    cluster_scales,
    constrained_families,
    looped,
    postures,
    unit_free_family_equations,
    unit_free_residual,
)
from linkwork.compiler.ir.functions import absolute, maximum, sqrt, where
from linkwork.loops.clusters import Cluster
from linkwork.loops.elimination import Elimination
from linkwork.loops.motion import all_equations
from linkwork.loops.scales import length_of, scales_of, velocity_units
from linkwork.model import Model
from linkwork.simulation.charts import Charts, test_vector
from linkwork.spatial import Factor, mirrored

CLOSURE_TOL = 1e-9  # residual of kept loop equations after a step, unit-free
# a singular state this close, in motions of the step, may lie within the step
SINGULAR_DISTANCE_FACTOR = 2.0
REFINEMENT_DISTANCE_FACTOR = 8.0  # steps this close to a singular state, in motions of the step, are refined
# unit-free motion of loops in a step; larger ones are divided, since other branches are near
MAX_LOOP_MOTION = 0.5
MIN_PROBE_FRACTION = 0.3  # smallest size of probes of singular states, relative to the motion
DEPENDENT_ROW_TOL = 1e-10  # fraction of a row's square below which it depends on others: σ of 1e-5
MAX_DENSE_COLUMNS = 2  # columns up to which the full inverse is computed
MIN_SINGULAR_VALUE = 1e-2  # σ below which steps near a singular state are refined


def coordinate_scales(charts: Charts) -> np.ndarray:
    """Return factors that free changes of coordinates of units, (nq,): zero for joints in no loop that can
    become singular.

    Joints that gears tie to slower ones are counted in multiples of these.
    """
    model = charts.whole.nominal
    known: np.ndarray | None = model.cache.get(coordinate_scales)
    if known is not None:
        return known
    result = np.zeros(model.nq)
    units = unit_velocities(charts.whole)
    for n in charts.moving:
        _scale(result, model, charts.clusters[n], cluster_scales(model)[n].columns, units)
    for family in families(model):
        _scale(result, model, family, scales_of(model, family).columns, units)
    model.cache[coordinate_scales] = result
    return result


def _scale(scale: np.ndarray, model: Model, cluster: Cluster, columns: np.ndarray, units: np.ndarray) -> None:
    """Put in the factors of a cluster's joints, whose velocities are counted in `columns`; those of modes in
    their units.
    """
    first = 0
    for joint in (model.joints[k] for k in cluster.bodies):
        joint_units = units[joint.v_slice] if joint.kind.elastic else columns[first : first + joint.nv]
        first += joint.nv
        if joint.nq == joint.nv:
            scale[joint.q_slice] = 1.0 / joint_units
        elif joint.nv:  # the last four are a quaternion, which changes by half of an angle
            scale[joint.q_slice] = 1.0 / joint_units.max()
            scale[joint.q_slice][-4:] = 2.0


def families(model: Model) -> list[Cluster]:
    """Return the families of constrained loops that can become singular."""
    return [family for family in constrained_families(model.nominal) if _turns(family)]


def _turns(family: Cluster) -> bool:
    return bool(family.rows) and not all(constraint.linear for constraint in family.constraints)


def family_equations(model: Model, q: np.ndarray) -> list[np.ndarray]:
    """Return unit-free K of these families, (equations, velocities of their joints) each."""
    every = zip(constrained_families(model.nominal), unit_free_family_equations(model, q), strict=True)
    return [K for family, K in every if _turns(family)]


def unit_velocities(model: Model) -> np.ndarray:
    """Return what velocities of loops are compared with, (nv_spanning,): a radian, or the size of the loop
    where they slide.
    """
    result = np.ones(model.nv_spanning)
    structure = model.nominal
    named = {constraint.name: constraint for constraint in structure.embedded}
    for cluster in looped(model):
        size = length_of(structure, cluster.bodies, [named[c.name] for c in cluster.constraints])
        result[places_of(model, cluster)] = velocity_units(structure, cluster.bodies, size)
    return result


def motion(scales: np.ndarray, before: Any, after: Any) -> Any:
    """Return the largest unit-free change of a coordinate between two states, each (nq,)."""
    result: Any = 0.0
    for scale, x, y in zip(scales, before, after):
        if scale:
            result = maximum(result, absolute(y - x) * float(scale))
    return result


def between(model: Model, start: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return coordinates at parts `at`, (n,), of the straight way from one state to another, (n, nq); loops
    are not closed.
    """
    result: np.ndarray = start + at[:, None] * (end - start)
    for joint in model.joints:
        if joint.nq != joint.nv:
            first = start[joint.q_slice]
            turn = joint.kind.difference(start[joint.q_slice], end[joint.q_slice])
            result[:, joint.q_slice] = [
                joint.kind.numeric_integrate(first, s * np.asarray(turn, dtype=float)) for s in at
            ]
    return result


def may_pass(moved: Any, far: Any) -> Any:
    """Return whether a singular state may lie within a step, or so near to it that the step is refined.

    `moved` is the motion of the step, `far` the larger 1 / σ of its ends. NaN counts as yes.
    """
    near = moved * far
    return ~(
        (near * SINGULAR_DISTANCE_FACTOR <= 1.0)
        & ((near * REFINEMENT_DISTANCE_FACTOR <= 1.0) | (far * MIN_SINGULAR_VALUE <= 1.0))
    )


def monitor(model: Model, q: Any, charts: Charts, largest: float) -> tuple[Any, Any]:
    """Return whether q is closed and the model's own chart good there, and 1 / σ of the chart's dependent
    columns.

    The `model` is the one that `charts` has as a whole; no entry of unit-free G may exceed `largest`. σ is
    estimated by one inverse iteration, which is exact in the limit of singular states; of few columns by the
    size of the inverse.
    """
    far: Any = 0.0
    good = absolute(0.0 * q[0]) <= 0.0
    for K in family_equations(model, q):
        inverse_rows = _inverse_of_rows(K)
        good = good & (inverse_rows < np.inf)
        far = maximum(far, inverse_rows)
    if not charts.moving:
        return good, far
    good = good & (unit_free_residual(model, q) <= CLOSURE_TOL)
    every = zip(postures(model, q), cluster_scales(model.nominal), strict=True)
    for n, ((cluster, posture), scales) in enumerate(every):
        if n not in charts.moving:
            continue
        rows = list(cluster.used)
        free = list(cluster.independent)
        held = list(cluster.dependent)
        K = all_equations(posture, cluster.constraints)[0][rows]
        by_row = 1.0 / scales.rows[rows]
        by_column = 1.0 / scales.columns[held]
        elimination = Elimination(K[:, held])
        small = len(rows) <= MAX_DENSE_COLUMNS
        tests = np.eye(len(rows)) if small else test_vector(len(rows))[:, None]
        right = np.column_stack([K[:, free] * scales.columns[free], by_row[:, None] * tests])
        answer = elimination.solve(right) * by_column[:, None]
        large: Any = 0.0
        for entry in answer[:, : len(free)].ravel():
            large = maximum(large, absolute(entry))
        x = answer[:, len(free) :].ravel()
        inverse_rows = sqrt(_squares(x))
        if not small:
            inverse_rows = sqrt(_squares(elimination.solve_transposed(x * by_column) * by_row)) / inverse_rows
        good = good & (large <= largest) & (inverse_rows < np.inf)  # NaN would not outlast the next maximum
        far = maximum(far, inverse_rows)
    return good, far


def probes(model: Model, q: Any, charts: Charts) -> list[np.ndarray]:
    """Return K_d⁻¹ of a test vector for each cluster that can become singular, unit-free: it changes its sign
    at a rank drop.

    The `model` is the one that `charts` has as a whole.
    """
    result = []
    every = zip(postures(model, q), cluster_scales(model.nominal), strict=True) if charts.moving else ()
    for n, ((cluster, posture), scales) in enumerate(every):
        if n in charts.moving:
            rows = list(cluster.used)
            held = list(cluster.dependent)
            K = all_equations(posture, cluster.constraints)[0][rows]
            answer = Elimination(K[:, held]).solve(test_vector(len(rows)) / scales.rows[rows])
            result.append(answer / scales.columns[held])
    return result


def turned(before: list[np.ndarray], after: list[np.ndarray], moved: Any) -> Any:
    """Return whether probes of two states say that a singular state lies between them, where coordinates
    change by `moved`.
    """
    result: Any = moved < 0.0
    for x, y in zip(before, after, strict=True):
        size = maximum(_squares(x), _squares(y)) * (moved * moved)
        result = result | ((x @ y < 0.0) & (size > MIN_PROBE_FRACTION * MIN_PROBE_FRACTION))
    return result


def _inverse_of_rows(K: np.ndarray) -> Any:
    """Return 1 / σ_min of K by inverse iterations with K Kᵀ, without the rows that depend on others there."""
    factor = Factor(mirrored(K @ K.T), dependent=DEPENDENT_ROW_TOL)
    x = factor.solve(test_vector(len(K)))
    y = factor.solve(x)
    return sqrt(sqrt(_squares(y) / _squares(x)))


def nearly_singular(model: Model, q0: Any, q1: Any, moved: Any) -> Any:
    """Return whether a step between two states, along which coordinates change by `moved`, ends so near to a
    rank drop of constrained loops that these states do not tell whether it is passed.
    """
    far: Any = 0.0 * moved
    for q in (q0, q1):
        every = zip(constrained_families(model.nominal), unit_free_family_equations(model, q), strict=True)
        for family, K in every:
            if _turns(family):
                own = _inverse_of_rank(K[list(family.used)], len(family.rows))
                far = maximum(far, where(own < np.inf, own, np.inf))  # NaN would not outlast the next maximum
    return ~((moved * far * SINGULAR_DISTANCE_FACTOR <= 1.0) | (far * MIN_SINGULAR_VALUE <= 1.0))


def _inverse_of_rank(K: np.ndarray, rank: int) -> Any:
    """Return 1 / σ of K, with the last singular value σ that is not zero in regular states."""
    S = mirrored(K @ K.T)
    if len(K) > rank:
        N = null_directions(S, len(K) - rank)
        trace: Any = 0.0
        for k in range(len(K)):
            trace = trace + S[k, k]
        S = mirrored(S + trace * (N @ N.T))
    factor = Factor(S)
    x = factor.solve(test_vector(len(K)))
    y = factor.solve(x)
    return sqrt(sqrt(_squares(y) / _squares(x)))


def _squares(x: Any) -> Any:
    total: Any = 0.0
    for each in x:
        total = total + each * each
    return total
