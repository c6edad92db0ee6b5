"""The equations of a cluster that are kept: those of its constraints without the redundant ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linkwork.joints import Joint
from linkwork.parts import LoopConstraint, Mechanism
from linkwork.parts.loops import Posture
from linkwork.topology.clusters import Cluster
from linkwork.topology.elimination import rounded_up
from linkwork.topology.motion import ClusterPosture, Speeds, cluster_posture
from linkwork.topology.numeric import NumericPosture
from linkwork.topology.scales import length_of

SAMPLES = 3  # states in which entries of the loop equations are looked at


def kept_equations(posture: ClusterPosture, cluster: Cluster) -> np.ndarray:
    """K of the equations that are kept, (rows, width), in the form that gives short programs."""
    return np.concatenate([c.embedded(posture, own) for c, own in _shares(posture, cluster)])


def kept_drifts(posture: ClusterPosture, cluster: Cluster, speeds: Speeds) -> np.ndarray:
    """-k of these equations, (rows,): what K v̇ is not."""
    return np.concatenate([c.embedded_drift(posture, own, speeds) for c, own in _shares(posture, cluster)])


def entry_sizes(model: Mechanism, cluster: Cluster) -> np.ndarray:
    """How large the entries of these equations become in a model's columns of dependent velocities, (rows, rows).

    As powers of two, from some states of the tree, closed or not. Equations of one loop in the same unit count together, so
    that it does not matter along which axes they are written.
    """
    rng, length = np.random.default_rng(0), length_of(model, cluster.bodies, cluster.constraints)
    most = np.zeros((len(cluster.rows), len(cluster.rows)))
    for sample in range(SAMPLES):
        q = np.concatenate([_somewhere(joint.kind, length, rng) if sample else joint.kind.neutral() for joint in model.joints])
        below = _below(model, cluster.below, q)
        posture = NumericPosture(model, cluster.bodies, below, cluster.supports)
        posture.move(q)
        found = []
        for constraint, own in _shares(posture, cluster):
            K = constraint.equations(posture)[0][:, cluster.dependent].astype(float)
            found += [np.sqrt(np.sum(K[constraint.alike(row)] ** 2, axis=0)) for row in own]
        most = np.fmax(most, np.nan_to_num(np.array(found), nan=0.0, posinf=0.0).reshape(most.shape))
    return rounded_up(most)


def _somewhere(kind: Joint, length: float, rng: np.random.Generator) -> np.ndarray:
    """Coordinates of a joint that may have turned by any angle, and moved about as far as the mechanism is large."""
    q = kind.neutral()
    if kind.elastic or not kind.nv:
        return kind.random(rng)
    turns = np.abs(kind.subspace(q)[:3].astype(float)).max(axis=0, initial=0.0) > 0.0
    return np.asarray(kind.integrate(q, rng.normal(size=kind.nv) * np.where(turns, 1.5, length)), dtype=float)


def _below(model: Mechanism, cluster: Cluster | None, q: np.ndarray) -> ClusterPosture | None:
    if cluster is None:
        return None
    return cluster_posture(model, cluster.bodies, q, _below(model, cluster.below, q), cluster.supports)


def _shares(posture: Posture, cluster: Cluster) -> Iterator[tuple[LoopConstraint, list[int]]]:
    """Each constraint, and which of its equations are kept."""
    joints: Any = _JointsOf(posture)
    start, n = 0, 0
    for constraint in cluster.constraints:
        stop, first = start + constraint.count(joints), n
        while n < len(cluster.rows) and cluster.rows[n] < stop:
            n += 1
        yield constraint, [row - start for row in cluster.rows[first:n]]
        start = stop


class _JointsOf:
    """The joints of a posture, by index."""

    def __init__(self, posture: Posture) -> None:
        self._posture = posture

    def __getitem__(self, k: int) -> Any:
        return self._posture.joint(k)
