"""The public function that tells how far loops are from singular: their coordinates, and the mechanism itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.conditioning import looped, unit_free_equations, unit_free_residual
from linkwork.errors import ModelError
from linkwork.functions.model_function import model_function
from linkwork.model import Model
from linkwork.topology.clusters import Cluster

KINDS = ("coordinates", "mechanism")


@model_function(q="nq")
def loop_equations(model: Model, q: Any) -> tuple[Any, Any]:
    """Unit-free K of all clusters with loops, row by row, one cluster after the other; and the residual of equations kept."""
    equations = [K.ravel() for K in unit_free_equations(model, q)]
    return np.concatenate([np.zeros(0), *equations]), unit_free_residual(model, q)


def loop_conditioning(model: Model, q: Any, *, of: str = "coordinates", parameters: Any = None) -> np.ndarray:
    """How far loops are from singular, (..., clusters with loops): between 0, where they are, and 1.

    For each of `model.clusters` with constraints, in their order, it is σ_min / σ_max of singular values of K, the Jacobian of
    its loop equations, K v = 0. Of the "coordinates": of K's dependent part, the rows that are kept and the columns of
    dependent velocities; where it tends to 0, the independent velocities no longer determine the others (a turning point of
    their joints), though others may: `Model.independent_at`. Results lose about as many digits as this has zeros. Of a single
    loop equation, σ_max is that of its whole row. Of the "mechanism": of all of K, σ_min being the last that is not zero in
    regular states; where it tends to 0, the mechanism itself gains a freedom, at a dead point or where branches meet, and no
    choice is good. 1 where a cluster has no dependent velocity.

    K is taken without units: equations on lengths are divided by the cluster's length L, the largest distance of two hinges on
    one body (or the longest rod, its equation divided by L²); sliding velocities are counted in L per second; equations of
    gears and other couplings of coordinates are divided by their largest coefficient. So a mechanism has the same
    conditioning at every size. `parameters` as in all functions; L stays that of the model's own numbers.
    """
    if of not in KINDS:
        raise ModelError(f"loop_conditioning: of must be one of {', '.join(KINDS)}, not {of!r}")
    clusters = looped(model) if isinstance(model, Model) else []
    if not clusters and isinstance(model, Model):
        return np.ones((*_batch(model, q), 0))
    flat, _ = loop_equations(model, q, **({"parameters": parameters} if parameters else {}))
    return _of_all(clusters, flat, of)


def neutral_conditioning(model: Model) -> list[tuple[Cluster, float, float]]:
    """Conditioning of coordinates and of the mechanism in the neutral state, by cluster with loops; nothing is compiled."""
    equations = [np.asarray(K, dtype=float) for K in unit_free_equations(model, model.neutral())]
    pairs = zip(looped(model), equations)
    return [(c, float(_ratio(K, c, whole=False)), float(_ratio(K, c, whole=True))) for c, K in pairs]


def _of_all(clusters: list[Cluster], flat: np.ndarray, of: str) -> np.ndarray:
    """The conditioning of each cluster, of their equations one after the other."""
    found, start = [], 0
    for cluster in clusters:
        size = len(cluster.rows) + len(cluster.independent)
        K = flat[..., start : start + cluster.count * size].reshape(*flat.shape[:-1], cluster.count, size)
        start += cluster.count * size
        found.append(_ratio(K, cluster, whole=of == "mechanism"))
    return np.stack(found, axis=-1)


def _ratio(K: np.ndarray, cluster: Cluster, *, whole: bool) -> np.ndarray:
    """σ_min / σ_max of the dependent part of K, or of the `whole`, (...); NaN where K has such."""
    rank = len(cluster.rows)
    if rank == 0:
        return np.ones(K.shape[:-2])
    regular = np.isfinite(K).all(axis=(-2, -1))
    K = np.where(regular[..., None, None], K, 0.0)
    kept = K[..., list(cluster.rows), :]
    s = np.linalg.svd(K if whole else kept[..., cluster.dependent], compute_uv=False)
    alone = rank == 1 and not whole and not all(c.linear for c in cluster.constraints)  # σ_min / σ_max of a number says nothing
    largest = np.linalg.norm(kept[..., 0, :], axis=-1) if alone else s[..., 0]
    ratio = np.divide(s[..., rank - 1], largest, out=np.zeros(largest.shape), where=largest > 0.0)
    return np.where(regular, ratio, np.nan)


def _batch(model: Model, q: Any) -> tuple[int, ...]:
    shape = np.shape(q)
    if not shape or shape[-1] != model.nq:
        raise ModelError(f"loop_conditioning: q has shape {shape}, not (..., {model.nq})")
    return shape[:-1]
