"""Maps from actuators to joints through loops: q̇_j = G_j G_a⁺ q̇_a (Loops footnotes 3 and 5).

q̇_j = G_j ẏ and q̇_a = G_a ẏ. Joints of one family of clusters follow actuators of that family only. Power is
the same on both sides: τ_a = (G_j G_a⁺)ᵀ τ_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.loops.embedded_derivatives import velocity_map
from linkwork.errors import ModelError
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.solve import solve

STATES = 2  # closed configurations in which `check_followed` tests the map
FOLLOW_TOL = 1e-7  # unexplained part of a joint's velocity, relative, up to which it follows


def families(model: Model) -> list[tuple[list[int], list[int]]]:
    """Return indices of spanning and of independent velocities that loops couple, for each family."""
    members: dict[int, tuple[list[int], list[int]]] = {}
    start = 0
    for cluster in model.clusters:
        spanning, independent = members.setdefault(cluster.family[0], ([], []))
        spanning += [c for k in cluster.bodies for c in range(model.nv_spanning)[model.joints[k].v_slice]]
        independent += range(start, start + len(cluster.independent))
        start += len(cluster.independent)
    return list(members.values())


def actuator_map(model: Model, q: np.ndarray, actuators: Sequence[int], joints: Sequence[int]) -> np.ndarray:
    """Return the map from q̇ of actuators to q̇ of joints, (joints, actuators), by spanning tree indices."""
    G = velocity_map(tree(model, q))
    out: Any = np.zeros((len(joints), len(actuators)), dtype=object)
    for spanning, independent in families(model):
        joint_rows = [k for k, c in enumerate(joints) if c in spanning]
        actuator_columns = [k for k, c in enumerate(actuators) if c in spanning]
        if joint_rows and actuator_columns:
            W = G[np.ix_([actuators[k] for k in actuator_columns], independent)]
            out[np.ix_(joint_rows, actuator_columns)] = _times_pseudoinverse(
                G[np.ix_([joints[k] for k in joint_rows], independent)], W
            )
    return out


def _times_pseudoinverse(G: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return G W⁺ for a W of full rank."""
    rows, columns = W.shape
    if rows == columns:
        return solve(W.T, G.T).T
    if rows > columns:  # more actuators than DoF, whose velocities are consistent
        return Factor(mirrored(W.T @ W)).solve(G.T).T @ W.T
    return Factor(mirrored(W @ W.T)).solve(W @ G.T).T  # DoF that neither moves, such as spinning rods


def _sampled(model: Model) -> list[np.ndarray]:
    """Return G in some closed configurations."""
    if "sampled velocity maps" not in model.cache:
        states = [model.random_state(seed)[0] for seed in range(STATES if model.embedded else 1)]
        model.cache["sampled velocity maps"] = [velocity_map(tree(model, q)).astype(float) for q in states]
    return model.cache["sampled velocity maps"]


def check_followed(
    model: Model, actuators: Sequence[int], joints: Sequence[int], words: str = "actuators"
) -> None:
    """Raise ModelError if some joints do not follow the actuators, or actuators depend on one another.

    `words` is the user's name for the actuators: for the inverse map they are "joints".
    """
    names = [name for joint in model.joints for name in joint.v_names]
    for G in _sampled(model):
        for spanning, independent in families(model):
            followers = [c for c in joints if c in spanning]
            drivers = [c for c in actuators if c in spanning]
            W = G[np.ix_(drivers, independent)]
            unexplained = (
                G[np.ix_(followers, independent)]
                - G[np.ix_(followers, independent)] @ np.linalg.pinv(W, rcond=FOLLOW_TOL) @ W
            )
            for c, row in zip(followers, unexplained):
                if np.abs(row).max() > FOLLOW_TOL * max(1.0, np.abs(G[c]).max()):
                    driver_names = " " + ", ".join(repr(names[k]) for k in drivers)
                    moving_with = ", ".join(repr(model.v_names[k]) for k in independent)
                    raise ModelError(
                        f"{names[c]!r} of {printable(model.name)} does not follow the "
                        f"{words}{driver_names if drivers else ', none of which moves it'}: it moves with "
                        f"{moving_with}"
                    )
            if followers and np.linalg.matrix_rank(W, tol=FOLLOW_TOL) < min(W.shape):
                driver_names = ", ".join(repr(names[k]) for k in drivers)
                raise ModelError(
                    f"the {words} {driver_names} of {printable(model.name)} move as one another: name fewer "
                    "of them"
                )


def check_driven(model: Model, actuators: Sequence[int]) -> None:
    """Raise ModelError if as many actuators as a family has DoF, or more, do not determine its motion."""
    names = [name for joint in model.joints for name in joint.v_names]
    for spanning, independent in families(model):
        drivers = [c for c in actuators if c in spanning]
        ranks = [
            np.linalg.matrix_rank(_relative(G[np.ix_(drivers, independent)]), tol=FOLLOW_TOL)
            for G in _sampled(model)
            if len(drivers) >= len(independent)
        ]
        if ranks and max(ranks) < len(independent):
            raise ModelError(
                f"actuators of {printable(model.name)}: expected joints that determine the motion of "
                f"{', '.join(repr(model.v_names[k]) for k in independent)}, got "
                f"{', '.join(repr(names[c]) for c in drivers)}, which loops lock or couple"
            )


def _relative(W: np.ndarray) -> np.ndarray:
    """Return W with rows of length one, except those that are zero but for rounding."""
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    return W / np.maximum(lengths, FOLLOW_TOL)
