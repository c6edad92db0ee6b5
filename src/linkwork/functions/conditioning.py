"""Public functions of loop closure and conditioning, of the chosen coordinates and of the mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closure import closure_gaps
from linkwork.algorithms.loops.conditioning import (
    constrained_families,
    looped,
    unit_free_equations,
    unit_free_family_equations,
    unit_free_residual,
)
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.loops.clusters import Cluster
from linkwork.loops.scales import scales_of
from linkwork.mechanism.names import printable
from linkwork.model import Model

KINDS = ("coordinates", "mechanism")
# singular value, relative to the largest, from which on an equation counts as independent in a closed state
EXCESS_TOL = 1e-4
SLACK_FACTOR = 20.0  # the same of rounded equations, times their unit-free residual


@model_function(q="nq", open_states=True)
def closure_error(model: Model, q: Any) -> Any:
    """Return how far each loop is open, a distance [m] and an angle [rad], (..., loops, 2).

    Loops are those of `model.loops`, embedded or constrained. All equations count, including redundant ones
    that dynamics omit. The distance is the norm of the translations between both ends of a loop joint that
    its kind excludes (for a rod, the error of its length); the angle is that of the rotation between them: π
    where an axis is flipped. The error of a coupling is a distance if it couples sliding joints only, and
    otherwise the second number, in the unit of its equation; likewise the largest residual of an implicit
    constraint.

    States returned by functions of this library are closed within `model.closure_tolerance`. In float32,
    poses have errors of about 1e-6 of the mechanism's size. States may also be closed on a branch of the
    mechanism that the model does not describe; `check=True` of other functions raises there.
    """
    if not model.loops:
        raise ModelError(f"closure_error: {printable(model.name)} has no loops or couplings")
    return closure_gaps(model, q)


@model_function(q="nq", open_states=True)
def loop_equations(model: Model, q: Any) -> tuple[Any, Any]:
    """Return raveled unit-free Jacobians K of clusters with loops, and the residual of kept equations."""
    equations = [K.ravel() for K in unit_free_equations(model, q)]
    return np.concatenate([np.zeros(0), *equations]), unit_free_residual(model, q)


@model_function(q="nq", open_states=True)
def constrained_equations(model: Model, q: Any) -> Any:
    """Return the unit-free Jacobians K of all families of loops with constrained ones, raveled."""
    return np.concatenate([np.zeros(0), *(K.ravel() for K in unit_free_family_equations(model, q))])


def loop_conditioning(model: Model, q: Any, *, of: str = "coordinates", parameters: Any = None) -> np.ndarray:
    """Return how far loops are from singular, between 0 (singular) and 1.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    of : {"coordinates", "mechanism"}, optional
        "coordinates": of the dependent part of K, the independent equations and dependent velocities. Near 0
        the independent velocities no longer determine the others (a turning point), though others may
        (`Model.independent_at`); results lose about as many digits as this has zeros. "mechanism": of all of
        K, with σ_min the last singular value that is not zero in regular states. Near 0 the mechanism itself
        gains a DoF, at a dead point or a bifurcation, and no choice of coordinates is regular.
    parameters : mapping, optional
        Parameters of the model, as in all functions; the length L below stays nominal.

    Returns
    -------
    ndarray, shape (..., clusters with loops)
        σ_min / σ_max of singular values of the Jacobian K of the loop equations K v = 0, for each of
        `model.clusters` with loops, in their order; 1 where a cluster has no dependent velocity. For a single
        loop equation σ_max is that of its whole row. Constrained loops follow, one number for each group of
        loops that share bodies: that of the mechanism, since their coordinates are all independent.

    Notes
    -----
    K is scaled so that a mechanism has the same conditioning at every size: equations on lengths are divided
    by the cluster's length L, the largest distance of two hinges on one body (or the longest rod, its
    equation divided by L²); sliding velocities are in L per second; couplings are divided by their largest
    coefficient.
    """
    if of not in KINDS:
        raise ModelError(f"loop_conditioning: of: expected one of {', '.join(KINDS)}, got {of!r}")
    options = {"parameters": parameters} if parameters else {}
    if not isinstance(model, Model) or not model.constrained_loops:
        return _embedded_conditioning(model, q, of, options)
    embedded = _embedded_conditioning(model, q, of, options)
    families = constrained_families(model)
    flat = constrained_equations(model, q, **options)
    return np.concatenate([embedded, _conditioning_of_clusters(families, flat, "mechanism")], axis=-1)


def _embedded_conditioning(model: Model, q: Any, of: str, options: dict[str, Any]) -> np.ndarray:
    """Return the conditioning of clusters with embedded loops, (..., clusters)."""
    clusters = looped(model) if isinstance(model, Model) else []
    if not clusters and isinstance(model, Model):
        return np.ones((*_batch(model, q), 0))
    return _conditioning_of_clusters(clusters, loop_equations(model, q, **options)[0], of)


def excess_rank(model: Model, q: Any, parameters: dict[str, Any]) -> list[tuple[Cluster, np.ndarray]]:
    """Return clusters and families with loops, each with a mask (...) of states where more of its equations
    are independent than the model has: these lie on a branch with fewer degrees of freedom.

    States are closed to `model.closure_tolerance`, and so may be the smallest singular values.
    """
    options = {"parameters": parameters} if parameters else {}
    checked = []
    if looped(model):
        checked.append((looped(model), loop_equations(model, q, **options)[0]))
    if model.constrained_loops:
        checked.append((constrained_families(model), constrained_equations(model, q, **options)))
    masks = []
    for clusters, flat in checked:
        for cluster, K in zip(clusters, _equations_of_clusters(clusters, flat)):
            rank = len(cluster.rows)
            if min(K.shape[-2:]) > rank:
                is_finite = np.isfinite(K).all(axis=(-2, -1))
                s = np.linalg.svd(np.where(is_finite[..., None, None], K, 0.0), compute_uv=False)
                slack = np.max(np.array(cluster.slack or 0.0) * scales_of(model.nominal, cluster).rows)
                masks.append((cluster, s[..., rank] > max(EXCESS_TOL, SLACK_FACTOR * slack) * s[..., 0]))
    return masks


def neutral_conditioning(model: Model) -> list[tuple[Cluster, float, float]]:
    """Return conditioning of coordinates and mechanism in the neutral state, by cluster; compiles nothing."""
    equations = [np.asarray(K, dtype=float) for K in unit_free_equations(model, model.neutral())]
    pairs = zip(looped(model), equations)
    return [
        (c, float(_ratio(K, c, of_mechanism=False)), float(_ratio(K, c, of_mechanism=True))) for c, K in pairs
    ]


def _conditioning_of_clusters(clusters: list[Cluster], flat: np.ndarray, of: str) -> np.ndarray:
    """Return the conditioning of each cluster from their raveled equations."""
    pairs = zip(clusters, _equations_of_clusters(clusters, flat))
    return np.stack([_ratio(K, cluster, of_mechanism=of == "mechanism") for cluster, K in pairs], axis=-1)


def _equations_of_clusters(clusters: list[Cluster], flat: np.ndarray) -> Iterator[np.ndarray]:
    """Return K of each cluster, (..., equations, velocities), from all raveled ones."""
    start = 0
    for cluster in clusters:
        size = len(cluster.rows) + len(cluster.independent)
        yield flat[..., start : start + cluster.count * size].reshape(*flat.shape[:-1], cluster.count, size)
        start += cluster.count * size


def _ratio(K: np.ndarray, cluster: Cluster, *, of_mechanism: bool) -> np.ndarray:
    """Return σ_min / σ_max of the dependent part of K, or of all of K; NaN where K is not finite."""
    rank = len(cluster.rows)
    if rank == 0:
        return np.ones(K.shape[:-2])
    regular = np.isfinite(K).all(axis=(-2, -1))
    K = np.where(regular[..., None, None], K, 0.0)
    independent_rows = K[..., list(cluster.rows), :]
    s = np.linalg.svd(K if of_mechanism else independent_rows[..., cluster.dependent], compute_uv=False)
    single_equation = (
        rank == 1 and not of_mechanism and not all(c.linear for c in cluster.constraints)
    )  # σ_min / σ_max of a number says nothing
    largest = np.linalg.norm(independent_rows[..., 0, :], axis=-1) if single_equation else s[..., 0]
    ratio = np.divide(s[..., rank - 1], largest, out=np.zeros(largest.shape), where=largest > 0.0)
    return np.where(regular, ratio, np.nan)


def _batch(model: Model, q: Any) -> tuple[int, ...]:
    shape = np.shape(q)
    if not shape or shape[-1] != model.nq:
        raise ModelError(f"loop_conditioning: q: expected shape (..., {model.nq}), got {shape}")
    return shape[:-1]
