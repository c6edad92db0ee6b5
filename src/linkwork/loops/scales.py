"""Scales that free a cluster's loop equations of units, so that their conditioning does not
depend on metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.loops.clusters import Cluster
from linkwork.loops.motion import all_equations
from linkwork.loops.numeric import NumericPosture
from linkwork.mechanism import LoopConstraint, Mechanism

# deformation of a flexible body per radian of its joints when loops are closed, relative to its typical size
LOOP_DEFORMATION = 1e-6


class Scales(NamedTuple):
    """Scales of equations, (count,), and velocities, (size,),
    that make diag(rows) K diag(columns) unit-free.
    """

    rows: np.ndarray
    columns: np.ndarray

    def __call__(self, K: np.ndarray) -> np.ndarray:
        """Return unit-free K of the cluster's own joints, (count, size), from K, (count, at least size)."""
        return self.rows[:, None] * K[:, : len(self.columns)] * self.columns


def scales_of(model: Mechanism, cluster: Cluster, held: float = LOOP_DEFORMATION) -> Scales:
    """Return the scales of a cluster, from its `length_of`.

    Equations on lengths are divided by it, and sliding velocities are measured in lengths per second.
    Velocities tied by gears to slower ones are measured in multiples of these. Equations between coordinates
    are divided by their largest coefficient at neutral joints.
    """
    length = length_of(model, cluster.bodies, cluster.constraints)
    across = velocity_units(model, cluster.bodies, length, held)
    if cluster.rows and held == LOOP_DEFORMATION:  # modes that depend on others bend as these say
        across = across * np.where(following_modes(model, cluster), 1.0 / LOOP_DEFORMATION, 1.0)
    across = across * _gears(model, cluster, across)
    rows = [np.zeros(0)]
    for constraint in cluster.constraints:
        if _rows(constraint):
            rows.append(1.0 / row_units(model, [constraint], length))
            continue
        largest = np.abs(_at_neutral(model, cluster, constraint) * across).max(axis=1, initial=0.0)
        rows.append(1.0 / np.where(largest > 0.0, largest, 1.0))
    return Scales(np.concatenate(rows), across)


def following_modes(model: Mechanism, cluster: Cluster) -> np.ndarray:
    """Return a mask of the dependent modal velocities, (size,), in loops that joints alone cannot close."""
    kinds = [model.joints[k].kind for k in cluster.bodies]
    mask = np.array([kind.elastic for kind in kinds for _ in range(kind.nv)], dtype=bool)
    mask[list(cluster.independent)] = False
    return mask


def row_units(model: Mechanism, constraints: Sequence[LoopConstraint], length: float) -> np.ndarray:
    """Return the unit of each equation's residual, (equations,): a length, its square for rods, or one."""
    units: list[float] = []
    for constraint in constraints:
        equations = _rows(constraint)
        units += [length ** (2 if e.length is not None else int(e.across is None)) for e in equations]
        units += [] if equations else [1.0] * constraint.count(model.joints)
    return np.array(units)


def velocity_units(model: Mechanism, bodies: Sequence[int], length: float, held: float = 1.0) -> np.ndarray:
    """Return the unit of each velocity, (size,): a radian, or a length for sliding joints.

    Modal coordinates of flexible bodies are compared with their usual size, times `held`.
    """
    kinds = [model.joints[k].kind for k in bodies]
    return np.concatenate(
        [np.zeros(0), *(kind.units(length) * (held if kind.elastic else 1.0) for kind in kinds)]
    )


def _gears(model: Mechanism, cluster: Cluster, across: np.ndarray) -> np.ndarray:
    """Return the ratio of each velocity to the slowest one that linear equations tie it to, (size,)."""
    faster = np.ones(len(across))
    for constraint in cluster.constraints:
        for row in _at_neutral(model, cluster, constraint) * across if constraint.linear else ():
            tied = row != 0.0
            faster[tied] = np.maximum(faster[tied], np.abs(row).max() / np.abs(row[tied]))
    return faster


def _at_neutral(model: Mechanism, cluster: Cluster, constraint: LoopConstraint) -> np.ndarray:
    """Return K of a constraint between coordinates, (count, size), at neutral joints."""
    posture = NumericPosture(model, cluster.bodies)
    posture.move(model.tree_neutral())
    return all_equations(posture, [constraint])[0].astype(float)


def length_of(model: Mechanism, bodies: Sequence[int], constraints: Sequence[LoopConstraint]) -> float:
    """Return the length of loops [m]: the largest distance of hinges on one body, or the longest rod.

    1 if all hinges are in one place, so that no length matters.
    """
    points: dict[int, list[np.ndarray]] = {}
    for k in bodies:
        joint = model.joints[k]
        points.setdefault(joint.parent, []).append(joint.place.p)
        points.setdefault(k, []).append(np.zeros(3))
    length = 0.0
    for constraint in constraints:
        length = max([length, *(row.length for row in _rows(constraint) if row.length is not None)])
        for end in constraint.ends:
            points.setdefault(end.body, []).append(end.place.p)
    for several in points.values():
        at = np.array(several, dtype=float)
        length = max(length, float(np.linalg.norm(at[:, None] - at[None], axis=-1).max()))
    return length or 1.0


def _rows(constraint: LoopConstraint) -> list[Any]:
    """Return the equations of a loop joint; none for constraints between coordinates."""
    return getattr(constraint, "closure_rows", [])
