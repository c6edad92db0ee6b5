"""How joints follow actuators through loops: q̇_j = G_j ẏ and q̇_a = G_a ẏ, so q̇_j = G_j G_a⁺ q̇_a (Loops footnotes 3 and 5).

Joints of one family of clusters follow actuators of that family only. Power is the same on both sides: τ_a = (G_j G_a⁺)ᵀ τ_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.embedded_derivatives import velocity_map
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.parts.names import shown
from linkwork.simplify.trees import tree
from linkwork.spatial import Factor, mirrored
from linkwork.spatial.solve import solve

STATES = 2  # closed configurations at which it is looked at whether joints follow
FOLLOWS = 1e-7  # of a joint's velocity, what may be left where it follows


def families(model: Model) -> list[tuple[list[int], list[int]]]:
    """The velocities of the spanning tree and of the model, by their places, that loops tie to each other."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    start = 0
    for cluster in model.clusters:
        spanning, own = found.setdefault(cluster.family[0], ([], []))
        spanning += [c for k in cluster.bodies for c in range(model.nv_spanning)[model.joints[k].v_slice]]
        own += range(start, start + len(cluster.independent))
        start += len(cluster.independent)
    return list(found.values())


def actuator_map(model: Model, q: np.ndarray, actuators: Sequence[int], joints: Sequence[int]) -> np.ndarray:
    """q̇_joints = map q̇_actuators, both at these places of the spanning tree, (joints, actuators)."""
    G = velocity_map(tree(model, q))
    out: Any = np.zeros((len(joints), len(actuators)), dtype=object)
    for spanning, own in families(model):
        of = [k for k, c in enumerate(joints) if c in spanning]
        by = [k for k, c in enumerate(actuators) if c in spanning]
        if of and by:
            W = G[np.ix_([actuators[k] for k in by], own)]
            out[np.ix_(of, by)] = _followed(G[np.ix_([joints[k] for k in of], own)], W)
    return out


def _followed(G: np.ndarray, W: np.ndarray) -> np.ndarray:
    """G W⁺ for a W of full rank."""
    rows, columns = W.shape
    if rows == columns:
        return solve(W.T, G.T).T
    if rows > columns:  # more actuators than freedoms: whose velocities go together
        return Factor(mirrored(W.T @ W)).solve(G.T).T @ W.T
    return Factor(mirrored(W @ W.T)).solve(W @ G.T).T  # freedoms that neither moves, such as rods that spin


def _sampled(model: Model) -> list[np.ndarray]:
    """G in some closed configurations."""
    if "sampled velocity maps" not in model.memory:
        states = [model.random_state(seed)[0] for seed in range(STATES if model.embedded else 1)]
        model.memory["sampled velocity maps"] = [velocity_map(tree(model, q)).astype(float) for q in states]
    return model.memory["sampled velocity maps"]


def check_followed(model: Model, actuators: Sequence[int], joints: Sequence[int], words: str = "actuators") -> None:
    """An error where some of the joints do not follow the actuators, or these depend on one another in too few freedoms.

    `words` say what the actuators are for the user: for the inverse map they are "joints".
    """
    names = [name for joint in model.joints for name in joint.v_names]
    for G in _sampled(model):
        for spanning, own in families(model):
            of, by = [c for c in joints if c in spanning], [c for c in actuators if c in spanning]
            W = G[np.ix_(by, own)]
            left = G[np.ix_(of, own)] - G[np.ix_(of, own)] @ np.linalg.pinv(W, rcond=FOLLOWS) @ W
            for c, row in zip(of, left):
                if np.abs(row).max() > FOLLOWS * max(1.0, np.abs(G[c]).max()):
                    raise ModelError(
                        f"{names[c]!r} of {shown(model.name)} does not follow the {words}"
                        f"{' ' + ', '.join(map(repr, (names[k] for k in by))) if by else ', none of which moves it'}: "
                        f"it moves with {', '.join(map(repr, (model.v_names[k] for k in own)))}"
                    )
            if of and np.linalg.matrix_rank(W, tol=FOLLOWS) < min(W.shape):
                listed = ", ".join(repr(names[k]) for k in by)
                raise ModelError(f"the {words} {listed} of {shown(model.name)} move as one another: name fewer of them")
